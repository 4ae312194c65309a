"""The bodies that requests bring: what each must look like, and how the one that comes in thousands is read."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, cast

import msgspec
from pydantic import BaseModel, ConfigDict, Field

MOST, LONGEST = 1000, 100  # examples of a request, and letters of an id
LONGEST_NAME = 200  # of a client
TEXT = "^[^\\x00]*$"  # PostgreSQL keeps every letter but this one


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NewExample(Strict):
    """An input is a name of the catalogue or a list of numbers."""

    x: str | list[float]
    y: float
    noise: float = 1.0


class NamedExample(NewExample):
    id: str = Field(min_length=1, max_length=LONGEST, pattern=TEXT)


class NewExamples(Strict):
    examples: list[NamedExample] = Field(min_length=1, max_length=MOST)


class NewClients(Strict):
    names: list[Annotated[str, Field(min_length=1, max_length=LONGEST_NAME, pattern=TEXT)]] = Field(
        min_length=1, max_length=10_000
    )


class PlainExample(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    id: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST)]
    x: str | list[float]
    y: float
    noise: float = 1.0


class PlainExamples(msgspec.Struct, forbid_unknown_fields=True):
    examples: Annotated[list[PlainExample], msgspec.Meta(min_length=1, max_length=MOST)]


PLAIN = msgspec.json.Decoder(PlainExamples)


def read_examples(body: bytes) -> NewExamples:
    """From JSON. Where nothing is to be converted or refused, msgspec reads the same in a quarter of the time, into
    objects with the same fields; else pydantic has its way and its words."""
    with suppress(msgspec.MsgspecError, ValueError):
        if b"\\u0000" not in body:
            return cast(NewExamples, PLAIN.decode(body))
    return NewExamples.model_validate_json(body)

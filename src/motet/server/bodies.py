"""The bodies of requests: their fields and limits, how they are read, and how much of them is in memory at once.

A body is read only for a caller whose token is valid. Nothing is built that the study cannot take: a list of the wrong
length ends the reading at its first surplus number.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from anyio import CapacityLimiter, sleep, to_thread
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from motet.errors import Busy, InvalidData, WrongDimension
from motet.study.study import Study
from motet.tables.columns import Columns, doubled
from motet.text import printable, shortened

MAX_EXAMPLES_PER_REQUEST = 1000
MAX_NAMES_PER_REQUEST = 10_000
MAX_ID_LENGTH = 100  # characters
MAX_NAME_LENGTH = 200  # characters
MAX_REASON_LETTERS = 200
MAX_BRACES = 6 * MAX_EXAMPLES_PER_REQUEST  # in a body of examples: each has one or two, and an id may have four
SMALL_BODY_BYTES = 16_384  # these are read at once, on the event loop
LARGE_BODIES_BYTES = 2**25  # of all larger bodies in memory,
SENDER_BODIES_BYTES = 2**22  # and of those of one sender, if it has more than one
LARGE_BYTES_PER_SECOND = 2**24  # that are received of them, all together
TEXT_PATTERN = "^[^\\x00]*$"  # PostgreSQL stores every character but this one
ID_PATTERN = r"^(?!\.{1,2}\Z)[^\x00/\\]*\Z"  # an id is a part of an address: .. would lead to that of all examples
MARKS = (b"\\", b"/", b'"."', b'".."')  # a body without any of them has no text that a pattern refuses
TYPE_WORDS = {"float": "a number", "int": "a number", "str": "text", "array": "a list", "object": "an object"} | {
    "bool": "true or false", "null": "nothing"
}  # fmt: skip
NAME_REFUSAL = re.compile(r"Object (missing required|contains unknown) field `(.*)`", re.DOTALL)

T = TypeVar("T")
B = TypeVar("B", bound=msgspec.Struct)


class NewExample(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, gc=False):
    """An input is a name in the catalogue, a list of numbers, or an object of cells by column."""

    x: Any
    y: float
    noise: float = 1.0


class IdentifiedExample(NewExample, kw_only=True, gc=False):
    id: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_ID_LENGTH)]


class NewExamples(msgspec.Struct, forbid_unknown_fields=True):
    examples: Annotated[list[IdentifiedExample], msgspec.Meta(min_length=1, max_length=MAX_EXAMPLES_PER_REQUEST)]


class NewClients(msgspec.Struct, forbid_unknown_fields=True):
    names: Annotated[
        list[Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME_LENGTH)]],
        msgspec.Meta(min_length=1, max_length=MAX_NAMES_PER_REQUEST),
    ]


def body_types(study: Study) -> tuple[type[NewExample], type[NewExamples]]:
    """The bodies of one and of many examples, whose inputs are those of the study."""
    columns = study.model.columns
    x: Any = tuple[(float,) * study.dimension]  # type: ignore[misc]  # its reading ends at a surplus number
    if columns is not None:  # a struct's fields have Python's names
        kinds = [float if column.is_numeric else str | float | bool if column.values else str for column in columns]
        fields = [(f"x{k}", kind) for k, kind in enumerate(kinds)]
        names = {f"x{k}": name for k, name in enumerate(columns.names)}
        x = msgspec.defstruct("Input", fields, rename=names, forbid_unknown_fields=True, kw_only=True, gc=False)
    elif study.model.catalogue is not None:
        x = str | x
    options: dict[str, Any] = {"kw_only": True, "gc": False}
    one: Any = msgspec.defstruct("NewExample", [("x", x)], bases=(NewExample,), **options)
    each: Any = msgspec.defstruct("IdentifiedExample", [("x", x)], bases=(IdentifiedExample,), **options)
    many = Annotated[list[each], msgspec.Meta(min_length=1, max_length=MAX_EXAMPLES_PER_REQUEST)]
    return one, msgspec.defstruct("NewExamples", [("examples", many)], bases=(NewExamples,))  # type: ignore[return-value]


class Reader(Generic[B]):
    """Bodies of one kind, from JSON; a refusal is short, whatever the body. ``texts`` are what the database stores."""

    def __init__(
        self,
        kind: type[B],
        texts: Callable[[B], Iterable[str]],
        pattern: str,
        max_braces: int | None = None,
        *,
        columns: Columns | None = None,
        size: Callable[[B], int] = lambda _: 1,
    ) -> None:
        """With ``columns`` a body has ``size`` inputs by name."""
        self._decoder, self._texts, self._max_braces = msgspec.json.Decoder(kind), texts, max_braces
        self._pattern = re.compile(pattern)
        self._columns, self._size = columns, size
        self._keys = [json.dumps(name, ensure_ascii=False).encode() for name in columns.names] if columns else []

    def __call__(self, body: bytes) -> B:
        if self._max_braces is not None and body.count(b"{") > self._max_braces:
            raise InvalidData(f"expected at most {MAX_EXAMPLES_PER_REQUEST} examples: send fewer at once", where="body")
        try:
            fields = self._decoder.decode(body)
        except msgspec.MsgspecError as error:
            raise _refusal(str(error), self._columns) from None
        except ValueError:
            raise InvalidData("expected JSON in UTF-8, got other bytes", where="body") from None
        if any(mark in body for mark in MARKS) and not all(map(self._pattern.match, self._texts(fields))):
            raise InvalidData(f"expected text of the pattern {self._pattern.pattern}", where="body")
        if self._columns is not None:
            self._check_keys(body, self._size(fields))
        return fields

    def _check_keys(self, body: bytes, size: int) -> None:
        """Refuse an object with a name twice, of which msgspec would take the last.

        Every input has every name, so if the body has each as often as it has inputs, none is there twice.
        """
        if b"\\" not in body and all(body.count(key) == size for key in self._keys):
            return
        if place := doubled_key(json.loads(body, object_pairs_hook=Pairs)):
            raise doubled(place[-1]).at("body." + ".".join(place))


class Pairs(list[tuple[str, Any]]):
    """The names and values of a JSON object, in their order."""


def doubled_key(value: Any) -> list[str]:
    """Where the first name is that an object has twice; empty if there is none."""
    if not isinstance(value, list):
        return []
    pairs = value if isinstance(value, Pairs) else [(str(k), part) for k, part in enumerate(value)]
    seen = set[str]()
    for name, part in pairs:
        if name in seen:
            return [name]
        seen.add(name)
        if inner := doubled_key(part):
            return [name, *inner]
    return []


def _refusal(message: str, columns: Columns | None) -> InvalidData:
    """msgspec's message, such as "Expected `float`, got `str` - at `$.examples[0].x[1]`", in our words."""
    text, _, path = message.rpartition(" - at `$")
    text, path = (text, path.rstrip("`")) if text else (message, "")
    if columns is not None and re.match(r"(\.examples\[\d+\])?\.x", path):
        return _refusal_by_name(text, path, columns)
    text = re.sub(r"`([\w |]+)`", lambda kinds: _in_words(kinds[1]), shortened(text, MAX_REASON_LETTERS))
    if path.endswith(".x") and text.endswith("got an object"):
        text += ": the inputs of this study have no names"
    kind = WrongDimension if path.endswith(".x") and " of length " in text else InvalidData
    return kind(printable(text[:1].lower() + text[1:]), where=_where(path))


def _refusal_by_name(text: str, path: str, columns: Columns) -> InvalidData:
    """The refusal of an input that has other names than the columns, or other cells."""
    path, _, name = path.partition(".x")
    where = f"{_where(path)}.x{name}"
    if about_name := NAME_REFUSAL.fullmatch(text):
        refusal = columns.missing if about_name[1] == "missing required" else columns.unknown
        return refusal(about_name[2]).at(where)
    expected = next((column.expected for column in columns if name == f".{column.name}"), columns.expected)
    _, _, got = text.partition(", got ")
    return InvalidData(
        f"expected {expected}, got {_in_words(got.strip('`')) if got else 'a number out of range'}", where=where
    )


def _where(path: str) -> str:
    return "body" + re.sub(r"\[(\w+)\]", r".\1", shortened(path, MAX_REASON_LETTERS))


def _in_words(kinds: str) -> str:
    return " or ".join(TYPE_WORDS.get(kind, kind) for kind in kinds.split(" | "))


class Bodies:
    """Reads the bodies of one study's requests.

    Small ones are read as they come. Larger ones are received at a pace that leaves most of the event loop's time to
    others, and read by a thread, one at a time. They share a number of bytes: if they would exceed it, they are refused
    before they are received.
    """

    def __init__(self, study: Study) -> None:
        one, many = body_types(study)
        self._columns = study.model.columns
        self.example = Reader(one, lambda _: (), TEXT_PATTERN, columns=self._columns)
        self.examples = Reader(
            many,
            lambda body: (e.id for e in body.examples),
            ID_PATTERN,
            MAX_BRACES,
            columns=self._columns,
            size=lambda body: len(body.examples),
        )
        self.clients: Reader[NewClients] = Reader(NewClients, lambda body: body.names, TEXT_PATTERN)
        self._bytes: Counter[str] = Counter()  # of larger bodies, by sender
        self._thread = CapacityLimiter(1)
        self._received = 0.0  # when all that came would have come at that pace

    def inputs(self, examples: Iterable[NewExample]) -> list[Any]:
        """The inputs of examples: names, tuples of numbers, or cells by column."""
        if self._columns is None:
            return [example.x for example in examples]
        names = self._columns.names
        return [dict(zip(names, msgspec.structs.astuple(example.x))) for example in examples]

    @property
    def large_bytes(self) -> int:
        """Of the larger bodies that are in memory, or on their way."""
        return self._bytes.total()

    async def read(self, request: Request, sender: str, parse: Callable[[bytes], T]) -> T:
        """What ``parse`` makes of a request's body."""
        length = int(request.headers.get("content-length", "0"))
        try:
            if length <= SMALL_BODY_BYTES:
                return parse(await request.body())
            with self._share(sender, length):
                parts = []
                async for part in request.stream():
                    parts.append(part)
                    await self._keep_pace(len(part))
                return await to_thread.run_sync(parse, b"".join(parts), limiter=self._thread)
        except ClientDisconnect:
            raise HTTPException(400, "the body ended early") from None

    async def _keep_pace(self, received: int) -> None:
        now = time.monotonic()
        self._received = max(self._received, now) + received / LARGE_BYTES_PER_SECOND
        await sleep(self._received - now)

    @contextmanager
    def _share(self, sender: str, length: int) -> Iterator[None]:
        """Room for one more body; each sender may have one of any size, and so may all together."""
        own, all_bytes = self._bytes[sender], self.large_bytes
        if (own and own + length > SENDER_BODIES_BYTES) or (all_bytes and all_bytes + length > LARGE_BODIES_BYTES):
            raise Busy("the server has as many large bodies as it can take now: try again in a second")
        self._bytes[sender] += length
        try:
            yield
        finally:
            self._bytes[sender] -= length
            if not self._bytes[sender]:
                del self._bytes[sender]


def schemas(study: Study) -> dict[str, Any]:
    """For an OpenAPI document: what each kind of body has."""
    kinds = (*body_types(study), NewClients)
    return dict(msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")[1])


def example_bodies(study: Study) -> list[tuple[str, str, str, Any]]:
    """Bodies that a study accepts: path, method, kind and an example."""
    low, high = study.limits.y or (-1.0, 1.0)
    catalogue, columns, points = study.model.catalogue, study.model.columns, study.points
    x: Any = [0.0] * study.dimension if points is None else points[0].tolist()
    x = catalogue.names[0] if catalogue else columns.example() if columns else x
    example = {"x": x, "y": (low + high) / 2, "noise": min(max(1.0, study.limits.noise[0]), study.limits.noise[1])}
    return [
        ("/v1/examples", "post", "NewExamples", {"examples": [{"id": "1", **example}]}),
        ("/v1/me/examples/{id}", "put", "NewExample", example),
        ("/v1/clients", "post", "NewClients", {"names": ["somebody"]}),
    ]

"""What the calls answer, as types: the OpenAPI document has them, so that programs can be written from it.

Handlers return plain dictionaries, which nothing checks on their way: a test compares every answer with its type here.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from motet.study.schema import TableSection

RELEASE_TYPE = "application/octet-stream"
REMOVAL_DELAY = (
    "Deleted, and in no release computed later; the files, or the current release if that has no noise, may have it "
    "still: note says until when."
)


# --- refusals ---


class ErrorFields(BaseModel):
    code: str = Field(description="what kind of refusal it is, for a program")
    message: str = Field(description="what was expected, what came, and what to do")
    where: str | None = Field(description="the field of the request that is meant")


class ErrorBody(BaseModel):
    """The one format of every error."""

    error: ErrorFields


# --- anyone ---


class Health(BaseModel):
    status: Literal["ok"]


class Budget(BaseModel):
    """Of a private study: what it may spend, and what it has spent."""

    epsilon: float
    delta: float
    per: Literal["study", "client"]
    releases: int = Field(description="how many are planned")
    made: int = Field(description="how many were made")
    spent: float = Field(description="ε of the releases that were made")
    left: float = Field(description="ε of those that are left")


class ExampleLimits(BaseModel):
    """Bounds of an example, [lowest, highest]; whatever is outside is refused."""

    y: list[float] | None
    noise: list[float]
    examples_per_client: int


class OutputFacts(BaseModel):
    """The output as people read and give it."""

    name: str
    unit: str | None
    scale: list[float] | None = Field(description="[lowest, highest, step]")


class SettingsSource(BaseModel):
    """Where the settings of the model come from."""

    source: Literal["file", "pilot"]
    clients: int | None = Field(default=None, description="of the pilot")
    joins: bool | None = Field(default=None, description="whether they take part too, which ε does not cover")


class StudyFacts(BaseModel):
    name: str
    policy: Literal["private", "exact"]
    model: dict[str, Any] | None = Field(default=None, description="kernels and settings; left out with model=false")
    dimension: int = Field(description="how many numbers an input has")
    bounds: list[list[float]] | None = Field(description="of each column of the inputs, [lowest, highest]")
    limits: ExampleLimits
    output: OutputFacts
    table: TableSection
    settings: SettingsSource
    version: int = Field(description="of the current release; 0 before the first, and while it is withdrawn")
    withdrawn: str | None = Field(description="why the current release is withdrawn")
    next_release: float | None = Field(description="seconds since 1970; null after the last")
    budget: Budget | None
    refused: str | None = Field(description="why the last release that was due was not made")


# --- a client ---


class Sent(BaseModel):
    accepted: int
    duplicates: int
    count: int = Field(description="of the client's examples, afterwards")
    ended: str | None = Field(default=None, description="why no later release will have them, if none will")


class AboutMe(BaseModel):
    id: str
    name: str
    count: int = Field(description="of the client's examples")
    left_out: str | None = Field(description="why the current release does not have them")
    ended: str | None = Field(description="why no later release will have what the client sends")
    releases_taken_part_in: int | None = Field(default=None, description="if each client has a budget of its own")


class StoredExample(BaseModel):
    id: str
    x: str | list[float] | dict[str, str | float] = Field(description="in the form in which the study takes inputs")
    y: float
    noise: float


class ExamplePage(BaseModel):
    examples: list[StoredExample]
    next: str | None = Field(description="the after of the next page")


class ReleasedExamples(BaseModel):
    inputs: list[list[float]]
    y: list[float]
    noise: list[float]


class OwnCoefficients(ReleasedExamples):
    """The client's folded examples and their coefficients, for one release."""

    release: str = Field(description="the digest of the release")
    a: list[float]
    kernel: dict[str, Any]
    released: ReleasedExamples | None = Field(description="what the release has of the client, if that has changed")


class Erasure(BaseModel):
    erased: bool = Field(description="whether nothing of it is in any file, or served")
    note: str | None = Field(default=None, description="what is still there, if it is not erased yet")


class ChangedExample(Erasure):
    id: str


class ForgottenMe(Erasure):
    removed: int = Field(description="how many examples were deleted")


# --- the operator ---


class NewClient(BaseModel):
    id: str
    name: str
    token: str = Field(description="shown only here")


class NewClientList(BaseModel):
    clients: list[NewClient]


class ListedClient(BaseModel):
    id: str
    name: str
    revoked: bool
    examples: int
    left_out: str | None = Field(description="why the current release does not have the client")


class ClientPage(BaseModel):
    clients: list[ListedClient]
    next: str | None = Field(description="the after of the next page")


class ExampleCount(BaseModel):
    examples: int
    clients: int = Field(description="how many have so many examples")


class Figures(BaseModel):
    clients: list[ExampleCount]
    expected_examples: int | None
    center: float
    shortened: float | None = Field(description="the share of clients that the clip shortens")


class RemovedClient(BaseModel):
    id: str
    removed: int = Field(description="how many examples were deleted")
    erased: bool | None = Field(default=None, description="whether nothing of them is in any file, or served")
    note: str | None = Field(default=None, description="what is still there, if it is not erased yet")


class NewToken(BaseModel):
    id: str
    token: str = Field(description="shown only here")


class MadeRelease(BaseModel):
    version: int
    made: float = Field(description="seconds since 1970")
    scale: float | None = Field(description="of the noise")
    spent: float | None = Field(description="ε, by then")


class Pending(BaseModel):
    clients: int
    examples: int
    changes: int = Field(description="since the last release")


class ReleasePage(BaseModel):
    releases: list[MadeRelease]
    next: Pending


class ReleaseVersion(BaseModel):
    version: int


class Refusal(BaseModel):
    time: float = Field(description="seconds since 1970")
    method: str
    route: str
    status: int


class RefusalPage(BaseModel):
    refusals: list[Refusal]

"""The sections and keys of a study file: what each takes, and its default.

A key's description completes "expected …", so the same words refuse a value and document the key.
"""

from __future__ import annotations

import hashlib
import re
from datetime import timedelta
from ipaddress import ip_network
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator

from motet.arrays import MAX_MAGNITUDE, Array, finite_number, is_whole_number
from motet.model.basis import BASES, Bias
from motet.model.model import BIASES
from motet.privacy.ledger import Ledger
from motet.text import alternatives

MAX_BASIS_POINTS = 5000  # their kernel matrix must fit into memory
MAX_SCALE_STEPS = 10_000  # of a control that chooses an output
SALT_LETTERS, DIGEST_LETTERS = 32, 16  # of a pilot
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
STORE_URLS = {  # one of each kind of database, and the form of all of them
    "sqlite:///file.db": r"sqlite(\+pysqlite)?:///\S.*",
    "postgresql+psycopg://…": r"postgresql\+psycopg://\S.*",
}
FILE_URL = re.compile(r"(sqlite[^:]*:///)([^?]*)(.*)")  # of a file: what is before its path, the path, what is behind

# --- validators of values; whatever the reason of a refusal, its text is the key's description ---


def _refuse_unless(right: bool) -> None:
    if not right:
        raise ValueError


def _number(value: Any) -> float:
    if (number := finite_number(value)) is None:
        raise ValueError
    return number


def _pair(value: Any) -> tuple[float, float]:
    _refuse_unless(isinstance(value, list) and len(value) == 2)
    low, high = map(_number, value)
    _refuse_unless(low <= high)
    return low, high


def _wide(pair: tuple[float, float]) -> tuple[float, float]:
    _refuse_unless(pair[0] < pair[1])
    return pair


def _scale(value: Any) -> tuple[float, float, float]:
    _refuse_unless(isinstance(value, list) and len(value) == 3)
    low, high, step = map(_number, value)
    _refuse_unless(low < high and 0 < step <= high - low <= MAX_SCALE_STEPS * step)
    return low, high, step


def _positive(pair: tuple[float, float]) -> tuple[float, float]:
    _refuse_unless(pair[0] > 1 / MAX_MAGNITUDE)
    return pair


def _pairs(value: Any) -> tuple[tuple[float, float], ...]:
    _refuse_unless(isinstance(value, list) and bool(value))
    return tuple(map(_pair, value)) if isinstance(value[0], list) else (_pair(value),)


def _rows(value: Any) -> tuple[tuple[float, ...], ...]:
    _refuse_unless(isinstance(value, list) and 0 < len(value) <= MAX_BASIS_POINTS)
    _refuse_unless(all(isinstance(row, list) and row for row in value))
    return tuple(tuple(map(_number, row)) for row in value)


def _bias(value: Any) -> Any:
    columns = value if isinstance(value, list) else []
    named = all(isinstance(k, str) for k in columns) or all(is_whole_number(k) for k in columns)
    _refuse_unless(value in BIASES or (bool(columns) and named))
    return value


def _line(text: str) -> str:
    _refuse_unless(bool(text.strip()) and text.isprintable())
    return text.strip()


def _duration(value: Any) -> timedelta:
    match = re.fullmatch(r"([1-9][0-9]{0,5})([smhd])", value) if isinstance(value, str) else None
    if match is None:
        raise ValueError
    return timedelta(**{UNITS[match[2]]: int(match[1])})


def _matching(pattern: str) -> AfterValidator:
    def checked(text: str) -> str:
        _refuse_unless(re.fullmatch(pattern, text) is not None)
        return text

    return AfterValidator(checked)


def _url(text: str) -> str:
    _refuse_unless(any(re.fullmatch(form, text) for form in STORE_URLS.values()))
    return text


def _as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, dict) else tuple(value) if isinstance(value, list) else value


Number: TypeAlias = Annotated[float, PlainValidator(_number)]
Positive: TypeAlias = Annotated[Number, Field(gt=0)]
Pair: TypeAlias = Annotated[tuple[float, float], PlainValidator(_pair)]
Pairs: TypeAlias = Annotated[tuple[tuple[float, float], ...], PlainValidator(_pairs)]
Line: TypeAlias = Annotated[str, AfterValidator(_line)]
Epsilon: TypeAlias = Annotated[Number, Field(ge=1e-6), AfterValidator(lambda e: Ledger(epsilon=e).epsilon)]
Delta: TypeAlias = Annotated[Number, AfterValidator(lambda d: Ledger(epsilon=1.0, delta=d).delta)]

# --- the sections ---


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class About(Section):
    name: Line = Field(description='a name, one line of text such as "Music taste"')


class ModelSection(Section):
    lam: Positive = Field(description="a number above 0")
    individual: dict[str, Any] = Field(description='a kernel such as { kernel = "rbf", length_scale = 1.0 }')
    common: Annotated[dict[str, Any] | None, BeforeValidator(lambda value: None if value == "none" else value)] = Field(
        default=None, description='a kernel such as { kernel = "rbf", length_scale = 1.0 }, or "none"'
    )
    alpha: Annotated[Number, Field(ge=0, le=1)] | None = Field(default=None, description="a number from 0 to 1")
    sigma2: Positive | None = Field(default=None, description="a number above 0")
    bias: Annotated[Bias | tuple[str, ...], PlainValidator(_bias)] = Field(
        default="constant",
        description='"none", "constant" or "linear", or a list of inputs such as ["hours"] or of column numbers',
    )


class Inputs(Section):
    catalogue: Line | None = Field(default=None, description="the name of a CSV file of items")
    dimension: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        default=None, description="a whole number from 1 to 1000"
    )
    columns: list[dict[str, Any]] | None = Field(
        default=None, description='a list of inputs such as { name = "hours", bounds = [0.0, 24.0], unit = "h" }'
    )
    normalise: bool = Field(default=False, description="true or false")
    bounds: Pairs | None = Field(
        default=None, description="[lowest, highest] for all columns, or a list with one such pair for each"
    )


OTHER_COLUMNS = {  # of tables, whatever the study
    "id": "ids of examples",
    "noise": "noise variances of examples",
    "mean": "predictions",
    "std": "standard deviations of predictions",
}


class TableSection(Section):
    """The columns of clients' tables that are not inputs."""

    client: Line = Field(default="client", description="the column that names each row's client")
    target: Line = Field(default="y", description="the column of outputs")
    name: Line = Field(default="name", description="the column of the items' names, if there is a catalogue")


class Output(Section):
    """The output as people read and give it; ``limits`` are what may be sent, and may be wider than its scale."""

    name: Line | None = Field(default=None, description='a name such as "rating"; else it is that of table.target')
    unit: Line | None = Field(default=None, description='a unit such as "mg/L"')
    scale: Annotated[tuple[float, float, float], PlainValidator(_scale)] | None = Field(
        default=None,
        description="[lowest, highest, step], as people give outputs, such as [1.0, 5.0, 0.5]; "
        f"at most {MAX_SCALE_STEPS} steps",
    )


class Grid(Section):
    start: Number = Field(alias="from", description="a number")
    to: Number = Field(description="a number")
    count: int = Field(ge=2, le=MAX_BASIS_POINTS, description=f"a whole number from 2 to {MAX_BASIS_POINTS}")


class BasisSection(Section):
    """A kind of basis, and a key for every setting that one of them has; ``grid`` is another way to write ``points``.

    A study file may choose a kind if each of its settings has a key here, None by default. ``spread`` is a third way:
    so many points between the bounds of the inputs.
    """

    kind: str = Field(default="growing", description='a kind of basis such as "landmarks"')
    rank: Annotated[int, Field(ge=1)] | None = Field(default=None, description="a whole number from 1")
    points: Annotated[tuple[tuple[float, ...], ...], PlainValidator(_rows)] | None = Field(
        default=None, description=f"a list of points, each a list of numbers, at most {MAX_BASIS_POINTS}"
    )
    grid: Annotated[tuple[Grid, ...], BeforeValidator(_as_tuple)] = Field(
        default=(), description="{ from = 0.0, to = 1.0, count = 10 }, or a list with one such table for each column"
    )
    spread: Annotated[int, Field(ge=2, le=MAX_BASIS_POINTS)] | None = Field(
        default=None, description=f"a whole number from 2 to {MAX_BASIS_POINTS}, of points spread between the bounds"
    )

    def table(self, dimension: int) -> Array | None:
        """The points, or all of the grid; None if the file has neither."""
        if self.points is not None:
            return np.array(self.points)
        if not self.grid:
            return None
        axes = [np.linspace(g.start, g.to, g.count) for g in self.grids(dimension)]
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, dimension)

    def grids(self, dimension: int) -> tuple[Grid, ...]:
        return self.grid * dimension if len(self.grid) == 1 else self.grid

    @classmethod
    def settings(cls) -> list[str]:
        """The keys that are settings of a basis."""
        return [key for key in cls.model_fields if key not in ("kind", "grid", "spread")]


def basis_kinds(*settings: str) -> list[str]:
    """The kinds of basis that a study file may choose; with ``settings``, those that take them."""
    takes = {kind: set(cls.settings()) for kind, cls in BASES.items()}
    return [kind for kind, keys in takes.items() if set(settings) <= keys <= set(BasisSection.settings())]


class Limits(Section):
    """Limits of an example; enforced when it is sent."""

    y: Annotated[Pair, AfterValidator(_wide)] | None = Field(
        default=None, description="[lowest, highest], two numbers such as [-10.0, 10.0]"
    )
    noise: Annotated[Pair, AfterValidator(_positive)] = Field(
        default=(0.01, 100.0), description="[lowest, highest], two numbers above 0"
    )
    examples_per_client: int = Field(default=500, ge=1, le=1_000_000, description="a whole number from 1 to 1000000")


class Release(Section):
    """When releases come, and what they promise."""

    policy: Literal["private", "exact"] = Field(default="private", description='"private" or "exact"')
    every: Annotated[timedelta, PlainValidator(_duration)] = Field(
        default=timedelta(days=1), description='a time such as "30s", "15m", "12h" or "1d"'
    )
    epsilon: Epsilon | None = Field(default=None, description="a number above 0 (1e-6 or more) and at most 20")
    delta: Delta = Field(default=1e-5, description="a number above 0 and at most 0.01, well below one over the clients")
    releases: Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        default=None, description="a whole number from 1 to 10000, how many releases share epsilon"
    )
    per: Literal["study", "client"] = Field(default="study", description='"study" or "client"')
    examples: int = Field(
        default=5, ge=1, le=200, description="a whole number from 1 to 200, as many as a client may have"
    )

    center: Number = Field(default=0.0, description="a number, a typical output")

    @property
    def seconds(self) -> float:
        """Between two releases."""
        return self.every.total_seconds()


class PilotSection(Section):
    """The clients whose rows the settings come from: a digest of each, of the salt and its name."""

    clients: int = Field(ge=1, description="a whole number from 1, how many digests there are")
    share: Annotated[Number, Field(gt=0, le=1)] = Field(description="a number above 0 and at most 1")
    salt: Annotated[str, _matching(rf"[0-9a-f]{{{SALT_LETTERS}}}")] = Field(
        description=f"{SALT_LETTERS} hexadecimal digits"
    )
    joins: bool = Field(default=False, description="true or false")
    digests: Annotated[
        tuple[Annotated[str, _matching(rf"[0-9a-f]{{{DIGEST_LETTERS}}}")], ...], BeforeValidator(_as_tuple)
    ] = Field(description=f"a list of texts of {DIGEST_LETTERS} hexadecimal digits each, as motet init writes it")

    def has(self, client: str) -> bool:
        """Whether a client is of the pilot."""
        return digest_of(self.salt, client) in self.digests


def digest_of(salt: str, client: str) -> str:
    """The first 64 bits of SHA-256, in hexadecimal digits."""
    return hashlib.sha256(f"{salt}{client}".encode()).hexdigest()[:DIGEST_LETTERS]


class Store(Section):
    url: Annotated[str, AfterValidator(_url)] | None = Field(default=None, description=alternatives(*STORE_URLS))


class Server(Section):
    """Where the server listens, whom it answers, and how much it takes."""

    host: Line = Field(default="127.0.0.1", description='an address such as "127.0.0.1"')
    port: int = Field(default=8000, ge=0, le=65535, description="a whole number from 0 (any free one) to 65535")
    origins: Annotated[tuple[Annotated[str, _matching(r"\*|https?://[^/\s]+")], ...], BeforeValidator(_as_tuple)] = (
        Field(default=(), description='a list of origins such as "https://example.org"')
    )
    download: Literal["anyone", "clients"] = Field(default="anyone", description='"anyone" or "clients"')
    max_body: int = Field(
        default=1_000_000, ge=1000, le=10**9, description="bytes, a whole number from 1000 to 1000000000"
    )
    rate: Positive = Field(default=50.0, description="requests a second, a number above 0")
    max_connections: int = Field(default=4000, ge=1, le=10**6, description="a whole number from 1 to 1000000")
    max_connections_per_address: int = Field(
        default=200, ge=1, le=10**6, description="a whole number from 1 to 1000000"
    )
    proxies: Annotated[
        tuple[Annotated[str, AfterValidator(lambda text: str(ip_network(text)))], ...], BeforeValidator(_as_tuple)
    ] = Field(default=("127.0.0.1", "::1"), description='a list of addresses or networks such as "10.0.0.0/8"')


class File(Section):
    study: About = Field(description="a section with a name")
    model: ModelSection = Field(description="a section with alpha, lam, common and individual")
    inputs: Inputs = Field(description="a section with columns, a catalogue or a dimension")
    table: TableSection = Field(default_factory=TableSection, description="a section")
    output: Output = Field(default_factory=Output, description="a section")
    basis: BasisSection = Field(default_factory=BasisSection, description="a section")
    limits: Limits = Field(default_factory=Limits, description="a section")
    release: Release = Field(default_factory=Release, description="a section")
    pilot: PilotSection | None = Field(default=None, description="a section that motet init writes")
    store: Store = Field(default_factory=Store, description="a section")
    server: Server = Field(default_factory=Server, description="a section")

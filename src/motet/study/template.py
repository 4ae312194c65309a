"""The text of a new study file: every section and key, each with a comment that says what it means and why this value.

``Draft`` writes one from a few choices, without data; ``proposal`` writes one that is right for a table.
"""

from __future__ import annotations

import json
import math
import os
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from motet.errors import InvalidData, InvalidStudy
from motet.kernels.registry import COMPOSITES, KERNELS
from motet.model.basis import NYSTROM_POINTS
from motet.study.scale import Scale, even_scale
from motet.study.schema import TableSection
from motet.study.study import Study
from motet.tables.catalogue import Catalogue
from motet.tables.files import check_new, writing
from motet.tables.items import Items, items_file, written_items

MAX_COMMENT_LETTERS = 70  # behind a value; a longer comment goes above it
MAX_LINE_LETTERS = 110
MAX_ITEMS_COMPARED = 500  # for a length scale
MAX_NAMED_RANK = 400  # of a catalogue without features, each of whose items is a direction of its own
FEATURE_RANK = 40  # of a catalogue with features
GRID_COUNTS = (25, 7, 4)  # points of a grid in every column, for 1, 2 and 3 columns
RANGE_DEVIATIONS = 8.0  # the range of outputs in standard deviations of the average, if nothing else is known

Policy: TypeAlias = Literal["private", "exact"]


@dataclass(frozen=True, kw_only=True)
class Promise:
    """What the study will promise, and to how many clients; None is as many as the pilot lets expect."""

    policy: Policy = "private"
    epsilon: float = 3.0
    releases: int = 10
    every: str = "1d"
    clients: int | None = None

    @classmethod
    def of(cls, *, policy: Policy | None, epsilon: float | None, releases: int | None, **others: Any) -> Promise:
        """What is chosen; None is the default."""
        if policy == "exact" and (epsilon is not None or releases is not None):
            raise InvalidData('epsilon= and releases= need a private study; with policy="exact", omit them')
        settings = {"policy": policy, "epsilon": epsilon, "releases": releases, **others}
        return cls(**{key: value for key, value in settings.items() if value is not None})


class Entry(NamedTuple):
    """A value of a study file, and why."""

    value: Any
    comment: str = ""


Sections: TypeAlias = dict[str, dict[str, Entry]]


# --- text ---


def text(sections: Sections, heading: str) -> str:
    """A study file, with comments behind the names of sections."""
    lines = [f"# {line}" for line in heading.splitlines()]
    for section, entries in sections.items():
        comment = COMMENTS.get(section, "")
        lines += ["", f"[{section}]" + (f"   # {comment}" if comment else "")]
        for key, entry in entries.items():
            lines += _entry_lines(key, entry)
    return "\n".join(lines) + "\n"


def _entry_lines(key: str, entry: Entry) -> list[str]:
    line = f"{key} = {toml(entry.value)}"
    if not entry.comment:
        return [line]
    if len(entry.comment) <= MAX_COMMENT_LETTERS and len(line) < MAX_COMMENT_LETTERS and "\n" not in line:
        return [f"{line}   # {entry.comment}"]
    return [*textwrap.wrap(entry.comment, MAX_LINE_LETTERS, initial_indent="# ", subsequent_indent="# "), line]


class EntryList(list[Entry]):
    """A list with a line for each part, and a comment behind it."""


def toml(value: Any) -> str:
    """A value of TOML."""
    if isinstance(value, EntryList):
        parts = "".join(f"  {toml(part)},{f'   # {why}' if why else ''}\n" for part, why in value)
        return f"[\n{parts}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {toml(one)}' for key, one in value.items())} }}"
    if isinstance(value, Sequence):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value)


def eigen(points: int) -> Entry:
    """The kind of basis by eigenvectors over so many points."""
    several = points > NYSTROM_POINTS
    return Entry("nystrom", "eigenvectors of some points, which stand for all") if several else Entry("eigen")


def rounded(number: float, digits: int = 4) -> float:
    """A number with so many digits, as people write settings."""
    return float(f"{number:.{digits}g}")


def rounded_share(share: float, digits: int = 4) -> float:
    """A number from 0 to 1, rounded so that neither it nor what is left of 1 changes: 0.99999 leaves 0.00001, not 0."""
    return rounded(share, digits) if share < 0.5 else round(1 - rounded(1 - share, digits), 15)


# --- what every study file has ---

HEADING = "A study of Motet: what is learned, of which inputs, and what is promised to clients."
COMMENTS = {
    "model": "f = average + shift of each client",
    "inputs": 'columns; or catalogue = "items.csv", with normalise; or dimension = 2, with bounds',
    "table": "columns of clients' tables that are not inputs",
    "basis": "growing (exact only), landmarks, eigen or nystrom (rank), features; of points, a grid, or spread",
    "output": "as people read and give it",
    "limits": "public; examples outside them are refused",
    "pilot": "whose rows all settings above come from, if they come from a table",
}
KERNEL_LIST = f"Kernels: {', '.join(KERNELS)}, and {', '.join(COMPOSITES)} of others; columns = [...] chooses inputs."


def inputs(catalogue: Path, study: Path, comment: str) -> dict[str, Entry]:
    """The section of the inputs, if they are the items of a catalogue."""
    beside = os.path.relpath(catalogue.absolute(), study.absolute().parent)
    return {"catalogue": Entry(beside, comment), "normalise": Entry(False, "true: features of unit length")}


def table(columns: TableSection) -> dict[str, Entry]:
    """The section of the columns of clients' tables."""
    comments = {"client": "whose row it is", "target": "the output", "name": "of an item, if there is a catalogue"}
    return {key: Entry(getattr(columns, key), comment) for key, comment in comments.items()}


def limits(y: Entry, examples: Entry) -> dict[str, Entry]:
    """The section of the limits of an example, and of how many a client may have."""
    noise = Entry([0.01, 100.0], "an example's noise variance, as a multiple of lam * sigma2")
    return {"y": y, "noise": noise, "examples_per_client": examples}


def promise(chosen: Promise | Draft, *, examples: Entry, center: Entry) -> dict[str, Entry]:
    """The section of the releases."""
    return {
        "policy": Entry(
            chosen.policy,
            "private: (epsilon, delta) differential privacy; exact: none, for parties who trust each other",
        ),
        "every": Entry(
            chosen.every, "30s, 15m, 12h, 1d; after a private release or a backup it may become longer, not shorter"
        ),
        "epsilon": Entry(chosen.epsilon, "privacy budget of all releases together: smaller is more private"),
        "delta": Entry(1e-5, "well below one over the number of clients"),
        "releases": Entry(chosen.releases, "how many releases share epsilon"),
        "per": Entry("study", 'the study ends after them; "client": each client leaves after that many'),
        "examples": examples,
        "center": center,
    }


def output(name: str, scale: Scale, unit: str = "") -> dict[str, Entry]:
    """The section of the output."""
    return {
        "name": Entry(name),
        **({"unit": Entry(unit, "which tables may have in its cells")} if unit else {"# unit": Entry("mg/L")}),
        "scale": Entry(list(scale), "lowest, highest, step: where the page's controls go; limits may be wider"),
    }


def server(database: str) -> Sections:
    """The sections of the database and the server."""
    return {
        "store": {
            "# url": Entry(
                f"sqlite:///{database}", "beside this file; or postgresql+psycopg://user:password@host/database"
            )
        },
        "server": {
            "host": Entry("127.0.0.1"),
            "port": Entry(8000),
            "origins": Entry([], 'web pages that may send requests, such as "https://example.org"'),
            "download": Entry("anyone", "who may download releases: anyone or clients"),
            "max_body": Entry(1_000_000, "bytes per request"),
            "rate": Entry(50, "requests per second and client"),
            "max_connections": Entry(4000, "at once,"),
            "max_connections_per_address": Entry(200, "and from one address, unless it is a proxy's"),
            "proxies": Entry(["127.0.0.1", "::1"], "reverse proxies, whose X-Forwarded-For is believed"),
        },
    }


def write(path: Path, sections: Sections, items: Items | None, heading: str = HEADING, *, force: bool = False) -> Study:
    """Write a study file and, if they are new, its items, and load it; if it does not load, restore what was there."""
    content = text(sections, heading)
    with written_items(items, path, force=force):
        with writing(path, InvalidStudy):
            before = path.read_bytes() if path.exists() else None
            path.write_text(content, encoding="utf-8")
        try:
            return Study.load(path)
        except BaseException:
            path.unlink() if before is None else path.write_bytes(before)
            raise


# --- a study without data ---


@dataclass(frozen=True, kw_only=True)
class Draft:
    """The choices for a new study without data; inputs are the items of a ``catalogue``, or numbers, ``dimension`` of
    them or those that ``inputs`` names.

    Outputs lie in the range ``y``; clients differ from each other by the standard deviation ``shift_std``, and repeated
    outputs of one client by one of ``noise``; None takes a share of the range.
    """

    name: str = "A new study"
    catalogue: Path | None = None
    inputs: tuple[str, ...] = ()
    dimension: int = 1
    bounds: tuple[float, float] = (0.0, 1.0)
    y: tuple[float, float] = (-10.0, 10.0)
    shift_std: float | None = None
    noise: float | None = None
    policy: Policy = "private"
    epsilon: float = 3.0
    releases: int = 10
    every: str = "1d"
    encoding: str | None = None  # of the catalogue's file

    def write(self, path: Path, *, force: bool = False) -> Study:
        check_new(path, force=force)
        return write(path, self.sections(path), self.items, force=force)

    @cached_property
    def items(self) -> Items | None:
        return None if self.catalogue is None else Items.read(self.catalogue, encoding=self.encoding)

    def sections(self, path: Path) -> Sections:
        items = None if self.items is None else self.items.catalogue
        examples = Entry(5, "expected per client")
        center = Entry(rounded(sum(self.y) / 2), "a typical output, about which clients are clipped")
        return {
            "study": {"name": Entry(self.name)},
            "model": self._model(items),
            "inputs": self._inputs(path),
            "table": table(TableSection()),
            "output": output("y", even_scale(*sorted(self.y))),
            "basis": self._basis(items),
            "limits": limits(Entry(list(self.y)), Entry(500)),
            "release": promise(self, examples=examples, center=center),
            **server(f"{path.stem}.db"),
        }

    def _model(self, items: Catalogue | None) -> dict[str, Entry]:
        """σ² is the variance of average and shifts together, α the average's share, λ the noise's variance over σ²."""
        average = (self.y[1] - self.y[0]) / RANGE_DEVIATIONS
        shift = average if self.shift_std is None else self.shift_std
        noise = shift / 2 if self.noise is None else self.noise
        sigma2 = average**2 + shift**2
        if not (shift > 0 and noise > 0 and math.isfinite(sigma2)):
            raise InvalidStudy("expected standard deviations of shifts and of noise above 0", where="model.sigma2")
        common, individual = self._kernels(items)
        return {
            "alpha": Entry(rounded_share(average**2 / sigma2), "share of the average, from 0 to 1"),
            "lam": Entry(
                rounded(noise**2 / sigma2), f"noise variance over sigma2: outputs repeat to within {noise:.3g}"
            ),
            "sigma2": Entry(
                rounded(sigma2),
                f"scale of all variances: the average varies by {average:.3g}, clients differ from it by {shift:.3g}",
            ),
            "bias": Entry("constant", 'none, constant or linear; or inputs with a slope, such as ["hours"]'),
            "common": Entry(common, f'of the average; "none": the bias alone. {KERNEL_LIST}'),
            "individual": Entry(individual, "of the shifts"),
        }

    def _kernels(self, items: Catalogue | None) -> tuple[Any, Any]:
        if items is not None and not items.features:
            constant = {"kernel": "constant", "value": 0.5}
            own = {"kernel": "product", "of": [constant, {"kernel": "identity"}]}
            return {"kernel": "identity"}, {"kernel": "sum", "of": [constant, own]}
        if items is not None or self._count <= len(GRID_COUNTS):
            length = _length_scale(items) if items is not None else _two_digits((self.bounds[1] - self.bounds[0]) / 3)
            kernel: Any = {"kernel": "rbf", "length_scale": length}
            return kernel, kernel
        center, half = (self.bounds[0] + self.bounds[1]) / 2, (self.bounds[1] - self.bounds[0]) / 2
        columns = {"center": [rounded(center)] * self._count, "scale": [_two_digits(half)] * self._count}
        share = {"kernel": "constant", "value": rounded(1 / (1 + self._count / 3))}  # so that its variance is about 1
        linear = {"kernel": "scaled", "of": {"kernel": "dot_product", "sigma_0": 1.0}, **columns}
        kernel = {"kernel": "product", "of": [share, linear]}
        return kernel, kernel

    @property
    def _count(self) -> int:
        return len(self.inputs) or self.dimension

    def _inputs(self, path: Path) -> dict[str, Entry]:
        if self.catalogue is not None:
            file = items_file(self.items, path) or self.catalogue
            return inputs(file, path, "beside this file: a header, then name and numeric features")
        if self.inputs:
            columns = EntryList(Entry({"name": name, "bounds": list(self.bounds)}) for name in self.inputs)
            return {"columns": Entry(columns, 'also: unit = "h"; values = ["a", "b"]; since = "2024-01-31", for dates')}
        return {
            "dimension": Entry(self.dimension, "numbers in an input"),
            "bounds": Entry(list(self.bounds), "of every number; or [[lowest, highest], ...]"),
        }

    def _basis(self, items: Catalogue | None) -> dict[str, Entry]:
        if items is not None:
            rank = min(len(items), FEATURE_RANK if items.features else MAX_NAMED_RANK)
            return {"kind": eigen(len(items)), "rank": Entry(rank, "at most the number of items")}
        if self._count > len(GRID_COUNTS):
            return {"kind": Entry("features")}
        low, high = self.bounds
        grid = {"from": low, "to": high, "count": GRID_COUNTS[self._count - 1]}
        return {"kind": Entry("landmarks"), "grid": Entry(grid, "in every column; or points = [[0.1], ...]")}


def _length_scale(items: Catalogue) -> float:
    """Half of the median distance between items. Catalogues are public, so this costs no privacy."""
    sample = items.vectors[:: -(-len(items) // MAX_ITEMS_COMPARED)]
    squares = ((sample[:, None, :] - sample[None, :, :]) ** 2).sum(axis=2)
    apart = squares[squares > 0]
    return _two_digits(float(np.sqrt(np.median(apart))) / 2) if len(apart) else 1.0


def _two_digits(number: float) -> float:
    """Rounded, and above 0 for any number: if the bounds are wrong, the file is refused for that reason."""
    return rounded(number, 2) if number > 0 else 1.0

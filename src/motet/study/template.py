"""A new study file: every key, what it takes, and values that load. ``Draft`` writes one, ``template`` is its text."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from motet.errors import InvalidStudy
from motet.files import check_new, writing
from motet.kernels import COMPOSITES, KERNELS
from motet.model.catalogue import Catalogue
from motet.study.study import Study

MAX_ITEMS_COMPARED = 500  # for a length scale
LINEAR = '{ kernel = "dot_product", sigma_0 = 1.0 }'
NAMES_ALONE = '{ kernel = "identity" }'
GRID_COUNTS = (25, 7, 4)  # points of a grid in every column, for 1, 2 and 3 columns


@dataclass(frozen=True, kw_only=True)
class Draft:
    """The choices for a new study; inputs are the items of a ``catalogue``, or ``dimension`` numbers."""

    name: str = "A new study"
    catalogue: Path | None = None
    dimension: int = 1
    bounds: tuple[float, float] = (0.0, 1.0)
    policy: Literal["private", "exact"] = "private"
    epsilon: float = 3.0
    releases: int = 10
    every: str = "1d"

    def write(self, path: Path, *, force: bool = False) -> Study:
        """Write the file and load it; if it does not load, restore what was there before."""
        check_new(path, force=force)
        text = self._text(path)
        with writing(path, InvalidStudy):
            before = path.read_bytes() if path.exists() else None
            path.write_text(text, encoding="utf-8")
        try:
            return Study.load(path)
        except BaseException:
            path.unlink() if before is None else path.write_bytes(before)
            raise

    def _text(self, path: Path) -> str:
        if self.catalogue is None:
            scale = _two_digits((self.bounds[1] - self.bounds[0]) / 3)
            inputs: dict[str, Any] = {"dimension": self.dimension, "bounds": self.bounds, "length_scale": scale}
        else:
            items = Catalogue.from_csv(self.catalogue)
            beside = os.path.relpath(self.catalogue.absolute(), path.absolute().parent)
            inputs = {"catalogue": beside, "items": len(items), "features": len(items.features)}
            inputs |= {"length_scale": _length_scale(items)}
        return template(
            self.name,
            **inputs,
            policy=self.policy,
            epsilon=self.epsilon,
            releases=self.releases,
            every=self.every,
            database=f"{path.stem}.db",
        )


def _length_scale(items: Catalogue) -> float:
    """Half of the median distance between items. Catalogues are public, so this costs no privacy."""
    sample = items.vectors[:: -(-len(items) // MAX_ITEMS_COMPARED)]
    squares = ((sample[:, None, :] - sample[None, :, :]) ** 2).sum(axis=2)
    distinct = squares[squares > 0]
    return _two_digits(float(np.sqrt(np.median(distinct))) / 2) if len(distinct) else 1.0


def _two_digits(number: float) -> float:
    """Rounded, and above 0 for any number: if the bounds are wrong, the file is refused for that reason."""
    return float(f"{number:.2g}") if number > 0 else 1.0


# --- the text ---


def template(
    name: str,
    *,
    catalogue: str | None = None,
    items: int = 20,
    features: int = 1,
    dimension: int | None = None,
    bounds: tuple[float, float] = (0.0, 1.0),
    length_scale: float = 1.0,
    policy: Literal["private", "exact"] = "private",
    epsilon: float = 3.0,
    releases: int = 10,
    every: str = "1d",
    database: str = "study.db",
) -> str:
    """The text of a study over a ``catalogue`` (a CSV file with this many items and features), or over numbers."""
    if (catalogue is None) == (dimension is None):
        raise TypeError("template needs a catalogue or a dimension, not both")
    smooth = f'{{ kernel = "rbf", length_scale = {length_scale!r} }}'
    if catalogue is not None:
        kernel = smooth if features else NAMES_ALONE
        inputs = f"catalogue = {_quoted(catalogue)}{OR_NUMBERS}\nnormalise = false   # true: features of unit length"
        basis = f'kind = "eigen"\nrank = {max(1, min(40, items))}   # at most the number of items'
    else:
        kernel = smooth if dimension and dimension <= len(GRID_COUNTS) else LINEAR
        low, high = bounds
        inputs = f"dimension = {dimension}{OR_ITEMS}\nbounds = [{low!r}, {high!r}]{OR_PAIRS}"
        basis = _basis(dimension or 1, low, high)
    return TEXT.format(
        name=_quoted(name),
        kernel=kernel,
        kernels=", ".join(KERNELS),
        composites=", ".join(COMPOSITES),
        inputs=inputs,
        basis=basis,
        policy=policy,
        every=_quoted(every),
        epsilon=repr(epsilon),
        releases=repr(releases),
        database=_quoted(f"sqlite:///{database}"),
    )


def _basis(dimension: int, low: float, high: float) -> str:
    if dimension > len(GRID_COUNTS):
        return 'kind = "features"'
    grid = f"{{ from = {low!r}, to = {high!r}, count = {GRID_COUNTS[dimension - 1]} }}"
    return f'kind = "landmarks"\ngrid = {grid}   # in every column; or points = [[0.1], …]'


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


OR_NUMBERS = "   # beside this file: a header, then name and numeric features; or: dimension = 2, bounds = …"
OR_ITEMS = '   # numbers in an input; or: catalogue = "items.csv", with normalise = true or false'
OR_PAIRS = "   # of every column; or [[lowest, highest], …]"
TEXT = """\
# A study of Motet: what is learned, of which inputs, and what is promised to clients.

[study]
name = {name}

[model]   # f = average + shift of each client
alpha = 0.5   # share of the average, from 0 to 1
lam = 0.1     # noise variance, as a multiple of sigma2
sigma2 = 1.0  # scale of all variances; may be left out under policy "exact", which estimates it
bias = "constant"   # none, constant or linear; or columns with a slope: [0, 2]
common = {kernel}   # of the average; "none": the bias alone
individual = {kernel}   # of the shifts
# kernels: {kernels}, and
# {composites} of others; each may choose its columns: columns = [0, 2]

[inputs]
{inputs}

[basis]   # growing (policy "exact" only), landmarks (points or grid), eigen (rank), features (linear kernels)
{basis}

[limits]   # public; examples outside them are refused
y = [-10.0, 10.0]
noise = [0.01, 100.0]   # an example's noise variance, as a multiple of lam * sigma2
examples_per_client = 500

[release]
policy = "{policy}"   # private: (epsilon, delta) differential privacy; exact: none, for parties who trust each other
every = {every}      # 30s, 15m, 12h, 1d; once a private study has started, it may become longer, not shorter
epsilon = {epsilon}     # privacy budget of all releases together: smaller is more private
delta = 1e-5      # well below one over the number of clients
releases = {releases}     # how many releases share epsilon
per = "study"     # the study ends after them; "client": each client leaves after that many
examples = 5      # expected per client

[store]
# url = {database}   # beside this file; or postgresql+psycopg://user:password@host/database

[server]
host = "127.0.0.1"
port = 8000
origins = []           # web pages that may send requests, such as "https://example.org"
download = "anyone"    # who may download releases: anyone or clients
max_body = 1000000     # bytes per request
rate = 50              # requests per second and client
max_connections = 4000               # at once,
max_connections_per_address = 200    # and from one address, unless it is a proxy's
proxies = ["127.0.0.1", "::1"]       # reverse proxies, whose X-Forwarded-For is believed
"""

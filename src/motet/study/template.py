"""A study file to begin with: every key, what it takes, and values that load."""

from __future__ import annotations

import json
from typing import Literal

DOT = '{ kernel = "dot_product", sigma_0 = 1.0 }'
NAMES = '{ kernel = "identity" }'
COUNTS = (25, 7, 4)  # points in every column of a grid, by their number


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
) -> str:
    """The text of a study over a ``catalogue`` (a CSV file of so many items and features), or over numbers."""
    if (catalogue is None) == (dimension is None):
        raise TypeError("template needs a catalogue or a dimension, not both")
    smooth = f'{{ kernel = "rbf", length_scale = {length_scale!r} }}'
    if catalogue is not None:
        kernel = smooth if features else NAMES
        inputs = f"catalogue = {_quoted(catalogue)}{_OR_NUMBERS}\nnormalise = false   # true: features of unit length"
        basis = f'kind = "eigen"\nrank = {max(1, min(40, items))}   # at most as many as there are items'
    else:
        kernel = smooth if dimension and dimension <= len(COUNTS) else DOT
        low, high = bounds
        inputs = f"dimension = {dimension}{_OR_ITEMS}\nbounds = [{low!r}, {high!r}]{_OR_PAIRS}"
        basis = _basis(dimension or 1, low, high)
    said = {"policy": policy, "every": _quoted(every), "epsilon": repr(epsilon), "releases": repr(releases)}
    return _TEXT.format(name=_quoted(name), kernel=kernel, inputs=inputs, basis=basis, **said)


def _basis(p: int, low: float, high: float) -> str:
    if p > len(COUNTS):
        return 'kind = "features"'
    grid = f"{{ from = {low!r}, to = {high!r}, count = {COUNTS[p - 1]} }}"
    return f'kind = "landmarks"\ngrid = {grid}   # in every column; or points = [[0.1], …]'


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


_OR_NUMBERS = "   # beside this file: a header, then name and numeric features; or: dimension = 2, bounds = …"
_OR_ITEMS = '   # numbers in an input; or: catalogue = "items.csv", with normalise = true or false'
_OR_PAIRS = "   # of every column; or [[lowest, highest], …]"
_TEXT = """\
# A study of Motet: what is learned, of which inputs, under which promise.

[study]
name = {name}

[model]   # f = average + shift of each client
alpha = 0.5   # share of the average, from 0 to 1
lam = 0.1     # noise variance, as a multiple of sigma2
sigma2 = 1.0  # scale of all variances; may be left out under policy "exact", which estimates it
bias = "constant"   # none, constant or linear
common = {kernel}   # of the average; "none": the bias alone
individual = {kernel}   # of the shifts
# kernels: rbf, matern, rational_quadratic, exp_sine_squared, dot_product, linear, constant, identity, and
# sum, product, power of others; each may choose its columns: columns = [0, 2]

[inputs]
{inputs}

[basis]   # growing (policy "exact" only), landmarks (points or grid), eigen (rank), features (linear kernels)
{basis}

[limits]   # public; what is outside is refused
y = [-10.0, 10.0]
noise = [0.01, 100.0]   # an example's noise variance, as a multiple of lam * sigma2
examples_per_client = 500

[release]
policy = "{policy}"   # private: (epsilon, delta) differential privacy; exact: none, for parties who trust each other
every = {every}      # 30s, 15m, 12h, 1d
epsilon = {epsilon}     # all releases together; the smaller, the more private
delta = 1e-5      # well below one over the number of clients
releases = {releases}     # that share epsilon
per = "study"     # the study ends after them; "client": each client retires after as many
examples = 5      # that a client is expected to have

[store]
# url = "sqlite:///study.db"   # beside this file; or postgresql+psycopg://user:password@host/database

[server]
host = "127.0.0.1"
port = 8000
origins = []           # web pages that may ask, such as "https://example.org"
download = "anyone"    # who may get releases: anyone or clients
max_body = 1000000     # bytes of a request
rate = 50              # requests a second of each client
"""

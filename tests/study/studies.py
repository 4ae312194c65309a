"""Study files that the tests of this room share, and how they load, change or refuse them."""

from __future__ import annotations

from pathlib import Path

import pytest

from motet.errors import InvalidStudy
from motet.study.study import Study

DESIGN = """
[study]
name = "Music taste"
[model]
alpha = 0.07
lam = 3e-4
sigma2 = 0.6
bias = "none"
common = { kernel = "product", of = [{ kernel = "constant", value = 2.71828 }, { kernel = "rbf", length_scale = 1.0 }] }
individual = { kernel = "sum", of = [{ kernel = "dot_product", sigma_0 = 0.0 }, { kernel = "constant", value = 0.1 }] }
[inputs]
catalogue = "artists.csv"
[basis]
kind = "eigen"
rank = 40
[limits]
y = [-10.0, 10.0]
noise = [0.01, 100.0]
examples_per_client = 500
[release]
policy = "private"
every = "1d"
epsilon = 3.0
delta = 1e-5
releases = 10
[store]
url = "sqlite:///motet.db"
[server]
host = "127.0.0.1"
port = 8000
"""
SHORT = """
[study]
name = "Curves"
[model]
alpha = 0.5
lam = 0.1
sigma2 = 1.0
common = { kernel = "rbf" }
individual = { kernel = "matern" }
[inputs]
dimension = 1
[basis]
kind = "landmarks"
grid = { from = 0.0, to = 1.0, count = 5 }
[limits]
y = [-5.0, 5.0]
[release]
epsilon = 1.0
releases = 3
"""
ITEMS = "name,red,green\nrose,1,0\nleaf,0.5,1.5\nsky,-1e-1,0\n"
EXACT = SHORT.replace("[release]", '[release]\npolicy = "exact"')
NAMED = EXACT.replace("dimension = 1", 'catalogue = "items.csv"').replace(
    "grid = { from = 0.0, to = 1.0, count = 5 }", ""
)
VISITS = """
[study]
name = "Visits"
[model]
alpha = 0.5
lam = 0.1
sigma2 = 1.0
common = { kernel = "rbf", length_scale = 3.0, columns = ["hours"] }
individual = { kernel = "sum", of = [{ kernel = "constant" }, { kernel = "dot_product", columns = ["sex"] }] }
[inputs]
columns = [
  { name = "hours", bounds = [0.0, 24.0], unit = "h" },
  { name = "sex", values = ["f", "m"] },
  { name = "visit", since = 2024-01-01, bounds = [2024-01-01, 2024-12-31] },
]
[table]
client = "patient"
target = "glucose"
[limits]
y = [-5.0, 5.0]
[release]
policy = "exact"
every = "1h"
"""  # an input of each kind, by name


def written(folder: Path, text: str, items: str = ITEMS) -> Path:
    (folder / "items.csv").write_text(items, encoding="utf-8")
    path = folder / "study.toml"
    path.write_text(text, encoding="utf-8")
    return path


def load(folder: Path, text: str, items: str = ITEMS) -> Study:
    return Study.load(written(folder, text, items))


def refused(folder: Path, text: str, items: str = ITEMS) -> str:
    with pytest.raises(InvalidStudy) as caught:
        load(folder, text, items)
    line = str(caught.value)
    assert len(line.splitlines()) == 1
    assert caught.value.code == "invalid_study"
    return line


def changed(text: str, change: dict[str, str]) -> str:
    for old, new in change.items():
        assert old in text
        text = text.replace(old, new, 1)
    return text

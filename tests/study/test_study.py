"""The study file: what it takes, how it refuses, what it pins, and which examples it lets in."""

from __future__ import annotations

import json
import re
import tomllib
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as configured
from hypothesis import strategies as st

from motet import Catalogue, Eigen, Engine, Landmarks
from motet.errors import InvalidData, InvalidNoise, InvalidStudy, WrongDimension
from motet.kernels import On
from motet.privacy.ledger import Ledger
from motet.privacy.mechanism import Mechanism
from motet.study.limits import check_example, check_examples
from motet.study.schema import File
from motet.study.study import Study
from motet.study.template import template

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


# --- what loads ---


def test_the_design_s_example(tmp_path: Path) -> None:
    text = files("motet.music").joinpath("artists.csv").read_text(encoding="utf-8")
    (tmp_path / "artists.csv").write_text(text, encoding="utf-8")
    study = load(tmp_path, DESIGN)
    assert study.name == "Music taste"
    assert study.model.catalogue is not None
    assert len(study.model.catalogue) == 489
    assert isinstance(study.model.basis, Eigen)
    assert study.model.basis.rank == 40
    assert study.release.every == timedelta(days=1)
    assert study.store_url == f"sqlite:///{tmp_path.resolve()}/motet.db"
    assert study.ledger() == Ledger(epsilon=3.0, delta=1e-5, releases=10)
    mechanism = study.mechanism()
    assert isinstance(mechanism, Mechanism)
    assert study.mechanism() is mechanism
    assert len(mechanism.clip.coordinates.points) == 489
    row, y, noise = check_example(study, "The Beatles", 3)
    np.testing.assert_array_equal(row, study.model.catalogue.rows[0])
    assert (y, noise) == (3.0, 1.0)


def test_defaults(tmp_path: Path) -> None:
    study = load(tmp_path, SHORT)
    assert study.private
    assert study.store_url == f"sqlite:///{tmp_path.resolve()}/study.db"
    assert study.model.bias == "constant"
    assert study.limits.noise == (0.01, 100.0)
    assert study.limits.examples_per_client == 500
    assert (study.release.seconds, study.release.delta, study.release.per, study.release.examples) == (
        86400,
        1e-5,
        "study",
        5,
    )
    server = study.server
    assert (server.host, server.port, server.origins, server.download) == ("127.0.0.1", 8000, (), "anyone")
    assert (server.max_body, server.rate) == (1_000_000, 50.0)
    assert isinstance(study.model.basis, Landmarks)
    np.testing.assert_array_equal(study.model.basis.points, np.linspace(0, 1, 5)[:, None])


def test_exact_promises_nothing_and_needs_less(tmp_path: Path) -> None:
    least = (
        '[study]\nname="a"\n[model]\nlam=1\nindividual={kernel="rbf"}\n[inputs]\ndimension=2\n[release]\npolicy="exact"'
    )
    study = load(tmp_path, least)
    assert study.mechanism() is None
    assert study.ledger() is None
    assert study.model.common is None
    assert study.model.sigma2 is None
    assert study.model == load(tmp_path, least.replace("lam=1", 'lam=1\ncommon = "none"')).model


@pytest.mark.parametrize(
    ("every", "seconds"), [("30s", 30), ("15m", 900), ("12h", 43200), ("1d", 86400), ("7d", 604800)], ids=str
)
def test_times(tmp_path: Path, every: str, seconds: int) -> None:
    assert load(tmp_path, SHORT.replace("[release]", f'[release]\nevery = "{every}"')).release.seconds == seconds


@pytest.mark.parametrize(
    ("url", "resolved"),
    [
        ("sqlite:///a/b.db?timeout=5", "sqlite:///{}/a/b.db?timeout=5"),
        ("sqlite:////var/b.db", "sqlite:////var/b.db"),
        ("sqlite:///:memory:", "sqlite:///:memory:"),
        ("postgresql+psycopg://me:secret@host/db", "postgresql+psycopg://me:secret@host/db"),
    ],
)
def test_stores(tmp_path: Path, url: str, resolved: str) -> None:
    study = load(tmp_path, f'{SHORT}[store]\nurl = "{url}"')
    assert study.store_url == resolved.format(tmp_path.resolve())
    assert "secret" not in repr(study)


def test_catalogues(tmp_path: Path) -> None:
    study = load(tmp_path, NAMED)
    catalogue = study.model.catalogue
    assert catalogue is not None
    assert catalogue.names == ("rose", "leaf", "sky")
    np.testing.assert_array_equal(catalogue.vectors, [[1, 0], [0.5, 1.5], [-0.1, 0]])
    assert isinstance(study.model.basis, Landmarks)
    unit = load(tmp_path, NAMED.replace("[basis]", "normalise = true\n[basis]")).model.catalogue
    assert unit is not None
    np.testing.assert_allclose(np.linalg.norm(unit.vectors, axis=1), 1)
    bare = load(tmp_path, NAMED.replace('"rbf"', '"identity"'), '\ufeffname\n"a, b"\n\n c \n').model.catalogue
    assert bare is not None
    assert bare.names == ("a, b", "c")
    assert bare.features == []


def test_columns_grids_and_bounds(tmp_path: Path) -> None:
    change = {
        "dimension = 1": "dimension = 2\nbounds = [[0, 1], [-1, 1]]",
        'kernel = "rbf"': 'kernel = "rbf", columns = [1]',
        "{ from = 0.0, to = 1.0, count = 5 }": "[{ from = 0, to = 1, count = 2 }, { from = 5, to = 6, count = 3 }]",
    }
    study = load(tmp_path, changed(SHORT, change))
    assert isinstance(study.model.common, On)
    assert study.bounds == ((0.0, 1.0), (-1.0, 1.0))
    assert study.points is not None
    np.testing.assert_array_equal(study.points, [[0, 5], [0, 5.5], [0, 6], [1, 5], [1, 5.5], [1, 6]])
    points = "points = [[0.0], [0.5]]\nrank = 1"
    eigen = changed(SHORT, {"landmarks": "eigen", "grid = { from = 0.0, to = 1.0, count = 5 }": points})
    assert load(tmp_path, eigen).mechanism() is not None


@pytest.mark.parametrize("common", ['"none"', '{ kernel = "dot_product" }'])
def test_clients_simulated_between_bounds(tmp_path: Path, common: str) -> None:
    basis = {'kind = "landmarks"': 'kind = "growing"' if common == '"none"' else 'kind = "features"'}
    change = {'{ kernel = "rbf" }': common, "grid = { from = 0.0, to = 1.0, count = 5 }": "", **basis}
    text = changed(SHORT, change)
    assert refused(tmp_path, text).startswith("study.toml, inputs.bounds: missing; expected [lowest, highest]")
    study = load(tmp_path, text.replace("dimension = 1", "dimension = 2\nbounds = [2, 3]"))
    assert study.points is not None
    assert study.points.shape[1] == 2
    assert ((study.points >= 2) & (study.points <= 3)).all()
    assert study.mechanism() is not None


@pytest.mark.parametrize("policy", ["private", "exact"])
@pytest.mark.parametrize("inputs", [*({"dimension": p} for p in (1, 2, 3, 4, 9)), {"catalogue": "items.csv"}], ids=str)
def test_templates_load_and_name_every_key(tmp_path: Path, policy: Any, inputs: dict[str, Any]) -> None:
    text = template('My "first" study', **inputs, items=3, features=2, policy=policy)
    study = load(tmp_path, text)
    assert study.name == 'My "first" study'
    assert study.release.policy == policy
    for section, field in File.model_fields.items():
        assert f"[{section}]" in text
        assert all(key in text for key in field.annotation.model_fields)  # type: ignore[union-attr]


def test_a_template_for_names_alone(tmp_path: Path) -> None:
    assert load(tmp_path, template("a", catalogue="items.csv", items=2, features=0), "name\na\nb\n").private
    with pytest.raises(TypeError, match="a catalogue or a dimension"):
        template("a")


# --- what is refused ---

REFUSED: list[tuple[str, dict[str, str], str]] = [
    ("study.name", {'"Curves"': '" "'}, 'expected a name, one line of text such as "Music taste", got " "'),
    ("study.name", {'name = "Curves"': ""}, "missing; expected a name"),
    ("study.nam", {"name =": "nam ="}, "unknown key; did you mean name? [study] takes name"),
    ("study", {'[study]\nname = "Curves"': ""}, "missing; expected a section with a name"),
    ("limits", {"[limits]\ny = [-5.0, 5.0]": "", "[study]": "limits = 3\n[study]"}, "expected a section, got 3"),
    ("realease", {"[release]": "[realease]"}, "unknown key; did you mean release? a study takes study, model"),
    ("model.epsilon", {"alpha": "epsilon"}, "unknown key; did you mean release.epsilon? [model] takes"),
    ("model.zzz", {"alpha": "zzz = 1\nalpha"}, "unknown key; [model] takes lam, individual, common"),
    ("model.alpha", {"alpha = 0.5": ""}, "missing; expected a number from 0 to 1"),
    ("model.alpha", {"alpha = 0.5": "alpha = 1.5"}, "expected a number from 0 to 1, got 1.5"),
    ("model.alpha", {"alpha = 0.5": "alpha = 0"}, "with alpha 0 nothing is shared"),
    ("model.lam", {"lam = 0.1": "lam = 0"}, "expected a number above 0, got 0"),
    ("model.lam", {"lam = 0.1": "lam = nan"}, "expected a number above 0, got NaN"),
    ("model.lam", {"lam = 0.1": "lam = true"}, "expected a number above 0, got true"),
    ("model.sigma2", {"sigma2 = 1.0": ""}, "a private release needs a public sigma2"),
    ("model.bias", {"lam": 'bias = "flat"\nlam'}, 'expected "none", "constant" or "linear", got "flat"'),
    ("model.common", {'"rbf"': '"rfb"'}, "unknown kernel 'rfb': known are rbf, matern"),
    ("model.common", {'{ kernel = "rbf" }': '"rbf"'}, 'or "none", got "rbf"'),
    ("model.common", {'"rbf"': '"rbf", columns = [1]'}, "cannot read inputs of 1 columns"),
    ("model.individual", {'"matern"': '"matern", nu = -1'}, "nu of Matern must be positive, got -1"),
    ("model.individual", {'individual = { kernel = "matern" }': ""}, "missing; expected a kernel such as"),
    ("inputs", {"dimension = 1": ""}, 'expected catalogue = "file.csv" or dimension = 2, got neither'),
    ("inputs.dimension", {"dimension": 'catalogue = "items.csv"\ndimension'}, "got both"),
    ("inputs.dimension", {"dimension = 1": "dimension = 1.5"}, "expected a whole number from 1 to 1000, got 1.5"),
    ("inputs.normalise", {"dimension": "normalise = true\ndimension"}, "expected only with a catalogue; remove it"),
    ("inputs.normalise", {"dimension": "normalise = 1\ndimension"}, "expected true or false, got 1"),
    ("inputs.bounds", {"dimension": "bounds = [2, 1]\ndimension"}, "for each, got [2, 1]"),
    ("inputs.bounds", {"dimension": "bounds = [[0, 1], [0, 1]]\ndimension"}, "or 1 (inputs.dimension), got 2"),
    ("inputs.catalogue", {"dimension = 1": 'catalogue = "no.csv"', "grid": "# "}, "cannot read "),
    ("basis.kind", {'"landmarks"': '"growing"', "grid": "# "}, "a growing one shows which inputs were sent"),
    ("basis.kind", {'"landmarks"': '"features"', "grid": "# "}, "Features needs a linear common kernel"),
    (
        "basis.kind",
        {'"landmarks"': '"growing"'},
        'expected "landmarks" or "eigen", got "growing"; change it, or remove grid',
    ),
    ("basis.kind", {"grid": "rank = 3\ngrid"}, 'expected "eigen", got "landmarks"; change it, or remove rank'),
    ("basis.kind", {'"landmarks"': '"eigenvectors"'}, '"eigen" or "features", got "eigenvectors"'),
    ("basis.kind", {'{ kernel = "rbf" }': '"none"'}, "a basis is of the common kernel"),
    ("basis.rank", {'"landmarks"': '"eigen"'}, "missing; expected a whole number from 1"),
    ("basis.rank", {'"landmarks"': '"eigen"\nrank = 9'}, "Eigen needs a rank from 1 to 5, its points, got 9"),
    ("basis.grid", {"dimension = 1": 'catalogue = "items.csv"'}, "expected none with a catalogue"),
    ("basis.grid", {"grid": "points = [[1.0]]\ngrid"}, "expected points or a grid, got both; remove one"),
    ("basis.grid", {"to = 1.0": "to = 0.0"}, "expected from below to, got from 0.0 to 0.0"),
    ("basis.grid", {"dimension = 1": "dimension = 9"}, "expected at most 5000 points in all"),
    ("basis.grid.count", {"count = 5": "count = 1"}, "expected a whole number from 2 to 5000, got 1"),
    ("basis.grid.from", {"from = 0.0, ": ""}, "missing; expected a number"),
    ("basis.grid.cont", {"count": "cont"}, "unknown key; did you mean count? [basis.grid] takes from, to, count"),
    (
        "basis.points",
        {"grid": "# "},
        "missing; expected a list of points, each a list of numbers, at most 5000; or a grid",
    ),
    ("basis.points", {"grid": "points = [[1, 2]] # "}, "as many numbers as inputs.dimension, 1, got [1.0, 2.0]"),
    ("basis.points", {"grid": 'points = [["a"]] # '}, 'each a list of numbers, at most 5000, got [["a"]]'),
    ("limits.y", {"y = [-5.0, 5.0]": ""}, "missing; expected [lowest, highest], two numbers"),
    ("limits.y", {"y = [-5.0, 5.0]": "y = [5, 5]"}, "got [5, 5]"),
    ("limits.noise", {"y =": "noise = [0, 1]\ny ="}, "expected [lowest, highest], two numbers above 0, got [0, 1]"),
    ("limits.examples_per_client", {"y =": "examples_per_client = 2001\ny ="}, "expected at most 2000 in a private"),
    ("release.policy", {"[release]": '[release]\npolicy = "open"'}, 'expected "private" or "exact", got "open"'),
    ("release.every", {"[release]": '[release]\nevery = "0d"'}, '"12h" or "1d", got "0d"'),
    ("release.every", {"[release]": "[release]\nevery = 1979-05-27"}, '"12h" or "1d", got "1979-05-27"'),
    ("release.epsilon", {"epsilon = 1.0": 'epsilon = "three"'}, "expected a number above 0"),
    ("release.epsilon", {"epsilon = 1.0": "epsilon = 21"}, "and at most 20, got 21"),
    ("release.epsilon", {"epsilon = 1.0": ""}, "missing; expected a number above 0"),
    ("release.delta", {"[release]": "[release]\ndelta = 0.5"}, "expected a number above 0 and at most 0.01"),
    ("release.releases", {"releases = 3": ""}, 'how many releases share epsilon; or choose policy = "exact"'),
    ("release.releases", {"releases = 3": "releases = 0"}, "expected a whole number from 1 to 10000"),
    ("release.per", {"[release]": '[release]\nper = "day"'}, 'expected "study" or "client", got "day"'),
    ("release.examples", {"[release]": "[release]\nexamples = 0"}, "expected a whole number from 1 to 200"),
    ("store.url", {"[release]": '[store]\nurl = "postgres://me:secret@h/d"\n[release]'}, 'got "postgres://…@h/d"'),
    ("server.host", {"[release]": '[server]\nhost = ""\n[release]'}, 'expected an address such as "127.0.0.1", got ""'),
    ("server.port", {"[release]": "[server]\nport = 65536\n[release]"}, "to 65535, got 65536"),
    ("server.origins", {"[release]": '[server]\norigins = ["a"]\n[release]'}, "expected a list of origins"),
    ("server.download", {"[release]": '[server]\ndownload = "all"\n[release]'}, 'expected "anyone" or "clients"'),
    ("server.max_body", {"[release]": "[server]\nmax_body = 1\n[release]"}, "bytes, a whole number from 1000"),
    ("server.rate", {"[release]": "[server]\nrate = 0\n[release]"}, "requests a second, a number above 0, got 0"),
]


@pytest.mark.parametrize(
    ("key", "change", "message"), REFUSED, ids=[f"{key}-{n}" for n, (key, *_) in enumerate(REFUSED)]
)
def test_refusals_name_the_key(tmp_path: Path, key: str, change: dict[str, str], message: str) -> None:
    line = refused(tmp_path, changed(SHORT, change))
    assert line.startswith(f"study.toml, {key}: ")
    assert message in line
    assert "secret" not in line


def test_nothing_shared_is_nothing_to_release(tmp_path: Path) -> None:
    change = {
        '{ kernel = "rbf" }': '"none"',
        "dimension = 1": "dimension = 1\nbounds = [0, 1]",
        "lam": 'bias = "none"\nlam',
    }
    line = refused(tmp_path, changed(SHORT, change | {'kind = "landmarks"': "", "grid": "# "}))
    assert line.startswith("study.toml, model.bias: without a common kernel and a bias nothing is shared")


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ("", "items.csv: expected a header and at least one row below it, got none"),
        ("rose,1,0\nleaf,0,1\n", "items.csv, row 1: expected a header such as name, feature; got 'rose,1,0'"),
        ("name,red\n", "items.csv: expected a header and at least one row below it, got none"),
        ("name,red\nrose,1\nleaf,x\n", "items.csv, row 3, column red: expected a finite number, got 'x'"),
        ("name,red\nrose,nan\n", "items.csv, row 2, column red: expected a finite number, got 'nan'"),
        ("name,red\n ,1\n", "items.csv, row 2, column name: expected a value, got nothing"),
        ("name,red\nrose,1\n\nrose,2\n", "items.csv, row 4, column name: 'rose' is in row 2 already"),
        ("name,red\nrose,1,2\n", "items.csv, row 2: expected 2 cells, as the header has, got 3"),
        ("name,red\nrose,0\n", "items.csv, row 2: expected a feature other than 0 to normalise, got none"),
    ],
)
def test_refused_catalogues_name_row_and_column(tmp_path: Path, items: str, message: str) -> None:
    text = NAMED.replace("[basis]", "normalise = true\n[basis]")
    assert refused(tmp_path, text, items).startswith(f"study.toml, inputs.catalogue: {message}")


def test_refused_files(tmp_path: Path) -> None:
    assert refused(tmp_path, "[study").startswith("study.toml: expected TOML, got a line that is not: Expected ']'")
    assert refused(tmp_path, "a = " + "[" * 10_000).startswith("study.toml: expected TOML")
    assert refused(tmp_path, SHORT.replace("alpha = 0.5", "alpha = 0x1" + "0" * 9999)).endswith("something very large")
    for missing in (tmp_path / "no.toml", tmp_path, tmp_path / "a\0b"):
        with pytest.raises(InvalidStudy, match=r"cannot read .* expected a study file in TOML, got .*; motet init"):
            Study.load(missing)
    (tmp_path / "latin.toml").write_bytes(b'[study]\nname = "\xe9"')
    with pytest.raises(InvalidStudy, match="cannot read"):
        Study.load(tmp_path / "latin.toml")


def test_what_only_all_points_show_is_refused_with_the_mechanism(tmp_path: Path) -> None:
    points = [[k / 100] for k in range(100)] + [[1e140]]
    power = '{ kernel = "power", exponent = 2.0, of = { kernel = "dot_product" } }'
    study = load(tmp_path, changed(SHORT, {'{ kernel = "rbf" }': power, "grid": f"points = {points} # "}))
    with pytest.raises(InvalidStudy, match=r"^study\.toml, basis: .* is not finite on these inputs"):
        study.mechanism()


# --- junk ---

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["rbf", "sum", "none", 10**400]),
)
KEYS = st.sampled_from(["kernel", "of", "columns", "length_scale", "from", "to", "count", "value", "covariance"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
PLACES = [(name, key) for name, field in File.model_fields.items() for key in field.annotation.model_fields]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "text", [SHORT, NAMED, DESIGN.replace("artists", "items").replace("40", "2")], ids=["grid", "items", "design"]
)
@configured(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.sampled_from(PLACES), value=VALUES)
def test_junk_is_refused_in_one_line_or_loads(tmp_path: Path, text: str, place: tuple[str, str], value: Any) -> None:
    data = tomllib.loads(text)
    data.setdefault(place[0], {})[place[1]] = value
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tomllib, "loads", lambda _: data)  # nothing writes TOML
        line, study = "study.toml, ", None
        try:
            study = load(tmp_path, text)
        except InvalidStudy as error:
            line = str(error)
    assert line.startswith("study.toml, ")
    assert len(line.splitlines()) == 1
    assert study is None or study.contradicts(study.pinned()) is None


# --- what a start pins ---


def test_pinned_is_canonical_and_leaves_the_rest_free(tmp_path: Path) -> None:
    pinned = load(tmp_path, SHORT).pinned()
    assert json.dumps(json.loads(pinned), sort_keys=True, separators=(",", ":")) == pinned
    free = {
        "Curves": "Other",
        "[limits]": "[limits]\nexamples_per_client = 9",
        "[release]": '[server]\nport = 1\n[store]\nurl = "sqlite:///x.db"\n[release]\nevery = "1h"',
        'kernel = "rbf"': 'kernel = "rbf", length_scale = 1',
        "lam = 0.1": "lam = 1e-1",
    }
    assert load(tmp_path, changed(SHORT, free)).pinned() == pinned


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("release.epsilon", {"epsilon = 1.0": "epsilon = 2.0"}),
        ("release.delta", {"[release]": "[release]\ndelta = 1e-6"}),
        ("release.releases", {"releases = 3": "releases = 4"}),
        ("release.per", {"[release]": '[release]\nper = "client"'}),
        ("release.examples", {"[release]": "[release]\nexamples = 6"}),
        ("model.alpha", {"alpha = 0.5": "alpha = 0.6"}),
        ("model.sigma2", {"sigma2 = 1.0": "sigma2 = 2.0"}),
        ("model.common", {'"rbf"': '"matern"'}),
        ("model.bias", {"lam": 'bias = "none"\nlam'}),
        ("basis.points", {"count = 5": "count = 6"}),
        ("basis.kind", {'"landmarks"': '"eigen"\nrank = 2'}),
        ("inputs.bounds", {"dimension = 1": "dimension = 1\nbounds = [0, 1]"}),
        ("inputs.dimension", {"dimension = 1": "dimension = 2"}),
        ("limits.y", {"-5.0": "-6.0"}),
        ("limits.noise", {"[limits]": "[limits]\nnoise = [0.1, 10.0]"}),
        ("release.policy", {"[release]": '[release]\npolicy = "exact"'}),
    ],
    ids=str,
)
def test_a_private_study_is_fixed(tmp_path: Path, key: str, change: dict[str, str]) -> None:
    pinned = load(tmp_path, SHORT).pinned()
    other = load(tmp_path, changed(SHORT, change))
    assert (other.contradicts(pinned) or "").startswith(f"{key}: ")
    assert (load(tmp_path, SHORT).contradicts(other.pinned()) or "").startswith(f"{key}: ")


def test_an_exact_study_may_improve_its_model(tmp_path: Path) -> None:
    pinned = load(tmp_path, NAMED).pinned()
    better = {
        "alpha = 0.5": "alpha = 0.9",
        "lam = 0.1": "lam = 0.2",
        "sigma2 = 1.0": "",
        '"rbf"': '"identity"',
        'kind = "landmarks"': "",
        "-5.0": "-6.0",
    }
    longer = load(tmp_path, changed(NAMED, better), ITEMS + "sea,0,1\n")
    assert longer.contradicts(pinned) is None
    assert load(tmp_path, NAMED).contradicts(longer.pinned()) == (
        "inputs.catalogue: expected at least 4 items, got 3: items may be appended, not removed"
    )
    reason = load(tmp_path, NAMED, ITEMS.replace("1.5", "1.6")).contradicts(pinned)
    assert reason == 'inputs.catalogue: item 2 ("leaf") differs from the one at the first start'
    assert load(tmp_path, NAMED, ITEMS.replace("leaf", "Leaf")).contradicts(pinned)
    wider = load(tmp_path, NAMED, "name,red,green,blue\nrose,1,0,0\n").contradicts(pinned)
    assert wider == "inputs.dimension: expected 3, fixed at the first start, got 4"
    numbers = load(tmp_path, EXACT)
    assert numbers.contradicts(pinned) == (
        "inputs.catalogue: expected names in a catalogue, fixed at the first start, got lists of numbers"
    )
    assert (load(tmp_path, NAMED).contradicts(numbers.pinned()) or "").startswith("inputs.catalogue: ")
    private = load(tmp_path, changed(NAMED, {'policy = "exact"': ""}))
    assert private.contradicts(pinned) == 'release.policy: expected "exact", fixed at the first start, got "private"'


def test_a_private_catalogue_does_not_grow(tmp_path: Path) -> None:
    text = changed(NAMED, {'policy = "exact"': ""})
    reason = load(tmp_path, text, ITEMS + "sea,0,1\n").contradicts(load(tmp_path, text).pinned())
    assert reason == "inputs.catalogue: expected 3 items, got 4: the catalogue of a private study is fixed"


@pytest.mark.parametrize("text", ["", "[]", "{}", "3", '{"format":1}', '{"format":2}'])
def test_pinned_text_of_others(tmp_path: Path, text: str) -> None:
    assert (load(tmp_path, SHORT).contradicts(text) or "").startswith("format: ")


# --- examples that come ---


def test_examples_by_name(tmp_path: Path) -> None:
    study = load(tmp_path, NAMED)
    row, y, noise = check_example(study, "leaf", -1, 2)
    np.testing.assert_array_equal(row, [1, 0.5, 1.5])
    assert (y, noise) == (-1.0, 2.0)
    np.testing.assert_array_equal(check_example(study, row, 0.0)[0], row)
    Engine(study.model).learn("me", row, y, noise)
    with pytest.raises(InvalidData, match=r"'leave' is not among the catalogue's 3 names; did you mean 'leaf'\?"):
        check_example(study, "leave", 0.0)
    with pytest.raises(InvalidData, match="x must be a name in the catalogue, got numbers"):
        check_example(study, [1, 0.5, 1.6], 0.0)
    with pytest.raises(InvalidData, match="x must be a name in the catalogue, got 3"):
        check_example(study, 3, 0.0)


def test_examples_of_numbers(tmp_path: Path) -> None:
    study = load(tmp_path, changed(SHORT, {"dimension = 1": "dimension = 1\nbounds = [0, 2]"}))
    row, y, noise = check_example(study, [-0.0], 5, 0.01)
    assert row.tobytes() == np.zeros(1).tobytes()
    assert (y, noise) == (5.0, 0.01)
    refusals: list[tuple[Any, Any, Any, type[InvalidData], str]] = [
        ("rose", 0, 1, InvalidData, 'x must be a list of 1 numbers, got "rose"'),
        ([1, 2], 0, 1, WrongDimension, "x must have 1 numbers, got 2"),
        ([True], 0, 1, InvalidData, r"x must be a list of 1 numbers, got \[true\]"),
        ([float("nan")], 0, 1, InvalidData, "x must be a list of 1 numbers"),
        ([[1]], 0, 1, InvalidData, "x must be a list of 1 numbers"),
        (None, 0, 1, InvalidData, "x must be a list of 1 numbers, got null"),
        ([2.5], 0, 1, InvalidData, "expected a number from 0 to 2, got 2.5"),
        ([1], 5.1, 1, InvalidData, "y must be a number from -5 to 5, got 5.1"),
        ([1], "5", 1, InvalidData, 'y must be a number from -5 to 5, got "5"'),
        ([1], float("nan"), 1, InvalidData, "y must be a number from -5 to 5, got NaN"),
        ([1], 10**5000, 1, InvalidData, "y must be a number from -5 to 5, got something very large"),
        ([1], 0, 0, InvalidNoise, "noise must be a variance from 0.01 to 100, got 0"),
        ([1], 0, None, InvalidNoise, "noise must be a variance from 0.01 to 100, got null"),
    ]
    for x, y, noise, error, message in refusals:
        with pytest.raises(error, match=message):
            check_example(study, x, y, noise)


ODD = [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 2.0, 2.5, 5.0, -5.1, 100.0, 1, True, "rose", None, 1e200]


@given(
    xs=st.lists(st.sampled_from([[v] for v in ODD] + [[1.0]] * 20 + [[1.0, 2.0], [], "rose"]), min_size=1, max_size=4),
    data=st.data(),
)
@configured(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_many_examples_are_checked_as_one_by_one(tmp_path: Path, xs: list[Any], data: st.DataObject) -> None:
    study = load(tmp_path, changed(SHORT, {"dimension = 1": "dimension = 1\nbounds = [0, 2]"}))
    columns = [data.draw(st.lists(st.sampled_from(ODD + [1.5] * 30), min_size=len(xs), max_size=len(xs))) for _ in "yn"]
    outcomes: list[Any] = []
    for k, given_one in enumerate(zip(xs, *columns)):
        try:
            outcomes.append(check_example(study, *given_one))
        except InvalidData as error:
            with pytest.raises(type(error), match=re.escape(str(error))) as refused:
                check_examples(study, xs, *columns)
            assert f"{refused.value.where}.".startswith(f"examples.{k}.")
            return
    rows, y, noise = check_examples(study, xs, *columns)
    assert rows.tobytes() == np.array([row for row, _, _ in outcomes]).tobytes()
    assert list(zip(y, noise)) == [(one, variance) for _, one, variance in outcomes]


def test_without_limits_an_output_is_any_number(tmp_path: Path) -> None:
    study = load(tmp_path, changed(EXACT, {"y = [-5.0, 5.0]": ""}))
    assert check_example(study, [1e9], 1e9)[1] == 1e9
    with pytest.raises(InvalidData, match="y must be a number"):
        check_example(study, [1.0], float("inf"))


def test_catalogue_rows_reach_the_model(tmp_path: Path) -> None:
    study = load(tmp_path, NAMED)
    assert study.model.catalogue is not None
    assert study.model.catalogue.digest == Catalogue(["rose", "leaf", "sky"], [[1, 0], [0.5, 1.5], [-0.1, 0]]).digest

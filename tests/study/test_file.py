"""A study file that is refused: in one line, with the key and what it takes."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as configured
from hypothesis import strategies as st

from motet.errors import InvalidStudy
from motet.study.file import _section
from motet.study.schema import File
from motet.study.study import Study
from tests.study.studies import DESIGN, NAMED, SHORT, VISITS, changed, load, refused

REFUSED: list[tuple[str, dict[str, str], str]] = [
    ("study.name", {'"Curves"': '" "'}, 'expected a name, one line of text such as "Music taste", got " "'),
    ("study.name", {'name = "Curves"': ""}, "missing; expected a name"),
    ("study.nam", {"name =": "nam ="}, "unknown key; did you mean 'name'? [study] takes name"),
    ("study", {'[study]\nname = "Curves"': ""}, "missing; expected a section with a name"),
    ("limits", {"[limits]\ny = [-5.0, 5.0]": "", "[study]": "limits = 3\n[study]"}, "expected a section, got 3"),
    ("realease", {"[release]": "[realease]"}, "unknown key; did you mean 'release'? a study takes study, model"),
    ("model.epsilon", {"alpha": "epsilon"}, "unknown key; did you mean 'release.epsilon'? [model] takes"),
    ("model.zzz", {"alpha": "zzz = 1\nalpha"}, "unknown key; [model] takes lam, individual, common"),
    ("model.alpha", {"alpha = 0.5": ""}, "missing; expected a number from 0 to 1"),
    ("model.alpha", {"alpha = 0.5": "alpha = 1.5"}, "expected a number from 0 to 1, got 1.5"),
    ("model.alpha", {"alpha = 0.5": "alpha = 0"}, "with alpha 0 nothing is shared"),
    ("model.lam", {"lam = 0.1": "lam = 0"}, "expected a number above 0, got 0"),
    ("model.lam", {"lam = 0.1": "lam = nan"}, "expected a number above 0, got NaN"),
    ("model.lam", {"lam = 0.1": "lam = true"}, "expected a number above 0, got true"),
    ("model.sigma2", {"sigma2 = 1.0": ""}, "a private release needs a public sigma2"),
    (
        "model.bias",
        {"lam": 'bias = "flat"\nlam'},
        'expected "none", "constant" or "linear", or a list of inputs',
    ),
    ("model.bias", {"lam": "bias = [0.5]\nlam"}, "or of column numbers, got [0.5]"),
    ("model.bias", {"lam": "bias = [7]\nlam"}, "the bias reads column 7, inputs have"),
    ("model.common", {'"rbf"': '"rfb"'}, "unknown kernel 'rfb': known are rbf, matern"),
    ("model.common", {'{ kernel = "rbf" }': '"rbf"'}, 'or "none", got "rbf"'),
    ("model.common", {'"rbf"': '"rbf", columns = [1]'}, "cannot read inputs of 1 columns"),
    ("model.individual", {'"matern"': '"matern", nu = -1'}, "nu of Matern must be positive, got -1"),
    ("model.individual", {'individual = { kernel = "matern" }': ""}, "missing; expected a kernel such as"),
    ("model.bias", {"lam": 'bias = ["hours"]\nlam'}, '"hours" is a name, and the inputs have none'),
    ("inputs", {"dimension = 1": ""}, 'catalogue = "file.csv" or dimension = 2, got none of them'),
    ("inputs.dimension", {"dimension": 'catalogue = "items.csv"\ndimension'}, "got catalogue and dimension"),
    ("inputs.columns", {"dimension = 1": "columns = []"}, "expected at least one column of inputs, got none"),
    ("inputs.columns", {"dimension = 1": "columns = [{ name = 'a', filler = 1 }]"}, "take no filler and no reference"),
    ("inputs.columns", {"dimension = 1": "columns = [{ unit = 'h' }]"}, "expected a line of at most 100 letters"),
    ("inputs.columns", {"dimension = 1": "columns = [{ name = 'a', low = 1 }]"}, 'unknown key "low": a column takes'),
    ("inputs.columns", {"dimension = 1": "columns = [{ name = 'a' }, { name = 'a' }]"}, '"a" is there twice'),
    ("inputs.columns", {"dimension = 1": "columns = [{ name = 'a', bounds = [1, 0] }]"}, "two numbers, got [1, 0]"),
    ("inputs.columns", {"dimension = 1": "columns = [{ name = 'a', values = ['x'] }]"}, "at least two different"),
    (
        "inputs.bounds",
        {"dimension = 1": "columns = [{ name = 'a' }]\nbounds = [0, 1]"},
        "expected bounds at each of the columns",
    ),
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
        'expected "landmarks", "eigen" or "nystrom", got "growing"; change it, or remove grid',
    ),
    (
        "basis.kind",
        {"grid": "rank = 3\ngrid"},
        'expected "eigen" or "nystrom", got "landmarks"; change it, or remove rank',
    ),
    ("basis.kind", {'"landmarks"': '"eigenvectors"'}, '"nystrom" or "features", got "eigenvectors"'),
    ("basis.kind", {'{ kernel = "rbf" }': '"none"'}, "basis needs a common kernel"),
    ("basis.rank", {'"landmarks"': '"eigen"'}, "missing; expected a whole number from 1"),
    ("basis.rank", {'"landmarks"': '"eigen"\nrank = 9'}, "Eigen needs a rank from 1 to 5, its points, got 9"),
    ("basis.grid", {"dimension = 1": 'catalogue = "items.csv"'}, "expected none with a catalogue"),
    ("basis.grid", {"grid": "points = [[1.0]]\ngrid"}, "expected points, a grid or spread, got points and grid"),
    ("basis.grid", {"to = 1.0": "to = 0.0"}, "expected from below to, got from 0.0 to 0.0"),
    ("basis.grid", {"dimension = 1": "dimension = 9"}, "expected at most 5000 points in all"),
    ("basis.grid.count", {"count = 5": "count = 1"}, "expected a whole number from 2 to 5000, got 1"),
    ("basis.grid.from", {"from = 0.0, ": ""}, "missing; expected a number"),
    ("basis.grid.cont", {"count": "cont"}, "unknown key; did you mean 'count'? [basis.grid] takes from, to, count"),
    (
        "basis.points",
        {"grid": "# "},
        "missing; expected a list of points, each a list of numbers, at most 5000; or a grid",
    ),
    ("basis.points", {"grid": "points = [[1, 2]] # "}, "points of 1 numbers, as inputs have, got [1.0, 2.0]"),
    ("basis.points", {"grid": 'points = [["a"]] # '}, 'each a list of numbers, at most 5000, got [["a"]]'),
    ("limits.y", {"y = [-5.0, 5.0]": ""}, "missing; expected [lowest, highest], two numbers"),
    ("limits.y", {"y = [-5.0, 5.0]": "y = [5, 5]"}, "got [5, 5]"),
    ("output.scale", {"[limits]": "[output]\nscale = [1, 5]\n[limits]"}, "expected [lowest, highest, step], as people"),
    ("output.scale", {"[limits]": "[output]\nscale = [1, 5, 9]\n[limits]"}, "got [1, 5, 9]"),
    ("output.scale", {"[limits]": "[output]\nscale = [0, 5, 1e-9]\n[limits]"}, "at most 10000 steps, got"),
    (
        "output.scale",
        {"[limits]": "[output]\nscale = [1, 6, 1]\n[limits]"},
        "within limits.y, from -5 to 5, got 1 to",
    ),
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
        with pytest.raises(InvalidStudy, match=r"cannot read .* expected a study file in TOML, got [^[]*; motet init"):
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
PLACES = [(name, key) for name in File.model_fields for key in _section(File, name).model_fields]


@pytest.mark.parametrize(
    "text", [SHORT, NAMED, DESIGN.replace("artists", "items").replace("40", "2")], ids=["grid", "items", "design"]
)
@configured(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
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


@pytest.mark.parametrize("name", ["[]", "{ a = 1 }", "1", "2024-01-01"])
def test_a_column_whose_name_is_no_text_is_refused(tmp_path: Path, name: str) -> None:
    line = refused(tmp_path, changed(VISITS, {'name = "hours"': f"name = {name}"}))
    assert line.startswith("study.toml, inputs.columns: ")

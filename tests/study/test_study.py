"""A study file that loads: its model, defaults, catalogue, points and database."""

from __future__ import annotations

import json
from datetime import timedelta
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from motet import Catalogue, Eigen, Landmarks
from motet.kernels import On
from motet.privacy.ledger import Ledger
from motet.privacy.mechanism import Mechanism
from motet.study.limits import check_example
from tests.study.studies import DESIGN, NAMED, SHORT, changed, load, refused


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


def test_a_bias_of_some_columns(tmp_path: Path) -> None:
    study = load(tmp_path, SHORT.replace("[model]", "[model]\nbias = [0]"))
    assert study.model.bias == (0,)
    assert study.contradicts(study.pinned()) is None
    assert "model.bias" in str(study.contradicts(load(tmp_path, SHORT).pinned()))


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


def test_catalogue_rows_reach_the_model(tmp_path: Path) -> None:
    study = load(tmp_path, NAMED)
    assert study.model.catalogue is not None
    assert study.model.catalogue.digest == Catalogue(["rose", "leaf", "sky"], [[1, 0], [0.5, 1.5], [-0.1, 0]]).digest


COLUMNS = """
[study]
name = "Visits"
[model]
alpha = 0.5
lam = 0.1
sigma2 = 1.0
bias = ["hours", "sex"]
common = { kernel = "rbf", length_scale = 3.0, columns = ["hours"] }
individual = { kernel = "sum", of = [{ kernel = "constant" }, { kernel = "dot_product", columns = ["sex", "day"] }] }
[inputs]
columns = [
  { name = "sex", values = ["f", "m"] },
  { name = "hours", bounds = [0.0, 24.0], unit = "h" },
  { name = "day", since = 2024-01-01, bounds = [2024-01-01, 2024-12-31] },
]
[basis]
kind = "eigen"
spread = 50
rank = 5
[limits]
y = [-5.0, 5.0]
[release]
epsilon = 1.0
releases = 3
[table]
client = "patient"
"""


def test_a_study_with_named_inputs(tmp_path: Path) -> None:
    study = load(tmp_path, COLUMNS)
    assert study.dimension == 4
    assert study.bounds == ((0.0, 1.0), (0.0, 1.0), (0.0, 24.0), (0.0, 365.0))
    assert study.model.bias == (1, 2)  # of the category without its first value
    assert study.model.to_spec()["individual"]["of"][1]["columns"] == [0, 1, 3]
    assert (study.table.client, study.table.target) == ("patient", "y")
    for points, count in ((study.model.public_points, 50), (study.points, 50)):
        assert points is not None
        assert points.shape == (count, 4)
        assert (points[:, :2].sum(axis=1) == 1).all()
        assert (points[:, :2].mean(axis=0) > 0.4).all()
        assert points[:, 2].min() >= 0
        assert points[:, 2].max() <= 24
        assert np.ptp(points[:, 2]) > 20
    mechanism = study.mechanism()
    assert mechanism is not None
    assert json.loads(study.pinned())["inputs.columns"] == study.model.to_spec()["columns"]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('name = "hours"', 'name = "y"', 'inputs.columns: an input may not be called "y", the name of another column'),
        ('name = "hours"', 'name = "patient"', "rename it, or set table.client"),
        ('name = "hours"', 'name = "noise"', "the name of another column of tables: rename it"),
        ('client = "patient"', 'client = "y"', 'table.client: expected a column of its own, got "y"'),
        ('client = "patient"', 'target = "id"', 'table.target: expected a column of its own, got "id"'),
        ('client = "patient"', 'client = "noise"', 'table.client: expected a column of its own, got "noise"'),
        ('name = "hours"', "name = 'a \"b\"'", "inputs.columns: expected a name without quotation marks"),
    ],
)
def test_names_that_columns_cannot_have(tmp_path: Path, old: str, new: str, line: str) -> None:
    assert line in refused(tmp_path, changed(COLUMNS, {old: new}))

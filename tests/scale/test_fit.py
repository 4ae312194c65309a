"""``fit_table``: streamed, shuffled and on a cluster, it is the fit in memory; a sample settles the rest."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import motet
from motet import Engine, Landmarks, MixedEffectRegressor, Model
from motet.errors import InvalidData
from motet.kernels import RBF, DotProduct
from motet.regression.parameters import settings_of
from motet.scale.fit import fit_table
from motet.scale.survey import Survey
from motet.tables.large import Dataset
from motet.tables.roles import Roles

pa = pytest.importorskip("pyarrow")
csv = pytest.importorskip("pyarrow.csv")
pq = pytest.importorskip("pyarrow.parquet")
MODEL = Model(RBF(1.0), DotProduct(1.0), 0.5, 0.1, "linear")
COLUMNS: dict[str, Any] = {"task": "user", "target": "rating"}


def columns(tasks: int = 300, each: int = 6, inputs: int | None = 40) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    user = np.repeat(np.arange(tasks), each)
    x = (
        rng.normal(size=(len(user), 2))
        if inputs is None
        else rng.normal(size=(inputs, 2))[rng.integers(inputs, size=len(user))]
    )
    y = 50.0 + np.sin(x).sum(axis=1) + rng.normal(size=tasks)[user] * x[:, 0] + 0.1 * rng.normal(size=len(user))
    return {"user": user, "a": x[:, 0], "b": x[:, 1], "rating": y}


def held(model: Model, data: dict[str, Any]) -> Engine:
    engine = Engine(model)
    engine.learn_many(data["user"], np.column_stack([data["a"], data["b"]]), data["rating"])
    return engine


def written(path: Path, data: dict[str, Any], group: int = 500) -> Path:
    pq.write_table(pa.table(data), path, row_group_size=group)
    return path


def check_equal(done: motet.TableFit, engine: Engine) -> None:
    release, X = engine.disclose(), engine.inputs
    scale = np.abs(release.average(X)).max()
    np.testing.assert_allclose(done.release.average(X), release.average(X), atol=1e-9 * scale)
    assert done.release.sigma2 == pytest.approx(release.sigma2, rel=1e-9)
    assert done.evidence.log_evidence == pytest.approx(engine.evidence().log_evidence, rel=1e-9)


@pytest.mark.parametrize("basis", [None, Landmarks(np.random.default_rng(5).normal(size=(9, 2)))], ids=str)
def test_one_pass_is_the_fit_in_memory(tmp_path: Path, basis: Landmarks | None) -> None:
    data = columns()
    model = Model(RBF(1.0), DotProduct(1.0), 0.5, 0.1, "linear", basis)
    path, engine = written(tmp_path / "t.parquet", data), held(model, data)
    told = list[tuple[str, int]]()
    outputs: dict[str, Any] = {kind: tmp_path / f"{kind}.parquet" for kind in ("predictions", "coefficients")}
    done = motet.fit_table(
        path, **COLUMNS, model=model, partition_rows=200, report=lambda *one: told.append(one), **outputs
    )
    check_equal(done, engine)
    assert (done.rows, done.tasks, done.left_out, done.shuffled, done.tuning) == (1800, 300, 0, False, None)
    added = [rows for stage, rows in told if stage == "Adding"]
    assert sum(added) == 1800
    assert max(added) < 2 * 200  # whatever the row groups are, so many are held at once
    predicted = pq.read_table(outputs["predictions"])
    mean, std = engine.predict_many(data["user"], np.column_stack([data["a"], data["b"]]), True)
    np.testing.assert_allclose(predicted["mean"].to_numpy(), mean, rtol=1e-9)
    np.testing.assert_allclose(predicted["std"].to_numpy(), std, rtol=1e-7)
    own = pq.read_table(outputs["coefficients"]).to_pandas().query("user == 7")
    expected = engine.coefficients(7)
    np.testing.assert_allclose(np.sort(own["coefficient"]), np.sort(expected.a), atol=1e-7)
    with pytest.raises(InvalidData, match="already exists"):
        fit_table(path, **COLUMNS, model=model, **outputs)


def test_settings_are_chosen_on_a_sample_of_tasks(tmp_path: Path) -> None:
    path = written(tmp_path / "t.parquet", columns(tasks=800))
    done = fit_table(path, **COLUMNS, regressor=MixedEffectRegressor(None, "linear"), tuning_rows=1500)
    assert done.tuning is not None
    assert 700 < done.tuned_rows <= 3000
    assert done.rows == 4800
    check_equal(done, held(done.release.model, columns(tasks=800)))


def test_a_sample_has_whole_tasks_and_few_of_long_ones() -> None:
    roles = Roles("user", "rating", ("a", "b"))
    survey, data = Survey(roles, limit=3000), columns(tasks=3000)
    for k in range(0, 18_000, 1500):
        survey.add({name: values[k : k + 1500] for name, values in data.items()} | {"rows read": 1500})
    rows = survey.sample
    assert 1000 < len(rows.y) <= 6000 < survey.rows == 18_000
    assert set(np.bincount(rows.task).tolist()) == {6}
    assert not survey.has_many_inputs
    assert len(survey.inputs) == 40
    long = Survey(roles, limit=500)
    long.add({**columns(tasks=2, each=5000), "rows read": 10_000})
    assert len(long.sample.y) <= 1000
    assert len(long.sample.labels) == 2


def test_many_inputs_get_landmarks_and_what_they_miss_is_told(tmp_path: Path) -> None:
    data = columns(tasks=400, inputs=None)
    path = written(tmp_path / "t.parquet", data)
    reg = MixedEffectRegressor(RBF(1.5), DotProduct(1.0), 0.5, 0.1, "constant", optimizer=None)
    done = fit_table(path, **COLUMNS, regressor=reg, landmarks=60)
    assert isinstance(done.release.model.basis, Landmarks)
    assert len(done.release.model.basis.points) == 60
    assert 0 < done.residual.share < 0.01
    exact = held(Model(RBF(1.5), DotProduct(1.0), 0.5, 0.1, "constant"), data)
    X = np.column_stack([data["a"], data["b"]])
    few = held(done.release.model, data)
    difference = np.abs(exact.predict_many(data["user"], X) - few.predict_many(data["user"], X))
    assert difference.max() <= done.residual.std


@pytest.mark.parametrize("kind", ["grouped", "streamed"])
def test_a_refusal_leaves_nothing_behind(tmp_path: Path, kind: str) -> None:
    data = columns()
    data["rating"] = pa.array(data["rating"], mask=np.arange(1800) == 1500)
    path = written(tmp_path / "t.parquet", data)
    given: Any = {**COLUMNS, "model": MODEL, "partition_rows": 200 if kind == "streamed" else None}
    with pytest.raises(InvalidData, match="row 1501, column rating"):
        fit_table(path, **given, predictions=tmp_path / "p.parquet", skip_missing=False)
    assert [one.name for one in tmp_path.iterdir()] == ["t.parquet"]
    done = fit_table(path, **given, skip_missing=True)
    assert (done.rows, done.left_out) == (1799, 1)
    with pytest.warns(UserWarning, match="1 of 1800 rows have missing values and are left out"):
        assert fit_table(path, **given).release.digest == done.release.digest


# --- on a cluster ---


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    with distributed.LocalCluster(**settings, silence_logs=50) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_shuffled_rows_are_brought_together(tmp_path: Path, client: Any) -> None:
    data = columns()
    order = np.random.default_rng(1).permutation(1800)
    labels = np.array([f"user {k}" for k in data["user"]], dtype=object)
    shuffled = {name: values[order] for name, values in data.items()} | {"user": labels[order]}
    path = written(tmp_path / "t.parquet", shuffled, group=300)
    out = tmp_path / "p.parquet"
    given: Any = {**COLUMNS, "model": MODEL, "partition_rows": 400, "dask": client}
    done = fit_table(path, **given, predictions=out)
    engine = held(MODEL, data)
    check_equal(done, engine)
    assert (done.rows, done.tasks, done.shuffled) == (1800, 300, True)
    predicted = pq.read_table(out).to_pandas().sort_values(["user", "a", "b"])
    mean = engine.predict_many(data["user"], np.column_stack([data["a"], data["b"]]))
    expected = np.lexsort([data["b"], data["a"], labels.astype(str)])
    np.testing.assert_allclose(predicted["mean"], mean[expected], rtol=1e-9)
    gap = shuffled | {"rating": pa.array(shuffled["rating"], mask=np.arange(1800) == 1700)}
    with pytest.raises(InvalidData, match="row 1701, column rating"):
        fit_table(written(tmp_path / "gap.parquet", gap, 300), **given, skip_missing=False)
    folder = tmp_path / "tables"
    folder.mkdir()
    for k in range(2):
        csv.write_csv(pa.table(gap).slice(900 * k, 900), folder / f"{k}.csv")
    for table in (folder, tmp_path / "gap.parquet"):
        done = fit_table(table, **given)
        assert (done.rows, done.left_out) == (1799, 1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_worker_that_is_killed_changes_nothing(tmp_path: Path, client: Any) -> None:
    data = columns(tasks=2000)
    order = np.random.default_rng(1).permutation(12_000)
    path = written(tmp_path / "t.parquet", {name: values[order] for name, values in data.items()}, group=300)
    victim = next(iter(client.run(os.getpid).values()))
    kill = threading.Timer(0.5, os.kill, (victim, signal.SIGKILL))
    kill.start()
    done = fit_table(path, **COLUMNS, model=MODEL, partition_rows=500, dask=client)
    assert kill.finished.is_set(), "the work was done before the kill"
    check_equal(done, held(MODEL, data))
    assert victim not in client.run(os.getpid).values()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_settings_come_from_the_workers_memory(tmp_path: Path, client: Any) -> None:
    from motet.scale.cluster import tune_on_cluster

    data = columns()
    path = written(tmp_path / "t.parquet", data)
    reg = MixedEffectRegressor(None, "linear")
    tuning, counts = tune_on_cluster(Dataset.open(path), Roles("user", "rating", ("a", "b")), settings_of(reg), client)
    expected = reg.fit(np.column_stack([data["a"], data["b"]]), data["rating"], task=data["user"]).tuning_
    assert expected is not None
    assert counts == (1800, 300, 0)
    assert tuning.log_evidence == pytest.approx(expected.log_evidence, rel=1e-8)

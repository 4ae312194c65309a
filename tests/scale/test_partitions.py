"""Partitions: their sums add up to the engine's, whatever cuts them; what they say of every task; streams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any

import numpy as np
import pytest

from motet import Engine, Features, Landmarks, Model
from motet.engine.system import Method
from motet.errors import EmptyData, InvalidData, NotPositiveDefinite
from motet.kernels import RBF, ConstantKernel, DotProduct, Linear
from motet.regression.parameters import settings_of
from motet.regression.regressor import MixedEffectRegressor
from motet.scale.objective import PartitionObjective
from motet.scale.partitions import (
    NotGrouped,
    Sums,
    Trend,
    coefficients,
    from_bytes,
    information,
    predictions,
    solve,
    solve_stream,
    to_bytes,
    total,
    whole_tasks,
)
from motet.tables.roles import Roles
from motet.tables.rows import Rows, numbered
from motet.tuning.components import Components
from motet.tuning.search import TaskObjective
from motet.tuning.tuning import fit_settings

ROLES = Roles("user", "y", ("a", "b"), "noise")
Z = np.random.default_rng(0).normal(size=(30, 2))


def table(offset: float = 0.0) -> dict[str, Any]:
    """Forty tasks on thirty inputs, which repeat within tasks."""
    rng = np.random.default_rng(1)
    h, user = rng.integers(30, size=400), np.sort(rng.integers(40, size=400))
    y = offset + Z[h].sum(axis=1) + rng.normal(size=40)[user] + 0.3 * rng.normal(size=400)
    return {"user": user, "a": Z[h, 0], "b": Z[h, 1], "y": y, "noise": rng.uniform(0.5, 2.0, 400)}


def cut(rows: dict[str, Any], *users: int) -> list[dict[str, Any]]:
    at = [0, *np.searchsorted(rows["user"], users), len(rows["user"])]
    return [{name: values[a:b] for name, values in rows.items()} for a, b in pairwise(at)]


def engine_of(model: Model, rows: dict[str, Any]) -> Engine:
    engine = Engine(model)
    engine.learn_many(rows["user"], np.column_stack([rows["a"], rows["b"]]), rows["y"], rows["noise"])
    return engine


MODELS = [
    Model(RBF(1.0), RBF(0.7), 0.4, 0.2, "none"),
    Model(RBF(1.0), RBF(0.7) + ConstantKernel(0.5), 0.4, 0.2, "constant"),
    Model(RBF(1.0), DotProduct(1.0), 0.4, 0.2, "linear"),
    Model(RBF(1.0), RBF(0.7), 0.4, 0.2, "linear", Landmarks(Z[:8])),
    Model(RBF(1.0), RBF(0.7), 0.4, 0.2, [1], Landmarks(Z[:8])),
    Model(Linear(np.eye(3)), DotProduct(1.0), 0.4, 0.2, "constant", Features()),
    Model(None, Linear(np.eye(3)), 0.5, 0.2, "linear"),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: f"{model.basis} {model.bias}")
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_partitions_give_the_engines_release_and_evidence(model: Model, offset: float) -> None:
    rows = table(offset)
    engine = engine_of(model, rows)
    parts = cut(rows, 5, 13, 27)
    solution, _ = solve_stream(iter(parts), model, ROLES)
    release, evidence = engine.disclose(), engine.evidence()
    scale = np.abs(release.average(Z)).max()
    np.testing.assert_allclose(solution.release.average(Z), release.average(Z), atol=1e-9 * scale)
    assert solution.release.sigma2 == pytest.approx(release.sigma2, rel=1e-9)
    assert solution.evidence.log_evidence == pytest.approx(evidence.log_evidence, rel=1e-10)
    mean, std = engine.predict_many(rows["user"], np.column_stack([rows["a"], rows["b"]]), True)
    told = [predictions(part, solution.release, ROLES) for part in parts]
    np.testing.assert_allclose(np.concatenate([one["mean"] for one in told]), mean, atol=1e-9 * scale)
    np.testing.assert_allclose(np.concatenate([one["std"] for one in told]), std, rtol=1e-7)
    own = coefficients(parts[1], solution.release, ROLES)
    (label,) = set(own["user"][:1].tolist())
    expected = engine.coefficients(label)
    mine = own["user"] == label
    order = np.lexsort(expected.inputs.T), np.lexsort(np.array([own["a"][mine], own["b"][mine]]))
    size = np.abs(expected.a).max()
    np.testing.assert_allclose(own["coefficient"][mine][order[1]], expected.a[order[0]], atol=1e-8 * scale * size)


def test_any_map_serves_and_informations_travel_as_bytes() -> None:
    model, parts = MODELS[1], cut(table(), 5, 13, 27, 33)
    sums = Sums(model, ROLES, Trend.of(Rows.of_table(parts[0], ROLES), model))
    serial = total(parts, sums)
    with ThreadPoolExecutor(2) as pool:
        parallel = total(parts, sums, pool.map)
    travelled = [from_bytes(to_bytes(information(part, sums))) for part in parts]
    by_hand = travelled[0] + travelled[1] + travelled[2] + travelled[3] + travelled[4]
    release = solve(serial, sums).release
    for other in (parallel, by_hand):
        again = solve(other, sums)
        np.testing.assert_allclose(again.release.average(Z), release.average(Z), atol=1e-12)
        assert other.rows == serial.rows == 400


def test_a_table_is_a_mapping_a_frame_or_arrow() -> None:
    pandas, arrow, polars = (pytest.importorskip(name) for name in ("pandas", "pyarrow", "polars"))
    rows, sums = table(), Sums(MODELS[1], ROLES)
    expected = information(rows, sums)
    for kind in (pandas.DataFrame, arrow.table, polars.DataFrame):
        np.testing.assert_array_equal(information(kind(rows), sums).G, expected.G)


def test_a_bias_that_the_data_do_not_identify_is_the_engines() -> None:
    rows = table(50.0) | {"b": np.full(400, 3.0)}
    rows["a"] = np.round(rows["a"])
    model = Model(RBF(1.0), ConstantKernel(1.0), 0.5, 0.2, "linear")
    solution, _ = solve_stream(iter(cut(rows, 20)), model, ROLES)
    X = np.column_stack([rows["a"], np.full(400, 3.0)])
    np.testing.assert_allclose(solution.release.average(X), engine_of(model, rows).disclose().average(X), rtol=1e-9)


def test_a_kernel_that_is_not_positive_definite_names_its_tasks() -> None:
    model = Model(None, Linear([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]]), 0.5, 1e-300, "constant")
    with pytest.raises((NotPositiveDefinite, ValueError)):
        solve_stream(iter([table() | {"noise": np.full(400, 1e-140)}]), model, ROLES)


# --- streams ---


def batches(rows: dict[str, Any], size: int) -> Any:
    return ({name: values[k : k + size] for name, values in rows.items()} for k in range(0, len(rows["user"]), size))


@pytest.mark.parametrize("labels", ["numbers", "texts"])
def test_a_stream_is_cut_between_tasks(labels: str) -> None:
    rows = table()
    if labels == "texts":
        rows["user"] = np.array([f"u{user:02d}" for user in rows["user"]], dtype=object)
    tables = list(whole_tasks(batches(rows, 7), "user", 50))
    assert len(tables) > 4
    np.testing.assert_array_equal(np.concatenate([one["y"] for one in tables]), rows["y"])
    users = [set(one["user"].tolist()) for one in tables]
    assert sum(map(len, users)) == len(set.union(*users))


def test_a_task_that_comes_back_is_noticed() -> None:
    rows = table()
    order = np.r_[3:400, 0:3]  # some of the first task's rows are last
    with pytest.raises(NotGrouped, match="rows of task 0 do not lie together"):
        list(whole_tasks(batches({name: values[order] for name, values in rows.items()}, 20), "user", 50))
    shuffled = np.random.default_rng(0).permutation(400)
    one_table = list(whole_tasks(batches({name: values[shuffled] for name, values in rows.items()}, 20), "user", 1000))
    assert len(one_table) == 1  # within one table any order will do
    np.testing.assert_allclose(
        information(one_table[0], Sums(MODELS[5], ROLES)).G, information(rows, Sums(MODELS[5], ROLES)).G
    )


def test_one_task_longer_than_a_partition_stays_whole() -> None:
    rows = table() | {"user": np.zeros(400, dtype=int)}
    assert [len(one["y"]) for one in whole_tasks(batches(rows, 20), "user", 50)] == [400]


def test_numbers_of_labels() -> None:
    number, labels = numbered(np.array(["b", "b", "a", "c", "a"], dtype=object))
    assert [labels[k] for k in number] == ["b", "b", "a", "c", "a"]
    assert len(labels) == 3


def test_nothing_is_refused() -> None:
    with pytest.raises(EmptyData, match="nothing to learn"):
        solve_stream(iter([]), MODELS[0], ROLES)
    with pytest.raises(InvalidData, match="no column 'noise'"):
        information({"user": [1], "a": [1.0], "b": [1.0], "y": [1.0]}, Sums(MODELS[0], ROLES))
    with pytest.raises(InvalidData, match="there twice"):
        Roles("user", "y", ("a", "a")).check("rows", ["user", "y", "a"])


# --- settings ---


class LocalPasses:
    """Over partitions in this process, added one after another."""

    def __init__(self, parts: Sequence[Rows]) -> None:
        self._parts = parts

    def total(self, function: Callable[..., Any], *shared: Any) -> Any:
        return reduce(add, (function(part, *shared) for part in self._parts))

    def each(self, function: Callable[..., Any]) -> Sequence[Any]:
        return [function(part) for part in self._parts]


@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("method", ["REML", "ML"])
def test_the_slope_of_the_evidence_is_a_sum_over_partitions(model: Model, method: Method) -> None:
    rows = table(10.0)
    parts = [Rows.of_table(part, ROLES) for part in cut(rows, 13, 27)]
    folded, X = engine_of(model, rows).folded()
    components = Components.of(model, X)
    at_once = TaskObjective(folded, X, method).slope(components)
    objective = PartitionObjective(LocalPasses(parts), ROLES, parts[0], method)
    summed = objective.slope(components)
    assert at_once is not None
    assert summed is not None
    assert summed.log_evidence == pytest.approx(at_once.log_evidence, rel=1e-10)
    for name in ("gradient", "information", "cross"):
        expected = getattr(at_once, name)
        np.testing.assert_allclose(getattr(summed, name), expected, atol=1e-9 * np.abs(expected).max())
    assert summed.free == at_once.free
    assert objective.value(components) == pytest.approx(at_once.log_evidence, rel=1e-10)


def test_settings_of_partitions_are_those_of_the_regressor() -> None:
    rows = table(3.0)
    X, y, user, noise = np.column_stack([rows["a"], rows["b"]]), rows["y"], rows["user"], rows["noise"]
    reg = MixedEffectRegressor(None, "constant")
    expected = reg.fit(X, y, task=user, sample_weight=1.0 / noise).tuning_
    parts = [Rows.of_table(part, ROLES) for part in cut(rows, 13, 27)]
    whole = Rows.of_table(rows, ROLES)
    objective = PartitionObjective(LocalPasses(parts), ROLES, whole)
    tuning = fit_settings(whole, settings_of(reg), objective=objective)
    assert expected is not None
    assert (objective.rows, objective.tasks) == (400, len(set(user.tolist())))
    assert tuning.log_evidence == pytest.approx(expected.log_evidence, rel=1e-8)
    assert tuning.noise_variance == pytest.approx(expected.noise_variance, rel=1e-4)


# --- long tasks ---


def long_table() -> dict[str, Any]:
    """Two tasks that are too long for what landmarks miss, some for features, and short ones."""
    rng = np.random.default_rng(2)
    user = np.repeat(np.arange(6), [2001, 3, 90, 2010, 90, 1])
    X = rng.uniform(-2, 2, size=(len(user), 2))
    y = np.sin(2 * X[:, 0]) + rng.normal(size=6)[user] * X[:, 1] + 0.3 * rng.normal(size=len(user))
    return {"user": user, "a": X[:, 0], "b": X[:, 1], "y": y, "noise": rng.uniform(0.5, 2.0, len(user))}


LONG_MODELS = [
    Model(RBF(0.8), Linear(np.eye(3)), 0.4, 0.2, "linear", Landmarks(Z[:8])),
    Model(Linear(np.eye(3)), DotProduct(1.0), 0.4, 0.2, "constant", Features()),
    Model(None, Linear(np.eye(3)), 0.5, 0.2, "linear"),
]


@pytest.mark.parametrize("model", LONG_MODELS, ids=str)
def test_long_tasks_cost_no_block_and_are_the_engines(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """Predictions at their rows, coefficients, and the slope of the evidence."""
    rows = long_table()
    engine, X = engine_of(model, rows), np.column_stack([rows["a"], rows["b"]])
    monkeypatch.setattr("motet.linalg.LowRankInverse.dense", property(lambda _: pytest.fail("R was formed")))
    solution, _ = solve_stream(iter(cut(rows, 2, 4)), model, ROLES)
    for user in (0, 2, 3, 5):
        own = {name: values[rows["user"] == user] for name, values in rows.items()}
        found = predictions(own, solution.release, ROLES)
        mean, std = engine.predict_many(own["user"], X[rows["user"] == user], return_std=True)
        np.testing.assert_allclose(found["mean"], mean, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(found["std"], std, rtol=1e-6)
        a = coefficients(own, solution.release, ROLES)["coefficient"]
        np.testing.assert_allclose(np.sort(a), np.sort(engine.coefficients(user).a), atol=1e-7 * np.abs(a).max())
    folded, inputs = engine.folded()
    components = Components.of(model, inputs)
    at_once = TaskObjective(folded, inputs).slope(components)
    parts = [Rows.of_table(part, ROLES) for part in cut(rows, 2, 4)]
    summed = PartitionObjective(LocalPasses(parts), ROLES, parts[0]).slope(components)
    assert at_once is not None
    assert summed is not None
    for name in ("gradient", "information", "cross"):
        expected = getattr(at_once, name)
        np.testing.assert_allclose(getattr(summed, name), expected, atol=1e-8 * np.abs(expected).max())

"""Information adds; folding and batched inverses are what the article's formulas say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from motet import Engine, Landmarks, Model
from motet.engine.information import Information
from motet.errors import WrongDimension
from motet.kernels import RBF, DotProduct
from motet.model.tasks import Task
from tests.engine.grid import GRID, Triple, triples
from tests.oracles import Array

MODELS = {
    "growing": Model(RBF(1.0), DotProduct(0.5), alpha=0.3, lam=0.1),
    "landmarks": Model(RBF(1.0), DotProduct(0.5), alpha=0.3, lam=0.1, basis=Landmarks(GRID)),
}


def information(rows: list[Triple], model: Model) -> Information:
    engine = Engine(model)
    for task, x, y, noise in rows:
        engine.learn(task, [x], y, noise)
    return engine.information()


def over_grid(info: Information) -> tuple[Array, Array]:
    """G and g, with inputs in a fixed order."""
    if info.inputs is None:
        return info.G, info.g
    at = np.searchsorted(GRID[:, 0], info.inputs[:, 0])
    G, g = np.zeros((9, 9)), np.zeros(9)
    G[np.ix_(at, at)], g[at] = info.G, info.g
    return G, g


def assert_equal(a: Information, b: Information) -> None:
    for mine, theirs in zip(over_grid(a), over_grid(b)):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-9 * (1 + np.abs(theirs).max()))
    for name in ("rows", "folded"):
        assert getattr(a, name) == getattr(b, name)
    for name in ("log_det", "quadratic", "squares", "log_noise"):
        assert getattr(a, name) == pytest.approx(getattr(b, name), rel=1e-9, abs=1e-6)
    if a.inputs is not None and b.inputs is not None:
        assert sorted(a.inputs[:, 0]) == sorted(b.inputs[:, 0])


@pytest.mark.parametrize("name", MODELS)
@given(rows=st.lists(triples, min_size=2, max_size=12))
@settings(max_examples=40)
def test_disjoint_tasks_add(name: str, rows: list[Triple]) -> None:
    a = [row for row in rows if row[0] in "ab"]
    b = [row for row in rows if row[0] in "cd"]
    assume(a and b)
    of_a, of_b, of_both = (information(part, MODELS[name]) for part in (a, b, rows))
    assert_equal(of_a + of_b, of_both)
    assert_equal(of_b + of_a, of_both)


def test_different_kinds_do_not_add() -> None:
    rows: list[Triple] = [("a", 0.0, 1.0, 1.0)]
    with pytest.raises(WrongDimension, match="two sums of one kind"):
        information(rows, MODELS["growing"]) + information(rows, MODELS["landmarks"])


def test_folding_repeats() -> None:
    """w̄ = (Σ 1/wᵢ)⁻¹, ȳ = w̄ Σ yᵢ/wᵢ, and a single row keeps its very bits."""
    X = np.array([[1.0], [2.0], [1.0], [1.0]])
    task = Task.of(X, np.array([1.0, 0.1, 3.0, 5.0]), np.array([1.0, 0.3, 2.0, 4.0]))
    np.testing.assert_array_equal(task.X, [[1.0], [2.0]])
    np.testing.assert_allclose(task.noise, [1 / (1 + 1 / 2 + 1 / 4), 0.3])
    np.testing.assert_allclose(task.y, [(1 + 3 / 2 + 5 / 4) / (1 + 1 / 2 + 1 / 4), 0.1])
    assert (task.y[1], task.noise[1]) == (0.1, 0.3)


def test_sums_over_inputs_are_scattered_inverses() -> None:
    """G = Σⱼ I(:,hʲ)RʲI(hʲ,:), g = Σⱼ I(:,hʲ)Rʲyʲ, tasks of several sizes."""
    rng = np.random.default_rng(3)
    model = MODELS["growing"]
    engine = Engine(model)
    G, g = np.zeros((9, 9)), np.zeros(9)
    for task in range(20):
        h = rng.choice(9, size=rng.integers(1, 5), replace=False)
        y, noise = rng.normal(size=len(h)), 10 ** rng.uniform(-1, 1, size=len(h))
        engine.learn_many([task] * len(h), GRID[h], y, noise)
        R = np.linalg.inv(0.7 * DotProduct(0.5)(GRID[h]) + 0.1 * np.diag(noise))
        G[np.ix_(h, h)] += R
        g[h] += R @ y
    found_G, found_g = over_grid(engine.information())
    np.testing.assert_allclose(found_G, G, rtol=0, atol=1e-10 * np.abs(G).max())
    np.testing.assert_allclose(found_g, g, rtol=0, atol=1e-10 * np.abs(g).max())


def test_large_batches_are_taken_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    tasks, x, y = np.repeat(np.arange(40), 3), GRID[rng.integers(9, size=120)], rng.normal(size=120)
    for model in MODELS.values():
        whole, pieces = Engine(model), Engine(model)
        for engine in (whole, pieces):
            engine.learn_many(tasks, x, y)
        expected = whole.disclose()
        with monkeypatch.context() as patch:
            patch.setattr("motet.engine.batches.NUMBERS_PER_PART", 50)
            np.testing.assert_allclose(pieces.disclose().Lambda, expected.Lambda, rtol=1e-12, atol=1e-9)


def test_large_tasks_are_scattered_as_small_ones_are(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    tasks, x, y = np.repeat(np.arange(12), 10), rng.normal(size=(120, 1)).round(1), rng.normal(size=120)
    engines = [Engine(MODELS["growing"]) for _ in range(2)]
    for engine, small in zip(engines, (64, 2)):
        monkeypatch.setattr("motet.engine.information.MAX_SCATTERED_SIZE", small)
        engine.learn_many(tasks, x, y)
        engine.disclose()
    np.testing.assert_allclose(engines[1].information().G, engines[0].information().G, rtol=1e-13, atol=1e-13)

"""Padded tasks against the same tasks as they are, whose stacks are one for each size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from motet import Landmarks, Model
from motet.engine import padding
from motet.engine.padding import padded
from motet.engine.system import System
from motet.kernels import RBF, ConstantKernel, DotProduct, Identity, Linear, On
from motet.model.tasks import FoldedTasks, fold
from motet.tuning.gradient import slope
from tests.oracles import Array

C = ConstantKernel
SMOOTH = C(0.7) * RBF([1.0, 0.5]), C(0.3) + C(0.4) * RBF(1.0) + C(0.2) * DotProduct(0.5)
MODELS: dict[str, dict[str, Any]] = {
    "smooth": {"common": SMOOTH[0], "individual": SMOOTH[1]},
    "landmarks": {"common": SMOOTH[0], "individual": SMOOTH[1], "basis": "landmarks"},
    "linear": {"common": None, "individual": Linear([[1.0, 0.3, 0.0], [0.3, 1.0, 0.0], [0.0, 0.0, 0.5]])},
    "levels": {"common": C(0.3) * On(Identity(), [0]), "individual": C(0.3) + C(0.2) * Identity()},
}


def examples(unit: float = 1.0, sizes: tuple[int, ...] = (1, 2, 2, 3, 5, 7, 7, 8, 13, 70)) -> tuple[FoldedTasks, Array]:
    """Tasks of many sizes; some inputs repeat within and across tasks."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(len(sizes)), sizes)
    pool = rng.normal(size=(100, 2))
    at = np.concatenate([rng.permutation(len(pool))[:size] for size in sizes])
    at[20] = at[21]
    y = 1e3 + pool[at, 0] + rng.normal(size=len(sizes))[task] + rng.normal(size=len(task))
    return fold(task, at, y, unit * 10 ** rng.uniform(-0.5, 0.5, size=len(task))), pool


@pytest.mark.parametrize("unit", [1.0, 1e-8, 1e8])
@pytest.mark.parametrize("name", MODELS)
def test_padded_tasks_have_the_same_evidence_gradient_and_curvature(
    name: str, unit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(padding, "NUMBERS_PER_STACK", 1e9)  # all short tasks in one stack
    tasks, X = examples(unit)
    settings = MODELS[name] | ({"basis": Landmarks(X[:6])} if "basis" in MODELS[name] else {})
    model = Model(**settings, alpha=0.5, lam=0.3 / unit, bias="linear")
    for method in ("REML", "ML"):
        same, other = (System.of_tasks(model, few, X, method) for few in (padded(tasks), tasks))
        assert len(same.batches) == 2 < len(other.batches)
        np.testing.assert_allclose(same.evidence.log_evidence, other.evidence.log_evidence, rtol=1e-11)
        np.testing.assert_allclose(same.evidence.sigma2, other.evidence.sigma2, rtol=1e-10)
        at, there = slope(same), slope(other)
        for a, b in ((at.gradient, there.gradient), (at.information, there.information), (at.cross, there.cross)):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9 * np.abs(b).max())


def test_few_tasks_share_a_stack_and_many_have_their_own() -> None:
    few, many = examples()[0], examples(sizes=(2,) * 2000 + (20,) * 100)[0]
    assert np.unique(np.diff(padded(few).start)).tolist() == [13, 70]
    assert np.unique(np.diff(padded(many).start)).tolist() == [2, 20]
    assert padded(few).rows.tolist() == few.rows.tolist()
    assert padded(examples(sizes=(4,) * 10)[0]).y.size == 40

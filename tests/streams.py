"""Random studies that are hard in the ways that matter: repeats within and across tasks, noise over six orders of
magnitude, singular kernels, kernels of single tasks."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from motet import Engine, Model
from motet.kernels import RBF, ConstantKernel, DotProduct, Identity, Linear, Matern, On, RationalQuadratic
from tests.oracles import Array, Problem

E = math.e


@dataclass
class Case:
    """Kernels, those of single tasks included, and the pool that inputs are drawn from."""

    common: Any
    individual: Any
    columns: int = 2
    pool: int = 25
    kernels: dict[Hashable, Any] = field(default_factory=dict)
    unit: bool = False  # nonnegative vectors on the unit sphere

    def inputs(self, rng: np.random.Generator) -> Array:
        if not self.unit:
            return rng.normal(size=(self.pool, self.columns))
        Z = rng.uniform(size=(self.pool, self.columns)) ** 3
        return Z / np.linalg.norm(Z, axis=1, keepdims=True)


SMOOTH = ConstantKernel(E) * RBF(1.0)  # e^{zᵀz′} on unit vectors
LINEAR = DotProduct(0.0)
CASES = {
    "ard": Case(RBF([1.0, 0.5]), LINEAR + ConstantKernel(0.1), kernels={"t0": RBF(0.3), "t3": Matern(0.5, nu=1.5)}),
    "matern": Case(Matern(1.0, nu=0.5), RBF(0.7), kernels={"t1": LINEAR}),
    "rank 3": Case(LINEAR, RBF(1.0), columns=3, pool=60),
    "rank 3, both": Case(LINEAR, LINEAR, columns=3, pool=60),
    "equal features": Case(On(RBF(1.0), [0]), Identity(), columns=2, pool=12),
    "slopes": Case(
        ConstantKernel(2.0) * RationalQuadratic(1.0, 2.0) + DotProduct(0.3),
        Linear([[1, 0.3, 0], [0.3, 1, 0], [0, 0, 0.5]]),
    ),
    "mixed model": Case(None, Linear([[1, 0.3], [0.3, 0.5]]), columns=1, kernels={"t2": RBF(1.0)}),
    "smooth": Case(SMOOTH, LINEAR, columns=19, pool=489, unit=True),
}


def problem(case: Case, seed: int, *, alpha: float, lam: float, bias: Any, rows: int = 80, tasks: int = 9) -> Problem:
    rng = np.random.default_rng(seed)
    pool = case.inputs(rng)
    if case is CASES["equal features"]:  # half the items share their feature with the other half
        pool[:, 0] = np.repeat(pool[: len(pool) // 2, 0], 2)
    at = rng.integers(len(pool), size=rows)
    labels = [f"t{j}" for j in rng.integers(tasks, size=rows)]
    at[rows // 2 :: 7] = at[: len(at[rows // 2 :: 7])]  # repeats, also within a task
    for i in range(rows // 2, rows, 7):
        labels[i] = labels[(i - rows // 2) // 7]
    y = 3.0 + 2.0 * rng.normal(size=rows)
    noise = 10.0 ** rng.uniform(-3, 3, size=rows)
    return Problem(labels, pool[at], y, noise, case.common, case.individual, alpha, lam, bias, case.kernels)


def model_of(p: Problem, **changes: Any) -> Model:
    fields = {"common": p.common, "individual": p.individual, "alpha": p.alpha, "lam": p.lam, "bias": p.bias}
    return Model(**fields | changes)


def engine_of(p: Problem, rows: Any = slice(None), **changes: Any) -> Engine:
    """An engine that learned some rows of a problem at once."""
    engine = Engine(model_of(p, **changes), individual=p.kernels)
    which = np.arange(len(p.y))[rows]
    if len(which):
        engine.learn_many([p.tasks[i] for i in which], p.X[which], p.y[which], p.noise[which])
    return engine


def probes(p: Problem, seed: int = 0, n: int = 6) -> Array:
    """Inputs seen and inputs never seen."""
    rng = np.random.default_rng(seed)
    new = p.X[rng.integers(len(p.X), size=n)] + 0.3 * rng.normal(size=(n, p.X.shape[1]))
    return np.vstack([p.X[:n], new])

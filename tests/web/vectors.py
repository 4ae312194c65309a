"""What Python computes, for the JavaScript core to compute again: releases, own examples, predictions.

Every kernel of the closed list, every basis and bias, both policies; passive clients, and active ones whose examples
are in the release, came later, or were exchanged since.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from motet import Catalogue, Coefficients, Disclosed, Eigen, Engine, Features, Landmarks, Model, Nystrom
from motet.arrays import Array
from motet.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Identity,
    Linear,
    Matern,
    On,
    RationalQuadratic,
    Scaled,
)
from motet.model.tasks import Task
from motet.privacy.ledger import Ledger
from motet.privacy.mechanism import release
from tests.kernels.examples import KERNELS
from tests.privacy.worlds import mechanism, rounded_gaussian, rows_of, study

RNG = np.random.default_rng(17)
POOL = RNG.normal(size=(12, 3))
ITEMS = Catalogue([f"item {k}" for k in range(12)], POOL)
OTHER_KERNELS = [
    On(ExpSineSquared(0.7, 2.1), [0]),  # positive definite on inputs of one column only
    *(Matern(0.9, nu=nu) for nu in (0.3, 1.0, 3.7, 12.5)),
    Scaled(RBF(1.0) + DotProduct(0.5), center=[1.0, -3.0, 0.5], scale=[0.5, 2.0, 5.0]),
    RBF(1.0) * Exponentiation(DotProduct(1.0), 3),
    On(Scaled(Matern(1.0), center=[1.0], scale=[2.0]), [1]),
]
ALL_KERNELS = [*(kernel for kernel in KERNELS if not isinstance(kernel, ExpSineSquared)), *OTHER_KERNELS]
LINEAR = Linear([[2.0, 0.1, 0, 0], [0.1, 1, 0, 0.2], [0, 0, 1, 0], [0, 0.2, 0, 1]])
BASES: dict[str, Any] = {
    "growing": None,
    "landmarks": Landmarks(POOL[:7]),
    "eigen": Eigen(POOL, 5),
    "nystrom": Nystrom(POOL, 5),
}
BIASES: list[Any] = ["none", "constant", "linear", (1,)]


@dataclass(frozen=True, eq=False)
class Case:
    """A release, a client of it with its own examples, and where it is asked."""

    release: Disclosed
    own: tuple[Array, Array, Array]
    probes: Array
    coefficients: Coefficients | None = None

    def to_json(self) -> dict[str, Any]:
        X, y, noise = self.own
        return {
            "release": base64.b64encode(self.release.to_bytes()).decode(),
            "X": X.tolist(),
            "y": y.tolist(),
            "noise": noise.tolist(),
            "probes": self.probes.tolist(),
            "coefficients": None if self.coefficients is None else self.coefficients.to_dict(),
        }

    def expected(self) -> dict[str, Array]:
        release = self.release
        passive = self.coefficients is None
        estimate = release.estimate(*self.own) if passive else release.active_estimate(self.coefficients)  # type: ignore[arg-type]
        if release.sigma2 is None or np.isnan(release.sigma2):
            return {"average": release.average(self.probes), "mean": estimate.predict(self.probes)}
        average, average_std = release.average(self.probes, return_std=True)
        mean, std = estimate.predict(self.probes, return_std=True)
        return {"average": average, "average_std": average_std, "mean": mean, "std": std}


def examples(rng: np.random.Generator, n: int, pool: Array = POOL, spread: float = 0.5) -> tuple[Array, Array, Array]:
    """Some at the pool's inputs, of which some repeat, and some beside them."""
    X = pool[rng.integers(len(pool), size=n)]
    if spread:
        X = X + spread * (rng.random(n) < 0.3)[:, None] * rng.normal(size=X.shape)
    X[-1] = X[0]
    return X, 2.0 + rng.normal(size=n), 10.0 ** rng.uniform(-1, 1, size=n)


def learned(model: Model, seed: int = 0, pool: Array = POOL, spread: float = 0.5) -> Engine:
    rng = np.random.default_rng(seed)
    engine = Engine(model)
    for task in range(5):
        engine.learn_many([task] * 6, *examples(rng, 6, pool, spread))
    return engine


def passive(model: Model, seed: int = 1, pool: Array = POOL, spread: float = 0.5) -> Case:
    own = examples(np.random.default_rng(seed), 4, pool, spread)
    beside = np.random.default_rng(seed + 1).normal(size=pool[:4].shape) if spread else pool[:0]
    return Case(learned(model, pool=pool, spread=spread).disclose(), own, np.vstack([pool[:4], own[0], beside]))


def cases() -> Iterator[tuple[str, Case]]:
    settings: dict[str, Any] = {"alpha": 0.4, "lam": 0.1}
    for k, kernel in enumerate(ALL_KERNELS):
        for kind, basis in BASES.items():
            model = Model(kernel, RationalQuadratic(1.0, 0.5), bias=BIASES[k % 4], basis=basis, **settings)
            yield f"{kernel}, {kind}", passive(model)
        yield f"individual {kernel}", passive(Model(RBF(1.0), kernel, **settings))
    for bias in BIASES:
        for kind, basis in BASES.items():
            yield f"bias {bias}, {kind}", passive(Model(RBF(1.0), DotProduct(0.5), bias=bias, basis=basis, **settings))
        yield f"bias {bias}, features", passive(Model(LINEAR, RBF(1.0), bias=bias, basis=Features(), **settings))
        yield f"bias {bias} alone", passive(Model(None, RBF(1.0), bias=bias, **settings))
    for alpha in (0.0, 1.0):
        yield f"α = {alpha:g}", passive(Model(RBF(1.0), DotProduct(0.5), **(settings | {"alpha": alpha})))
    yield from releases_of_other_times(settings)
    yield from catalogues(settings)
    yield from active_clients(settings)
    for name in ("eigen", "landmarks", "linear bias", "features", "bias alone"):
        yield f"private, {name}", private(name)


def releases_of_other_times(settings: dict[str, Any]) -> Iterator[tuple[str, Case]]:
    """Before the first example, with a slope that no data identify, without σ², and of an earlier version."""
    case = passive(Model(RBF(1.0), DotProduct(0.5), bias="linear", basis=Landmarks(POOL[:5]), sigma2=1.0, **settings))
    empty = Engine(case.release.model)
    empty.open(3)
    yield "no data", replace(case, release=empty.disclose())
    flat = POOL * [1.0, 0.0, 1.0] + [0.0, 2.0, 0.0]
    model = Model(RBF(1.0), DotProduct(0.5), bias="linear", **settings)
    one = passive(model, pool=flat, spread=0.0)
    yield "a slope without data", replace(one, probes=np.vstack([one.probes, POOL]), own=examples(RNG, 4))
    yield "no σ²", replace(case, release=replace(case.release, sigma2=None))
    yield "earlier version", replace(case, release=replace(case.release, residual_in_tasks=False))


def catalogues(settings: dict[str, Any]) -> Iterator[tuple[str, Case]]:
    for bias in ("none", "linear"):
        for kind, basis in {"growing": None, "eigen": Eigen(ITEMS, 5), "landmarks": Landmarks(ITEMS)}.items():
            individual = DotProduct(0.0) + ConstantKernel(0.1) * Identity()
            model = Model(RBF(1.5), individual, bias=bias, basis=basis, catalogue=ITEMS, **settings)
            yield f"catalogue, {bias}, {kind}", passive(model, pool=ITEMS.rows, spread=0.0)
    names = Catalogue([f"item {k}" for k in range(12)])
    model = Model(Identity(), Identity() + ConstantKernel(0.5), catalogue=names, **settings)
    yield "names alone", passive(model, pool=names.rows, spread=0.0)


def active_clients(settings: dict[str, Any]) -> Iterator[tuple[str, Case]]:
    for kind, basis in BASES.items():
        for bias in ("none", "linear"):
            engine = learned(Model(RBF(1.0), DotProduct(0.5), bias=bias, basis=basis, **settings))
            release = engine.disclose()
            case = Case(release, examples(RNG, 4), POOL, engine.coefficients(2))
            yield f"active, {kind}, {bias}", case
            engine.learn_many([2, 2, "new", "new", "new"], *examples(RNG, 5))
            yield f"active with more, {kind}, {bias}", replace(case, coefficients=engine.coefficients(2, release))
            new = release.coefficients(Task.of(*engine.examples("new")), Task.empty(3), release.model.individual)
            yield f"active and new, {kind}, {bias}", replace(case, coefficients=new)


def private(name: str) -> Case:
    rng = np.random.default_rng(3)
    made = release(
        study(name, 60), mechanism(name), Ledger(epsilon=3.0, delta=1e-5, releases=2), noise=rounded_gaussian(1)
    )
    own = rows_of(name, rng, 5), rng.normal(size=5), np.ones(5)
    return Case(made.disclosed, own, rows_of(name, rng, 12))

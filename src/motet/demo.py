"""A small simulated study, learned in the terminal: what sharing an average is worth.

Every client has a curve, the average of all plus a shift of its own, and a few noisy samples of it. The same samples
are learned separately (α = 0), pooled (α = 1) and mixed; errors are against the true curves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import numpy as np

from motet.arrays import Array, Index
from motet.engine import Engine
from motet.kernels import RBF
from motet.model import Model

ALPHA, NOISE = 0.6, 0.05
COMMON, INDIVIDUAL = RBF(0.15), RBF(0.3)
MODEL = Model(COMMON, INDIVIDUAL, alpha=ALPHA, lam=NOISE, sigma2=1.0)
TIMES = np.linspace(0.0, 1.0, 41)[:, None]


@dataclass(frozen=True)
class Study:
    """Clients' true curves over TIMES, and their samples: whose, when, what."""

    curves: Array
    client: Index
    when: Index
    y: Array


@dataclass(frozen=True)
class Result:
    """Root mean squared error over all clients and times; passive clients are a tenth, left out and alone."""

    separate: float
    pooled: float
    mixed: float
    passive: float

    def to_dict(self) -> dict[str, float]:
        return asdict(self)


def simulate(clients: int, examples: int, seed: int) -> Study:
    """Curves drawn from the model's own prior, sampled at random times."""
    rng = np.random.default_rng(seed)
    half = [np.linalg.cholesky(k(TIMES) + 1e-10 * np.eye(len(TIMES))) for k in (COMMON, INDIVIDUAL)]
    average = np.sqrt(ALPHA) * half[0] @ rng.normal(size=len(TIMES))
    shifts = np.sqrt(1 - ALPHA) * rng.normal(size=(clients, len(TIMES))) @ half[1].T
    curves = average + shifts
    client = np.repeat(np.arange(clients), examples)
    when = rng.integers(len(TIMES), size=clients * examples)
    order = rng.permutation(len(client))
    client, when = client[order], when[order]
    return Study(curves, client, when, curves[client, when] + np.sqrt(NOISE) * rng.normal(size=len(client)))


def run(study: Study, advance: Callable[[], None]) -> Result:
    """Stream the study's samples into three engines, then ask for every client's curve."""
    models = {name: replace(MODEL, alpha=a)
              for name, a in (("separate", 0.0), ("pooled", 1.0), ("mixed", ALPHA))}  # fmt: skip
    engines = {name: Engine(model) for name, model in models.items()}
    others, passive = Engine(models["mixed"]), max(1, len(study.curves) // 10)
    for j, t, y in zip(study.client.tolist(), study.when, study.y):
        for engine in engines.values():
            engine.learn(j, TIMES[t], y)
        if j >= passive:
            others.learn(j, TIMES[t], y)
        advance()
    errors = {
        name: _rmse(study, [_active(engine, j) for j in range(len(study.curves))]) for name, engine in engines.items()
    }
    alone = [_passive(others, study, j) for j in range(passive)]
    return Result(**errors, passive=_rmse(study, alone))


def _active(engine: Engine, client: int) -> Array:
    return engine.disclose().active_estimate(engine.coefficients(client)).predict(TIMES)


def _passive(others: Engine, study: Study, client: int) -> Array:
    own = study.client == client
    return others.disclose().estimate(TIMES[study.when[own]], study.y[own]).predict(TIMES)


def _rmse(study: Study, estimates: list[Array]) -> float:
    return float(np.sqrt(np.mean((np.array(estimates) - study.curves[: len(estimates)]) ** 2)))

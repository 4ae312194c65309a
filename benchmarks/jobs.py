"""The jobs of the table, each against a floor: what no program of this kind can do without."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from tests.oracles import Array, Literal, Problem
from threadpoolctl import ThreadpoolController

from benchmarks.attacks import attacks
from benchmarks.defaults import defaults
from benchmarks.load import service
from benchmarks.measure import Row, duration, medians, peak_megabytes, seconds, timed
from benchmarks.million import million
from benchmarks.page import page
from benchmarks.partitions import huge, partitions
from benchmarks.proposals import proposals
from benchmarks.recovery import recovery
from benchmarks.rows import fit_smooth, rows, tune_rows  # noqa: F401
from benchmarks.tuning import long_tasks, predict_long_tasks, tuning  # noqa: F401
from benchmarks.workers import workers
from motet import Eigen, Engine, Features, MixedEffectRegressor, Model
from motet.kernels import RBF, ConstantKernel, DotProduct, Linear
from motet.music.reproduce import Reproduction, run
from motet.music.simulation import artists, simulate
from motet.privacy import Ledger, Mechanism, release

COMMON, INDIVIDUAL = ConstantKernel(math.e) * RBF(1.0), DotProduct(0.0)  # the article's music study
ALPHA, LAM = 0.0714, 3.16e-4


def items(n: int, tags: int = 19) -> Array:
    """Unit vectors of tags."""
    Z = np.random.default_rng(0).uniform(size=(n, tags)) ** 3
    return Z / np.linalg.norm(Z, axis=1, keepdims=True)


def study(tasks: int, rows: int, n: int, tags: int = 19) -> tuple[Array, Array, Array]:
    rng, task = np.random.default_rng(1), np.repeat(np.arange(tasks), rows)
    return items(n, tags)[rng.integers(n, size=len(task))], rng.normal(size=len(task)), task


def fit(X: Array, y: Array, task: Array, **changes: Any) -> MixedEffectRegressor:
    settings: dict[str, Any] = {"common": COMMON, "individual": INDIVIDUAL, "alpha": ALPHA, "lam": LAM, "bias": "none"}
    return MixedEffectRegressor(**settings | {"basis": None, "optimizer": None} | changes).fit(X, y, task=task)


def positive(m: int, size: int) -> Array:
    V = np.random.default_rng(2).normal(size=(min(m, 20_000), size, size))
    V = V @ V.swapaxes(1, 2) + np.eye(size)
    return np.concatenate([V] * -(-m // len(V)))[:m]


# --- the table ---


def music() -> list[Row]:
    X, y, task = study(3000, 5, 489)
    S = RBF(0.3)(items(489)) + np.eye(489)

    def floor() -> None:
        np.linalg.cholesky(S)
        for _ in range(2):
            S @ S

    takes, r = timed(partial(fit, X, y, task), floor, 31)
    return [Row("fit, 3,000 tasks × 5 on 489 inputs", takes, "one Cholesky and two products of 489 × 489", r, 4.0)]


def against_direct() -> list[Row]:
    X, y, task = study(600, 5, 489)

    def direct() -> None:
        """The article's equation 3, all examples at once."""
        K = ALPHA * COMMON(X) + (1 - ALPHA) * (task[:, None] == task) * INDIVIDUAL(X)
        K[np.diag_indices_from(K)] += LAM
        ones = np.ones((len(y), 1))
        np.linalg.solve(np.block([[K, ones], [ones.T, np.zeros((1, 1))]]), np.append(y, 0.0))

    slow, fast = medians(direct, partial(fit, X, y, task, bias="constant"), 11)
    job, direct_solve = "fit, 600 tasks × 5 on 489 inputs", "the direct solve (times faster)"
    return [Row(job, duration(fast), direct_solve, slow / fast, 30.0, at_most=False)]


def learning() -> list[Row]:
    few, many = (min(_per_example(tasks) for _ in range(3)) for tasks in (1_000, 100_000))
    Z = items(489)
    rng = np.random.default_rng(3)
    problem = Problem([], Z, np.empty(0), np.empty(0), COMMON, INDIVIDUAL, ALPHA, LAM)
    literal = Literal(problem)
    for z in Z:
        literal._new_input(z)
    examples = [(int(rng.integers(100)), Z[rng.integers(489)], float(rng.normal()), 1.0) for _ in range(300)]

    def receive() -> None:
        for example in examples:
            literal.receive(*example)

    slow = seconds(receive) / len(examples)
    job, article = "learn, with its share of one release", "the article's Algorithm 2 at n = 489 (times faster)"
    return [
        Row(f"{job}, at 100,000 tasks", duration(many), "the same at 1,000 tasks", many / few, 2.0),
        Row(f"{job}, at 1,000 tasks", duration(few), article, slow / max(few, many), 10.0, at_most=False),
    ]


def _per_example(tasks: int) -> float:
    """Examples one by one, in random order, and the sums that follow."""
    X, y, task = study(tasks, 5, 489)
    order = np.random.default_rng(4).permutation(len(y))
    rows = list(zip(task[order].tolist(), X[order], y[order].tolist()))

    def run() -> None:
        engine = Engine(Model(COMMON, INDIVIDUAL, ALPHA, LAM, "none"))
        for row in rows:
            engine.learn(*row)
        engine.disclose()

    return seconds(run) / len(rows)


def passive() -> list[Row]:
    X, y, task = study(3000, 5, 489)
    release = fit(X, y, task).disclosed_
    S = RBF(0.3)(items(489)) + np.eye(489)
    cholesky = partial(np.linalg.cholesky, S)

    warm = replace(release)

    def first() -> None:
        replace(release).estimate(X[:5], y[:5])  # a copy has nothing factored yet

    def again() -> None:
        warm.estimate(X[:5], y[:5])

    takes, r = timed(first, cholesky, 31)
    takes_again, r_again = timed(again, cholesky, 31)
    return [
        Row("passive estimate at n = 489, first on a release", takes, "one Cholesky of 489", r, 3.0),
        Row("passive estimate at n = 489, afterwards", takes_again, "one Cholesky of 489", r_again, 1.0),
    ]


def threads() -> list[Row]:
    """A process that sets no number of threads, against one that is pinned to one BLAS thread."""
    blas, cores = ThreadpoolController().select(user_api="blas"), os.cpu_count() or 1

    def run(threads: int, limit: str, call: Callable[[], object]) -> None:
        os.environ["MOTET_BLAS_THREADS"] = limit
        with blas.limit(limits=threads):
            call()
        del os.environ["MOTET_BLAS_THREADS"]

    release = fit(*study(10, 5, 20, tags=2)).disclosed_
    X, y = items(20, 2)[:4], np.arange(4.0)

    def estimates() -> None:
        for _ in range(20):
            release.estimate(X, y)

    calls: dict[str, tuple[Callable[[], object], float]] = {
        "fit, 3,000 tasks × 5 on 489 inputs": (partial(fit, *study(3000, 5, 489)), 1.15),
        "20 passive estimates at n = 20": (estimates, 1.05),
    }
    rows = []
    for name, (call, goal) in calls.items():
        takes, r = timed(partial(run, cores, "1", call), partial(run, 1, "all", call), 101)
        rows.append(Row(f"{name}, threads not set", takes, "the same, BLAS pinned to one thread", r, goal))
    return rows


def fit_large() -> MixedEffectRegressor:
    return fit(*study(200_000, 10, 2000, tags=8))


def large() -> list[Row]:
    inverses = partial(np.linalg.inv, positive(200_000, 10))
    few, many = (timed(partial(fit, *study(200_000, 10, 2000, tags)), inverses, 9) for tags in (8, 19))
    peak = peak_megabytes("fit_large")
    job, alone = "fit, 200,000 tasks × 10 on 2,000 inputs", "the batched inverses alone"
    note = "reading and matching 19 columns costs as much as the inverses"
    return [
        Row(f"{job} of 8 columns", few[0], alone, few[1], 4.0),
        Row("the same, peak memory of the process", f"{peak:.0f} MB", "2 GB, data included", peak / 2000, 1.0),
        Row(f"{job} of 19 columns", many[0], alone, many[1], 4.0, note=note),
    ]


def reproduction() -> Reproduction:
    return run(artists(), users=3000, examples=5, seed=0)


def music_study() -> list[Row]:
    """The article's experiment, from end to end, without its figures."""
    took, peak = seconds(reproduction), peak_megabytes("reproduction")
    return [
        Row("motet reproduce", duration(took), "90 s", took / 90, 1.0),
        Row("the same, peak memory of the process", f"{peak:.0f} MB", "2 GB", peak / 2000, 1.0),
    ]


def private_release() -> list[Row]:
    catalogue, repeats = artists(), 9
    listeners = simulate(catalogue, 3000, 5, seed=0)
    ratings = listeners.user, catalogue.rows[listeners.artist], listeners.rating
    exact = Model(COMMON, INDIVIDUAL, ALPHA, LAM, "none", catalogue=catalogue)
    small = replace(exact, basis=Eigen(catalogue, 80), sigma2=0.6)
    engine, mechanism, ledger = Engine(small), Mechanism(small, examples=5), Ledger(epsilon=1.0)
    engine.learn_many(*ratings)
    waiting = [Engine(exact) for _ in range(repeats + 1)]
    for other in waiting:
        other.learn_many(*ratings)
    ledger.scale  # noqa: B018  # found once for a study
    takes, r = timed(partial(release, engine, mechanism, ledger), lambda: waiting.pop().disclose(), repeats)
    return [Row("private release, 3,000 clients at rank 80", takes, "one without noise on 489 inputs", r, 10.0)]


def groups(m: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(5)
    task = np.repeat(np.arange(m), 5)
    x, b = rng.normal(size=5 * m), rng.normal(size=(m, 2))
    return x[:, None], 1 + 2 * x + b[task, 0] + 0.5 * b[task, 1] * x + 0.3 * rng.normal(size=5 * m), task


def fit_groups(x: Array, y: Array, task: Array) -> MixedEffectRegressor:
    settings: dict[str, Any] = {"common": Linear(np.eye(2)), "individual": Linear([[1.0, 0.0], [0.0, 0.25]])}
    settings |= {"alpha": 0.5, "lam": 0.045, "bias": "none", "basis": Features(), "optimizer": None}
    return MixedEffectRegressor(**settings).fit(x, y, task=task)


def mixed_model() -> list[Row]:
    data = groups(125_000)
    takes, r = timed(partial(fit_groups, *data), partial(np.linalg.inv, positive(125_000, 5)), 9)
    slow, fast = medians(_statsmodels(*groups(1_000)), partial(fit_groups, *groups(1_000)), 3)
    peer = "statsmodels MixedLM (times faster)"
    note = "an optimisation of the variances there, a fit with given ones here"
    return [
        Row("fit, 125,000 groups × 5, random intercept and slope", takes, "the batched 5 × 5 inverses alone", r, 4.0),
        Row("fit, 1,000 groups × 5", duration(fast), peer, slow / fast, 1.0, at_most=False, note=note),
    ]


def _statsmodels(x: Array, y: Array, task: Array) -> Callable[[], object]:
    from statsmodels.regression.mixed_linear_model import MixedLM

    design = np.column_stack([np.ones(len(x)), x])
    return lambda: MixedLM(y, design, groups=task, exog_re=design).fit()


TABLE: list[Callable[[], list[Row]]] = [
    music,
    against_direct,
    learning,
    passive,
    threads,
    large,
    mixed_model,
    tuning,
    defaults,
    long_tasks,
    rows,
    music_study,
    private_release,
    million,
    partitions,
    huge,
    proposals,
    recovery,
    service,
    workers,
    attacks,
    page,
]

"""Lazy folding, exact forgetting, any order, and refusals that leave no trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from motet import Catalogue, Disclosed, Engine, Features, Landmarks, Model
from motet.errors import (
    EmptyData,
    InvalidData,
    InvalidModel,
    InvalidNoise,
    NotFinite,
    NotPositiveDefinite,
    StaleRelease,
    UnknownExample,
    UnknownName,
    UnknownTask,
    WrongDimension,
)
from motet.kernels import RBF, DotProduct, Exponentiation, ExpSineSquared, Identity, Linear, Matern, On
from motet.model.basis import Basis
from tests.engine.grid import GRID, Triple, learned, triples
from tests.oracles import Array
from tests.streams import CASES, engine_of, probes, problem

MODEL = Model(RBF(1.0), DotProduct(0.5), alpha=0.3, lam=0.1)
BASES: dict[str, Any] = {"growing": None, "landmarks": Landmarks(GRID)}


def predictions(engine: Engine, tasks: str = "abcd") -> Array:
    """What every task, and the average, says on the grid, with uncertainty."""
    release = engine.disclose()
    found = [np.concatenate(release.average(GRID, return_std=True))]
    for task in tasks:
        if task in engine.tasks:
            estimate = release.active_estimate(engine.coefficients(task))
            found.append(np.concatenate(estimate.predict(GRID, return_std=True)))
    return np.array(found)


def assert_same(a: Engine, b: Engine) -> None:
    np.testing.assert_allclose(predictions(a), predictions(b), rtol=0, atol=1e-8 * 5)


@pytest.mark.parametrize("basis", BASES)
@given(rows=st.lists(triples, min_size=1, max_size=12), data=st.data())
@settings(max_examples=40)
def test_order_does_not_matter(basis: str, rows: list[Triple], data: st.DataObject) -> None:
    assert_same(learned(rows, BASES[basis]), learned(data.draw(st.permutations(rows)), BASES[basis]))


@pytest.mark.parametrize("basis", BASES)
@given(rows=st.lists(triples, min_size=1, max_size=12))
@settings(max_examples=40)
def test_batch_is_one_by_one(basis: str, rows: list[Triple]) -> None:
    batch = learned([], BASES[basis])
    tasks, x, y, noise = zip(*rows)
    batch.learn_many(tasks, np.array(x)[:, None], y, noise)
    assert_same(batch, learned(rows, BASES[basis]))


@pytest.mark.parametrize("basis", BASES)
@given(rows=st.lists(triples, min_size=2, max_size=12))
@settings(max_examples=40)
def test_forgotten_is_never_seen(basis: str, rows: list[Triple]) -> None:
    rest = [row for row in rows if row[0] != rows[0][0]]
    assume(rest)
    engine = learned(rows, BASES[basis])
    engine.disclose()
    engine.forget(rows[0][0])
    assert_same(engine, learned(rest, BASES[basis]))
    assert rows[0][0] not in engine.tasks


@pytest.mark.slow
def test_after_twenty_thousand_operations_nothing_has_drifted() -> None:
    rng = np.random.default_rng(7)
    model = Model(RBF(1.0), DotProduct(0.5), alpha=0.3, lam=1e-3, sigma2=1.0)
    engine = Engine(model)
    held: list[tuple[int, tuple[float, ...], float, float]] = []
    pool = rng.normal(size=(40, 2))
    for step in range(20_000):
        kind = rng.uniform()
        if kind < 0.55 or not held:
            row = (
                int(rng.integers(60)),
                tuple(pool[rng.integers(40)]),
                float(rng.normal()),
                float(10 ** rng.uniform(-1, 1)),
            )
            engine.learn(*row)
            held.append(row)
        elif kind < 0.98:
            engine.unlearn(*held.pop(rng.integers(len(held))))
        else:
            task = held[rng.integers(len(held))][0]
            engine.forget(task)
            held = [row for row in held if row[0] != task]
        if step % 500 == 0:
            engine.disclose()
    fresh = Engine(model)
    fresh.learn_many(*zip(*held))
    assert len(engine) == len(held)
    assert set(engine.tasks) == set(fresh.tasks)
    X = rng.normal(size=(20, 2))
    scale = max(abs(row[2]) for row in held)
    for label in fresh.tasks:
        mine, theirs = (e.disclose().active_estimate(e.coefficients(label)) for e in (engine, fresh))
        for a, b in zip(mine.predict(X, return_std=True), theirs.predict(X, return_std=True)):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-8 * scale)
    assert engine.evidence().log_evidence == pytest.approx(fresh.evidence().log_evidence, rel=1e-9)
    assert len(engine.disclose().inputs) == len(fresh.disclose().inputs)


@pytest.mark.parametrize("changes", ["appended", "taken back", "replaced", "new task"])
@pytest.mark.parametrize("name", ["ard", "rank 3", "mixed model"])
def test_a_client_that_changed_since_the_release(name: str, changes: str) -> None:
    """Others as in the release, its own examples as they are now: just what a fresh release of both would say."""
    p = problem(CASES[name], seed=11, alpha=0.3, lam=0.1, bias="constant")
    mine = np.array([t == "t1" for t in p.tasks])
    kept = ~mine if changes == "new task" else np.ones(len(mine), dtype=bool)
    engine = engine_of(p, kept)
    release = engine.disclose()
    first = int(np.flatnonzero(mine)[0])
    if changes in ("taken back", "replaced"):
        engine.unlearn("t1", p.X[first], p.y[first], p.noise[first])
    if changes != "taken back":
        engine.learn("t1", p.X[0] + 0.5, 4.0, 0.5)
        engine.learn("t1", p.X[first], -1.0, 2.0)
    engine.learn("t0", p.X[1], 100.0)  # fresher than the release: must not be seen
    estimate = release.active_estimate(engine.coefficients("t1", release))
    engine.unlearn("t0", p.X[1], 100.0)
    expected = engine.disclose().active_estimate(engine.coefficients("t1"))
    X = probes(p)
    np.testing.assert_allclose(estimate.predict(X), expected.predict(X), rtol=0, atol=1e-8 * np.abs(p.y).max())


def test_forgotten_and_back_before_the_next_release() -> None:
    p = problem(CASES["ard"], seed=11, alpha=0.3, lam=0.1, bias="constant")
    engine = engine_of(p)
    release = engine.disclose()
    engine.forget("t1")
    with pytest.raises(UnknownTask, match="t1"):
        engine.coefficients("t1", release)
    engine.learn("t1", p.X[0], 2.0)
    estimate = release.active_estimate(engine.coefficients("t1", release))
    X = probes(p)
    expected = engine.disclose().active_estimate(engine.coefficients("t1")).predict(X)
    np.testing.assert_allclose(estimate.predict(X), expected, rtol=0, atol=1e-8 * np.abs(p.y).max())


def test_what_was_taken_back_leaves_no_trace_in_the_bias() -> None:
    """Also where nobody else identifies the direction that it did."""
    engine = Engine(Model(RBF(1.0), DotProduct(0.5), 0.3, 0.1, "linear", sigma2=1.0))
    engine.learn("other", [0.0], 1.0)
    engine.learn("me", [1.0], 50.0)
    release = engine.disclose()
    engine.unlearn("me", [1.0], 50.0)
    engine.learn("me", [0.0], 1.0)
    found = release.active_estimate(engine.coefficients("me", release)).predict([[0.0], [1.0], [2.0]])
    fresh = engine.disclose().active_estimate(engine.coefficients("me")).predict([[0.0], [1.0], [2.0]])
    np.testing.assert_allclose(found, fresh, rtol=1e-9)


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e6, 1e8])
def test_a_linear_bias_far_from_zero_keeps_its_digits(offset: float) -> None:
    """Unix times, years, identifiers: as if counted from elsewhere."""
    rng = np.random.default_rng(0)
    x, task = np.round(rng.normal(size=40), 3), rng.integers(5, size=40)  # exact after the offset, but for rounding
    y = 3 + 2 * x + 0.1 * rng.normal(size=40)
    model = Model(RBF(1.0), RBF(0.7), 0.5, 0.1, "linear")
    near, far = Engine(model), Engine(model)
    near.learn_many(task, (x + offset - offset)[:, None], y)
    far.learn_many(task, (x + offset)[:, None], y)
    np.testing.assert_allclose(far.disclose().average([[offset]]), near.disclose().average([[0.0]]), rtol=1e-7)
    assert far.evidence().log_evidence == pytest.approx(near.evidence().log_evidence, rel=1e-7)


def test_another_engines_release_is_told_apart() -> None:
    a, b = learned([("a", 0.0, 1.0, 1.0)]), learned([("a", 0.0, 2.0, 1.0)])
    with pytest.raises(StaleRelease, match="not this engine's latest"):
        a.coefficients("a", b.disclose())
    with pytest.raises(StaleRelease, match="another release"):
        b.disclose().active_estimate(a.coefficients("a"))


def test_a_model_keeps_its_own_kernels() -> None:
    kernel = RBF(np.array([1.0]))
    model = Model(kernel, DotProduct(0.5), 0.3, 0.1)
    kernel.length_scale[0] = 9.0
    assert model.common == RBF([1.0])


@pytest.mark.parametrize(
    "labels",
    [
        np.array([3, 1, 1, 2, 3]),
        np.array([-128, 127, 127, 0, -128], dtype=np.int8).repeat(60),
        np.array([2**63, 0, 0, 2**64 - 1, 2**63], dtype=np.uint64),
        np.array([-(2**63), 2**63 - 1, 2**63 - 1, 0, -(2**63)]),
    ],
)
def test_whole_numbers_are_labels_near_each_other_or_not(labels: Any) -> None:
    engine = Engine(MODEL)
    engine.learn_many(labels, np.arange(float(len(labels)))[:, None] % 7, np.arange(float(len(labels))))
    assert engine.tasks == sorted(set(labels.tolist()))
    held = dict(zip(*(a.tolist() for a in np.unique(labels, return_counts=True))))
    engine.forget(labels[0].item())
    assert len(engine) == len(labels) - held[labels[0].item()]


def test_dates_are_labels_and_nothing_is_none() -> None:
    days = np.array(["2026-01-01", "2026-01-02"], dtype="datetime64[ns]")
    engine = Engine(MODEL)
    engine.learn_many(days, [[0.0], [1.0]], [1.0, 2.0])
    engine.forget(days[0])
    assert engine.tasks == [days[1]]
    for label in (None, float("nan"), np.nan):
        with pytest.raises(InvalidData, match="needs a task label, got a missing one"):
            engine.learn(label, [0.0], 1.0)


def test_releases_are_lazy_and_numbered() -> None:
    engine = learned([("a", 0.0, 1.0, 1.0)])
    first = engine.disclose()
    assert engine.disclose() is first
    engine.learn("a", [0.5], 2.0)
    second = engine.disclose()
    assert (first.version, second.version) == (1, 2)
    with pytest.raises(StaleRelease, match="latest"):
        engine.coefficients("a", first)
    with pytest.raises(StaleRelease, match="another release than 1: fetch both again"):
        first.active_estimate(engine.coefficients("a"))


def test_a_caller_may_number_releases() -> None:
    engine = learned([("a", 0.0, 1.0, 1.0)])
    release = engine.disclose(version=7)
    assert release.version == 7
    assert engine.disclose() is engine.disclose(version=7) is release
    release.active_estimate(engine.coefficients("a", release))  # not stale
    engine.learn("a", [0.5], 2.0)
    assert engine.disclose().version == 8


def test_everything_forgotten_is_the_prior() -> None:
    engine = learned([("a", 0.0, 1.0, 1.0), ("b", 1.0, 2.0, 1.0)])
    engine.forget("a")
    engine.forget("b")
    mean, std = engine.disclose().average(GRID, return_std=True)
    np.testing.assert_array_equal(mean, 0.0)
    np.testing.assert_allclose(std, np.sqrt(0.3))
    assert len(engine.disclose().inputs) == 0


def test_a_slope_that_the_data_do_not_show_gets_no_weight() -> None:
    """A constant column under a linear bias is as if it were not there; one example alone is enough to answer."""
    p = problem(CASES["ard"], seed=2, alpha=0.3, lam=0.1, bias="linear")
    p.X[:, 1] = 0.0
    kernels = RBF(1.0), RBF([1.0, 0.5])
    narrow, wide = (Engine(Model(kernel, On(DotProduct(0.5), [0]), 0.3, 0.1, "linear")) for kernel in kernels)
    narrow.learn_many(p.tasks, p.X[:, :1], p.y, p.noise)
    wide.learn_many(p.tasks, p.X, p.y, p.noise)
    X = probes(p)[:, :1]
    expected = narrow.disclose().average(X)
    found = wide.disclose().average(np.hstack([X, np.zeros_like(X)]))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8 * np.abs(p.y).max())
    assert wide.evidence().sigma2 == pytest.approx(narrow.evidence().sigma2)
    one = Engine(Model(RBF(1.0), DotProduct(0.5), 0.3, 0.1, "linear"))
    one.learn("a", [1.0, 2.0], 3.0)
    np.testing.assert_allclose(one.disclose().average([[1.0, 2.0], [0.0, 5.0]]), 3.0)


UNCENTRED = [
    Model(None, RBF(1.0), 0.5, 0.1, "linear"),
    Model(DotProduct(0.0), RBF(1.0), 0.5, 0.1, "linear", basis=Features()),
]


@pytest.mark.parametrize("model", UNCENTRED)
def test_a_linear_bias_that_nothing_centres_refuses_inputs_far_from_zero(model: Model) -> None:
    engine = Engine(model)
    engine.learn_many(["a", "a", "b"], [[1e6, 7.0], [1e6 + 1, 7.0], [1e6 + 2, 7.0]], [1.0, 2.0, 3.0])
    with pytest.raises(InvalidData, match=r"column 0 of the inputs is 1e\+06 ± 0.816: too far from 0"):
        engine.disclose()


# --- refusals ---------------------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[Callable[[Engine], Any], type[Exception], str]] = {
    "nan output": (lambda e: e.learn("a", [0.0], float("nan")), NotFinite, "outputs must be finite"),
    "infinite output": (lambda e: e.learn("a", [0.0], float("inf")), NotFinite, "row 0 is inf"),
    "nan input": (lambda e: e.learn("a", [float("nan")], 1.0), NotFinite, "inputs must be finite"),
    "wrong dimension": (lambda e: e.learn("a", [0.0, 1.0], 1.0), WrongDimension, "1 columns, got 2"),
    "scalar input": (lambda e: e.learn("a", 0.0, 1.0), WrongDimension, "a table, one row each"),
    "no noise": (lambda e: e.learn("a", [0.0], 1.0, 0.0), InvalidNoise, "row 0 is 0.0"),
    "negative noise": (lambda e: e.learn("a", [0.0], 1.0, -1.0), InvalidNoise, "row 0 is -1.0"),
    "unhashable task": (lambda e: e.learn(["a"], [0.0], 1.0), InvalidData, "hashable"),  # type: ignore[arg-type]
    "nothing": (lambda e: e.learn_many([], np.empty((0, 1)), []), EmptyData, "at least one"),
    "too few labels": (lambda e: e.learn_many(["a"], [[0.0], [1.0]], [1.0, 2.0]), WrongDimension, "2 task labels"),
    "too few outputs": (lambda e: e.learn_many(["a", "b"], [[0.0], [1.0]], [1.0]), WrongDimension, "2 outputs"),
    "bad row in a batch": (
        lambda e: e.learn_many(["a", "new", "b"], [[0.0], [9.0], [1.0]], [1.0, float("nan"), 2.0]), NotFinite, "row 1"),
    "unhashable in a batch": (
        lambda e: e.learn_many(["a", ["b"]], [[0.0], [9.0]], [1.0, 2.0]), InvalidData, "hashable"),  # type: ignore[list-item]
    "no list of labels": (lambda e: e.learn_many(None, [[0.0]], [1.0]), WrongDimension, "a list of 1"),  # type: ignore[arg-type]
    "a string of labels": (lambda e: e.learn_many("ab", [[0.0], [1.0]], [1.0, 2.0]), WrongDimension, "a list of 2"),
    "a number beyond floats": (lambda e: e.learn("a", [10**400], 1.0), InvalidData, "real numbers"),
    "a huge input": (lambda e: e.learn("a", [1e200], 1.0), NotFinite, "below 1e\\+150"),
    "a complex output": (lambda e: e.learn("a", [0.0], 1j), InvalidData, "real numbers"),  # type: ignore[arg-type]
    "masked inputs": (
        lambda e: e.learn_many(["a"], np.ma.masked_array([[1.0]], [[True]]), [1.0]), InvalidData, "real numbers"),
    "forget an unhashable task": (lambda e: e.forget(["a"]), InvalidData, "hashable"),  # type: ignore[arg-type]
    "unknown task": (lambda e: e.unlearn("nobody", [0.0], 1.0), UnknownTask, "'nobody'"),
    "forget unknown task": (lambda e: e.forget("nobody"), UnknownTask, "'nobody'"),
    "unknown example": (lambda e: e.unlearn("a", [0.0], 77.0), UnknownExample, "y=77.0"),
    "unknown input": (lambda e: e.unlearn("a", [7.0], 1.0), UnknownExample, "x="),
    "a name without catalogue": (lambda e: e.learn("a", "Madonna", 1.0), InvalidData, "no catalogue"),
    "text for a number": (lambda e: e.learn("a", [0.0], "much"), InvalidData, "real numbers"),  # type: ignore[arg-type]
    "coefficients of nobody": (lambda e: e.coefficients("nobody"), UnknownTask, "'nobody'"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_call_changes_nothing(case: str) -> None:
    call, error, message = REFUSED[case]
    engine = learned([("a", 0.0, 1.0, 1.0), ("b", 0.5, 2.0, 0.1)])
    before = engine.disclose()
    with pytest.raises(error, match=message):
        call(engine)
    assert engine.disclose() is before
    assert (len(engine), engine.tasks) == (2, ["a", "b"])


def test_a_first_example_that_the_kernel_cannot_read() -> None:
    engine = Engine(Model(RBF([1.0, 2.0, 3.0]), DotProduct(0.5), alpha=0.3, lam=0.1))
    with pytest.raises(WrongDimension, match="2 columns"):
        engine.learn("a", [1.0, 2.0], 3.0)
    engine.learn("a", [1.0, 2.0, 3.0], 3.0)
    assert len(engine) == 1
    single = Engine(MODEL, individual={"a": Matern([1.0, 2.0])})
    with pytest.raises(WrongDimension, match="1 columns"):
        single.learn("b", [1.0], 3.0)


@pytest.mark.parametrize("size", [12, 30])
def test_the_tasks_that_prevent_a_release_are_named(size: int) -> None:
    """Whichever way their inverses are computed; without them the release is that of the others."""
    model = Model(RBF(1.0), ExpSineSquared(0.3, 0.5), 0.5, 1e-6)  # a kernel on lines alone
    rng, engine, others = np.random.default_rng(0), Engine(model), Engine(model)
    for task in range(70):
        rows = rng.normal(size=(size, 1)) * [1.0, 0.0, 0.0], rng.normal(size=size)
        engine.learn_many([task] * size, *rows)
        others.learn_many([task] * size, *rows)
    for scattered in ("a", "b"):
        engine.learn_many([scattered] * size, rng.normal(size=(size, 3)), np.ones(size))
    with pytest.raises(NotPositiveDefinite) as caught:
        engine.disclose()
    assert set(caught.value.tasks) == {"a", "b"}
    for label in caught.value.tasks:
        engine.forget(label)
    assert np.array_equal(engine.disclose().theta, others.disclose().theta)


def test_a_kernel_that_is_not_positive_definite_is_named() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 3)), rng.normal(size=30)
    indefinite = Exponentiation(ExpSineSquared(0.3, 0.5), 1.0)
    for model in (Model(indefinite, DotProduct(0.5), 0.3, 1e-6), Model(RBF(1.0), indefinite, 0.3, 1e-6)):
        engine = Engine(model)
        engine.learn_many(["a"] * 30, X, y)
        with pytest.raises(NotPositiveDefinite, match="ExpSineSquared"):
            engine.disclose()
        assert len(engine) == 30
    single = Engine(Model(RBF(1.0), DotProduct(0.5), 0.3, 1e-6), individual={"odd": indefinite})
    single.learn_many(["a"] * 30, X, y)
    release = single.disclose()
    single.learn_many(["odd"] * 30, X, y)
    with pytest.raises(NotPositiveDefinite, match="another kernel"):
        single.disclose()
    single.forget("odd")
    np.testing.assert_allclose(single.disclose().theta, release.theta, rtol=1e-9)


def test_nothing_known_yet() -> None:
    with pytest.raises(EmptyData, match="learn an example first"):
        Engine(MODEL).disclose()


def test_what_would_not_fit_into_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motet.engine.system.MAX_MATRIX_ROWS", 3)
    engine = Engine(MODEL)
    engine.learn_many(["a", "a", "b", "b"], [[0.0], [1.0], [2.0], [3.0]], [0.0] * 4)
    with pytest.raises(InvalidModel, match=r"4 unique inputs are too many .*Landmarks"):
        engine.disclose()
    engine = Engine(Model(RBF(1.0), DotProduct(0.5), 0.3, 0.1, basis=Landmarks(GRID)))
    engine.learn_many(["a"] * 4, [[0.0], [1.0], [2.0], [0.0]], [0.0] * 4)
    engine.disclose()  # four examples, three inputs
    engine.learn("a", [3.0], 0.0)
    with pytest.raises(InvalidData, match=r"tasks of up to 4 inputs, 4 in all, are too long .*few features"):
        engine.disclose()


def test_a_refused_first_call_settles_nothing() -> None:
    engine = Engine(MODEL)
    with pytest.raises(InvalidData, match="hashable"):
        engine.learn(["a"], [0.0], 1.0)  # type: ignore[arg-type]
    engine.learn("a", [0.0, 1.0], 1.0)
    assert engine.disclose().inputs.shape == (1, 2)


# --- names ------------------------------------------------------------------------------------------------------------


def test_inputs_may_be_names_of_a_catalogue() -> None:
    rng = np.random.default_rng(1)
    items = Catalogue([f"item {i}" for i in range(12)], rng.normal(size=(12, 3)))
    model = Model(RBF(1.0), DotProduct(0.0) + Identity(), alpha=0.3, lam=0.1, catalogue=items)
    engine = Engine(model)
    engine.learn("a", "item 3", 1.0)
    engine.learn_many(["a", "b"], ["item 4", "item 3"], [2.0, 3.0])
    with pytest.raises(UnknownName, match="did you mean 'item 4'"):
        engine.learn("a", "itm 4", 1.0)
    estimate = engine.disclose().active_estimate(engine.coefficients("a"))
    top = estimate.top(3, exclude=["item 3"])
    everything = dict(zip(items.names, estimate.predict(list(items.names))))
    assert top == sorted((n for n in items.names if n != "item 3"), key=everything.__getitem__, reverse=True)[:3]
    by_hand = Engine(model)
    by_hand.learn_many(["a", "a", "b"], items.rows[[3, 4, 3]], [1.0, 2.0, 3.0])
    np.testing.assert_allclose(
        by_hand.disclose().average(items.rows), engine.disclose().average(items.rows), rtol=1e-12
    )


def test_equal_features_of_different_items_are_one_to_the_average() -> None:
    items = Catalogue(["a", "b", "c"], [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    engine = Engine(Model(RBF(1.0), Identity(), alpha=0.5, lam=0.1, bias="none", catalogue=items))
    engine.learn_many(["u", "v"], ["a", "c"], [1.0, -1.0])
    average = engine.disclose().average(["a", "b", "c"])
    assert average[0] == pytest.approx(average[1], abs=1e-14)
    own = engine.disclose().active_estimate(engine.coefficients("u")).predict(["a", "b"])
    assert own[0] > own[1] + 0.1


def test_minus_zero_is_zero() -> None:
    engine = learned([("a", 0.0, 1.0, 1.0), ("a", -0.0, 2.0, 1.0)])
    assert len(engine.disclose().inputs) == 1
    engine.unlearn("a", [0.0], 2.0)


@pytest.mark.parametrize("rows", [300, 9000])
def test_taking_back_finds_old_and_new_rows(rows: int) -> None:
    """Below and above the size where rows are indexed."""
    rng = np.random.default_rng(0)
    tasks, x, y = rng.integers(50, size=rows), rng.integers(20, size=(rows, 1)).astype(float), rng.normal(size=rows)
    engine = Engine(MODEL)
    engine.learn_many(tasks, x, y)
    engine.unlearn(int(tasks[5]), x[5], y[5])
    engine.learn("late", [3.0], 1.0)
    engine.learn(int(tasks[5]), [3.0], 1.5)
    engine.unlearn(int(tasks[5]), [3.0], 1.5)
    engine.unlearn("late", [3.0], 1.0)
    kept = np.arange(rows) != 5
    fresh = Engine(MODEL)
    fresh.learn_many(tasks[kept], x[kept], y[kept])
    np.testing.assert_allclose(engine.disclose().theta, fresh.disclose().theta, rtol=0, atol=1e-9)


def test_many_predictions_at_once() -> None:
    p = problem(CASES["ard"], seed=3, alpha=0.3, lam=0.1, bias="linear")
    engine, X = engine_of(p), probes(p)
    everything = engine.predict_all(X)
    for label, row in zip(engine.tasks, everything):
        np.testing.assert_allclose(row, engine.predict_many([label] * len(X), X), rtol=1e-9, atol=1e-9)
    bad: dict[str, Any] = {"too few": ["t0"], "a string": "t0" * 6, "unhashable": [["t0"]] * len(X), "none": None}
    for labels in bad.values():
        with pytest.raises(InvalidData, match="labels"):
            engine.predict_many(labels, X)


@pytest.mark.parametrize("basis", BASES)
def test_an_engine_that_was_opened_releases_as_one_that_forgot_all(basis: str) -> None:
    engine, forgot = learned([], BASES[basis]), learned([("a", 0.5, 1.0, 1.0)], BASES[basis])
    engine.open(1)
    engine.open(1)
    forgot.forget("a")
    assert engine.disclose().to_bytes() == forgot.disclose().to_bytes()
    with pytest.raises(WrongDimension, match="inputs of 1 numbers, as this engine has, got 2"):
        engine.open(2)


@pytest.mark.parametrize("seed", range(5))
def test_every_release_can_be_read(seed: int) -> None:
    """Also one whose sums have few digits left: rounding made the two halves of the bias's block differ."""
    rng, engine = np.random.default_rng(seed), Engine(Model(RBF(1.0), DotProduct(1.0), 0.5, 1e-8, bias="linear"))
    engine.learn_many(["a"] * 5, rng.uniform(-2.0, 2.0, (5, 1)), np.ones(5))
    engine.learn_many(["b"] * 5, rng.uniform(-200.0, 200.0, (5, 1)), np.ones(5), np.full(5, 1e-3))
    Disclosed.from_bytes(engine.disclose().to_bytes())


def test_shifts_without_any_variance_are_computed() -> None:
    """The limit of ever smaller ones, which a search for settings looks at."""
    rng = np.random.default_rng(0)
    X, y, task = rng.normal(size=(30, 1)), rng.normal(size=30), np.repeat(np.arange(5), 6)
    values = []
    for variance in (0.0, 1e-12):
        engine = Engine(Model(RBF(1.0), Linear((variance * np.eye(2)).tolist()), 0.5, 0.1, "linear"))
        engine.learn_many(task, X, y)
        values.append(engine.evidence().log_evidence)
    assert values[0] == pytest.approx(values[1], rel=1e-9)


def test_means_of_many_tasks_need_the_average_once_at_every_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of many sizes, which are predicted size by size; no column of the basis is made."""
    rng = np.random.default_rng(3)
    task = np.repeat(np.arange(12), np.arange(1, 13))
    pool = rng.normal(size=(15, 2))
    X, y = pool[np.concatenate([rng.permutation(15)[:size] for size in range(1, 13)])], rng.normal(size=len(task))
    engine = Engine(Model(RBF(1.0), DotProduct(0.5), 0.5, 0.1, "linear"))
    engine.learn_many(task, X, y)
    with_std = engine.predict_many(task, X, return_std=True)[0]
    evaluated, average = list[int](), Basis.average

    def counted(basis: Basis, X: Array, theta: Array) -> Array:
        evaluated.append(len(X))
        return average(basis, X, theta)

    monkeypatch.setattr(Basis, "average", counted)
    means = engine.predict_many(task, X)
    np.testing.assert_allclose(means, with_std, rtol=0, atol=1e-11)
    assert sum(evaluated) == len(X) + len(np.unique(X, axis=0))

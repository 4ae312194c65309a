"""Every attack succeeds against releases without noise, and claims certainty only if it does."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from motet import Disclosed, Eigen, Engine, Features, Landmarks, Model
from motet.arrays import Array
from motet.attacks.attacks import Reconstruction, cliques, differencing, inversion, membership_test, overlap, separation
from motet.attacks.difference import Difference, contribution
from motet.errors import InvalidRelease, WrongDimension
from motet.kernels import RBF, DotProduct
from motet.music import simulation as music
from tests.attacks import victims
from tests.attacks.victims import INDIVIDUAL, Score, Trials, small_catalogue, small_model

ARTISTS = music.artists()
LISTENERS, RATINGS, VICTIMS = 3000, 5, 10
DRAWN = music.simulate(ARTISTS, LISTENERS + VICTIMS, RATINGS, seed=0)
BASES: dict[str, Any] = {
    "growing": None,
    "eigen": Eigen(ARTISTS, 40),
    "landmarks": Landmarks(ARTISTS),
    "few landmarks": Landmarks(ARTISTS.rows[::5]),
}


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Many small systems: threads would only wait for each other."""
    with threadpool_limits(1):
        yield


class Study:
    """The music study with its listeners; some more have not sent anything yet."""

    def __init__(self, **model: Any) -> None:
        self.drawn = DRAWN
        self.engine = Engine(replace(music.model(ARTISTS, 0.07, 3e-4), individual=INDIVIDUAL, **model))
        self.send(range(LISTENERS))

    def ratings(self, listener: int) -> dict[str, float]:
        own = self.drawn.user == listener
        names = [ARTISTS.names[k] for k in self.drawn.artist[own]]
        return dict(zip(names, self.drawn.rating[own]))

    def send(self, listeners: Any) -> None:
        own = np.isin(self.drawn.user, listeners)
        rows = ARTISTS.rows[self.drawn.artist[own]]
        self.engine.learn_many(self.drawn.user[own].tolist(), rows, self.drawn.rating[own])


def reconstructed(result: Reconstruction) -> dict[str, float]:
    return dict(zip(ARTISTS.name_rows(result.inputs), result.outputs))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("basis", "bias"),
    [
        ("growing", "none"),
        ("growing", "constant"),
        ("growing", "linear"),
        ("eigen", "constant"),
        ("landmarks", "linear"),
        ("few landmarks", "none"),
    ],
)
def test_one_victim_among_three_thousand(basis: str, bias: str) -> None:
    """Five ratings sent between two downloads are rebuilt, and again when they are forgotten."""
    study = Study(basis=BASES[basis], bias=bias)
    before, victim = study.engine.disclose(), study.ratings(LISTENERS)
    study.send(LISTENERS)
    after = study.engine.disclose()
    study.engine.forget(LISTENERS)
    for first, second, added in ((before, after, True), (after, study.engine.disclose(), False)):
        result = differencing(Difference.between(first, second))
        assert result.certain
        assert result.added is added
        assert result.unexplained < 1e-9
        assert reconstructed(result) == pytest.approx(victim, abs=1e-8)
        np.testing.assert_allclose(result.noise, 1.0, rtol=1e-6)


@pytest.mark.parametrize("basis", ["growing", "landmarks", "few landmarks"])
def test_a_batch_falls_apart_into_its_clients(basis: str) -> None:
    """So a quorum of ten protects none: inputs of every client, outputs of all that share no input with another."""
    study = Study(basis=BASES[basis])
    before, batch = study.engine.disclose(), range(LISTENERS, LISTENERS + VICTIMS)
    study.send(batch)
    result = separation(Difference.between(before, study.engine.disclose()))
    senders = [reconstructed(sender) for sender in result]
    clients = [study.ratings(listener) for listener in batch]
    assert sorted(map(sorted, senders)) == sorted(map(sorted, clients))
    assert all(sender.inputs_certain for sender in result)
    times = [name for client in clients for name in client]
    for client in clients:
        sender = next(k for k, names in enumerate(senders) if set(names) == set(client))
        alone = all(times.count(name) == 1 for name in client)
        assert result[sender].outputs_certain == alone
        if alone:
            assert senders[sender] == pytest.approx(client, abs=1e-8)


def test_a_quorum_filled_by_the_attacker() -> None:
    """Nine clients of its own, some that weigh nothing, are computed and subtracted: the tenth is the victim."""
    study = Study(basis=BASES["eigen"])
    rng = np.random.default_rng(1)
    own = [(ARTISTS.rows[rng.choice(489, 6, replace=False)], rng.normal(size=6), 10.0 ** (2 * k)) for k in range(9)]
    before = study.engine.disclose()
    study.send(LISTENERS)
    for k, (X, y, noise) in enumerate(own):
        study.engine.learn_many([f"own {k}"] * 6, X, y, [noise] * 6)
    after = study.engine.disclose()
    result = differencing(Difference.between(before, after, attacker_examples=own))
    assert result.certain
    assert reconstructed(result) == pytest.approx(study.ratings(LISTENERS), abs=1e-8)
    assert not differencing(Difference.between(before, after)).certain  # more inputs than the basis has columns


@pytest.mark.parametrize("bias", ["none", "constant", "linear"])
def test_one_release_gives_the_sums_back(bias: str) -> None:
    engine = Study(bias=bias).engine
    truth, sums = engine.information(), inversion(engine.disclose())
    assert sums.unique
    np.testing.assert_array_equal(sums.inputs, truth.inputs)
    np.testing.assert_allclose(sums.G, truth.G, rtol=0, atol=1e-7 * np.abs(truth.G).max())
    np.testing.assert_allclose(sums.g, truth.g, rtol=0, atol=1e-6 * np.abs(truth.g).max())
    together = np.triu(truth.G != 0, 1)
    assert together[tuple(sums.pairs.T)].all()
    assert len(sums.pairs) > 0.99 * together.sum()
    assert not inversion(Study(basis=BASES["eigen"]).engine.disclose()).unique


def test_one_sparse_release_falls_apart() -> None:
    """With few shared inputs nobody needs a second file."""
    study = Study()
    engine = Engine(study.engine.model)
    for listener in range(8):
        engine.learn_many([listener] * RATINGS, list(study.ratings(listener)), list(study.ratings(listener).values()))
    senders = separation(Difference.between(None, engine.disclose()))
    certain = [reconstructed(sender) for sender in senders if sender.certain]
    assert len(senders) == 8
    assert len(certain) >= 4
    for sender in certain:
        assert any(
            sender == pytest.approx(study.ratings(k), abs=1e-8)
            for k in range(8)
            if set(sender) == set(study.ratings(k))
        )


def test_a_client_that_sends_more_is_found_but_not_its_outputs() -> None:
    """Its part moves in fewer directions than it has inputs."""
    study = Study()
    names, ratings = list(study.ratings(LISTENERS)), list(study.ratings(LISTENERS).values())
    study.engine.learn_many(["victim"] * 3, names[:3], ratings[:3])
    before = study.engine.disclose()
    study.engine.learn_many(["victim"] * 2, names[3:], ratings[3:])
    result = differencing(Difference.between(before, study.engine.disclose()))
    assert set(reconstructed(result)) == set(names)
    assert (result.inputs_certain, result.outputs_certain) == (True, False)


@pytest.mark.parametrize("bias", ["linear", (1,)])
def test_smooth_kernels_and_inputs_without_a_catalogue(bias: Any) -> None:
    """Two bases of different inputs, one carried into the other with its bias."""
    model = Model(RBF(0.3), DotProduct(0.5), alpha=0.4, lam=0.1, bias=bias)
    rng, engine = np.random.default_rng(2), Engine(model)
    X = rng.uniform(-1, 1, (40, 2)) + 7.0
    engine.learn_many(list(range(20)) * 2, X, rng.normal(size=40))
    before = engine.disclose()
    own, y, noise = np.vstack([X[:2], rng.uniform(8, 9, (2, 2))]), np.array([1.0, -2.0, 3.0, 4.0]), [1.0, 2.0, 0.5, 1.0]
    engine.learn_many(["victim"] * 4, own, y, noise)
    result = differencing(Difference.between(before, engine.disclose()))
    assert result.certain
    order = np.lexsort(result.inputs.T), np.lexsort(own.T)
    np.testing.assert_array_equal(result.inputs[order[0]], own[order[1]])
    np.testing.assert_allclose(result.outputs[order[0]], y[order[1]], atol=1e-6)
    np.testing.assert_allclose(result.noise[order[0]], np.array(noise)[order[1]], rtol=1e-5)


def test_where_there_is_nothing_to_find() -> None:
    engine = Study(basis=BASES["eigen"]).engine
    release = engine.disclose()
    same = differencing(Difference.between(release, release), guesses=3)
    assert len(same.inputs) == 3
    assert not same.certain
    assert same.unexplained == 1.0
    rng = np.random.default_rng(3)
    noise = rng.normal(size=release.Lambda.shape)
    noisy = replace(release, Lambda=release.Lambda + noise + noise.T, eta=release.eta + rng.normal(size=40))
    guess = differencing(Difference.between(release, noisy), guesses=7)
    assert guess.inputs.shape == (7, ARTISTS.rows.shape[1])
    assert np.isfinite(guess.outputs).all()
    assert not guess.inputs_certain
    assert not any(sender.certain for sender in separation(Difference.between(release, noisy)))


@pytest.mark.parametrize("model", [Model(DotProduct(0.5), RBF(1.0), 0.3, 0.1, basis=Features()),
                                   Model(None, RBF(1.0), 0.3, 0.1)])  # fmt: skip
def test_without_candidates_there_is_no_guess(model: Model) -> None:
    engine = Engine(model)
    engine.learn_many(["a", "b"], [[1.0], [2.0]], [1.0, 2.0])
    before = engine.disclose()
    engine.learn("c", [3.0], 7.0)
    assert not len(differencing(Difference.between(before, engine.disclose())).inputs)
    result = differencing(Difference.between(before, engine.disclose(), candidates=[[0.5], [3.0], [4.0]]), guesses=1)
    assert result.inputs.shape == (1, 1)


def test_releases_of_two_studies_are_refused() -> None:
    model = Model(RBF(1.0), RBF(1.0), 0.3, 0.1)
    releases = []
    for other in (model, replace(model, lam=0.2)):
        engine = Engine(other)
        engine.learn("a", [1.0], 2.0)
        releases.append(engine.disclose())
    with pytest.raises(InvalidRelease, match="different models"):
        Difference.between(*releases)


def test_cliques_of_clients_that_share_inputs() -> None:
    clients = [[0, 1, 2, 3], [3, 4, 5], [5, 6, 0], [7], [8, 9], [3, 10, 4]]
    linked = np.zeros((11, 11), dtype=bool)
    for h in clients:
        linked[np.ix_(h, h)] = True
    assert sorted(sorted(h.tolist()) for h in cliques(linked)) == sorted(sorted(h) for h in clients)


# --- who is in ---


def test_membership_measures_the_shift() -> None:
    rng = np.random.default_rng(4)
    v = rng.normal(size=30)
    v /= np.linalg.norm(v)
    outside, inside = rng.normal(size=(2, 20_000, 30)) * 4.0
    result = membership_test(inside + v, outside, v)
    assert result.shift == pytest.approx(0.25, abs=4 * result.error)
    assert result.error == pytest.approx(0.01, rel=0.02)
    assert 0.2 < result.lower < result.shift
    assert result.advantage == pytest.approx(2 * 0.5497 - 1, abs=0.02)  # Φ(1/8)
    none = membership_test(inside, outside, v)
    assert none.lower < 0.0 < abs(none.shift) < 4 * none.error
    with pytest.raises(WrongDimension, match="30 columns, got shape"):
        membership_test(inside[:, 1:], outside, v)


def test_membership_without_noise_is_certain() -> None:
    study = Study(basis=BASES["eigen"])
    without = study.engine.disclose()
    study.send(LISTENERS)
    with_victim = study.engine.disclose()
    victim = study.ratings(LISTENERS)
    v = flat(*contribution(without, without.basis, list(victim), list(victim.values())))
    inside, outside = ([flat(r.Lambda, r.eta)] * 3 for r in (with_victim, without))
    result = membership_test(inside, outside, v)
    assert (result.shift, result.lower, result.advantage) == (math.inf, math.inf, 1.0)
    assert membership_test(outside, outside, v).shift == 0.0


def flat(Lambda: Array, eta: Array) -> Array:
    return np.concatenate([Lambda.ravel(), eta])


@pytest.mark.parametrize("basis", ["growing", "eigen"])
def test_overlap_from_the_files(basis: str) -> None:
    study = Study(basis=BASES[basis])
    before = study.engine.disclose()
    study.send(LISTENERS)
    after = study.engine.disclose()
    examples = list(study.ratings(LISTENERS)), list(study.ratings(LISTENERS).values())
    assert overlap(Difference.between(before, after), *examples) == pytest.approx(1.0, abs=1e-8)
    assert overlap(Difference.between(after, after), *examples) == 0.0
    rise = overlap(Difference.between(None, after), *examples) - overlap(Difference.between(None, before), *examples)
    assert rise == pytest.approx(1.0, abs=1e-6)


# --- against chance ---


TRIALS: dict[str, Callable[[Trials], Score]] = {
    "inputs": lambda trials: victims.inputs_score(trials, 100),
    "inputs of who leaves": lambda trials: victims.inputs_score(trials, 30, leaving=True),
    "inputs through a quorum": lambda trials: victims.inputs_score(trials, 30, own=9),
    "signs": lambda trials: victims.signs_score(trials, 100),
    "one release": lambda trials: victims.inversion_score(trials, 100),
    "batches": lambda trials: victims.separation_score(trials, 10),
    "membership": lambda trials: victims.overlap_score(trials, 100),
}


@pytest.fixture(scope="module")
def trials() -> Trials:
    return Trials(small_model(Landmarks(small_catalogue())))


@pytest.mark.slow
@pytest.mark.parametrize("attack", TRIALS)
def test_attacks_are_far_better_than_guessing(attack: str, trials: Trials) -> None:
    score = TRIALS[attack](trials)
    assert score.rate > 0.95
    assert score.p_value < 1e-20


@pytest.mark.slow
def test_guessing_is_no_better_than_guessing() -> None:
    """The count itself is fair: releases that say nothing give hits at the rate of chance."""
    rng = np.random.default_rng(5)

    def blank(engine: Engine, version: int) -> Disclosed:  # noqa: ARG001
        release = silent
        noise = rng.normal(size=release.Lambda.shape)
        return replace(release, Lambda=noise + noise.T, eta=rng.normal(size=len(release.eta)))

    trials = Trials(small_model(Eigen(small_catalogue(), 20)), blank)
    silent = trials.engine.disclose()
    for score in (attack(trials) for attack in TRIALS.values()):
        assert score.p_value > 1e-4
        assert 1.0 - score.p_value > 1e-4

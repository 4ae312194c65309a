"""kill -9 at any moment: what was answered is there, nothing counts twice, and no release or budget is spent twice."""

from __future__ import annotations

import struct
import threading
from pathlib import Path

import numpy as np

from motet import Disclosed, Engine
from motet.study.study import Study
from tests.scenarios.harness import CURVES, END, Parts, Place, parts, poll, program, write_study
from tests.scenarios.load import Sender, Watcher, load

NAMES = ("ann", "bob", "cem", "dora")
BASIS = """
[basis]
kind = "landmarks"
grid = { from = 0.0, to = 1.0, count = 4 }
"""
LIMITS = """
bounds = [0.0, 1.0]
[limits]
y = [-10.0, 10.0]
examples_per_client = 2000
"""
STUDY = CURVES + LIMITS
GROWING = STUDY + '[release]\npolicy = "exact"\nevery = "1d"\n'
EXACT = STUDY + BASIS + '[release]\npolicy = "exact"\nevery = "1s"\n'
BUDGET = 9
PRIVATE = STUDY + BASIS + f'[release]\npolicy = "private"\nevery = "1s"\nepsilon = 3.0\nreleases = {BUDGET}\n'


def enrolled(place: Place, seed: int) -> list[Sender]:
    with place.operator() as operator:
        return [Sender(place, person, seed + k) for k, person in enumerate(operator.enroll(NAMES))]


def wait_for_answers(senders: list[Sender], more: int) -> None:
    def answers() -> int:
        for sender in senders:
            sender.check()
        return sum(sender.answers for sender in senders)

    enough = answers() + more
    poll(lambda: answers() >= enough, END, f"{more} more answers")


def wait_for_releases(watcher: Watcher) -> None:
    """Some by one publisher, so that it folds what changed in between."""
    before = max(watcher.seen, default=0)
    poll(lambda: max(watcher.seen, default=0) > before + 2, END, "releases go on")


def check(place: Place, senders: list[Sender], watcher: Watcher) -> None:
    """The database has what the clients know, each once; log, versions and ledger have no gap and no repeat."""
    known = {(s.id, id): triple for s in senders for id, triple in s.held.items()}
    rows = place.rows("select client, id, x, y, noise from examples where x is not null")
    assert {(client, id): (struct.unpack("<d", x)[0], y, w) for client, id, x, y, w in rows} == known
    assert len(rows) == len(known)
    (newest,) = place.rows("select sequence from head")[0]
    assert [n for (n,) in place.rows("select sequence from log order by sequence")] == list(range(1, newest + 1))
    counts = place.rows("select id, count from clients")
    assert dict(counts) == {client: sum(who == client for who, _ in known) for client, _ in counts}
    versions = [version for (version,) in place.rows("select version from releases order by version")]
    assert versions == list(range(1, len(versions) + 1))
    assert set(watcher.seen) <= set(versions)
    assert watcher.seen


def released_all(place: Place) -> Disclosed:
    """The served release, once it has all that there is."""
    (newest,) = place.rows("select sequence from head")[0]
    (version,) = poll(
        lambda: place.rows(f"select version from releases where sequence = {newest} limit 1"), END, "the last release"
    )[0]
    with place.client() as anyone:
        poll(lambda: anyone.study()["version"] >= version, END, "it is served")
        return anyone.disclosed()


def check_sums(place: Place, senders: list[Sender]) -> None:
    """The last release is that of an engine which learned once what the clients know."""
    engine = Engine(Study.load(place.study).model)
    for sender in senders:
        X, y, noise = np.array(list(sender.held.values())).T
        engine.learn_many([sender.id] * len(y), X[:, None], y, noise)
    found, expected = released_all(place), engine.disclose()
    for name in ("Lambda", "eta", "theta"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-10, atol=1e-10, err_msg=name)


def test_the_program_survives_kills_of_its_server_and_of_its_publisher(tmp_path: Path) -> None:
    with program(write_study(tmp_path, EXACT)) as running:
        senders = enrolled(running, seed=1)
        with load(running, senders) as watcher:
            wait_for_answers(senders, 20)
            running.kill()
            running.start()
            wait_for_answers(senders, 20)
            running.kill_publisher()
            wait_for_releases(watcher)
            wait_for_answers(senders, 20)
        check(running, senders, watcher)
        check_sums(running, senders)


def test_kills_at_random_moments_lose_and_repeat_nothing(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    with parts(write_study(tmp_path, EXACT)) as running:
        senders = enrolled(running, seed=10)
        with load(running, senders) as watcher:
            for victim in rng.permutation(["server"] * 16 + ["publisher"] * 8):
                wait_for_answers(senders, int(rng.integers(1, 60)))
                running.kill(victim)
            wait_for_releases(watcher)
        check(running, senders, watcher)
        check_sums(running, senders)


def test_kills_at_every_point_of_a_write_and_of_a_release(tmp_path: Path) -> None:
    """A budget is spent with a release or not at all."""
    rng = np.random.default_rng(8)
    with parts(write_study(tmp_path, PRIVATE)) as running:
        senders = enrolled(running, seed=20)
        with load(running, senders) as watcher:
            for point in ("caught up", "ledger", "publication", "ledger", "publication"):
                running.fall("publisher", point, int(rng.integers(1, 3)) if point == "caught up" else 1)
                check_ledger(running)
            running.start("publisher")
            for point in ("before commit", "after commit") * 3:
                running.fall("server", point, int(rng.integers(1, 30)))
                running.start("server")
                wait_for_answers(senders, 5)
            with running.client() as anyone:
                poll(lambda: anyone.study()["refused"], END, "the end of the budget")
                poll(lambda: max(watcher.seen) == BUDGET, END, "the last release is served")
        check(running, senders, watcher)
        check_ledger(running)
        assert len(running.rows("select version from ledger")) == BUDGET


def check_ledger(place: Parts) -> None:
    charged, made = (place.rows(f"select version from {table} order by version") for table in ("ledger", "releases"))
    assert charged == made
    assert len(charged) <= BUDGET


def test_a_kill_between_a_removal_and_the_scrubbing_leaves_nothing_on_the_disk(tmp_path: Path) -> None:
    secrets = [struct.pack(">d", 1.0 + k / 7) for k in range(40)]
    with parts(write_study(tmp_path, EXACT)) as running:
        with running.operator() as operator:
            ann, bob = operator.enroll(["ann", "bob"])
        with running.client(ann.token) as me, running.client(bob.token) as other:
            me.send_many([[k / 40] for k in range(40)], [1.0 + k / 7 for k in range(40)])
            other.send([0.5], -1.5)
            running.kill_for_good("server")
            running.start("server", "after commit", 1)
            assert any(map(running.on_disk, secrets))
            forgetting = threading.Thread(target=me.forget_me, daemon=True)
            forgetting.start()
            running.fell("server")
            forgetting.join(END)
            assert not forgetting.is_alive()
            poll(lambda: not any(map(running.on_disk, secrets)), END, "what is removed leaves the disk")
            assert running.on_disk(struct.pack(">d", -1.5))
            assert [example["y"] for example in other.examples()] == [-1.5]


def test_when_all_have_left_a_new_publisher_replaces_the_release_that_has_them(tmp_path: Path) -> None:
    with parts(write_study(tmp_path, GROWING)) as running, running.operator() as operator:
        (ann,) = operator.enroll(["ann"])
        with running.client(ann.token) as me:
            me.send([0.123456], 1.5)
            assert operator.release_now() == 1
            np.testing.assert_array_equal(operator.disclosed().inputs, [[0.123456]])
            running.kill_for_good("publisher")
            me.forget_me()
        running.start("publisher")
        assert operator.release_now() == 2
        assert not len(operator.disclosed().inputs)
        poll(lambda: not running.on_disk(struct.pack("<d", 0.123456)), END, "its input leaves the disk")

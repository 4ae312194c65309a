"""kill -9 at any moment: what was answered is there, nothing counts twice, and no release or budget is spent twice."""

from __future__ import annotations

import math
import struct
import threading
from pathlib import Path

import numpy as np

from tests.scenarios.after import check, check_ledger, check_sums, enrolled, wait_for_answers, wait_for_releases
from tests.scenarios.harness import END, parts, poll, program, write_study
from tests.scenarios.load import load
from tests.scenarios.studies import EXACT, GROWING, private

BUDGET = 6
RANDOM_KILLS = ["server"] * 5 + ["publisher"] * 3  # make soak has hundreds


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


def test_kills_at_random_moments_lose_and_repeat_nothing(tmp_path: Path, database: str) -> None:
    rng = np.random.default_rng(7)
    with parts(write_study(tmp_path, EXACT, database=database)) as running:
        senders = enrolled(running, seed=10)
        with load(running, senders) as watcher:
            for victim in rng.permutation(RANDOM_KILLS):
                wait_for_answers(senders, int(rng.integers(1, 60)))
                running.kill(victim)
            wait_for_releases(watcher)
        check(running, senders, watcher)
        check_sums(running, senders)


def test_kills_at_every_point_of_a_write_and_of_a_release(tmp_path: Path, database: str) -> None:
    """A budget is spent with a release or not at all."""
    rng = np.random.default_rng(8)
    with parts(write_study(tmp_path, private(BUDGET), database=database)) as running:
        senders = enrolled(running, seed=20)
        with load(running, senders) as watcher:
            for point in ("caught up", "ledger", "publication"):
                running.fall("publisher", point, int(rng.integers(1, 3)) if point == "caught up" else 1)
                check_ledger(running)
            running.start("publisher")
            for point in ("before commit", "after commit"):
                running.fall("server", point, int(rng.integers(1, 30)))
                running.start("server")
                wait_for_answers(senders, 5)
            with running.client() as anyone:
                poll(lambda: anyone.study()["refused"], END, "the end of the budget")
                poll(lambda: max(watcher.seen) == BUDGET, END, "the last release is served")
        check(running, senders, watcher)
        check_ledger(running)
        assert len(running.rows("select version from ledger")) == BUDGET


def test_a_kill_between_a_removal_and_the_scrubbing_leaves_nothing_on_the_disk(tmp_path: Path) -> None:
    outputs = [math.sqrt(k + 2.1) for k in range(40)]  # no round ones, whose bytes, mostly 0, a file has by chance
    secrets = [struct.pack(">d", y) for y in outputs]
    with parts(write_study(tmp_path, EXACT)) as running:
        with running.operator() as operator:
            ann, bob = operator.enroll(["ann", "bob"])
        with running.client(ann.token) as me, running.client(bob.token) as other:
            me.send_many([[k / 40] for k in range(40)], outputs)
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

"""Clocks that are set back and forth at every step of a release: the budget never has more than its time allows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from motet.server.publisher import Publisher
from motet.store.releases import current_ledger
from tests.store.local_study import BEGIN, EVERY, EXACT, PER_CLIENT, PRIVATE, local_study, states

JUMPS = (-1e9, -3.3 * EVERY, -EVERY, -0.4, 0.3, EVERY, 2.7 * EVERY, 3600.0)  # seconds
POINTS = ("read ahead", "caught up", "ledger", "publication")
BODIES = {"exact": EXACT, "private": PRIVATE.replace("releases = 6", "releases = 1000"), "per client": PER_CLIENT}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", BODIES)
def test_jumps_at_every_step_of_a_release_bring_none_too_many(tmp_path: Path, kind: str, seed: int) -> None:
    """A restored backup is charged by the clock, so there may be no more than one for each time that was due."""
    rng = np.random.default_rng(seed)
    with local_study(tmp_path, BODIES[kind]) as study:
        latest = [BEGIN]

        def jump(by: float) -> None:
            study.now += by
            if study.now < BEGIN - 5 * EVERY:  # years back, and right again
                study.now = latest[0]
            latest[0] = max(latest[0], study.now)

        def reached(point: str) -> None:
            if point in POINTS and rng.random() < 0.5:
                jump(float(rng.choice(JUMPS)))

        publisher = Publisher(study.store, study.study, clock=lambda: study.now, reached=reached)
        made = []
        for _ in range(80):
            jump(float(rng.choice(JUMPS)) if rng.random() < 0.2 else EVERY / 5)
            made.append(publisher.tick())
            assert kind == "exact" or latest[0] - BEGIN >= EVERY * sum(one is not None for one in made)
        versions = [one for one in made if one is not None]
        assert versions == list(range(1, len(versions) + 1))
        assert len(versions) > 3
        planned = study.study.ledger()
        if planned is not None:
            with study.store.snapshot() as connection:
                ledger = current_ledger(connection, planned)
            assert ledger.releases_made == len(versions)
            assert max(ledger.participation.values(), default=0) <= planned.releases
        assert "failed" not in states(study).values()


@pytest.mark.parametrize("now", [-1e9, 0.0, 4.2e9, 2.6e11], ids=["1938", "1970", "2103", "10209"])
@pytest.mark.parametrize("kind", BODIES)
def test_a_clock_of_another_century_breaks_nothing(tmp_path: Path, kind: str, now: float) -> None:
    """Forward it brings one release, back none; and a private schedule stays for a clock that is right again."""
    with local_study(tmp_path, BODIES[kind]) as study:
        assert study.release() == [1]
        right, study.now = study.now, now
        made = [study.publisher.tick() for _ in range(3)]
        assert made == ([2, None, None] if now > right else [None] * 3)
        study.now = right + EVERY
        again = [study.publisher.tick() for _ in range(3)]
        if now < right and kind != "exact":
            assert again == [2, None, None]
        assert "failed" not in states(study).values()

"""Two publishers of one study, of which one was stopped in the midst: one release for each time that is due."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from motet.privacy.ledger import Integers
from motet.server.publisher import Publisher, run
from motet.store.releases import next_release, request_release
from tests.store.local_study import EXACT, PRIVATE, LocalStudy, local_study, states

pytestmark = pytest.mark.usefixtures("backend")


class Stop:
    """A point of one publisher at which the other one ticks, as often as is said."""

    def __init__(self, study: LocalStudy, point: str, ticks: int = 1) -> None:
        self.study, self.point, self.ticks = study, point, ticks
        self.other = Publisher(study.store, study.study, clock=lambda: study.now)

    def __call__(self, point: str) -> None:
        if point == self.point:
            for _ in range(self.ticks):
                self.other.tick()
                self.study.now += self.study.study.release.seconds

    def noise(self, total: Integers, deviation: float) -> Integers:
        self("noise")
        return total + round(deviation)


def released(study: LocalStudy) -> list[int]:
    with study.store.snapshot() as connection:
        return [version for (version,) in connection.exec_driver_sql("SELECT version FROM releases ORDER BY version")]


@pytest.mark.parametrize("ticks", [1, 3])
@pytest.mark.parametrize(
    ("body", "point"),
    [(EXACT, "caught up"), (PRIVATE, "caught up"), (PRIVATE, "noise")],
    ids=["exact", "early", "late"],
)
def test_a_publisher_that_was_stopped_makes_no_second_release(
    tmp_path: Path, body: str, point: str, ticks: int
) -> None:
    with local_study(tmp_path, body) as study:
        stop = Stop(study, point, ticks)
        late = Publisher(study.store, study.study, clock=lambda: study.now, reached=stop, noise=stop.noise)
        study.now += study.study.release.seconds
        begin = study.now
        assert late.tick() is None
        assert released(study) == list(range(1, ticks + 1))  # the other's
        with study.store.snapshot() as connection:
            assert next_release(connection) == begin + ticks * study.study.release.seconds
        assert states(study) == {}


def test_a_publisher_that_was_stopped_does_not_turn_the_schedule_back(tmp_path: Path) -> None:
    """The first finds the budget spent, is stopped, and continues after the other has done the same for long."""
    with local_study(tmp_path, PRIVATE) as study:
        study.release(6)
        late = Publisher(study.store, study.study, clock=lambda: study.now, reached=Stop(study, "caught up", 5))
        study.now += study.study.release.seconds
        assert late.tick() is None
        with study.store.snapshot() as connection:
            assert next_release(connection) == study.now


def test_a_request_is_answered_once(tmp_path: Path) -> None:
    with local_study(tmp_path, EXACT) as study:
        study.do(request_release)
        late = Publisher(study.store, study.study, clock=lambda: study.now, reached=Stop(study, "caught up"))
        assert late.tick() is None
        assert released(study) == [1]


def test_a_private_release_comes_by_the_clock_whatever_the_database_asks_for(tmp_path: Path) -> None:
    with local_study(tmp_path, PRIVATE) as study:
        study.do(request_release)
        assert study.publisher.tick() is None
        assert study.release() == [1]


def test_a_process_that_is_not_elected_publishes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a database that any number of servers share."""
    monkeypatch.setattr("motet.server.publisher.TICK_SECONDS", 0.001)
    with local_study(tmp_path, EXACT) as study:  # its first release has been due since 1970
        for elected, versions in ((False, []), (True, [1])):
            election = nullcontext(lambda elected=elected: elected)
            monkeypatch.setattr(study.store.dialect, "election", lambda _, election=election: election)
            rounds = iter([False, False])  # a second release is due if the first one takes long
            run(study.store, study.study, until=lambda rounds=rounds: next(rounds, True) or bool(released(study)))  # type: ignore[misc]
            assert released(study) == versions

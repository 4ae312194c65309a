"""A machine's clock that is set forward and back: no release too many, and no study that stops without a word."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from motet.server.publisher import Publisher
from motet.store.backup import back_up, restore
from motet.store.releases import next_release, refusal
from tests.scenarios.harness import END, poll
from tests.server.world import EXACT as SERVED
from tests.server.world import world
from tests.store.local_study import EVERY, EXACT, PRIVATE, LocalStudy, local_study, reopened, states

YEARS = 1e9  # seconds


def due(study: LocalStudy) -> float:
    with study.store.snapshot() as connection:
        return next_release(connection)


def report(study: LocalStudy) -> str:
    with study.store.snapshot() as connection:
        return refusal(connection) or ""


@pytest.mark.parametrize("body", [EXACT, PRIVATE], ids=["exact", "private"])
def test_a_clock_that_is_set_forward_brings_one_release(tmp_path: Path, body: str) -> None:
    with local_study(tmp_path, body) as study:
        assert study.release() == [1]
        study.now += YEARS
        assert [study.publisher.tick() for _ in range(3)] == [2, None, None]
        assert study.now < due(study) <= study.now + EVERY
        assert study.release() == [3]


@pytest.mark.parametrize("point", ["read ahead", "caught up"])
def test_a_clock_that_is_set_forward_while_a_release_is_prepared_does_not_put_it_off(
    tmp_path: Path, point: str
) -> None:
    """The years are not taken for time that the release needed, and not rounded up to twice as many."""
    with local_study(tmp_path, PRIVATE) as study:
        years = [YEARS]

        def reached(here: str) -> None:
            if here == point and years:
                study.now += years.pop()

        publisher = Publisher(study.store, study.study, clock=lambda: study.now, reached=reached)
        made = []
        for _ in range(100):
            study.now += EVERY / 50
            made.append(publisher.tick())
        assert not years
        assert [version for version in made if version][:2] == [1, 2]


def test_a_clock_that_was_set_back_and_is_right_again_amid_a_tick_puts_no_release_off(tmp_path: Path) -> None:
    """The cut-off was at its moment: only the beginning of this tick was years before."""
    with local_study(tmp_path, PRIVATE) as study:
        begin, back = study.now, list[float]()
        publisher = Publisher(study.store, study.study, clock=lambda: study.now - (back.pop() if back else 0.0))
        made = []
        for share in (0.85, 0.95, 1.0):  # of the time between releases: amid reading, after the cut-off, and due
            study.now = begin + share * EVERY
            back += [YEARS] * (share == 0.95)
            made.append(publisher.tick())
        assert made == [None, None, 1]


def test_a_private_study_whose_clock_is_set_back_says_so_and_waits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a release meanwhile: a clock that is set back again and again would bring one each time."""
    with local_study(tmp_path, PRIVATE) as study, caplog.at_level(logging.WARNING):
        right = study.now
        study.now += YEARS
        assert study.publisher.tick() == 1
        study.now = right
        assert study.release(5) == [None] * 5
        assert "2001-09-20 15:33:30 UTC" in report(study)
        assert "set the clock; if it is right, back up this study and restore it" in report(study)
        assert len(caplog.records) == 1
        study.now = due(study) - 1
        assert study.publisher.tick() is None
        assert report(study) == ""
        assert study.release() == [2]


@pytest.mark.parametrize("calls", range(1, 12))
def test_a_clock_that_is_set_forward_within_a_tick_puts_nothing_off(tmp_path: Path, calls: int) -> None:
    """After so many readings of it: else the years would be taken for time that the release needed, and rounded up."""
    with local_study(tmp_path, PRIVATE) as study:
        study.now = due(study)
        left = calls

        def clock() -> float:
            nonlocal left
            left -= 1
            return study.now + (YEARS if left < 0 else 0.0)

        study.publisher.clock.now = clock
        made = [study.publisher.tick()]
        for _ in range(5):
            study.now += 1.0
            made.append(study.publisher.tick())
        assert 1 in made


def test_a_restored_backup_is_scheduled_anew_and_charged_for_it_the_next_time(tmp_path: Path) -> None:
    with local_study(tmp_path, PRIVATE) as study:
        right = study.now
        study.now += YEARS
        assert study.publisher.tick() == 1
        study.now = right
        back_up(study.study, tmp_path / "backup.zip", now=study.now)
    first = restore(tmp_path / "backup.zip", tmp_path / "first", now=right)
    assert (first.gap.last, first.due) == (1, right + EVERY)
    again = reopened(first.study.path, right)
    assert again.release(3) == [2, 3, 4]
    assert states(again) == {}
    again.store.close()
    second = restore(tmp_path / "backup.zip", tmp_path / "second", now=again.now)
    assert (second.gap.last, second.due) == (4, again.now + EVERY)


def test_a_study_without_noise_goes_on_by_the_clock_that_was_set_back(tmp_path: Path) -> None:
    with local_study(tmp_path, EXACT) as study:
        right = study.now
        study.now += YEARS
        assert study.publisher.tick() == 1
        study.now = right
        assert study.publisher.tick() is None
        assert (due(study), report(study)) == (right + EVERY, "")
        assert study.release(2) == [2, 3]


def test_a_release_that_does_not_come_is_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The publisher does not move, and its release was due in 1970."""
    with caplog.at_level(logging.ERROR, logger="motet.service"):
        for w in world(tmp_path, SERVED):
            poll(lambda: caplog.messages, END, "a line of the log")
            for _ in range(3):
                asyncio.run_coroutine_threadsafe(w.service.refresh(), w.loop).result(END)
            assert len(caplog.messages) == 1
            assert caplog.messages[0].startswith("the release of 1970-01-01 01:16:40 UTC is late")

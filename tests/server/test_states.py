"""The publisher's states: what follows from a state, the schedule and a reading of the clock, without any work."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.server.states import REST_SECONDS, CutOff, Pause, Prepared, Reading, State, Waiting, resumed
from motet.server.timing import CLOCK_SECONDS, MAX_LEAD_SECONDS, TICK_SECONDS, SteadyClock, Timing
from motet.store.releases import NewRelease, Schedule
from motet.study.schema import Release

DUE, EVERY = 10_000.0, 1000.0
EXACT = Timing(Release.model_validate({"policy": "exact", "every": "1000s"}))
PRIVATE = Timing(Release.model_validate({"policy": "private", "every": "1000s", "epsilon": 1.0}))
BOTH = pytest.mark.parametrize("timing", [EXACT, PRIVATE], ids=["exact", "private"])
SCHEDULE = Schedule(DUE, 3, "", "", requested=False, overdue=False, served=True)
RELEASE = NewRelease(4, 7, b"bytes")
MOMENTS = st.floats(0.0, 2 * DUE)


def after_waiting(timing: Timing, now: float, *, attempt: float = -math.inf, read: bool = True, **asked: Any) -> State:
    return Waiting(attempt).next(replace(SCHEDULE, **asked), now, timing, has_read=read)


def cut_off(timing: Timing, *, since: float, ready: float) -> CutOff:
    state = Reading(SCHEDULE, True).next(timing, since=since, ready=ready)
    assert isinstance(state, CutOff)
    return state


# --- waiting ---


@BOTH
def test_reading_begins_two_leads_before_the_release_is_due(timing: Timing) -> None:
    begin = timing.reading(DUE)
    assert after_waiting(timing, math.nextafter(begin, 0.0)) == Waiting()
    for now in (begin, DUE, DUE + 1e9):
        assert after_waiting(timing, now) == Reading(SCHEDULE, True)


def test_a_private_study_reads_once_when_it_starts() -> None:
    """And then waits again; without noise nobody may learn anything from how long the first reading takes."""
    assert after_waiting(EXACT, 0.0, read=False) == Waiting()
    state = after_waiting(PRIVATE, 0.0, read=False)
    assert state == Reading(SCHEDULE, False)
    assert Reading(SCHEDULE, False).next(PRIVATE, since=0.0, ready=1.0) == Waiting()


@pytest.mark.parametrize("asked", ["requested", "overdue"])
def test_who_asks_for_a_release_gets_one_without_noise_alone(asked: str) -> None:
    assert isinstance(after_waiting(EXACT, 0.0, **{asked: True}), Reading)
    assert after_waiting(PRIVATE, 0.0, **{asked: True}) == Waiting()


def test_removals_wait_for_the_rest_after_an_attempt_and_the_operator_does_not() -> None:
    before, after = 100.0 + REST_SECONDS - 0.1, 100.0 + REST_SECONDS
    assert after_waiting(EXACT, before, attempt=100.0, overdue=True) == Waiting(100.0)
    assert isinstance(after_waiting(EXACT, after, attempt=100.0, overdue=True), Reading)
    assert isinstance(after_waiting(EXACT, 50.0, attempt=100.0, overdue=True), Reading)  # the clock was set back
    assert isinstance(after_waiting(EXACT, before, attempt=100.0, requested=True), Reading)


# --- cut off and prepared ---


def test_without_noise_a_release_is_read_and_published_when_it_can_be() -> None:
    state = cut_off(EXACT, since=0.0, ready=DUE + 1.3)
    assert state.moment == DUE + 1.3
    assert state.prepared(EXACT, RELEASE, "", ready=DUE + 2.7).moment == DUE + 2.7


@given(st.floats(0.0, MAX_LEAD_SECONDS))
def test_the_moments_of_a_private_release_do_not_show_what_it_needed_in_time(needed: float) -> None:
    begun = PRIVATE.reading(DUE)
    state = cut_off(PRIVATE, since=begun, ready=begun + needed)
    assert state.moment == DUE - PRIVATE.lead
    assert state.prepared(PRIVATE, RELEASE, "", ready=state.moment + needed).moment == DUE


@given(st.floats(0.1, 1e4))
def test_a_delay_shows_what_was_needed_to_a_factor_of_two(late: float) -> None:
    """1 s, 3 s, 7 s and so on: as many as there are powers of two."""
    state = cut_off(PRIVATE, since=DUE, ready=DUE + late)
    delay = state.moment - DUE
    assert late <= delay < 2 * late + 1.0 + 1e-6
    assert math.log2(round(delay, 6) + 1) % 1 == 0


@given(MOMENTS, st.floats(0.0, 1e9))
def test_years_for_which_the_clock_was_set_forward_are_not_rounded_up(ready: float, jump: float) -> None:
    still = CutOff(SCHEDULE, DUE).prepared(PRIVATE, RELEASE, "", ready=ready)
    jumped = CutOff(SCHEDULE, DUE).prepared(PRIVATE, RELEASE, "", ready=ready + jump, jump=jump)
    assert jumped.moment - still.moment == pytest.approx(jump, abs=1e-3)


@given(MOMENTS, st.floats(-1e6, 1e6))
def test_a_cut_off_is_missed_by_more_than_clocks_are_corrected(moment: float, later: float) -> None:
    state = CutOff(SCHEDULE, moment)
    assert state.is_past(moment + later) == (moment + later > moment + CLOCK_SECONDS)


# --- from tick to tick ---


def test_moments_hold_for_one_schedule_and_with_noise() -> None:
    waiting, fixed, ready = Waiting(5.0), CutOff(SCHEDULE, DUE), Prepared(SCHEDULE, DUE, RELEASE)
    asked, others = replace(SCHEDULE, requested=True, overdue=True), replace(SCHEDULE, version=4)
    for state in (waiting, fixed, ready):
        assert resumed(state, SCHEDULE, PRIVATE) is resumed(state, asked, PRIVATE) is state
    for state in (fixed, ready):
        assert resumed(state, others, PRIVATE) == resumed(state, SCHEDULE, EXACT) == Waiting()
    assert resumed(waiting, others, EXACT) is waiting


# --- pauses after failures ---


@BOTH
def test_pauses_double_and_leave_half_of_the_time(timing: Timing) -> None:
    pause, lengths = Pause(), []
    for _ in range(12):
        pause = pause.after_failure(timing, begun=0.0, ended=0.4, newest=7)
        lengths.append(pause.until - 0.0)
        assert pause.holds(0.4)
        assert not pause.holds(pause.until)
        assert not pause.holds(0.3)  # the clock was set back
    assert lengths == sorted(lengths)
    assert all(later <= 2 * earlier + 1.0 for earlier, later in pairwise(lengths))
    assert Pause().after_failure(timing, begun=0.0, ended=500.0, newest=7).until >= 1000.0


def test_news_end_a_pause_without_noise_once_the_shortest_is_over() -> None:
    pause = replace(Pause(), failures=8).after_failure(EXACT, begun=0.0, ended=0.4, newest=7)
    asked = replace(SCHEDULE, requested=True)
    for schedule, newest in ((asked, 7), (SCHEDULE, 8)):
        assert pause.at(pause.soonest, schedule, newest, EXACT) == Pause()
        assert pause.at(math.nextafter(pause.soonest, 0.0), schedule, newest, EXACT) is pause
        assert pause.at(pause.soonest, schedule, newest, PRIVATE) is pause
    assert pause.at(pause.soonest, SCHEDULE, 7, EXACT) is pause


# --- the clock ---


@pytest.mark.parametrize("jump", [-1e9, -10.0, 0.0, 30.0, 90.0, 1e9])
def test_a_jump_forward_moves_what_work_is_counted_from(jump: float, monkeypatch: pytest.MonkeyPatch) -> None:
    now, steady = [DUE], [5.0]
    of_this_module = SimpleNamespace(monotonic=lambda: steady[0])  # that of time itself would stop every event loop
    monkeypatch.setattr("motet.server.timing.time", of_this_module)
    clock = SteadyClock(lambda: now[0])
    assert clock.begin() == clock.since == DUE
    now[0] += 2.0 + jump
    steady[0] += 2.0  # seconds of work
    noticed = jump if jump > CLOCK_SECONDS else 0.0
    assert clock.worked() - clock.since == pytest.approx(2.0 + jump - noticed)
    assert clock.worked() - clock.since == pytest.approx(2.0 + jump - noticed)  # and once


def test_work_of_one_tick_after_the_other_is_counted_from_the_first() -> None:
    now = [DUE]
    clock = SteadyClock(lambda: now[0])
    clock.begin()
    now[0] += 3.0
    clock.worked()
    now[0] += TICK_SECONDS
    clock.begin()
    assert clock.since == DUE
    now[0] += 3 * TICK_SECONDS  # nothing was done
    clock.begin()
    assert clock.since == now[0]

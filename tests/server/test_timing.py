"""Releases that fail: reported once, repeated after pauses that double, without learning everything again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from motet.errors import InvalidModel, InvalidStudy
from motet.server.learner import Learner
from motet.server.publisher import FAILED, UNCOMPUTABLE, Publisher
from motet.server.timing import MAX_PAUSE_SECONDS, Timing, check_lead, client_seconds
from motet.store import releases
from motet.study.schema import Release
from motet.study.study import Study
from tests.store.local_study import EXACT, PRIVATE, LocalStudy, local_study

EVERY = "1000s"


class Failing:
    """A study whose releases fail with an error, until it is None; counts attempts and what was learned."""

    def __init__(self, study: LocalStudy, monkeypatch: pytest.MonkeyPatch, error: Exception | None) -> None:
        self.study, self.error = study, error
        self.attempts: list[float] = []
        self.learned: list[int] = []
        make, learn = Publisher._new_release, Learner._relearn

        def new_release(publisher: Publisher, version: int) -> object:
            self.attempts.append(study.now)
            if self.error is not None:
                raise self.error
            return make(publisher, version)

        def relearn(learner: Learner, connection: object, clients: list[str]) -> None:
            self.learned.append(len(clients))
            learn(learner, connection, clients)  # type: ignore[arg-type]

        monkeypatch.setattr(Publisher, "_new_release", new_release)
        monkeypatch.setattr(Learner, "_relearn", relearn)

    def tick(self, seconds: float, step: float = 0.5, until: Callable[[], bool] = lambda: False) -> None:
        end = self.study.now + seconds
        while self.study.now < end and not until():
            self.study.publisher.tick()
            self.study.now += step

    @property
    def refusal(self) -> str | None:
        with self.study.store.snapshot() as connection:
            return releases.refusal(connection)


def with_period(body: str) -> str:
    return body.replace('every = "10s"', f'every = "{EVERY}"')


@pytest.mark.parametrize("body", [EXACT, PRIVATE], ids=["exact", "private"])
def test_failures_are_reported_once_and_repeated_ever_more_rarely(
    tmp_path: Path, body: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with local_study(tmp_path, with_period(body)) as study:
        failing = Failing(study, monkeypatch, InvalidModel("off by 1.234"))
        study.now += 1000.0
        failing.tick(60.0)
        gaps = [later - earlier for earlier, later in zip(failing.attempts, failing.attempts[1:])]
        assert 4 <= len(failing.attempts) <= 7  # 300 before
        assert gaps == sorted(gaps)
        assert failing.learned == [3]  # ann, bob and cleo, once
        assert failing.refusal == UNCOMPUTABLE
        assert "1.234" in caplog.text
        assert len([r for r in caplog.records if r.levelno >= logging.ERROR]) == 1
        failing.error = None
        failing.tick(120.0, until=lambda: failing.refusal is None)
        assert failing.refusal is None
        assert study.release() == [2]


def test_new_data_end_a_pause_without_noise_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = []
    for name, body in (("exact", EXACT), ("private", PRIVATE)):
        (tmp_path / name).mkdir()
        with local_study(tmp_path / name, with_period(body)) as study, monkeypatch.context() as patch:
            failing = Failing(study, patch, InvalidModel("x"))
            study.now += 1000.0
            failing.tick(40.0)
            before = len(failing.attempts)
            (dora,) = study.enroll("dora")
            study.add(dora, (1.0, 1.0))
            failing.tick(2.0)
            attempts.append(len(failing.attempts) - before)
    assert attempts[0] >= 1
    assert attempts[1] == 0


def test_what_may_be_half_changed_is_learned_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with local_study(tmp_path, with_period(EXACT)) as study:
        failing = Failing(study, monkeypatch, MemoryError())
        study.now += 1000.0
        failing.tick(4.5)
        assert failing.learned == [3] * len(failing.attempts)
        assert failing.refusal == FAILED
        failing.error = None
        failing.tick(10.0, until=lambda: failing.refusal is None)
        assert failing.refusal is None


def test_a_request_is_answered_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with local_study(tmp_path, with_period(EXACT)) as study:
        failing = Failing(study, monkeypatch, InvalidModel("x"))
        study.do(releases.request_release)
        failing.tick(3.0)
        assert (len(failing.attempts), failing.refusal) == (1, UNCOMPUTABLE)  # and the schedule goes on


def test_pauses_have_a_bound_and_leave_half_of_the_time() -> None:
    timing = Timing(Release(policy="exact"))
    assert timing.retry(begun=0.0, ended=0.1, failures=5000) <= 2 * MAX_PAUSE_SECONDS
    assert timing.retry(begun=0.0, ended=1000.0, failures=1) >= 2000.0


def test_without_noise_a_release_comes_as_soon_as_it_is_ready() -> None:
    timing = Timing(Release(policy="exact"))
    assert (timing.lead, timing.publication(100.0, begun=100.0, ready=101.3)) == (0.0, 101.3)


@pytest.mark.parametrize(
    ("examples", "seconds", "enough"), [(2000, 4, 41), (2000, 40, 41), (999, 2, 6), (500, 1, None)]
)
def test_a_lead_that_one_client_can_fill_is_refused(
    tmp_path: Path, examples: int, seconds: int, enough: int | None
) -> None:
    """With the ``every`` that the message asks for it starts; without noise nobody may hide, and it always does."""

    def study(body: str, every: int) -> Study:
        path = tmp_path / "study.toml"
        body = body.replace("[limits]\n", f"[limits]\nexamples_per_client = {examples}\n")
        path.write_text(body.replace('every = "10s"', f'every = "{every}s"'), encoding="utf-8")
        return Study.load(path)

    if enough is None:
        check_lead(study(PRIVATE, seconds))
        return
    with pytest.raises(InvalidStudy, match=rf"release\.every: expected at least {enough}s.* got {seconds}s"):
        check_lead(study(PRIVATE, seconds))
    check_lead(study(PRIVATE, enough))
    assert Timing(study(PRIVATE, enough).release).lead >= client_seconds(examples)
    check_lead(study(EXACT, seconds))

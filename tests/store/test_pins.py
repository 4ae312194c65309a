"""Settings that a start takes or refuses, by what has happened to its database; and that verification stays clean."""

from __future__ import annotations

import struct
from contextlib import closing
from pathlib import Path

import pytest

from motet.errors import Busy, InvalidStore
from motet.release.disclosed import Disclosed
from motet.server.publisher import Publisher
from motet.store import clients, examples
from motet.store.backup import back_up, restore
from motet.store.clients import client_with_token, enroll
from motet.store.examples import Example
from motet.store.pins import pin
from motet.store.releases import current, current_ledger, next_release, refusal, request_release
from motet.store.store import Store
from motet.study.study import Study
from tests.store.empty_store import addition
from tests.store.local_study import EXACT, FIXED, PER_CLIENT, PRIVATE, LocalStudy, local_study, reopened, states

WIDER = ("[-10.0, 10.0]", "[20.0, 500.0]")
STRONGER = ("alpha = 0.5", "alpha = 0.4")
UNRELEASED = {"last release": "skipped"}


def served(folder: Path, body: str) -> LocalStudy:
    """A study that nobody has sent anything to."""
    path = folder / "study.toml"
    path.write_text(body, encoding="utf-8")
    return LocalStudy(path)


def edited(study: LocalStudy, *changes: tuple[str, str]) -> LocalStudy:
    """The server starts again with another file; if that is refused, the file is as before."""
    path, text = study.study.path, study.study.path.read_text(encoding="utf-8")
    other = text
    for old, new in changes:
        assert old in other
        other = other.replace(old, new)
    path.write_text(other, encoding="utf-8")
    again = reopened(path, study.now)
    try:
        pin(again.store, again.study, now=again.now)
    except InvalidStore:
        path.write_text(text, encoding="utf-8")
        again.store.close()
        raise
    study.store.close()
    return again


def refused(study: LocalStudy, *changes: tuple[str, str]) -> str:
    with pytest.raises(InvalidStore) as caught:
        edited(study, *changes)
    end = "; change it back, or start a new study with another database ([store] url)"
    assert str(caught.value).endswith(end)
    return str(caught.value).removeprefix(f"{study.study.path}: ").removesuffix(end)


def due(study: LocalStudy) -> float:
    """In seconds from now."""
    with study.store.snapshot() as connection:
        return next_release(connection) - study.now


def released(study: LocalStudy) -> Disclosed:
    with study.store.snapshot() as connection:
        last = current(connection)
    assert last is not None
    return Disclosed.from_bytes(last.data)


# --- until the first example ---


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("body", [EXACT, PRIVATE], ids=["exact", "private"])
def test_an_edited_study_is_taken_and_clients_keep_their_tokens(tmp_path: Path, body: str) -> None:
    study = served(tmp_path, body)
    with study.store.transaction() as connection:
        (ann,) = enroll(connection, ["ann"])
    study = edited(study, WIDER, ("dimension = 1", "dimension = 2"), STRONGER)
    assert states(study) == UNRELEASED
    study = edited(study, ("dimension = 2", "dimension = 1"))
    with study.store.snapshot() as connection:
        assert client_with_token(connection, ann.token) == ann.id
    study.add(ann.id, (0.5, 30.0), (0.0, 20.0))
    assert study.release() == [1]
    assert released(study).model.alpha == 0.4
    assert states(study) == {}
    study.store.close()


def test_a_promise_that_nobody_has_sent_under_may_be_any(tmp_path: Path) -> None:
    study = served(tmp_path, PRIVATE)
    for change in (
        ("epsilon = 3.0", "epsilon = 5.0"),
        ("releases = 6", 'releases = 2\nper = "client"'),
        ('policy = "private"', 'policy = "exact"'),
        ('policy = "exact"', 'policy = "private"'),
    ):
        study = edited(study, change)
        assert states(study) == UNRELEASED
    assert study.release() == [1]  # of nobody, and yet
    assert refused(study, STRONGER) == "model.alpha: expected 0.5, fixed since the first release, got 0.4"
    assert refused(study, WIDER).startswith("limits.y: expected [-10.0, 10.0], fixed since the first release")
    study.store.close()


@pytest.mark.usefixtures("backend")
def test_the_first_example_fixes_limits_even_if_it_is_removed(tmp_path: Path) -> None:
    """Who has sent may send again. To enroll and to forget is not to begin."""
    study = served(tmp_path, PRIVATE)
    ann, bob = study.enroll("ann", "bob")
    study.do(clients.forget, bob)
    study = edited(study, WIDER)
    study.add(ann, (0.5, 30.0))
    reason = "limits.y: expected [20.0, 500.0], fixed since the first example, got [-10.0, 10.0]"
    assert refused(study, WIDER[::-1]) == reason
    study.do(examples.remove, ann, "0")
    assert refused(study, WIDER[::-1]) == reason
    study.do(clients.forget, ann)
    assert refused(study, WIDER[::-1]) == reason
    weaker = ('policy = "private"', 'policy = "exact"')
    assert refused(study, weaker).startswith('release.policy: expected "private", fixed since the first example')
    assert states(study) == UNRELEASED
    study.store.close()


# --- until the first release ---


@pytest.mark.parametrize("body", [EXACT, FIXED, PRIVATE, PER_CLIENT], ids=["growing", "fixed", "private", "per client"])
def test_the_release_is_of_the_model_that_was_edited_before_it(tmp_path: Path, body: str) -> None:
    with local_study(tmp_path, body) as first:
        study = edited(first, STRONGER)
        assert states(study) == UNRELEASED
        assert study.release(2) == [1, 2]
        assert released(study).model.alpha == 0.4
        assert states(study) == {}
        if study.study.private:
            reason = "model.alpha: expected 0.4, fixed since the first release, got 0.5"
            assert refused(study, STRONGER[::-1]) == reason
        else:
            study = edited(study, STRONGER[::-1])
            assert study.release() == [3]
            assert released(study).model.alpha == 0.5
        assert states(study) == {}
        study.store.close()


class Kill(BaseException):
    """As kill -9: nothing of the process goes on."""


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize(
    ("body", "point"),
    [
        pytest.param(EXACT, "caught up", id="exact, caught up"),
        pytest.param(EXACT, "publication", id="exact, publication"),
        *(pytest.param(PRIVATE, point, id=f"private, {point}") for point in ("read ahead", "ledger", "publication")),
    ],
)
def test_a_publisher_that_was_killed_at_the_first_release(tmp_path: Path, body: str, point: str) -> None:
    """Nothing of a release that was not stored stays, neither its model nor its coordinates."""

    def kill(here: str) -> None:
        if here == point:
            raise Kill

    change = (STRONGER, ("count = 5", "count = 4")) if body == PRIVATE else (STRONGER,)
    with local_study(tmp_path, body) as first:
        first.now += first.study.release.seconds
        with pytest.raises(Kill):
            Publisher(first.store, first.study, clock=lambda: first.now, reached=kill).tick()
        assert set(states(first).values()) <= {"skipped"}
        if point == "publication" and body == PRIVATE:
            assert refused(first, *change).startswith("basis.points: expected [[-2.0]")
            assert released(first).model.alpha == 0.5
            return
        study = edited(first, *change)
        versions = study.release(2)
        assert versions == ([2, 3] if point == "publication" else [1, 2])
        assert released(study).model.alpha == 0.4
        assert states(study) == {}
        study.store.close()


def test_a_study_without_noise_becomes_private(tmp_path: Path) -> None:
    """Before its first release, and not back."""
    exact = PRIVATE.replace('"private"', '"exact"')
    with local_study(tmp_path, exact) as first:
        first.do(request_release)
        study = edited(first, ('"exact"', '"private"'))
        assert states(study) == UNRELEASED
        assert study.publisher.tick() is None  # what was requested would have come now
        assert refused(study, ('"private"', '"exact"')).startswith("release.policy: ")
        assert study.release(2) == [1, 2]
        assert released(study).policy == "private"
        assert states(study) == {}
        back_up(study.study, tmp_path / "backup.zip", now=study.now)
        study.store.close()
    done = restore(tmp_path / "backup.zip", tmp_path / "new", now=study.now)
    assert states(done.study) == {}


def test_what_was_released_without_noise_is_never_private(tmp_path: Path) -> None:
    with local_study(tmp_path, PRIVATE.replace('"private"', '"exact"')) as study:
        assert study.release() == [1]
        for client in study.enroll("dora"):
            study.do(clients.forget, client)
        reason = 'release.policy: expected "exact", fixed since the first release, got "private"'
        assert refused(study, ('"exact"', '"private"')) == reason


@pytest.mark.usefixtures("backend")
def test_the_budget_of_the_last_start_is_spent(tmp_path: Path) -> None:
    """It became stricter before the first release; the noise is of it, and the ledger has one row for each release."""
    with local_study(tmp_path, PRIVATE) as first:
        study = edited(first, ("epsilon = 3.0", "epsilon = 1.0"), ("releases = 6", "releases = 8"))
        assert study.release() == [1]
        planned = study.study.ledger()
        assert planned is not None
        with study.store.snapshot() as connection:
            (scale,) = connection.exec_driver_sql("SELECT scale FROM ledger").scalars()
            assert current_ledger(connection, planned).releases_made == 1
        assert scale == planned.scale
        assert released(study).noise_scale == pytest.approx(scale)
        assert states(study) == {}
        stricter = "release.epsilon: expected 1.0, fixed since the first release, got 0.5"
        assert refused(study, ("epsilon = 1.0", "epsilon = 0.5")) == stricter
        study.store.close()


def test_a_publisher_of_other_settings_leaves_release_and_schedule_to_that_of_the_last_start(tmp_path: Path) -> None:
    with local_study(tmp_path, PRIVATE) as first, closing(Store(first.study.store_url)) as store:
        late = Publisher(store, first.study, clock=lambda: study.now)
        study = edited(first, ('every = "10s"', 'every = "20s"'))
        study.now += 20
        for _ in range(3):
            assert late.tick() is None
        assert due(study) == 0
        with study.store.snapshot() as connection:
            assert "study.toml was changed since the server started" in (refusal(connection) or "")
        assert study.publisher.tick() == 1
        assert (late.tick(), due(study)) == (None, 20)
        assert states(study) == {}
        study.store.close()


# --- the schedule ---


@pytest.mark.parametrize("body", [EXACT, PRIVATE], ids=["exact", "private"])
def test_another_time_between_releases_counts_from_the_start_that_brings_it(tmp_path: Path, body: str) -> None:
    with local_study(tmp_path, body) as study:
        study.now += 3
        study = edited(study, ('"10s"', '"2s"'))
        assert due(study) == 2
        study = edited(study, ('"2s"', '"1h"'))
        assert due(study) == 3600
        study.now += 100
        study = edited(study)
        assert due(study) == 3500
        study.now += 10_000  # nobody was there
        study = edited(study)
        assert due(study) == 3500 - 10_000 + 3600  # the last time that is over
        assert study.publisher.tick() == 1
        study.store.close()


def test_after_the_first_release_a_private_study_keeps_its_schedule(tmp_path: Path) -> None:
    with local_study(tmp_path, PRIVATE) as study:
        study.release()
        study.now += 3
        assert refused(study, ('"10s"', '"2s"')).startswith("release.every: expected 10 s or more, fixed since the fir")
        study = edited(study, ('"10s"', '"1h"'))
        assert due(study) == 7
        study.store.close()


def test_after_the_first_release_a_study_without_noise_may_become_quicker(tmp_path: Path) -> None:
    with local_study(tmp_path, EXACT) as study:
        study.release()
        study = edited(study, ('"10s"', '"1h"'))
        study.now += 10
        assert study.publisher.tick() == 2
        assert due(study) == 3600
        study = edited(study, ('"1h"', '"2s"'))
        assert due(study) == 2
        study.store.close()


# --- backups ---


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("sent", [True, False], ids=["after the first example", "before"])
def test_a_backup_fixes_what_its_restoration_counts_by(tmp_path: Path, sent: bool) -> None:
    study = served(tmp_path, PRIVATE)
    (ann,) = study.enroll("ann")
    if sent:
        study.add(ann, (0.5, 1.0))
    study = edited(study, ('"10s"', '"20s"'))
    back_up(study.study, tmp_path / "backup.zip", now=study.now)
    assert states(study) == UNRELEASED
    for change, key in (
        (('"20s"', '"10s"'), "release.every: expected 20 s or more"),
        (("epsilon = 3.0", "epsilon = 1.0"), "release.epsilon: expected 3.0"),
        (("releases = 6", "releases = 7"), "release.releases: expected 6"),
        (('"private"', '"exact"'), 'release.policy: expected "private"'),
    ):
        assert refused(study, change).startswith(f"{key}, fixed since the first backup, got ")
    study = edited(study, STRONGER, ('"20s"', '"30s"'))
    assert study.release() == [1]
    assert states(study) == {}
    done = restore(tmp_path / "backup.zip", tmp_path / "new", now=study.now)
    again = reopened(done.study.path, study.now)
    assert (done.gap.last, states(again)) == (1, UNRELEASED)
    assert refused(again, ("epsilon = 3.0", "epsilon = 1.0")).endswith("fixed since the first release, got 1.0")
    again.store.close()
    study.store.close()


def test_a_backup_that_is_not_made_fixes_nothing(tmp_path: Path) -> None:
    study = served(tmp_path, PRIVATE)
    (tmp_path / "backup.zip").touch()
    with pytest.raises(InvalidStore, match="already exists"):
        back_up(study.study, tmp_path / "backup.zip")
    study.study.path.write_text(PRIVATE.replace("epsilon = 3.0", "epsilon = 1.0"), encoding="utf-8")
    with pytest.raises(
        InvalidStore, match=r"release\.epsilon: .* edited since the last start: start the server with it"
    ):
        back_up(Study.load(study.study.path), tmp_path / "other.zip")
    assert not (tmp_path / "other.zip").exists()
    pin(study.store, Study.load(study.study.path), now=study.now)
    study.store.close()


def test_a_database_of_an_earlier_version_may_have_backups(tmp_path: Path) -> None:
    study = served(tmp_path, PRIVATE)
    study.execute("DELETE FROM settings WHERE key IN ('backup', 'terms')")
    reason = "release.epsilon: expected 3.0, fixed since the first start, got 1.0"
    assert refused(study, ("epsilon = 3.0", "epsilon = 1.0")) == reason
    assert refused(study, ('"10s"', '"9s"')).startswith(
        "release.every: expected 10 s or more, fixed since the first st"
    )
    study = edited(study, WIDER, STRONGER)
    assert study.release() == [1]
    assert states(study) == {}
    study.store.close()


# --- many servers of one database ---


@pytest.mark.usefixtures("backend")
def test_a_server_of_other_terms_takes_nothing_more(tmp_path: Path) -> None:
    """Its clients were shown another promise, and its limits are others."""
    study = served(tmp_path, PRIVATE)
    (ann,) = study.enroll("ann")
    before = study.study.terms
    study = edited(study, ("epsilon = 3.0", "epsilon = 5.0"))

    def add(id: str, terms: str) -> None:
        new = Example(id, struct.pack("<d", 0.5), 1.0, 1.0)
        with study.store.transaction() as connection:
            examples.add(connection, addition(ann, [new], 9, terms=terms))

    def replace(terms: str) -> None:
        with study.store.transaction() as connection:
            examples.replace(connection, ann, Example("1", struct.pack("<d", 0.5), 2.0, 1.0), terms)

    with pytest.raises(Busy, match="the study was changed since this server started"):
        add("1", before)
    study = edited(study, ("epsilon = 5.0", "epsilon = 6.0"))  # nothing was stored
    add("1", study.study.terms)
    with pytest.raises(Busy, match="the study was changed since this server started"):
        add("2", before)
    with pytest.raises(Busy, match="the study was changed since this server started"):
        replace(before)
    add("2", study.study.terms)
    replace(study.study.terms)
    study.store.close()

"""Backups: whole, for their owner alone, and put back so that nothing is spent twice or said in two ways."""

from __future__ import annotations

import hashlib
import json
import math
import os
import socket
import sqlite3
import stat
import struct
import threading
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from motet import Client
from motet.errors import InvalidData, InvalidStore, InvalidStudy
from motet.store import clients, examples
from motet.store.backup import MANIFEST, Manifest, Restoration, back_up, restore, scheduled
from motet.store.clients import summary
from motet.store.releases import Gap, current_ledger, gaps
from motet.study.study import Study
from tests.scenarios.harness import CURVES, END, parts, poll, write_study
from tests.store.local_study import EVERY, EXACT, FIXED, PER_CLIENT, PRIVATE, LocalStudy, local_study, reopened, states


def saved(study: LocalStudy, name: str = "backup.zip") -> Path:
    """A backup that was made when the study's clock says."""
    file = study.study.path.parent / name
    back_up(study.study, file, now=study.now)
    return file


def budget(study: LocalStudy) -> tuple[int, dict[Any, int]]:
    """Releases that are charged, and how many to whom."""
    planned = study.study.ledger()
    assert planned is not None
    with study.store.snapshot() as connection:
        spent = current_ledger(connection, planned)
    return spent.releases_made, dict(spent.participation)


# --- the file ---


def test_a_study_whose_files_lie_apart_is_restored_to_one_folder(tmp_path: Path) -> None:
    for folder in ("etc", "data", "items"):
        (tmp_path / folder).mkdir()
    (tmp_path / "items" / "items.csv").write_text("name,size\na,1\nb,2\nc,4\n", encoding="utf-8")
    url = f"[store] # where it is\nurl = 'sqlite:///{tmp_path}/data/music.db'  # kept\n"
    body = EXACT.replace("dimension = 1", 'catalogue = "../items/items.csv"  # of all') + url
    path = tmp_path / "etc" / "study.toml"
    path.write_text(body, encoding="utf-8")
    study = LocalStudy(path)
    (ann,) = study.enroll("ann")
    study.add(ann, (2.0, 1.0), (0.0, 3.0))  # items by their numbers
    study.release()
    file = tmp_path / "backup.zip"
    manifest = back_up(study.study, file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert sorted(manifest.files) == ["items.csv", "music.db", "study.toml"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["backup.zip", "data", "etc", "items"]
    study.store.close()
    for folder in ("etc", "data", "items"):  # nothing of the old place is needed
        (tmp_path / folder).rename(tmp_path / f"{folder}-gone")

    done = restore(file, tmp_path / "new" / "place", now=manifest.made)
    place = tmp_path / "new" / "place"
    assert sorted(p.name for p in place.iterdir()) == ["items.csv", "music.db", "study.toml"]
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(p.stat().st_mode) == 0o600 for p in place.iterdir())
    assert done.study.store_url == f"sqlite:///{place}/music.db"
    assert '# where it is\nurl = "sqlite:///music.db"  # kept' in done.study.path.read_text(encoding="utf-8")
    assert states(done.study) == {}
    with reopened(done.study.path, 0.0).store.snapshot() as connection:
        assert [example.y for example in examples.page(connection, ann)] == [1.0, 3.0]


def test_a_database_that_is_too_large_for_a_copy_in_memory_is_read_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("motet.store.sqlite.MAX_COPY_BYTES", 0)
    with local_study(tmp_path, EXACT) as study:
        study.release()
        assert states(study) == {}
        done = restore(saved(study), tmp_path / "new", now=study.now)
    assert states(done.study) == {}


def test_refusals_leave_nothing_behind(tmp_path: Path) -> None:
    with local_study(tmp_path, EXACT) as study:
        file = saved(study)
        with pytest.raises(InvalidStore, match=r"backup\.zip already exists"):
            back_up(study.study, file)
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "something").touch()
        with pytest.raises(InvalidStore, match="full already exists"):
            restore(file, tmp_path / "full")
        with pytest.raises(InvalidData, match="set this machine's clock"):
            restore(file, tmp_path / "early", now=study.now - 1)
        with pytest.raises(
            InvalidData, match="expected a version from 0, the newest in the backup, to 2147483647, got -1"
        ):
            restore(file, tmp_path / "early", now=study.now, last=-1)
        study.study.path.write_text(PRIVATE, encoding="utf-8")
        with pytest.raises(InvalidStore, match=r'release\.policy: expected "exact", fixed since the first backup'):
            back_up(Study.load(study.study.path), tmp_path / "other.zip")
        inline = EXACT.replace("[study]", 'store = { url = "sqlite:///x/study.db" }\n[study]')
        (tmp_path / "x").symlink_to(tmp_path)
        study.study.path.write_text(inline, encoding="utf-8")
        with pytest.raises(InvalidStudy, match=r"store\.url: expected a line url ="):
            back_up(Study.load(study.study.path), tmp_path / "other.zip")
        postgres = EXACT + '[store]\nurl = "postgresql+psycopg://me:secret@127.0.0.1:1/study"\n'
        study.study.path.write_text(postgres, encoding="utf-8")
        with pytest.raises(InvalidStore, match="refused"):
            back_up(Study.load(study.study.path), tmp_path / "other.zip")
    left = {"study.toml", "study.db", "study.db-wal", "study.db-shm", "backup.zip", "full", "x"}
    assert {path.name for path in tmp_path.iterdir()} <= left


def rewritten(file: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """A backup with other contents."""
    with zipfile.ZipFile(file) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    change(contents)
    forged = file.with_name("forged.zip")
    with zipfile.ZipFile(forged, "w") as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
    return forged


def renamed(new: str) -> Callable[[dict[str, bytes]], None]:
    """The study file under another name, in the manifest too."""

    def change(contents: dict[str, bytes]) -> None:
        contents[new] = contents.pop("study.toml")
        said = json.loads(contents[MANIFEST])
        said["files"][new] = said["files"].pop("study.toml")
        contents[MANIFEST] = json.dumps(said | {"study": new}).encode()

    return change


def elsewhere(contents: dict[str, bytes]) -> None:
    """A study file that leads to another's database."""
    contents["study.toml"] += b'[store]\nurl = "sqlite:////tmp/of-another.db"\n'
    said = json.loads(contents[MANIFEST])
    said["files"]["study.toml"] = hashlib.sha256(contents["study.toml"]).hexdigest()
    contents[MANIFEST] = json.dumps(said).encode()


def stated(**values: Any) -> Callable[[dict[str, bytes]], None]:
    """Other values in the manifest."""

    def change(contents: dict[str, bytes]) -> None:
        contents[MANIFEST] = json.dumps(json.loads(contents[MANIFEST]) | values).encode()

    return change


def scheduled_at(due: str) -> Callable[[dict[str, bytes]], None]:
    """Another time of the next release, in the database."""

    def change(contents: dict[str, bytes]) -> None:
        database = sqlite3.connect(":memory:")
        database.deserialize(contents["study.db"])
        database.execute("UPDATE settings SET value = ? WHERE key = 'next'", (due,))
        database.commit()
        contents["study.db"] = database.serialize()
        database.close()
        files = json.loads(contents[MANIFEST])["files"] | {"study.db": hashlib.sha256(contents["study.db"]).hexdigest()}
        stated(files=files)(contents)

    return change


FORGED: dict[str, Callable[[dict[str, bytes]], Any]] = {
    "a path upwards": renamed("../study.toml"),
    "a path from the root": renamed("/tmp/study.toml"),
    "a path of Windows": renamed("..\\study.toml"),
    "a byte changed": lambda contents: contents.update({"study.toml": contents["study.toml"] + b"\n"}),
    "a file more": lambda contents: contents.update({"more.txt": b"x"}),
    "a file less": lambda contents: contents.pop("study.db"),
    "no manifest": lambda contents: contents.pop(MANIFEST),
    "another format": lambda contents: contents.update(
        {MANIFEST: contents[MANIFEST].replace(b'"format": 1', b'"format": 2')}
    ),
    "another's database": elsewhere,
    "no time": stated(made=math.nan),
    "a time before all others": stated(made=-1e300),
    "a time after all others": stated(made=1e300),
    "a time without end": stated(made=math.inf),
    "a version before the first": stated(version=-1),
    "a version that no table holds": stated(version=2**31),
    "many files": lambda contents: contents.update({f"{k}.txt": b"" for k in range(100)}),
}
SCHEDULED = ["nan", "inf", "-1e300", "1e300", "soon"]


@pytest.mark.parametrize("how", FORGED)
def test_what_is_no_backup_is_refused_whole(tmp_path: Path, how: str) -> None:
    with local_study(tmp_path, EXACT) as study:
        forged = rewritten(saved(study), FORGED[how])
    with pytest.raises(InvalidStore, match="take another"):
        restore(forged, tmp_path / "new", now=study.now)
    (tmp_path / "cut.zip").write_bytes(forged.read_bytes()[:-30])
    with pytest.raises(InvalidStore, match="expected a backup that motet made, got File is not a zip file"):
        restore(tmp_path / "cut.zip", tmp_path / "new")
    assert not {"new", ".restore-"} & {path.name[:9] for path in tmp_path.iterdir()}
    assert not (tmp_path.parent / "study.toml").exists()


@pytest.mark.parametrize("due", SCHEDULED)
def test_a_backup_whose_next_release_is_never_is_refused(tmp_path: Path, due: str) -> None:
    with local_study(tmp_path, EXACT) as study:
        forged = rewritten(saved(study), scheduled_at(due))
    with pytest.raises(InvalidStore, match=r"^expected a [^\n]*(restore a|take another) backup$"):
        restore(forged, tmp_path / "new", now=study.now)
    assert not (tmp_path / "new").exists()


# --- files that are no backups, and some that are made to hurt ---


def bomb(file: Path, name: str) -> None:
    """An archive with a file of 70 MB that takes 300 kB."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(name, bytes(70_000_000))


def table_of_contents(file: Path) -> None:
    """An archive whose table of contents has more than 2²⁰ bytes."""
    with zipfile.ZipFile(file, "w") as archive:
        for k in range(20):
            archive.writestr(f"{k:060000}", b"")


def packed_otherwise(file: Path) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr(MANIFEST, b"{}")


def a_socket(file: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(file))


STRANGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "nothing": (lambda _: None, "No such file or directory"),
    "empty": (lambda file: file.touch(), "File is not a zip file"),
    "text": (lambda file: file.write_text("a backup", encoding="utf-8"), "File is not a zip file"),
    "folder": (lambda file: file.mkdir(), "something that is not a file"),
    "pipe": (os.mkfifo, "something that is not a file"),
    "socket": (a_socket, "something that is not a file"),
    "link to a device": (lambda file: file.symlink_to("/dev/zero"), "something that is not a file"),
    "link to nothing": (lambda file: file.symlink_to("nowhere"), "No such file or directory"),
    "huge manifest": (partial(bomb, name=MANIFEST), "a file of 70000000 bytes in "),
    "huge file": (partial(bomb, name="study.db"), "a file of 70000000 bytes in "),
    "table of contents": (table_of_contents, "a table of contents that is too long"),
    "another packing": (packed_otherwise, "files that are packed in another way"),
}


@pytest.mark.parametrize("kind", STRANGE)
def test_what_is_no_backup_is_refused_in_one_line_and_little_memory(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    make, reason = STRANGE[kind]
    make(Path("backup.zip"))
    tracemalloc.start()
    with pytest.raises(InvalidStore, match=f"^[^\n]*backup.zip: [^\n]*{reason}[^\n]*$"):
        restore(Path("backup.zip"), tmp_path / "new")
    assert tracemalloc.get_traced_memory()[1] < 10**7
    tracemalloc.stop()
    assert not (tmp_path / "new").exists()


def test_what_no_disk_has_room_for_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with local_study(tmp_path, EXACT) as study:
        file = saved(study)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(InvalidStore, match=r"expected room for \d+ bytes in the folder, got 1000"):
        restore(file, tmp_path / "new", now=study.now)


def test_who_was_forgotten_is_in_no_later_backup(tmp_path: Path) -> None:
    secret = struct.pack(">d", 7.654321)  # as SQLite keeps it
    with local_study(tmp_path, EXACT) as study:
        (dora,) = study.enroll("dora the first")
        study.add(dora, (0.25, 7.654321))
        before = saved(study)
        study.do(clients.forget, dora)
        after = saved(study, "later.zip")
    for file, there in ((before, True), (after, False)):
        database = zipfile.ZipFile(file).read("study.db")
        assert (secret in database, b"dora the first" in database) == (there, there)


# --- what may have been released since ---


@pytest.mark.parametrize(
    ("since", "now", "many"),
    [
        (95, 99, 0),  # before the next is due, which is at 100, and then every 10 s
        (95, 100, 1),
        (95, 109, 1),
        (95, 110, 2),
        (95, 135, 4),
        (105, 107, 1),  # overdue when the backup was made: it may have come right afterwards
        (125, 127, 1),  # nobody has been there for long: those before are not made up for
        (125, 130, 2),
    ],
)
def test_how_many_the_clock_can_have_brought(since: float, now: float, many: int) -> None:
    assert scheduled(100.0, 10.0, since=since, now=now) == many


def put_back(tmp_path: Path, body: str, later: float, last: int | None = None) -> tuple[Restoration, LocalStudy]:
    """A backup after two releases, made 5 s before the next is due, restored ``later`` seconds after that."""
    with local_study(tmp_path, body) as study:
        assert study.release(2) == [1, 2]
        study.now += EVERY / 2
        study.enroll("without examples")
        file = saved(study)
    done = restore(file, tmp_path / "new", now=study.now + EVERY / 2 + later, last=last)
    return done, reopened(done.study.path, done.gap.at)


@pytest.mark.parametrize(
    ("later", "last", "given"),
    [(-1, None, 2), (0, None, 3), (19, None, 4), (500, None, 6), (19, 3, 4), (-1, 5, 5), (-1, 6, 6)],
)
def test_a_private_study_pays_for_what_may_have_been_released(
    tmp_path: Path, later: float, last: int | None, given: int
) -> None:
    done, study = put_back(tmp_path, PRIVATE, later, last)
    assert (done.gap.version, done.gap.last, budget(study)[0]) == (2, given, given)
    assert done.gap.at < done.due <= done.gap.at + EVERY
    assert states(study) == {}
    assert study.publisher.tick() is None  # no sooner than the clock says
    following = [version if version <= 6 else None for version in range(given + 1, given + 3)]
    assert study.release(2) == following
    assert states(study) == {}
    assert budget(study)[0] == min(given + 2, 6)
    study.store.close()


def test_a_version_that_cannot_be(tmp_path: Path) -> None:
    for last in (1, 7):
        with pytest.raises(
            InvalidData, match=f"from 2, the newest in the backup, to 6, the last of its budget, got {last}"
        ):
            put_back(tmp_path, PRIVATE, 0, last)
        assert not (tmp_path / "new").exists()
        for path in tmp_path.iterdir():
            path.unlink()


@pytest.mark.parametrize(("later", "last", "given"), [(19, None, 4), (19, 2, 2), (19, 40, 40), (-1, 7, 7)])
def test_an_exact_study_goes_on_after_what_may_be_known(
    tmp_path: Path, later: float, last: int | None, given: int
) -> None:
    done, study = put_back(tmp_path, FIXED, later, last)
    assert (done.gap.version, done.gap.last) == (2, given)
    assert study.release(2) == [given + 1, given + 2]
    assert states(study) == {}
    study.store.close()


def test_where_clients_pay_all_who_were_enrolled_do(tmp_path: Path) -> None:
    done, study = put_back(tmp_path, PER_CLIENT, 19)
    assert (done.gap.last, budget(study)[0]) == (4, 4)
    assert sorted(budget(study)[1].values()) == [2, 3, 3, 3]  # of three; the last has sent nothing until the backup
    (late,) = study.enroll("late")
    study.add(late, (1.0, 1.0))
    assert study.release() == [5]
    assert sorted(budget(study)[1].values()) == [1, 2, 3, 3, 3]
    assert states(study) == {"recomputed sums": "skipped"}
    study.store.close()


def test_a_long_absence_costs_no_more_than_there_is(tmp_path: Path) -> None:
    done, study = put_back(tmp_path, PER_CLIENT, 1e9)
    assert done.gap.last == 2 + 1 + 10**8
    assert budget(study)[0] == 2 + 3
    assert set(budget(study)[1].values()) == {3}
    assert study.release() == [done.gap.last + 1]
    assert states(study) == {"recomputed sums": "skipped"}
    study.store.close()


def test_restored_twice(tmp_path: Path) -> None:
    done, study = put_back(tmp_path, PRIVATE, 0)
    file = saved(study)
    study.store.close()
    again = restore(file, tmp_path / "newer", now=done.due)
    assert (again.gap.version, again.gap.last) == (3, 4)
    study = reopened(again.study.path, again.gap.at)
    with study.store.snapshot() as connection:
        assert [(one.version, one.last) for one in gaps(connection)] == [(2, 3), (3, 4)]
        assert gaps(connection)[1] == Gap(3, 4, done.gap.at, done.due)
    assert states(study) == {}
    assert study.release() == [5]
    study.store.close()


# --- beside a server ---


@pytest.mark.slow
def test_a_server_under_writes_is_backed_up_and_verified(tmp_path: Path) -> None:
    """What was acknowledged before a backup began is in it; verification and backups disturb nobody."""
    body = CURVES + '[limits]\nexamples_per_client = 20000\n[release]\npolicy = "exact"\nevery = "1s"\n'
    made: list[tuple[int, Manifest, int]] = []
    with parts(write_study(tmp_path, body)) as running:
        study = Study.load(running.study)
        with running.operator() as operator:
            (ann,) = operator.enroll(["ann"])
        with sending(running.client(ann.token)) as sent:
            poll(lambda: sent and version_at(running.url), END, "a release")
            for k in range(3):
                before = len(sent)
                manifest = back_up(study, tmp_path / f"{k}.zip")
                made.append((sent[before - 1], manifest, sent[-1] + 1))  # one may be on its way
                poll(partial(_more, sent, before), END, "writes go on")
                assert set(states(study).values()) <= {"skipped"}
    for k, (least, manifest, most) in enumerate(made):
        done = restore(tmp_path / f"{k}.zip", tmp_path / str(k), now=manifest.made)
        assert states(done.study) == {}
        with reopened(done.study.path, 0.0).store.snapshot() as connection:
            assert least <= summary(connection, ann.id)["count"] <= most


def _more(sent: list[int], before: int) -> bool:
    return len(sent) > before


@contextmanager
def sending(me: Client) -> Iterator[list[int]]:
    """A client that sends without end; gives how many examples were acknowledged after each request."""
    counts: list[int] = []
    ended = threading.Event()

    def send() -> None:
        with me:
            while not ended.is_set():
                counts.append(me.send([0.1 * (len(counts) % 20)], 1.0).count)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield counts
    finally:
        ended.set()
        thread.join()


def version_at(url: str) -> int:
    with Client(url, "") as anyone:
        return int(anyone.study()["version"])

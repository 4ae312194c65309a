"""What holds for all tests: what may be skipped, what is quick, and in which order they run.

``quick`` tests are those of the ``QUICK`` rooms that are not marked ``slow``: they run in this process alone, without
sockets, and all together in less than a minute. In CI nothing may be skipped: whatever CI can run, it runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    from tests.postgres import Cluster

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # tests run side by side
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what one program compiles, hundreds of others read:
sys.dont_write_bytecode = False  # without that, a server needs three times as long to start
os.environ["SCIPY_ARRAY_API"] = "1"  # one of scikit-learn's checks wants it, before scipy is imported

HERE = Path(__file__).parent
MEMORY, MEMORY_BYTES = Path("/dev/shm"), 2**31  # a file system without a disk, where there is one, and room on it
QUICK = (
    "test_arrays.py",
    "test_linalg.py",
    "attacks",
    "client",
    "engine",
    "kernels",
    "model",
    "planning",
    "privacy",
    "regression",
    "release",
    "scale",
    "server/test_states.py",
    "study",
    "tables",
    "tuning",
)
LONG = (  # the longest first
    "scenarios/test_database_faults.py",
    "test_docs.py",
    "scenarios/test_kills.py",
    "scenarios/test_client_faults.py",
    "web",
    "scenarios",
    "test_experiments.py",
    "test_readme.py",
    "music",
    "test_wheel.py",
    "compatibility",
    "test_engines.py",
    "fuzz",
    "attacks/test_attacks_on_private_releases.py",
)
OUTSIDE = ("subprocess.Popen", "os.fork", "os.posix_spawn", "socket.bind", "socket.connect")  # names of audit events


def _has_room(folder: Path) -> bool:
    """For the files of tests and for programs among them."""
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        return False
    system = os.statvfs(folder)
    return system.f_bavail * system.f_frsize > MEMORY_BYTES and not system.f_flag & os.ST_NOEXEC


if _has_room(MEMORY):  # for tmp_path: tests kill processes, but nobody cuts the power, so no commit waits for a disk
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Rooms without quick tests are not even imported for ``-m quick``."""
    leads_to_quick = any((HERE / place).is_relative_to(collection_path) for place in QUICK)
    is_needed = config.option.markexpr != "quick" or leads_to_quick or _is_in(collection_path, QUICK)
    return None if is_needed else True


def pytest_itemcollected(item: pytest.Item) -> None:
    if _is_in(item.path, QUICK) and item.get_closest_marker("slow") is None:
        item.add_marker("quick")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take longest first and quick ones last, so that workers end together."""
    items.sort(key=lambda item: (_rank(item.path), _is_in(item.path, QUICK)))


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two for each core, since many tests wait for a clock or for a program to start; quick ones wait for nothing."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores if config.option.markexpr == "quick" else 2 * cores


# --- PostgreSQL ---


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    """The cluster of this process: one that a test stops or crashes, it starts again."""
    from tests.postgres import binaries, cluster  # quick tests need no driver

    if (bin := binaries()) is None:
        pytest.skip("there is no PostgreSQL: install Debian's postgresql, or put initdb and pg_ctl on the PATH")
    with cluster(bin, fsync="off") as running:  # nobody cuts the power
        yield running


@pytest.fixture
def postgres_url(postgres: Cluster) -> Iterator[str]:
    """Of a new and empty database."""
    database = postgres.create()
    yield postgres.url(database)
    postgres.drop(database)


@pytest.fixture(scope="session")
def _shared_database(postgres: Cluster) -> str:
    return postgres.create()


@pytest.fixture
def empty_postgres(postgres: Cluster, _shared_database: str) -> Callable[[], str]:
    """URLs of empty places for a study: schemas of one database, which are made much faster than databases.

    They go with their cluster: to drop one waits for whoever still reads it, who may wait for the drop.
    """

    def make() -> str:
        schema = f"study_{uuid4().hex}"
        postgres.execute(f"CREATE SCHEMA {schema}", _shared_database)
        return f"{postgres.url(_shared_database)}?options=-csearch_path%3D{schema}"

    return make


@pytest.fixture(params=["sqlite", "postgresql"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a test on every kind of database: on PostgreSQL a study of this process that would get a new file is kept
    there. One that has its file already, such as a backup that was restored, stays in it."""
    if request.param == "postgresql":
        from motet.study import study

        make: Callable[[], str] = request.getfixturevalue("empty_postgres")
        urls, resolved = dict[str, str](), study.store_url

        def url(text: str, folder: Path) -> str:
            file = resolved(text, folder)
            if not file.startswith("sqlite:"):
                return file
            if file not in urls:
                urls[file] = file if Path(file.removeprefix("sqlite:///")).exists() else make()
            return urls[file]

        monkeypatch.setattr(study, "store_url", url)
    return str(request.param)


def _rank(path: Path) -> int:
    """Where it is in ``LONG``, or behind all of that."""
    return next((rank for rank, place in enumerate(LONG) if path.is_relative_to(HERE / place)), len(LONG))


def _is_in(path: Path, places: tuple[str, ...]) -> bool:
    return any(path.is_relative_to(HERE / place) for place in places)


# --- quick tests stay in this process ---

_quick: list[str] = []  # the one that runs now


def _refuse_outside(event: str, _: Any) -> None:
    if _quick and event in OUTSIDE:
        raise AssertionError(f"{_quick[0]} is quick, but does {event}: mark it slow")


sys.addaudithook(_refuse_outside)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    if item.get_closest_marker("quick") is not None:
        _quick.append(item.nodeid)
    try:
        yield
    finally:
        _quick.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and os.environ.get("CI"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, which CI does not allow: {report.longrepr}"
    return report

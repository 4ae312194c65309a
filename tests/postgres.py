"""A private PostgreSQL for tests: a cluster of its own in a temporary folder, on a free loopback port, as its own user.

PostgreSQL refuses to run as root, so root runs it as the user of Debian's package. ``tests/conftest.py`` has the
fixtures: ``postgres`` is the cluster of this process, ``postgres_url`` a new and empty database in it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psutil
import psycopg

from tests.scenarios.harness import free_port

AS_POSTGRES = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
DEBIAN = Path("/usr/lib/postgresql")  # a folder for each version
WAL_SEGMENT_MEGABYTES = 1  # so that a limit on the size of files can spare the log
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "unix_socket_directories": "",
    "log_min_messages": "warning",
    "wal_recycle": "off",  # so that removed data can leave the files
}


def binaries() -> Path | None:
    """The folder of ``initdb`` and ``pg_ctl``, which Debian keeps off the PATH; None if there is no PostgreSQL."""
    if (known := shutil.which("initdb")) is not None and shutil.which("pg_ctl") is not None:
        return Path(known).resolve().parent  # with all of its programs
    versions = sorted(DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return versions[-1].parent if versions else None


class Cluster:
    """PostgreSQL in a folder, with durable commits as its users have them; it can be stopped, killed and started."""

    def __init__(self, folder: Path, bin: Path, **settings: str) -> None:
        self._folder, self._bin, self.port = folder, bin, free_port()
        self.data = folder / "data"
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        how = ("--encoding=UTF8", "--no-locale", "--no-sync", f"--wal-segsize={WAL_SEGMENT_MEGABYTES}")
        self._run("initdb", "--auth=trust", "--username=motet", *how)
        lines = "".join(f"{key} = '{value}'\n" for key, value in (SETTINGS | settings).items())
        with (self.data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write(f"{lines}port = {self.port}\n")
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._bin / program), "--pgdata", str(self.data), *arguments]
        done = subprocess.run(
            [*AS_POSTGRES, *command], cwd=self._folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False
        )
        assert done.returncode == 0, f"{program}: {done.stderr.decode(errors='replace')}"

    def start(self) -> None:
        self._run("pg_ctl", "--wait", "--timeout=120", f"--log={self._folder / 'log'}", "start")

    def stop(self) -> None:
        """Connections are cut, and transactions under way are undone."""
        self._run("pg_ctl", "--wait", "--timeout=120", "--mode=fast", "stop")

    def crash(self) -> None:
        """As after a loss of power: nothing is written any more, and a start recovers from the log."""
        self._run("pg_ctl", "--wait", "--timeout=120", "--mode=immediate", "stop")

    def restart(self) -> None:
        self.stop()
        self.start()

    @contextmanager
    def only_reads(self) -> Iterator[None]:
        """Restarted as a replica, and afterwards as it was."""
        mark = self.data / "standby.signal"
        self.stop()
        mark.touch()
        self.start()
        yield
        self.stop()
        mark.unlink()
        self.start()

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """No file grows beyond the size of a segment of the log, which so goes on: the system refuses such a write as
        it does on a full disk."""
        self._limit_files(f"{WAL_SEGMENT_MEGABYTES * 2**20}")
        yield
        self._limit_files("unlimited")

    def _limit_files(self, limit: str) -> None:
        """In the main process, whose next ones inherit it, and in all that it has."""
        main = psutil.Process(self.pid)
        for process in (main, *main.children()):
            command = [*AS_POSTGRES, "prlimit", f"--pid={process.pid}", f"--fsize={limit}:unlimited"]
            subprocess.run(command, check=process is main, stderr=subprocess.DEVNULL)

    @property
    def pid(self) -> int:
        return int((self.data / "postmaster.pid").read_text(encoding="utf-8").split()[0])

    def signal(self, number: signal.Signals) -> None:
        """To the main process alone."""
        os.kill(self.pid, number)

    def url(self, database: str) -> str:
        return f"postgresql+psycopg://motet@127.0.0.1:{self.port}/{database}"

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Outside a transaction, and behind everybody's back."""
        address = f"host=127.0.0.1 port={self.port} user=motet dbname={database}"
        with psycopg.connect(address, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def create(self) -> str:
        """The name of a new and empty database."""
        name = f"study_{uuid4().hex}"
        self.execute(f"CREATE DATABASE {name}")
        return name

    def drop(self, database: str) -> None:
        self.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")


@contextmanager
def cluster(bin: Path, **settings: str) -> Iterator[Cluster]:
    """Until the end, and then nothing of it is left; ``settings`` are of its configuration."""
    folder = Path(tempfile.mkdtemp(prefix="motet-postgres-"))
    try:
        running = Cluster(folder, bin, **settings)
        try:
            yield running
        finally:
            if (running.data / "postmaster.pid").exists():
                running.crash()
    finally:
        shutil.rmtree(folder, ignore_errors=True)

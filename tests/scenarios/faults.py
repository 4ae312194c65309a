"""Faults to inject: a database that can be cut off in the middle of a transaction, and files that grow no more."""

from __future__ import annotations

import select
import socket
import struct
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

import psutil

from tests.scenarios.harness import END

RESET = struct.pack("ii", 1, 0)  # of SO_LINGER: closing sends a reset
PIECE_BYTES = 65536


class Proxy:
    """Between a server and its database: connections through it can be cut, also at the words that end a transaction.

    ``port`` is where it listens. A cut is a reset on both sides, as when a network or the other machine fails.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = int(self._listener.getsockname()[1])
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._lock = threading.Lock()
        self._words, self._before, self.cuts = b"", False, 0
        self._open = True
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """All connections, now."""
        with self._lock:
            pairs, self._pairs = self._pairs, set()
        for pair in pairs:
            self._reset(pair)

    def cut_at(self, words: bytes, *, before: bool) -> None:
        """Cut the next connection on which these words pass, before or after the database hears them; no answer of the
        database passes then."""
        self._words, self._before = words, before

    def close(self) -> None:
        self._open = False
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while self._open:
            with suppress(OSError):
                near, _ = self._listener.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self._target), END)
                except OSError:  # the database is away
                    near.close()
                    continue
                with self._lock:
                    self._pairs.add((near, far))
                threading.Thread(target=self._pump, args=(near, far), daemon=True).start()

    def _pump(self, near: socket.socket, far: socket.socket) -> None:
        with suppress(OSError, ValueError):  # closed by a cut
            while True:
                for source in select.select([near, far], [], [])[0]:
                    data = source.recv(PIECE_BYTES)
                    if not data or (source is near and self._is_cut_by(data, far)):
                        raise ConnectionError
                    (far if source is near else near).sendall(data)
        with self._lock:
            self._pairs.discard((near, far))
        self._reset((near, far))

    def _is_cut_by(self, data: bytes, far: socket.socket) -> bool:
        with self._lock:
            if not self._words or self._words not in data:
                return False
            self._words = b""
            self.cuts += 1
        if not self._before:
            far.sendall(data)
            far.recv(PIECE_BYTES)  # the answer: so it is done, and nobody is told
        return True

    @staticmethod
    def _reset(pair: tuple[socket.socket, socket.socket]) -> None:
        for end in pair:
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@contextmanager
def proxy(target: int) -> Iterator[Proxy]:
    running = Proxy(target)
    try:
        yield running
    finally:
        running.close()


@contextmanager
def full_disk(processes: Iterable[int], limit: int) -> Iterator[None]:
    """No file of these processes grows beyond a limit: the system refuses such a write as it does on a full disk.

    That needs no rights, and no disk that others use is full.
    """
    for pid in processes:
        psutil.Process(pid).rlimit(psutil.RLIMIT_FSIZE, (limit, psutil.RLIM_INFINITY))
    try:
        yield
    finally:
        for pid in processes:
            with suppress(psutil.NoSuchProcess):
                psutil.Process(pid).rlimit(psutil.RLIMIT_FSIZE, (psutil.RLIM_INFINITY, psutil.RLIM_INFINITY))

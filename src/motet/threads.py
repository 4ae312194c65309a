"""Threads: work divided over the cores, and how many threads BLAS may have beside it."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ContextDecorator, contextmanager
from contextvars import ContextVar
from functools import lru_cache
from threading import Lock
from typing import TypeAlias, TypeVar

from threadpoolctl import ThreadpoolController

from motet.arrays import slices
from motet.errors import InvalidData

Item = TypeVar("Item")
Result = TypeVar("Result")


def on_all_cores(work: Callable[[slice], None], m: int, step: int) -> None:
    """Call ``work`` on slices of ``step`` of the numbers below ``m``, in threads: numpy releases the interpreter."""
    parts = slices(m, step)
    if len(parts) < 2 or _on_one_core.get():
        for part in parts:
            work(part)
        return
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(work, parts))


_on_one_core: ContextVar[bool] = ContextVar("on_one_core", default=False)


@contextmanager
def one_core() -> Iterator[None]:
    """Work is not divided in this context, because other processes have the other cores."""
    _on_one_core.set(True)
    try:
        yield
    finally:
        _on_one_core.set(False)


SetThreads: TypeAlias = Callable[[int], object]


class BlasLimit(ContextDecorator):
    """At most one BLAS thread, or ``MOTET_BLAS_THREADS``, while this context is open; then as many as before.

    numpy and scipy each bring a BLAS with a pool of threads of its own, and the two compete for the same cores: any
    call, also a small one, takes a multiple of its time. The number of threads belongs to the whole process. So whoever
    opens the context first lowers it and whoever closes it last restores it, in whichever threads they are.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._open = 0
        self._before: list[tuple[SetThreads, int]] = []

    def __enter__(self) -> None:
        limit = _thread_limit()
        with self._lock:
            self._open += 1
            if self._open == 1 and limit is not None:
                threads = [(set_threads, get_threads()) for get_threads, set_threads in _blas_libraries()]
                self._before = [(set_threads, n) for set_threads, n in threads if n > limit]
                for set_threads, _ in self._before:
                    set_threads(limit)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._open -= 1
            if not self._open:
                self._restore()

    def _restore(self) -> None:
        for set_threads, n in self._before:
            set_threads(n)
        self._before = []

    def reset(self) -> None:
        """In a forked process: the threads that had opened contexts do not exist there."""
        self._lock, self._open = Lock(), 0
        self._restore()


blas_limit = BlasLimit()  # ``with blas_limit:`` or ``@blas_limit``; it costs 10 µs, nested 3 µs
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=blas_limit.reset)


@lru_cache(maxsize=1)
def _blas_libraries() -> list[tuple[Callable[[], int], SetThreads]]:
    """For each BLAS in this process, how to read and how to set its number of threads.

    OpenBLAS is called directly: threadpoolctl lets only one thread of a process set it, the first that tries.
    """
    libraries = []
    for library in ThreadpoolController().select(user_api="blas").lib_controllers:
        names = (f"{a}openblas_set_num_threads{b}" for a in ("", "scipy_") for b in ("", "64_", "_64"))
        direct = (getattr(library.dynlib, name) for name in names if hasattr(library.dynlib, name))
        libraries.append((library.get_num_threads, next(direct, library.set_num_threads)))
    return libraries


def _thread_limit() -> int | None:
    """The environment variable MOTET_BLAS_THREADS: a number, 1 by default; None for "all"."""
    value = os.environ.get("MOTET_BLAS_THREADS", "1")
    if value == "all":
        return None
    if not value.isdecimal() or int(value) < 1:
        raise InvalidData(f"MOTET_BLAS_THREADS must be a whole number from 1, or all, got {value!r:.20}")
    return int(value)


def ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The same items, the next one made while the last is worked on."""
    with ThreadPoolExecutor(1) as thread:
        following = thread.submit(next, items, None)
        while (item := following.result()) is not None:
            following = thread.submit(next, items, None)
            yield item


def overlapped(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """``map``, with two items under way at a time."""
    under_way = deque[Future[Result]]()
    with ThreadPoolExecutor(2) as threads:
        for item in items:
            under_way.append(threads.submit(function, item))
            if len(under_way) > 1:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()

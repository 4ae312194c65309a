"""What may not happen while a case is read: an error that is not ours, a hang, much memory.

A case takes at most ``CASE_SECONDS`` and ``CASE_BYTES``. Memory is the most that the process has had during the case,
as Linux counts it; elsewhere it is not measured.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from motet.errors import MotetError

CASE_SECONDS = 60.0  # of a machine that is busy
CASE_BYTES = 2**27
STATUS, CLEAR_PEAK = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def accepts(read: Callable[[Any], object], case: Any) -> bool:
    """Whether a reader takes the case; it may refuse with an error of ours that says why."""
    try:
        return read(case) is not False
    except MotetError as error:
        if not str(error).strip():
            raise AssertionError("a refusal without a reason") from error
        return False


@contextmanager
def bounded() -> Iterator[None]:
    """Fails if what is done inside takes too long, or too much memory."""
    before = _memory()["VmRSS"]
    _clear_peak()
    previous = signal.signal(signal.SIGALRM, _hang)
    signal.setitimer(signal.ITIMER_REAL, CASE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    extra = _memory()["VmHWM"] - before
    assert extra <= CASE_BYTES, f"a case took {extra / 2**20:.0f} MB of memory"


def resident_bytes() -> int:
    return _memory()["VmRSS"]


def _hang(*_: object) -> None:
    raise AssertionError(f"a case took more than {CASE_SECONDS:g} s")


def _memory() -> dict[str, int]:
    """The memory of this process now (VmRSS) and its peak (VmHWM), in bytes."""
    memory = {"VmRSS": 0, "VmHWM": 0}
    if STATUS.exists():
        for line in STATUS.read_text(encoding="ascii").splitlines():
            name, _, value = line.partition(":")
            if name in memory:
                memory[name] = 1024 * int(value.split()[0])
    return memory


def _clear_peak() -> None:
    if CLEAR_PEAK.exists():
        CLEAR_PEAK.write_text("5", encoding="ascii")

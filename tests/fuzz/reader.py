"""What a target is: cases, and what reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from motet import Disclosed


class Reader(NamedTuple):
    """``read`` raises a MotetError or returns False if it refuses a case. It takes each of ``valid``."""

    cases: st.SearchStrategy[Any]
    read: Callable[[Any], object]
    valid: Sequence[Any]


Open = Callable[[Path], AbstractContextManager[Reader]]  # in an empty folder


def opened(make: Callable[[Path], Reader]) -> Open:
    """For a reader that has nothing to close."""

    @contextmanager
    def open(folder: Path) -> Iterator[Reader]:
        yield make(folder)

    return open


def use(release: Disclosed) -> None:
    """What a client does with a release; numbers that overflow are the release's fault, and no error."""
    with np.errstate(all="ignore"):
        X = release.inputs[:2] if len(release.inputs) else np.zeros((1, release.dimension))
        release.average(X, return_std=True)
        release.estimate(X, np.ones(len(X))).predict(X, return_std=True)

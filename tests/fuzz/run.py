"""Runs so many cases of a target: each is read within its bounds, and memory does not grow with their number."""

from __future__ import annotations

import gc
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import HypothesisWarning

from tests.fuzz.bounds import accepts, bounded, resident_bytes
from tests.fuzz.reader import Reader
from tests.fuzz.targets import TARGETS

CASES_PER_ROUND = 2000  # hypothesis keeps what it has tried; each round also begins with new files and servers
GROWTH_BYTES = 2**28  # from the first round to the last
MEMORY = Path("/dev/shm")  # a file system without a disk, where there is one: what is durable is not the question here


class Outcome(NamedTuple):
    cases: int
    accepted: int
    seconds: float  # of the processor
    growth: int  # bytes


def run(name: str, cases: int, first_seed: int, *, shrink: bool = False) -> Outcome:
    """At least so many cases, in rounds with seeds that follow each other; raises what hypothesis raises.

    With ``shrink`` a failing case is made small first, which takes up to five minutes.
    """
    done = accepted = number = 0
    first_bytes, begin = 0, time.process_time()
    while done < cases:
        place = MEMORY if MEMORY.is_dir() else None
        with tempfile.TemporaryDirectory(dir=place) as folder, TARGETS[name].open(Path(folder)) as reader:
            counts = run_round(reader, min(CASES_PER_ROUND, cases - done), first_seed + number, shrink=shrink)
        done, accepted, number = done + sum(counts.values()), accepted + counts[True], number + 1
        gc.collect()
        first_bytes = first_bytes or resident_bytes()
        assert resident_bytes() - first_bytes <= GROWTH_BYTES, f"memory grew in {done} cases"
    return Outcome(done, accepted, time.process_time() - begin, resident_bytes() - first_bytes)


def run_round(reader: Reader, cases: int, number: int, *, shrink: bool) -> dict[bool, int]:
    """How many were refused and accepted; what is valid is accepted first."""
    for case in reader.valid:
        assert accepts(reader.read, case), f"refused, but valid: {case!r:.2000}"
    counts = {False: 0, True: 0}
    phases = [Phase.generate, *([Phase.shrink] if shrink else [])]

    @seed(number)
    @settings(max_examples=cases, database=None, phases=phases, suppress_health_check=list(HealthCheck))
    @given(reader.cases)
    def read(case: Any) -> None:
        with bounded():
            counts[accepts(reader.read, case)] += 1

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", HypothesisWarning)  # a case may be long
        read()
    return counts

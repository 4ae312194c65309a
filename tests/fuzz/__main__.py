"""``make fuzz``: many cases of every target, each target in a process of its own, so that a crash is a finding too.

Prints a row for each target, and for a failure how to have it again; ends with 1 if there was one.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time

from tests.fuzz.run import run
from tests.fuzz.targets import TARGETS

SECONDS_PER_CASE = 0.5  # after which, on average, a target is ended
START_SECONDS = 600.0


def one_target(name: str, cases: int, seed: int, *, shrink: bool) -> None:
    done = run(name, cases, seed, shrink=shrink)
    print(
        f"{name:24} {done.cases:8,} cases {done.accepted:8,} accepted {done.seconds:7.0f} s of CPU "
        f"{done.growth / 2**20:6.0f} MB more",
        flush=True,
    )


def all_targets(cases: int, seed: int) -> int:
    print(f"{cases:,} cases from seed {seed}", flush=True)
    begin, failed = time.monotonic(), []
    for name, target in TARGETS.items():
        share = max(1, round(cases * target.share))
        command = [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz", "--only", name]
        command += ["--cases", str(share), "--seed", str(seed)]
        try:
            code = subprocess.run(command, check=False, timeout=START_SECONDS + SECONDS_PER_CASE * share).returncode
        except subprocess.TimeoutExpired:
            code = 124
        if code:
            failed.append(name)
            print(
                f"{name}: ended with {code}; again: python -m tests.fuzz {' '.join(map(repr, command[5:]))}", flush=True
            )
    print(
        f"{len(failed)} of {len(TARGETS)} targets failed, in {(time.monotonic() - begin) / 60:.1f} minutes", flush=True
    )
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--cases", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--only", choices=TARGETS)
    parser.add_argument("--shrink", action="store_true", help="make a failing case small")
    chosen = parser.parse_args()
    if chosen.only is None:
        return all_targets(chosen.cases, chosen.seed)
    one_target(chosen.only, chosen.cases, chosen.seed, shrink=chosen.shrink)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""``python -m experiments.privacy_utility [--seeds N] [--users N] [--quick]``: what privacy costs on the music study.

Measures the share of the gain of sharing without noise that private releases keep, and how often their bands contain
the truth; prints both, and writes PRIVACY.md and the figure of the docs. Data are seeded, noise is not.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TypeAlias

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from threadpoolctl import threadpool_limits

from experiments import tables
from experiments.study import (
    CHOSEN,
    EXAMPLES,
    RELEASES,
    SIMULATION,
    Bools,
    Setting,
    Study,
    artists,
    estimates,
    last_of_ten,
    learned,
    mechanism,
    ratings,
    skewed,
)
from motet import Disclosed
from motet.music.simulation import Listeners, simulate
from motet.privacy.ledger import Ledger
from motet.privacy.mechanism import Mechanism, release

RESULTS = Path(__file__).parent / "PRIVACY.md"
WORKERS = 2
BAND_LISTENERS = 200  # whose bands are measured: this many in the release, and this many who are not
BAND_WIDTH = 1.645  # standard deviations on either side of a 90 % band

Measurements: TypeAlias = list[tuple[tables.Key, float]]
Job: TypeAlias = Callable[[], Measurements]


@dataclass(frozen=True)
class Extent:
    """The number of simulations and settings to measure."""

    seeds: int
    users: int
    grid_users: tuple[int, ...] = (1_000, 3_000, 10_000)
    ranks: tuple[int, ...] = (20, 40, 80, 120)
    epsilons: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0)

    def jobs(self) -> list[Job]:
        """Longest first, so that the cores end together."""
        seeds = range(self.seeds)
        shares = [partial(grid, seed, users, self) for users in sorted(self.grid_users, reverse=True) for seed in seeds]
        robust = [partial(robustness, seed, self.users) for seed in seeds]
        return [*shares, *robust, *(partial(calibration, seed, self.users) for seed in seeds)]


# --- measurements for one seed ---


def grid(seed: int, users: int, extent: Extent) -> Measurements:
    """Shares over ε and rank."""
    study = Study.of(simulate(artists(), users, EXAMPLES, seed))
    measurements: Measurements = []
    for rank in extent.ranks:
        public = mechanism(rank=rank)
        engine = learned(public.model, study.listeners)
        for epsilon in extent.epsilons:
            disclosed = release(engine, public, Ledger(epsilon=epsilon)).disclosed
            measurements.append((("grid", epsilon, users, rank), study.share(disclosed)))
    return measurements


def robustness(seed: int, users: int) -> Measurements:
    """The three goals, as they are and with a study file that is wrong about its listeners."""
    plain = simulate(artists(), users, EXAMPLES, seed)
    study, popular = Study.of(plain), Study.of(skewed(plain, seed))
    cases = {
        tables.PLAIN: (study, mechanism()),
        "Zipf-skewed choice of artists": (popular, mechanism()),
        "Zipf-skewed choice, rank 40": (popular, mechanism(rank=40)),
        "C_η three times too large": (study, mechanism(factor=3.0)),
        "C_η three times too small": (study, mechanism(factor=1 / 3)),
        "α, σ², λ of the simulation": (Study.of(plain, SIMULATION), mechanism(SIMULATION)),
    }
    return [((name, goal), share) for name, case in cases.items() for goal, share in zip(tables.GOALS, goals(*case))]


def goals(study: Study, public: Mechanism) -> Iterable[float]:
    """Shares at ε = 3, at ε = 1, and in the last of ten releases under a total ε of 3."""
    engine = learned(public.model, study.listeners)
    for epsilon in (3.0, 1.0):
        yield study.share(release(engine, public, Ledger(epsilon=epsilon)).disclosed)
    yield study.share(last_of_ten(public, study.listeners, 3.0))


def calibration(seed: int, users: int) -> Measurements:
    """How much of the truth is inside 90 % bands, for the settings in use and for those of the simulation."""
    listeners = simulate(artists(), users + BAND_LISTENERS, EXAMPLES, seed)
    inside = listeners.user < users
    measurements: Measurements = []
    for name, setting in zip(tables.SETTINGS, (CHOSEN, SIMULATION)):
        for release_name, disclosed in releases(setting, listeners, inside):
            for who, fraction in covered(disclosed, listeners, users).items():
                measurements.append((("bands", name, release_name, who), fraction))
    return measurements


def releases(setting: Setting, listeners: Listeners, which: Bools) -> Iterable[tuple[str, Disclosed]]:
    yield tables.WITHOUT_NOISE, learned(setting.model(rank=None), listeners, which).disclose()
    public = mechanism(setting)
    engine = learned(public.model, listeners, which)
    for epsilon in (3.0, 1.0):
        yield f"ε = {epsilon:g}", release(engine, public, Ledger(epsilon=epsilon)).disclosed


def covered(disclosed: Disclosed, listeners: Listeners, users: int) -> dict[str, float]:
    """The fraction of true values inside the bands of new listeners, of active ones, and of the average."""
    groups = {tables.PASSIVE: np.arange(users, users + BAND_LISTENERS)}
    if disclosed.policy == "private":  # a release without noise returns an active listener its own ratings
        groups[tables.ACTIVE] = np.arange(min(BAND_LISTENERS, users))
    artist, rating = ratings(listeners)
    fractions = {}
    for name, who in groups.items():
        mean, std = estimates(disclosed, artist[who], rating[who])
        fractions[name] = float(np.mean(np.abs(mean - listeners.tastes[who]) <= BAND_WIDTH * std))
    mean, std = disclosed.average(artists().rows, return_std=True)
    fractions[tables.AVERAGE] = float(np.mean(np.abs(mean - 0.25 * listeners.average) <= BAND_WIDTH * std))
    return fractions


# --- all of it ---


def measured(jobs: list[Job], console: Console) -> tables.Measured:
    """Every job on one of the cores, one BLAS thread each."""
    values: tables.Measured = {}
    columns = (
        TextColumn("privacy and utility"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    start = get_context("spawn")
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=len(jobs))
        with ProcessPoolExecutor(WORKERS, mp_context=start, initializer=threadpool_limits, initargs=(1,)) as pool:
            for done in as_completed([pool.submit(job) for job in jobs]):
                for key, value in done.result():
                    values.setdefault(key, []).append(value)
                progress.advance(task)
    return values


def main() -> None:
    parser = argparse.ArgumentParser(prog="experiments.privacy_utility", description="What privacy costs.")
    parser.add_argument("--seeds", type=int, default=10, help="simulated studies (default 10)")
    parser.add_argument("--users", type=int, default=3_000, help="listeners, where they are not varied (default 3000)")
    parser.add_argument("--quick", action="store_true", help="two seeds and a small grid; nothing is written")
    chosen = parser.parse_args()
    if chosen.seeds < 1 or chosen.users < RELEASES:
        parser.error(f"expected at least 1 seed and {RELEASES} users, got {chosen.seeds} and {chosen.users}")
    extent = Extent(chosen.seeds, chosen.users)
    if chosen.quick:
        extent = Extent(2, chosen.users, grid_users=(1_000,), ranks=(40, 80), epsilons=(1.0, 3.0))
    console = Console()
    values = measured(extent.jobs(), console)
    shown = tables.all_tables(values, users=extent.users)
    for one in shown:
        console.print(one.rich())
    if not chosen.quick:
        from experiments.figure import draw

        RESULTS.write_text(tables.markdown(shown, extent.seeds), encoding="utf-8")
        draw(values)


if __name__ == "__main__":
    main()

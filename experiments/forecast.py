"""``python -m experiments.forecast [--rounds N] [--only NAME] …``: forecasts of error and coverage, and what happens.

Ten studies, over ε, clients and rank. Each is drawn from its prior, clients send, the real mechanism releases, and
other clients predict; seeds follow until the mean is known well enough. Prints the ratios of forecasts to what
happened, with standard errors, and writes FORECAST.md.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

from experiments.tables import Table, mean_and_error
from motet import Catalogue, Disclosed, Eigen, Features, Landmarks, Model
from motet.arrays import Array
from motet.kernels import RBF, ConstantKernel, DotProduct, Identity, Linear, Matern, RationalQuadratic
from motet.model.basis import BasisSpec
from motet.music import simulation as music
from motet.privacy.forecast import ClippedPopulation, Forecast, mean_forecast
from motet.privacy.ledger import UNIT, Integers, Ledger
from motet.privacy.mechanism import Mechanism
from motet.privacy.population import Population
from motet.privacy.simulation import SimulatedStudy, World
from motet.privacy.truths import Truths

RESULTS = Path(__file__).parent / "FORECAST.md"
EPSILONS, CLIENTS = (0.5, 1.0, 3.0, 10.0), (50, 150, 1000)
RELEASES, JOINING = 5, 1000  # of one budget, while so many clients join
GOAL = 0.10
COUNTS = (2, 3, 5, 7, 8, 9, 12, 20)  # values of a client
PRECISION = 0.02  # standard error of an error, as a share of it
SEEDS_PER_ROUND, MIN_ROUNDS, MAX_ROUNDS, NOISES, OTHERS = 8, 25, 100, 2, 16
ERRORS = {"observation": "new observations", "function": "a client's function", "average": "the average"}


@dataclass(frozen=True, eq=False)
class Case:
    """A study, other bases that it might have, and inputs that clients have."""

    name: str
    model: Model
    examples: int | Sequence[int]
    others: Sequence[BasisSpec] = ()
    points: Array | None = None

    def models(self) -> list[Model]:
        return [self.model, *(replace(self.model, basis=basis) for basis in self.others)]

    def mechanism(self, model: Model) -> Mechanism:
        points = None if model.public_points is not None else self.points
        return Mechanism(model, examples=int(np.median(self.examples)), points=points)


def _between(low: float, high: float, dimension: int = 1, n: int = 300) -> Array:
    return np.random.default_rng(1).uniform(low, high, size=(n, dimension))


def _grid(low: float, high: float, n: int) -> Landmarks:
    return Landmarks(np.linspace(low, high, n)[:, None])


def cases() -> list[Case]:
    artists, rng = music.artists(), np.random.default_rng(0)
    items = Catalogue([f"item {k}" for k in range(100)], rng.normal(size=(100, 3)))
    names = Catalogue([f"name {k}" for k in range(30)])
    square = np.stack(np.meshgrid(*[np.linspace(0.0, 1.0, 6)] * 2), axis=-1).reshape(-1, 2)
    columns = rng.normal(size=(200, 4))
    taste = Model(music.COMMON, music.INDIVIDUAL, 0.1, 1.6e-4, "none", Eigen(artists, 40), 0.625, artists)
    level = ConstantKernel(0.3) + RBF(1.5)
    rated = Model(RBF(1.5), level, 0.5, 0.5, "constant", Eigen(items, 20), 1.0, items)
    named = Model(Identity(), ConstantKernel(0.5) + Identity(), 0.3, 0.4, "constant", Eigen(names, 30), 1.5, names)
    curves = Model(Matern(2.0), RBF(2.0), 0.5, 0.1, "constant", _grid(0, 10, 12), 1.3)
    slopes = Model(RBF(0.5), Linear([[1.0, 0.3], [0.3, 0.5]]), 0.4, 0.3, "linear", _grid(-1, 1, 8), 2.0)
    linear = Model(DotProduct(1.0), DotProduct(0.5), 0.5, 0.2, "none", Features(), 0.5)
    mean = Model(None, ConstantKernel(1.0) + RBF(1.0), 0.0, 0.5, "constant", None, 0.5)
    surface = Model(RBF(0.4), ConstantKernel(0.5) + RBF(0.8), 0.6, 0.2, "constant", Landmarks(square), 4.0)
    glucose = Model(RBF(2.0), ConstantKernel(1.0) + RBF(4.0), 0.3, 0.4, "constant", _grid(0, 14, 10), 400.0)
    noisy = Model(RationalQuadratic(1.0, 1.0), RBF(1.0), 0.7, 3.0, "none", _grid(0, 5, 10), 0.2)
    return [
        Case("489 artists, 5 ratings", taste, 5, [Eigen(artists, r) for r in (10, 80)]),
        Case("100 items with features, 10 ratings", rated, 10, [Eigen(items, r) for r in (8, 50)]),
        Case("30 names, 8 ratings", named, 8, [Eigen(names, r) for r in (8, 15)]),
        Case("curves, Matérn", curves, 6, [_grid(0, 10, n) for n in (6, 24)], _between(0, 10)),
        Case("lines and a smooth average", slopes, 8, [_grid(-1, 1, n) for n in (4, 16)], _between(-1, 1)),
        Case("4 columns, linear", linear, 6, [Eigen(columns, r) for r in (1, 2)], columns),
        Case("a mean alone", mean, 6, (), _between(0, 10)),
        Case("a surface, 2 columns", surface, 12, [Landmarks(square[::3]), Landmarks(square[::2])], _between(0, 1, 2)),
        Case("glucose, 2 to 20 values", glucose, COUNTS, [_grid(0, 14, n) for n in (5, 20)], _between(0, 14)),
        Case("much noise, 25 values", noisy, 25, [_grid(0, 5, n) for n in (5, 20)], _between(0, 5)),
    ]


# --- what happens ---


@dataclass(frozen=True)
class Setting:
    epsilon: float
    clients: int
    releases: int = 1  # while clients join, the same number at each

    @property
    def ledger(self) -> Ledger:
        return Ledger(epsilon=self.epsilon, releases=self.releases)

    @property
    def sizes(self) -> list[int]:
        """Clients at each release."""
        return [self.clients * (k + 1) // self.releases for k in range(self.releases)]

    def __str__(self) -> str:
        return f"{self.epsilon:g}" + (f", last of {self.releases}" if self.releases > 1 else "")


@dataclass(frozen=True)
class Happened:
    """What happened in one setting, a ``Forecast`` for each round of seeds."""

    rounds: list[Forecast] = field(default_factory=list)

    @property
    def mean(self) -> Forecast:
        return mean_forecast(self.rounds)

    def standard_error(self, error: str) -> float:
        """Of the root mean square of an error, as a share of it."""
        mean, deviation = mean_and_error([getattr(one, error) ** 2 for one in self.rounds])
        return deviation / mean / 2

    @property
    def is_precise(self) -> bool:
        """Whether all errors are known well enough; the forecast plays no part in that."""
        return len(self.rounds) >= MIN_ROUNDS and all(self.standard_error(error) <= PRECISION for error in ERRORS)


def happen(case: Case, mechanism: Mechanism, settings: Sequence[Setting], rounds: int) -> dict[Setting, Happened]:
    """Simulated studies, until every setting is precise, or there were that many rounds of them."""
    world, happened = World(mechanism.clip.coordinates, case.examples, case.points), {s: Happened() for s in settings}
    for clients, number in product(dict.fromkeys(setting.clients for setting in settings), range(rounds)):
        those = [setting for setting in settings if setting.clients == clients]
        if not (missing := [s for s in those if not happened[s].is_precise]):
            continue
        truths = Truths.draw(mechanism.clip, SEEDS_PER_ROUND, np.random.default_rng([number, clients]))
        measured: list[list[Forecast]] = [[] for _ in missing]
        for seed, theta in enumerate(truths.theta, start=SEEDS_PER_ROUND * number):
            study = SimulatedStudy(world, clients, seed=seed, theta=theta, others=OTHERS)
            for seeds, made in zip(measured, releases(study, mechanism, missing, seed)):
                seeds.append(errors_of(study, made))
        for setting, seeds in zip(missing, measured):
            happened[setting].rounds.append(mean_forecast(seeds, truths.weights))
    return happened


def releases(
    study: SimulatedStudy, mechanism: Mechanism, settings: Sequence[Setting], seed: int
) -> Iterator[list[Disclosed]]:
    """The last release of each setting, with several draws of the noise; sums of all clients are computed once."""

    @cache
    def total(begin: int, end: int) -> Integers:
        return study.total(mechanism.clip, slice(begin, end))

    for setting in settings:
        scale, sizes = setting.ledger.scale, [0, *setting.sizes]
        totals = np.cumsum([total(*joined) for joined in pairwise(sizes)], axis=0)
        rng = np.random.default_rng([seed, setting.releases, int(1000 * setting.epsilon)])
        noisy = ([rounded_gaussian(rng, one, scale * UNIT) for one in totals] for _ in range(NOISES))
        yield [mechanism.disclose(sums, scale=scale, version=len(sums)) for sums in noisy]


def errors_of(study: SimulatedStudy, made: Sequence[Disclosed]) -> Forecast:
    """Clients are predicted from the first of the releases, which is enough of these; the average is from all."""
    first, averages = study.measure(made[0]), [study.average_error(release) for release in made]
    return replace(first, average=float(np.sqrt(np.mean(np.square(averages)))))


def rounded_gaussian(rng: np.random.Generator, total: Integers, deviation: float) -> Integers:
    """Seeded noise, for simulated clients, who need no privacy; OpenDP's differs from it in nothing that shows."""
    return total + np.rint(deviation * rng.normal(size=len(total))).astype(np.int64)


# --- what was forecast ---


@dataclass(frozen=True)
class Outcome:
    """A forecast beside what happened."""

    case: str
    basis: str
    setting: Setting
    forecast: Forecast
    happened: Happened

    def ratio(self, error: str) -> float:
        return float(getattr(self.forecast, error) / getattr(self.happened.mean, error))

    def shown(self, error: str) -> str:
        """The ratio, and the standard error of what happened."""
        return f"{self.ratio(error):.3f} ± {self.happened.standard_error(error):.3f}"

    @property
    def coverage(self) -> float:
        """Forecast less what happened, in points."""
        return 100 * (self.forecast.coverage - self.happened.mean.coverage)


def outcomes(case: Case, settings: Sequence[Setting], rounds: int, record: Record) -> Iterator[Outcome]:
    for model in case.models():
        basis = "the bias" if model.basis is None else repr(model.basis)
        kept = record.read(f"{case.name}, {basis}")
        missing = [setting for setting in settings if setting not in kept]
        if missing:
            mechanism = case.mechanism(model)
            population = Population.draw(mechanism.clip.coordinates, case.examples, case.points)
            clipped = ClippedPopulation(population, mechanism.clip)
            forecasts = {setting: clipped.forecast(setting.sizes, setting.ledger.scale) for setting in missing}
            happened = happen(case, mechanism, missing, rounds)
            kept |= {setting: (forecasts[setting], happened[setting]) for setting in missing}
            record.write(f"{case.name}, {basis}", kept)
        for setting in settings:
            yield Outcome(case.name, basis, setting, *kept[setting])


@dataclass(frozen=True)
class Record:
    """Forecasts and what happened, in a file: studies can be run one by one, and shown together."""

    path: Path | None

    def read(self, name: str) -> dict[Setting, tuple[Forecast, Happened]]:
        found = {}
        for setting, forecast, rounds in self._kept.get(name, []):
            found[Setting(*setting)] = Forecast(**forecast), Happened([Forecast(**one) for one in rounds])
        return found

    def write(self, name: str, outcomes: dict[Setting, tuple[Forecast, Happened]]) -> None:
        if self.path is not None:
            rows = [(astuple(s), asdict(f), [asdict(one) for one in h.rounds]) for s, (f, h) in outcomes.items()]
            self.path.write_text(json.dumps({**self._kept, name: rows}), encoding="utf-8")

    @property
    def _kept(self) -> dict[str, Any]:
        return json.loads(self.path.read_text("utf-8")) if self.path is not None and self.path.exists() else {}


# --- tables ---


def worst(found: Sequence[Outcome], error: str) -> Outcome:
    return max(found, key=lambda one: abs(np.log(one.ratio(error))))


def summary(found: Sequence[Outcome]) -> Table:
    rows = []
    for name in dict.fromkeys(one.case for one in found):
        those = [one for one in found if one.case == name]
        off = max((one.coverage for one in those), key=abs)
        met = all(abs(np.log(one.ratio(error))) <= np.log1p(GOAL) for one in those for error in ERRORS)
        shown = [worst(those, error).shown(error) for error in ERRORS]
        rows.append((name, str(len(those)), *shown, f"{off:+.1f}", "yes" if met else "no"))
    caption = (
        "The worst ratio of a forecast error to the one that happened, over all settings, ± the standard error of it."
    )
    return Table(caption, ("study", "settings", *ERRORS.values(), "coverage, points", "met"), rows)


def by_setting(found: Sequence[Outcome]) -> Table:
    """Where the forecast of the average, the hardest, is worst."""
    epsilons = list(dict.fromkeys(str(one.setting) for one in found))
    rows = []
    for clients in dict.fromkeys(one.setting.clients for one in found):
        cells = [[one for one in found if (one.setting.clients, str(one.setting)) == (clients, e)] for e in epsilons]
        rows.append((f"{clients:,}", *(worst(cell, "average").shown("average") if cell else "" for cell in cells)))
    caption = "The average: the worst ratio over all studies and bases, by clients and ε."
    return Table(caption, ("clients", *(f"ε = {epsilon}" for epsilon in epsilons)), rows)


def in_numbers(found: Sequence[Outcome]) -> Table:
    """A part of the first study."""
    rows = []
    for one in found:
        if (one.case, one.basis) == (found[0].case, found[0].basis):
            mean, e = one.happened.mean, one.forecast
            pairs = [f"{getattr(e, name):.3f} / {getattr(mean, name):.3f}" for name in ERRORS]
            bands = f"{100 * e.coverage:.1f} / {100 * mean.coverage:.1f}"
            rows.append((str(one.setting), f"{one.setting.clients:,}", *pairs, bands))
    caption = f"{found[0].case}, {found[0].basis}: forecast / what happened."
    return Table(caption, ("ε", "clients", *ERRORS.values(), "coverage, %"), rows)


def all_settings(found: Sequence[Outcome]) -> Iterator[Table]:
    """Every setting of every study."""
    for name in dict.fromkeys(one.case for one in found):
        rows = [
            (
                one.basis,
                f"{one.setting.clients:,}",
                str(one.setting),
                *map(one.shown, ERRORS),
                f"{one.coverage:+.1f}",
                str(SEEDS_PER_ROUND * len(one.happened.rounds)),
            )
            for one in found
            if one.case == name
        ]
        yield Table(f"{name}.", ("basis", "clients", "ε", *ERRORS.values(), "coverage, points", "seeds"), rows)


def markdown(found: Sequence[Outcome], rounds: int) -> str:
    epsilons, clients = (sorted({getattr(one.setting, key) for one in found}) for key in ("epsilon", "clients"))
    joining = f"; also the last of {RELEASES} releases under a total ε of 3, while {JOINING} clients join"
    largest = max(one.happened.standard_error(error) for one in found for error in ERRORS)
    text = (
        "Root mean squared errors of predictions for clients who are not in the release, at new inputs, and of the "
        f"average; coverage of 90 % bands of new observations. ε = {', '.join(f'{e:g}' for e in epsilons)}, "
        f"{', '.join(map(str, clients))} clients, and bases of up to three sizes"
        f"{joining if JOINING in clients else ''}. Each seed has a truth and clients of its own, which go through the "
        f"real clip, integers, noise and estimate, with {NOISES} draws of the noise. Seeds come in rounds of "
        f"{SEEDS_PER_ROUND}, at least {MIN_ROUNDS} of them and at most {rounds}, until the standard errors between "
        f"rounds are at most {100 * PRECISION:g} % of each error, whatever the forecast; the largest is "
        f"{100 * largest:.1f} %. Goal: each error within {100 * GOAL:g} %."
    )
    lines = ["# Forecasts", "", "Written by `python -m experiments.forecast`.", ""]
    lines += ["<!-- --8<-- [start:table] -->", "", text, ""]
    for table in (summary(found), by_setting(found), in_numbers(found)):
        lines += table.markdown()
    lines += [
        "<!-- --8<-- [end:table] -->",
        "",
        "## Every setting",
        "",
        "Forecast / what happened, ± standard error.",
        "",
    ]
    for table in all_settings(found):
        lines += table.markdown()
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="experiments.forecast", description="Forecasts against what happens.")
    parser.add_argument("--rounds", type=int, default=MAX_ROUNDS, help=f"of {SEEDS_PER_ROUND} seeds, at most")
    parser.add_argument("--epsilons", type=float, nargs="+", default=EPSILONS)
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS)
    parser.add_argument("--only", default="", help="only studies with this in their name; nothing is written")
    parser.add_argument("--record", type=Path, help="a file of outcomes; those in it are not made again")
    chosen = parser.parse_args()
    settings = [Setting(epsilon, clients) for clients in chosen.clients for epsilon in chosen.epsilons]
    settings += [Setting(3.0, JOINING, RELEASES)] * (JOINING in chosen.clients)
    console, found = Console(), list[Outcome]()
    for case in track([case for case in cases() if chosen.only in case.name], "studies", console=console):
        for one in outcomes(case, settings, chosen.rounds, Record(chosen.record)):
            found.append(one)
            ratios = ", ".join(f"{error} {one.shown(error)}" for error in ERRORS)
            setting = f"ε {one.setting}, {one.setting.clients} clients, {len(one.happened.rounds)} rounds"
            console.print(
                f"{one.case}, {one.basis}, {setting}: {ratios}, coverage {one.coverage:+.1f}", highlight=False
            )
    for table in (summary(found), by_setting(found), in_numbers(found)):
        console.print(table.rich())
    if not chosen.only:
        RESULTS.write_text(markdown(found, chosen.rounds), encoding="utf-8")


if __name__ == "__main__":
    main()

"""``python -m experiments.forecast [--seeds N] [--only NAME] …``: forecasts of error and coverage against what happens.

Ten studies, over ε, clients and rank. Each is drawn from its prior, clients send, the real mechanism releases, and 200
other clients predict; means are over seeds. Prints the worst ratios, and writes FORECAST.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

from experiments.tables import Table
from motet import Catalogue, Disclosed, Eigen, Engine, Features, Landmarks, Model
from motet.arrays import Array
from motet.kernels import RBF, ConstantKernel, DotProduct, Identity, Linear, Matern, RationalQuadratic
from motet.model.basis import BasisSpec
from motet.music import simulation as music
from motet.privacy.forecast import ClippedPopulation, Forecast, mean_forecast, normal_rows
from motet.privacy.ledger import UNIT, Integers, Ledger, opendp_noise
from motet.privacy.mechanism import Mechanism
from motet.privacy.population import Population
from motet.privacy.simulation import SimulatedStudy

RESULTS = Path(__file__).parent / "FORECAST.md"
EPSILONS, CLIENTS = (0.5, 1.0, 3.0, 10.0), (50, 150, 1000, 3000)
RELEASES, JOINING = 5, 1000  # of one budget, while so many clients join
GOAL = 0.10
MIN_SEEDS, DRAWN_NUMBERS = 16, 2500
NOISES = 4  # draws for each simulated study
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
        Case("30 names, 8 ratings", named, 8, [Eigen(names, 15)]),
        Case("curves, Matérn", curves, 6, [_grid(0, 10, n) for n in (6, 24)], _between(0, 10)),
        Case("lines and a smooth average", slopes, 8, [_grid(-1, 1, 4)], _between(-1, 1)),
        Case("4 columns, linear", linear, 6, (), rng.normal(size=(200, 4))),
        Case("a mean alone", mean, 6, (), _between(0, 10)),
        Case("a surface, 2 columns", surface, 12, [Landmarks(square[::2])], _between(0, 1, 2)),
        Case("glucose, 2 to 20 values", glucose, [2, 3, 5, 7, 8, 9, 12, 20], [_grid(0, 14, 5)], _between(0, 14)),
        Case("much noise, 25 values", noisy, 25, [_grid(0, 5, 5)], _between(0, 5)),
    ]


# --- what happens, and what was forecast ---


@dataclass(frozen=True)
class Setting:
    basis: str
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
class Outcome:
    """A forecast beside the mean of what happened."""

    case: str
    setting: Setting
    forecast: Forecast
    happened: Forecast

    def ratio(self, error: str) -> float:
        return float(getattr(self.forecast, error) / getattr(self.happened, error))


def outcomes(
    case: Case, seeds: int, epsilons: Sequence[float] = EPSILONS, clients: Sequence[int] = CLIENTS
) -> Iterator[Outcome]:
    for model in case.models():
        mechanism = case.mechanism(model)
        basis = "the bias" if model.basis is None else repr(model.basis)
        clipped = ClippedPopulation(
            Population.draw(mechanism.clip.coordinates, case.examples, case.points), mechanism.clip
        )
        for m in clients:
            settings = [Setting(basis, epsilon, m) for epsilon in epsilons]
            settings += [Setting(basis, 3.0, m, RELEASES)] * (m == JOINING)
            happened = {setting: list[Forecast]() for setting in settings}
            for study in studies(case, mechanism, m, seeds):
                for setting, (first, *others) in zip(settings, releases(study, mechanism, settings)):
                    one = study.measure(first)
                    errors = [one.average, *map(study.average_error, others)]
                    happened[setting].append(replace(one, average=float(np.sqrt(np.mean(np.square(errors))))))
            for setting, measured in happened.items():
                yield Outcome(
                    case.name, setting, clipped.forecast(setting.sizes, setting.ledger.scale), mean_forecast(measured)
                )


def studies(case: Case, mechanism: Mechanism, clients: int, seeds: int) -> Iterator[SimulatedStudy]:
    """With truths like many draws from the prior, so that few will do; fewer if the average has many numbers."""
    coordinates = mechanism.clip.coordinates
    deviation = np.sqrt(coordinates.sigma2 * coordinates.prior_variance)
    seeds = min(seeds, max(MIN_SEEDS, DRAWN_NUMBERS // len(deviation)))
    truths = deviation * normal_rows(np.random.default_rng(9), seeds, len(deviation))
    for seed, theta in enumerate(truths):
        yield SimulatedStudy(coordinates, clients, case.examples, case.points, seed=100 + seed, theta=theta)


def releases(study: SimulatedStudy, mechanism: Mechanism, settings: Sequence[Setting]) -> Iterator[list[Disclosed]]:
    """The last release of each setting, with several draws of the noise; sums of all clients are computed once."""
    totals: dict[int, Integers] = {}
    for setting in settings:
        for size in setting.sizes:
            if size not in totals:
                engine = Engine(mechanism.model)
                study.learn(engine, slice(size))
                totals[size] = mechanism.clip.total(engine)
        scale = setting.ledger.scale
        noisy = ([opendp_noise(totals[size], scale * UNIT) for size in setting.sizes] for _ in range(NOISES))
        yield [mechanism.disclose(sums, scale=scale, version=len(sums)) for sums in noisy]


# --- tables ---


def tables(found: Sequence[Outcome]) -> list[Table]:
    rows = []
    for name in dict.fromkeys(one.case for one in found):
        those = [one for one in found if one.case == name]
        worst = [max((one.ratio(error) for one in those), key=lambda r: abs(np.log(r))) for error in ERRORS]
        off = max((one.forecast.coverage - one.happened.coverage for one in those), key=abs)
        met = all(abs(np.log(ratio)) <= np.log1p(GOAL) for ratio in worst)
        rows.append((name, str(len(those)), *(f"{r:.3f}" for r in worst), f"{100 * off:+.1f}", "yes" if met else "no"))
    header = ("study", "settings", *ERRORS.values(), "coverage, points", "met")
    summary = Table("The worst ratio of a forecast error to the one that happened, over all settings.", header, rows)
    return [summary, _one_setting(found)]


def _one_setting(found: Sequence[Outcome]) -> Table:
    """A part of the first study, in numbers."""
    rows = []
    for one in found:
        if one.case == found[0].case and one.setting.basis == found[0].setting.basis:
            pairs = [f"{getattr(one.forecast, e):.3f} / {getattr(one.happened, e):.3f}" for e in ERRORS]
            bands = f"{100 * one.forecast.coverage:.1f} / {100 * one.happened.coverage:.1f}"
            rows.append((str(one.setting), f"{one.setting.clients:,}", *pairs, bands))
    caption = f"{found[0].case}, {found[0].setting.basis}: forecast / what happened."
    return Table(caption, ("ε", "clients", *ERRORS.values(), "coverage, %"), rows)


def markdown(shown: Sequence[Table], found: Sequence[Outcome], seeds: int) -> str:
    epsilons, clients = (sorted({getattr(one.setting, key) for one in found}) for key in ("epsilon", "clients"))
    joining = f"; also the last of {RELEASES} releases under a total ε of 3, while {JOINING} clients join"
    text = (
        "Root mean squared errors of predictions for clients who are not in the release, at new inputs, and of the "
        f"average; coverage of 90 % bands of new observations. ε = {', '.join(f'{e:g}' for e in epsilons)}, "
        f"{', '.join(map(str, clients))} clients, and bases of one to three sizes"
        f"{joining if JOINING in clients else ''}. Means of up to {seeds} seeds, each with "
        f"a truth and clients of its own, and {NOISES} draws of the noise. Goal: each error within {100 * GOAL:g} %."
    )
    lines = ["# Forecasts", "", "Written by `python -m experiments.forecast`.", ""]
    lines += ["<!-- --8<-- [start:table] -->", "", text, ""]
    for table in shown:
        lines += table.markdown()
    return "\n".join([*lines, "<!-- --8<-- [end:table] -->"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="experiments.forecast", description="Forecasts against what happens.")
    parser.add_argument("--seeds", type=int, default=100, help="simulations of each study (default 100)")
    parser.add_argument("--epsilons", type=float, nargs="+", default=EPSILONS)
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS)
    parser.add_argument("--only", default="", help="only studies with this in their name; nothing is written")
    chosen = parser.parse_args()
    console, found = Console(), list[Outcome]()
    for case in track([case for case in cases() if chosen.only in case.name], "studies", console=console):
        for one in outcomes(case, chosen.seeds, chosen.epsilons, chosen.clients):
            found.append(one)
            ratios = ", ".join(f"{error} {one.ratio(error):.3f}" for error in ERRORS)
            setting = one.setting
            console.print(f"{one.case}, {setting.basis}, ε {setting}, {setting.clients}: {ratios}", highlight=False)
    shown = tables(found)
    for table in shown:
        console.print(table.rich())
    if not chosen.only:
        RESULTS.write_text(markdown(shown, found, chosen.seeds), encoding="utf-8")


if __name__ == "__main__":
    main()

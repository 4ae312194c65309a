"""What a study will give its clients: the error and coverage to expect of it, and with another ε, more clients, or
another rank.

Everything here is forecast from the study file, and from how many examples clients have and at which inputs; nobody's
outputs are used. ``motet check`` prints it before a study begins. While it runs, ``motet status`` does, from what the
server shows anyone and from the operator's own figures: numbers of examples, and the share of shortened clients.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from motet.arrays import Array, distinct
from motet.engine.engine import Engine
from motet.errors import InvalidModel
from motet.model.basis import Landmarks
from motet.model.model import Model
from motet.planning.evaluation import seeded_noise
from motet.privacy.coordinates import Coordinates
from motet.privacy.forecast import ClippedPopulation, Forecast, alone, mean_forecast, without_noise
from motet.privacy.ledger import MAX_EPSILON, UNIT, Ledger
from motet.privacy.mechanism import Mechanism
from motet.privacy.population import Population
from motet.privacy.simulation import SimulatedStudy, World
from motet.privacy.truths import Truths
from motet.release.disclosed import Disclosed
from motet.study.points import public_inputs
from motet.study.study import Study
from motet.text import count

MAX_LANDMARKS = 120  # in the place of a growing basis
MAX_SIMULATIONS = 20
CLIENT_NUMBERS = (50, 150, 500, 1500, 5000)  # if nobody says how many are expected
MAX_SIMULATED_EXAMPLES = 100_000  # of one simulation
GOOD_SHARE, POOR_SHARE = 0.75, 0.35  # of the gain of sharing, which the noise leaves
CURVE_POINTS, EPSILON_FACTORS = 7, (1 / 3, 1.0, 3.0)
SMALL_SAVING = 0.02  # of the error, which sharing without noise saves


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """What a forecast needs of a study. ``inputs`` are such as clients have; ``points`` those that bounds come from.

    ``examples`` is how many the clip expects of a client, ``ledger`` the whole budget, None without noise.
    """

    model: Model
    ledger: Ledger | None
    inputs: Array
    points: Array | None = None
    examples: int = 5
    center: float = 0.0

    @classmethod
    def of(cls, study: Study, inputs: Array | None = None, sigma2: float | None = None) -> Plan:
        """Of a study file; ``inputs`` such as clients have, else public ones, and a σ² if the file has none."""
        release = study.release
        model = study.model if study.model.sigma2 is not None else replace(study.model, sigma2=sigma2)
        inputs = public_inputs(model, study.bounds) if inputs is None else inputs
        if inputs is None:
            raise InvalidModel("a forecast simulates clients: give inputs.bounds, or a table of rows such as theirs")
        return cls(
            model=model,
            ledger=study.ledger(),
            inputs=inputs,
            points=study.points,
            examples=release.examples,
            center=release.center,
        )

    def __post_init__(self) -> None:
        model = self.model
        if model.sigma2 is None:
            raise InvalidModel("a forecast needs a sigma2, from which follows how far outputs scatter", where="sigma2")
        if self.ledger is None and model.common is not None and model.basis is None:
            object.__setattr__(self, "model", replace(model, basis=Landmarks(_some(self.inputs, MAX_LANDMARKS))))

    @cached_property
    def mechanism(self) -> Mechanism | None:
        if self.ledger is None:
            return None
        return Mechanism(self.model, examples=self.examples, points=self.points, center=self.center)

    @property
    def rank(self) -> int | None:
        """Of the basis, if that is a setting of it."""
        return getattr(self.model.basis, "rank", None)

    @property
    def ranks(self) -> list[int]:
        """Other ranks: half of it, and twice as many."""
        points = None if self.model.basis is None else self.model.basis.public_points
        if self.rank is None or points is None:
            return []
        return [rank for rank in (max(1, self.rank // 2), min(2 * self.rank, len(points))) if rank != self.rank]


def _some(inputs: Array, most: int) -> Array:
    """Different ones, at most so many."""
    rows = inputs[distinct(np.ascontiguousarray(inputs))[0]]
    return rows if len(rows) <= most else np.random.default_rng(0).permutation(rows)[:most]


@dataclass(frozen=True)
class Row:
    """A forecast, and what of; ``epsilon`` None is without noise, ``clients`` None alone."""

    label: str
    clients: int | None
    epsilon: float | None
    rank: int | None
    forecast: Forecast


class Outlook:
    """Forecasts for a plan, if clients have that many examples each, or numbers of them like these."""

    def __init__(self, plan: Plan, examples: int | Sequence[int]) -> None:
        self.plan, self.examples = plan, examples
        self._known: dict[tuple[int, float], Forecast] = {}  # by clients and scale of the noise
        mechanism = plan.mechanism
        coordinates = Coordinates.of(plan.model, plan.inputs) if mechanism is None else mechanism.clip.coordinates
        self.population = Population.draw(coordinates, examples, plan.inputs)

    @cached_property
    def _clipped(self) -> ClippedPopulation:
        assert self.plan.mechanism is not None
        return ClippedPopulation(self.population, self.plan.mechanism.clip)

    def release(self, clients: int, number: int | None = None, *, epsilon: float | None = None) -> Forecast:
        """Of release ``number``, by default the last one, if it has the same clients as those before it."""
        if self.plan.ledger is None:
            return self.without_noise(clients)
        scale = _scale(self.plan.ledger, number, epsilon)
        if (clients, scale) not in self._known:
            self._known[clients, scale] = self._clipped.forecast(clients, scale)
        return self._known[clients, scale]

    @cached_property
    def alone(self) -> Forecast:
        return alone(self.population)

    def without_noise(self, clients: int) -> Forecast:
        if (clients, 0.0) not in self._known:
            self._known[clients, 0.0] = without_noise(self.population, clients)
        return self._known[clients, 0.0]

    def rows(self, clients: int) -> list[Row]:
        """The study's releases, and what would change if one thing were different; those for the last release."""
        plan, rank = self.plan, self.plan.rank
        apart = Row("each client alone", None, None, None, self.alone)
        exact = Row("without noise", clients, None, rank, self.without_noise(clients))
        many = 2 * clients, 10 * clients
        if plan.ledger is None:
            first = replace(exact, label="this study")
            more = [Row("more clients", n, None, rank, self.without_noise(n)) for n in many]
            return [first, *self._simulated(first), *more, apart]
        epsilon, releases = plan.ledger.epsilon, plan.ledger.releases
        rows = []
        if releases > 1:
            rows.append(Row("this study, release 1", clients, epsilon, rank, self.release(clients, 1)))
        label = f"this study, release {releases}" if releases > 1 else "this study"
        rows.append(Row(label, clients, epsilon, rank, self.release(clients)))
        rows += self._simulated(rows[-1])
        if 2 * epsilon <= MAX_EPSILON:
            rows.append(Row("a larger ε", clients, 2 * epsilon, rank, self.release(clients, epsilon=2 * epsilon)))
        rows += [Row("more clients", n, epsilon, rank, self.release(n)) for n in many]
        for other in plan.ranks:
            basis: Any = replace(plan.model.basis, rank=other)  # type: ignore[type-var]
            there = Outlook(replace(plan, model=replace(plan.model, basis=basis)), self.examples)
            rows.append(Row("another rank", clients, epsilon, other, there.release(clients)))
        return [*rows, exact, apart]

    def rows_by_clients(self) -> list[Row]:
        """The study with few and with many clients, at the last release."""
        plan, rank = self.plan, self.plan.rank
        epsilon = None if plan.ledger is None else plan.ledger.epsilon
        rows = [Row("this study", n, epsilon, rank, self.release(n)) for n in CLIENT_NUMBERS]
        if epsilon is not None:
            rows.append(Row("without noise", CLIENT_NUMBERS[0], None, rank, self.without_noise(CLIENT_NUMBERS[0])))
        return [*rows, Row("each client alone", None, None, None, self.alone)]

    def enough_clients(self) -> str:
        """One sentence: from which number of clients on the noise leaves most of the gain."""
        good, most = (n for n in CLIENT_NUMBERS if (self._share(n) or 0.0) >= GOOD_SHARE), f"{100 * GOOD_SHARE:.0f} %"
        if self.plan.ledger is None or self._share(CLIENT_NUMBERS[-1]) is None:
            return self.verdict(CLIENT_NUMBERS[0])
        if (enough := next(good, None)) is None:
            still = f"With {CLIENT_NUMBERS[-1]:,} clients the noise still leaves less than {most}"
            return f"{still} of the gain of sharing."
        return f"From about {enough:,} clients on, the noise leaves {most} of the gain of sharing, or more."

    def _share(self, clients: int) -> float | None:
        """What the noise leaves of the gain of sharing; None if that is next to nothing."""
        now, exact, apart = (one.function for one in (self.release(clients), self.without_noise(clients), self.alone))
        return None if exact > (1 - SMALL_SAVING) * apart else max(0.0, (apart - now) / (apart - exact))

    def _simulated(self, row: Row) -> list[Row]:
        """What happened in some simulated studies, at the last release; nothing if they would take long."""
        plan, clients = self.plan, row.clients or 0
        examples = float(np.mean(self.examples)) * clients
        if examples > MAX_SIMULATED_EXAMPLES:
            return []
        number = int(np.clip(MAX_SIMULATED_EXAMPLES // (2 * examples), 1, MAX_SIMULATIONS))
        world = World(self.population.coordinates, self.examples, plan.inputs, center=plan.center)
        if plan.mechanism is None or plan.ledger is None:
            studies = [SimulatedStudy(world, clients, seed=seed) for seed in range(number)]
            measured, weights = [study.measure(_exact_release(plan.model, study)) for study in studies], None
        else:
            truths, scale = Truths.draw(plan.mechanism.clip, number, np.random.default_rng(0)), _scale(plan.ledger)
            measured, weights = [], truths.weights
            for seed, theta in enumerate(truths.theta):
                study = SimulatedStudy(world, clients, seed=seed, theta=theta)
                noisy = seeded_noise(seed, 7)(study.total(plan.mechanism.clip, slice(None)), scale * UNIT)
                measured.append(study.measure(plan.mechanism.disclose([noisy], scale=scale)))
        return [replace(row, label="the same, simulated", forecast=mean_forecast(measured, weights))]

    def curves(self, clients: int | None) -> dict[float | None, list[tuple[int, float]]]:
        """The error of a client's function over the number of clients, for some ε and without noise (None)."""
        middle = clients or CLIENT_NUMBERS[len(CLIENT_NUMBERS) // 2]
        numbers = np.unique(np.geomspace(max(5, middle / 10), 10 * middle, CURVE_POINTS).round().astype(int)).tolist()
        curves: dict[float | None, list[tuple[int, float]]] = {}
        if self.plan.ledger is not None:
            for factor in EPSILON_FACTORS:
                epsilon = min(float(f"{factor * self.plan.ledger.epsilon:.2g}"), MAX_EPSILON)
                curves[epsilon] = [(n, self.release(n, epsilon=epsilon).function) for n in numbers]
        curves[None] = [(n, self.without_noise(n).function) for n in numbers]
        return curves

    @property
    def shortened(self) -> float:
        """The share of clients that the clip would shorten."""
        return 0.0 if self.plan.ledger is None else self._clipped.shortened

    def verdict(self, clients: int) -> str:
        """One sentence: whether sharing helps, and what of that the noise leaves."""
        now, exact, apart = self.release(clients), self.without_noise(clients), self.alone
        errors = f"{apart.observation:.4g} alone, {exact.observation:.4g} if they share without noise"
        if (share := self._share(clients)) is None:
            return f"Sharing hardly helps: clients predict with an error of {errors}; their own examples say as much."
        if self.plan.ledger is None:
            return f"It serves: clients predict with an error of {errors}."
        errors += f", {now.observation:.4g} in this study, which keeps {100 * share:.0f} % of the gain"
        if share >= GOOD_SHARE:
            return f"It serves: clients predict with an error of {errors}."
        if share >= POOR_SHARE:
            return (
                f"It serves in part: clients predict with an error of {errors}; more clients or a larger ε would help."
            )
        return f"It does not serve: clients predict with an error of {errors}; the noise hides the rest."


def _scale(ledger: Ledger, number: int | None = None, epsilon: float | None = None) -> float:
    """Of the noise after so many releases of the same clients, by default all: their mean has less."""
    ledger = ledger if epsilon is None else replace(ledger, epsilon=epsilon)
    return ledger.scale / math.sqrt(ledger.releases if number is None else number)


def _exact_release(model: Model, study: SimulatedStudy) -> Disclosed:
    engine = Engine(model)
    study.learn(engine, slice(None))
    return engine.disclose()


# --- of a running study ---


@dataclass(frozen=True)
class Progress:
    """Of a running study: ``taking_part`` are clients with examples; a forecast is of the next release, None if nobody
    takes part yet."""

    enrolled: int
    taking_part: int
    examples: int
    shortened: float | None
    forecast: Forecast | None = None
    without_noise: Forecast | None = None
    alone: Forecast | None = None

    @classmethod
    def of(cls, study: Mapping[str, Any], figures: Mapping[str, Any], release: Disclosed | None) -> Progress:
        """From ``/v1/study``, ``/v1/clients/figures`` and the current release."""
        counted = [(int(one["examples"]), int(one["clients"])) for one in figures["clients"]]
        counts = np.repeat(*np.array([pair for pair in counted if pair[0]], dtype=int).reshape(-1, 2).T)
        about = sum(clients for _, clients in counted), len(counts), int(counts.sum()), figures["shortened"]
        plan = _running_plan(study, figures, release)
        if plan is None or not len(counts):
            return cls(*about)
        outlook = Outlook(plan, counts.tolist())
        made = study["budget"]["made"] if plan.ledger is not None else 0
        number = None if plan.ledger is None else min(made + 1, plan.ledger.releases)
        clients = len(counts)
        return cls(*about, outlook.release(clients, number), outlook.without_noise(clients), outlook.alone)

    def facts(self) -> dict[str, str]:
        """In words, by their names."""
        rows = {"clients": f"{self.enrolled:,} enrolled; {self.taking_part:,} with {count(self.examples, 'example')}"}
        if self.shortened is not None:
            rows["shortened"] = f"{100 * self.shortened:.0f} % of the clients, by the clip; half is expected"
        if self.forecast is not None and self.without_noise is not None and self.alone is not None:
            rows["forecast"] = (
                f"clients predict with an error of {self.forecast.observation:#.3g} from the next release; "
                f"{self.without_noise.observation:#.3g} without noise, {self.alone.observation:#.3g} alone"
            )
            rows["coverage"] = (
                f"{100 * self.forecast.coverage:.0f} % of observations in 90 % bands, if the model is right"
            )
        return rows

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def _running_plan(study: Mapping[str, Any], figures: Mapping[str, Any], release: Disclosed | None) -> Plan | None:
    """None if a study without noise has no release yet: its inputs and its σ² are not known."""
    model, budget, bounds = Model.from_spec(study["model"]), study["budget"], study["bounds"]
    if budget is None:
        if release is None or not release.sigma2 or not len(release.inputs):
            return None
        return Plan(model=replace(model, sigma2=release.sigma2), ledger=None, inputs=release.inputs)
    settings = {key: budget[key] for key in ("epsilon", "delta", "per", "releases")}
    points = public_inputs(model, bounds, for_releases=True)
    named = None if model.columns is None else model.columns.bounds
    inputs = points if named is None else public_inputs(model, named)
    assert points is not None  # no private study is without them
    assert inputs is not None
    return Plan(
        model=model,
        ledger=Ledger(**settings),
        inputs=inputs,
        points=points,
        examples=int(figures["expected_examples"]),
        center=float(figures["center"]),
    )

"""Which noise the rows ask for: normal of one scale, a scale for each task, or Student's t; and its multipliers.

Everything begins with normal noise. Multipliers come to rest at settings that are held, then settings are searched
again, in turns, from a cold start: the end is a function of the rows alone. Another noise than a normal one is tried if
the residuals of rows that are left out hint at it, and taken if it predicts them better by more than a standard error.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from motet.arrays import Array, as_bytes
from motet.engine.system import System
from motet.errors import MotetError
from motet.model.model import Model
from motet.tables.rows import Rows
from motet.text import count
from motet.threads import blas_limit
from motet.tuning.components import Components
from motet.tuning.defaults import TUNING_ROWS, Settings
from motet.tuning.search import ROUGH_PRECISION, Search, Step, TaskObjective
from motet.tuning.structures import MAX_GAIN_OF_ROW, STANDARD_ERRORS, Attempt, noise_prior
from motet.tuning.tuning import Tuning, folded_tasks, model_by_evidence, tuning_by
from motet.tuning.weights import (
    Equal,
    NoiseKind,
    OfTasks,
    Residuals,
    RowNoise,
    Student,
    evidence_of_degrees,
    log_density,
)

NoiseChoice: TypeAlias = Literal["auto", "gaussian", "tasks", "student"]
NOISES = ("auto", "gaussian", "tasks", "student")
STUDENT_DEGREES = (4.0, 8.0)
SHARES_OF_SCALE = np.linspace(0.2, 1.0, 17)  # of t, in usual deviations
TASK_DEGREES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
HINT = 3.0  # nats of the residuals' likelihood, from which on another noise is tried
MIN_CLUSTERS = 10  # tasks, of whose gains a standard error is taken; of fewer it is the rows'
AT_REST, NEARLY_AT_REST = 1e-6, 0.02  # changes of a logarithm, after which multipliers are kept; while others are tried
MAX_ROUNDS, MAX_TURNS = 100, 4  # of multipliers at held settings, and with settings searched between
MAX_MULTIPLIER = 1e8  # beyond, a row says nothing
OUTLIER_WEIGHT = 0.25  # below which a row is called an outlier


@dataclass(frozen=True, eq=False)
class Weighted:
    """Multipliers that are at rest at a model's settings, and the residuals there."""

    model: Model
    noise: RowNoise
    multiplier: Array
    residuals: Residuals

    @property
    def log_scores(self) -> Array:
        return self.noise.log_scores(self.residuals, self.multiplier)


@dataclass(frozen=True, eq=False)
class ChosenNoise:
    """What was chosen: multipliers by task and row, so that those of a task can be forgotten with it."""

    noise: RowNoise
    rows: dict[Hashable, dict[bytes, float]]
    observation: dict[Hashable, float]  # multipliers of observations, of tasks whose noise is their own
    gain: Attempt | None = None  # over normal noise, if that was compared

    @classmethod
    def of(cls, weighted: Weighted, rows: Rows, gain: Attempt | None) -> ChosenNoise:
        labels, by_task = list(rows.tasks), dict[Hashable, dict[bytes, float]]()
        noise, multiplier = weighted.noise, weighted.multiplier
        keys = as_bytes(_keys(weighted.model.rows(rows.X), rows.y, multiplier * rows.noise))
        for label, key, one in zip(labels, keys, multiplier.tolist()):
            by_task.setdefault(label, {})[key] = one
        if not isinstance(noise, OfTasks):
            return cls(noise, by_task, {}, gain)
        of_tasks = noise.observations(weighted.residuals, multiplier).tolist()
        return cls(noise, by_task, dict(zip(labels, (of_tasks[j] for j in rows.task.tolist()))), gain)

    def multipliers(self, labels: Any, X: Array, y: Array, noise: Array) -> Array:
        """Of rows as they were learned; 1 of those that came later."""
        keys = as_bytes(_keys(X, y, noise))
        return np.array([self.rows.get(label, {}).get(key, 1.0) for label, key in zip(labels, keys)])

    def of_new_rows(self, labels: Any) -> Array:
        """Multipliers for rows of these tasks that are learned now: their task's, or 1."""
        if not self.observation:
            return np.ones(len(labels))
        return np.array([next(iter(self.rows.get(label, {}).values()), 1.0) for label in labels])

    def of_observations(self, labels: Any) -> Array:
        """By what the noise of new observations of these tasks is multiplied."""
        return np.array([self.observation.get(label, 1.0) for label in labels])

    def weights(self, multiplier: Array) -> Array:
        """Of rows beside that of a usual one, from their multipliers."""
        return 1.0 / (multiplier * (self.noise.band_ratio if isinstance(self.noise, Student) else 1.0))

    def log_scores(self, residual: Array, std: Array) -> Array:
        """The log density of residuals of observations, whose 90 % bands have these deviations."""
        if not isinstance(self.noise, Student):
            return log_density(residual / std, std)
        std = std / np.sqrt(self.noise.band_ratio)
        return log_density(residual / std, std, self.noise.degrees)

    def columns(self, multiplier: Array) -> dict[str, Any]:
        """Of a table of rows: what each weighs, and which are outliers."""
        weight = self.weights(multiplier)
        outlier = {"outlier": np.where(weight < OUTLIER_WEIGHT, "yes", "")} if isinstance(self.noise, Student) else {}
        return {"weight": weight, **outlier}

    def without(self, task: Hashable) -> ChosenNoise:
        rows = {label: one for label, one in self.rows.items() if label != task}
        return replace(self, rows=rows, observation={j: one for j, one in self.observation.items() if j != task})

    @property
    def notes(self) -> Iterator[str]:
        """What was chosen, and why."""
        why = ""
        if self.gain is not None:
            error = f"standard error {self.gain.standard_error:.1f}"
            why = f": rows that are left out gain {self.gain.left_out:.1f} in log score ({error}) over normal noise"
        yield f"{self.noise.words}{why}"
        multiplier = np.array([one for known in self.rows.values() for one in known.values()])
        if isinstance(self.noise, Student):
            few = int((self.weights(multiplier) < OUTLIER_WEIGHT).sum())
            yield f"{count(few, 'row')} weigh less than a quarter: diagnostics() names them as outliers"
        elif self.observation:
            low, high = np.sqrt(np.quantile([*self.observation.values()], [0.05, 0.95]))
            yield (
                f"the noise's deviation is {low:.2g} to {high:.2g} times that of a new task in nine tenths of the tasks"
            )


@dataclass(frozen=True, eq=False)
class Learned:
    """Rows with their noise multiplied, the model, how its settings were chosen, and the noise if it is not normal."""

    rows: Rows
    model: Model
    tuning: Tuning | None
    noise: ChosenNoise | None = None


def fit_noise(
    normal: Learned,
    settings: Settings,
    noise: NoiseChoice,
    *,
    begin: Callable[[str], object] = len,
    report: Callable[[Step], object] | None = None,
) -> Learned:
    """The noise of rows that were learned with normal noise, chosen if it is "auto", and the settings beside it."""
    if noise == "gaussian" or (noise == "auto" and not _is_open(normal, settings)):
        return normal
    try:
        return _Choice(normal.rows, settings, {"begin": begin, "report": report}).best(normal, noise)
    except (MotetError, np.linalg.LinAlgError):  # a scale may fall to 0 where outputs repeat
        if noise == "auto":
            return normal
        raise


def _is_open(normal: Learned, settings: Settings) -> bool:
    """Whether "auto" looks further: the parts of the model are chosen as well, on all of the rows."""
    tuning, is_free = normal.tuning, bool(settings.auto_sides) and settings.sigma2 is None
    if tuning is None or tuning.is_widened:  # a scale that has to be held up is no measure of what is far
        return False
    return is_free and not tuning.table_rows and len(normal.rows.y) <= TUNING_ROWS


@dataclass(frozen=True, eq=False)
class _Choice:
    """Among noises for the rows."""

    rows: Rows
    settings: Settings
    more: dict[str, Any] = field(default_factory=dict)

    @blas_limit
    def best(self, normal: Learned, noise: NoiseChoice) -> Learned:
        """What is asked for, or what beats normal noise; attempts are added to the path."""
        start = self.weighted(_solved(normal), Equal())
        kinds = list(_hinted(start)) if noise == "auto" else [noise]
        if not kinds:
            return normal
        self.more["begin"]("noise of rows")
        tried = [one for kind in kinds for one in self.candidates(start, normal, kind)]
        attempts = [_compared(start, one) for one in tried]
        kept = [(a, one) for a, one in zip(attempts, tried) if a.kept or noise != "auto"]
        path = attempts if noise == "auto" else []
        if not kept:
            return replace(normal, tuning=_with_path(normal.tuning, path))
        _, one = max(kept, key=lambda pair: pair[0].left_out)
        learned, weighted = self.finished(normal, one)
        gain = _compared(start, weighted)
        is_lost = not gain.kept or learned.tuning is None or learned.tuning.is_widened
        if noise == "auto" and is_lost:
            return replace(normal, tuning=_with_path(normal.tuning, [replace(a, kept=False) for a in path]))
        path = [replace(a, kept=a is attempts[tried.index(one)]) for a in path]
        chosen = ChosenNoise.of(weighted, self.rows, gain)
        return replace(learned, tuning=_with_path(learned.tuning, path), noise=chosen)

    def candidates(self, start: Weighted, normal: Learned, kind: NoiseKind) -> Iterator[Weighted]:
        """Noises of a kind at their best, with the parts that the model has."""
        noises = [Student(degrees) for degrees in STUDENT_DEGREES] if kind == "student" else [_of_tasks(start)]
        if normal.tuning is None:
            yield from (self.weighted(normal.model, noise) for noise in noises)
            return
        multiplier, components = start.multiplier, normal.tuning.components
        for noise in noises:
            weighted, components = self.turns(components, noise, multiplier)
            multiplier = weighted.multiplier
            yield weighted

    def finished(self, normal: Learned, one: Weighted) -> tuple[Learned, Weighted]:
        """With the parts that the weighted rows ask for."""
        if normal.tuning is None:
            return replace(normal, rows=self.multiplied(one.multiplier)), one
        rows = self.multiplied(one.multiplier)
        model, tuning = model_by_evidence(rows, self.settings, **self.more)
        if tuning is None:
            return Learned(rows, model, None), self.weighted(model, one.noise, one.multiplier)
        weighted, components = self.turns(tuning.components, one.noise, one.multiplier)
        if components is not tuning.components:
            search = self.search(model, weighted.multiplier)
            again = tuning_by(search, search.climb(components), self.settings.sigma2)
            zero, seconds = (*tuning.zero, *again.zero), tuning.seconds + again.seconds
            model = self.settings.with_basis(again.model, rows.inputs)
            widened, path = tuning.is_widened, tuning.path
            tuning = replace(again, model=model, zero=zero, seconds=seconds, path=path, is_widened=widened)
        weighted = self.weighted(tuning.components.searched, weighted.noise, weighted.multiplier)
        return Learned(self.multiplied(weighted.multiplier), model, tuning), weighted

    def turns(self, components: Components, noise: RowNoise, multiplier: Array) -> tuple[Weighted, Components]:
        """Multipliers, and then numbers of the model, until both are nearly at rest."""
        weighted = self.weighted(components.searched, noise, multiplier, NEARLY_AT_REST)
        for _ in range(MAX_TURNS):
            if np.abs(np.log(weighted.multiplier / multiplier)).max() < NEARLY_AT_REST:
                break
            multiplier = weighted.multiplier
            components = self.search(components.base, multiplier).climb(components, ROUGH_PRECISION).components
            noise = _of_tasks(weighted) if isinstance(noise, OfTasks) else noise
            weighted = self.weighted(components.searched, noise, multiplier, NEARLY_AT_REST)
        return weighted, components

    def weighted(
        self, model: Model, noise: RowNoise, multiplier: Array | None = None, precision: float = AT_REST
    ) -> Weighted:
        """Multipliers at rest at these settings."""
        multiplier = np.ones(len(self.rows.y)) if multiplier is None else multiplier
        for _ in range(MAX_ROUNDS):
            residuals = self.residuals(model, multiplier)
            after = np.clip(noise.multipliers(residuals, multiplier), 1.0 / MAX_MULTIPLIER, MAX_MULTIPLIER)
            if np.abs(np.log(after / multiplier)).max() < precision:
                break
            multiplier = after
        return Weighted(model, noise, multiplier, residuals)

    def residuals(self, model: Model, multiplier: Array) -> Residuals:
        folded = folded_tasks(self.multiplied(multiplier), model)
        return Residuals.of(System.of_tasks(model, *folded, self.settings.method), self.rows, multiplier)

    def search(self, model: Model, multiplier: Array) -> Search[TaskObjective]:
        rows = self.multiplied(multiplier)
        prior = noise_prior(rows) if self.settings.chooses(rows) else None
        return Search(TaskObjective(*folded_tasks(rows, model), self.settings.method, prior), self.more["report"])

    def multiplied(self, multiplier: Array) -> Rows:
        return replace(self.rows, noise=multiplier * self.rows.noise)


def _solved(learned: Learned) -> Model:
    """The model whose equations are solved for residuals: with the basis of the search, if there was one."""
    return learned.model if learned.tuning is None else learned.tuning.components.searched


def _hinted(normal: Weighted) -> Iterator[NoiseKind]:
    """Noises that make the residuals of rows without themselves likelier."""
    z, _ = normal.residuals.standardised(1.0)
    if max(_gain_of_t(z, degrees) for degrees in STUDENT_DEGREES) > HINT:
        yield "student"
    sums = normal.residuals.sums(normal.multiplier)
    if max(evidence_of_degrees(*sums, degrees) for degrees in TASK_DEGREES) > HINT:
        yield "tasks"


def _gain_of_t(z: Array, degrees: float) -> float:
    """The log likelihood of Student's t of the best of some scales, less that of a normal distribution of the best."""
    usual = float(np.sqrt(np.mean(z**2)))
    best = max(log_density(z / (usual * a), usual * a, degrees).sum() for a in SHARES_OF_SCALE)
    return float(best - log_density(z / usual, usual).sum())


def _of_tasks(weighted: Weighted) -> OfTasks:
    """With the likeliest degrees of freedom."""
    sums = weighted.residuals.sums(weighted.multiplier)
    return OfTasks(max(TASK_DEGREES, key=lambda degrees: evidence_of_degrees(*sums, degrees)))


def _compared(normal: Weighted, other: Weighted) -> Attempt:
    """By rows without themselves; few that gain much do not decide."""
    by_row = np.minimum(other.log_scores - normal.log_scores, MAX_GAIN_OF_ROW)
    task = normal.residuals.task
    gain = np.bincount(task, by_row) if task.max() + 1 >= MIN_CLUSTERS else by_row
    total, error = float(gain.sum()), float(np.sqrt(len(gain)) * gain.std())
    return Attempt(other.noise.words, np.nan, total, error, bool(total > max(HINT, STANDARD_ERRORS * error)))


def _with_path(tuning: Tuning | None, attempts: list[Attempt]) -> Tuning | None:
    return None if tuning is None else replace(tuning, path=(*tuning.path, *attempts))


def _keys(X: Array, y: Array, noise: Array) -> Array:
    return np.column_stack([X, y, noise])

"""The output's scale, chosen by what is left out: the logarithm, if it predicts rows and whole tasks better.

Both are fitted with the structure that suits them, and scored in closed form: by the density that the outputs
themselves have, so the logarithm's with its Jacobian. What is tied stays as it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from motet.arrays import Array
from motet.engine.engine import Engine
from motet.errors import warn
from motet.model.model import Model
from motet.regression.residuals import LeaveOut, leave_out
from motet.regression.results import Results
from motet.regression.scales import IDENTITY, LOG, SCALES, Scale
from motet.regression.tables import Table
from motet.tables.rows import Rows
from motet.tuning.defaults import STRUCTURE_ROWS, Settings
from motet.tuning.structures import MAX_GAIN_OF_ROW, STANDARD_ERRORS, Attempt
from motet.tuning.tuning import Tuning, model_by_evidence

TARGETS = ("auto", *SCALES)
LOGARITHM = "logarithm of the output"
MIN_SCALED_ROWS = 40  # that tell which scale is better
MAX_ERROR_RATIO = 1.05  # of the root mean square error by the logarithm, to that without
MIN_RATIO = 3.0  # of the largest output to the smallest, from which on the logarithm is another scale


@dataclass(frozen=True, eq=False)
class Fit:
    """A model by evidence of outputs on a scale, how it was found, and the warnings on the way."""

    scale: Scale
    model: Model
    tuning: Tuning | None
    warned: tuple[warnings.WarningMessage, ...] = ()

    @classmethod
    def of(cls, scale: Scale, rows: Rows, settings: Settings, **more: Any) -> Fit:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            model, tuning = model_by_evidence(replace(rows, y=scale.learned(rows.y)), settings, **more)
        return cls(scale, model, tuning, tuple(warned))

    def left_out(self, rows: Rows, settings: Settings) -> LeaveOut:
        engine = Engine(self.model)
        engine.learn_many(rows.tasks, rows.X, self.scale.learned(rows.y), rows.noise)
        return leave_out(Results(engine, self.tuning, settings.method, [], scale=self.scale))


def may_differ(rows: Rows, settings: Settings) -> bool:
    """Whether the scale is to be chosen: nothing else is given, and the logarithm would be another scale."""
    given = settings.common, settings.individual, settings.bias, settings.basis
    has_default = all(isinstance(one, str) and one == "auto" for one in given) and settings.sigma2 is None
    is_enough = settings.optimizer is not None and len(rows.y) >= MIN_SCALED_ROWS
    low, high = float(rows.y.min(initial=np.inf)), float(rows.y.max(initial=0.0))
    return has_default and is_enough and low > 0.0 and high > MIN_RATIO * low


def fit_target(
    rows: Rows, settings: Settings, target: str, *, begin: Callable[[str], object], report: Any = None
) -> tuple[Scale, Model, Tuning | None]:
    """The scale that is given, or for ``"auto"`` the one that is chosen, and a model by evidence for all rows."""
    if target == "auto" and may_differ(rows, settings):
        return _chosen(rows, settings, begin, report)
    scale = SCALES.get(target, IDENTITY)
    learned = replace(rows, y=scale.learned(rows.y))
    return scale, *model_by_evidence(learned, settings, begin=begin, report=report)


def _chosen(
    rows: Rows, settings: Settings, begin: Callable[[str], object], report: Any
) -> tuple[Scale, Model, Tuning | None]:
    """By fits to those rows that a structure is chosen on; warnings are those of the better."""
    some = rows.sample(STRUCTURE_ROWS)
    best = Fit.of(IDENTITY, some, settings, begin=begin, report=report)
    attempt = promise(best.left_out(some, settings), some)
    if attempt.left_out > 0.0:
        log = Fit.of(LOG, some, settings, begin=lambda phase: begin(f"{phase}, of the logarithm"), report=report)
        attempt = compared(best, log, some, settings)
        best = log if attempt.kept else best
    if some is not rows:
        best = Fit.of(best.scale, rows, settings, begin=begin, report=report)
    for one in best.warned:
        warn(str(one.message), one.category)
    tuning = None if best.tuning is None else replace(best.tuning, path=(attempt, *best.tuning.path))
    return best.scale, best.model, tuning


def promise(left: LeaveOut, rows: Rows) -> Attempt:
    """What the output's own predictions gain if they are read as medians of lognormal distributions.

    A fit takes long, and where that gains nothing, because small outputs scatter as much as large ones, the logarithm
    has nothing to gain either.
    """
    return _attempt([(table, _of_medians(table)) for table in _ways(left, rows)], rows, np.nan)


def _of_medians(table: Table) -> Array:
    """Log scores, the scales of all distributions in proportion to the deviations, by the factor that is likeliest."""
    y = table["observed"]
    location = np.log(np.maximum(table["mean"], y.min()))
    factor = np.sqrt(np.nanmean(((np.log(y) - location) / table["std"]) ** 2))
    return LOG.observed(location, factor * table["std"]).log_density(y)


def compared(identity: Fit, log: Fit, rows: Rows, settings: Settings) -> Attempt:
    """The logarithm in place of the output itself: by log scores, unless errors are larger.

    Of errors the ratio counts: where one row has nearly all of the squares, their standard error tells nothing. The
    gain in log evidence is that of the logarithm times the outputs' geometric mean, of which the Jacobian is 1.
    """
    pairs = list(zip(*(_ways(fit.left_out(rows, settings), rows) for fit in (identity, log))))
    nats = np.nan
    if identity.tuning is not None and log.tuning is not None:
        jacobian = -log.tuning.free * float(np.log(rows.y).mean())
        nats = log.tuning.log_evidence + jacobian - identity.tuning.log_evidence
    attempt = _attempt([(old, new["log_score"]) for old, new in pairs], rows, nats)
    is_worse = any(_error(new["residual"]) > MAX_ERROR_RATIO * _error(old["residual"]) for old, new in pairs)
    return replace(attempt, kept=attempt.left_out > STANDARD_ERRORS * attempt.standard_error and not is_worse)


def _ways(left: LeaveOut, rows: Rows) -> list[Table]:
    """Rows without themselves, and without their tasks."""
    return [left.rows] if rows.single_task else [left.rows, left.new]


def _attempt(pairs: list[tuple[Table, Array]], rows: Rows, nats: float) -> Attempt:
    """Of tables the log scores, and others in place of them; not kept."""
    gain = np.mean([np.nan_to_num(scores - table["log_score"]) for table, scores in pairs], axis=0)
    return Attempt(LOGARITHM, nats, *summed(np.minimum(gain, MAX_GAIN_OF_ROW), rows), kept=False)


def _error(residual: Array) -> float:
    return float(np.sqrt(np.nansum(residual**2)))


def summed(values: Array, rows: Rows) -> tuple[float, float]:
    """A sum over rows, and its standard error: the larger of those for independent rows and for independent tasks."""
    parts = [values] if rows.single_task else [values, np.bincount(rows.task, values)]
    return float(values.sum()), max(float(np.sqrt(len(part)) * part.std(ddof=1)) for part in parts)

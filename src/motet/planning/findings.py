"""What a table says of a study file, before anybody sends anything: rows that would be refused, clients that would be
shortened, and settings that the table contradicts.

These figures are of the table's rows. They are not private: they are for whoever has the table.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from motet.arrays import Array, Index
from motet.engine.engine import Engine
from motet.errors import EmptyData
from motet.model.model import Model
from motet.planning.evaluation import by_client, rows_of
from motet.study.study import Study
from motet.tables.columns import Column, Columns
from motet.tables.rows import Rows
from motet.text import count

MAX_EVIDENCE_ROWS, MAX_EVIDENCE_CLIENTS = 3000, 500  # that settings are compared with
MAX_MEASURED_CLIENTS = 2000  # whose vectors are computed
LAM_FACTORS = (0.1, 0.3, 3.0, 10.0)
SURE = 10.0  # nats of the log evidence, by which another λ is likelier
FAR = 3.0  # standard deviations between a center and the mean
WIDE, NARROW = 10.0, 1.0  # standard deviations on either side, of limits; a scale such as stars has about two
DIFFERENT_VARIANCE, DIFFERENT_COUNT = 2.0, 2.0  # factors
MANY_SHORTENED = 0.8


@dataclass(frozen=True, eq=False)
class Findings:
    """``refused`` counts rows that the study would not take, by reason; the others are ``rows``, ``inside``."""

    study: Study
    file: str
    total: int
    refused: dict[str, int]
    rows: Rows
    inside: Index

    @classmethod
    def of(
        cls, study: Study, file: str, clients: Sequence[Hashable], X: Array, y: Array, noise: Array | None = None
    ) -> Findings:
        rows, reasons = rows_of(study, clients, X, y, noise)
        inside = np.flatnonzero(~np.any(list(reasons.values()), axis=0))
        refused = {reason: int(which.sum()) for reason, which in reasons.items() if which.any()}
        if not len(inside):
            counted = ", ".join(f"{reason}: {count(number, 'row')}" for reason, number in refused.items())
            raise EmptyData(
                f"{file}: the study would refuse every row ({counted}): correct the study file, or the table"
            )
        outside = "input outside inputs.bounds"
        if refused.pop(outside, 0):
            refused |= _by_column(study, rows.X[reasons[outside]])
        return cls(study, file, len(rows.y), refused, rows, inside)

    # --- figures ---

    @cached_property
    def counts(self) -> Index:
        """How many rows each client has, of those that the study takes."""
        counts = np.bincount(self.rows.task[self.inside])
        return counts[counts > 0]

    @property
    def clients(self) -> int:
        return len(self.counts)

    @property
    def inputs(self) -> Array:
        return self.rows.X[self.inside]

    @cached_property
    def sigma2(self) -> float:
        """The likeliest σ², with the study's other settings."""
        return self._evidence(self.study.model)[1]

    @cached_property
    def likelier_lam(self) -> float | None:
        """Another λ that is much likelier, None if there is none."""
        model = self.study.model
        mine = self._evidence(model)[0]
        lams = [factor * model.lam for factor in LAM_FACTORS]
        others = {lam: self._evidence(replace(model, lam=lam))[0] for lam in lams}
        best = max(others, key=lambda lam: others[lam])
        return best if others[best] > mine + SURE else None

    def _evidence(self, model: Model) -> tuple[float, float]:
        """The log evidence of some of the rows, and the σ² that is the likeliest."""
        engine = Engine(replace(model, sigma2=None))
        rows = self._some_rows
        engine.learn_many(self.rows.task[rows].tolist(), *self.rows.triples(rows))
        evidence = engine.evidence()
        return evidence.log_evidence, evidence.sigma2

    @cached_property
    def _some_rows(self) -> Index:
        """Of so many clients at random that an evaluation takes moments."""
        client = self.rows.task[self.inside]
        order = np.random.default_rng(0).permutation(np.unique(client))
        total = np.cumsum(np.bincount(client)[order])
        most = max(1, min(MAX_EVIDENCE_CLIENTS, int(np.searchsorted(total, MAX_EVIDENCE_ROWS))))
        return self.inside[np.isin(client, order[:most])]

    @cached_property
    def norms(self) -> Array | None:
        """Of clients' vectors before the clip; None without noise."""
        if (mechanism := self.study.mechanism()) is None:
            return None
        parts = list(by_client(self.rows.task[self.inside]).values())
        chosen = np.random.default_rng(0).permutation(len(parts))[:MAX_MEASURED_CLIENTS]
        return mechanism.clip.norms(self.rows.triples(self.inside[parts[k]]) for k in chosen)

    @property
    def shortened(self) -> float | None:
        """The share of clients that the clip shortens."""
        return None if self.norms is None else float(np.mean(self.norms > 1))

    @property
    def length_left(self) -> float | None:
        """What the clip leaves of a client that it shortens, in the median."""
        return float(np.median(1 / self.norms[self.norms > 1])) if self.norms is not None and self.shortened else None

    # --- warnings ---

    @cached_property
    def contradictions(self) -> list[str]:
        """Settings that the table contradicts, so that a forecast from them is wrong; one sentence each."""
        return [text for text in (self._of_sigma2(), self._of_lam(), self._of_center(), self._of_clip()) if text]

    @property
    def warnings(self) -> list[str]:
        """All that should be corrected before the study begins."""
        others = self._of_examples(), limits_warning(self.study, self.inputs, "y outside limits.y" in self.refused)
        return [*self.contradictions, *(text for text in others if text)]

    def _of_sigma2(self) -> str:
        given = self.study.model.sigma2
        if given is None or not self.sigma2 > 0 or 1 / DIFFERENT_VARIANCE < self.sigma2 / given < DIFFERENT_VARIANCE:
            return ""
        ratio = math.sqrt(self.sigma2 / given)
        how = f"{ratio:.2g} times too narrow" if ratio > 1 else f"{1 / ratio:.2g} times too wide"
        return f"model.sigma2 is {given:g}, and the table makes {self.sigma2:.3g} the likeliest: bands would be {how}"

    def _of_lam(self) -> str:
        if self.likelier_lam is None:
            return ""
        return (
            f"model.lam is {self.study.model.lam:g}, and about {self.likelier_lam:.2g} is much likelier by the table: "
            "motet tune finds the best"
        )

    def _of_center(self) -> str:
        """Of outputs that the clip would cut off, because they are not about the center."""
        model, center = self.study.model, self.study.release.center
        mean, deviation = float(np.mean(self.rows.y[self.inside])), prior_deviation(model, self.inputs, self.sigma2)
        if not self.study.private or abs(mean - center) <= FAR * deviation:
            return ""
        away = f"the mean of the outputs is {mean:.4g}, {abs(mean - center) / deviation:.0f} standard deviations from"
        if model.bias == "none":
            return f'{away} 0, and the model has no bias: choose model.bias = "constant" and a release.center'
        return f"{away} release.center, {center:g}: clients would spend their norm on it; set it to {mean:.3g}"

    def _of_examples(self) -> str:
        expected, median = self.study.release.examples, float(np.median(self.counts))
        if not self.study.private or 1 / DIFFERENT_COUNT < median / expected < DIFFERENT_COUNT:
            return ""
        return (
            f"release.examples is {expected}, and half of the clients have {median:g} or more: set it to {median:.0f}"
        )

    def _of_clip(self) -> str:
        if self.shortened is None or self.shortened <= MANY_SHORTENED:
            return ""
        return (
            f"the clip would shorten {100 * self.shortened:.0f} % of the clients, where half is expected: outputs are "
            "larger, or examples more, than sigma2, lam, release.center and release.examples say"
        )


def prior_deviation(model: Model, inputs: Array, sigma2: float | None = None) -> float:
    """How far outputs scatter by the model, without the bias: average, shifts and noise."""
    common = 0.0 if model.common is None else model.common_share * float(np.mean(model.common.diag(inputs)))
    individual = model.individual_share * float(np.mean(model.individual.diag(inputs)))
    return math.sqrt((model.sigma2 or sigma2 or 1.0) * (common + individual + model.noise.observation(1.0)))


def limits_warning(study: Study, inputs: Array, may_cut: bool = True) -> str:
    """Of limits for outputs that have nothing to do with the model's prior; "" if they have, or there are none.

    Limits that are narrow only matter if they ``may_cut`` outputs off: those of a scale such as stars do not.
    """
    if study.limits.y is None or study.model.sigma2 is None:
        return ""
    (low, high), deviation = study.limits.y, prior_deviation(study.model, inputs)
    wide = (high - low) / 2 / deviation
    if NARROW <= wide <= WIDE or (wide < NARROW and not may_cut):
        return ""
    about = f"limits.y, from {low:g} to {high:g}, goes {wide:.2g} standard deviations to either side"
    cut = "it cuts off outputs that the model expects, unless they are a scale with these ends"
    return f"{about}, which are {deviation:.3g} by the model: {'sigma2 may be too small' if wide > WIDE else cut}"


def _by_column(study: Study, X: Array) -> dict[str, int]:
    """Rows with a number outside its bounds, by column; one may be outside in several."""
    columns = study.model.columns or Columns(Column(name=f"column {k}") for k in range(X.shape[1]))
    counted = {}
    for column, place in zip(columns, columns.first_places if study.input_bounds else ()):
        low, high = (study.input_bounds or ())[place]
        outside = int(np.count_nonzero((X[:, place] < low) | (X[:, place] > high)))
        if outside:
            counted[f"{column.name} outside its bounds, {column.text(low)} to {column.text(high)}"] = outside
    return counted

"""Settings that are right for a pilot: kernels and variances by the marginal likelihood, the rank by forecast.

The average of a proposal has a constant bias, slopes and a smooth part, all of a size that the evidence found: a
private study draws clients from this prior to bound them, and bounds that fit waste less of the budget than wide ones.
All of it is a function of the pilot, of what was chosen by hand, and of nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from motet.arrays import Array, evenly_spaced
from motet.errors import EmptyData, NoEvidence
from motet.kernels.algebra import in_units, map_terms
from motet.kernels.classes import RBF, ConstantKernel, DotProduct, Identity, Kernel, On, Scaled
from motet.model.basis import NYSTROM_POINTS, Eigen
from motet.model.model import Model
from motet.planning.evaluation import Advance, Begin, unseen
from motet.planning.inputs import LinearModel, rounded_within
from motet.planning.pilot import Pilot
from motet.privacy.forecast import best_rank
from motet.privacy.ledger import Ledger
from motet.study.points import quasi_random_points
from motet.study.template import MAX_NAMED_RANK, Promise, rounded, rounded_share
from motet.tables.rows import Rows
from motet.tuning import defaults
from motet.tuning.defaults import Settings
from motet.tuning.structures import NATS_PER_PARAMETER
from motet.tuning.tuning import Tuning, fit_settings

MAX_EVALUATIONS, MAX_SHORT_EVALUATIONS = 150, 1000  # of one search, and of one on few rows
FEW_ROWS = 2000
POINT_COUNTS = {1: 60, 2: 150}  # of a basis, by the number of inputs
MANY_POINTS = 300  # with more inputs
RANKS = (5, 10, 20, 30, 40, 60, 80)
ITEM_RANKS = (*RANKS, 120, 160)  # if each item has an effect of its own
STARTING_SHARE = 0.1  # of an effect of each item
MAX_EXPECTED_EXAMPLES = 200  # of a client
MIN_SHARED_LENGTH, MAX_SHARED_LENGTH = (
    0.3,
    2.0,
)  # of a smooth part that several inputs share, in units of their deviation
SETTING_DIGITS = 2  # of settings in the file


@dataclass(frozen=True, eq=False)
class Proposal:
    """Settings for the clients of a pilot, by the ``tuning`` of a model on it; ``begin`` tells its phases."""

    pilot: Pilot
    promise: Promise
    tuning: Tuning
    begin: Begin = unseen
    is_plain: bool = False
    has_item_effects: bool = False  # beside features

    @classmethod
    def of(cls, pilot: Pilot, promise: Promise, begin: Begin = unseen, *, plain: bool = False) -> Proposal:
        """Of the models that a search starts from, or ``plain`` ones, the one that becomes likeliest."""
        models, kind, tunings = starting_models(pilot, plain=plain), "plain settings" if plain else "settings", []
        try:
            for number, model in enumerate(models, start=1):
                name = f"Searching {kind}{f', model {number} of {len(models)}' if len(models) > 1 else ''}"
                tunings.append(_tuned(pilot, model, begin(name, "evaluation", max_evaluations(pilot))))
        except NoEvidence as reason:
            raise EmptyData(f"{pilot.file}: {reason}; add rows, or write a study without a table") from None
        return cls(pilot, promise, max(tunings, key=lambda tuning: tuning.log_evidence), begin, plain)

    def with_items(self) -> Proposal | None:
        """The same with an effect of each item beside its features; None if that does not pay for its variance."""
        tuned, item = self.tuning.model, On(Identity(), [0])
        part = ConstantKernel(STARTING_SHARE) * item
        alpha = tuned.alpha if tuned.common is not None else STARTING_SHARE
        model = replace(tuned, common=part if tuned.common is None else tuned.common + part, alpha=alpha)
        advance = self.begin(
            "Searching settings with an effect of each item", "evaluation", max_evaluations(self.pilot)
        )
        tuning = _tuned(self.pilot, model, advance)
        gain = tuning.log_evidence - self.tuning.log_evidence
        return replace(self, tuning=tuning, has_item_effects=True) if gain > NATS_PER_PARAMETER else None

    @cached_property
    def sigma2(self) -> float:
        return rounded(self.tuning.noise_variance / self.lam, SETTING_DIGITS)

    @property
    def lam(self) -> float:
        return rounded(self.tuning.model.lam, SETTING_DIGITS)

    @cached_property
    def model(self) -> Model:
        """By evidence, on the inputs in their units, without a basis."""
        tuned = self.tuning.model
        common = None if tuned.common is None else in_units(tuned.common)
        alpha, individual = rounded_share(tuned.alpha, SETTING_DIGITS), in_units(tuned.individual)
        kernels = replace(tuned, common=common, individual=individual, basis=None)
        return replace(kernels, alpha=alpha, lam=self.lam, sigma2=self.sigma2)

    @property
    def examples(self) -> int:
        """That a client is expected to have."""
        return int(np.clip(np.median(self.pilot.sizes), 1, MAX_EXPECTED_EXAMPLES))

    @property
    def clients(self) -> int:
        expected = len(self.pilot.sizes) if self.pilot.drawn is None else self.pilot.drawn.expected
        return self.promise.clients or expected

    @property
    def center(self) -> float:
        return rounded_within(float(np.mean(self.pilot.y)), float(np.std(self.pilot.y)), SETTING_DIGITS)

    @cached_property
    def points(self) -> Array:
        """Of the basis: the catalogue, or points distributed as the pilot's inputs are."""
        pilot = self.pilot
        if pilot.catalogue is not None:
            return pilot.catalogue.rows
        assert pilot.columns is not None
        assert pilot.columns.bounds is not None
        return quasi_random_points(pilot.columns.bounds, pilot.columns, self.point_count)

    @property
    def point_count(self) -> int:
        return POINT_COUNTS.get(len(self.pilot.columns or ()), MANY_POINTS)

    @cached_property
    def rank(self) -> int:
        """The one that serves the expected clients best, by the forecast; all items, if they only have names."""
        if self.pilot.catalogue is not None and not self.pilot.catalogue.features:
            return min(len(self.pilot.catalogue), MAX_NAMED_RANK)
        # the last of several releases knows as much as one with all of the budget
        ledger = replace(Ledger(epsilon=self.promise.epsilon, releases=self.promise.releases), releases=1)
        points = self.points[evenly_spaced(len(self.points), NYSTROM_POINTS)]
        model = replace(self.model, catalogue=None, columns=None, basis=Eigen(points, 1))
        ranks = sorted({min(rank, len(points)) for rank in (ITEM_RANKS if self.has_item_effects else RANKS)})
        advance = self.begin("Choosing the rank by forecasts", "rank", len(ranks))
        numbers = {"clients": self.clients, "examples": self.examples}
        return best_rank(model, **numbers, ledger=ledger, ranks=ranks, advance=advance)


# --- the models that a search starts from ---


def starting_models(pilot: Pilot, *, plain: bool = False) -> list[Model]:
    """A constant bias; an average of slopes and a smooth part; shifts of an intercept, slopes and a smooth part. A
    ``plain`` model has an average of slopes, and shifts of an intercept alone.

    Columns are scaled, each by itself; in a second model the slopes of inputs that tell more may also be larger. A
    slope of any size in each of many inputs would be a prior of enormous functions, to which a private study bounds its
    clients. Features of a catalogue are often of one kind, such as tags from 0 to 1, where 0 is none and a tag that
    hardly varies also matters less: so there the second model reads them by one scale.

    For items that only have names: a level of each item, and for each client a level, and a liking of each item.
    """
    catalogue = pilot.catalogue
    if catalogue is not None and not catalogue.features:
        scale = ConstantKernel(1.0)
        return [Model(Identity(), scale + scale * Identity(), 0.5, 0.5, catalogue=catalogue)]
    features = None if catalogue is None else catalogue.features
    scaling = defaults.Scaling.of(pilot.X if features is None else pilot.X[:, features], np.ones(len(pilot.X)))
    center = np.array(list(map(rounded_within, scaling.center.tolist(), scaling.scale.tolist())))
    scaling = replace(scaling, center=center, scale=_rounded_all(scaling.scale))
    if len(scaling.scale) == 1:
        return [_scaled_model(pilot, scaling, plain=plain)]
    if features is None:
        weights = LinearModel(pilot.X, pilot.y, pilot.client).weights
        weighted = replace(scaling, scale=_rounded_all(scaling.scale / weights))
        return [_scaled_model(pilot, scaling, slopes, plain=plain) for slopes in (scaling, weighted)]
    one_scale = np.full(len(features), rounded(float(np.sqrt(np.mean(scaling.scale**2))), SETTING_DIGITS))
    as_it_is = replace(scaling, center=np.zeros(len(features)), scale=one_scale)
    return [_scaled_model(pilot, each, plain=plain) for each in (scaling, as_it_is)]


def _scaled_model(
    pilot: Pilot, scaling: defaults.Scaling, slopes: defaults.Scaling | None = None, *, plain: bool
) -> Model:
    """With inputs by a scaling, and in ``slopes`` by another one if that is given."""
    scale = ConstantKernel(1.0)
    linear = scale * (slopes or scaling).kernel(DotProduct(0.0, "fixed"))
    average = linear if plain else linear + scale * map_terms(_bounded, defaults.average(scaling))
    common = None if scaling.is_constant else average
    individual = scale if plain else map_terms(_bounded, defaults.shift(scaling, slopes))
    if pilot.catalogue is not None:
        features = pilot.catalogue.features
        common = None if common is None else _on(features, common)
        individual = _on(features, individual)
    return Model(common, individual, 0.5, 0.1, catalogue=pilot.catalogue, columns=pilot.columns)


def max_evaluations(pilot: Pilot) -> int:
    """Of one search: what bounds its time."""
    return MAX_SHORT_EVALUATIONS if len(pilot.sample.rows) <= FEW_ROWS else MAX_EVALUATIONS


def _tuned(pilot: Pilot, model: Model, advance: Advance) -> Tuning:
    """The model with the numbers that make the pilot likeliest."""
    some = pilot.sample.rows
    rows = Rows.of([pilot.clients[k] for k in some], pilot.X[some], pilot.y[some], np.ones(len(some)))
    basis = "auto" if model.catalogue is None else None
    limits = {"tuning_rows": None, "task_rows": None, "evaluations": max_evaluations(pilot)}
    return fit_settings(rows, Settings.of(model, basis=basis, **limits), report=lambda _: advance())


def _bounded(kernel: Kernel) -> Kernel:
    """A smooth part with one length for many inputs is not so long that it is a slope: with lengths without an end its
    variance has none either, and a private study bounds its clients by that. Nor is it so short that it is noise."""
    if type(kernel) is not Scaled or type(kernel.kernel) is not RBF:
        return kernel
    lengths = np.atleast_1d(kernel.kernel.length_scale)
    if len(lengths) == len(kernel.scale):
        return kernel
    bounds = (MIN_SHARED_LENGTH * lengths[0], MAX_SHARED_LENGTH * lengths[0])
    return Scaled(RBF(lengths[0], bounds), kernel.center, kernel.scale)


def _on(columns: list[int], kernel: Kernel) -> Kernel:
    """The kernel on the features of a catalogue's items."""
    return map_terms(lambda term: term if type(term) is ConstantKernel else On(term, columns), kernel)


def _rounded_all(values: Array) -> Array:
    return np.array([rounded(float(value), SETTING_DIGITS) for value in values])

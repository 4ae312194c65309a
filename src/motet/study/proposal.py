"""A study file that is right for a pilot table: its model by evidence, its basis by forecast, its limits by the data.

The average of a proposal has a constant bias, slopes and a smooth part, all of a size that the evidence found: a
private study draws clients from this prior to bound them, and bounds that fit waste less of the budget than wide ones.
What the file says is public once the study runs, and not covered by its budget: settings, ranges and quantiles,
rounded. All of it is a function of the pilot, of what was chosen by hand, and of nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from motet.arrays import Array, distinct, evenly_spread
from motet.errors import EmptyData, NoEvidence
from motet.files import check_new
from motet.kernels import RBF, ConstantKernel, DotProduct, Identity, Kernel, Matern, On, Product, Reading, Scaled, Sum
from motet.learning import defaults
from motet.learning.engine import Engine
from motet.learning.search import Step
from motet.learning.tuning import Tuning, tune_model
from motet.model.basis import NYSTROM_POINTS, Eigen
from motet.model.model import Model
from motet.model.spec import to_spec
from motet.privacy.forecast import best_rank
from motet.privacy.ledger import Ledger
from motet.study.items import items_file, written_items
from motet.study.phases import Advance, Begin, unseen
from motet.study.pilot import Pilot, outward, rounded_within
from motet.study.sample import Sample
from motet.study.scale import output_scale
from motet.study.slopes import LinearModel
from motet.study.spread import spread_points
from motet.study.study import Study
from motet.study.template import (
    HEADING,
    MAX_NAMED_RANK,
    Entry,
    Listed,
    Policy,
    Sections,
    eigen,
    output,
    promise,
    rounded,
    rounded_share,
    server,
    write,
)
from motet.text import count

MAX_TUNED_ROWS = 6000  # above, some of the clients are tuned on
MAX_EVALUATIONS, MAX_SHORT_EVALUATIONS = 150, 1000  # of one search, and of one on few rows
FEW_ROWS = 2000
SPREAD_POINTS = {1: 60, 2: 150}  # of a basis, by the number of inputs
MANY_SPREAD_POINTS = 300  # with more inputs
RANKS = (5, 10, 20, 30, 40, 60, 80)
MAX_GROWING_ITEMS = 1500  # of a catalogue whose releases are without noise
MAX_EXPECTED_EXAMPLES = 200  # of a client
MIN_LENGTH, MAX_LENGTH = 0.3, 2.0  # of a smooth part that several inputs share, in units of their spread
DIGITS = 2  # of settings in the file
COVARIANCE_DIGITS = 12  # of products of such numbers
EXAMPLES_ROOM = 4  # how many times as many examples as any client of the pilot one may have
JOINS = "who take part too: what everybody may read is computed from their rows, and ε does not cover that."


@dataclass(frozen=True, kw_only=True)
class Promise:
    """What the study will promise, and to how many clients; None is as many as the pilot lets expect."""

    policy: Policy = "private"
    epsilon: float = 3.0
    releases: int = 10
    every: str = "1d"
    clients: int | None = None


@dataclass(frozen=True, eq=False)
class Proposal:
    """Settings for the clients of a pilot, by the ``tuning`` of a model on it; ``begin`` tells its phases."""

    pilot: Pilot
    promise: Promise
    tuning: Tuning
    begin: Begin = unseen

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
        return cls(pilot, promise, max(tunings, key=lambda tuning: tuning.log_evidence), begin)

    # --- settings ---

    @cached_property
    def sigma2(self) -> float:
        return rounded(self.tuning.noise_variance / self.lam, DIGITS)

    @property
    def lam(self) -> float:
        return rounded(self.tuning.model.lam, DIGITS)

    @cached_property
    def model(self) -> Model:
        """By evidence, on the inputs in their units, without a basis."""
        tuned = self.tuning.model
        common = None if tuned.common is None else kernel_in_units(tuned.common)
        individual = kernel_in_units(tuned.individual)
        alpha = rounded_share(tuned.alpha, DIGITS)
        settings: dict[str, Any] = {"alpha": alpha, "lam": self.lam, "sigma2": self.sigma2, "basis": None}
        return replace(tuned, common=common, individual=individual, **settings)

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
        return rounded_within(float(np.mean(self.pilot.y)), float(np.std(self.pilot.y)), DIGITS)

    @cached_property
    def points(self) -> Array:
        """Of the basis: the catalogue, or points spread as the pilot's inputs are."""
        pilot = self.pilot
        if pilot.catalogue is not None:
            return pilot.catalogue.rows
        assert pilot.columns is not None
        assert pilot.columns.bounds is not None
        return spread_points(pilot.columns.bounds, pilot.columns, self.spread)

    @property
    def spread(self) -> int:
        return SPREAD_POINTS.get(len(self.pilot.columns or ()), MANY_SPREAD_POINTS)

    @cached_property
    def rank(self) -> int:
        """The one that serves the expected clients best, by the forecast; all items, if they only have names."""
        if self.pilot.catalogue is not None and not self.pilot.catalogue.features:
            return min(len(self.pilot.catalogue), MAX_NAMED_RANK)
        promise = self.promise
        ledger = Ledger(epsilon=promise.epsilon, releases=promise.releases)
        if promise.releases > 1:  # the last of several knows as much as one release with all of the budget
            ledger = Ledger(epsilon=promise.epsilon, releases=1)
        points = self.points[evenly_spread(len(self.points), NYSTROM_POINTS)]
        model = replace(self.model, catalogue=None, columns=None, basis=Eigen(points, 1))
        advance = self.begin("Choosing the rank by forecasts", "rank", len(RANKS))
        numbers = {"clients": self.clients, "examples": self.examples}
        return best_rank(model, **numbers, ledger=ledger, ranks=RANKS, advance=advance)

    # --- the file ---

    def write(self, path: Path, name: str, *, force: bool = False) -> Study:
        """Write the study file and, for items that only the table names, their catalogue; and load the study."""
        check_new(path, force=force)
        heading = f"{HEADING}\n{self._origin}"
        sections = self.sections(path, name)
        with written_items(self.pilot.items, path, force=force):
            return write(path, sections, heading, force=force)

    @property
    def _origin(self) -> str:
        """Where the settings come from, in words."""
        drawn = self.pilot.drawn
        if drawn is None:
            return f"Its settings are those that all rows of {self.pilot.file} make likeliest. They are public."
        pilot = f"a pilot of {count(len(drawn.names), 'client')} of {self.pilot.file}"
        part = JOINS if drawn.joins else "who take no part, and of no other client."
        return f"Its settings are public. They are those of {pilot}, {part}"

    def sections(self, path: Path, name: str) -> Sections:
        pilot, table = self.pilot, self.pilot.table
        low, high = outward(*pilot.range_y, 0.0)
        most = int(pilot.sizes.max())
        promised = self.promise
        return {
            "study": {"name": Entry(name)},
            "model": self._model(),
            "inputs": self._inputs(path),
            "table": {
                "client": Entry(table.client, "whose row it is"),
                "target": Entry(table.target, "the output"),
                "name": Entry(table.name, "of an item, if there is a catalogue"),
            },
            "output": output(table.target, output_scale(pilot.y, pilot.limits_y), pilot.unit),
            "basis": self._basis(),
            "limits": {
                "y": Entry(list(pilot.limits_y), f"the pilot has {low:g} to {high:g}"),
                "noise": Entry([0.01, 100.0], "an example's noise variance, as a multiple of lam * sigma2"),
                "examples_per_client": Entry(
                    min(2000, max(50, EXAMPLES_ROOM * most)), f"no client of the pilot has more than {most}"
                ),
            },
            "release": promise(
                promised.policy,
                promised.epsilon,
                promised.releases,
                promised.every,
                examples=Entry(self.examples, "expected per client: half of the pilot's have as many"),
                center=Entry(self.center, "a typical output, about which clients are clipped: the pilot's mean"),
            ),
            **self._pilot(),
            **server(f"{path.stem}.db"),
        }

    def _pilot(self) -> Sections:
        if self.pilot.drawn is None:
            return {}
        section, part = self.pilot.drawn.section(), "true: they take part too, although what is public is theirs"
        return {
            "pilot": {
                "clients": Entry(section.clients, "chosen by their digests, without a look at anybody's rows"),
                "share": Entry(section.share, "of all clients, but at least 30"),
                "joins": Entry(section.joins, f"false: motet serve --data leaves them out; {part}"),
                "salt": Entry(section.salt, "of the digests: SHA-256 of salt and name"),
                "digests": Entry(section.digests),
            }
        }

    def _model(self) -> dict[str, Entry]:
        model, noise = self.model, self.tuning.noise_variance
        variances = {side: self._variance(side) for side in ("average", "individual")}
        entries = {
            "alpha": Entry(model.alpha, "share of the average in the kernels' scales, from 0 to 1"),
            "lam": Entry(
                model.lam,
                f"noise variance over sigma2: an output has noise of standard deviation {noise**0.5:.3g}",
            ),
            "sigma2": Entry(
                self.sigma2,
                f"scale of all variances; standard deviations in the pilot: average {variances['average'] ** 0.5:.3g}, "
                f"shifts of clients {variances['individual'] ** 0.5:.3g}, noise {noise**0.5:.3g}",
            ),
            "bias": Entry("constant", "a level that all clients share; or none, linear, or inputs with a slope"),
            "common": self._kernel("average", model.common),
            "individual": self._kernel("individual", model.individual),
        }
        if model.common is None:
            del entries["alpha"]
        return entries

    def _variance(self, side: str) -> float:
        components = self.tuning.components
        listed = [component for component in components.listed if component.side == side]
        return sum(component.size(components.X) for component in listed) * self.tuning.noise_variance

    def _kernel(self, side: str, kernel: Kernel | None) -> Entry:
        """A kernel with a line for each component, which says how much it is."""
        about = "of the average" if side == "average" else "of the shifts"
        if kernel is None:
            return Entry("none", f"{about}: the pilot shows none beside the bias")
        components = self.tuning.components
        listed = [component for component in components.listed if component.side == side]
        deviations = [(c.size(components.X) * self.tuning.noise_variance) ** 0.5 for c in listed]
        words = [f"{c.described(self.pilot.labels).partition(': ')[2]}" for c in listed]
        spec = _rounded_spec(to_spec(kernel))
        if len(listed) == 1:
            return Entry(spec, f"{about}: {words[0]}, standard deviation {deviations[0]:.3g}")
        parts = Listed(
            Entry(one, f"{word}: standard deviation {d:.3g}") for one, word, d in zip(spec["of"], words, deviations)
        )
        return Entry({"kernel": "sum", "of": parts}, about)

    def _inputs(self, path: Path) -> dict[str, Entry]:
        pilot = self.pilot
        if pilot.catalogue is not None:
            file = items_file(pilot.items, path) or pilot.roles.catalogue
            assert file is not None
            beside = os.path.relpath(file.absolute(), path.absolute().parent)
            return {
                "catalogue": Entry(beside, f"{count(len(pilot.catalogue), 'item')}: a header, then name and features"),
                "normalise": Entry(False, "true: features of unit length"),
            }
        assert pilot.columns is not None
        columns = Listed(Entry(column.to_spec()) for column in pilot.columns)
        comment = (
            "bounds are a quarter wider than the pilot's range on either side, quantiles are at 5, 25, 50, 75 and 95 %"
        )
        return {"columns": Entry(columns, comment)}

    def _basis(self) -> dict[str, Entry]:
        private, catalogue = self.promise.policy == "private", self.pilot.catalogue
        if self.model.common is None:
            return {"kind": Entry("growing", "nothing but the bias is shared")}
        if not private and catalogue is not None and len(catalogue) <= MAX_GROWING_ITEMS:
            return {"kind": Entry("growing", "exact on the whole catalogue")}
        spread = (
            {} if catalogue is not None else {"spread": Entry(self.spread, "points between the bounds, by quantiles")}
        )
        if not private:
            return (
                {"kind": Entry("landmarks"), **spread}
                if spread
                else {"kind": eigen(len(self.points)), "rank": Entry(MAX_NAMED_RANK)}
            )
        why = f"the forecast's best for {count(self.clients, 'client')} at epsilon {self.promise.epsilon:g}"
        why = "every item, as they only have names" if catalogue is not None and not catalogue.features else why
        return {"kind": eigen(len(self.points)), **spread, "rank": Entry(self.rank, why)}


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
    scaling = replace(scaling, center=_centers(scaling), scale=_rounded_all(scaling.scale))
    if len(scaling.scale) == 1:
        return [_scaled_model(pilot, scaling, plain=plain)]
    if features is None:
        weighted = replace(scaling, scale=_rounded_all(scaling.scale / _weights(pilot)))
        return [_scaled_model(pilot, scaling, slopes, plain=plain) for slopes in (scaling, weighted)]
    one_scale = np.full(len(features), rounded(float(np.sqrt(np.mean(scaling.scale**2))), DIGITS))
    as_it_is = replace(scaling, center=np.zeros(len(features)), scale=one_scale)
    return [_scaled_model(pilot, each, plain=plain) for each in (scaling, as_it_is)]


def _weights(pilot: Pilot) -> Array:
    """How much the slope of each input matters."""
    return LinearModel(pilot.X, pilot.y, np.unique(pilot.clients, return_inverse=True)[1]).weights


def _scaled_model(
    pilot: Pilot, scaling: defaults.Scaling, slopes: defaults.Scaling | None = None, *, plain: bool
) -> Model:
    """With inputs by a scaling, and in ``slopes`` by another one if that is given."""
    scale = ConstantKernel(1.0)
    linear = scale * (slopes or scaling).kernel(DotProduct(0.0, "fixed"))
    average = linear if plain else linear + scale * _bounded(defaults.average(scaling))
    common = None if scaling.is_constant else average
    individual = scale if plain else _bounded(defaults.shift(scaling, slopes))
    if pilot.catalogue is not None:
        features = pilot.catalogue.features
        common, individual = None if common is None else _on(common, features), _on(individual, features)
    return Model(common, individual, 0.5, 0.1, catalogue=pilot.catalogue, columns=pilot.columns)


def searched(pilot: Pilot) -> Sample:
    """The rows that settings are searched on."""
    max_items = None if pilot.catalogue is None else defaults.MAX_SEARCHED_INPUTS
    return Sample.of(pilot.clients, pilot.X, max_rows=MAX_TUNED_ROWS, max_items=max_items)


def max_evaluations(pilot: Pilot) -> int:
    """Of one search: what bounds its time."""
    return MAX_SHORT_EVALUATIONS if len(searched(pilot).rows) <= FEW_ROWS else MAX_EVALUATIONS


def _tuned(pilot: Pilot, model: Model, advance: Advance) -> Tuning:
    """The model with the numbers that make the pilot likeliest."""
    rows = searched(pilot).rows
    inputs = pilot.X[distinct(pilot.X[rows])[0]] if len(rows) == len(pilot.X) else pilot.X[rows]
    if model.common is not None and model.catalogue is None:
        basis = defaults.basis("auto", model.common, _unique(inputs), most=defaults.MAX_SEARCHED_INPUTS)
        model = replace(model, basis=basis)
    engine = Engine(model)
    engine.learn_many([pilot.clients[k] for k in rows], pilot.X[rows], pilot.y[rows])

    def report(_: Step) -> None:
        advance()

    return tune_model(engine, report=report, most=max_evaluations(pilot))


def _bounded(kernel: Kernel) -> Kernel:
    """A smooth part with one length for many inputs is not so long that it is a slope: with lengths without an end its
    variance has none either, and a private study bounds its clients by that. Nor is it so short that it is noise."""
    if type(kernel) in (Sum, Product):
        return type(kernel)(_bounded(kernel.k1), _bounded(kernel.k2))
    if type(kernel) is not Scaled or type(kernel.kernel) is not RBF:
        return kernel
    lengths = np.atleast_1d(kernel.kernel.length_scale)
    if len(lengths) == len(kernel.scale):
        return kernel
    bounds = (MIN_LENGTH * lengths[0], MAX_LENGTH * lengths[0])
    return Scaled(RBF(lengths[0], bounds), kernel.center, kernel.scale)


def _on(kernel: Kernel, columns: list[int]) -> Kernel:
    """The kernel on the features of a catalogue's items."""
    if type(kernel) in (Sum, Product):
        return type(kernel)(_on(kernel.k1, columns), _on(kernel.k2, columns))
    return kernel if type(kernel) is ConstantKernel else On(kernel, columns)


def kernel_in_units(kernel: Kernel) -> Kernel:
    """The same kernel with length scales in the units of the inputs, instead of a scaling and lengths without units."""
    if type(kernel) in (Sum, Product):
        return type(kernel)(kernel_in_units(kernel.k1), kernel_in_units(kernel.k2))
    if type(kernel) is On:
        return On(kernel_in_units(kernel.kernel), kernel.columns)
    if type(kernel) is Scaled and type(kernel.kernel) in (RBF, Matern):
        inner = kernel.kernel
        lengths = np.asarray(inner.length_scale) * np.asarray(kernel.scale)
        length = float(lengths[0]) if len(lengths) == 1 else lengths
        return RBF(length) if type(inner) is RBF else Matern(length, nu=inner.nu)
    if isinstance(kernel, Reading) and type(kernel.kernel) is ConstantKernel:
        return kernel.kernel
    return kernel


# --- numbers and cells ---


def _unique(X: Array) -> Array:
    return np.asarray(X[distinct(np.ascontiguousarray(X))[0]])


def _centers(scaling: defaults.Scaling) -> Array:
    return np.array([rounded_within(float(one), float(scale)) for one, scale in zip(scaling.center, scaling.scale)])


def _rounded_all(values: Array) -> Array:
    return np.array([rounded(float(value), DIGITS) for value in values])


def _rounded_spec(spec: Any) -> Any:
    """A kernel's plain data with numbers as people write them, without bounds of a search; centers are rounded."""
    if isinstance(spec, dict):
        rounding: dict[str, Callable[[Any], Any]] = {"covariance": _rounded_covariance, "center": list}
        return {
            key: rounding.get(key, _rounded_spec)(value) for key, value in spec.items() if not key.endswith("_bounds")
        }
    if isinstance(spec, list):
        return [_rounded_spec(value) for value in spec]
    return rounded(spec, DIGITS) if isinstance(spec, float) else spec


def _rounded_covariance(C: list[list[float]]) -> list[list[float]]:
    """Of a rounded Cholesky factor: so no eigenvalue becomes negative, and correlations near 1 stay so."""
    values, vectors = np.linalg.eigh(np.asarray(C))
    R: Array = np.asarray(np.linalg.qr((vectors * np.sqrt(np.maximum(values, 0.0))).T, mode="r"))
    L = np.array([[rounded(float(value), DIGITS) for value in row] for row in R.T])
    return [[rounded(float(value), COVARIANCE_DIGITS) for value in row] for row in L @ L.T]

"""Settings by evidence (empirical Bayes): estimates, their standard errors, and parts that the data do not ask for.

Components that add nothing to the evidence are left out, and said to be zero.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from motet.arrays import Array, distinct, outputs
from motet.engine.left_out import LeftOut
from motet.engine.system import MAX_OFFSET, Method, System, check_solvable, is_far
from motet.errors import NoEvidence, warn
from motet.kernels.algebra import leaves_in_units
from motet.kernels.classes import ConstantKernel
from motet.model.model import Model
from motet.model.tasks import FoldedTasks, fold
from motet.tables.rows import Rows
from motet.text import tally
from motet.threads import blas_limit
from motet.tuning.components import MAX_VARIANCE, MIN_VARIANCE, Component, Components
from motet.tuning.defaults import MAX_SEARCHED_INPUTS, STRUCTURE_ROWS, Scaling, Settings, basis
from motet.tuning.search import (
    ROUGH_PRECISION,
    NoisePrior,
    Objective,
    Search,
    Step,
    Summit,
    TaskObjective,
    noise_variance,
)
from motet.tuning.structures import NOISE_ROWS, Attempt, Selection, noise_prior

WIDENED = (
    "the noise is larger than what is likeliest: there, rows that are left out are far outside their bands, as if many "
    "rows repeat each other and some do not"
)
ZERO_GAIN, LITTLE_GAIN = 0.05, 30.0  # nats: a component that gains less is called zero, or looked at more closely
SAMPLED_INPUTS = 20_000  # of which deviations are measured, for lengths and variances to start from
MAX_MEAN_SQUARE = 1.3  # of standardised residuals of rows without themselves; 1 is expected
FAR_WEIGHT = 100.0  # from 1, of a mean weight
WIDENING, MAX_WIDENINGS = 10.0, 3  # of the weight of the noise's prior
FLAT, VAGUE = 1e-7, 0.1  # of the largest curvature; of a flat direction, along which data tell nothing apart


@dataclass(frozen=True, eq=False)
class Tuning:
    """What a search found: the ``model``, its components and how sure they are.

    ``theta`` are the parameters of ``components``; ``gains`` is the log evidence that each component adds over leaving
    it out, ``zero`` are those that were left out. ``noise_variance`` is σ²λ.
    """

    model: Model
    components: Components
    method: Method
    log_evidence: float
    noise_variance: float
    theta: Array
    gradient: Array
    information: Array
    cross: Array  # the information between the logarithm of the noise's variance and the parameters
    gains: dict[Component, float]
    zero: tuple[Component, ...]
    at_bounds: NDArray[np.bool_]
    log: tuple[Step, ...]
    converged: bool
    seconds: float
    rows: int
    free: int  # rows less the weights of the bias that the evidence integrates out
    table_rows: int = 0  # of the table of which the rows are a sample; 0 if they are all of it
    path: tuple[Attempt, ...] = ()  # how the structure was chosen
    is_widened: bool = False  # whether the noise had to be held up for bands that cover
    unread: tuple[str, ...] = ()  # columns that no part reads, of a chosen structure

    @property
    def covariance(self) -> Array:
        """Of the parameters; infinite for those that the data do not tell apart, or that are at a bound."""
        free = ~self.at_bounds
        size, values, vectors = self._curvature
        flat = values <= FLAT * values.max(initial=0.0)
        inverse = (vectors[:, ~flat] / values[~flat]) @ vectors[:, ~flat].T / np.outer(size, size)
        vague = (np.abs(vectors[:, flat]) > VAGUE).any(axis=1)
        inverse[vague] = inverse[:, vague] = np.inf
        out = np.full(self.information.shape, np.inf)
        out[np.ix_(free, free)] = inverse
        return out

    @property
    def joint_covariance(self) -> Array:
        """Of the logarithm of the noise's variance, which comes first, and of the parameters."""
        S = self.covariance
        known = np.isfinite(np.diag(S))
        variance = 2.0 / self.free  # of the first, θ known
        b = variance * self.cross[known]
        Sb = S[np.ix_(known, known)] @ b
        out = np.full((len(S) + 1, len(S) + 1), np.inf)
        out[1:, 1:] = S
        out[0, 0] = variance + b @ Sb
        out[0, 1:][known] = out[1:, 0][known] = -Sb
        return out

    @property
    def flat(self) -> list[list[str]]:
        """Names of parameters that the data do not tell apart, by direction."""
        _, values, vectors = self._curvature
        names = np.array(self.components.names)[~self.at_bounds]
        return [
            names[np.abs(vectors[:, k]) > VAGUE].tolist()
            for k in np.flatnonzero(values <= FLAT * values.max(initial=0.0))
        ]

    @property
    def _curvature(self) -> tuple[Array, Array, Array]:
        """Of the parameters that are not at a bound: sizes that make them comparable, eigenvalues and eigenvectors."""
        free = ~self.at_bounds
        A = self.information[np.ix_(free, free)]
        size = np.sqrt(np.maximum(np.diag(A), 1e-300))
        return size, *np.linalg.eigh(A / np.outer(size, size))

    @property
    def notes(self) -> list[str]:
        """What the data did not tell, in sentences."""
        return list(_notes(self))


def fit_settings(
    rows: Rows,
    settings: Settings,
    *,
    objective: Objective | None = None,
    inputs: Array | None = None,
    begin: Callable[[str], object] = len,
    report: Callable[[Step], object] | None = None,
) -> Tuning:
    """Settings by evidence: what the model is made of, its numbers by a search on some of the rows, a basis for all.

    If the rows are only a sample, ``inputs`` are the different ones of all, for the basis; and if the evidence of all
    is computed elsewhere, that is the ``objective``. ``begin`` gets the name of a phase that begins, ``report`` every
    evaluation. A model that cannot be solved is refused; and if the rows tell no settings, ``NoEvidence`` has it.
    """
    began, model = time.monotonic(), settings.model(rows)
    sample = rows if objective is not None else settings.sample(rows, model)
    path: tuple[Attempt, ...] = ()
    search: Search[Any]
    try:
        if settings.chooses(rows):
            some = sample.sample(STRUCTURE_ROWS)
            begin(f"structure{_of_rows(some, rows)}")
            search = Search(_objective(some, model, settings, noise_prior(some)), report, most=settings.evaluations)
            selection = _selection(search, some, rows, model, settings)
            components, path = selection.best(), tuple(selection.path)
            if objective is not None:
                base = replace(model, bias=components.base.bias)
                search, components = Search(objective, report), replace(components, base=base)
            elif some is not sample:
                begin(f"settings by evidence{_of_rows(sample, rows)}")
                objective = _objective(sample, model, settings, search.objective.prior)
                search = Search(objective, report, most=settings.evaluations)
                base = _with_basis(replace(model, bias=components.base.bias), sample, settings)
                components = replace(components, base=base, X=_for_scales(objective.X))
            summit = _widened(search, search.climb(components))
        else:
            X = rows.inputs
            if objective is None:
                begin(f"settings by evidence{_of_rows(sample, rows)}")
                objective = _objective(sample, model, settings)
                X = _for_scales(objective.X)
            search = Search(objective, report, most=settings.evaluations)
            summit = search.best(Components.of(model, X, _unit(sample.noise, len(sample.y))))
        tuning = tuning_by(search, summit, model.sigma2)
    except NoEvidence as refusal:
        refusal.model = model
        raise
    chosen = settings.with_basis(tuning.model, rows.inputs if inputs is None else inputs)
    table_rows = len(rows.y) if len(sample.y) < len(rows.y) else 0
    prior = getattr(search.objective, "prior", None)
    is_widened = prior is not None and prior.rows > NOISE_ROWS
    if is_widened:
        warn(WIDENED, ConvergenceWarning)
    seconds = time.monotonic() - began
    tuning = replace(tuning, model=chosen, path=path, table_rows=table_rows, is_widened=is_widened, seconds=seconds)
    return replace(tuning, unread=tuple(_unread(tuning, settings.names))) if path else tuning


def _unread(tuning: Tuning, names: Sequence[str]) -> Iterator[str]:
    """Columns that neither the bias nor any component reads."""
    bias = tuning.model.bias
    if bias != "linear":
        width = tuning.components.X.shape[1]
        leaves = [
            leaf for c in tuning.components.terms for leaf in leaves_in_units(c.kernel, range(width), [1.0] * width)
        ]
        read = set[int](() if isinstance(bias, str) else bias)
        read |= {c for leaf, columns, _ in leaves if type(leaf) is not ConstantKernel for c in columns}
        yield from (names[c] if names else f"column {c}" for c in range(width) if c not in read)


def _widened(search: Search[Any], summit: Summit) -> Summit:
    """With more weight on the noise's prior, until rows that are left out are not far outside their bands."""
    objective = search.objective
    for _ in range(MAX_WIDENINGS):
        prior = objective.prior if isinstance(objective, TaskObjective) else None
        if prior is None or _is_calibrated(objective, prior.little, summit):
            break
        prior = replace(prior, rows=WIDENING * prior.rows)
        search.objective = objective = replace(objective, prior=prior)
        summit = search.climb(summit.components)
    return summit


def _is_calibrated(objective: TaskObjective, little: float, summit: Summit) -> bool:
    """Whether residuals of rows without themselves are as large as their deviations say, if the noise is little."""
    system = System.of_tasks(summit.components.searched, objective.folded, objective.X, objective.method)
    if noise_variance(system) > little:
        return True
    left = LeftOut.of(system)
    with np.errstate(invalid="ignore"):
        squares = left.Py**2 / left.precision / system.evidence.sigma2
    return not np.nanmean(squares) > MAX_MEAN_SQUARE


def _objective(rows: Rows, model: Model, settings: Settings, prior: NoisePrior | None = None) -> TaskObjective:
    folded, X = folded_tasks(rows, model)
    check_solvable(model, folded, X)
    return TaskObjective(folded, X, settings.method, prior)


def _selection(search: Search[TaskObjective], some: Rows, rows: Rows, model: Model, settings: Settings) -> Selection:
    """Of the parts that are not given; inputs are scaled by all rows, and read by some of them."""
    unit = usual_noise(some.noise, len(some.y))
    terms = Components.of(model, search.objective.X).terms
    is_auto = "average" in settings.auto_sides
    given = [c.times(unit) for c in terms if c.side not in settings.auto_sides]
    return Selection(
        search,
        _with_basis(model, some, settings),
        some,
        Scaling.of(rows.X, 1.0 / rows.noise),
        settings.names or [f"column {k}" for k in range(rows.X.shape[1])],
        unit,
        tuple(given),
        settings.auto_sides,
        settings.smooth_sides(rows),
        settings.bias == "auto" and is_auto and not is_far(rows.X, MAX_OFFSET / 2).any(),
        settings.basis == "auto" and is_auto and not is_far(rows.X).any(),
    )


def _with_basis(model: Model, rows: Rows, settings: Settings) -> Model:
    """With the basis of a smooth average on these rows, if that is ``"auto"``."""
    if model.common is None:
        return model
    return replace(model, basis=basis(settings.basis, model.common, rows.inputs, most=MAX_SEARCHED_INPUTS))


def _of_rows(some: Rows, rows: Rows) -> str:
    return f", on {len(some.y):,} of the rows" if len(some.y) < len(rows.y) else ""


def model_by_evidence(
    rows: Rows, settings: Settings, *, inputs: Array | None = None, **more: Any
) -> tuple[Model, Tuning | None]:
    """The model that ``fit_settings`` finds, and how; with a warning the one that is given, if the rows tell none."""
    try:
        tuning = fit_settings(rows, settings, inputs=inputs, **more)
    except NoEvidence as refusal:
        warn(f"settings are kept as given: {refusal}", ConvergenceWarning)
        return refusal.model if inputs is None else settings.with_basis(refusal.model, inputs), None
    return tuning.model, tuning


def tune_tasks(
    model: Model,
    folded: FoldedTasks,
    X: Array,
    *,
    method: Method = "REML",
    starts: int | None = None,
    report: Callable[[Step], object] | None = None,
    most: int | None = None,
) -> Tuning:
    """The numbers of a model that make folded tasks likeliest; its bias, basis and fixed numbers stay.

    All tasks, on the inputs X, have the model's own kernel. ``starts`` is how many of the best starting values are
    followed; ``report`` gets every evaluation, of which there are at most ``most``.
    """
    search = Search(TaskObjective(folded, X, method), report, most=most)
    components = Components.of(model, _for_scales(X), _unit(folded.noise, int(folded.rows.sum())))
    return tuning_by(search, search.best(components, starts), model.sigma2)


@blas_limit
def tuning_by(search: Search[Any], summit: Summit, sigma2: float | None) -> Tuning:
    """What is known at a summit; ``sigma2`` is the unit of variances, if one is given."""
    begin = time.monotonic()
    summit, gains, zero = _needed(search, summit)
    best, at = summit.components, summit.slope
    noise_variance = at.sigma2 * best.searched.noise.variance(1.0)
    low, high = best.bounds.T
    return Tuning(
        model=best.model(sigma2, noise_variance),
        components=best,
        method=search.objective.method,
        log_evidence=at.log_evidence,
        noise_variance=noise_variance,
        theta=best.theta,
        gradient=at.gradient,
        information=at.information,
        cross=at.cross,
        gains=gains,
        zero=zero,
        at_bounds=(best.theta <= low + 1e-6) | (best.theta >= high - 1e-6),
        log=tuple(search.log),
        converged=summit.reached,
        seconds=time.monotonic() - begin,
        rows=search.objective.rows,
        free=at.free,
    )


def folded_tasks(rows: Rows, model: Model) -> tuple[FoldedTasks, Array]:
    """The tasks of rows, folded, on their different inputs, as an engine of this model has them."""
    X = model.rows(rows.X)
    model.check_dimension(X.shape[1])
    first, input = distinct(X)
    return fold(rows.task, input, *outputs(rows.y, rows.noise, len(X))), X[first] + 0.0


def usual_noise(noise: Array, rows: int) -> float:
    """The noise of a row of mean weight, of so many rows, folded or not: weights may be 1/variance in any unit."""
    return rows / float((1.0 / noise).sum())


def _unit(noise: Array, rows: int) -> float:
    """By which a search from given numbers begins: 1, from which they may be told, unless weights are far from that."""
    usual = usual_noise(noise, rows)
    return usual if max(usual, 1.0 / usual) > FAR_WEIGHT else 1.0


def _for_scales(X: Array) -> Array:
    """Some of the inputs, by which natural sizes of lengths and variances are measured."""
    return X[:: -(-len(X) // SAMPLED_INPUTS)] if len(X) else X


# --- which components are needed ---


def _needed(search: Search[Any], summit: Summit) -> tuple[Summit, dict[Component, float], tuple[Component, ...]]:
    """The summit of the components that gain something, with their gains, and those that were left out."""
    zero: list[Component] = []
    while True:
        gains = {component: _gain(search, summit, component) for component in summit.components.terms}
        weakest = min(gains, key=lambda component: gains[component].nats)
        rest = gains[weakest].rest
        if gains[weakest].nats < ZERO_GAIN:
            zero.append(weakest)
        if gains[weakest].nats >= ZERO_GAIN or rest is None:  # the last of the shifts stays, with the smallest variance
            return summit, {component: gain.nats for component, gain in gains.items()}, tuple(zero)
        summit = search.climb(rest)


@dataclass(frozen=True, eq=False)
class _Gain:
    """What a component adds to the log evidence, and the best that was found without it."""

    nats: float
    rest: Components | None


def _gain(search: Search[Any], summit: Summit, component: Component) -> _Gain:
    """Over leaving it out: with all others as they are, and, if that is little, with all others at their best."""
    components, height = summit.components, summit.height
    rest = components.drop(component)
    if rest is None:  # the last of the shifts: all but nothing of it
        nothing = component.started(components.X, MIN_VARIANCE * components.unit, 1.0)
        terms = tuple(nothing if one is component else one for one in components.terms)
        return _Gain(height - search.objective.value(replace(components, terms=terms)), None)
    nats = height - search.objective.value(rest)
    if ZERO_GAIN <= nats < LITTLE_GAIN and not search.is_spent:
        without = search.climb(rest, ROUGH_PRECISION)
        rest, nats = without.components, height - without.height
    return _Gain(nats, rest)


def _notes(tuning: Tuning) -> Iterator[str]:
    if tuning.table_rows:
        yield f"settings were chosen on a sample, {tuning.rows:,} of {tuning.table_rows:,} rows"
    if tuning.is_widened:
        yield WIDENED
    if tuning.unread:
        yield f"no part reads {tally(tuning.unread, 'column')}: what the others leave is not told by them"
    for component in tuning.zero:
        yield f"{component.label} is zero: +0.0 log evidence over leaving it out"
    for names in tuning.flat:
        alone = f"the data do not determine the {names[0]}: it has no interval" if len(names) == 1 else ""
        yield alone or f"the data do not tell apart the {' and the '.join(names)}: they have no interval"
    most = MAX_VARIANCE * tuning.components.unit
    if any(np.isclose(c.size(tuning.components.X), most, rtol=0.5) for c in tuning.components.terms):
        yield "the noise is at its lower bound, 0: rows with repeated inputs would determine it"
    if not tuning.converged:
        yield "the search did not converge: more starts, or fewer parameters, may help"

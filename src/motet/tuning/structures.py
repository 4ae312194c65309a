"""The structure of a model, by forward selection: the parts that the rows ask for, and no others.

It begins with a linear average and a level of each task. Slopes of the shifts, smooth parts of the average and of the
shifts, lengths for single columns and rougher functions are tried one after the other, each from where the search
stands. A step is kept if it pays for its parameters in log evidence, and if rows and tasks that are left out, in closed
form, agree by more than a standard error: of what is tied, the simpler stays. In the end whatever later steps made
needless goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np

from motet.arrays import Array, Index
from motet.engine.left_out import LeftOut
from motet.engine.padding import ABSENT
from motet.engine.system import System
from motet.kernels.algebra import innermost, map_leaves
from motet.kernels.classes import RBF, ConstantKernel, DotProduct, Kernel, Linear, Matern, On, Scaled
from motet.model.basis import Features
from motet.model.model import Model
from motet.tables.rows import Rows
from motet.threads import blas_limit
from motet.tuning.components import SIDES, Component, Components, Side
from motet.tuning.defaults import MAX_ARD_COLUMNS, MAX_CORRELATED_COLUMNS, OF_SIDE, Scaling
from motet.tuning.screening import average_gains, largest, shift_scores, smooth_scores
from motet.tuning.search import ROUGH_PRECISION, NoisePrior, Search, Summit, TaskObjective

NATS_PER_PARAMETER = 2.5  # of log evidence that a step must gain
STANDARD_ERRORS = 1.0  # of the gain of what is left out, that it must be above
HARM_ERRORS, HARM_SHARE = 0.5, 0.2  # of its error, and of the other's gain: what rows or tasks alone may not lose
LARGE_GAIN = 10.0  # nats, after which what was refused is tried again; half of it is never given up
MAX_GAIN_OF_ROW = 2.0  # nats: what a row can speak for, so that few that repeat each other do not decide
MAX_SEPARATE_SLOPES = 20  # columns, up to which every slope may have a variance of its own
MIN_SINGLE_COLUMNS = 3  # from which on smooth functions may be of single ones, beside that of all
SCREENED_COLUMNS = 6  # of which the log evidence of a smooth function is compared
MAX_SELECTION_STEPS, MAX_SELECTED_SLOPES = 12, 30
MANY_ROWS_PER_SLOPE = 100  # from which on a linear bias costs next to nothing
VARYING = 1e-3  # of a column's variance that is within tasks, from which on a shift can vary in it
SHARES, LENGTHS = (0.1, 0.4, 0.8), (1.0, 0.3, 0.1, 0.04)  # new parts begin with: of the noise so far; of a deviation
LONG = 10.0  # times the longest, of a column that tells nothing
MIN_SMOOTH_LENGTH, MAX_SMOOTH_LENGTH = 0.03, 3.0  # in deviations: a longer part is a line, which the bias is
LITTLE_NOISE, NOISE_ROWS = 0.01, 4.0  # of the variance within tasks: less noise needs so many rows more to be believed

SCORES = {"average": average_gains, "individual": shift_scores}

Kind: TypeAlias = Literal["given", "level", "slopes", "linear", "smooth"]


@dataclass(frozen=True)
class Part:
    """A part of the average or of the shifts, and the columns that it reads."""

    side: Side
    kind: Kind
    columns: tuple[int, ...] = ()


Parts: TypeAlias = Mapping[Part, Component]


@dataclass(frozen=True)
class Attempt:
    """A step that was tried: its gain in log evidence, and in the log score of rows and tasks that are left out."""

    name: str
    evidence: float
    left_out: float
    standard_error: float
    kept: bool


@dataclass(frozen=True, eq=False)
class Change:
    """From some parts to others. New parts begin at several sizes, or where the old ones are, if they refine them.

    ``choices`` is of how many the new part is the likeliest.
    """

    name: str
    gone: Sequence[Part]
    new: Parts
    refines: bool = False
    choices: int = 1


@dataclass(frozen=True, eq=False)
class Standing:
    """Parts at their best, and the log scores of every row: without itself, and without its ``task``.

    A score is NaN where what is left does not tell the bias.
    """

    parts: Parts
    summit: Summit
    task: Index
    scores: Array  # (2, rows)
    system: System


@dataclass(frozen=True, eq=False)
class Selection:
    """Of the parts of ``auto`` sides beside ``given`` components, on the rows of a search's objective."""

    search: Search[TaskObjective]
    base: Model
    rows: Rows
    scaling: Scaling
    names: Sequence[str]
    unit: float
    given: tuple[Component, ...] = ()
    auto: tuple[Side, ...] = SIDES
    smooth: tuple[Side, ...] = SIDES
    auto_bias: bool = False
    auto_basis: bool = False
    path: list[Attempt] = field(default_factory=list)

    @blas_limit
    def best(self) -> Components:
        """The parts that are chosen; ``path`` then has all that was tried."""
        selection, standing = self.begun()
        return selection.without_needless(selection.grown(standing, selection.changes)).summit.components

    def begun(self) -> tuple[Selection, Standing]:
        """A level of each task, and for the average a linear bias; or slopes with a prior, if what is left out is for
        them: rows are few for the columns, or most columns tell nothing."""
        standing = self.standing(self.first)
        if not self.auto_bias or len(self.rows.y) >= MANY_ROWS_PER_SLOPE * (self.rows.X.shape[1] + 1):
            return self, standing
        selection, is_linear = replace(self, base=replace(self.base, bias="constant")), self.base.bias == "linear"
        steps = selection.with_slopes(selection.standing(self.first) if is_linear else standing)
        if is_linear:  # biases have no evidence in common
            attempt = compared(standing, steps, Change("the slopes so far in place of a linear bias", [], {}))
            is_told_better = attempt.left_out > STANDARD_ERRORS * attempt.standard_error
            self.path.append(replace(attempt, evidence=np.nan, kept=is_told_better))
            if not is_told_better:
                return self, standing
        columns = sorted(c for part in steps.parts if part.side == "average" for c in part.columns)
        if not columns or Part("average", "slopes", self.columns["average"]) in steps.parts:
            return selection, steps
        selection = replace(self, base=replace(self.base, bias=columns))  # slopes that have errors, and no prior
        return selection, selection.standing(self.first)

    def with_slopes(self, standing: Standing) -> Standing:
        """Of the average: one column after the other, then all with one variance, if they pay; or all at once."""
        single = self.grown(standing, lambda now: iter([self._best_slopes("average", now)]), MAX_SELECTED_SLOPES)
        both, alone = (
            self.grown(begin, lambda now: iter([self._all_slopes("average", now)]), 1) for begin in (single, standing)
        )
        return max(
            both, alone, key=lambda one: one.summit.height - NATS_PER_PARAMETER * len(one.summit.components.theta)
        )

    def grown(
        self,
        standing: Standing,
        changes: Callable[[Standing], Iterator[Sequence[Change]]],
        steps: int = MAX_SELECTION_STEPS,
    ) -> Standing:
        """By one step after the other, until none pays."""
        refused: dict[str, Attempt] = {}
        for _ in range(steps):
            for alternatives in changes(standing):
                tried = [(c, self.after(standing, c)) for c in alternatives if c.name not in refused]
                attempts = [(compared(standing, after, change), after) for change, after in tried]
                self.path.extend(attempt for attempt, _ in attempts)
                refused |= {attempt.name: attempt for attempt, _ in attempts if not attempt.kept}
                kept = [(attempt, after) for attempt, after in attempts if attempt.kept]
                if kept:
                    attempt, standing = max(kept, key=lambda one: one[0].left_out)
                    if attempt.evidence > LARGE_GAIN:  # what did not pay beside so much noise may pay now
                        refused = {name: other for name, other in refused.items() if other.evidence <= 0.0}
                    break
                if self.search.is_spent:
                    return standing
            else:
                break
        return standing

    def without_needless(self, standing: Standing) -> Standing:
        """Less what would not be added now, until all that is left would be."""
        has_changed = sum(attempt.kept for attempt in self.path) > 1
        while has_changed:
            has_changed = False
            for part in [part for part in standing.parts if part.kind in ("slopes", "smooth")]:
                if self.search.is_spent:
                    return standing
                rest = self.standing({other: standing.parts[other] for other in standing.parts if other != part})
                again = compared(rest, standing, Change(f"without {self.described(part)}", [part], {}))
                if not again.kept and again.evidence < LARGE_GAIN / 2:
                    self.path.append(replace(again, evidence=-again.evidence, left_out=-again.left_out, kept=True))
                    standing, has_changed = rest, True
        return standing

    # --- a structure at its best ---

    def standing(self, parts: Parts) -> Standing:
        """The parts where a climb from them ends."""
        summit = self.search.climb(self.components(parts), ROUGH_PRECISION)
        objective = self.search.objective
        system = System.of_tasks(summit.components.searched, objective.padded, objective.X, objective.method)
        return Standing(dict(zip(_ordered(parts), summit.components.terms)), summit, *self.scores(system), system)

    def components(self, parts: Parts) -> Components:
        terms = tuple(parts[part] for part in _ordered(parts))  # made here, or of a model
        return Components(self._base(parts), self.search.objective.X, terms, self.unit, is_checked=True)

    def _base(self, parts: Parts) -> Model:
        """With as many basis functions as columns, if slopes are all that the average has beside its bias."""
        is_linear = all(part.kind == "slopes" for part in parts if part.side == "average")
        has_few = is_linear and self.auto_basis and self.base.common is not None
        linear = ConstantKernel(1.0)  # in place of a kernel of which the basis could not be
        return replace(self.base, common=linear, basis=Features()) if has_few else self.base

    def scores(self, system: System) -> tuple[Index, Array]:
        """Of every row the task, and the log scores without itself and without the task."""
        left, sigma2 = LeftOut.of(system, ABSENT), system.evidence.sigma2
        rows = _log_score(left.Py / left.precision, sigma2 / left.precision)
        new = _log_score(left.residual_new, sigma2 * left.variance_new)
        task, place = np.divmod(left.key, len(system.columns.F))
        order = np.lexsort((system.columns.order[place], task))  # a basis that grows orders inputs in its own way
        return task[order], np.stack([rows, new])[:, order]

    def after(self, standing: Standing, change: Change) -> Standing:
        """Where a change leads, from the best of its starts."""
        others = {part: component for part, component in standing.parts.items() if part not in change.gone}
        if change.refines:
            return self.standing({**others, **change.new})
        lengths = {LENGTHS[: _lengths(part)] for part in change.new}.pop()
        starts = [self.started(others, change.new, share, length) for share in SHARES for length in lengths]
        return self.standing(max(starts, key=lambda start: self.search.objective.value(self.components(start))))

    def started(self, others: Parts, new: Parts, share: float, length: float) -> Parts:
        """New parts that take a share of what is noise so far; the ratio of all others to the noise grows."""
        ratio = self.unit * share / (1.0 - share) / len(new)
        larger = {part: component.times(1.0 / (1.0 - share)) for part, component in others.items()}
        return larger | {part: one.started(self.search.objective.X, ratio, length) for part, one in new.items()}

    # --- what may come next ---

    @property
    def first(self) -> Parts:
        """What is given, and a level of each task."""
        parts = {Part(one.side, "given", (k,)): one for k, one in enumerate(self.given)}
        level = Component("individual", ConstantKernel(1.0, "fixed"), self.unit)
        return parts | ({Part("individual", "level"): level} if "individual" in self.auto else {})

    def changes(self, standing: Standing) -> Iterator[Sequence[Change]]:
        """In their order; of alternatives the best is taken."""
        parts = standing.parts
        if "average" in self.auto and self.base.bias != "linear":
            yield from self.average_slopes(standing)
        if "individual" in self.auto:
            yield from self._shift_slopes(standing)
        for side in SIDES:
            if side in self.auto and side in self.smooth:
                yield from self._smooth(side, standing)
        rough = {part: one for part, one in parts.items() if part.kind == "smooth" and _is_rbf(one)}
        if rough:
            changed = {part: replace(one, kernel=map_leaves(_matern, one.kernel)) for part, one in rough.items()}
            yield [Change("Matérn 5/2 in place of RBF", list(rough), changed, refines=True)]

    def average_slopes(self, standing: Standing) -> Iterator[Sequence[Change]]:
        """Slopes in all columns, or in the one that promises most, beside a constant bias."""
        alternatives = self._all_slopes("average", standing) + self._best_slopes("average", standing)
        if alternatives:
            yield alternatives

    def _shift_slopes(self, standing: Standing) -> Iterator[Sequence[Change]]:
        """Slopes in all columns or in one; then a variance for each; then correlated with the level."""
        side: Side = "individual"
        parts, columns, level = standing.parts, self.columns[side], Part(side, "level")
        slopes = [part for part in parts if part.side == side and part.kind == "slopes"]
        if not columns or Part(side, "linear", columns) in parts:
            return
        alternatives = self._all_slopes(side, standing) + self._best_slopes(side, standing)
        if alternatives:
            yield alternatives
        if not slopes:
            return
        variance = {c: parts[part].variance for part in slopes for c in part.columns}
        if slopes == [Part(side, "slopes", columns)] and 1 < len(columns) <= MAX_SEPARATE_SLOPES:
            each = {
                part: replace(one, variance=variance[c])
                for c in columns
                for part, one in self._new(side, "slopes", (c,)).items()
            }
            yield [Change("a variance for each slope", slopes, each, refines=True)]
        if len(columns) <= MAX_CORRELATED_COLUMNS and level in parts:
            covariance = np.diag([parts[level].variance, *(variance.get(c, 0.0) for c in columns)])
            linear = {Part(side, "linear", columns): self._read(side, Linear(covariance.tolist()), columns)}
            yield [Change("slopes that correlate with the level", [level, *slopes], linear, refines=True)]

    def _all_slopes(self, side: Side, standing: Standing) -> list[Change]:
        """With one variance, if there are none; or beside those of single columns of the average."""
        columns, parts = self._sloped(side), standing.parts
        others = [part for part in parts if part.side == side and part.kind == "slopes"]
        if not columns or Part(side, "slopes", columns) in others or (side == "individual" and others):
            return []
        return [Change(f"slopes of {OF_SIDE[side]}", [], self._new(side, "slopes", columns))]

    def _best_slopes(self, side: Side, standing: Standing) -> list[Change]:
        """Of the one column that promises most, unless shifts have slopes in all."""
        columns, parts = self._sloped(side), standing.parts
        others = [c for c in columns if Part(side, "slopes", (c,)) not in parts]
        if len(columns) < 2 or not others or (side == "individual" and Part(side, "slopes", columns) in parts):
            return []
        gains = SCORES[side](standing.system, self._scaled(standing.system.X, others))
        best = others[int(largest(gains, 1)[0])]
        new = self._new(side, "slopes", (best,))
        return [Change(f"slopes of {OF_SIDE[side]} in {self.names[best]}", [], new, choices=len(others))]

    def _sloped(self, side: Side) -> tuple[int, ...]:
        """Columns that may have slopes with a prior: of the average those that have none in the bias."""
        bias = self.base.bias
        return tuple(c for c in self.columns[side] if side == "individual" or isinstance(bias, str) or c not in bias)

    def _scaled(self, X: Array, columns: Sequence[int]) -> Array:
        """Columns without their units."""
        which = list(columns)
        return np.asarray((X[:, which] - self.scaling.center[which]) / self.scaling.scale[which])

    def _smooth(self, side: Side, standing: Standing) -> Iterator[Sequence[Change]]:
        """A smooth function of all columns, or of one at a time, then together; then a length for each column."""
        parts, columns, name = (
            standing.parts,
            self.columns[side],
            "smooth average" if side == "average" else "smooth shifts",
        )
        smooth = [part for part in parts if part.side == side and part.kind == "smooth"]
        single = [part for part in smooth if len(part.columns) == 1]
        joint = [part for part in smooth if len(part.columns) > 1]
        if not columns:
            return
        alternatives = []
        if columns not in [part.columns for part in smooth]:
            alternatives.append(Change(name, smooth, self._new(side, "smooth", columns)))
        others = [c for c in columns if all(c not in part.columns for part in smooth)]
        if len(columns) >= MIN_SINGLE_COLUMNS and others:
            scores = smooth_scores(SCORES[side], standing.system, standing.system.X[:, others])
            some = (Part(side, "smooth", (others[k],)) for k in largest(scores, SCREENED_COLUMNS))
            part = max(some, key=lambda part: self._promise(part, parts))
            new = self._new(side, "smooth", part.columns)
            alternatives.append(Change(f"{name} in {self._named(part)}", [], new, choices=len(others)))
        if alternatives:
            yield alternatives
        together = columns if len(columns) <= MAX_ARD_COLUMNS else tuple(sorted(part.columns[0] for part in single))
        if single and not joint and 1 < len(together) <= MAX_ARD_COLUMNS:
            lengths = {part.columns[0]: float(innermost(parts[part].kernel).length_scale) for part in single}
            kernel = _rbf(len(together), [lengths.get(c, MAX_SMOOTH_LENGTH) for c in together])
            part, variance = Part(side, "smooth", together), sum(parts[part].variance for part in single)
            new = {part: self._read(side, kernel, together, variance)}
            yield [Change(f"{name} in {self._named(part)} together", single, new, refines=True)]
        for part in joint:
            one = parts[part]
            if np.isscalar(innermost(one.kernel).length_scale) and len(part.columns) <= MAX_ARD_COLUMNS:
                each = replace(one, kernel=map_leaves(lambda leaf: _each(leaf, len(part.columns)), one.kernel))  # noqa: B023
                yield [Change(f"{name}, a length for each column", [part], {part: each}, refines=True)]

    def _promise(self, part: Part, parts: Parts) -> float:
        """The log evidence with a part of one size."""
        started = self.started(parts, self._new(part.side, "smooth", part.columns), 0.4, 1.0)
        return self.search.objective.value(self.components(started))

    def _new(self, side: Side, kind: Kind, columns: tuple[int, ...]) -> Parts:
        kernel = _rbf(len(columns)) if kind == "smooth" else DotProduct(0.0, "fixed")
        return {Part(side, kind, columns): self._read(side, kernel, columns)}

    def _read(self, side: Side, kernel: Kernel, columns: tuple[int, ...], variance: float = 1.0) -> Component:
        """A kernel that reads some columns, without their units."""
        center, scale = self.scaling.center[list(columns)], self.scaling.scale[list(columns)]
        scaled = Scaled(kernel, center.tolist(), scale.tolist())
        is_whole = len(columns) == len(self.scaling.scale)
        return Component(side, scaled if is_whole else On(scaled, list(columns)), variance)

    @cached_property
    def columns(self) -> dict[Side, tuple[int, ...]]:
        """Those in which the average, and the shifts, can vary."""
        X, task = self.rows.X, self.rows.task
        mean = np.stack([np.bincount(task, column) for column in X.T], axis=1) / self.rows.sizes[:, None]
        within, total = ((X - mean[task]) ** 2).mean(axis=0), X.var(axis=0)
        differs = (X[0] != X).any(axis=0)  # the variance of one number is that of its rounding
        return {
            "average": tuple(np.flatnonzero(differs).tolist()),
            "individual": tuple(np.flatnonzero(differs & (within > VARYING * total)).tolist()),
        }

    # --- in words ---

    def described(self, part: Part) -> str:
        kind = "smooth" if part.kind == "smooth" else "slopes"
        return f"{kind} of {OF_SIDE[part.side]} in {self._named(part)}"

    def _named(self, part: Part) -> str:
        return (
            "all columns"
            if part.columns == self.columns[part.side]
            else " and ".join(self.names[c] for c in part.columns)
        )


def noise_prior(rows: Rows) -> NoisePrior:
    """Against a noise that a flexible structure leaves nothing of: relative to the variance within tasks."""
    weight = 1.0 / rows.noise
    mean = np.bincount(rows.task, weight * rows.y) / np.bincount(rows.task, weight)
    free = len(rows.y) - len(rows.sizes)
    within = float(weight @ (rows.y - mean[rows.task]) ** 2) / free if free else 0.0
    return NoisePrior(LITTLE_NOISE * (within or float(np.var(rows.y))), NOISE_ROWS)


def compared(before: Standing, after: Standing, change: Change) -> Attempt:
    """Whether the structure after a change pays for its parameters, and for being one of several choices."""
    gain = after.summit.height - before.summit.height
    parameters = len(after.summit.components.theta) - len(before.summit.components.theta)
    price = NATS_PER_PARAMETER * max(parameters, 1) + np.log(change.choices)
    gains = np.minimum(np.nan_to_num(after.scores - before.scores), MAX_GAIN_OF_ROW)
    rows, tasks, both = (np.bincount(before.task, gain) for gain in (*gains, gains.mean(axis=0)))
    agree = not _is_harm(rows, tasks) and not _is_harm(tasks, rows)
    total, error = float(both.sum()), _standard_error(both)
    return Attempt(change.name, gain, total, error, bool(gain > price and total > STANDARD_ERRORS * error and agree))


def _is_harm(ours: Array, other: Array) -> bool:
    """Whether one of the two scores, by task, loses too much for what the other gains."""
    loss = -float(ours.sum())
    return loss > HARM_ERRORS * _standard_error(ours) and loss > HARM_SHARE * float(other.sum())


def _standard_error(by_task: Array) -> float:
    """Of their sum."""
    return float(np.sqrt(len(by_task)) * by_task.std())


def _ordered(parts: Parts) -> list[Part]:
    """The average's, then the shifts', as parameters are."""
    return sorted(parts, key=lambda part: SIDES.index(part.side))


# --- kernels of parts ---


def _rbf(columns: int, lengths: Sequence[float] | None = None) -> RBF:
    """One length for all columns, or one for each: a column that tells nothing may then have a long one."""
    size = float(np.sqrt(columns))
    low, high = MIN_SMOOTH_LENGTH * size, MAX_SMOOTH_LENGTH * size
    return RBF(size, (low, high)) if lengths is None else RBF(lengths, (low, LONG * high))


def _lengths(part: Part) -> int:
    """How many lengths a new part begins with: short ones of a single column alone."""
    return 1 if part.kind != "smooth" else len(LENGTHS) if len(part.columns) == 1 else 2


def _is_rbf(component: Component) -> bool:
    return type(innermost(component.kernel)) is RBF


def _each(leaf: Kernel, columns: int) -> Kernel:
    """With a length for each column."""
    low, high = leaf.length_scale_bounds
    return type(leaf)(
        **leaf.get_params()
        | {
            "length_scale": np.full(columns, float(leaf.length_scale)),
            "length_scale_bounds": (low, LONG * high),
        }
    )


def _matern(leaf: Kernel) -> Kernel:
    """Functions with two derivatives in place of smooth ones."""
    return Matern(leaf.length_scale, leaf.length_scale_bounds, 2.5)


def _log_score(residual: Array, variance: Array) -> Array:
    return np.asarray(-0.5 * (np.log(2 * np.pi * variance) + residual**2 / variance))

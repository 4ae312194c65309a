"""Map-reduce over partitions of whole tasks: each one's sufficient statistics, their sum, and the solution from it.

``information`` is a pure function from a table of whole tasks to its ``Information``, and ``total`` maps it over tables
and adds: whatever has a ``map`` can do the work. ``solve`` makes the release, once. ``whole_tasks`` cuts a stream of
rows into such tables, if rows of a task lie together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from motet.arrays import Array, Index, distinct
from motet.engine.batches import Batch as Stack
from motet.engine.batches import batches
from motet.engine.information import EVIDENCE_SUMS, Information
from motet.engine.system import MAX_MATRIX_ROWS, Evidence, Method, check_offset
from motet.errors import EmptyData, InvalidData, InvalidModel
from motet.kernels.finite_rank import has_few_features
from motet.kernels.nystrom import LANDMARKS
from motet.linalg import LowRankInverse, square
from motet.model.basis import Basis
from motet.model.model import Model
from motet.model.tasks import Shift, blocks, fold, without_inverse
from motet.release.disclosed import Disclosed
from motet.release.estimates import task_coefficients
from motet.release.file import pack, unpack
from motet.release.posterior import Posterior
from motet.tables.arrow import ROWS_READ, Batch, joined
from motet.tables.roles import Roles
from motet.tables.rows import Rows, column_of, numbered
from motet.threads import blas_limit, overlapped

NUMBERS_PER_PARTITION = 2**25  # in the largest of its arrays
MIN_ROWS, MAX_ROWS = 2**14, 2**20  # of a partition


# --- the pure function ---


@dataclass(frozen=True, eq=False)
class Trend:
    """A rough guess of the bias, ``level`` + (x − ``center``)ᵀ``slope``, that is taken from outputs before they are
    squared and summed: so the evidence keeps its digits, whatever the outputs' offset.
    """

    level: float
    center: Array
    slope: Array
    columns: list[int]

    @classmethod
    def of(cls, rows: Rows, model: Model) -> Trend | None:
        """By least squares; None without a bias."""
        if model.bias == "none":
            return None
        no_landmarks = np.empty((0, rows.X.shape[1]))
        columns = Basis(None, no_landmarks, np.empty((0, 0)), model.bias, model.catalogue is not None).slopes
        center, level = rows.X[:, columns].mean(axis=0), float(rows.y.mean())
        slope, *_ = np.linalg.lstsq(rows.X[:, columns] - center, rows.y - level, rcond=1e-8)
        return cls(level, center, slope, columns)

    def __call__(self, X: Array) -> Array:
        return np.asarray(self.level + (X[:, self.columns] - self.center) @ self.slope)

    def weights(self, basis: Basis) -> Array:
        """The same as weights of a basis's columns."""
        level = self.level + (basis.origin[self.columns] - self.center) @ self.slope
        return np.concatenate([np.zeros(basis.rank), [level], self.slope])


@dataclass(frozen=True, eq=False)
class Sums:
    """Which sums to make of a table, and how to read it."""

    model: Model
    roles: Roles
    trend: Trend | None = None


@dataclass(frozen=True, eq=False)
class Part:
    """The tasks of one table, inverted; ``F`` are the columns of a fixed basis at its inputs, None if it grows."""

    rows: Rows
    inputs: Array
    input: Index  # of every row
    stacks: list[Stack]
    F: Array | None


def information(table: Any, sums: Sums) -> Information:
    """The part of one table, whose tasks have no rows elsewhere, in the sums over all tasks."""
    return information_of_rows(Rows.of_table(table, sums.roles), sums)


@blas_limit
def information_of_rows(rows: Rows, sums: Sums) -> Information:
    part = part_of(rows, sums)
    if part.F is None:
        return Information.over_inputs(part.stacks, part.inputs)
    return Information.in_basis(part.stacks, part.F)


@blas_limit
def part_of(rows: Rows, sums: Sums) -> Part:
    """All tasks of a table folded and inverted."""
    model = sums.model
    X = model.rows(rows.X)
    model.check_dimension(X.shape[1])
    first, input = distinct(X)
    inputs = X[first] + 0.0
    folded = fold(rows.task, input, rows.y if sums.trend is None else rows.y - sums.trend(X), rows.noise)
    basis = model.fixed_basis(inputs.shape[1])
    F = None if basis is None else basis.columns(inputs)
    shift = Shift.of(model, model.individual, basis)
    E = None if shift.basis is None or F is None or basis is None else F[:, : basis.rank]
    stacks = list(batches(folded, inputs, shift, E))
    for stack in stacks:
        if not np.isfinite(stack.log_det).all():
            refusal = without_inverse(model.individual)
            refusal.tasks = rows.labels[stack.task[~np.isfinite(stack.log_det)]].tolist()
            raise refusal
    return Part(rows, inputs, input, stacks, F)


# --- the total ---


def total(tables: Iterable[Any], sums: Sums, map: Callable[..., Iterable[Information]] = map) -> Information:
    """The sums over all tables: ``map`` makes each one's, and they are added in a tree."""
    return added(map(partial(information, sums=sums), tables))


def added(parts: Iterable[Information]) -> Information:
    """Their sum, in a tree as they come: each number is rounded log₂ n times, and log₂ n of them are held."""
    waiting: list[tuple[int, Information]] = []
    for part in parts:
        size = 1
        while waiting and waiting[-1][0] == size:
            size, part = 2 * size, waiting.pop()[1] + part
        waiting.append((size, part))
        if part.inputs is not None and len(part.inputs) > MAX_MATRIX_ROWS:
            raise InvalidModel(
                f"more than {MAX_MATRIX_ROWS} different inputs are too many for a growing basis: "
                "give the model basis=Landmarks(…), Eigen(…) or Features()"
            )
    if not waiting:
        raise EmptyData("nothing to learn: expected at least one row")
    result = waiting.pop()[1]
    while waiting:
        result = waiting.pop()[1] + result
    return result


@dataclass(frozen=True, eq=False)
class Solution:
    """The release of all partitions, and their evidence; ``total`` are the sums in the basis, less the trend."""

    release: Disclosed
    evidence: Evidence
    total: Information
    posterior: Posterior  # of outputs less the trend


@blas_limit
def solve(total: Information, sums: Sums, *, method: Method = "REML", dimension: int | None = None) -> Solution:
    """The weights of the average from the sums over all tasks."""
    model = sums.model
    p = total.inputs.shape[1] if total.inputs is not None else dimension or len(sums.roles.inputs)
    basis, redundant = model.fixed_basis(p), np.empty((0, p))
    if basis is None:
        assert total.inputs is not None
        basis, F, order = Basis.grown(model.common, total.inputs, model.bias, model.catalogue is not None)
        redundant = total.inputs[order[basis.rank :]]
        total = replace(total, G=total.G[np.ix_(order, order)], g=total.g[order], inputs=total.inputs[order])
        total = total.into(F, basis.rank)
    posterior = Posterior.of(total.G, total.g, basis.prior, model.common_share)
    theta = posterior.theta
    residual = total.quadratic - 2.0 * float(theta @ total.g) + float(theta @ total.G @ theta)
    evidence = Evidence.of(total, posterior, residual, model.noise, method)
    eta = total.g
    if sums.trend is not None:
        trend = sums.trend.weights(basis)
        eta, theta = eta + total.G @ trend, theta + trend
        if not posterior.factor.identifies_bias:  # then only part of the trend is an estimate
            theta = Posterior.of(total.G, eta, basis.prior, model.common_share).theta
    arrays = (basis.landmarks, redundant, basis.A, total.G, eta, theta)
    release = Disclosed(model, 1, *arrays, sigma2=evidence.sigma2)
    return Solution(release, evidence, total, posterior)


def solve_stream(tables: Iterator[Any], model: Model, roles: Roles) -> tuple[Solution, Rows]:
    """The fit of a stream of tables, which is read once; and some of its rows."""
    first = next(tables, None)
    if first is None:
        raise EmptyData("nothing to learn: expected at least one complete row")
    rows = Rows.of_table(first, roles)
    sums = first_sums(rows, model, roles)
    return solve(total(chain([first], tables), sums, overlapped), sums), rows


def first_sums(rows: Rows, model: Model, roles: Roles) -> Sums:
    """What to sum, by the first rows."""
    basis = model.fixed_basis(rows.X.shape[1])
    if basis is not None and not len(basis.landmarks):
        check_offset(rows.X, basis.slopes)
    return Sums(model, roles, Trend.of(rows, model))


# --- what a release says of a table's tasks ---


def predictions(table: Any, release: Disclosed, roles: Roles) -> Batch:
    """Every row of a table of whole tasks that are in the release, with its task's mean and standard deviation."""
    part, estimates = _own_estimates(table, release, roles)
    rows = part.rows
    place = np.searchsorted(estimates.key, rows.task * len(part.inputs) + part.input)
    columns = {name: column_of(table, name) for name in (roles.task, *roles.inputs)}
    return columns | {"mean": estimates.mean[place], "std": release.std(estimates.variance[place])}


def coefficients(table: Any, release: Disclosed, roles: Roles) -> Batch:
    """aʲ of every task of a table of whole tasks that are in the release: a row for each of its inputs."""
    part, estimates = _own_estimates(table, release, roles)
    task, input = np.divmod(estimates.key, len(part.inputs))
    inputs = dict(zip(roles.inputs, part.inputs[input].T))
    return {
        roles.task: part.rows.labels[task],
        **inputs,
        "noise": estimates.noise,
        "coefficient": estimates.a,
    }


@dataclass(frozen=True, eq=False)
class _Estimates:
    """Of all tasks of a part at their own inputs; ``key`` is task · n + input, ascending."""

    key: Index
    noise: Array
    a: Array
    mean: Array
    variance: Array


@blas_limit
def _own_estimates(table: Any, release: Disclosed, roles: Roles) -> tuple[Part, _Estimates]:
    """With aʲ = Rʲ(yʲ − Fⱼθ̂), at a task's own inputs the mean is yʲ − λw̄aʲ, its variance λw̄ − (λw̄)²(Rʲ − RʲSⱼⱼRʲ)ᵢᵢ.

    What landmarks miss is noise of a long task, so it adds to λw̄; but it is a part of the function, so its variance
    stays. S = FΣFᵀ is taken over all inputs of the part, or by task, whichever is less work.
    """
    part = part_of(Rows.of_table(table, roles), Sums(release.model, roles))
    F = release.basis.columns(part.inputs)
    average, W = F @ release.theta, release.posterior.whitened(F)
    pairs = sum(stack.h.size * stack.h.shape[1] for stack in part.stacks)
    S = square(W) if len(W) ** 2 <= 4 * pairs else None
    columns: list[tuple[Array, ...]] = []
    for stack in part.stacks:
        for some in stack.parts(stack.h.shape[1] * (2 * stack.h.shape[1] + (W.shape[1] if S is None else 0))):
            a = task_coefficients(some.R, some.y, average[some.h])
            if S is None or isinstance(some.R, LowRankInverse):
                RSR = ((some.R @ W[some.h]) ** 2).sum(axis=-1)
            else:
                RSR = np.einsum("mij,mij->mi", some.R @ blocks(S, some.h), some.R)
            noise = own_noise = release.model.noise.variance(some.noise)
            if isinstance(some.R, LowRankInverse):
                diagonal, noise = some.R.diagonal, 1.0 / some.R.D
            else:
                diagonal = np.einsum("mii->mi", some.R)
            variance = noise - noise**2 * (diagonal - RSR) + np.maximum(noise - own_noise, 0.0)
            key = some.task[:, None] * len(part.inputs) + some.h
            columns.append((key, some.noise, a, some.y - noise * a, variance))
    joined_columns = [np.concatenate([column.ravel() for column in same]) for same in zip(*columns)]
    order = np.argsort(joined_columns[0])
    return part, _Estimates(*(column[order] for column in joined_columns))


# --- streams ---


class NotGrouped(InvalidData):
    """A task came back after other tasks: its rows do not lie together."""

    code = "not_grouped"


class Closed:
    """The tasks that are complete, by a number of 64 bits each; two that share one only cost a detour."""

    def __init__(self) -> None:
        self._levels: list[Array] = []  # sorted, each at least twice as long as the next

    def close(self, labels: Any) -> None:
        """Raises if one of them was closed before."""
        keys = np.sort(_keys(labels))
        for level in self._levels:
            place = np.searchsorted(level, keys)
            place[place == len(level)] = 0
            if (again := level[place] == keys).any():
                label = labels.tolist()[np.argsort(_keys(labels), kind="stable")[np.argmax(again)]]
                raise NotGrouped(f"rows of task {label!r} do not lie together: sort the table by its tasks")
        while self._levels and len(self._levels[-1]) < 2 * len(keys):
            keys = np.concatenate([self._levels.pop(), keys])
            keys.sort()
        self._levels.append(keys)


def _keys(labels: Any) -> Array:
    if labels.dtype.kind in "iu":
        return np.asarray(labels, dtype=np.int64)
    return np.fromiter((hash(label) for label in labels.tolist()), dtype=np.int64, count=len(labels))


def whole_tasks(batches: Iterable[Mapping[str, Any]], task: str, rows: int) -> Iterator[Batch]:
    """A stream of rows, those of a task together, as tables of whole tasks of about ``rows`` rows.

    Raises ``NotGrouped`` when a task comes back.
    """
    closed, waiting, size = Closed(), list[Mapping[str, Any]](), 0
    for batch in batches:
        waiting.append(batch)
        size += len(batch[task])
        if size >= rows and (whole := _split(waiting, task)) is not None:
            table, rest = whole
            closed.close(numbered(table[task])[1])
            yield table
            waiting, size = [rest], len(rest[task])
    if size or waiting:
        table = joined(waiting)
        closed.close(numbered(table[task])[1])
        yield table


def _split(waiting: Sequence[Mapping[str, Any]], task: str) -> tuple[Batch, Batch] | None:
    """All but the last task, which may go on; None if there is no other."""
    table = joined(waiting)
    labels = table[task]
    last = np.asarray(labels == labels[-1], dtype=bool)
    if last.all():
        return None
    begin = len(last) - int(np.argmin(last[::-1]))
    if not last[:begin].any():  # as it is if rows of a task lie together: then a cut is a view
        first: Any = slice(None, begin)
        second: Any = slice(begin, None)
    else:
        first, second = ~last, last
    read = {ROWS_READ: table.pop(ROWS_READ)} if ROWS_READ in table else {}
    whole, rest = ({column: values[which] for column, values in table.items()} for which in (first, second))
    return whole | read, rest | dict.fromkeys(read, 0)


def rows_of_partition(model: Model, p: int) -> int:
    """How many rows a partition has, so that its arrays stay small, also if its tasks are long."""
    basis = model.fixed_basis(p)
    width = p + (0 if basis is None else 2 * len(basis.prior))
    if basis is not None and not has_few_features(model.individual, p):
        width += 2 * LANDMARKS
    return int(np.clip(NUMBERS_PER_PARTITION // max(1, width + 16), MIN_ROWS, MAX_ROWS))


# --- as bytes, for engines that carry nothing else ---


def to_bytes(info: Information) -> bytes:
    """As a safetensors file."""
    arrays = {"G": info.G, "g": info.g, "tasks": info.tasks.astype(float)}
    if info.inputs is not None:
        arrays["inputs"] = info.inputs
    return pack({name: getattr(info, name) for name in EVIDENCE_SUMS}, arrays)


def from_bytes(data: bytes) -> Information:
    """What ``to_bytes`` wrote."""
    header, arrays = unpack(data)
    tasks = arrays["tasks"].astype(np.intp)
    numbers = {name: header[name] for name in EVIDENCE_SUMS}
    return Information(arrays["G"], arrays["g"], arrays.get("inputs"), tasks, **numbers)

"""The evidence of tasks in partitions, its gradient and average information: AI-REML by map-reduce.

Each is a sum over partitions of what ``tuning.gradient.slope`` computes at once: an evaluation is a pass over them for
the sums, and one more for their slope. All that tasks need of each other is known after the first, from Λ, η and θ̂;
then every partition's share is a ``SlopeSums``, and these add. With B = K̄(Z, Z)⁻¹K̄(Z, X) and
C = ∂K̄(X, Z) − ½Bᵀ∂K̄(Z, Z) a parameter of K̄ changes the part that the basis has by CB + (CB)ᵀ. A growing basis is one of
landmarks without a residual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy as np

from motet.arrays import Array
from motet.engine.system import Method, without_bias
from motet.errors import MotetError
from motet.kernels.derivatives import derivatives
from motet.model.basis import Features, Landmarks
from motet.release.posterior import Posterior
from motet.scale.partitions import Part, Solution, Sums, first_sums, information_of_rows, part_of, solve
from motet.tables.roles import Roles
from motet.tables.rows import Rows
from motet.threads import blas_limit
from motet.tuning.components import Components
from motet.tuning.gradient import Slope, Tasks, tasks_of
from motet.tuning.search import is_usable


class Passes(Protocol):
    """Partitions of whole tasks, and the sum over them of what a function makes of each."""

    def total(self, function: Callable[..., Any], *shared: Any) -> Any: ...

    def each(self, function: Callable[..., Any]) -> Sequence[Any]: ...


class PartitionObjective:
    """The log evidence of tasks in partitions; ``some`` of the rows tell the inputs' scales."""

    def __init__(self, passes: Passes, roles: Roles, some: Rows, method: Method = "REML") -> None:
        self.method: Method = method
        self._passes, self._roles, self._some = passes, roles, some
        counts = passes.each(_counts)
        self.rows, self.tasks = sum(rows for rows, _, _ in counts), sum(tasks for _, tasks, _ in counts)
        self._largest_output = max(size for _, _, size in counts)

    @property
    def y(self) -> Array:
        return self._some.y

    def value(self, components: Components) -> float:
        solved = self._solved(components)
        return -np.inf if solved is None else solved[0].evidence.log_evidence

    def slope(self, components: Components) -> Slope | None:
        solved = self._solved(components)
        if solved is None:
            return None
        given = Globals.of(*solved, self.method)
        bias_rank = given.solution.posterior.factor.bias_rank if self.method == "REML" else 0
        return slope_of(self._passes.total(slope_sums, given), given, self.rows - bias_rank)

    def _solved(self, components: Components) -> tuple[Solution, Sums] | None:
        """All tasks; None if they cannot be solved, or if nothing but rounding is left of the outputs."""
        model, X = components.searched, self._some.X
        if isinstance(model.basis, Features):  # sums have derivatives through landmarks; some span a linear average
            scale = np.where((std := X.std(axis=0)) > 0, std, 1.0)
            points = X.mean(axis=0) + np.vstack([np.zeros(len(scale)), np.diag(scale)])
            model = replace(model, basis=Landmarks(points))
        try:
            sums = first_sums(self._some, model, self._roles)
            solution = solve(self._passes.total(information_of_rows, sums), sums, method=self.method)
        except (MotetError, np.linalg.LinAlgError):
            return None
        return (solution, sums) if is_usable(solution.evidence, self._largest_output) else None


def _counts(rows: Rows) -> tuple[int, int, float]:
    return len(rows.y), len(rows.labels), float(np.abs(rows.y).max(initial=0.0))


# --- sums for the slope ---


@dataclass(frozen=True, eq=False)
class Globals:
    """What a partition needs of all others: the solution, whitening maps L with FL(FL)ᵀ = FΣFᵀ, and their products."""

    solution: Solution
    sums: Sums
    L: Array
    trace_L: Array  # the same for traces: by ``method`` with the bias integrated out, or known
    K: Array  # (trace_L)ᵀΛA
    residual: Array  # ăᵀF = η − Λθ̂

    @classmethod
    def of(cls, solution: Solution, sums: Sums, method: Method) -> Globals:
        posterior, total, basis = solution.posterior, solution.total, solution.release.basis
        L = trace_L = posterior.whitened(np.eye(len(total.g)))
        if method == "ML":
            alone = Posterior(without_bias(total, posterior.factor), posterior.theta)
            inner = alone.whitened(np.eye(basis.rank))
            trace_L = np.vstack([inner, np.zeros((len(total.g) - basis.rank, inner.shape[1]))])
        K = trace_L.T @ total.G[:, : basis.rank] @ basis.A
        return cls(solution, sums, L, trace_L, K, total.g - total.G @ posterior.theta)


@dataclass(frozen=True, eq=False)
class SlopeSums:
    """By parameter i, with vᵢ the part of ∂Vᵢ Py that a task knows alone: tr(M ∂Vᵢ), vᵢᵀRvₖ, FᵀRvᵢ, Cᵢᵀa and aᵀvᵢ."""

    trace: Array
    within: Array
    features: Array
    moments: Array
    scale: Array

    def __add__(self, other: SlopeSums) -> SlopeSums:
        return SlopeSums(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@blas_limit
def slope_sums(rows: Rows, given: Globals) -> SlopeSums:
    """One partition's share."""
    part = part_of(rows, given.sums)
    F = given.solution.release.basis.columns(part.inputs) if part.F is None else part.F
    model = given.sums.model
    count = (0 if model.common is None else len(model.common.theta)) + len(model.individual.theta)
    out = SlopeSums(
        np.zeros(count),
        np.zeros((count, count)),
        np.zeros((F.shape[1], count)),
        np.zeros((given.K.shape[1], count)),
        np.zeros(count),
    )
    for tasks in _parts(part, F, given):
        v: list[Array] = []
        if model.common is not None:
            v += _common(tasks, part, F, given, out)
        for i, (trace, product) in enumerate(tasks.individual(model.individual, part.inputs), start=len(v)):
            out.trace[i] += model.individual_share * trace
            v.append(model.individual_share * product)
        flat = np.stack(v, axis=-1).reshape(tasks.a.size, count)
        Rv = (tasks.batch.R @ flat.reshape(*tasks.a.shape, count)).reshape(tasks.a.size, count)
        out.within[:] += flat.T @ Rv
        out.features[:] += F[tasks.batch.h].reshape(tasks.a.size, F.shape[1]).T @ Rv
        out.scale[:] += tasks.a.ravel() @ flat
    return out


def _parts(part: Part, F: Array, given: Globals) -> Iterator[Tasks]:
    """All tasks in parts whose temporaries stay small."""
    fitted, W = F @ given.solution.posterior.theta, F @ given.trace_L
    for stack in part.stacks:
        size = stack.h.shape[1]
        for some in stack.parts(size * (3 * F.shape[1] + (0 if stack.is_low_rank else 4 * size))):
            yield tasks_of(some, fitted, W, given.solution.evidence.sigma2)


def _common(tasks: Tasks, part: Part, F: Array, given: Globals, out: SlopeSums) -> list[Array]:
    """Parameters of K̄: through the landmarks, and within tasks their residual."""
    model, basis = given.sums.model, given.solution.release.basis
    share, h, R, X = model.common_share, tasks.batch.h, tasks.batch.R, part.inputs
    BT = F[:, : basis.rank] @ basis.A
    aBT = given.residual[: basis.rank] @ basis.A
    W, sigma2 = F @ given.trace_L, given.solution.evidence.sigma2
    BTh = BT[h]
    MB = R @ BTh - (R @ W[h]) @ given.K - tasks.a[..., None] * (aBT / sigma2)
    used, at = np.unique(h, return_inverse=True)  # each input is evaluated once
    at = at.reshape(h.shape)
    pairs = zip(derivatives(model.common, X[used], basis.landmarks), derivatives(model.common, basis.landmarks))
    changes = tasks.residual_derivatives(model.common, X) if part.F is not None and basis.has_residual else None
    if changes is not None:
        MB -= tasks.residual_rows(BTh)  # within tasks the landmarks' part of K̄ is exchanged for K̄
    v = []
    for i, (D_XZ, D_ZZ) in enumerate(pairs):
        C = (D_XZ - 0.5 * (BT[used] @ D_ZZ))[at]
        trace, own = 2.0 * float(np.vdot(MB, C)), C @ aBT
        if changes is not None:
            more, product = tasks.residual_change(next(changes), D_XZ[at], D_ZZ, BTh)
            trace, own = trace + more, own + product
        out.trace[i] += share * trace
        out.moments[:, i] += np.einsum("mi,mir->r", tasks.a, C)
        v.append(share * own)
    return v


@blas_limit
def slope_of(sums: SlopeSums, given: Globals, free: int) -> Slope:
    """The slope from the sums over all partitions."""
    total, evidence, basis = given.solution.total, given.solution.evidence, given.solution.release.basis
    b = np.zeros(sums.features.shape)  # what all tasks have of ∂Vᵢ Py in common, as weights of the basis
    b[: basis.rank] = given.sums.model.common_share * (basis.A @ sums.moments)
    features = sums.features + total.G @ b
    cross_terms = sums.features.T @ b
    within = sums.within + cross_terms + cross_terms.T + b.T @ total.G @ b
    shared = given.L.T @ features
    information = 0.5 * (within - shared.T @ shared) / evidence.sigma2
    cross = 0.5 * (sums.scale + given.residual @ b) / evidence.sigma2
    information = np.asarray(information - np.outer(cross, cross) / (0.5 * free))
    return Slope(evidence.log_evidence, evidence.sigma2, -0.5 * sums.trace, information, cross, free)

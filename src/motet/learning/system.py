"""All tasks solved together, for one model: the basis, the sums over tasks, the weights of the average, the evidence.

An ``Engine`` solves one whenever examples have changed; a search for settings solves one for each model that it tries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from motet.arrays import Array, Index
from motet.learning.batches import Batch, batches
from motet.learning.evidence import Evidence, Method, residual_quadratic
from motet.learning.information import Information
from motet.model.basis import Basis
from motet.model.model import Model
from motet.model.tasks import FoldedTasks, Shift, without_inverse
from motet.release.disclosed import Disclosed
from motet.release.posterior import Posterior


@dataclass(frozen=True, eq=False)
class Columns:
    """A basis, its columns F at some inputs, and the numbers of those inputs in the order of F's rows."""

    basis: Basis
    F: Array
    order: Index

    @classmethod
    def of(cls, model: Model, fixed: Basis | None, X: Array, used: Index) -> Columns:
        """At the inputs ``X[used]``, in the ``fixed`` basis, or in the one that grows with them."""
        if fixed is not None:
            return cls(fixed, fixed.columns(X[used]), used)
        basis, F, order = Basis.grown(model.common, X[used], model.bias, model.catalogue is not None)
        return cls(basis, F, used[order])

    def features(self, n: int) -> Array:
        """e(x) by the numbers of ``n`` inputs, 0 at those that are not in use."""
        E = np.zeros((n, self.basis.rank))
        E[self.order] = self.F[:, : self.basis.rank]
        return E

    def positions(self, n: int) -> Index:
        """The row of F for each of ``n`` inputs by number, 0 for those that are not in use."""
        position = np.zeros(n, dtype=np.intp)
        position[self.order] = np.arange(len(self.order))
        return position


@dataclass(frozen=True, eq=False)
class System:
    """The solution for one model; ``batches`` have rows of F as their ``h``."""

    model: Model
    columns: Columns
    X: Array  # the inputs in use, in the order of F's rows
    batches: list[Batch]
    information: Information  # over inputs if the basis grows, else in the basis
    total: Information  # in the basis
    posterior: Posterior
    evidence: Evidence
    method: Method = "REML"

    @property
    def free(self) -> int:
        """Rows less the weights of the bias that the evidence integrates out."""
        return self.total.rows - (self.posterior.factor.bias_rank if self.method == "REML" else 0)

    @classmethod
    def solve(
        cls, model: Model, columns: Columns, by_input: Sequence[Batch], X: Array, method: Method = "REML"
    ) -> System:
        """From all tasks' batches, whose ``h`` number the rows of X."""
        basis, F = columns.basis, columns.F
        position = columns.positions(len(X))
        by_row = [replace(batch, h=position[batch.h]) for batch in by_input]
        if basis.spec is None and basis.kernel is not None:
            information = Information.over_inputs(by_row, X[columns.order])
            total = information.into(F, basis.rank)
        else:
            information = total = Information.in_basis(by_row, F)
        posterior = Posterior.of(total.G, total.g, basis.prior, model.common_share)
        residual = residual_quadratic(by_row, F, posterior.theta)
        evidence = Evidence.of(total, posterior, residual, model.lam, model.sigma2, method)
        return cls(model, columns, X[columns.order], by_row, information, total, posterior, evidence, method)

    def disclose(self, version: int) -> Disclosed:
        """The release of these sums."""
        basis, total = self.columns.basis, self.total
        is_growing = basis.spec is None and basis.kernel is not None
        redundant = self.X[basis.rank :] if is_growing else self.X[:0]
        arrays = (basis.landmarks, redundant, basis.A, total.G, total.g, self.posterior.theta)
        return Disclosed(self.model, version, *arrays, sigma2=self.evidence.sigma2)

    @classmethod
    def of_tasks(cls, model: Model, folded: FoldedTasks, X: Array, method: Method = "REML") -> System:
        """From folded tasks on the inputs X, all of them in use and all tasks with the model's own kernel."""
        columns = Columns.of(model, model.fixed_basis(X.shape[1]), X, np.arange(len(X)))
        shift = Shift.of(model, model.individual, None if model.basis is None else columns.basis)
        E = None if shift.basis is None else columns.features(len(X))
        stacks = list(batches(folded, X, shift, E))
        if not all(np.isfinite(batch.log_det).all() for batch in stacks):
            raise without_inverse(model.individual)
        return cls.solve(model, columns, stacks, X, method)

"""The mixed-model equations of all tasks, solved for one model: basis, sums, weights of the average, evidence.

The evidence is the marginal likelihood of the outputs, restricted (REML) or not (ML). An ``Engine`` solves a system
whenever examples have changed; a search for settings solves one for each model that it tries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from motet.arrays import Array, Index
from motet.engine.batches import Batch, batches
from motet.engine.information import Information
from motet.errors import InvalidData, InvalidModel
from motet.model.basis import Basis
from motet.model.model import Model
from motet.model.noise import Noise
from motet.model.tasks import MIN_LOW_RANK_ROWS, FoldedTasks, Shift, without_inverse
from motet.release.disclosed import Disclosed
from motet.release.estimates import task_coefficients
from motet.release.posterior import Factor, Posterior
from motet.threads import blas_limit

MAX_OFFSET = 1e4  # standard deviations from 0, beyond which a linear bias that is not centred loses digits
MAX_MATRIX_ROWS = 20_000  # unique inputs of a growing basis, inputs of a task whose Rʲ is formed
MAX_INVERSE_NUMBERS = 2**30  # of all tasks' Rʲ together, formed or by features: 8 GB

Method: TypeAlias = Literal["REML", "ML"]  # restricted: with the bias integrated out; or at the bias's best weights


@dataclass(frozen=True)
class Evidence:
    """The ``log_evidence`` of the outputs, ``sigma2`` estimated or given, ``quadratic`` the form Q."""

    log_evidence: float
    sigma2: float
    quadratic: float

    @classmethod
    def of(
        cls,
        total: Information,
        posterior: Posterior,
        residual: float,
        noise: Noise,
        method: Method = "REML",
    ) -> Evidence:
        """From the sums over all tasks. ``residual`` is Σ rʲᵀRʲrʲ with rʲ = yʲ − Fⱼθ̂."""
        factor, weights = posterior.factor, posterior.theta[: posterior.factor.rank]
        share, d = factor.share, factor.bias_rank if method == "REML" else 0
        prior = float(weights @ weights) / share if share else 0.0
        of_repeats, log_det_of_repeats = noise.repeats(total.rows - total.folded, total.squares, total.log_noise)
        Q = prior + residual + of_repeats
        free = total.rows - d
        factor = factor if method == "REML" else without_bias(total, factor)
        log_det = factor.log_det - total.log_det - (d * np.log(share) if d else 0.0)
        log_det += log_det_of_repeats
        sigma2 = noise.scale(Q, free)
        if free <= 0 or not sigma2 > 0:  # too few rows, or a fit without any error
            return cls(float("nan") if free <= 0 else float("inf"), sigma2, Q)
        return cls(-0.5 * float(free * np.log(2 * np.pi * sigma2) + log_det + Q / sigma2), sigma2, Q)


def without_bias(total: Information, factor: Factor) -> Factor:
    """The factor of the basis's own columns alone, as if the bias were known."""
    r = factor.rank
    return Factor(total.G[:r, :r], np.ones(r), factor.share)


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
        fitted = F @ posterior.theta  # residuals, rather than products of y, keep digits under an offset in y
        parts = (part for batch in by_row for part in batch.parts(2 * batch.h.shape[1]))
        residuals = ((part.R, part.y - fitted[part.h]) for part in parts)
        residual = sum(float(np.vdot(r, R @ r[:, :, None])) for R, r in residuals)
        evidence = Evidence.of(total, posterior, residual, model.noise, method)
        return cls(model, columns, X[columns.order], by_row, information, total, posterior, evidence, method)

    def coefficients(self, numbers: int = 0) -> Iterator[tuple[Batch, Array]]:
        """All tasks in parts whose temporaries stay small, and their aʲ = Rʲ(yʲ − Fⱼθ̂).

        ``numbers`` is how many each of a task's inputs needs beside its basis functions.
        """
        fitted = self.columns.F @ self.posterior.theta
        for batch in self.batches:
            size = batch.h.shape[1]
            width = 0 if batch.is_low_rank else size
            for part in batch.parts(size * (width + self.columns.F.shape[1] + numbers)):
                yield part, task_coefficients(part.R, part.y, fitted[part.h])

    def disclose(self, version: int) -> Disclosed:
        """The release of these sums."""
        basis, total = self.columns.basis, self.total
        is_growing = basis.spec is None and basis.kernel is not None
        redundant = self.X[basis.rank :] if is_growing else self.X[:0]
        arrays = (basis.landmarks, redundant, basis.A, total.G, total.g, self.posterior.theta)
        return Disclosed(self.model, version, *arrays, sigma2=self.evidence.sigma2)

    @classmethod
    @blas_limit
    def of_tasks(cls, model: Model, folded: FoldedTasks, X: Array, method: Method = "REML") -> System:
        """From folded tasks on the inputs X, all of them in use and all tasks with the model's own kernel."""
        columns = Columns.of(model, model.fixed_basis(X.shape[1]), X, np.arange(len(X)))
        shift = Shift.of(model, model.individual, None if model.basis is None else columns.basis)
        E = None if shift.basis is None else columns.features(len(X))
        stacks = list(batches(folded, X, shift, E))
        if not all(np.isfinite(batch.log_det).all() for batch in stacks):
            raise without_inverse(model.individual)
        return cls.solve(model, columns, stacks, X, method)


# --- what cannot be solved ---


def check_solvable(model: Model, folded: FoldedTasks, X: Array) -> None:
    """Refuses what an engine would refuse: tasks that this model cannot be solved for, on the inputs X."""
    fixed = model.fixed_basis(X.shape[1])
    check_inputs(X, fixed)
    check_memory(folded, X, Shift.of(model, model.individual, fixed))
    System.of_tasks(model, folded, X)


def check_inputs(X: Array, fixed: Basis | None) -> None:
    """Refuses inputs in use that would not fit into memory in a basis that grows, or would cost a bias its digits."""
    if fixed is None and len(X) > MAX_MATRIX_ROWS:
        raise InvalidModel(
            f"{len(X)} unique inputs are too many for a growing basis (at most {MAX_MATRIX_ROWS}): "
            "give the model basis=Landmarks(…), Eigen(…) or Features()"
        )
    if fixed is not None and not len(fixed.landmarks):
        check_offset(X, fixed.slopes)


def check_memory(folded: FoldedTasks, inputs: Array, shift: Shift) -> None:
    """Refuse tasks whose Rʲ would not fit into memory, formed or by features."""
    sizes = np.diff(folded.start)
    numbers, formed = sizes.astype(float) ** 2, np.ones(len(sizes), dtype=bool)
    if sizes.max(initial=0) <= MAX_MATRIX_ROWS and numbers.sum() <= MAX_INVERSE_NUMBERS:
        return
    for k in np.flatnonzero(sizes >= MIN_LOW_RANK_ROWS):
        X = inputs[folded.input[folded.start[k] : folded.start[k + 1]]]
        if (rank := shift.at(X).rank(X)) is not None:
            numbers[k], formed[k] = sizes[k] * rank, False
    if sizes[formed].max(initial=0) > MAX_MATRIX_ROWS or numbers.sum() > MAX_INVERSE_NUMBERS:
        raise InvalidData(
            f"tasks of up to {sizes.max()} inputs, {sizes.sum()} in all, are too long for {shift.kernel!s:.60}: "
            "give a shift of few features (linear, powers, few levels), for which any length will do, "
            "or thin the rows out"
        )


def check_offset(X: Array, slopes: list[int]) -> None:
    """A linear bias is centred on the landmarks; without any, columns far from 0 would cost it its digits."""
    X = X[:, slopes]
    if not X.size:
        return
    far = is_far(X)
    if far.any():
        k = int(np.argmax(far))
        raise InvalidData(
            f"column {slopes[k]} of the inputs is {X[:, k].mean():.3g} ± {X[:, k].std():.3g}: too far from 0 for a "
            "linear bias in this basis; subtract its mean first"
        )


def is_far(X: Array, deviations: float = MAX_OFFSET) -> NDArray[np.bool_]:
    """Of every column, whether it varies more than so many standard deviations from 0."""
    return (np.abs(X.mean(axis=0)) > deviations * X.std(axis=0)) & (X.max(axis=0) > X.min(axis=0))

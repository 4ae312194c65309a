"""The disclosed database, its file, and what a client makes of it.

A ``Disclosed`` holds a model and the sums of all tasks in a basis. From it alone a passive client computes its own
``Estimate`` (Algorithm 7); an active one brings the ``Coefficients`` that the engine gave it (Algorithm 6).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from motet.arrays import Array, as_bytes, frozen, is_whole_number, match, outputs
from motet.errors import InvalidData, InvalidRelease, StaleRelease
from motet.kernels import check_dimension
from motet.model.basis import Basis, Extension
from motet.model.model import Model
from motet.model.tasks import Shift, Task, inverse_covariance
from motet.release.coefficients import Coefficients
from motet.release.file import checksum, pack, unpack
from motet.release.posterior import Factor, Posterior

TENSORS = ("landmarks", "redundant", "A", "Lambda", "eta", "theta")
SETTINGS = ("version", "policy", "sigma2", "noise_scale")


@dataclass(frozen=True, eq=False, repr=False)
class Disclosed:
    """One release: all that anyone needs of the others.

    ``Lambda`` and ``eta`` are the sums in the basis, ``theta`` the average task's weights; basis columns come first
    and bias columns last. ``redundant`` are inputs that the landmarks of a growing basis span already.
    """

    model: Model
    version: int
    landmarks: Array
    redundant: Array
    A: Array
    Lambda: Array
    eta: Array
    theta: Array
    sigma2: float | None
    policy: str = "exact"
    noise_scale: float | None = None

    def __post_init__(self) -> None:
        for name in TENSORS:
            object.__setattr__(self, name, frozen(getattr(self, name)))

    def __repr__(self) -> str:
        kind = "growing" if self.model.basis is None else self.model.basis.kind
        return f"Disclosed(release {self.version}, {kind} basis of rank {len(self.A)}, {self.policy})"

    @property
    def inputs(self) -> Array:
        """x̆: the unique inputs (growing basis, landmarks first) or the basis's landmarks (fixed)."""
        return np.vstack([self.landmarks, self.redundant])

    @cached_property
    def basis(self) -> Basis:
        model = self.model
        return Basis(model.common, self.landmarks, self.A, model.bias, model.catalogue is not None, model.basis)

    @cached_property
    def posterior(self) -> Posterior:
        return Posterior(Factor(self.Lambda, self.basis.prior, self.model.common_share), self.theta)

    @cached_property
    def _spanned(self) -> frozenset[bytes]:
        """The inputs that a growing basis was made of."""
        return frozenset(as_bytes(self.inputs))

    @property
    def H(self) -> Array:
        """B⁻¹. Without a bias, and with K̆ = LDLᵀ, the article's H is D^½ times this times D^½."""
        return self.posterior.factor.solve(np.eye(len(self.eta)))

    @property
    def y(self) -> Array:
        """η. With K̆ = LDLᵀ the article's y̆ is D^-½ times this."""
        return self.eta

    # --- estimates ---

    def average(self, X: Any, return_std: bool = False, observation: bool = False) -> Any:
        """The average task f̄ at some inputs; its standard deviation, or that of an observation of noise 1."""
        X = self._rows(X)
        F = self.basis.columns(X)
        mean = F @ self.theta
        if not return_std:
            return mean
        residual = self.basis.residual(X, F[:, : self.basis.rank])
        return mean, self.std(self.posterior.variance(F) + self.model.common_share * residual, observation)

    def estimate(self, X: Any, y: Any, noise: Any = None, individual: Kernel | None = None) -> Estimate:
        """A passive client's own function, from its private examples (Algorithm 7); nothing leaves this process."""
        X = self._rows(X)
        task = Task.of(X, *outputs(y, noise, len(X)))
        kernel = self.model.individual
        if individual is not None:
            kernel = self.model.adapt(individual)
            check_dimension(kernel, X.shape[1])
        if not self.posterior.factor.identifies_bias:  # the update below needs a finite Σ
            return self.replaced(task, Task.empty(X.shape[1]), kernel)
        extension, F = self._extended(task.X)
        V = task.covariance(self.shift(kernel))
        R = inverse_covariance(V, kernel)
        return Estimate(self, task, kernel, self.posterior.observed(F, V, task.y), extension, F, R)

    def active_estimate(self, coefficients: Coefficients) -> Estimate:
        """An active client's own function, from the coefficients that the engine gave it (Algorithm 6)."""
        if coefficients.release != self.digest:
            raise StaleRelease(f"these coefficients are of another release than {self.version}: fetch both again")
        return self.replaced(coefficients.task, coefficients.released, coefficients.kernel)

    def coefficients(self, task: Task, released: Task | None, kernel: Kernel) -> Coefficients:
        """What an active client gets of its own, if the release has ``released`` of it; see ``replaced``."""
        a = self.replaced(task, released, kernel).a
        return Coefficients(self.digest, task.X, task.y, task.noise, a, kernel, released)

    def replaced(self, task: Task, released: Task | None, kernel: Kernel) -> Estimate:
        """The estimate of a client that is in the release with ``released`` (None: with just what it has now)."""
        if released is None:
            none = self.basis.extended(task.X[:0], np.empty((0, self.basis.rank)))
            R = task.inverse(self.shift(kernel))
            return Estimate(self, task, kernel, self.posterior, none, self.basis.columns(task.X), R)
        extension, _ = self._extended(task.X)
        spare = len(extension.landmarks)
        Lambda, eta, theta = (np.pad(a, (0, spare)) for a in (self.Lambda, self.eta, self.theta))
        gradient = np.zeros(len(theta))
        for part, sign in ((released, -1.0), (task, 1.0)):
            F = _columns(self.basis, extension, part.X)
            R = part.inverse(self.shift(kernel))
            Lambda += sign * (F.T @ R @ F)
            eta += sign * (F.T @ (R @ part.y))
            gradient += sign * (F.T @ (R @ (part.y - F @ theta)))
        prior = np.pad(self.basis.prior, (0, spare), constant_values=1.0)
        posterior = Posterior.of(Lambda, eta, prior, self.model.common_share)
        factor = posterior.factor
        if factor.identifies_bias:  # a step from the release's weights keeps more digits
            posterior = Posterior(factor, theta + factor.share * factor.solve(gradient[:, None])[:, 0])
        return Estimate(self, task, kernel, posterior, extension, F, R)

    def _rows(self, X: Any) -> Array:
        return self.model.rows(X, self.landmarks.shape[1])

    def _extended(self, X: Array) -> tuple[Extension, Array]:
        """What a growing basis lacks for these inputs, and all columns there."""
        F = self.basis.columns(X)
        E = F[:, : self.basis.rank]
        lacking = (
            [k for k, row in enumerate(as_bytes(X)) if row not in self._spanned] if self.model.basis is None else []
        )
        extension = self.basis.extended(X[lacking], E[lacking])
        return extension, np.hstack([F, extension.e(X, E)])

    def shift(self, kernel: Kernel) -> Shift:
        """What a client has of its own: in a private release also what the basis misses."""
        return Shift.of(self.model, kernel, self.basis if self.policy == "private" else None)

    def std(self, variance: Array, observation: bool = False) -> Array:
        """Standard deviations from variances in units of σ²; those of an observation have λ more."""
        if self.sigma2 is None or math.isnan(self.sigma2):
            raise InvalidData("too few examples to estimate σ²: learn more, or give the model a sigma2")
        return np.sqrt(self.sigma2 * (np.maximum(variance, 0.0) + observation * self.model.lam))

    # --- the file ---

    @property
    def _header(self) -> dict[str, Any]:
        known = self.sigma2 is not None and math.isfinite(self.sigma2)
        return {
            "version": self.version,
            "policy": self.policy,
            "sigma2": self.sigma2 if known else None,
            "noise_scale": self.noise_scale,
            "catalogue": None if self.model.catalogue is None else self.model.catalogue.digest,
            "model": self.model.to_spec(),
        }

    @property
    def _tensors(self) -> dict[str, Array]:
        return {name: getattr(self, name) for name in TENSORS}

    @cached_property
    def digest(self) -> str:
        """Tells releases apart: the checksum of all that is in this one."""
        return checksum(self._header, self._tensors)

    def to_bytes(self) -> bytes:
        """A safetensors file: the arrays, and a JSON header with all the rest."""
        return pack(self._header, self._tensors)

    @classmethod
    def from_bytes(cls, data: bytes) -> Disclosed:
        header, tensors = unpack(data)
        if set(tensors) != set(TENSORS) or not {"model", "catalogue", *SETTINGS} <= set(header):
            raise InvalidRelease(f"not a disclosed database: expected the arrays {', '.join(TENSORS)} and a header")
        model = Model.from_spec(header["model"])
        if header["catalogue"] != (None if model.catalogue is None else model.catalogue.digest):
            raise InvalidRelease("the release is about another catalogue than the one it carries")
        arrays: dict[str, Any] = tensors
        return cls(model=model, **arrays, **{name: header[name] for name in SETTINGS})._checked()

    def _checked(self) -> Disclosed:
        """Raises unless arrays and settings are those of some release of this model."""
        _expect(
            isinstance(self.version, int) and self.version >= 0, f"a version that is a number, got {self.version!r}"
        )
        _expect(self.policy in ("exact", "private"), f"a policy exact or private, got {self.policy!r}")
        for name in ("sigma2", "noise_scale"):
            value = getattr(self, name)
            _expect(value is None or (isinstance(value, float) and value >= 0), f"{name} as a number, got {value!r}")
        _expect(self.landmarks.ndim == self.redundant.ndim == self.A.ndim == 2, "tables of landmarks and features")
        p = self.landmarks.shape[1]
        self.model.check_dimension(p)
        k = len(self.basis.prior)
        _expect(self.A.shape[1] == self.basis.width, "features that fit the landmarks")
        _expect(self.redundant.shape[1] == p, "inputs of one dimension")
        _expect(not len(self.A) or self.A.shape[1] > 0, "landmarks")
        _expect(self.Lambda.shape == (k, k) and self.eta.shape == self.theta.shape == (k,), "sums that fit the basis")
        _expect(np.allclose(self.Lambda, self.Lambda.T, rtol=1e-9), "a symmetric Λ")
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        Path(path).write_bytes(self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Disclosed:
        return cls.from_bytes(Path(path).read_bytes())


def _expect(holds: bool, what: str) -> None:
    if not holds:
        raise InvalidRelease(f"not a disclosed database: expected {what}")


def _columns(basis: Basis, extension: Extension, X: Array) -> Array:
    F = basis.columns(X)
    return np.hstack([F, extension.e(X, F[:, : basis.rank])])


class Estimate:
    """One client's function: f̂(x) = φ(x)ᵀθ̂ + (1−α) k̃(x, h) a, with its uncertainty."""

    def __init__(
        self,
        release: Disclosed,
        task: Task,
        kernel: Kernel,
        posterior: Posterior,
        extension: Extension,
        F: Array,
        R: Array,
    ) -> None:
        self.release = release
        self.task = task
        self.kernel = kernel
        self._posterior = posterior
        self._extension = extension
        self._F, self._R = F, R
        self.a: Array = R @ (task.y - F @ posterior.theta)

    def __repr__(self) -> str:
        return f"Estimate({len(self.task.y)} own inputs, release {self.release.version})"

    def predict(self, X: Any, return_std: bool = False, observation: bool = False) -> Any:
        """The function at some inputs; its standard deviation, or that of an observation of noise 1."""
        X = self.release._rows(X)
        F = _columns(self.release.basis, self._extension, X)
        k = self.release.shift(self.kernel).gram(X, self.task.X)
        mean = F @ self._posterior.theta + k @ self.a
        if not return_std:
            return mean
        variance = self._posterior.variance(F - k @ self._R @ self._F) + self._unshared(X, F, k)
        return mean, self.release.std(variance, observation)

    def _unshared(self, X: Array, F: Array, k: Array) -> Array:
        """The variance of the shift given the average, and of what the basis does not see."""
        model, basis = self.release.model, self.release.basis
        shift = self.release.shift(self.kernel)
        variance = np.maximum(shift.diag(X) - np.einsum("ij,jk,ik->i", k, self._R, k, optimize=True), 0.0)
        if shift.basis is not None:  # the shift has all that the basis misses
            return variance
        E = np.delete(F, np.flatnonzero(basis.prior == 0), axis=1)
        return variance + model.common_share * basis.residual(X, E)

    def top(self, k: int, exclude: Iterable[Any] | None = None, among: Any = None) -> Any:
        """The ``k`` best inputs, best first: names where there is a catalogue, else rows.

        ``among`` are the candidates; without it, the whole catalogue or the release's inputs.
        """
        catalogue = self.release.model.catalogue
        if among is None:
            among = self.release.inputs if catalogue is None else catalogue.rows
        rows = self.release._rows(among)
        if not is_whole_number(k) or k < 0:
            raise InvalidData(f"the number of best inputs must be a whole number from 0, got {k!r}")
        left_out = [] if exclude is None else [exclude] if isinstance(exclude, str) else list(exclude)
        if left_out:
            known: dict[bytes, int] = {}
            match(self.release._rows(left_out), known)
            rows = rows[match(rows, known.copy())[0] >= len(known)]
        best = rows[np.argsort(-self.predict(rows), kind="stable")[:k]]
        return best if catalogue is None else catalogue.name_rows(best)

"""A release: the disclosed database, which is the average's posterior, and one client's estimate (BLUP) from it.

A ``Disclosed`` holds a model and the sums of all tasks in a basis. From it alone a passive client computes its own
``Estimate`` (Algorithm 7); an active one brings the ``Coefficients`` that the engine gave it (Algorithm 6).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from motet.arrays import MAX_COLUMNS, MAX_MAGNITUDE, Array, as_bytes, frozen, is_finite, is_whole_number, match, outputs
from motet.errors import InvalidData, InvalidRelease, NotFinite, StaleRelease
from motet.kernels.classes import check_dimension
from motet.model.basis import Basis
from motet.model.model import Model
from motet.model.tasks import Inverse, Shift, Task
from motet.release.coefficients import Coefficients
from motet.release.estimates import kernel_mean, task_coefficients, task_variance
from motet.release.file import MAX_RELEASE_BYTES, checksum, pack, unpack
from motet.release.names import Names
from motet.release.posterior import Factor, Posterior
from motet.tables.files import file_bytes
from motet.tables.roles import Layout
from motet.threads import blas_limit

TENSORS = ("landmarks", "redundant", "A", "Lambda", "eta", "theta")
MAX_VERSION = 2**53  # which every reader of JSON has exactly
SETTINGS = ("version", "policy", "sigma2", "noise_scale")
RESIDUAL_KEY, IN_TASKS = "missed", "in tasks"  # whose a basis's residual is; files keep the key that they began with


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
    residual_in_tasks: bool = True  # whether each task has a fixed basis's as its own, as all have since 0.1.0
    names: Names | None = None  # of its columns, as a study or a table has them

    def __post_init__(self) -> None:
        for name in TENSORS:
            object.__setattr__(self, name, frozen(getattr(self, name)))

    def __repr__(self) -> str:
        kind = "growing" if self.model.basis is None else self.model.basis.kind
        of = "" if self.names is None else f" of {self.names.text}"
        return f"Disclosed(release {self.version}{of}, {kind} basis of rank {len(self.A)}, {self.policy})"

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
    @blas_limit
    def H(self) -> Array:
        """B⁻¹. Without a bias, and with K̆ = LDLᵀ, the article's H is D^½ times this times D^½."""
        return self.posterior.factor.solve(np.eye(len(self.eta)))

    @property
    def y(self) -> Array:
        """η. With K̆ = LDLᵀ the article's y̆ is D^-½ times this."""
        return self.eta

    # --- estimates ---

    @blas_limit
    def average(self, X: Any, return_std: bool = False, observation: bool = False) -> Any:
        """The average task f̄ at some inputs; its standard deviation, or that of an observation of noise 1."""
        X = self.rows(X)
        if not return_std:
            return self.basis.average(X, self.theta)
        F = self.basis.columns(X)
        return F @ self.theta, self.std(self.posterior.variance(F) + self.residual_variance(X, F), observation)

    def estimate(self, X: Any, y: Any, noise: Any = None, individual: Kernel | None = None) -> Estimate:
        """A passive client's own function, from its private examples (Algorithm 7); nothing leaves this process."""
        X = self.rows(X)
        task = Task.of(X, *outputs(y, noise, len(X)))
        kernel = self.model.individual
        if individual is not None:
            kernel = self.model.adapt(individual)
            check_dimension(kernel, X.shape[1])
        return Estimate(self, task, kernel, Task.empty(X.shape[1]))

    def active_estimate(self, coefficients: Coefficients) -> Estimate:
        """An active client's own function, from the coefficients that the engine gave it (Algorithm 6)."""
        if coefficients.release != self.digest:
            raise StaleRelease(f"these coefficients are of another release than {self.version}: fetch both again")
        return Estimate(self, coefficients.task, coefficients.kernel, coefficients.released, coefficients.a)

    def coefficients(self, task: Task, released: Task | None, kernel: Kernel) -> Coefficients:
        """An active client's own; ``released`` are its examples in the release, None if they are these."""
        a = Estimate(self, task, kernel, released).a
        if not is_finite(a).all():
            raise NotFinite("the coefficients of these examples are not finite: inputs or outputs are too large")
        return Coefficients(self.digest, task.X, task.y, task.noise, a, kernel, released)

    @property
    def dimension(self) -> int:
        """Columns of an input."""
        return int(self.landmarks.shape[1])

    @property
    def layout(self) -> Layout:
        """Of tables with the columns that it names; else the usual ones."""
        layout = self.model.layout(self.dimension)
        if (names := self.names) is None:
            return layout
        about = {"client": names.client, "target": names.target, "name": names.item, "unit": names.unit}
        return replace(layout, **about, units=names.inputs)  # type: ignore[arg-type]

    def rows(self, X: Any) -> Array:
        """Inputs as rows of as many numbers as the release's have; names are looked up."""
        return self.model.rows(X, self.dimension)

    def shift(self, kernel: Kernel) -> Shift:
        """A task's own part, as the sums have it: with the residual of a fixed basis."""
        return Shift.of(self.model, kernel, self.basis if self._has_residual_in_tasks else None)

    def client_shift(self, kernel: Kernel) -> Shift:
        """A client's own part: with the residual of a growing basis at inputs that nobody else has."""
        if self.model.basis is not None:
            return self.shift(kernel)
        return Shift.of(self.model, kernel, self.basis, self._spanned)

    @property
    def _has_residual_in_tasks(self) -> bool:
        has_residual = self.model.basis is not None and self.model.basis.has_residual
        return has_residual and (self.policy == "private" or self.residual_in_tasks)

    def residual_variance(self, X: Array, F: Array) -> Array:
        """α(K̄(x, x) − e(x)ᵀe(x)); F are the columns at X."""
        return np.asarray(self.model.common_share * self.basis.residual(X, F[:, : self.basis.rank]))

    def std(self, variance: Array, observation: bool = False) -> Array:
        """Standard deviations from variances in units of σ²; those of an observation have its noise's more."""
        if self.sigma2 is None or math.isnan(self.sigma2):
            raise InvalidData("too few examples to estimate σ²: learn more, or give the model a sigma2")
        return np.sqrt(self.sigma2 * (np.maximum(variance, 0.0) + observation * self.model.noise.observation(1.0)))

    # --- the file ---

    @property
    def _scales(self) -> dict[str, float | None]:
        """σ² and the noise's, as they are written: a σ² that too few examples leave open is null."""
        is_open = isinstance(self.sigma2, float) and not math.isfinite(self.sigma2)
        return {"sigma2": None if is_open else self.sigma2, "noise_scale": self.noise_scale}

    @property
    def _header(self) -> dict[str, Any]:
        # Files of private releases, and of a basis without a residual, are as they always were.
        in_tasks = self._has_residual_in_tasks and self.policy == "exact"
        return {
            **({RESIDUAL_KEY: IN_TASKS} if in_tasks else {}),
            **({} if self.names is None else {"names": self.names.to_spec()}),
            "version": self.version,
            "policy": self.policy,
            **self._scales,
            "catalogue": None if self.model.catalogue is None else self.model.catalogue.digest,
            "model": self.model.to_spec(),
        }

    @property
    def _tensors(self) -> dict[str, Array]:
        return {name: getattr(self, name) for name in TENSORS}

    @cached_property
    def digest(self) -> str:
        """The checksum of all that is in this release, by which releases are told apart."""
        return checksum(self._header, self._tensors)

    def to_bytes(self) -> bytes:
        """A safetensors file: the arrays, and a JSON header with all the rest."""
        return pack(self._header, self._tensors)

    @classmethod
    def from_bytes(cls, data: bytes) -> Disclosed:
        header, tensors = unpack(data)
        if set(tensors) != set(TENSORS) or not {"model", "catalogue", *SETTINGS} <= set(header):
            raise InvalidRelease(f"not a release: expected the arrays {', '.join(TENSORS)} and a header")
        model = Model.from_spec(header["model"])
        if header["catalogue"] != (None if model.catalogue is None else model.catalogue.digest):
            raise InvalidRelease("not a release: its catalogue does not match its header")
        arrays: dict[str, Any] = tensors
        settings = {name: header[name] for name in SETTINGS}
        names = Names.from_spec(header["names"]) if "names" in header else None
        in_tasks = header.get(RESIDUAL_KEY) == IN_TASKS
        release = cls(model=model, **arrays, **settings, residual_in_tasks=in_tasks, names=names)
        release.check()
        return release

    def check(self) -> None:
        """Raises unless arrays and settings are those of some release of this model."""
        version = self.version
        is_version = is_whole_number(version) and 0 <= version <= MAX_VERSION
        _expect(is_version, f"a version from 0 to {MAX_VERSION}, got {_shown(version)}")
        _expect(self.policy in ("exact", "private"), f"a policy exact or private, got {self.policy!r:.60}")
        for name, value in self._scales.items():
            is_number = isinstance(value, float) and 0 <= value < MAX_MAGNITUDE
            _expect(value is None or is_number, f"{name} as a number, got {_shown(value)}")
        _expect(self.landmarks.ndim == self.redundant.ndim == self.A.ndim == 2, "tables of landmarks and features")
        p = self.dimension
        _expect(1 <= p <= MAX_COLUMNS, f"inputs of 1 to {MAX_COLUMNS:,} columns, got {p:,}")
        self.model.check_dimension(p)
        k = len(self.basis.prior)
        _expect(self.A.shape[1] == self.basis.width, "features that fit the landmarks")
        _expect(self.redundant.shape[1] == p, "inputs of one dimension")
        _expect(not len(self.A) or self.A.shape[1] > 0, "landmarks")
        _expect(self.Lambda.shape == (k, k) and self.eta.shape == self.theta.shape == (k,), "sums that fit the basis")
        _expect(np.allclose(self.Lambda, self.Lambda.T, rtol=1e-9), "a symmetric Λ")

    def save(self, path: str | os.PathLike[str]) -> None:
        Path(path).write_bytes(self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Disclosed:
        return cls.from_bytes(file_bytes(Path(path), MAX_RELEASE_BYTES))


def _shown(value: Any) -> str:
    """A value from a header; a whole number of many digits cannot even be written."""
    return "a very large number" if isinstance(value, int) and abs(value) > MAX_VERSION else f"{value!r:.60}"


def _expect(holds: bool, what: str) -> None:
    if not holds:
        raise InvalidRelease(f"not a release: expected {what}")


class Estimate:
    """One client's function: f̂(x) = φ(x)ᵀθ̂ + (1−α) k̃(x, h) a, with its uncertainty.

    ``released`` are the client's examples in the release, None if they are those of ``task``. Without ``a`` (a passive
    client, Algorithm 7) everything is computed when the estimate is made. With it (an active one, Algorithm 6) a mean
    needs no more than θ̂: the release's if nothing changed, one solve if the release has nothing of the client. Σ and R
    are computed for the first standard deviation, or for the first mean if released examples have changed.
    """

    @blas_limit
    def __init__(
        self, release: Disclosed, task: Task, kernel: Kernel, released: Task | None, a: Array | None = None
    ) -> None:
        self.release = release
        self.task = task
        self.kernel = kernel
        self._released = released
        self._shift = release.shift(kernel) if released is None else release.client_shift(kernel)
        if a is None:
            R = self._R  # first, because it refuses a kernel that is not positive definite
            self._theta = self._posterior.theta
            a = task_coefficients(R, task.y, self._F @ self._theta)
        self.a: Array = a

    def __repr__(self) -> str:
        return f"Estimate({len(self.task.y)} own inputs, release {self.release.version})"

    @cached_property
    def _F(self) -> Array:
        return self.release.basis.columns(self.task.X)

    @cached_property
    def _R(self) -> Inverse:
        return self.task.inverse(self._shift)

    @property
    def _adds(self) -> bool:
        """Whether the release has nothing of the client, and a finite Σ: its examples are just added."""
        nothing_released = self._released is not None and not len(self._released.y)
        return nothing_released and self.release.posterior.factor.identifies_bias

    @cached_property
    def _theta(self) -> Array:
        """θ̂, from the coefficients a if possible."""
        if self._released is None:
            return self.release.theta
        if self._adds:
            return self.release.theta + self.release.posterior.factor.sigma(self._F.T @ self.a)
        return self._posterior.theta

    @cached_property
    def _posterior(self) -> Posterior:
        """The weights, given this client's examples in place of its released ones."""
        release, task = self.release, self.task
        if self._released is None:
            return release.posterior
        if self._adds:
            columns = np.column_stack([self._F, task.y])
            covariance, columns = self._shift.observation(task.X, task.noise, columns)
            return release.posterior.observed(columns[:, :-1], covariance, columns[:, -1])
        Lambda, eta, gradient = release.Lambda.copy(), release.eta.copy(), np.zeros(len(release.eta))
        parts = (self._released, -1.0, self._released.inverse(self._shift)), (task, 1.0, self._R)
        for part, sign, R in parts:
            F = release.basis.columns(part.X)
            Lambda_part, eta_part = part.information(F, R)
            Lambda += sign * Lambda_part
            eta += sign * eta_part
            gradient += sign * (F.T @ (R @ (part.y - F @ release.theta)))
        posterior = Posterior.of(Lambda, eta, release.basis.prior, release.model.common_share)
        if not posterior.factor.identifies_bias:
            return posterior
        # A step from the release's weights keeps more digits than the solution from the sums.
        return Posterior(posterior.factor, release.theta + posterior.factor.sigma(gradient))

    @blas_limit
    def predict(self, X: Any, return_std: bool = False, observation: bool = False) -> Any:
        """The function at some inputs; its standard deviation, or that of an observation of noise 1."""
        X = self.release.rows(X)
        F = self.release.basis.columns(X)
        shift, own, rank = self._shift.at(self.task.X), self.task.X, self.release.basis.rank
        if shift.rank(own) is not None:
            k, a = shift.features(X, own), shift.features(own).T @ self.a
        else:
            D = None if shift.basis is None else self._F[:, :rank]
            k, a = shift.gram(X, own, E=F[:, :rank], D=D), self.a
        mean = kernel_mean(F @ self._theta, k, a)
        if not return_std:
            return mean
        unshared = shift.variance(X, self.release.residual_variance(X, F))
        variance = task_variance(self._posterior.variance, F, self._F, k, self._R, unshared)
        return mean, self.release.std(variance, observation)

    def top(self, k: int, exclude: Iterable[Any] | None = None, among: Any = None) -> Any:
        """The ``k`` best inputs, best first: names if there is a catalogue, else rows.

        ``among`` are the candidates; without it, the whole catalogue or the release's inputs.
        """
        catalogue = self.release.model.catalogue
        if among is None:
            among = self.release.inputs if catalogue is None else catalogue.rows
        rows = self.release.rows(among)
        if not is_whole_number(k) or k < 0:
            raise InvalidData(f"the number of best inputs must be a whole number from 0, got {k!r}")
        excluded = [] if exclude is None else [exclude] if isinstance(exclude, str) else list(exclude)
        if excluded:
            numbers: dict[bytes, int] = {}
            match(self.release.rows(excluded), numbers)
            rows = rows[match(rows, numbers.copy())[0] >= len(numbers)]
        best = rows[np.argsort(-self.predict(rows), kind="stable")[:k]]
        return best if catalogue is None else catalogue.name_rows(best)

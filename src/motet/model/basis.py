"""Bases of the average task: features e(x) with eᵀe = K̄, exactly or by inducing points (Nyström), and the bias.

A ``BasisSpec`` (``Landmarks``, ``Eigen``, ``Nystrom``, ``Features``, or one of your own) states which basis a model
wants; None means that it grows with the inputs. ``Basis`` is the basis built: φ(x) = (e(x), ψ(x)), ready to evaluate.

To add a kind, write a frozen dataclass that derives from ``BasisSpec``, and decorate it with ``register_basis``. A
study file may choose it if ``motet.study.schema.BasisSection`` has a key for each of its settings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from motet.arrays import Array, Index, distinct, evenly_spaced, is_finite, is_whole_number, numbers
from motet.errors import EmptyData, InvalidModel, NotFinite, WrongDimension
from motet.kernels.algebra import is_diagonal
from motet.kernels.classes import affine
from motet.kernels.gram import gram, linear_factor
from motet.linalg import eigen, indefinite, inverse_of_lower, pivoted_cholesky
from motet.tables.catalogue import Catalogue

Bias: TypeAlias = Literal["none", "constant", "linear"] | Sequence[int]  # or a constant and slopes in these columns

NYSTROM_POINTS, POINTS_PER_VECTOR = 600, 4  # of which eigenvectors are found; more if many of these are wanted


# --- which basis ---


@dataclass(frozen=True, eq=False)
class BasisSpec(ABC):
    """A fixed basis: e(x) = A·u(x), where u are functions of x and of landmarks; those and A are what is published.

    A kind is a frozen dataclass; its fields are its settings, in a model's JSON and in a study file. They may come from
    a stranger, so ``__post_init__`` checks them. eᵀe never exceeds K̄: what is left, K̄(x, x′) − e(x)ᵀe(x′), must be a
    kernel, because predictions and private releases add it to each client's own part.
    """

    kind: ClassVar[str]  # its name in JSON
    has_residual: ClassVar[bool] = True  # whether K̄ − eᵀe may be more than 0 anywhere

    def __post_init__(self) -> None:
        if "points" not in self.settings():
            return
        given: Any = self.public_points
        points = numbers(given.rows if isinstance(given, Catalogue) else given, "points") + 0.0
        if points.ndim != 2 or not len(points):
            error = WrongDimension if points.ndim != 2 else EmptyData
            raise error(f"points of a basis must be a table, one row each, got an array of shape {points.shape}")
        if not is_finite(points).all():
            raise NotFinite("points of a basis must be finite")
        points.flags.writeable = False
        object.__setattr__(self, "points", points)

    @property
    def public_points(self) -> Array | None:
        """Public inputs that it is made of: its setting ``points``, a table of numbers, if it has one."""
        return getattr(self, "points", None)

    @abstractmethod
    def build(self, kernel: Kernel, p: int) -> tuple[Array, Array]:
        """The landmarks, of shape (n, p), and A, with a row for each feature and a column for each function u.

        Landmarks are inputs: releases show them as such, and a linear bias is counted from their mean. A basis that has
        none returns an empty table, and keeps what else its functions need in its settings.
        """

    def functions(self, kernel: Kernel, landmarks: Array, X: Array) -> Array:
        """u(x) for every row of X; by default the kernel's values k̄(Z, x) at the landmarks Z, also of a stack."""
        return gram(kernel, X, np.broadcast_to(landmarks, (*X.shape[:-2], *landmarks.shape)))

    def check(self, kernel: Kernel, p: int) -> None:  # noqa: B027
        """Raises if no such basis of this kernel can be built on inputs of ``p`` columns; must be quick.

        By default every kernel will do; a kind that reads a kernel's parameters says here which kernels have them.
        """

    def at_most(self, n: int) -> BasisSpec:
        """The same on ``n`` of its points at most, to try a large one quickly."""
        del n
        return self

    @classmethod
    def settings(cls) -> list[str]:
        """The names of what a basis of this kind is made of."""
        return [field.name for field in fields(cls)]

    def to_spec(self) -> dict[str, Any]:
        """Plain data, which ``basis_from_spec`` reads."""
        values = ((name, getattr(self, name)) for name in self.settings())
        plain = {name: value.tolist() if hasattr(value, "tolist") else value for name, value in values}
        return {"kind": self.kind} | plain


BASES: dict[str, type[BasisSpec]] = {}
Kind = TypeVar("Kind", bound=type[BasisSpec])


def register_basis(cls: Kind) -> Kind:
    """Let models, releases and study files have bases of this class, under its ``kind``."""
    if cls.kind in BASES or cls.kind == "growing":
        raise InvalidModel(f"there is a basis {cls.kind!r} already; choose another kind")
    BASES[cls.kind] = cls
    return cls


@register_basis
@dataclass(frozen=True, eq=False, repr=False)
class Landmarks(BasisSpec):
    """Inducing points: the functions k̄(z, ·) of a fixed, public set of points, such as a time grid or a design."""

    points: Any
    kind: ClassVar[str] = "landmarks"

    def __repr__(self) -> str:
        return f"Landmarks({len(self.points)} points)"

    def build(self, kernel: Kernel, p: int) -> tuple[Array, Array]:  # noqa: ARG002
        """Landmarks in pivot order, and A = C⁻¹ with CCᵀ = K̄(Z, Z)."""
        E, order = pivoted_cholesky(gram(kernel, self.points), kernel)
        r = E.shape[1]
        return self.points[order[:r]], inverse_of_lower(E[:r])

    def at_most(self, n: int) -> Landmarks:
        return Landmarks(self.points[:n])


@register_basis
@dataclass(frozen=True, eq=False, repr=False)
class Eigen(BasisSpec):
    """The leading ``rank`` eigenvectors of K̄ over a public catalogue or set of points."""

    points: Any
    rank: int
    kind: ClassVar[str] = "eigen"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_whole_number(self.rank) or not 1 <= self.rank <= len(self.points):
            name = type(self).__name__
            raise InvalidModel(f"{name} needs a rank from 1 to {len(self.points)}, its points, got {self.rank!r}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.points)} points, rank={self.rank})"

    def build(self, kernel: Kernel, p: int) -> tuple[Array, Array]:  # noqa: ARG002
        """The points Z, and A = W^-½Vᵀ with K̄(Z, Z) ≈ VWVᵀ."""
        points = self._some(kernel)
        values, vectors = eigen(gram(kernel, points))
        if values[0] < -1e-8 * values[-1]:
            raise indefinite(kernel, -values[0])
        leading = slice(None, -self.rank - 1, -1)
        positive = values[leading] > len(values) * np.finfo(float).eps * values[-1]
        values, vectors = values[leading][positive], vectors[:, leading][:, positive]
        return points, (vectors / np.sqrt(values)).T

    def _some(self, kernel: Kernel) -> Array:  # noqa: ARG002
        """The points of whose matrix the eigenvectors are: all."""
        return np.asarray(self.points)

    def at_most(self, n: int) -> Eigen:
        return type(self)(self.points[:n], min(self.rank, n))


@register_basis
@dataclass(frozen=True, eq=False, repr=False)
class Nystrom(Eigen):
    """The Nyström approximation of ``Eigen``: of many points some stand for all, evenly in their order.

    Leading eigenvectors hardly change, and to find them takes the cube of the number. Items that only have names are
    all alike; the first lead.
    """

    kind: ClassVar[str] = "nystrom"

    def _some(self, kernel: Kernel) -> Array:
        n, size = len(self.points), max(NYSTROM_POINTS, POINTS_PER_VECTOR * self.rank)
        if n <= size:
            return np.asarray(self.points)
        if is_diagonal(kernel) and len(distinct(self.points)[0]) == n:
            return np.asarray(self.points[: self.rank])
        return np.asarray(self.points[evenly_spaced(n, size)])


@register_basis
@dataclass(frozen=True, eq=False)
class Features(BasisSpec):
    """The inputs' own columns, for a linear K̄: DotProduct, Linear, constants and their sums."""

    kind: ClassVar[str] = "features"
    has_residual: ClassVar[bool] = False

    def build(self, kernel: Kernel, p: int) -> tuple[Array, Array]:
        """No landmarks, and A with K̄(x, x′) = (A(1, x))ᵀ(A(1, x′)); with DotProduct(0) e(x) is x itself."""
        A = linear_factor(kernel, p)
        if A is None:
            raise InvalidModel(
                f"Features needs a linear common kernel (DotProduct, Linear, constants, their sums), got {kernel}; "
                "use Landmarks, or leave the basis out"
            )
        return np.empty((0, p)), A

    def functions(self, kernel: Kernel, landmarks: Array, X: Array) -> Array:  # noqa: ARG002
        return affine(X)

    def check(self, kernel: Kernel, p: int) -> None:
        self.build(kernel, p)


def basis_from_spec(spec: Mapping[str, Any] | None) -> BasisSpec | None:
    """The basis that ``to_spec`` wrote; None is the growing one."""
    if spec is None or (isinstance(spec, Mapping) and spec.get("kind") == "growing"):
        return None
    kind = spec.get("kind") if isinstance(spec, Mapping) else None
    cls = BASES.get(kind) if isinstance(kind, str) else None
    if cls is None or not set(cls.settings()) <= set(spec):
        settings = {kind: f" ({', '.join(cls.settings())})" if cls.settings() else "" for kind, cls in BASES.items()}
        kinds = ", ".join(f"{kind}{those}" for kind, those in settings.items())
        raise InvalidModel(f"basis must be one of growing, {kinds}; got {spec!r:.200}")
    return cls(**{name: spec[name] for name in cls.settings()})


# --- the basis built ---


@dataclass(frozen=True, eq=False)
class Basis:
    """φ(x) = (e(x), ψ(x)) for a kernel K̄ (None: the bias alone), ready to evaluate."""

    kernel: Kernel | None
    landmarks: Array
    A: Array
    bias: Bias
    has_index: bool = False  # inputs are a catalogue's rows: column 0 is no feature
    spec: BasisSpec | None = None  # None: growing

    @classmethod
    def fixed(cls, spec: BasisSpec | None, kernel: Kernel | None, p: int, bias: Bias, has_index: bool) -> Basis:
        if kernel is None or spec is None:
            return cls(None, np.empty((0, p)), np.empty((0, 0)), bias, has_index)
        return cls(kernel, *spec.build(kernel, p), bias, has_index, spec)

    @classmethod
    def grown(cls, kernel: Kernel, X: Array, bias: Bias, has_index: bool) -> tuple[Basis, Array, Index]:
        """The basis of the inputs X, its columns F there, and the order of X's rows in which F has them.

        Landmarks come first, so that the basis's own columns of F are lower triangular.
        """
        E, order = pivoted_cholesky(gram(kernel, X), kernel)
        r = E.shape[1]
        basis = cls(kernel, X[order[:r]], inverse_of_lower(E[:r]), bias, has_index)
        psi = basis.psi(X[order])
        F = np.empty((len(E), r + psi.shape[1]), order="F")  # as LAPACK wants it
        F[:, :r], F[:, r:] = E, psi
        return basis, F, order

    @property
    def rank(self) -> int:
        return len(self.A)

    @property
    def has_residual(self) -> bool:
        """Whether e(x)ᵀe(x) may be less than K̄(x, x): at any input, but for one that a growing basis was made of."""
        return self.kernel is not None and (self.spec is None or self.spec.has_residual)

    @property
    def prior(self) -> Array:
        """Prior precision of the columns' weights, in units of α: 1 on the basis, 0 (flat) on the bias."""
        return np.concatenate([np.ones(self.rank), np.zeros(self.psi(self.landmarks[:0]).shape[1])])

    def e(self, X: Array) -> Array:
        return self._at_landmarks if X is self.landmarks else self._e(X)

    @cached_property
    def _at_landmarks(self) -> Array:
        """Stored, because every estimate over a catalogue that is the basis needs it."""
        return self._e(self.landmarks)

    def _e(self, X: Array) -> Array:
        if not self.rank:
            return np.zeros((*X.shape[:-1], self.rank))
        return np.asarray(self._functions(X) @ self.A.T)  # of a stack, one table after the other

    def _functions(self, X: Array) -> Array:
        if self.kernel is None:
            return np.empty((*X.shape[:-1], 0))
        if self.spec is None:
            return gram(self.kernel, X, self.landmarks)
        if X.ndim > 2 and type(self.spec).functions not in (BasisSpec.functions, Features.functions):
            return np.array([self._functions(table) for table in X])  # one from elsewhere need not know stacks
        return self.spec.functions(self.kernel, self.landmarks, X)

    @property
    def width(self) -> int:
        """The number of functions u that A has columns for."""
        return self._functions(self.landmarks[:0]).shape[1]

    @cached_property
    def origin(self) -> Array:
        """Where the linear bias is counted from: amid the landmarks, so that large inputs cost no digits."""
        return self.landmarks.mean(axis=0) if len(self.landmarks) else np.zeros(self.landmarks.shape[1])

    @property
    def slopes(self) -> list[int]:
        """The columns of an input in which the bias has a slope."""
        if not isinstance(self.bias, str):
            return list(self.bias)
        columns = range(1 if self.has_index else 0, self.landmarks.shape[1])
        return list(columns) if self.bias == "linear" else []

    def psi(self, X: Array) -> Array:
        if self.bias == "none":
            return np.empty((*X.shape[:-1], 0))
        return affine((X - self.origin)[..., self.slopes])

    def columns(self, X: Array) -> Array:
        """F: a row φ(x) for every input, or for every input of a stack."""
        return np.concatenate([self.e(X), self.psi(X)], axis=-1)

    def average(self, X: Array, theta: Array) -> Array:
        """φ(x)ᵀθ for every input, without its columns: u(x)ᵀAᵀθ costs no product with A for each of them."""
        return np.asarray(self._functions(X) @ (self.A.T @ theta[: self.rank]) + self.psi(X) @ theta[self.rank :])

    def residual(self, X: Array, E: Array) -> Array:
        """The residual variance K̄(x, x) − e(x)ᵀe(x): the part of the prior variance that the basis does not have."""
        if self.kernel is None or not self.has_residual:
            return np.zeros(len(X))
        return np.maximum(self.kernel.diag(X) - np.einsum("ij,ij->i", E, E), 0.0)

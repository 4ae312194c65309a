"""The kernels: scikit-learn's and our own, ``Identity``, ``Linear``, ``On`` and ``Scaled``.

A new one is written here as a ``StackKernel``, or as scikit-learn does, and joins the closed list in ``formulas``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF as RBF
from sklearn.gaussian_process.kernels import ConstantKernel as ConstantKernel
from sklearn.gaussian_process.kernels import DotProduct as DotProduct
from sklearn.gaussian_process.kernels import Exponentiation as Exponentiation
from sklearn.gaussian_process.kernels import ExpSineSquared as ExpSineSquared
from sklearn.gaussian_process.kernels import Hyperparameter
from sklearn.gaussian_process.kernels import Kernel as Kernel
from sklearn.gaussian_process.kernels import Matern as Matern
from sklearn.gaussian_process.kernels import Product as Product
from sklearn.gaussian_process.kernels import RationalQuadratic as RationalQuadratic
from sklearn.gaussian_process.kernels import Sum as Sum

from motet.arrays import Array, is_finite, numbers
from motet.errors import InvalidModel, WrongDimension
from motet.linalg import lower_indices, root
from motet.text import brief


def is_fixed(bounds: Any) -> bool:
    """Whether a hyperparameter's bounds, pairs of numbers or "fixed", hold it."""
    return isinstance(bounds, str) and bounds == "fixed"


class StackKernel(Kernel):  # type: ignore[misc]
    """A kernel written once for single sets of inputs and for stacks of them."""

    @abstractmethod
    def over(self, X: Array, Y: Array) -> Array:
        """K(X, Y) of shape (…, n, m) for X of shape (…, n, p) and Y of shape (…, m, p)."""

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Any:
        K = self.over(X, X if Y is None else Y)
        return (K, np.empty((*K.shape, 0))) if eval_gradient else K

    def __repr__(self) -> str:
        named = ((name, value) for name, value in self.get_params().items() if not name.endswith("_bounds"))
        parameters = (f"{name}={brief(value)}" for name, value in named)
        return f"{type(self).__name__}({', '.join(parameters)})"


class Identity(StackKernel):
    """k(x, x′) = 1 if x equals x′, else 0: for inputs that only have a name."""

    def __init__(self) -> None:
        """Nothing to set; sklearn reads this signature."""

    def over(self, X: Array, Y: Array) -> Array:
        return np.asarray((X[..., :, None, :] == Y[..., None, :, :]).all(axis=-1), dtype=float)

    def diag(self, X: Array) -> Array:
        return np.ones(len(X))

    def is_stationary(self) -> bool:
        return True


class Covariance:
    """C, checked, and L, when it is needed; neither may be written to."""

    def __init__(self, C: Array) -> None:
        if (
            C.ndim != 2
            or C.shape[0] != C.shape[1]
            or not C.size
            or not is_finite(C).all()
            or (np.abs(C - C.T) > 1e-12 * np.abs(C)).any()
        ):
            raise InvalidModel(f"Linear needs a finite symmetric covariance, got one of shape {C.shape}")
        if np.linalg.eigvalsh(C)[0] < -1e-12 * np.trace(C):
            raise InvalidModel("Linear needs a covariance without negative eigenvalues; check signs and correlations")
        C.flags.writeable = False
        self.C = C

    @cached_property
    def L(self) -> Array:
        upper = np.asarray(np.linalg.qr(root(self.C).T, mode="r"))
        L = np.asarray((upper * np.where(np.diag(upper) < 0, -1.0, 1.0)[:, None]).T)
        L.flags.writeable = False
        return L


@lru_cache(maxsize=64)
def _covariance(data: bytes, shape: tuple[int, ...]) -> Covariance:
    """Of numbers as they were given; copies of a kernel share it."""
    return Covariance(np.frombuffer(data).reshape(shape).copy())


@lru_cache(maxsize=64)
def _numbers_of_lower(size: int) -> tuple[Any, ...]:
    """Those numbers as scikit-learn's hyperparameters: the same for all covariances of a size."""
    pairs = zip(*lower_indices(size))
    return tuple(Hyperparameter(f"covariance_{a}_{b}", "numeric", (-1e5, 1e5)) for a, b in pairs)


class Linear(StackKernel):
    """k(x, x′) = (1, x)ᵀ C (1, x′): an intercept and slopes with covariance C, intercept first.

    Its hyperparameters are the numbers of L, lower triangular, with C = LLᵀ, row by row: those of the diagonal are not
    negative, so that a search meets a singular C exactly. ``covariance_bounds="fixed"`` holds C.
    """

    def __init__(self, covariance: Any, covariance_bounds: Any = (1e-10, 1e10)) -> None:
        self.covariance = covariance
        self.covariance_bounds = covariance_bounds
        self._checked: tuple[Any, Covariance] | None = None

    @property
    def hyperparameters(self) -> list[Any]:
        return [] if is_fixed(self.covariance_bounds) else list(_numbers_of_lower(len(self.C)))

    @property
    def theta(self) -> Array:
        return np.empty(0) if is_fixed(self.covariance_bounds) else self.L[lower_indices(len(self.C))]

    @theta.setter
    def theta(self, theta: Array) -> None:
        if not is_fixed(self.covariance_bounds):
            L = np.zeros((len(self.covariance), len(self.covariance)))
            L[lower_indices(len(L))] = theta
            self.covariance = (L @ L.T).tolist()

    @property
    def bounds(self) -> Array:
        if is_fixed(self.covariance_bounds):
            return np.empty((0, 2))
        largest = np.sqrt(np.max(self.covariance_bounds))
        diagonal = np.equal(*lower_indices(len(self.C)))
        return np.column_stack([np.where(diagonal, 0.0, -largest), np.full(len(diagonal), largest)])

    @property
    def L(self) -> Array:
        """Lower triangular with C = LLᵀ, its diagonal not negative; also of a singular C."""
        return self._form.L

    @property
    def C(self) -> Array:
        return self._form.C

    @property
    def _form(self) -> Covariance:
        """The covariance, checked once: scikit-learn may set another one at any time."""
        if self._checked is None or self._checked[0] is not self.covariance:
            C = numbers(self.covariance, "a covariance")
            self._checked = self.covariance, _covariance(C.tobytes(), C.shape)
        return self._checked[1]

    def C_for(self, p: int) -> Array:
        """C, checked to fit inputs of ``p`` columns."""
        C = self.C
        if len(C) != p + 1:
            raise WrongDimension(f"Linear has an intercept and {len(C) - 1} slopes, inputs have {p} columns")
        return C

    def over(self, X: Array, Y: Array) -> Array:
        return np.asarray(affine(X) @ self.C_for(X.shape[-1]) @ affine(Y).swapaxes(-1, -2))

    def diag(self, X: Array) -> Array:
        U = affine(X)
        return np.einsum("ij,jk,ik->i", U, self.C_for(X.shape[-1]), U)

    def is_stationary(self) -> bool:
        return False


class Reading(Kernel):  # type: ignore[misc]
    """A kernel of what ``read`` makes of the inputs; its hyperparameters are those of the kernel within."""

    kernel: Kernel

    @abstractmethod
    def read(self, X: Array) -> Array:
        """The inputs, of shape (…, n, p), as the kernel within gets them."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        params: dict[str, Any] = super().get_params(deep=False)
        if deep:
            params |= {f"kernel__{name}": value for name, value in self.kernel.get_params().items()}
        return params

    @property
    def hyperparameters(self) -> list[Any]:
        return [h._replace(name=f"kernel__{h.name}") for h in self.kernel.hyperparameters]

    @property
    def theta(self) -> Array:
        return self.kernel.theta

    @theta.setter
    def theta(self, theta: Array) -> None:
        self.kernel.theta = theta

    @property
    def bounds(self) -> Array:
        return self.kernel.bounds

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Any:
        return self.kernel(self.read(X), None if Y is None else self.read(Y), eval_gradient)

    def diag(self, X: Array) -> Array:
        return self.kernel.diag(self.read(X))

    def is_stationary(self) -> bool:
        return bool(self.kernel.is_stationary())


class On(Reading):
    """k(x[columns], x′[columns]): a kernel that reads some of the columns only."""

    def __init__(self, kernel: Kernel, columns: Sequence[int]) -> None:
        self.kernel = kernel
        self.columns = columns

    def read(self, X: Array) -> Array:
        if max(self.columns) >= X.shape[-1]:
            raise WrongDimension(f"{self} reads column {max(self.columns)}, inputs have {X.shape[-1]}")
        return np.take(X, self.columns, axis=-1)

    def __repr__(self) -> str:
        columns = list(self.columns)
        run = len(columns) > 2 and columns == list(range(columns[0], columns[-1] + 1))
        return f"On({self.kernel}, columns={f'{columns[0]}…{columns[-1]}' if run else columns})"


class Scaled(Reading):
    """k((x − center) / scale, (x′ − center) / scale): a kernel that reads inputs without their units.

    A model whose settings were chosen from data has it, so that nobody else need know how inputs were scaled.
    """

    def __init__(self, kernel: Kernel, center: Sequence[float], scale: Sequence[float]) -> None:
        self.kernel = kernel
        self.center = center
        self.scale = scale

    def read(self, X: Array) -> Array:
        if not len(self.center) == len(self.scale) == X.shape[-1]:
            raise WrongDimension(f"{self} reads {len(self.center)} columns, inputs have {X.shape[-1]}")
        return np.asarray((X - np.asarray(self.center)) / np.asarray(self.scale))

    def __repr__(self) -> str:
        return f"Scaled({self.kernel}, center={brief(self.center)}, scale={brief(self.scale)})"


def affine(X: Array) -> Array:
    """(1, x) for every input."""
    return np.concatenate([np.ones((*X.shape[:-1], 1)), X], axis=-1)


def check_dimension(kernel: Kernel, p: int) -> None:
    """Raises unless the kernel can read inputs of ``p`` columns."""
    try:
        kernel(np.zeros((1, p)))
    except (ValueError, IndexError) as error:
        raise WrongDimension(f"{kernel} cannot read inputs of {p} columns: {error}") from None

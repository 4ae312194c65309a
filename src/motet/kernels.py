"""Which kernels there are: scikit-learn's, our own (``Identity``, ``Linear``, ``On``, ``Scaled``), and the closed list.

A kernel is in the list once it is registered under a name; ``motet.model.spec`` carries registered kernels as plain
data, so that they may come from a stranger. To add one, write its class here as a ``StackKernel``, or as scikit-learn
does, and call ``register`` at the end of the list. A kernel of your own may live in your own file, which every program
that uses it imports: the ``motet`` program knows those of this list only.
"""

from __future__ import annotations

import inspect
import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Hyperparameter,
    Kernel,
    Matern,
    Product,
    RationalQuadratic,
    Sum,
)

from motet.arrays import Array, finite_number, is_finite, numbers
from motet.errors import InvalidModel, WrongDimension
from motet.text import brief

__all__ = [
    "RBF",
    "ConstantKernel",
    "DotProduct",
    "ExpSineSquared",
    "Exponentiation",
    "Identity",
    "Kernel",
    "Linear",
    "Matern",
    "On",
    "Product",
    "RationalQuadratic",
    "Scaled",
    "Sum",
    "check_dimension",
    "is_fixed",
    "on_columns",
    "register",
    "unregister",
]


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
    """C as it was given, checked, and L, when it is needed; neither may be written to."""

    def __init__(self, given: Any) -> None:
        C = numbers(given, "a covariance").copy()
        if (
            C.ndim != 2
            or C.shape[0] != C.shape[1]
            or not C.size
            or not is_finite(C).all()
            or not np.allclose(C, C.T, rtol=1e-12, atol=0)
        ):
            raise InvalidModel(f"Linear needs a finite symmetric covariance, got one of shape {C.shape}")
        if np.linalg.eigvalsh(C)[0] < -1e-12 * np.trace(C):
            raise InvalidModel("Linear needs a covariance without negative eigenvalues; check signs and correlations")
        C.flags.writeable = False
        self.given, self.C = given, C

    @cached_property
    def L(self) -> Array:
        values, vectors = np.linalg.eigh(self.C)
        upper = np.asarray(np.linalg.qr((vectors * np.sqrt(np.maximum(values, 0.0))).T, mode="r"))
        L = np.asarray((upper * np.where(np.diag(upper) < 0, -1.0, 1.0)[:, None]).T)
        L.flags.writeable = False
        return L


class Linear(StackKernel):
    """k(x, x′) = (1, x)ᵀ C (1, x′): an intercept and slopes with covariance C, intercept first.

    Its hyperparameters are the numbers of L, lower triangular, with C = LLᵀ, row by row: those of the diagonal are not
    negative, so that a search meets a singular C exactly. ``covariance_bounds="fixed"`` holds C.
    """

    def __init__(self, covariance: Any, covariance_bounds: Any = (1e-10, 1e10)) -> None:
        self.covariance = covariance
        self.covariance_bounds = covariance_bounds
        self._checked: Covariance | None = None

    @property
    def hyperparameters(self) -> list[Any]:
        if self._is_fixed:
            return []
        size = len(self.C)
        return [
            Hyperparameter(f"covariance_{a}_{b}", "numeric", (-1e5, 1e5)) for a in range(size) for b in range(a + 1)
        ]

    @property
    def _is_fixed(self) -> bool:
        return is_fixed(self.covariance_bounds)

    @property
    def theta(self) -> Array:
        return np.empty(0) if self._is_fixed else self.L[np.tril_indices(len(self.C))]

    @theta.setter
    def theta(self, theta: Array) -> None:
        if not self._is_fixed:
            L = np.zeros((len(self.covariance), len(self.covariance)))
            L[np.tril_indices(len(L))] = theta
            self.covariance = (L @ L.T).tolist()

    @property
    def bounds(self) -> Array:
        if self._is_fixed:
            return np.empty((0, 2))
        largest = np.sqrt(np.max(self.covariance_bounds))
        diagonal = np.equal(*np.tril_indices(len(self.C)))
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
        if self._checked is None or self._checked.given is not self.covariance:
            self._checked = Covariance(self.covariance)
        return self._checked

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


def is_held(kernel: Kernel) -> bool:
    """Whether all parameters of a kernel are fixed: ``theta`` is empty, told without making it."""
    if type(kernel) in (Sum, Product):
        return is_held(kernel.k1) and is_held(kernel.k2)
    if isinstance(kernel, Reading) or type(kernel) is Exponentiation:
        return is_held(kernel.kernel)
    if type(kernel) in (RBF, Matern, ConstantKernel, DotProduct, Linear):
        return all(is_fixed(value) for name, value in vars(kernel).items() if name.endswith("_bounds"))
    return not len(kernel.theta)


def affine(X: Array) -> Array:
    """(1, x) for every input."""
    return np.concatenate([np.ones((*X.shape[:-1], 1)), X], axis=-1)


def on_columns(kernel: Kernel, columns: Sequence[int]) -> Kernel:
    """The same kernel, with every part that does not choose its columns reading ``columns``; ``Identity`` reads all."""
    if type(kernel) in (On, Scaled, Identity, ConstantKernel):
        return kernel
    if type(kernel) in (Sum, Product):
        return type(kernel)(on_columns(kernel.k1, columns), on_columns(kernel.k2, columns))
    if type(kernel) is Exponentiation:
        return Exponentiation(on_columns(kernel.kernel, columns), kernel.exponent)
    return On(kernel, list(columns))


def check_dimension(kernel: Kernel, p: int) -> None:
    """Raises unless the kernel can read inputs of ``p`` columns."""
    try:
        kernel(np.zeros((1, p)))
    except (ValueError, IndexError) as error:
        raise WrongDimension(f"{kernel} cannot read inputs of {p} columns: {error}") from None


# --- the closed list ---

Check: TypeAlias = Callable[[str, Any], Any]  # of a parameter: its name and value; returns the value, or raises


def number(name: str, value: Any) -> float:
    """A finite number."""
    finite = finite_number(value)
    if finite is None:
        kind = "a finite number" if isinstance(value, (int, float, np.number)) else "a number"
        raise InvalidModel(f"{name} must be {kind}, got {value!r:.60}")
    return finite


def positive(name: str, value: Any) -> float:
    """A number from 1e-100 to 1e100: beyond, products of kernels overflow."""
    if not 1e-100 <= (finite := number(name, value)) <= 1e100:
        kind = "positive" if finite <= 0 else "between 1e-100 and 1e100"
        raise InvalidModel(f"{name} must be {kind}, got {value!r:.60}")
    return finite


def not_negative(name: str, value: Any) -> float:
    """0, or a positive number."""
    return 0.0 if number(name, value) == 0 else positive(name, value)


def one_or_each(name: str, value: Any) -> float | list[float]:
    """A positive number for all columns, or a list with one for each."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, (list, tuple)):
        return positive(name, value)
    if not value:
        raise InvalidModel(f"{name} must be positive, one number for each column, got none")
    return [positive(name, one) for one in value]


def smoothness(name: str, value: Any) -> float:
    """Matern's ν: a positive number up to 50, or infinity."""
    if isinstance(value, float) and value == math.inf:
        return value
    if (nu := positive(name, value)) > 50:
        raise InvalidModel(f"{name} must be up to 50, or infinity, got {value!r}")
    return nu


def covariance(_name: str, value: Any) -> list[list[float]]:
    """The covariance of ``Linear``."""
    C: list[list[float]] = Linear(value).C.tolist()
    return C


@dataclass(frozen=True)
class KernelEntry:
    """A kernel of the closed list; ``names`` are its parameters' names in JSON, if other than the constructor's."""

    name: str
    type: type[Kernel]
    checks: Mapping[str, Check] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """The constructor's parameters and their defaults."""
        return {key: p.default for key, p in inspect.signature(self.type).parameters.items()}


KERNELS: dict[str, KernelEntry] = {}
COMPOSITES = ("sum", "product", "power", "scaled")  # names of kernels made of others


def register(
    name: str, kernel: type[Kernel], checks: Mapping[str, Check] | None = None, names: Mapping[str, str] | None = None
) -> None:
    """Add a kernel to the closed list, under the ``name`` that JSON and study files use.

    The constructor's parameters are carried: positive numbers, unless ``checks`` has another check of one, and bounds,
    whose names end in ``_bounds``. The kernel must be a class of its own: a subclass of a registered one is not
    registered by that. A method ``over(X, Y)`` that evaluates stacks of inputs makes it faster; it need not have one.
    """
    if name in KERNELS or name in COMPOSITES:
        raise InvalidModel(f"there is a kernel {name!r} already; choose another name")
    if any(kernel is entry.type for entry in KERNELS.values()):
        raise InvalidModel(f"{kernel.__name__} is registered already")
    KERNELS[name] = KernelEntry(name, kernel, checks or {}, names or {})


def unregister(name: str) -> None:
    """Take a kernel out of the closed list."""
    del KERNELS[name]


register("rbf", RBF, {"length_scale": one_or_each})
register("matern", Matern, {"length_scale": one_or_each, "nu": smoothness})
register("rational_quadratic", RationalQuadratic)
register("exp_sine_squared", ExpSineSquared)
register("dot_product", DotProduct, {"sigma_0": not_negative})
register("constant", ConstantKernel, names={"constant_value": "value", "constant_value_bounds": "value_bounds"})
register("linear", Linear, {"covariance": covariance})
register("identity", Identity)


def kernel_names() -> str:
    """All names that a kernel may have in JSON, for messages."""
    return f"{', '.join([*KERNELS, *COMPOSITES])} (and columns=…)"

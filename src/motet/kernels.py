"""The closed list of kernels, and their JSON.

A kernel is an object of ``sklearn.gaussian_process.kernels`` or one of three defined here: ``Identity``, ``Linear``
and ``On``. ``to_spec`` and ``from_spec`` turn it into plain data and back; nothing outside the list passes either
way, so a kernel may come from a stranger.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add, mul
from typing import Any, TypeAlias

import numpy as np
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Kernel,
    Matern,
    Product,
    RationalQuadratic,
    Sum,
)

from motet.arrays import BOUND, Array, numbers
from motet.errors import InvalidModel, UnknownKernel, WrongDimension

Spec: TypeAlias = dict[str, Any]

__all__ = [
    "RBF",
    "ConstantKernel",
    "DotProduct",
    "ExpSineSquared",
    "Exponentiation",
    "Identity",
    "Linear",
    "Matern",
    "On",
    "Product",
    "RationalQuadratic",
    "Sum",
    "check_dimension",
    "from_spec",
    "on_columns",
    "to_spec",
]


class Identity(Kernel):  # type: ignore[misc]
    """k(x, x′) = 1 where x equals x′, else 0: for inputs that only have a name."""

    def __init__(self) -> None:
        """Nothing to set; sklearn reads this signature."""

    def over(self, X: Array, Y: Array) -> Array:
        return np.asarray((X[..., :, None, :] == Y[..., None, :, :]).all(axis=-1), dtype=float)

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Any:
        K = self.over(X, X if Y is None else Y)
        return (K, np.empty((*K.shape, 0))) if eval_gradient else K

    def diag(self, X: Array) -> Array:
        return np.ones(len(X))

    def is_stationary(self) -> bool:
        return True


class Linear(Kernel):  # type: ignore[misc]
    """k(x, x′) = (1, x)ᵀ C (1, x′): an intercept and slopes with covariance C, intercept first."""

    def __init__(self, covariance: Any) -> None:
        self.covariance = covariance

    @property
    def C(self) -> Array:
        C = numbers(self.covariance, "a covariance")
        if (
            C.ndim != 2
            or C.shape[0] != C.shape[1]
            or not C.size
            or not np.isfinite(C).all()
            or not np.allclose(C, C.T, rtol=1e-12, atol=0)
        ):
            raise InvalidModel(f"Linear needs a finite symmetric covariance, got one of shape {C.shape}")
        if np.linalg.eigvalsh(C)[0] < -1e-12 * np.trace(C):
            raise InvalidModel("Linear needs a covariance without negative eigenvalues; check signs and correlations")
        return C

    def fitting(self, p: int) -> Array:
        """C, where inputs have ``p`` columns."""
        C = self.C
        if len(C) != p + 1:
            raise WrongDimension(f"Linear has an intercept and {len(C) - 1} slopes, inputs have {p} columns")
        return C

    def over(self, X: Array, Y: Array) -> Array:
        return np.asarray(affine(X) @ self.fitting(X.shape[-1]) @ affine(Y).swapaxes(-1, -2))

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Any:
        K = self.over(X, X if Y is None else Y)
        return (K, np.empty((*K.shape, 0))) if eval_gradient else K

    def diag(self, X: Array) -> Array:
        U = affine(X)
        return np.einsum("ij,jk,ik->i", U, self.fitting(X.shape[-1]), U)

    def is_stationary(self) -> bool:
        return False


class On(Kernel):  # type: ignore[misc]
    """k(x[columns], x′[columns]): a kernel that reads some of the columns only."""

    def __init__(self, kernel: Kernel, columns: Sequence[int]) -> None:
        self.kernel = kernel
        self.columns = columns

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        params: dict[str, Any] = {"kernel": self.kernel, "columns": self.columns}
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
        return self.kernel(self.pick(X), None if Y is None else self.pick(Y), eval_gradient)

    def diag(self, X: Array) -> Array:
        return self.kernel.diag(self.pick(X))

    def is_stationary(self) -> bool:
        return bool(self.kernel.is_stationary())

    def pick(self, X: Array) -> Array:
        if max(self.columns) >= X.shape[-1]:
            raise WrongDimension(f"{self} reads column {max(self.columns)}, inputs have {X.shape[-1]}")
        return np.take(X, self.columns, axis=-1)

    def __repr__(self) -> str:
        return f"On({self.kernel}, columns={_shortened(self.columns)})"


def affine(X: Array) -> Array:
    """(1, x) for every input."""
    return np.concatenate([np.ones((*X.shape[:-1], 1)), X], axis=-1)


LEAVES: dict[str, type[Kernel]] = {
    "rbf": RBF,
    "matern": Matern,
    "rational_quadratic": RationalQuadratic,
    "exp_sine_squared": ExpSineSquared,
    "dot_product": DotProduct,
    "constant": ConstantKernel,
    "linear": Linear,
    "identity": Identity,
}
RENAMED = {"constant_value": "value", "constant_value_bounds": "value_bounds"}
KNOWN = [*LEAVES, "sum", "product", "power"]


def to_spec(kernel: Kernel) -> Spec:
    """The kernel as plain data; raises unless every part is in the closed list and has sensible numbers."""
    try:
        return _spec(kernel)
    except RecursionError:
        raise InvalidModel("a kernel of too many parts") from None


def _spec(kernel: Kernel) -> Spec:
    if isinstance(kernel, On):
        spec = _spec(kernel.kernel)
        if "columns" in spec:
            raise InvalidModel(f"{kernel} chooses columns twice: write the innermost choice alone")
        return spec | {"columns": _columns(kernel.columns)}
    if type(kernel) in (Sum, Product):
        # Only the left arm is flattened, so that reading it back builds the same tree.
        left, right = _spec(kernel.k1), _spec(kernel.k2)
        name = "sum" if type(kernel) is Sum else "product"
        of = left["of"] if left["kernel"] == name and "columns" not in left else [left]
        return {"kernel": name, "of": [*of, right]}
    if type(kernel) is Exponentiation:
        return {"kernel": "power", "of": _spec(kernel.kernel), "exponent": _number("exponent", kernel.exponent)}
    for name, cls in LEAVES.items():
        if type(kernel) is cls:
            return {"kernel": name} | _parameters(kernel)
    raise UnknownKernel(f"unknown kernel {type(kernel).__name__}: known are {', '.join(KNOWN)} (and columns=…)")


def from_spec(spec: Mapping[str, Any]) -> Kernel:
    """The kernel that ``to_spec`` wrote, or that a study file says."""
    try:
        kernel = _kernel(spec)
    except RecursionError:
        raise InvalidModel("a kernel of too many parts") from None
    to_spec(kernel)  # checks the numbers
    return kernel


def _kernel(spec: Mapping[str, Any]) -> Kernel:
    if not isinstance(spec, Mapping) or "kernel" not in spec:
        raise InvalidModel(f'a kernel is a table such as {{"kernel": "rbf", "length_scale": 1.0}}, got {spec!r}')
    rest = {key: value for key, value in spec.items() if key not in ("kernel", "columns")}
    kernel = _named(spec["kernel"], rest)
    return On(kernel, _columns(spec["columns"])) if "columns" in spec else kernel


def _named(name: Any, rest: dict[str, Any]) -> Kernel:
    if name in ("sum", "product"):
        parts = _only(name, rest, "of")["of"]
        if not isinstance(parts, Sequence) or len(parts) < 2:
            raise InvalidModel(f'"{name}" needs a list of at least two kernels under "of", got {parts!r}')
        return reduce(add if name == "sum" else mul, (_kernel(part) for part in parts))
    if name == "power":
        rest = _only(name, rest, "of", "exponent")
        return Exponentiation(_kernel(rest["of"]), _number("exponent", rest["exponent"]))
    if not isinstance(name, str) or name not in LEAVES:
        raise UnknownKernel(f"unknown kernel {name!r}: known are {', '.join(KNOWN)} (and columns=…)")
    cls = LEAVES[name]
    known = {RENAMED.get(key, key): key for key in _signature(cls)}
    for key in rest:
        if key not in known:
            raise InvalidModel(f'"{name}" has no {key!r}: it takes {", ".join(known) or "nothing"}')
    try:
        return cls(**{known[key]: _read(key, value) for key, value in rest.items()})
    except TypeError:
        raise InvalidModel(f'"{name}" needs {", ".join(known)}, got {", ".join(rest) or "nothing"}') from None


def _only(name: str, rest: dict[str, Any], *keys: str) -> dict[str, Any]:
    if set(rest) != set(keys):
        raise InvalidModel(f'"{name}" takes {" and ".join(keys)}, got {", ".join(rest) or "nothing"}')
    return rest


def _signature(cls: type[Kernel]) -> dict[str, Any]:
    return {key: p.default for key, p in inspect.signature(cls).parameters.items()}


def _parameters(kernel: Kernel) -> Spec:
    spec: Spec = {}
    for key, default in _signature(type(kernel)).items():
        value = getattr(kernel, key)
        if key.endswith("_bounds"):
            if (bounds := _bounds(key, value)) != _bounds(key, default):
                spec[RENAMED.get(key, key)] = bounds
        elif key == "covariance":
            spec[key] = kernel.C.tolist()
        else:
            spec[RENAMED.get(key, key)] = _positive(kernel, key, value)
    return spec


def _positive(kernel: Kernel, key: str, value: Any) -> Any:
    """A positive number (sigma_0 may be 0, nu infinite), or a list of them for length scales."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(kernel, RBF) and key == "length_scale" and isinstance(value, (list, tuple)):
        if not value:
            raise InvalidModel(f"{type(kernel).__name__} needs a length_scale for each column, got none")
        return [_positive_number(kernel, key, v) for v in value]
    return "inf" if key == "nu" and value == math.inf else _positive_number(kernel, key, value)


def _positive_number(kernel: Kernel, key: str, value: Any) -> float:
    number = _number(key, value)
    if key == "nu" and number > 50:
        raise InvalidModel(f"Matern needs a nu up to 50, or infinity, got {value!r}")
    if not (1e-100 <= number <= 1e100 or (number == 0 and key == "sigma_0")):
        raise InvalidModel(f"{type(kernel).__name__} needs a positive {key}, got {value!r}")
    return number


def _number(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise InvalidModel(f"{key} must be a number, got {value!r:.60}")
    if not -BOUND < value < BOUND:
        raise InvalidModel(f"{key} must be a finite number, got {value!r:.60}")
    return float(value)


def _bounds(key: str, value: Any) -> Any:
    """ "fixed", or one pair or several of positive numbers."""
    if isinstance(value, str) and value == "fixed":
        return value
    pairs = numbers(value, key)
    if pairs.shape[-1:] != (2,) or pairs.ndim > 2 or not (pairs > 0).all() or (pairs[..., 0] > pairs[..., 1]).any():
        raise InvalidModel(f'{key} must be "fixed" or pairs of positive numbers, the lower first, got {value!r:.60}')
    return pairs.tolist()


def _read(key: str, value: Any) -> Any:
    if key == "nu" and value == "inf":
        return math.inf
    if key.endswith("_bounds") and isinstance(value, list):
        return tuple(value) if np.ndim(value) == 1 else np.asarray(value)
    return value


def _columns(columns: Any) -> list[int]:
    chosen = [c for c in columns if isinstance(c, (int, np.integer))] if np.iterable(columns) else []
    if not chosen or len(chosen) < len(columns) or min(chosen) < 0 or len(set(chosen)) < len(chosen):
        raise InvalidModel(f"columns must be distinct whole numbers from 0, at least one, got {columns!r}")
    return [int(c) for c in chosen]


def _shortened(columns: Sequence[int]) -> str:
    columns = list(columns)
    run = len(columns) > 2 and columns == list(range(columns[0], columns[-1] + 1))
    return f"{columns[0]}…{columns[-1]}" if run else str(columns)


def on_columns(kernel: Kernel, columns: Sequence[int]) -> Kernel:
    """The same kernel, with every part that does not choose its columns reading ``columns``; ``Identity`` reads all."""
    if isinstance(kernel, (On, Identity, ConstantKernel)):
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

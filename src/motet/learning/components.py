"""A model as a sum of components, each with a variance beside the noise's: the form in which settings are searched for.

A model has shares α and 1−α and a noise λ, and its kernels may have scales of their own: many ways to write the same
covariance. Here every summand of both kernels is a ``Component``, with one number for its size, its variance in units
of the noise's; so each can be switched off alone. ``Components.model`` is the way back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add
from typing import Any, Literal, TypeAlias

import numpy as np
from sklearn.base import clone

from motet.arrays import Array
from motet.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Identity,
    Kernel,
    Linear,
    Matern,
    On,
    Product,
    RationalQuadratic,
    Reading,
    Scaled,
    Sum,
    affine,
    is_fixed,
)
from motet.model.basis import BasisSpec, Eigen, Landmarks
from motet.model.model import Model

Side: TypeAlias = Literal["average", "individual"]
EQUAL_SHARE = 0.5  # of both kernels and of the noise in the model that is searched: then only ratios are left
MIN_VARIANCE, MAX_VARIANCE = 1e-9, 1e9  # of a component, in units of the noise's
MIN_LENGTH, MAX_LENGTH = 1e-2, 10.0  # of a length scale, in units of the inputs' spread
DEFAULT_BOUNDS = (1e-5, 1e5)  # scikit-learn's, which know nothing of units


@dataclass(frozen=True, eq=False)
class Component:
    """A summand of one of the kernels: ``variance`` · ``kernel``, in units of the noise.

    A kernel with a scale of its own (``Linear``) has variance 1, and its numbers are in units of the noise.
    """

    side: Side
    kernel: Kernel
    variance: float

    @property
    def label(self) -> str:
        """What it is, in words."""
        return self.described()

    def described(self, names: Sequence[str] | None = None) -> str:
        """What it is, in words, with the inputs' names."""
        return f"{'average' if self.side == 'average' else 'shift'}: {describe(self.kernel, names)}"

    @property
    def has_own_scale(self) -> bool:
        kernel = innermost(self.kernel)
        return type(kernel) is Linear and not is_fixed(kernel.covariance_bounds)

    @cached_property
    def scaled(self) -> Kernel:
        """The kernel times its variance, which is a parameter unless the kernel has a scale of its own."""
        if self.has_own_scale:
            return self.kernel
        bounds = (MIN_VARIANCE * 1e-12, MAX_VARIANCE * 1e12)
        return ConstantKernel(self.variance, bounds) * self.kernel

    @cached_property
    def parameters(self) -> int:
        """How many numbers of it are searched."""
        return len(self.scaled.theta)

    def size(self, X: Array) -> float:
        """The mean variance of the function at these inputs, in units of the noise's."""
        return self.variance * max(float(np.mean(self.kernel.diag(X))), 1e-300)

    def started(self, X: Array, ratio: float, length: float) -> Component:
        """With ``ratio`` times the noise's variance at these inputs, and lengths in units of the inputs' spread."""
        kernel, theta = self.kernel, self.kernel.theta.copy()
        for i, (size, is_length) in enumerate(_natural_sizes(kernel, X)):
            if np.isfinite(size):
                theta[i] = np.clip(np.log(size * (length if is_length else 1.0)), *kernel.bounds[i])
        kernel = kernel.clone_with_theta(theta)
        if self.has_own_scale:
            ((linear, Z),) = leaves(kernel, X)
            squares = np.mean(affine(Z) ** 2, axis=0)
            linear.covariance = np.diag(ratio / len(squares) / np.where(squares > 0, squares, 1.0)).tolist()
        started = replace(self, kernel=kernel, variance=1.0)
        return started if self.has_own_scale else replace(started, variance=ratio / started.size(X))


@dataclass(frozen=True, eq=False)
class Components:
    """All components of a model, whose other settings (bias, basis, catalogue) are those of ``base``."""

    base: Model
    X: Array  # the inputs, for natural sizes of parameters
    listed: tuple[Component, ...]

    @classmethod
    def of(cls, model: Model, X: Array) -> Components:
        """Every summand of a model's kernels; the ones whose scale is fixed are one component, with their ratio."""
        listed: list[Component] = []
        sides: tuple[tuple[Side, Kernel | None, float], ...] = (
            ("average", model.common, model.common_share),
            ("individual", model.individual, model.individual_share),
        )
        for side, kernel, share in sides:
            held: list[Kernel] = []
            for summand in [] if kernel is None else summands(_without_zeros(kernel)):
                scale, fixed, rest = scale_of(summand)
                if fixed:
                    held.append(summand)
                else:
                    listed.append(_component(side, rest, max(share, MIN_VARIANCE) * scale / model.lam))
            if held:
                listed.append(Component(side, reduce(add, held), max(share, MIN_VARIANCE) / model.lam))
        return cls(model, X, tuple(listed))

    def on(self, side: Side) -> list[Component]:
        return [component for component in self.listed if component.side == side]

    def drop(self, component: Component) -> Components | None:
        """Without a component; None if it is the last of the shifts, which a model cannot be without."""
        if component.side == "individual" and len(self.on("individual")) == 1:
            return None
        return replace(self, listed=tuple(other for other in self.listed if other is not component))

    # --- as a model whose parameters are those of its kernels alone ---

    @property
    def searched(self) -> Model:
        """The model with equal shares and noise: its parameters are ``theta`` of its kernels, and no others."""
        average, individual = ([component.scaled for component in self.on(side)] for side in ("average", "individual"))
        common = reduce(add, average) if average else None
        return replace(
            self.base,
            common=common,
            individual=reduce(add, individual),
            alpha=EQUAL_SHARE,
            lam=EQUAL_SHARE if average else 1.0,
            basis=self._searched_basis if average else None,
            sigma2=None,
        )

    @property
    def _searched_basis(self) -> BasisSpec | None:
        """A basis of the same functions, whose derivatives are known: settings are of the process, not of its rank."""
        basis = self.base.basis
        return Landmarks(basis.points) if isinstance(basis, Eigen) else basis

    @property
    def theta(self) -> Array:
        return np.concatenate([component.scaled.theta for component in self.listed])

    @property
    def names(self) -> list[str]:
        """The name of every parameter."""
        names: list[str] = []
        for component in self.listed:
            if not component.has_own_scale:
                names.append(f"variance of {component.label}")
            names += [f"{_plain(name)} of {component.label}" for name in _parameter_names(component.kernel)]
        return names

    def at(self, theta: Array) -> Components:
        """The same components at other parameters."""
        listed, used = [], 0
        for component in self.listed:
            scaled = component.scaled.clone_with_theta(theta[used : used + component.parameters])
            used += component.parameters
            if component.has_own_scale:
                listed.append(replace(component, kernel=scaled))
            else:
                listed.append(replace(component, kernel=scaled.k2, variance=float(scaled.k1.constant_value)))
        return replace(self, listed=tuple(listed))

    @property
    def bounds(self) -> Array:
        """Lowest and highest value of every parameter, as ``theta`` has them."""
        rows: list[tuple[float, float]] = []
        for component in self.listed:
            sizes = [size for size, _ in _natural_sizes(component.kernel, self.X)]
            if not component.has_own_scale:
                size = component.size(self.X) / component.variance
                rows.append((np.log(MIN_VARIANCE / size), np.log(MAX_VARIANCE / size)))
            for size, given in zip(sizes, component.kernel.bounds):
                is_default = np.allclose(given, np.log(DEFAULT_BOUNDS))
                rows.append(
                    (np.log(MIN_LENGTH * size), np.log(MAX_LENGTH * size))
                    if is_default and np.isfinite(size)
                    else tuple(given)
                )
        return np.array(rows).reshape(-1, 2)

    # --- and back ---

    def model(self, sigma2: float | None = None, noise_variance: float = 1.0) -> Model:
        """The model in its own form: kernels whose scales add up to 1, shares, and λ beside them.

        With ``sigma2`` all variances are told in that unit, and the kernels' scales add up to what that needs;
        ``noise_variance`` is then the noise's.
        """
        scale = {side: sum(c.variance for c in self.on(side) if not c.has_own_scale) or 1.0 for side in SIDES}
        if not self.on("average"):
            scale["average"] = 0.0
        total = scale["average"] + scale["individual"]
        factor = 1.0 if sigma2 is None else noise_variance * total / sigma2
        kernels = {
            side: reduce(add, (_with_scale(c, factor / scale[side]) for c in self.on(side))) if self.on(side) else None
            for side in SIDES
        }
        return replace(
            self.base,
            common=kernels["average"],
            individual=kernels["individual"],
            alpha=scale["average"] / total if kernels["average"] is not None else self.base.alpha,
            lam=factor / total,
            basis=self.base.basis if kernels["average"] is not None else None,
            sigma2=sigma2,
        )


SIDES: tuple[Side, Side] = ("average", "individual")


def _component(side: Side, kernel: Kernel, variance: float) -> Component:
    component = Component(side, kernel, 1.0)
    if not component.has_own_scale:
        return Component(side, kernel, variance)
    return Component(side, _times(kernel, variance), 1.0)


def _times(kernel: Kernel, factor: float) -> Kernel:
    """A kernel that has a scale of its own, times a factor."""
    kernel = kernel.clone_with_theta(kernel.theta)
    linear = innermost(kernel)
    linear.covariance = (factor * linear.C).tolist()
    return kernel


def _with_scale(component: Component, factor: float) -> Kernel:
    if component.has_own_scale:
        return _times(component.kernel, factor)
    value = component.variance * factor
    if type(component.kernel) is ConstantKernel:
        return ConstantKernel(value)
    return component.kernel if abs(value - 1.0) < 1e-12 else ConstantKernel(value) * component.kernel


# --- the parts of a kernel ---


def summands(kernel: Kernel) -> list[Kernel]:
    """The terms of a sum, also of one within ``On`` or ``Scaled``."""
    if type(kernel) is Sum:
        return [*summands(kernel.k1), *summands(kernel.k2)]
    if isinstance(kernel, Reading):
        return [_reading(kernel, part) for part in summands(kernel.kernel)]
    return [kernel]


def scale_of(kernel: Kernel) -> tuple[float, bool, Kernel]:
    """A term's constant factor, whether that is fixed, and the rest; 1 if there is none."""
    if type(kernel) is ConstantKernel:
        return float(kernel.constant_value), is_fixed(kernel.constant_value_bounds), ConstantKernel(1.0, "fixed")
    if isinstance(kernel, Reading):
        scale, fixed, rest = scale_of(kernel.kernel)
        return scale, fixed, rest if type(rest) is ConstantKernel else _reading(kernel, rest)
    if type(kernel) is Product:
        for factor, other in ((kernel.k1, kernel.k2), (kernel.k2, kernel.k1)):
            if type(factor) is ConstantKernel:
                scale, fixed, rest = scale_of(other)
                return float(factor.constant_value) * scale, is_fixed(factor.constant_value_bounds) or fixed, rest
    return 1.0, False, kernel


def _reading(outer: Reading, kernel: Kernel) -> Kernel:
    """Another kernel that reads the inputs as ``outer`` does."""
    return On(kernel, outer.columns) if isinstance(outer, On) else Scaled(kernel, outer.center, outer.scale)


def innermost(kernel: Kernel) -> Kernel:
    """The kernel within ``On`` and ``Scaled``."""
    return innermost(kernel.kernel) if isinstance(kernel, Reading) else kernel


WORDS = {ConstantKernel: "intercept", DotProduct: "slopes", Linear: "intercept and slopes", Identity: "levels"}


def describe(kernel: Kernel, names: Sequence[str] | None = None) -> str:
    """A kernel in a word or two: intercept, slopes, RBF, RBF × slopes, levels of column 2, slopes of age."""
    if isinstance(kernel, On):
        inner = describe(kernel.kernel)
        if names is not None and len(kernel.columns) == 1:
            return f"{inner} of {names[kernel.columns[0]]}"
        return f"{inner} of column{'s' if len(kernel.columns) > 1 else ''} {', '.join(map(str, kernel.columns))}"
    if isinstance(kernel, Scaled):
        return describe(kernel.kernel)
    if type(kernel) in (Sum, Product):
        return f"{describe(kernel.k1, names)} {'+' if type(kernel) is Sum else '×'} {describe(kernel.k2, names)}"
    if type(kernel) is Exponentiation:
        return f"({describe(kernel.kernel, names)})^{kernel.exponent:g}"
    return WORDS.get(type(kernel), type(kernel).__name__)


def leaves(kernel: Kernel, X: Array | None = None) -> Iterator[tuple[Kernel, Any]]:
    """The kernels that are not made of others, in the order of ``theta``, each with the inputs as it reads them."""
    if isinstance(kernel, Reading):
        yield from leaves(kernel.kernel, None if X is None else kernel.read(X))
    elif type(kernel) in (Sum, Product):
        yield from leaves(kernel.k1, X)
        yield from leaves(kernel.k2, X)
    elif type(kernel) is Exponentiation:
        yield from leaves(kernel.kernel, X)
    else:
        yield kernel, X


def _without_zeros(kernel: Kernel) -> Kernel:
    """A copy in which ``DotProduct(0.0)`` is fixed: 0 has no logarithm, and is meant."""
    copy = clone(kernel)
    for leaf, _ in leaves(copy):
        if type(leaf) is DotProduct and not leaf.sigma_0:
            leaf.sigma_0_bounds = "fixed"
    return copy


def _parameter_names(kernel: Kernel) -> Iterator[str]:
    for leaf, _ in leaves(kernel):
        for parameter in leaf.hyperparameters:
            if not parameter.fixed:
                several = parameter.n_elements > 1
                yield from (f"{parameter.name} {k}" if several else parameter.name for k in range(parameter.n_elements))


def _plain(name: str) -> str:
    return name.replace("_", " ")


def _natural_sizes(kernel: Kernel, X: Array) -> Iterator[tuple[float, bool]]:
    """The natural size of each of a kernel's parameters at these inputs, NaN if it has none; and if it is a length."""
    for leaf, Z in leaves(kernel, X):
        spread = np.where((std := Z.std(axis=0)) > 0, std, 1.0)
        for parameter in leaf.hyperparameters:
            if parameter.name == "length_scale" and type(leaf) in (RBF, Matern, RationalQuadratic):
                sizes = spread if parameter.n_elements > 1 else [float(np.linalg.norm(spread))]
            elif parameter.name == "periodicity":
                sizes = [float(np.ptp(Z, axis=0).max()) or 1.0]
            else:
                known = type(leaf) in (RationalQuadratic, ExpSineSquared)
                sizes = [1.0 if known else np.nan] * parameter.n_elements
            if not parameter.fixed:
                yield from ((size, parameter.name == "length_scale") for size in sizes)

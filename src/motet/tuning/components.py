"""Variance components: a model as a sum of kernels, each with a variance beside the noise's, as settings are searched.

A model has shares α and 1−α and a noise λ, and its kernels may have scales of their own: many ways to write the same
covariance. Here every term of both kernels is a ``Component``, with one number for its size, its variance in units
of the noise's; so each can be switched off alone. ``Components.model`` is the way back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add
from typing import Literal, TypeAlias

import numpy as np
from sklearn.base import clone

from motet.arrays import Array
from motet.kernels.algebra import describe, innermost, is_held, leaves, of_parts, scale_of, summands, times, with_theta
from motet.kernels.classes import ConstantKernel, Kernel
from motet.kernels.registry import OwnScale, Size, entry_of
from motet.model.basis import BasisSpec, Eigen, Features, Landmarks
from motet.model.model import Model

Side: TypeAlias = Literal["average", "individual"]
EQUAL_SHARE = 0.5  # of both kernels and of the noise in the model that is searched: then only ratios are left
MIN_VARIANCE, MAX_VARIANCE = 1e-9, 1e9  # of a component, in units of the noise's
MIN_LENGTH, MAX_LENGTH = 1e-2, 10.0  # of a length scale, in units of the inputs' standard deviation
DEFAULT_BOUNDS = (1e-5, 1e5)  # scikit-learn's, which know nothing of units


@dataclass(frozen=True, eq=False)
class Component:
    """A term of one of the kernels: ``variance`` · ``kernel``, in units of the noise.

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

    @cached_property
    def own_scale(self) -> OwnScale | None:
        """What a kernel whose parameters include its scale can do; None of others, and of one that is fixed."""
        leaf = innermost(self.kernel)
        own = entry_of(leaf).own_scale
        return own if own is not None and not is_held(leaf) else None

    @property
    def has_own_scale(self) -> bool:
        return self.own_scale is not None

    def times(self, factor: float) -> Component:
        """With a factor before its covariance."""
        if self.own_scale is None:
            return replace(self, variance=factor * self.variance)
        return replace(self, kernel=_around(self.kernel, self.own_scale.times(innermost(self.kernel), factor)))

    @cached_property
    def scaled(self) -> Kernel:
        """The kernel times its variance, which is a parameter unless the kernel has a scale of its own."""
        if self.has_own_scale:
            return self.kernel
        bounds = (MIN_VARIANCE * 1e-12, MAX_VARIANCE * 1e12)
        return ConstantKernel(self.variance, bounds) * self.kernel

    @property
    def whole(self) -> Kernel:
        """The kernel times its variance, as a model has it."""
        return times(self.variance, self.kernel)

    @cached_property
    def parameters(self) -> int:
        """How many numbers of it are searched."""
        return len(self.scaled.theta)

    def size(self, X: Array) -> float:
        """The mean variance of the function at these inputs, in units of the noise's."""
        return self.variance * max(float(np.mean(self.kernel.diag(X))), 1e-300)

    def started(self, X: Array, ratio: float, length: float) -> Component:
        """With ``ratio`` times the noise's variance at these inputs, and lengths in units of the inputs' deviation."""
        kernel, theta = self.kernel, self.kernel.theta.copy()
        for i, (size, is_length) in enumerate(_natural_sizes(kernel, X)):
            if np.isfinite(size):
                theta[i] = np.clip(np.log(size * (length if is_length else 1.0)), *kernel.bounds[i])
        kernel = kernel.clone_with_theta(theta)
        if self.own_scale is not None:
            ((leaf, Z),) = leaves(kernel, X)
            return replace(self, kernel=_around(kernel, self.own_scale.of_variance(leaf, Z, ratio)), variance=1.0)
        started = replace(self, kernel=kernel, variance=1.0)
        return replace(started, variance=ratio / started.size(X))


@dataclass(frozen=True, eq=False)
class Components:
    """All components of a model, whose other settings (bias, basis, catalogue) are those of ``base``."""

    base: Model
    X: Array  # the inputs, for natural sizes of parameters
    terms: tuple[Component, ...]
    unit: float = 1.0  # the noise of a usual row: its weight is 1 only if nobody gave weights
    is_checked: bool = False  # all kernels are of a model that was made, but for their numbers

    @classmethod
    def of(cls, model: Model, X: Array, unit: float = 1.0) -> Components:
        """Every term of a model's kernels; those whose scale is fixed are one component, with their ratio."""
        terms: list[Component] = []
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
                    variance = model.noise.relative(max(share, MIN_VARIANCE) * scale)
                    terms.append(Component(side, rest, 1.0).times(variance))
            if held:
                terms.append(Component(side, reduce(add, held), model.noise.relative(max(share, MIN_VARIANCE))))
        return cls(model, X, tuple(terms), unit)

    def on(self, side: Side) -> list[Component]:
        return [component for component in self.terms if component.side == side]

    def drop(self, component: Component) -> Components | None:
        """Without a component; None if it is the last of the shifts, which a model cannot be without."""
        if component.side == "individual" and len(self.on("individual")) == 1:
            return None
        return replace(self, terms=tuple(other for other in self.terms if other is not component))

    # --- as a model whose parameters are those of its kernels alone ---

    @cached_property
    def searched(self) -> Model:
        """The model with equal shares and noise: its parameters are ``theta`` of its kernels, and no others."""
        average, individual = ([component.scaled for component in self.on(side)] for side in SIDES)
        changes = {
            "common": reduce(add, average) if average else None,
            "individual": reduce(add, individual),
            "alpha": EQUAL_SHARE,
            "lam": EQUAL_SHARE if average else 1.0,
            "basis": self._searched_basis if average else None,
            "sigma2": None,
        }
        return self.base.moved(**changes) if self.is_checked else replace(self.base, **changes)

    @property
    def _searched_basis(self) -> BasisSpec | None:
        """A basis of the same functions, whose derivatives are known: settings are of the process, not of its rank."""
        basis = self.base.basis
        if basis is not None and type(basis).functions not in (BasisSpec.functions, Features.functions):
            return None  # one from elsewhere: the growing basis has all of its kernel
        return Landmarks(basis.points) if isinstance(basis, Eigen) else basis

    @property
    def theta(self) -> Array:
        return np.concatenate([component.scaled.theta for component in self.terms])

    @property
    def names(self) -> list[str]:
        """The name of every parameter."""
        names: list[str] = []
        for component in self.terms:
            if not component.has_own_scale:
                names.append(f"variance of {component.label}")
            names += [f"{_plain(name)} of {component.label}" for name in _parameter_names(component.kernel)]
        return names

    def at(self, theta: Array) -> Components:
        """The same components at other parameters; that their kernels can be had is checked once."""
        checked, terms, used = self.searched is not None, [], 0
        for component in self.terms:
            scaled, used = with_theta(component.scaled, theta, used)
            if component.has_own_scale:
                terms.append(replace(component, kernel=scaled))
            else:
                terms.append(replace(component, kernel=scaled.k2, variance=float(scaled.k1.constant_value)))
        return replace(self, terms=tuple(terms), is_checked=checked)

    @property
    def bounds(self) -> Array:
        """Lowest and highest value of every parameter, as ``theta`` has them."""
        rows: list[tuple[float, float]] = []
        for component in self.terms:
            sizes = [size for size, _ in _natural_sizes(component.kernel, self.X)]
            if not component.has_own_scale:
                size = component.size(self.X) / component.variance / self.unit
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
            side: reduce(add, (c.times(factor / scale[side]).whole for c in self.on(side))) if self.on(side) else None
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


def _around(kernel: Kernel, leaf: Kernel) -> Kernel:
    """Another leaf that reads the inputs as the innermost of a kernel does."""
    return leaf if innermost(kernel) is kernel else of_parts(kernel, [_around(kernel.kernel, leaf)])


# --- parameters ---


def _without_zeros(kernel: Kernel) -> Kernel:
    """A copy in which a parameter of 0, as in ``DotProduct(0.0)``, is fixed: 0 has no logarithm, and is meant."""
    copy = clone(kernel)
    for leaf, _ in leaves(copy):
        for name in entry_of(leaf).bounds or ():
            if np.isscalar(value := getattr(leaf, name.removesuffix("_bounds"))) and not value:
                setattr(leaf, name, "fixed")
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
        deviation = np.where((std := Z.std(axis=0)) > 0, std, 1.0)
        for parameter in leaf.hyperparameters:
            size, count = (entry_of(leaf).sizes or {}).get(parameter.name), parameter.n_elements
            if size is Size.LENGTH:
                numbers = deviation if count > 1 else [float(np.linalg.norm(deviation))]
            elif size is Size.PERIOD:
                numbers = [float(np.ptp(Z, axis=0).max()) or 1.0]
            else:
                numbers = [np.nan if size is None else 1.0] * count
            if not parameter.fixed:
                yield from ((number, size is not None and size.is_length) for number in numbers)

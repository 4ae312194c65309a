"""The closed list of kernels: what each is called in JSON and study files, how its parameters are checked, and what is
known of it beside its values.

A kernel is in the list once it is registered under a name; ``motet.kernels.spec`` carries registered kernels as plain
data, so that they may come from a stranger. To add one, write its class in ``classes`` as a ``StackKernel``, or as
scikit-learn does, and register it in ``formulas``. A kernel of your own may live in your own file, which every program
that uses it imports: the ``motet`` program knows those of this list only.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from motet.arrays import Array, finite_number
from motet.errors import InvalidModel
from motet.kernels.classes import Kernel

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


def one_or_each(name: str, value: Any) -> float | list[float]:
    """A positive number for all columns, or a list with one for each."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, (list, tuple)):
        return positive(name, value)
    if not value:
        raise InvalidModel(f"{name} must be positive, one number for each column, got none")
    return [positive(name, one) for one in value]


# --- what is known of a kernel ---

StackGram: TypeAlias = Callable[[Any, Array, Array], Array]
Derivatives: TypeAlias = Iterator[Array]


class Size(Enum):
    """The natural size of a parameter, from which a search starts and in whose units it is bounded and shown."""

    LENGTH = "the inputs' standard deviation: of each column, if there is one for each, else of all together"
    PERIOD = "the inputs' range"
    SHAPE = "1, without units"
    SHAPE_LENGTH = "1, without units, of a length"

    @property
    def is_length(self) -> bool:
        return self in (Size.LENGTH, Size.SHAPE_LENGTH)


@dataclass(frozen=True)
class Features:
    """An explicit feature map of finite rank: k(x, x′) = u(x)ᵀu(x′).

    ``of(kernel, X, own)`` has rows u(x), of a table of inputs or of a stack. ``derivatives(kernel, X)`` are those of
    u(x), by default of central differences. Features of most kernels are as many at any inputs. Others have a feature
    for each level, an input that a task has, and nothing in common between levels: ``levels(X)`` counts those of a
    table. Their features are of the levels in ``own`` and one table at a time is asked for.
    """

    of: Callable[[Any, Array, Array], Array]
    derivatives: Callable[[Any, Array], Derivatives] | None = None
    levels: Callable[[Array], int] | None = None


@dataclass(frozen=True)
class OwnScale:
    """What a linear kernel whose parameters include its scale can do: no factor before it is a parameter.

    ``times(kernel, factor)`` is the kernel times a factor; ``of_variance(kernel, X, variance)`` one with that mean
    variance at these inputs, of which each effect has the same part; ``steps(kernel)`` how far one step of a search may
    take each parameter, in its own units. A parameter that is not negative has 0 as its lower bound.
    """

    times: Callable[[Any, float], Kernel]
    of_variance: Callable[[Any, Array, float], Kernel]
    steps: Callable[[Any], Array]


@dataclass(frozen=True)
class KernelEntry:
    """A kernel of the closed list; ``names`` are its parameters' names in JSON, if other than the constructor's.

    What is optional makes it faster, or better described. Without it, everything is slower, and right:

    - ``stack(kernel, X, Y)``: K over stacks of inputs; by default the kernel's method ``over``, or one after the other
    - ``derivatives(kernel, X, Y)``: ∂K/∂θᵢ for its free parameters in order; by default central differences
    - ``linear_form(kernel, p)``: C with k(x, x′) = (1, x)ᵀ C (1, x′); by default it is not linear
    - ``features``: its explicit feature map; by default long tasks have inducing inputs
    - ``sizes``: natural sizes of parameters; by default a search starts from the kernel as it is, between its bounds
    - ``own_scale``: of a linear kernel whose parameters include its scale; by default a factor before it is searched
    - ``words``: what reports call it; by default the name of the class
    """

    name: str
    type: type[Kernel]
    checks: Mapping[str, Check] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    stack: StackGram | None = None
    derivatives: Callable[[Any, Array, Array], Derivatives] | None = None
    linear_form: Callable[[Any, int], Array] | None = None
    features: Features | None = None
    sizes: Mapping[str, Size] | None = None
    own_scale: OwnScale | None = None
    words: str | None = None
    by_default: Collection[str] = ()

    def __post_init__(self) -> None:
        for name in self.by_default:
            if name not in OPTIONAL or getattr(self, name) is not None:
                raise InvalidModel(f"{self.name}: by_default has {name!r}, which is given, or is not one of {OPTIONAL}")

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """The constructor's parameters and their defaults."""
        return {key: p.default for key, p in inspect.signature(self.type).parameters.items()}

    @cached_property
    def bounds(self) -> list[str] | None:
        """Which parameters bound each hyperparameter, as scikit-learn names them; None if others may."""
        prefix = "hyperparameter_"
        names = [f"{name.removeprefix(prefix)}_bounds" for name in dir(self.type) if name.startswith(prefix)]
        is_usual = self.type.hyperparameters is Kernel.hyperparameters and set(names) <= set(self.defaults)
        return names if is_usual and self is not UNLISTED else None


OPTIONAL = tuple(one.name for one in fields(KernelEntry) if one.default is None)
KERNELS: dict[str, KernelEntry] = {}
COMPOSITES = ("sum", "product", "power", "scaled")  # names of kernels made of others
UNLISTED = KernelEntry("", Kernel)


def entry_of(kernel: Kernel) -> KernelEntry:
    """What is known of a kernel, by its exact class: a subclass may be another function. Of others, nothing."""
    kind = type(kernel)
    for entry in KERNELS.values():
        if entry.type is kind:
            return entry
    return UNLISTED


def register(
    name: str,
    kernel: type[Kernel],
    checks: Mapping[str, Check] | None = None,
    names: Mapping[str, str] | None = None,
    **known: Any,
) -> None:
    """Add a kernel to the closed list, under the ``name`` that JSON and study files use.

    The constructor's parameters are carried: positive numbers, unless ``checks`` has another check of one, and bounds,
    whose names end in ``_bounds``. The kernel must be a class of its own: a subclass of a registered one is not
    registered by that. What else is ``known`` of it, the optional fields of ``KernelEntry``, makes it faster, or better
    described; ``by_default`` names those that are left out with intention.
    """
    if name in KERNELS or name in COMPOSITES:
        raise InvalidModel(f"there is a kernel {name!r} already; choose another name")
    if any(kernel is entry.type for entry in KERNELS.values()):
        raise InvalidModel(f"{kernel.__name__} is registered already")
    KERNELS[name] = KernelEntry(name, kernel, checks or {}, names or {}, **known)


def kernel_names() -> str:
    """All names that a kernel may have in JSON, for messages."""
    return f"{', '.join([*KERNELS, *COMPOSITES])} (and columns=…)"

"""Kernels as plain data, and back.

``to_spec`` and ``from_spec`` take a kernel to a dictionary that JSON and TOML can hold, and back. Nothing outside the
closed list of ``motet.kernels`` passes either way, and no number that the list does not allow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import add, mul
from typing import Any, TypeAlias

import numpy as np

from motet.arrays import is_whole_number, numbers
from motet.errors import InvalidModel, UnknownKernel
from motet.kernels.classes import Exponentiation, Kernel, On, Product, Scaled, Sum, is_fixed
from motet.kernels.registry import (
    COMPOSITES,
    KERNELS,
    UNLISTED,
    Check,
    KernelEntry,
    entry_of,
    kernel_names,
    number,
    one_or_each,
    positive,
)

Spec: TypeAlias = dict[str, Any]


def to_spec(kernel: Kernel) -> Spec:
    """The kernel as plain data; raises unless every part is in the closed list and has numbers that it allows."""
    with _few_parts():
        return _spec(_checked(kernel))


def checked(kernel: Kernel) -> Kernel:
    """A copy of a kernel whose parts are all in the closed list, and whose numbers it allows."""
    with _few_parts():
        return _checked(kernel)


def from_spec(spec: Mapping[str, Any]) -> Kernel:
    """The kernel that ``to_spec`` wrote, or that a study file describes."""
    with _few_parts():
        kernel = _kernel(spec)
        _checked(kernel)
    return kernel


@contextmanager
def _few_parts() -> Iterator[None]:
    try:
        yield
    except RecursionError:
        raise InvalidModel("a kernel of too many parts") from None


# --- checks ---


def _checked(kernel: Kernel) -> Kernel:
    if type(kernel) in (Sum, Product):
        return type(kernel)(_checked(kernel.k1), _checked(kernel.k2))
    if type(kernel) is Exponentiation:
        return Exponentiation(_checked(kernel.kernel), number("exponent", kernel.exponent))
    if type(kernel) is On:
        if type(inner := _checked(kernel.kernel)) is On:
            raise InvalidModel(f"{kernel} chooses columns twice: write the innermost choice alone")
        return On(inner, _columns(kernel.columns))
    if type(kernel) is Scaled:
        return Scaled(_checked(kernel.kernel), **_scaling(kernel.center, kernel.scale))
    if (entry := entry_of(kernel)) is UNLISTED:
        raise UnknownKernel(f"unknown kernel {type(kernel).__name__}: known are {kernel_names()}")
    return entry.type(**{key: _parameter(kernel, entry, key) for key in entry.defaults})


def _parameter(kernel: Kernel, entry: KernelEntry, key: str) -> Any:
    value = getattr(kernel, key)
    if key.endswith("_bounds"):
        return value if value is entry.defaults[key] else _value(key, _bounds(key, value))
    check: Check = entry.checks.get(key, positive)
    return check(f"{key} of {type(kernel).__name__}", value)


def _bounds(key: str, value: Any) -> Any:
    """ "fixed", or one pair or several of positive numbers."""
    if is_fixed(value):
        return value
    pairs = numbers(value, key)
    if pairs.shape[-1:] != (2,) or pairs.ndim > 2 or not (pairs > 0).all() or (pairs[..., 0] > pairs[..., 1]).any():
        raise InvalidModel(f'{key} must be "fixed" or pairs of positive numbers, the lower first, got {value!r:.60}')
    return pairs.tolist()


# --- there, if checked ---


def _spec(kernel: Kernel) -> Spec:
    if type(kernel) is On:
        return _spec(kernel.kernel) | {"columns": kernel.columns}
    if type(kernel) in (Sum, Product):
        # Only the left arm is flattened, so that reading it back builds the same tree.
        left, right = _spec(kernel.k1), _spec(kernel.k2)
        name = "sum" if type(kernel) is Sum else "product"
        of = left["of"] if left["kernel"] == name and "columns" not in left else [left]
        return {"kernel": name, "of": [*of, right]}
    if type(kernel) is Exponentiation:
        return {"kernel": "power", "of": _spec(kernel.kernel), "exponent": kernel.exponent}
    if type(kernel) is Scaled:
        return {"kernel": "scaled", "of": _spec(kernel.kernel), "center": kernel.center, "scale": kernel.scale}
    entry = entry_of(kernel)
    spec: Spec = {"kernel": entry.name}
    for key, default in entry.defaults.items():
        value = getattr(kernel, key)
        if key.endswith("_bounds") and (value is default or (value := _bounds(key, value)) == _bounds(key, default)):
            continue
        spec[entry.names.get(key, key)] = "inf" if value == math.inf else value  # JSON has no infinity
    return spec


# --- and back ---


def _kernel(spec: Mapping[str, Any]) -> Kernel:
    if not isinstance(spec, Mapping) or "kernel" not in spec:
        raise InvalidModel(f'a kernel is a table such as {{"kernel": "rbf", "length_scale": 1.0}}, got {spec!r}')
    rest = {key: value for key, value in spec.items() if key not in ("kernel", "columns")}
    name = spec["kernel"]
    kernel = _composed(name, rest) if name in COMPOSITES else _registered(name, rest)
    return On(kernel, _columns(spec["columns"])) if "columns" in spec else kernel


def _composed(name: str, rest: Spec) -> Kernel:
    keys = {"power": ("of", "exponent"), "scaled": ("of", "center", "scale")}.get(name, ("of",))
    if set(rest) != set(keys):
        raise InvalidModel(f'"{name}" takes {" and ".join(keys)}, got {", ".join(rest) or "nothing"}')
    if name == "power":
        return Exponentiation(_kernel(rest["of"]), number("exponent", rest["exponent"]))
    if name == "scaled":
        return Scaled(_kernel(rest["of"]), **_scaling(rest["center"], rest["scale"]))
    parts = rest["of"]
    if not isinstance(parts, Sequence) or len(parts) < 2:
        raise InvalidModel(f'"{name}" needs a list of at least two kernels under "of", got {parts!r}')
    return reduce(add if name == "sum" else mul, (_kernel(part) for part in parts))


def _registered(name: Any, rest: Spec) -> Kernel:
    if not isinstance(name, str) or name not in KERNELS:
        raise UnknownKernel(f"unknown kernel {name!r}: known are {kernel_names()}")
    entry = KERNELS[name]
    keys = {entry.names.get(key, key): key for key in entry.defaults}
    for key in rest:
        if key not in keys:
            raise InvalidModel(f'"{name}" has no {key!r}: it takes {", ".join(keys) or "nothing"}')
    try:
        return entry.type(**{keys[key]: _value(key, value) for key, value in rest.items()})
    except TypeError:
        raise InvalidModel(f'"{name}" needs {", ".join(keys)}, got {", ".join(rest) or "nothing"}') from None


def _value(key: str, value: Any) -> Any:
    if isinstance(value, str) and value == "inf":
        return math.inf
    if key.endswith("_bounds") and isinstance(value, list):
        return tuple(value) if np.ndim(value) == 1 else np.asarray(value)
    return value


def _scaling(center: Any, scale: Any) -> Spec:
    """The numbers of ``Scaled``, one of each for every column."""
    centers = [number("center", value) for value in center] if np.iterable(center) else []
    scales = one_or_each("scale", scale)
    if not centers or not isinstance(scales, list) or len(scales) != len(centers):
        raise InvalidModel("a scaled kernel needs a center and a scale for every column")
    return {"center": centers, "scale": scales}


def _columns(columns: Any) -> list[int]:
    chosen = [c for c in columns if is_whole_number(c)] if np.iterable(columns) else []
    if not chosen or len(chosen) < len(columns) or min(chosen) < 0 or len(set(chosen)) < len(chosen):
        raise InvalidModel(f"columns must be distinct whole numbers from 0, at least one, got {columns!r}")
    return [int(c) for c in chosen]

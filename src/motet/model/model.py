"""A mixed-effect Gaussian process: the kernels of the average and of the shifts, their shares, bias, basis and noise.

A ``Model`` is frozen, checked when it is made, and carried as JSON; a release contains the one that it is of.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from motet.arrays import MAX_MAGNITUDE, Array, is_finite, is_whole_number, numbers
from motet.errors import EmptyData, InvalidData, InvalidModel, MotetError, NotFinite, WrongDimension
from motet.kernels.algebra import on_columns
from motet.kernels.classes import check_dimension
from motet.kernels.registry import number
from motet.kernels.spec import checked, from_spec, to_spec
from motet.model.basis import BASES, Basis, BasisSpec, Bias, basis_from_spec
from motet.model.noise import Noise
from motet.tables.catalogue import Catalogue
from motet.tables.columns import Columns
from motet.tables.roles import Layout

BIASES = ("none", "constant", "linear")


@dataclass(frozen=True, eq=False)
class Model:
    """f_j(x) = average + shift, with kernel α K̄ + (1−α) K̃ʲ and a bias; noise variance σ²λw.

    ``common=None`` leaves the bias alone as the average: K = K̃ and α plays no part. With a ``catalogue`` inputs may
    be names, and kernels that do not choose their columns read the items' features. With ``columns`` inputs may be
    given by name: a data frame, or a list of mappings. A ``bias`` that is a list of column numbers is a constant and
    slopes in those columns.
    """

    common: Kernel | None
    individual: Kernel
    alpha: float
    lam: float
    bias: Bias = "constant"
    basis: BasisSpec | None = None
    sigma2: float | None = None
    catalogue: Catalogue | None = None
    columns: Columns | None = None

    def __post_init__(self) -> None:
        for name in ("alpha", "lam", "sigma2") if self.sigma2 is not None else ("alpha", "lam"):
            value = number(name, getattr(self, name))
            if name == "alpha" and not 0 <= value <= 1:
                raise InvalidModel(f"alpha must lie in [0, 1], got {value!r}")
            if name != "alpha" and value <= 0:
                raise InvalidModel(f"{name} must be positive, got {value!r}")
            object.__setattr__(self, name, value)
        object.__setattr__(self, "bias", _checked_bias(self.bias, has_index=self.catalogue is not None))
        if self.basis is not None and type(self.basis) not in BASES.values():
            names = ", ".join(cls.__name__ for cls in BASES.values())
            raise InvalidModel(f"basis must be None or one of {names}, got {self.basis!r}")
        if self.basis is not None and self.common is None:
            raise InvalidModel("basis needs a common kernel; with common=None, omit basis")
        if self.columns is not None and self.catalogue is not None:
            raise InvalidModel("expected inputs by a catalogue or by columns, got both: omit one of them")
        for name in ("common", "individual"):
            if getattr(self, name) is not None or name == "individual":
                object.__setattr__(self, name, self.adapt(getattr(self, name)))
        if self.dimension is not None:
            self.check_dimension(self.dimension)

    def moved(self, **changes: Any) -> Model:
        """The same with settings that differ from checked ones in numbers alone: a search checks them once."""
        moved = copy(self)
        for name, value in changes.items():
            object.__setattr__(moved, name, value)
        return moved

    def adapt(self, kernel: Kernel) -> Kernel:
        """A checked copy of a kernel, which reads the catalogue's features if there is a catalogue."""
        if not isinstance(kernel, Kernel):
            raise InvalidModel(f"expected a kernel such as RBF(1.0) from sklearn or motet.kernels, got {kernel!r}")
        if self.catalogue is not None and self.catalogue.features:
            kernel = on_columns(kernel, self.catalogue.features)
        return checked(kernel)

    # --- shares: without a common kernel α plays no part ---

    @property
    def common_share(self) -> float:
        return 1.0 if self.common is None else self.alpha

    @property
    def individual_share(self) -> float:
        return 1.0 if self.common is None else 1.0 - self.alpha

    @property
    def noise(self) -> Noise:
        """How outputs scatter about a task's function."""
        return Noise(self.lam, self.sigma2)

    # --- inputs ---

    @property
    def dimension(self) -> int | None:
        """Columns of an input, if catalogue, named columns or basis settle it."""
        if self.catalogue is not None:
            return 1 + len(self.catalogue.features)
        if self.columns is not None:
            return self.columns.width
        return None if self.public_points is None else int(self.public_points.shape[1])

    @property
    def public_points(self) -> Array | None:
        """Inputs that the model itself makes public: the catalogue's rows, or the basis's points."""
        if self.catalogue is not None:
            return self.catalogue.rows
        return None if self.basis is None else self.basis.public_points

    def check_dimension(self, p: int) -> None:
        """Raises unless inputs of ``p`` columns can be read."""
        if self.dimension is not None and p != self.dimension:
            raise WrongDimension(f"inputs must have {self.dimension} columns, got {p}")
        if not isinstance(self.bias, str) and max(self.bias) >= p:
            raise WrongDimension(f"the bias reads column {max(self.bias)}, inputs have {p} columns, numbered from 0")
        for kernel in (self.common, self.individual):
            if kernel is not None:
                check_dimension(kernel, p)
        if self.basis is not None and self.common is not None:
            self.basis.check(self.common, p)

    def layout(self, dimension: int) -> Layout:
        """Of tables with such inputs; the other columns have their usual names."""
        return Layout(catalogue=self.catalogue, columns=self.columns, dimension=dimension)

    def rows(self, X: Any, p: int | None = None) -> Array:
        """Inputs as a table of finite numbers; names are looked up, and named columns put in their order."""
        if self.columns is not None and _have_names(X):
            X = self.columns.rows(X)
        if _are_names(X):
            if self.catalogue is None:
                raise InvalidData(f"this model has no catalogue, so inputs are numbers, not names such as {X!r:.40}")
            return self.catalogue.look_up([X] if isinstance(X, str) else X)
        array = numbers(X, "inputs")
        if not array.size and p is not None:
            return np.empty((0, p))
        if array.ndim != 2:
            raise WrongDimension(f"inputs must be a table, one row each, got an array of shape {array.shape}")
        if p is not None and array.shape[1] != p:
            raise WrongDimension(f"inputs must have {p} columns, got {array.shape[1]}")
        if not array.shape[1]:
            raise EmptyData("inputs must have at least one column")
        if len(array) and not (array.max() < MAX_MAGNITUDE and array.min() > -MAX_MAGNITUDE):
            bad = int(np.argwhere(~is_finite(array))[0, 0])
            raise NotFinite(f"inputs must be finite (below {MAX_MAGNITUDE:g}); row {bad} is {array[bad]!s:.60}")
        return np.ascontiguousarray(array)

    def inputs(self, rows: Array) -> list[Any]:
        """Rows as people write them: names in the catalogue, cells by column, or lists of numbers."""
        if self.columns is not None:
            return self.columns.cells(rows)
        return rows.tolist() if self.catalogue is None else self.catalogue.name_rows(rows)

    def fixed_basis(self, p: int) -> Basis | None:
        """The basis built, on inputs of ``p`` columns; None if it grows with the inputs."""
        if self.common is not None and self.basis is None:
            return None
        return Basis.fixed(self.basis, self.common, p, self.bias, self.catalogue is not None)

    # --- JSON ---

    def to_spec(self) -> dict[str, Any]:
        """The model as plain data; a basis on the whole catalogue names it instead of repeating its rows.

        Releases have a digest of it and private studies pin it, so a setting that is added later is left out while it
        has its default.
        """
        basis = None if self.basis is None else self.basis.to_spec()
        if self.catalogue is not None and basis is not None and "points" in basis:
            whole = np.array_equal(np.asarray(basis["points"]), self.catalogue.rows)
            basis["points"] = "catalogue" if whole else basis["points"]
        return {
            "common": None if self.common is None else to_spec(self.common),
            "individual": to_spec(self.individual),
            "alpha": self.alpha,
            "lam": self.lam,
            "bias": self.bias if isinstance(self.bias, str) else list(self.bias),
            "basis": basis,
            "sigma2": self.sigma2,
            "catalogue": None if self.catalogue is None else self.catalogue.to_spec(),
        } | ({} if self.columns is None else {"columns": self.columns.to_spec()})

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> Model:
        """The model that ``to_spec`` wrote."""
        try:
            catalogue = None if spec["catalogue"] is None else Catalogue.from_spec(spec["catalogue"])
            basis = spec["basis"]
            if catalogue is not None and basis is not None and basis.get("points") == "catalogue":
                basis = {**basis, "points": catalogue}
            common = None if spec["common"] is None else from_spec(spec["common"])
            kernels = {"common": common, "individual": from_spec(spec["individual"])}
            columns = Columns.from_spec(spec["columns"]) if "columns" in spec else None
            parts = {"basis": basis_from_spec(basis), "catalogue": catalogue, "columns": columns}
            return cls(**{**spec, **kernels, **parts})
        except MotetError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InvalidModel(f"not a model's JSON: {error!r:.80}") from None

    def to_json(self) -> str:
        return json.dumps(self.to_spec(), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Model:
        try:
            spec = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise InvalidModel(f"not a model's JSON: {error!r:.80}") from None
        return cls.from_spec(spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())


def _checked_bias(bias: Any, *, has_index: bool) -> Bias:
    """The bias's name, or its columns in their order."""
    if isinstance(bias, str) and bias in BIASES:
        return bias  # type: ignore[return-value]
    columns: list[Any] = list(bias) if isinstance(bias, (list, tuple)) and bias else [None]
    first = 1 if has_index else 0
    if not all(is_whole_number(k) and k >= first for k in columns) or len(set(columns)) < len(columns):
        known = f"one of {', '.join(BIASES)}, or a list of different column numbers from {first} on"
        raise InvalidModel(f"bias must be {known}, got {bias!r:.60}")
    return tuple(sorted(int(k) for k in columns))


def _have_names(X: Any) -> bool:
    """Whether inputs are a frame or have mappings."""
    first = X[0] if isinstance(X, (list, tuple)) and X else X
    return isinstance(first, Mapping) or hasattr(X, "columns")


def _are_names(X: Any) -> bool:
    is_list = isinstance(X, (list, tuple)) or (isinstance(X, np.ndarray) and X.ndim == 1)
    return isinstance(X, str) or (is_list and len(X) > 0 and isinstance(X[0], str))

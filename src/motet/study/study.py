"""A study: one TOML file that says what is learned, of which inputs, under which promise, and where it is kept.

``Study.load`` refuses, in one line, all that could not be served or released later; what the file leaves out has a
default, and ``template`` writes a file to begin with.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from motet.arrays import BOUND, Array
from motet.errors import InvalidData, InvalidNoise, MotetError, UnknownName, WrongDimension
from motet.model.basis import BASES, BasisSpec
from motet.model.catalogue import Catalogue
from motet.model.model import Model
from motet.model.spec import from_spec
from motet.privacy.coordinates import Coordinates
from motet.privacy.mechanism import Ledger, Mechanism
from motet.study.file import Where, read
from motet.study.pins import contradiction, pinned
from motet.study.schema import File, Inputs, Limits, Release, Server
from motet.study.template import template
from motet.text import brief

__all__ = ["Limits", "Release", "Server", "Study", "template"]

SIMULATED = 400  # inputs spread between public bounds, for clients that a private study simulates
LOOKED_AT = 100  # public points that loading looks at; the mechanism looks at all


@dataclass(frozen=True, eq=False, kw_only=True)
class Study:
    """``release``, ``limits`` and ``server`` are the file's sections; ``model`` has the catalogue."""

    path: Path
    name: str
    model: Model
    dimension: int
    bounds: tuple[tuple[float, float], ...] | None
    limits: Limits
    release: Release
    server: Server
    store_url: str = field(repr=False)  # may hold a password

    @classmethod
    def load(cls, path: str | Path) -> Study:
        path = Path(path)
        file, where = read(path), Where(path.name)
        catalogue = _catalogue(file.inputs, path.parent, where)
        dimension = file.inputs.dimension or 1 + len(catalogue.features if catalogue else ())
        bounds = file.inputs.bounds
        study = cls(
            path=path,
            name=file.study.name,
            model=_model(file, catalogue, dimension, where),
            dimension=dimension,
            bounds=bounds * dimension if bounds is not None and len(bounds) == 1 else bounds,
            limits=file.limits,
            release=file.release,
            server=file.server,
            store_url=_resolved(file.store.url or f"sqlite:///{path.stem}.db", path.parent),
        )
        study._check_release(where)
        return study

    @property
    def private(self) -> bool:
        return self.release.policy == "private"

    # --- the private release ---

    def mechanism(self) -> Mechanism | None:
        """What a private release needs, made when first asked for; None under ``exact``."""
        return self._mechanism if self.private else None

    @cached_property
    def _mechanism(self) -> Mechanism:
        with Where(self.path.name).at("basis"):
            return Mechanism(self.model, examples=self.release.examples, points=self.points)

    def ledger(self) -> Ledger | None:
        """The whole budget, nothing of it spent; None under ``exact``."""
        budget = self.release
        if not self.private or budget.epsilon is None or budget.releases is None:
            return None
        return Ledger(epsilon=budget.epsilon, delta=budget.delta, releases=budget.releases, per=budget.per)

    @property
    def points(self) -> Array | None:
        """Public inputs such as clients may have: the catalogue, the basis's own, or some between the bounds."""
        if self.model.public_points is not None or self.bounds is None:
            return self.model.public_points
        low, high = np.array(self.bounds).T
        return np.asarray(low + (high - low) * np.random.default_rng(0).random((SIMULATED, self.dimension)))

    def _check_release(self, where: Where) -> None:
        """The release's own refusals, of few of the points, with the key that each is about."""
        if not self.private:
            return
        model, points = self.model, self.points
        if points is None and (model.common is None or model.basis is not None):
            raise where.refusal(
                "inputs.bounds",
                "missing; expected [lowest, highest] for all columns, or a list with one such pair for each: "
                "a private study simulates clients between them",
            )
        few = None if points is None else points[:LOOKED_AT]
        if model.basis is not None:
            model = replace(model, basis=model.basis.at_most(LOOKED_AT))
        with where.at(_unfit(model)):
            Coordinates.of(model, few)

    # --- what a start pins ---

    def pinned(self) -> str:
        """Policy, budget, model, basis, inputs and limits, in one canonical text."""
        return pinned(
            self.model, dimension=self.dimension, bounds=self.bounds, limits=self.limits, release=self.release
        )

    def contradicts(self, pinned: str) -> str | None:
        """Why this study may not go on with what another start pinned, naming the key; None where it may.

        Where it may under ``exact``, pin anew: appended rows of the catalogue are then fixed as well.
        """
        return contradiction(pinned, self.pinned(), self.model.catalogue)

    # --- examples that come ---

    def check_examples(
        self, xs: list[Any], ys: list[Any], noises: list[Any]
    ) -> tuple[Array, Sequence[float], Sequence[float]]:
        """Rows, outputs and noise of many; the first that is refused is named."""
        plain = _within(ys, self.limits.y or (-BOUND, BOUND)) and _within(noises, self.limits.noise)
        if plain and (rows := self._rows(xs)) is not None:
            return rows, ys, noises
        checked = [self.check_example(*given, where=f"examples.{k}") for k, given in enumerate(zip(xs, ys, noises))]
        each, y, noise = zip(*checked)
        return np.array(each), y, noise

    def check_example(
        self, x: Any, y: Any, noise: Any = 1.0, *, where: str | None = None
    ) -> tuple[Array, float, float]:
        """An input's row, its output and noise, where the study's limits allow them; a refusal says ``where``."""
        try:
            return self._checked(x, y, noise)
        except MotetError as error:
            error.where = where
            raise

    def _checked(self, x: Any, y: Any, noise: Any) -> tuple[Array, float, float]:
        row = self._row(x)
        low, high = self.limits.y or (-BOUND, BOUND)
        if not (_is_number(y) and low <= y <= high):
            raise InvalidData(f"y must be a number from {low:g} to {high:g}, got {brief(y)}")
        low, high = self.limits.noise
        if not (_is_number(noise) and low <= noise <= high):
            raise InvalidNoise(f"noise must be a variance from {low:g} to {high:g}, got {brief(noise)}")
        return row, float(y), float(noise)

    def _rows(self, xs: list[Any]) -> Array | None:
        """The rows of many inputs, where all are plainly good."""
        catalogue = self.model.catalogue
        if catalogue is not None:
            known = all(isinstance(x, str) and x in catalogue for x in xs)
            return catalogue.look_up(xs) if known else None
        if set(map(type, xs)) != {list} or set(map(len, xs)) != {self.dimension}:
            return None
        limits = self.bounds or ((-BOUND, BOUND),) * self.dimension
        return np.array(xs) + 0.0 if all(map(_within, zip(*xs), limits)) else None

    def _row(self, x: Any) -> Array:
        catalogue = self.model.catalogue
        if isinstance(x, str):
            if catalogue is None:
                raise InvalidData(f"x must be a list of {self.dimension} numbers, got {brief(x)}")
            try:
                return np.asarray(catalogue.look_up([x])[0])
            except UnknownName as error:
                raise InvalidData(f"x must be a name: {error}") from None
        if isinstance(x, np.ndarray):
            x = x.tolist()
        if not isinstance(x, (list, tuple)) or not all(map(_is_number, x)):
            wanted = f"a list of {self.dimension} numbers" if catalogue is None else "a name in the catalogue"
            raise InvalidData(f"x must be {wanted}, got {brief(x)}")
        if len(x) != self.dimension:
            raise WrongDimension(f"x must have {self.dimension} numbers, got {len(x)}")
        row = np.array(x, dtype=float) + 0.0
        self._check_place(row)
        return row

    def _check_place(self, row: Array) -> None:
        if self.model.catalogue is not None:
            try:
                self.model.catalogue.name_rows(row[None])
            except UnknownName:
                raise InvalidData(f"x must be a name in the catalogue, got numbers: {brief(row.tolist())}") from None
        for column, (value, (low, high)) in enumerate(zip(row.tolist(), self.bounds or ())):
            if not low <= value <= high:
                raise InvalidData(f"x[{column}] must be a number from {low:g} to {high:g}, got {value:g}")


def _within(values: Sequence[Any], limits: tuple[float, float]) -> bool:
    """Whether all are floats between the limits; numpy would take longer for as few as a request has."""
    if set(map(type, values)) != {float}:
        return False
    least, most = min(values), max(values)
    inside = limits[0] <= least and most <= limits[1] and max(-least, most) < BOUND
    return inside and not math.isnan(sum(values))


def _is_number(value: Any) -> bool:
    plain = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    return plain and bool(-BOUND < value < BOUND)


def _catalogue(inputs: Inputs, folder: Path, where: Where) -> Catalogue | None:
    if inputs.catalogue is None:
        return None
    with where.at("inputs.catalogue"):
        return Catalogue.from_csv(folder / inputs.catalogue, normalise=inputs.normalise)


def _model(file: File, catalogue: Catalogue | None, dimension: int, where: Where) -> Model:
    """The model, built step by step so that a refusal names its key."""
    said = file.model
    kernels = {}
    for key, spec in (("common", said.common), ("individual", said.individual)):
        with where.at(f"model.{key}"):
            kernels[key] = None if spec is None else from_spec(spec)
            if spec is not None:
                Model(None, kernels[key], 1.0, 1.0, catalogue=catalogue).check_dimension(dimension)
    with where.at("basis.rank"):
        basis = _basis(file, catalogue, dimension)
    with where.at("basis.kind"):
        alpha = 0.0 if said.alpha is None else said.alpha
        settings = {"lam": said.lam, "bias": said.bias, "sigma2": said.sigma2, "basis": basis, "catalogue": catalogue}
        model = Model(alpha=alpha, **kernels, **settings)  # type: ignore[arg-type]
        model.check_dimension(dimension)
    return model


def _basis(file: File, catalogue: Catalogue | None, dimension: int) -> BasisSpec | None:
    points = file.basis.table(dimension) if catalogue is None else catalogue
    if file.basis.kind == "growing":
        return None
    kind, given = BASES[file.basis.kind], {"points": points, "rank": file.basis.rank}
    return kind(**{name: given[name] for name in kind.settings()})


def _unfit(model: Model) -> str:
    """The key that keeps a model from private releases, in the order in which they refuse it."""
    if model.common is not None and model.basis is None:
        return "basis.kind"
    if not model.common_share:
        return "model.alpha"
    if model.common is None and model.bias == "none":
        return "model.bias"
    return "model.sigma2" if model.sigma2 is None else "model"


def _resolved(url: str, folder: Path) -> str:
    """The URL, with a relative path of SQLite's beside the study file."""
    found = re.fullmatch(r"(sqlite[^:]*:///)([^?]*)(.*)", url)
    if found is None or found[2].startswith((":memory:", "file:")):
        return url
    return f"{found[1]}{(folder / found[2]).resolve()}{found[3]}"

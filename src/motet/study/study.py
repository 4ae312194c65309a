"""A study: one TOML file with what is learned, of which inputs, what is promised to clients, and where it is kept.

``Study.load`` refuses, in one line, all that could not be served or released later. Keys that the file leaves out have
defaults.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from motet.arrays import Array
from motet.errors import InvalidStudy
from motet.model.basis import BASES, BasisSpec
from motet.model.catalogue import Catalogue
from motet.model.model import Model
from motet.model.spec import from_spec
from motet.privacy.coordinates import Coordinates
from motet.privacy.ledger import Ledger
from motet.privacy.mechanism import Mechanism
from motet.study.file import blaming, one_line, parse, read_text
from motet.study.pins import contradiction, pinned
from motet.study.range import largest_input
from motet.study.schema import FILE_URL, BasisSection, File, Inputs, Limits, Release, Server

SIMULATED_INPUTS = 400  # spread between public bounds, for clients that a private study simulates
MAX_POINTS_CHECKED = 100  # of the public points, when a study is loaded; the mechanism uses all of them


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
    store_url: str = field(repr=False)  # may have a password

    @classmethod
    def load(cls, path: str | Path) -> Study:
        path = Path(path)
        text = read_text(path)
        with one_line(path.name):
            file = parse(text)
            catalogue = _catalogue(file.inputs, path.parent)
            dimension = file.inputs.dimension or 1 + len(catalogue.features if catalogue else ())
            bounds = file.inputs.bounds
            study = cls(
                path=path,
                name=file.study.name,
                model=_model(file, catalogue, dimension),
                dimension=dimension,
                bounds=bounds * dimension if bounds is not None and len(bounds) == 1 else bounds,
                limits=file.limits,
                release=file.release,
                server=file.server,
                store_url=_resolved(file.store.url or f"sqlite:///{path.stem}.db", path.parent),
            )
            if study.private:
                study._check_private()
        return study

    @property
    def private(self) -> bool:
        return self.release.policy == "private"

    @cached_property
    def input_bounds(self) -> tuple[tuple[float, float], ...] | None:
        """The lowest and the highest number of each column: the file's, or those that the model can be computed with.

        None if inputs are names.
        """
        if self.bounds is not None or self.model.catalogue is not None:
            return self.bounds
        largest = largest_input(self.model, self.dimension, self.limits.noise[0])
        return ((-largest, largest),) * self.dimension

    # --- private releases ---

    def mechanism(self) -> Mechanism | None:
        """Makes private releases; built when first used, None without noise."""
        return self._mechanism if self.private else None

    @cached_property
    def _mechanism(self) -> Mechanism:
        with one_line(self.path.name), blaming("basis"):
            return Mechanism(self.model, examples=self.release.examples, points=self.points)

    def ledger(self) -> Ledger | None:
        """The whole budget, nothing of it spent; None without noise."""
        budget = self.release
        if not self.private or budget.epsilon is None or budget.releases is None:
            return None
        return Ledger(epsilon=budget.epsilon, delta=budget.delta, releases=budget.releases, per=budget.per)

    @property
    def points(self) -> Array | None:
        """Public inputs that clients may have: the catalogue, the points of the basis, or random ones within the
        bounds."""
        if self.model.public_points is not None or self.bounds is None:
            return self.model.public_points
        low, high = np.array(self.bounds).T
        return np.asarray(low + (high - low) * np.random.default_rng(0).random((SIMULATED_INPUTS, self.dimension)))

    def _check_private(self) -> None:
        """Refuse, on a few of the points, what a private release would refuse on all of them."""
        model, points = self.model, self.points
        if points is None and (model.common is None or model.basis is not None):
            raise InvalidStudy(
                "missing; expected [lowest, highest] for all columns, or a list with one such pair for each: "
                "a private study simulates clients between them",
                where="inputs.bounds",
            )
        few = None if points is None else points[:MAX_POINTS_CHECKED]
        if model.basis is not None:
            model = replace(model, basis=model.basis.at_most(MAX_POINTS_CHECKED))
        keys = {"basis": "basis.kind", "alpha": "model.alpha", "bias": "model.bias", "sigma2": "model.sigma2"}
        with blaming("model", keys):
            Coordinates.of(model, few)

    # --- settings that a start pins ---

    def pinned(self) -> str:
        """Policy, budget, model, basis, inputs and limits, in one canonical text."""
        return pinned(
            self.model, dimension=self.dimension, bounds=self.bounds, limits=self.limits, release=self.release
        )

    def contradicts(self, pinned: str) -> str | None:
        """Why this study may not go on with settings that an earlier start pinned, naming the key; None if it may.

        If it may under ``exact``, pin again: appended rows of the catalogue are then fixed as well.
        """
        return contradiction(pinned, self.pinned(), self.model.catalogue)


def _catalogue(inputs: Inputs, folder: Path) -> Catalogue | None:
    if inputs.catalogue is None:
        return None
    with blaming("inputs.catalogue"):
        return Catalogue.from_csv(folder / inputs.catalogue, normalise=inputs.normalise)


def _model(file: File, catalogue: Catalogue | None, dimension: int) -> Model:
    """The model, built step by step so that a refusal names its key."""
    section = file.model
    kernels = {}
    for key, spec in (("common", section.common), ("individual", section.individual)):
        with blaming(f"model.{key}"):
            kernels[key] = None if spec is None else from_spec(spec)
            if spec is not None:
                Model(None, kernels[key], 1.0, 1.0, catalogue=catalogue).check_dimension(dimension)
    with blaming("model.bias"):
        Model(None, kernels["individual"], 1.0, 1.0, section.bias, catalogue=catalogue).check_dimension(dimension)
    with blaming("basis" if file.basis.rank is None else "basis.rank"):
        basis = _basis(file.basis, catalogue, dimension)
    with blaming("basis.kind"):
        model = Model(
            **kernels,
            alpha=0.0 if section.alpha is None else section.alpha,
            lam=section.lam,
            bias=section.bias,
            sigma2=section.sigma2,
            basis=basis,
            catalogue=catalogue,
        )
        model.check_dimension(dimension)
    return model


def _basis(section: BasisSection, catalogue: Catalogue | None, dimension: int) -> BasisSpec | None:
    if section.kind == "growing":
        return None
    kind = BASES[section.kind]
    settings = {name: getattr(section, name) for name in kind.settings()}
    if "points" in settings:
        settings["points"] = section.table(dimension) if catalogue is None else catalogue
    return kind(**settings)


def _resolved(url: str, folder: Path) -> str:
    """The URL; if the database is a file, a relative path of it is beside the study file."""
    parts = FILE_URL.fullmatch(url)
    if parts is None or parts[2].startswith((":memory:", "file:")):
        return url
    return f"{parts[1]}{os.path.realpath(folder / parts[2])}{parts[3]}"

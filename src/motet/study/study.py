"""A study: one TOML file with what is learned, of which inputs, what is promised to clients, and where it is kept.

``Study.load`` refuses, in one line, all that could not be served or released later. Keys that the file leaves out have
defaults.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from motet.arrays import Array
from motet.engine.system import MAX_MATRIX_ROWS
from motet.errors import InvalidModel, InvalidStudy
from motet.kernels.algebra import has_levels
from motet.kernels.finite_rank import has_few_features
from motet.kernels.spec import from_spec
from motet.model.basis import BASES, BasisSpec, Bias
from motet.model.model import Model
from motet.privacy.clipping import MAX_INPUTS_PER_CLIENT
from motet.privacy.coordinates import Coordinates
from motet.privacy.ledger import Ledger
from motet.privacy.mechanism import Mechanism
from motet.release.names import Names
from motet.study.file import blaming, check_points, one_line, parse, read_text
from motet.study.pins import RELEASED, Since, contradiction, not_fixed, pinned, terms
from motet.study.points import public_inputs, quasi_random_points
from motet.study.range import largest_input
from motet.study.schema import (
    FILE_URL,
    BasisSection,
    File,
    Limits,
    Output,
    PilotSection,
    Release,
    Server,
    TableSection,
)
from motet.tables.catalogue import Catalogue
from motet.tables.columns import Columns
from motet.text import brief, count

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
    table: TableSection
    output: Output
    store_url: str = field(repr=False)  # may have a password
    pilot: PilotSection | None = field(default=None, repr=False)

    @classmethod
    def load(cls, path: str | Path) -> Study:
        return cls.of(read_text(Path(path)), Path(path))

    @classmethod
    def of(cls, text: str, path: Path, catalogue: Catalogue | None = None) -> Study:
        """Of a study file's text, which is or will be at a path; a catalogue is read from its file, if not given."""
        with one_line(path.name):
            file = parse(text)
            model, bounds = _model(file, path.parent, catalogue)
            study = cls(
                path=path,
                name=file.study.name,
                model=model,
                dimension=file.inputs.dimension or model.dimension or 1,
                bounds=bounds,
                limits=file.limits,
                release=file.release,
                server=file.server,
                table=file.table,
                output=file.output,
                store_url=store_url(file.store.url or f"sqlite:///{path.stem}.db", path.parent),
                pilot=file.pilot,
            )
            study._check_length()
            if study.private:
                study._check_private()
        return study

    @property
    def output_name(self) -> str:
        return self.output.name or self.table.target

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
        largest, columns = largest_input(self.model, self.dimension, self.limits.noise[0]), self.model.columns
        computable = (-largest, largest)
        return (computable,) * self.dimension if columns is None else columns.bounds_or(computable)

    def _check_length(self) -> None:
        """A client may have any number of examples if the basis is fixed and the shift has few features, or gets them.

        It gets none for levels, which may be as many as the examples; nor in a private study.
        """
        most, sent = MAX_INPUTS_PER_CLIENT if self.private else MAX_MATRIX_ROWS, self.limits.examples_per_client
        is_fixed, shift = self.model.common is None or self.model.basis is not None, self.model.individual
        is_short = has_few_features(shift, self.dimension) if self.private else not has_levels(shift)
        if sent <= most or (is_fixed and is_short):
            return
        if self.private:
            study = "a private study, in which a client with more adds nothing"
            needs = "a shift of few features (dot_product, linear, constant, power)"
        else:
            study, needs = "this study", "a shift without identity"
        raise InvalidStudy(
            f"expected at most {most} in {study}, got {sent}; more need {needs} and a fixed basis",
            where="limits.examples_per_client",
        )

    @property
    def settings_source(self) -> dict[str, Any]:
        """Where the settings come from, which everybody may read: without names or digests."""
        if self.pilot is None:
            return {"source": "file"}
        return {"source": "pilot", "clients": self.pilot.clients, "joins": self.pilot.joins}

    # --- private releases ---

    def mechanism(self) -> Mechanism | None:
        """Makes private releases; built when first used, None without noise."""
        return self._mechanism if self.private else None

    @cached_property
    def _mechanism(self) -> Mechanism:
        with one_line(self.path.name), blaming("basis"):
            release = self.release
            return Mechanism(self.model, examples=release.examples, points=self.points, center=release.center)

    def ledger(self) -> Ledger | None:
        """The whole budget, nothing of it spent; None without noise."""
        budget = self.release
        if not self.private or budget.epsilon is None or budget.releases is None:
            return None
        return Ledger(epsilon=budget.epsilon, delta=budget.delta, releases=budget.releases, per=budget.per)

    @property
    def points(self) -> Array | None:
        """Public inputs that clients may have, by which private releases bound what each adds."""
        return public_inputs(self.model, self.bounds, for_releases=True)

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
        if self.release.center and model.bias == "none":
            raise InvalidStudy(
                'must be 0 when model.bias = "none"; set it to 0, or choose model.bias = "constant"',
                where="release.center",
            )
        keys = {"basis": "basis.kind", "alpha": "model.alpha", "bias": "model.bias", "sigma2": "model.sigma2"}
        with blaming("model", keys):
            Coordinates.of(model, few)

    # --- settings that the database keeps ---

    def pinned(self) -> str:
        """Policy, budget, model, basis, inputs and limits, in one canonical text."""
        inputs = {"dimension": self.dimension, "bounds": self.bounds}
        return pinned(self.model, inputs, self.limits, self.release, self.pilot)

    @property
    def terms(self) -> str:
        """A digest of what clients send under: inputs, limits and promise."""
        return terms(self.pinned())

    @property
    def names(self) -> Names:
        """What releases say of tables and of the output."""
        table, unit = self.table, self.output.unit or ""
        return Names(
            study=self.name,
            client=table.client,
            target=table.target,
            item=table.name,
            output=self.output_name,
            unit=unit,
        )

    def contradicts(self, pinned: str, since: Since = RELEASED) -> str | None:
        """Why this study may not go on with the settings of the last start, naming the key; None if it may.

        If it may, pin again: what was changed is then fixed as well, such as appended rows of the catalogue.
        """
        return contradiction(pinned, self.pinned(), self.model.catalogue, since)

    def not_fixed(self, since: Since) -> str:
        """What an edited study file may still change, and until when, in one line; empty if nothing."""
        return not_fixed(self.release.policy, since)


def settings_words(source: Mapping[str, Any]) -> str:
    """Where settings come from, by ``settings_source``."""
    if source["source"] != "pilot":
        return "from the study file"
    part = "who take part too, and ε does not cover that" if source["joins"] else "who take no part"
    return f"from a pilot of {count(source['clients'], 'client')}, {part}"


def _model(
    file: File, folder: Path, catalogue: Catalogue | None
) -> tuple[Model, tuple[tuple[float, float], ...] | None]:
    """The model, built step by step so that a refusal names its key; and the bounds of the inputs' numbers."""
    section, inputs = file.model, file.inputs
    with blaming("inputs.catalogue"):
        if catalogue is None and inputs.catalogue is not None:
            catalogue = Catalogue.from_csv(folder / inputs.catalogue, normalise=inputs.normalise)
    with blaming("inputs.columns"):
        columns = None if inputs.columns is None else Columns.from_spec(inputs.columns)
        for column in columns or ():
            if column.may_be_missing or column.reference:
                raise InvalidModel(f"inputs of a study take no filler and no reference; remove it from {column.name!r}")
    if columns is not None:
        dimension, bounds = columns.width, columns.bounds
    else:
        dimension = inputs.dimension or 1 + len(catalogue.features if catalogue else ())
        bounds = inputs.bounds if inputs.bounds is None or len(inputs.bounds) > 1 else inputs.bounds * dimension
    about: dict[str, Any] = {"catalogue": catalogue, "columns": columns}
    kernels = {}
    for key, spec in (("common", section.common), ("individual", section.individual)):
        with blaming(f"model.{key}"):
            kernels[key] = None if spec is None else from_spec(_numbered(spec, columns))
            if spec is not None:
                Model(None, kernels[key], 1.0, 1.0, **about).check_dimension(dimension)
    with blaming("model.bias"):
        bias = _slopes(section.bias, columns)
        Model(None, kernels["individual"], 1.0, 1.0, bias, **about).check_dimension(dimension)
    with blaming("basis" if file.basis.rank is None else "basis.rank"):
        basis = _basis(file.basis, catalogue, columns, bounds, dimension)
    with blaming("basis.kind"):
        model = Model(
            **kernels,
            alpha=0.0 if section.alpha is None else section.alpha,
            lam=section.lam,
            bias=bias,
            sigma2=section.sigma2,
            basis=basis,
            **about,
        )
        model.check_dimension(dimension)
    return model, bounds


def _numbered(spec: Any, columns: Columns | None) -> Any:
    """A kernel's specification with numbers in place of the names of inputs."""
    if isinstance(spec, list):
        return [_numbered(part, columns) for part in spec]
    if not isinstance(spec, dict):
        return spec
    spec = {key: _numbered(value, columns) if key == "of" else value for key, value in spec.items()}
    chosen = spec.get("columns")
    if isinstance(chosen, list) and any(isinstance(one, str) for one in chosen):
        spec["columns"] = [place for one in chosen for place in _places(one, columns)]
    return spec


def _places(name: Any, columns: Columns | None) -> list[Any]:
    if not isinstance(name, str):
        return [name]
    if columns is None:
        raise InvalidModel(f"{brief(name)} is a name, and the inputs have none: give inputs.columns, or a number")
    return columns.places(name)


def _slopes(bias: Any, columns: Columns | None) -> Bias:
    """A bias with column numbers; of a category without its first value, which the constant has."""
    if isinstance(bias, str):
        return bias  # type: ignore[return-value]
    each = [_places(one, columns) for one in bias]
    return [place for places in each for place in (places[1:] if len(places) > 1 else places)]


def _basis(
    section: BasisSection,
    catalogue: Catalogue | None,
    columns: Columns | None,
    bounds: tuple[tuple[float, float], ...] | None,
    dimension: int,
) -> BasisSpec | None:
    if section.kind == "growing":
        return None
    kind = BASES[section.kind]
    settings = {name: getattr(section, name) for name in kind.settings()}
    if "points" in settings and catalogue is not None:
        settings["points"] = catalogue
    elif "points" in settings and section.spread is not None:
        if bounds is None:
            raise InvalidStudy("expected bounds of every input, between which to spread points", where="basis.spread")
        settings["points"] = quasi_random_points(bounds, columns, section.spread)
    elif "points" in settings:
        check_points(section, dimension)
        settings["points"] = section.table(dimension)
    return kind(**settings)


def store_url(url: str, folder: Path) -> str:
    """The URL; if the database is a file, a relative path of it is beside the study file."""
    parts = FILE_URL.fullmatch(url)
    if parts is None or parts[2].startswith((":memory:", "file:")):
        return url
    return f"{parts[1]}{os.path.realpath(folder / parts[2])}{parts[3]}"

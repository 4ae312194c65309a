"""The study file of a proposal: every section and key, with a comment that says why this value.

What it says is public once the study runs, and not covered by its budget: settings, ranges and quantiles, rounded.
``template`` has what all study files have; ``proposal`` finds the numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from motet.arrays import Array
from motet.kernels.classes import Kernel
from motet.kernels.spec import to_spec
from motet.planning.inputs import outward
from motet.planning.pilot import Pilot
from motet.planning.proposal import SETTING_DIGITS, Proposal
from motet.study.scale import output_scale
from motet.study.study import Study
from motet.study.template import (
    HEADING,
    MAX_NAMED_RANK,
    Entry,
    EntryList,
    Sections,
    eigen,
    inputs,
    limits,
    output,
    promise,
    rounded,
    server,
    table,
    text,
    write,
)
from motet.tables.files import check_new
from motet.tables.items import items_file
from motet.text import count
from motet.tuning.components import Side

COVARIANCE_DIGITS = 12  # of products of numbers with few digits
MAX_GROWING_ITEMS = 1500  # of a catalogue whose releases are without noise
EXAMPLES_ROOM = 4  # how many times as many examples as any client of the pilot one may have
JOINS = "who take part too: what everybody may read is computed from their rows, and ε does not cover that."


@dataclass(frozen=True, eq=False)
class StudyFile:
    """Of a ``proposal``, at a path; the title is the file's name if there is none."""

    proposal: Proposal
    path: Path = Path("study.toml")
    title: str | None = None

    @property
    def pilot(self) -> Pilot:
        return self.proposal.pilot

    def write(self, *, force: bool = False) -> Study:
        """Write it and, for items that only the table names, their catalogue; and load the study."""
        check_new(self.path, force=force)
        return write(self.path, self.sections(), self.pilot.items, self._heading, force=force)

    def study(self) -> Study:
        """What the file would be loaded as; nothing is written."""
        return Study.of(text(self.sections(), self._heading), self.path, self.pilot.catalogue)

    @property
    def _heading(self) -> str:
        """Where the settings come from, in words."""
        file, drawn = self.pilot.file, self.pilot.drawn
        if drawn is None:
            return f"{HEADING}\nIts settings are those that all rows of {file} make likeliest. They are public."
        pilot = f"a pilot of {count(len(drawn.names), 'client')} of {file}"
        part = JOINS if drawn.joins else "who take no part, and of no other client."
        return f"{HEADING}\nIts settings are public. They are those of {pilot}, {part}"

    def sections(self) -> Sections:
        pilot, proposal = self.pilot, self.proposal
        low, high = outward(*pilot.range_y, 0.0)
        most = int(pilot.sizes.max())
        room = Entry(min(2000, max(50, EXAMPLES_ROOM * most)), f"no client of the pilot has more than {most}")
        examples = Entry(proposal.examples, "expected per client: half of the pilot's have as many")
        center = Entry(proposal.center, "a typical output, about which clients are clipped: the pilot's mean")
        return {
            "study": {"name": Entry(self.title or self.path.stem)},
            "model": self._model(),
            "inputs": self._inputs(),
            "table": table(pilot.table),
            "output": output(pilot.table.target, output_scale(pilot.y, pilot.limits_y), pilot.unit),
            "basis": self._basis(),
            "limits": limits(Entry(list(pilot.limits_y), f"the pilot has {low:g} to {high:g}"), room),
            "release": promise(proposal.promise, examples=examples, center=center),
            **self._pilot(),
            **server(f"{self.path.stem}.db"),
        }

    def _pilot(self) -> Sections:
        if self.pilot.drawn is None:
            return {}
        section, part = self.pilot.drawn.section(), "true: they take part too, although what is public is theirs"
        return {
            "pilot": {
                "clients": Entry(section.clients, "chosen by their digests, without a look at anybody's rows"),
                "share": Entry(section.share, "of all clients, but at least 30"),
                "joins": Entry(section.joins, f"false: their rows are left out of a table that is served; {part}"),
                "salt": Entry(section.salt, "of the digests: SHA-256 of salt and name"),
                "digests": Entry(section.digests),
            }
        }

    def _model(self) -> dict[str, Entry]:
        model, noise = self.proposal.model, self.proposal.tuning.noise_variance
        average, shifts = self._variance("average") ** 0.5, self._variance("individual") ** 0.5
        entries = {
            "alpha": Entry(model.alpha, "share of the average in the kernels' scales, from 0 to 1"),
            "lam": Entry(
                model.lam,
                f"noise variance over sigma2: an output has noise of standard deviation {noise**0.5:.3g}",
            ),
            "sigma2": Entry(
                self.proposal.sigma2,
                f"scale of all variances; standard deviations in the pilot: average {average:.3g}, "
                f"shifts of clients {shifts:.3g}, noise {noise**0.5:.3g}",
            ),
            "bias": Entry("constant", "a level that all clients share; or none, linear, or inputs with a slope"),
            "common": self._kernel("average", model.common),
            "individual": self._kernel("individual", model.individual),
        }
        if model.common is None:
            del entries["alpha"]
        return entries

    def _variance(self, side: Side) -> float:
        components = self.proposal.tuning.components
        return sum(one.size(components.X) for one in components.on(side)) * self.proposal.tuning.noise_variance

    def _kernel(self, side: Side, kernel: Kernel | None) -> Entry:
        """A kernel with a line for each component, which says how much it is."""
        about = "of the average" if side == "average" else "of the shifts"
        if kernel is None:
            return Entry("none", f"{about}: the pilot shows none beside the bias")
        tuning, components = self.proposal.tuning, self.proposal.tuning.components.on(side)
        deviations = [(one.size(tuning.components.X) * tuning.noise_variance) ** 0.5 for one in components]
        words = [one.described(self.pilot.labels).partition(": ")[2] for one in components]
        spec = _rounded_spec(to_spec(kernel))
        if len(components) == 1:
            return Entry(spec, f"{about}: {words[0]}, standard deviation {deviations[0]:.3g}")
        parts = EntryList(
            Entry(one, f"{word}: standard deviation {d:.3g}") for one, word, d in zip(spec["of"], words, deviations)
        )
        return Entry({"kernel": "sum", "of": parts}, about)

    def _inputs(self) -> dict[str, Entry]:
        pilot = self.pilot
        if pilot.catalogue is not None:
            file = items_file(pilot.items, self.path) or pilot.roles.catalogue
            assert file is not None
            about = f"{count(len(pilot.catalogue), 'item')}: a header, then name and features"
            return inputs(file, self.path, about)
        assert pilot.columns is not None
        columns = EntryList(Entry(column.to_spec()) for column in pilot.columns)
        bounds = "bounds are a quarter wider than the pilot's range on either side"
        return {"columns": Entry(columns, f"{bounds}, quantiles are at 5, 25, 50, 75 and 95 %")}

    def _basis(self) -> dict[str, Entry]:
        proposal, catalogue = self.proposal, self.pilot.catalogue
        private, points = proposal.promise.policy == "private", {}
        if proposal.model.common is None:
            return {"kind": Entry("growing", "nothing but the bias is shared")}
        if not private and catalogue is not None and len(catalogue) <= MAX_GROWING_ITEMS:
            return {"kind": Entry("growing", "exact on the whole catalogue")}
        if catalogue is None:
            points = {"spread": Entry(proposal.point_count, "points between the bounds, by quantiles")}
        if points and not private:
            return {"kind": Entry("landmarks"), **points}
        kind = eigen(len(proposal.points))
        if not private:
            return {"kind": kind, "rank": Entry(MAX_NAMED_RANK)}
        why = f"the forecast's best for {count(proposal.clients, 'client')} at epsilon {proposal.promise.epsilon:g}"
        why = "every item, as they only have names" if catalogue is not None and not catalogue.features else why
        return {"kind": kind, **points, "rank": Entry(proposal.rank, why)}


# --- numbers as people write them ---


def _rounded_spec(spec: Any) -> Any:
    """A kernel's plain data with numbers as people write them, without bounds of a search; centers are rounded."""
    if isinstance(spec, dict):
        rounding: dict[str, Callable[[Any], Any]] = {"covariance": _rounded_covariance, "center": list}
        return {
            key: rounding.get(key, _rounded_spec)(value) for key, value in spec.items() if not key.endswith("_bounds")
        }
    if isinstance(spec, list):
        return [_rounded_spec(value) for value in spec]
    return rounded(spec, SETTING_DIGITS) if isinstance(spec, float) else spec


def _rounded_covariance(C: list[list[float]]) -> list[list[float]]:
    """Of a rounded Cholesky factor: so no eigenvalue becomes negative, and correlations near 1 stay so."""
    values, vectors = np.linalg.eigh(np.asarray(C))
    R: Array = np.asarray(np.linalg.qr((vectors * np.sqrt(np.maximum(values, 0.0))).T, mode="r"))
    L = np.array([[rounded(float(value), SETTING_DIGITS) for value in row] for row in R.T])
    return [[rounded(float(value), COVARIANCE_DIGITS) for value in row] for row in L @ L.T]

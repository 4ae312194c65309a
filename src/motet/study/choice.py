"""The study that a pilot proposes: a full structure, or a plain one if that predicts better, decided on it alone.

A pilot has fewer clients than will take part, and noise of the same size would be too much for them. So both structures
are compared under a budget that is larger in proportion: for each client the noise is what it will be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from motet.arrays import Array
from motet.privacy.ledger import MAX_EPSILON, Integers, Noise, opendp_noise
from motet.study.evaluation import Evaluation, evaluate
from motet.study.phases import Begin, unseen
from motet.study.pilot import Pilot
from motet.study.proposal import Promise, Proposal
from motet.study.study import Study

NEW_ROWS = 3  # of a new client's own
FOLDS_UP_TO = ((5000, 5), (10_000, 2))  # rows of a table, and in how many folds it is evaluated; a larger one in one


@dataclass(frozen=True, eq=False)
class Choice:
    """A proposal, its evaluation on the pilot, and what is said of the other structure; "" if it was not tried."""

    proposal: Proposal
    evaluation: Evaluation
    is_plain: bool = False
    reason: str = ""

    @property
    def is_as_served(self) -> bool:
        """Whether the evaluation is of all who are in the table, with the noise that there will be."""
        pilot = self.proposal.pilot
        return pilot.drawn is None or (not pilot.drawn.others and _proportion(self.proposal) == 1)

    @classmethod
    def of(cls, pilot: Pilot, promise: Promise, begin: Begin = unseen) -> Choice:
        full = Proposal.of(pilot, promise, begin)
        found = _on_pilot(full)
        has_names_only = pilot.catalogue is not None and not pilot.catalogue.features
        if not found.is_behind or has_names_only:
            return cls(full, found)
        plain = Proposal.of(pilot, promise, begin, plain=True)
        other = _on_pilot(plain)
        scores = f"log score {other.log_score:.3f} against {found.log_score:.3f}"
        if other.log_score < found.log_score:
            about = f"is better, and written: slopes of the average, a level of each client; {scores}"
            return cls(plain, other, True, f"A plain structure {about}.")
        about = f"slopes of the average and a level of each client, is not better: {scores}"
        return cls(full, found, False, f"A plain structure, {about}.")


def evaluated(
    study: Study,
    clients: list[str],
    X: Array,
    y: Array,
    *,
    draw: Noise = opendp_noise,
    advance: Callable[[], object] = lambda: None,
) -> Evaluation:
    """On rows of a table, as it would be served at the end of its budget."""
    folds, ledger = folds_of(len(y)), study.ledger()
    made = 1 if ledger is None else ledger.releases
    return evaluate(study, clients, X, y, new_rows=NEW_ROWS, folds=folds, releases=made, draw=draw, advance=advance)


def folds_of(rows: int) -> int:
    """In how many folds so many rows are evaluated."""
    return next((folds for most, folds in FOLDS_UP_TO if rows <= most), 1)


def _on_pilot(proposal: Proposal) -> Evaluation:
    """With noise in proportion to the clients who will take part; seeded, so that the choice is no chance."""
    pilot, proportion = proposal.pilot, _proportion(proposal)
    with TemporaryDirectory() as folder:
        study = proposal.write(Path(folder) / "study.toml", "pilot")
    if study.release.epsilon is not None and proportion > 1:
        epsilon = min(MAX_EPSILON, study.release.epsilon * proportion)
        study = replace(study, release=study.release.model_copy(update={"epsilon": epsilon}))
    advance = proposal.begin("Evaluating on the rows of the settings", "fold", folds_of(len(pilot.y)))
    return evaluated(study, pilot.clients, pilot.X, pilot.y, draw=_seeded_noise(), advance=advance)


def _proportion(proposal: Proposal) -> float:
    """How many will take part for each client of the pilot, if the others do."""
    return 1.0 if proposal.pilot.drawn is None else max(1.0, proposal.clients / len(proposal.pilot.sizes))


def _seeded_noise() -> Noise:
    """For a pilot, to whom nothing is promised."""
    rng = np.random.default_rng(0)

    def draw(total: Integers, deviation: float) -> Integers:
        return total + np.rint(deviation * rng.normal(size=len(total))).astype(np.int64)

    return draw

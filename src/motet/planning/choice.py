"""The study for a table: a full structure, or a plain one if that predicts better, decided on the pilot alone.

Items of a catalogue have an effect of their own beside their features, if that predicts better.

A pilot has fewer clients than will take part, and noise of the same size would be too much for them. So structures
are compared under a budget that is larger in proportion: for each client the noise is what it will be. What is reported
is another evaluation: of those who take part, with the noise that there will be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from motet.arrays import Array
from motet.errors import MotetError
from motet.planning.evaluation import NEW_ROWS, Advance, Begin, Evaluation, evaluate, seeded_noise, unseen
from motet.planning.fitting import arrays_of, fitting_rows
from motet.planning.pilot import Pilot, read_pilot
from motet.planning.proposal import Proposal
from motet.planning.sections import StudyFile
from motet.privacy.ledger import MAX_EPSILON, Perturbation, opendp_noise
from motet.study.study import Study
from motet.study.template import Policy, Promise
from motet.tables.files import Table, read
from motet.tables.frames import table_of

FOLDS_UP_TO = ((5000, 5), (10_000, 2))  # rows of a table, and in how many folds it is evaluated; a larger one in one


@dataclass(frozen=True, eq=False)
class Chosen:
    """A study for a table, how well it predicts, and what is said of other structures; "" if none was tried."""

    proposal: Proposal
    evaluation: Evaluation
    reason: str = ""

    @cached_property
    def study(self) -> Study:
        """What ``write`` writes, as a study."""
        return StudyFile(self.proposal).study()

    def write(self, path: str | Path, *, title: str | None = None, force: bool = False) -> Study:
        """Write the study file and, for items that only the table names, their catalogue; and load the study.

        Its ``title`` is by default the file's name. ``force`` overwrites a file.
        """
        return StudyFile(self.proposal, Path(path), title).write(force=force)

    def as_served(self, table: Table, begin: Begin = unseen) -> Chosen:
        """With the evaluation of those in the table who take part; it is that already if all of them are the pilot."""
        pilot = self.proposal.pilot
        if pilot.drawn is None or (not pilot.drawn.others and _proportion(self.proposal) == 1):
            return self
        served = pilot.drawn.served(table, pilot.roles.task)
        return replace(self, evaluation=_on_table(self.study, served, begin))

    def with_the_whole_table(self, table: Table, begin: Begin = unseen) -> Evaluation | None:
        """On the same rows, with settings that all rows make likeliest; for whoever runs this, and in no file. None if
        nobody is beside the pilot, or the other rows have no settings.

        Rows outside the pilot's limits are in neither: they are the extreme ones, without which any error is smaller.
        """
        proposal = self.proposal
        pilot, drawn = proposal.pilot, proposal.pilot.drawn
        if drawn is None or not drawn.others:
            return None
        promise = replace(proposal.promise, clients=proposal.clients)
        try:
            whole = Proposal.of(Pilot.read(table, pilot.roles), promise, begin, plain=proposal.is_plain)
            whole = (whole.with_items() or whole) if proposal.has_item_effects else whole
            rows = fitting_rows(self.study, drawn.served(table, pilot.roles.task))[0]
            return _on_table(StudyFile(whole).study(), rows, begin, " settings of all clients")
        except MotetError:
            return None


def propose(
    table: str | Path | Any,
    *,
    client: str | None = None,
    target: str | None = None,
    inputs: Sequence[str] | str | None = None,
    name: str | None = None,
    catalogue: str | Path | None = None,
    units: Mapping[str, str] | None = None,
    logarithms: Sequence[str] | None = None,
    dates: Literal["day-first", "month-first"] | None = None,
    encoding: str | None = None,
    policy: Policy = "private",
    epsilon: float | None = None,
    releases: int | None = None,
    every: str | None = None,
    clients: int | None = None,
    share: float | None = None,
    joins: bool = False,
    begin: Begin = unseen,
) -> Chosen:
    """A study that is right for a table of many clients' rows, and what it is worth to them: ``motet init --from``.

    ``table`` is a CSV or Parquet file, a workbook, or a data frame. ``client`` and ``target`` are its columns of
    clients and of outputs; ``inputs`` are by default all columns that can be and do not give the output away, or the
    ``name`` of an item, which a ``catalogue`` may describe. ``units`` are those of inputs, ``logarithms`` the inputs
    that are read by them, ``dates`` the order of dates such as 03.04.2020, ``encoding`` that of files not in UTF-8.

    ``policy``, ``epsilon``, ``releases`` and ``every`` are what the study promises, to so many ``clients``; by default
    a private study, ε = 3 for ten releases, one a day. What a private study says comes from a pilot, a ``share`` of the
    clients, who take no part unless it ``joins``. ``begin`` is told of the phases of what takes long.
    """
    promise = Promise.of(policy=policy, epsilon=epsilon, releases=releases, every=every, clients=clients)
    rows = read(Path(table), encoding=encoding) if isinstance(table, str | Path) else table_of(table)
    pilot = read_pilot(
        rows,
        client=client,
        target=target,
        name=name,
        catalogue=catalogue,
        inputs=inputs,
        units=units,
        logarithms=logarithms,
        dates=dates,
        encoding=encoding,
        policy=policy,
        share=share,
        joins=joins,
    )
    return choose(pilot, promise, begin).as_served(rows, begin)


def choose(pilot: Pilot, promise: Promise, begin: Begin = unseen) -> Chosen:
    """The full structure, with an effect of each item if that is better; or the plain one, if the full is behind a
    baseline on the pilot and the plain is better."""
    proposal = Proposal.of(pilot, promise, begin)
    full = Chosen(proposal, _on_pilot(proposal, begin))
    has_names_only = pilot.catalogue is not None and not pilot.catalogue.features
    if pilot.catalogue is not None and not has_names_only:
        full = _with_items(full, begin)
    if not full.evaluation.is_behind or has_names_only:
        return full
    proposal = Proposal.of(pilot, promise, begin, plain=True)
    of_plain, of_full = _on_pilot(proposal, begin), full.evaluation
    scores = _log_scores(of_plain, of_full)
    if of_plain.log_score < of_full.log_score:
        about = f"is better, and written: slopes of the average, a level of each client; {scores}"
        return Chosen(proposal, of_plain, f"A plain structure {about}.")
    about = f"slopes of the average and a level of each client, is not better: {scores}"
    return replace(full, reason=f"{full.reason} A plain structure, {about}.".lstrip())


def _with_items(without: Chosen, begin: Begin) -> Chosen:
    """With an effect of each item beside its features, if that pays in evidence, and in log score under the noise."""
    proposal = without.proposal.with_items()
    if proposal is None:
        return replace(without, reason="Items have no effect of their own beside their features.")
    evaluation = _on_pilot(proposal, begin)
    scores = _log_scores(evaluation, without.evaluation)
    if evaluation.is_surely_better(without.evaluation):
        return Chosen(proposal, evaluation, f"Items have an effect of their own beside their features: {scores}.")
    about = f"is not better for predictions, and left out: {scores}"
    return replace(without, reason=f"An effect of each item beside its features {about}.")


def _log_scores(one: Evaluation, other: Evaluation) -> str:
    return f"log score {one.log_score:.3f} against {other.log_score:.3f}"


def _on_pilot(proposal: Proposal, begin: Begin) -> Evaluation:
    """With noise in proportion to the clients who will take part; seeded, so that the choice is no chance."""
    pilot, proportion, study = proposal.pilot, _proportion(proposal), StudyFile(proposal).study()
    if study.release.epsilon is not None and proportion > 1:
        epsilon = min(MAX_EPSILON, study.release.epsilon * proportion)
        study = replace(study, release=study.release.model_copy(update={"epsilon": epsilon}))
    advance = begin("Evaluating on the rows of the settings", "fold", _folds(len(pilot.y)))
    return _evaluated(study, pilot.clients, pilot.X, pilot.y, advance, draw=seeded_noise(0))


def _on_table(study: Study, table: Table, begin: Begin, whose: str = "") -> Evaluation:
    """On the rows of a table that the study takes, as it would be served; others are counted."""
    rows, outside = fitting_rows(study, table)
    advance = begin(f"Evaluating{whose} as it would be served", "fold", _folds(len(rows.rows)))
    evaluation = _evaluated(study, *arrays_of(study, rows), advance)
    return replace(evaluation, left_out={**outside, **evaluation.left_out})


def _evaluated(
    study: Study, clients: list[str], X: Array, y: Array, advance: Advance, *, draw: Perturbation = opendp_noise
) -> Evaluation:
    """As it would be served at the end of its budget."""
    ledger = study.ledger()
    made = 1 if ledger is None else ledger.releases
    folds = _folds(len(y))
    return evaluate(study, clients, X, y, new_rows=NEW_ROWS, folds=folds, releases=made, draw=draw, advance=advance)


def _folds(rows: int) -> int:
    """In how many folds so many rows are evaluated."""
    return next((folds for most, folds in FOLDS_UP_TO if rows <= most), 1)


def _proportion(proposal: Proposal) -> float:
    """How many will take part for each client of the pilot, if the others do."""
    return 1.0 if proposal.pilot.drawn is None else max(1.0, proposal.clients / len(proposal.pilot.sizes))

"""``motet evaluate``: how well a study or a release predicts the rows of a table that it has not learned from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.console import Console

from motet.arrays import Array
from motet.cli.connect import is_address, layout_at, release_at
from motet.cli.terminal import (
    AsJson,
    ClientColumn,
    Encoding,
    Force,
    NameColumn,
    TargetColumn,
    check_plot,
    progress_bar,
    show,
    show_table,
)
from motet.errors import InvalidData
from motet.tables.files import cell_text, read
from motet.text import count

if TYPE_CHECKING:
    from motet.planning.evaluation import Evaluation
    from motet.planning.scores import Score, Scored
    from motet.release.disclosed import Disclosed
    from motet.study.schema import PilotSection
    from motet.study.study import Study
    from motet.tables.roles import Layout

LEGEND = "Error: root mean square. Log score: lower is better. Bands: 90 % of the rows should be inside."


def evaluate(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="A study's file (*.toml), a release's file, or the address of a study's server."
        ),
    ],
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="A CSV or Parquet file: rows of many clients.")],
    client: ClientColumn = None,
    target: TargetColumn = None,
    name: NameColumn = None,
    encoding: Encoding = None,
    new_rows: Annotated[
        int, typer.Option(min=0, max=10**6, help="Rows that a new client has of its own, before it is predicted.")
    ] = 3,
    folds: Annotated[int, typer.Option(min=1, max=5, help="How often a study learns anew; 1 is quick.")] = 5,
    releases: Annotated[
        int,
        typer.Option(min=1, max=10_000, help="Private: after so many releases of the same clients; 1 is the first."),
    ] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Of the choice of rows and clients.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="A picture to write: *.png, *.svg or *.pdf.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Evaluate a study or a release on a table: error, log score and coverage at rows that were held out, for known and
    new clients, beside baselines.

    A study learns four fifths of the clients, and three quarters of their rows, as its server would: under its policy,
    and if that is private, with its noise. Known clients are predicted at their other rows. New clients, of whom the
    release has nothing, are predicted from --new-rows rows of their own. Over five folds each client is new once, and
    each row held out once.

    A release learns nothing: all clients of the table are new to it. If it has their rows already, the figures flatter.

    Nothing leaves this machine. Figures and pictures are of the table's rows: they are not private.
    """
    check_plot(plot, force=force)
    from motet.study.study import Study

    is_study = source.lower().endswith(".toml") and not is_address(source)
    subject = Study.load(source) if is_study else release_at(source)
    layout = layout_at(source) if is_address(source) else None
    rows = read_client_table(table, subject, client, target, name, layout, encoding)
    from motet.planning.evaluation import evaluate as evaluate_rows

    with progress_bar(Console(stderr=True), "folds", folds if is_study else 1, "Evaluating") as advance:
        settings: dict[str, Any] = {"seed": seed, "new_rows": new_rows, "folds": folds, "releases": releases}
        evaluation = evaluate_rows(subject, rows.clients, rows.X, rows.y, rows.noise, **settings, advance=advance)
    evaluation = replace(evaluation, left_out={**rows.outside, **evaluation.left_out})
    label = "this study" if is_study else "this release"
    if plot is not None:
        _draw(evaluation, label, table.name, plot)
    if as_json:
        about = {"source": source, "file": table.name, "rows": len(rows.y), "clients": len(set(rows.clients))}
        show({**about, **settings, **evaluation.to_dict(), "plot": None if plot is None else str(plot)})
    else:
        _show(evaluation, rows, label, new_rows, plot, getattr(subject, "pilot", None))


# --- the table ---


@dataclass(frozen=True, eq=False)
class ClientTable:
    """All rows of a table of clients, as a study reads them; those with a missing value have NaN."""

    file: str
    clients: list[str]
    X: Array
    y: Array
    noise: Array
    outside: dict[str, int] = field(default_factory=dict)  # rows that limits of a pilot leave out, by reason


def read_client_table(
    path: Path,
    source: Study | Disclosed,
    client: str | None,
    target: str | None,
    name: str | None,
    layout: Layout | None = None,
    encoding: str | None = None,
) -> ClientTable:
    """The columns are those that options name, else those of the study file or of its server's ``layout``, else the
    usual ones."""
    from motet.client.tables import cells_of_inputs
    from motet.release.disclosed import Disclosed

    if layout is None:
        layout = source.layout if isinstance(source, Disclosed) else source.model.layout(source.dimension)
    if (named := getattr(source, "table", None)) is not None:
        layout = layout.changed(**named.model_dump(), unit=source.output.unit)  # type: ignore[union-attr]
    layout = layout.changed(client=client, target=target, name=name, skip_missing=True)
    table, outside = read(path, encoding=encoding), dict[str, int]()
    needed = layout.needed(table, client=True, target=True)
    if getattr(source, "pilot", None) is not None and (client, target, name) == (None, None, None):
        from motet.planning.fitting import without_misfits

        table, outside = without_misfits(source, table)  # type: ignore[arg-type]
    kept = layout.complete(table, needed)
    if not kept.rows:
        raise InvalidData(f"{table.file}: every row has a missing value in {', '.join(needed)}")
    complete = np.isin(table.numbers, kept.numbers)
    X, y = np.full((len(complete), source.dimension), np.nan), np.full(len(complete), np.nan)
    X[complete] = source.model.rows(cells_of_inputs(kept, layout), source.dimension)
    y[complete] = kept.floats(layout.target, unit=layout.unit)
    noise = np.array(table.floats("noise", default=1.0))
    return ClientTable(table.file, [cell_text(cell or "") for cell in table.cells(layout.client)], X, y, noise, outside)


# --- what is shown ---


def _show(
    evaluation: Evaluation, rows: ClientTable, label: str, new_rows: int, plot: Path | None, pilot: PilotSection | None
) -> None:
    clients, total = count(len(set(rows.clients)), "client"), len(rows.y) + sum(rows.outside.values())
    show(f"{rows.file}: {count(total, 'row')} of {clients}. Evaluated: {evaluation.subject}.")
    if pilot is not None:
        inside = sum(map(pilot.has, set(rows.clients)))
        show(f"Settings: from a pilot of {count(pilot.clients, 'client')}, of whom {inside} are in this table.")
    for reason, number in evaluation.left_out.items():
        show(f"Left out: {count(number, 'row')} ({reason}).")
    show_scores(evaluation, label, new_rows)
    if plot is not None:
        show(f"The picture is in {plot}.")


def show_scores(evaluation: Evaluation, label: str, new_rows: int = 3) -> None:
    """What was scored, the scores beside the baselines', and what they say."""
    known, new = ("" if group is None else count(len(group.row), "row") for group in (evaluation.known, evaluation.new))
    parts = [f"known clients: {known} that were held out"] * bool(known)
    parts += [f"new clients: {new}, beside at most {new_rows} of their own"] * bool(new)
    show(f"Scored: {'; '.join(parts)}.")
    lines = [
        (group.kind, who, f"{score.error:#.4g}", f"{score.log_score:.3f}", f"{100 * score.coverage:.0f} %")
        for group in evaluation.groups
        for who, score in _scores(group, label).items()
    ]
    show_table(dict.fromkeys(("clients", "predicted by", "error", "log score", "in 90 % bands"), ""), lines)
    show(LEGEND)
    if evaluation.policy == "private":
        show("Baselines have the same rows, without noise for privacy.")
    show(evaluation.verdict)
    for note in evaluation.notes:
        show(note)


def _draw(evaluation: Evaluation, label: str, file: str, plot: Path) -> None:
    from motet.plots.evaluation import evaluation_figure

    predictions, errors = {}, {}
    for group in evaluation.groups:
        predictions[f"{group.kind} clients"] = group.y, group.mean, group.std
        errors[f"{group.kind} clients"] = {who: score.error for who, score in _scores(group, label).items()}
    evaluation_figure(predictions, errors, title=f"{file}: {evaluation.subject}").savefig(plot, dpi=150)


def _scores(group: Scored, label: str) -> dict[str, Score]:
    """By who predicts."""
    return {label: group.score, **group.baseline_scores}

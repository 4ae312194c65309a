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
from motet.files import cell_text, read
from motet.text import count

if TYPE_CHECKING:
    from motet.client.layout import Layout
    from motet.release.disclosed import Disclosed
    from motet.study.evaluation import Evaluation
    from motet.study.schema import PilotSection
    from motet.study.scores import Score
    from motet.study.study import Study

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
    subject = _source(source)
    layout = layout_at(source) if is_address(source) else None
    rows = read_rows(table, subject, client, target, name, layout, encoding)
    from motet.release.disclosed import Disclosed
    from motet.study.evaluation import evaluate as evaluate_rows

    total = 1 if isinstance(subject, Disclosed) else folds
    with progress_bar(Console(stderr=True), "folds", total, "Evaluating") as advance:
        settings: dict[str, Any] = {"seed": seed, "new_rows": new_rows, "folds": folds, "releases": releases}
        found = evaluate_rows(subject, rows.clients, rows.X, rows.y, rows.noise, **settings, advance=advance)
    found = replace(found, left_out={**rows.outside, **found.left_out})
    label = "this release" if isinstance(subject, Disclosed) else "this study"
    if plot is not None:
        _draw(found, label, table.name, plot)
    if as_json:
        about = {"source": source, "file": table.name, "rows": len(rows.y), "clients": len(set(rows.clients))}
        show({**about, **settings, **found.to_dict(), "plot": None if plot is None else str(plot)})
    else:
        _show(found, rows, label, new_rows, plot, getattr(subject, "pilot", None))


def _source(place: str) -> Study | Disclosed:
    if not is_address(place) and place.lower().endswith(".toml"):
        from motet.study.study import Study

        return Study.load(place)
    return release_at(place)


# --- the table ---


@dataclass(frozen=True, eq=False)
class Rows:
    """All rows of a table; those with a missing value have NaN."""

    file: str
    clients: list[str]
    X: Array
    y: Array
    noise: Array
    outside: dict[str, int] = field(default_factory=dict)  # rows that limits of a pilot leave out, by reason


def read_rows(
    path: Path,
    source: Study | Disclosed,
    client: str | None,
    target: str | None,
    name: str | None,
    layout: Layout | None = None,
    encoding: str | None = None,
) -> Rows:
    """The columns are those that options name, else those of the study file or of its server's ``layout``, else the
    usual ones."""
    from motet.client.layout import Layout
    from motet.client.tables import cells_of_inputs
    from motet.release.disclosed import Disclosed

    if layout is None:
        if isinstance(source, Disclosed):
            layout = Layout.of_release(source)
        else:
            layout = Layout.of_model(source.model, source.dimension)
    if (named := getattr(source, "table", None)) is not None:
        layout = layout.changed(**named.model_dump(), unit=source.output.unit)  # type: ignore[union-attr]
    layout = layout.changed(client=client, target=target, name=name, skip_missing=True)
    table, outside = read(path, encoding=encoding), dict[str, int]()
    needed = layout.needed(table, client=True, target=True)
    if getattr(source, "pilot", None) is not None and (client, target, name) == (None, None, None):
        from motet.study.fitting import without_misfits

        table, outside = without_misfits(source, table)  # type: ignore[arg-type]
    kept = layout.complete(table, needed)
    if not kept.rows:
        raise InvalidData(f"{table.file}: every row has a missing value in {', '.join(needed)}")
    complete = np.isin(table.numbers, kept.numbers)
    X, y = np.full((len(complete), source.dimension), np.nan), np.full(len(complete), np.nan)
    X[complete] = source.model.rows(cells_of_inputs(kept, layout), source.dimension)
    y[complete] = kept.floats(layout.target, unit=layout.unit)
    noise = np.array(table.floats("noise", default=1.0))
    return Rows(table.file, [cell_text(cell or "") for cell in table.cells(layout.client)], X, y, noise, outside)


# --- what was found ---


def _scores(found: Evaluation, label: str) -> list[tuple[str, str, Score]]:
    """Every score with the kind of clients and with who predicts."""
    return [
        (group.kind, who, score)
        for group in found.groups
        for who, score in {label: group.score, **group.baseline_scores}.items()
    ]


def _show(
    found: Evaluation, rows: Rows, label: str, new_rows: int, plot: Path | None, pilot: PilotSection | None
) -> None:
    from motet.study.pilot_clients import is_listed

    clients, total = count(len(set(rows.clients)), "client"), len(rows.y) + sum(rows.outside.values())
    show(f"{rows.file}: {count(total, 'row')} of {clients}. Evaluated: {found.subject}.")
    if pilot is not None:
        inside = sum(is_listed(pilot, name) for name in set(rows.clients))
        show(f"Settings: from a pilot of {count(pilot.clients, 'client')}, of whom {inside} are in this table.")
    for reason, number in found.left_out.items():
        show(f"Left out: {count(number, 'row')} ({reason}).")
    show_scores(found, label, new_rows)
    if plot is not None:
        show(f"The picture is in {plot}.")


def show_scores(found: Evaluation, label: str, new_rows: int) -> None:
    """What was scored, the scores beside the baselines', and what they say."""
    known, new = ("" if group is None else count(len(group.row), "row") for group in (found.known, found.new))
    parts = [f"known clients: {known} that were held out"] * bool(known)
    parts += [f"new clients: {new}, beside at most {new_rows} of their own"] * bool(new)
    show(f"Scored: {'; '.join(parts)}.")
    lines = [
        (kind, who, f"{score.error:#.4g}", f"{score.log_score:.3f}", f"{100 * score.coverage:.0f} %")
        for kind, who, score in _scores(found, label)
    ]
    show_table(dict.fromkeys(("clients", "predicted by", "error", "log score", "in 90 % bands"), ""), lines)
    show(LEGEND)
    if found.policy == "private":
        show("Baselines have the same rows, without noise for privacy.")
    show(found.verdict)
    for note in found.notes:
        show(note)


def _draw(found: Evaluation, label: str, file: str, plot: Path) -> None:
    from motet.plots.evaluation import evaluation_figure

    kinds = {f"{group.kind} clients": group for group in found.groups}
    predictions = {kind: (group.y, group.mean, group.std) for kind, group in kinds.items()}
    errors: dict[str, dict[str, float]] = {kind: {} for kind in kinds}
    for kind, who, score in _scores(found, label):
        errors[f"{kind} clients"][who] = score.error
    evaluation_figure(predictions, errors, title=f"{file}: {found.subject}").savefig(plot, dpi=150)

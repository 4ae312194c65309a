"""``motet check``: would a study serve its clients? What to expect of it, and what a table says of its settings."""

from __future__ import annotations

import shlex
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from motet.cli.evaluate import read_client_table
from motet.cli.operate import File
from motet.cli.terminal import (
    AsJson,
    ClientColumn,
    Encoding,
    Force,
    NameColumn,
    TargetColumn,
    check_plot,
    show,
    show_table,
)
from motet.text import count

if TYPE_CHECKING:
    from motet.planning.findings import Findings
    from motet.planning.outlook import Row
    from motet.study.study import Study

MAX_EXPECTED_CLIENTS = 1_000_000
UNTRUSTED = "The table contradicts the settings, so this forecast cannot be trusted:"
FORECAST_LEGEND = (
    "Errors are root mean squares: of a client's new observations, of its function, and of the average. "
    "Bands are of new observations."
)


def check(
    study: File,
    table: Annotated[
        Path | None,
        typer.Argument(metavar="TABLE", help="A CSV or Parquet file: rows such as clients will send, of many clients."),
    ] = None,
    clients: Annotated[
        int | None,
        typer.Option(
            min=1, max=MAX_EXPECTED_CLIENTS, help="How many clients are expected; by default as many as the table has."
        ),
    ] = None,
    client: ClientColumn = None,
    target: TargetColumn = None,
    name: NameColumn = None,
    encoding: Encoding = None,
    plot: Annotated[
        Path | None, typer.Option(help="A picture of the error over clients and ε to write: *.png, *.svg or *.pdf.")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Check whether a study would serve its clients: the error and coverage to expect at its ε and number of clients,
    and what a larger ε, more clients or another rank would give.

    The forecast follows from the study file: clients are drawn from its model, and it is right if the model is. With a
    table, these have inputs and numbers of examples such as the table has. It also counts rows that the study would
    refuse and clients that its clip would shorten, and warns of settings that the table contradicts.

    Nothing leaves this machine. What is said of a table is not private.
    """
    from motet.planning.findings import Findings, limits_warning
    from motet.planning.outlook import Outlook, Plan
    from motet.study.study import Study

    check_plot(plot, force=force)
    loaded, findings = Study.load(study), None
    if table is None:
        expected = clients
        outlook = Outlook(Plan.of(loaded, sigma2=1.0), loaded.release.examples)
        warnings = [*filter(None, [limits_warning(loaded, outlook.plan.inputs)])]
        unscaled = "the study has no model.sigma2, so errors are in units of it; a table would tell how large it is"
        warnings += [unscaled] * (loaded.model.sigma2 is None)
    else:
        rows = read_client_table(table, loaded, client, target, name, encoding=encoding)
        findings = Findings.of(loaded, rows.file, rows.clients, rows.X, rows.y, rows.noise)
        total = findings.total + sum(rows.outside.values())
        findings = replace(findings, total=total, refused={**rows.outside, **findings.refused})
        outlook = Outlook(Plan.of(loaded, findings.inputs, findings.sigma2), findings.counts.tolist())
        warnings, expected = findings.warnings, clients or findings.clients
    answers = outlook.rows_by_clients() if expected is None else outlook.rows(expected)
    verdict = outlook.enough_clients() if expected is None else outlook.verdict(expected)
    if findings is not None and findings.contradictions:
        verdict = f"{UNTRUSTED} motet init --from {shlex.quote(str(table))} finds settings that fit."
    if plot is not None:
        from motet.plots.forecast import forecast_figure

        curves, alone = outlook.curves(expected), outlook.alone.function
        forecast_figure(curves, alone=alone, clients=expected, title=loaded.name).savefig(plot, dpi=150)
    if as_json:
        about: dict[str, Any] = {"study": loaded.name, "policy": loaded.release.policy}
        about |= {"settings": loaded.settings_source, "clients": expected}
        about |= {} if findings is None else {"table": _table_facts(findings)}
        forecasts = [{**asdict(row), "forecast": asdict(row.forecast)} for row in answers]
        show({**about, "rows": forecasts, "warnings": warnings, "verdict": verdict})
        return
    _show_study(loaded, expected)
    if findings is not None:
        _show_findings(findings)
    _show_rows(answers)
    for warning in warnings:
        show(f"Warning: {warning}.")
    show(verdict)
    if plot is not None:
        show(f"The picture is in {plot}.")


# --- what is shown ---


def _table_facts(findings: Findings) -> dict[str, Any]:
    """For JSON."""
    return {
        "file": findings.file,
        "rows": findings.total,
        "clients": findings.clients,
        "examples_per_client": float(np.median(findings.counts)),
        "refused": findings.refused,
        "shortened": findings.shortened,
        "length_left": findings.length_left,
        "sigma2": findings.sigma2,
    }


def _show_study(study: Study, clients: int | None) -> None:
    from motet.study.study import settings_words

    ledger = study.ledger()
    releases = "" if ledger is None or ledger.releases == 1 else f", {ledger.releases} releases"
    promise = "without noise" if ledger is None else f"private, ε = {ledger.epsilon:g}, δ = {ledger.delta:g}{releases}"
    expected = "" if clients is None else f"; {count(clients, 'client')} expected"
    show(f"{study.name}: {promise}{expected}.")
    if study.pilot is not None:
        show(f"Settings: {settings_words(study.settings_source)}.")
    if ledger is not None:
        show(f"The noise in a release is as large as the contribution of {ledger.scale:.3g} clients.")


def _show_findings(findings: Findings) -> None:
    counts = findings.counts
    each = f"{np.median(counts):g} each in the median, {counts.min()} to {counts.max()}"
    rows, clients = count(findings.total, "row"), count(findings.clients, "client")
    show(f"{findings.file}: {rows} of {clients}, {each}.")
    for reason, number in findings.refused.items():
        show(f"Left out: {count(number, 'row')} ({reason}).")
    if findings.shortened is not None:
        left = findings.length_left
        length = "" if left is None else f", to {100 * left:.0f} % of their length in the median"
        show(f"The clip would shorten {100 * findings.shortened:.0f} % of the clients{length}.")


def _show_rows(rows: list[Row]) -> None:
    lines = []
    for row in rows:
        one = row.forecast
        settings = ("" if value is None else f"{value:,g}" for value in (row.clients, row.epsilon, row.rank))
        average = [] if row.clients is None else [one.average]  # alone, there is none
        errors = [f"{error:#.4g}" for error in (one.observation, one.function, *average)]
        lines.append((row.label, *settings, *errors, *[""] * (3 - len(errors)), f"{100 * one.coverage:.0f} %"))
    columns = ("", "clients", "ε", "rank", "error", "function", "average", "in 90 % bands")
    show_table(dict.fromkeys(columns, ""), lines)
    show(FORECAST_LEGEND)

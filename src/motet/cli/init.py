"""``motet init``: a new study's file, from a table of pilot data, or from options and questions at a terminal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from motet.cli.evaluate import show_scores
from motet.cli.phases import phases_shown
from motet.cli.proposed import (
    about,
    described,
    errors_of,
    show_advice,
    show_cost,
    show_items,
    show_next,
    show_pilot,
    show_written,
)
from motet.cli.questions import asked_columns, asked_promise, asked_roles, listed, study_from_choices, units_of
from motet.cli.terminal import AsJson, Encoding, Force, show
from motet.errors import InvalidData, MotetError
from motet.files import check_new
from motet.text import count

if TYPE_CHECKING:
    from motet.files import Table
    from motet.model.dates import DateOrder
    from motet.study.choice import Choice
    from motet.study.evaluation import Evaluation
    from motet.study.phases import Begin
    from motet.study.pilot import Roles
    from motet.study.pilot_clients import PilotClients
    from motet.study.proposal import Promise
    from motet.study.study import Study

DATE_ORDERS: dict[str | None, DateOrder] = {None: "", "day-first": "day first", "month-first": "month first"}
NEW_ROWS = 3  # of a new client's own, when a study is evaluated


def init(
    file: Annotated[Path, typer.Argument(help="The study file to write.", metavar="FILE")] = Path("study.toml"),
    pilot: Annotated[
        Path | None,
        typer.Option("--from", help="A table, CSV or Parquet, for which settings are found."),
    ] = None,
    client: Annotated[
        str | None, typer.Option(help="The table's column of each row's client.", metavar="COLUMN")
    ] = None,
    target: Annotated[str | None, typer.Option(help="The table's column of outputs.", metavar="COLUMN")] = None,
    inputs: Annotated[
        str | None,
        typer.Option(
            help="Columns of inputs, separated by commas; by default all that can be and do not give the output away.",
            metavar="COLUMNS",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The table's column of items, if inputs are names.", metavar="COLUMN")
    ] = None,
    catalogue: Annotated[
        Path | None,
        typer.Option(
            help="Inputs are names: a table with a header, names and features: numbers, words, lists such as a|b."
        ),
    ] = None,
    units: Annotated[
        str | None, typer.Option(help="Units of inputs, such as hours=h,dose=mg.", metavar="UNITS")
    ] = None,
    log: Annotated[
        str | None,
        typer.Option(
            help="Inputs that are read by their logarithms, or none; by default those of very different sizes.",
            metavar="COLUMNS",
        ),
    ] = None,
    dates: Annotated[
        Literal["day-first", "month-first"] | None,
        typer.Option(help="How to read dates such as 03.04.2020, if a column has no other."),
    ] = None,
    encoding: Encoding = None,
    title: Annotated[str | None, typer.Option(help="The name of the study.", metavar="NAME")] = None,
    clients: Annotated[
        int | None,
        typer.Option(min=1, help="How many clients are expected; by default as many as a table lets expect."),
    ] = None,
    dimension: Annotated[
        int | None, typer.Option(help="Inputs are numbers without names: how many each has.", min=1)
    ] = None,
    bounds: Annotated[
        tuple[float, float] | None,
        typer.Option(help="The lowest and the highest number of an input.", metavar="LOW HIGH"),
    ] = None,
    y: Annotated[
        tuple[float, float] | None,
        typer.Option("--y", help="The lowest and the highest output.", metavar="LOW HIGH"),
    ] = None,
    spread: Annotated[
        float | None, typer.Option(help="How far clients differ from their average, a standard deviation.")
    ] = None,
    noise: Annotated[
        float | None, typer.Option(help="How far repeated outputs of a client differ, a standard deviation.")
    ] = None,
    policy: Annotated[
        Literal["private", "exact"] | None,
        typer.Option(
            help="Differentially private releases; or exact ones, without noise, for parties that trust each other."
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Total privacy budget ε, shared by all private releases (1 is strict, 3 usual)."),
    ] = None,
    releases: Annotated[int | None, typer.Option(help="How many private releases share the budget.")] = None,
    share: Annotated[
        float | None,
        typer.Option(
            "--pilot",
            help="Private: the share of the table's clients, at random, whose rows the settings come from; at least 30 "
            "and at most 2,000 clients; by default 0.2.",
            metavar="SHARE",
        ),
    ] = None,
    joins: Annotated[
        bool,
        typer.Option(
            "--pilot-joins", help="These clients take part too, although ε does not cover what settings tell of them."
        ),
    ] = False,
    every: Annotated[str | None, typer.Option(help="Time between releases: 30s, 15m, 12h, 1d.", metavar="TIME")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a commented study file: with --from, one that is right for a table; otherwise from options, and at a
    terminal from questions. Options that you leave out are asked for; without a terminal they get defaults.

    With --from, model, limits and basis are those that suit a table, and the study is evaluated on it, beside
    baselines, as it would be served. What the study file says becomes public, and its privacy budget does not cover
    that. So a private study takes all of it from a pilot: a fifth of the table's clients at random, at least 30. The
    file has their digests, and motet serve --data leaves them out; of the other clients it says nothing. With --policy
    exact, which promises nothing, there is no pilot, and all rows are used.

    Of each input it shows what it tells of the output at held-out rows. One that all but is the output is left out,
    unless --inputs names it: is it known when you predict? Settings of a large table are searched on some of its rows.
    """
    promise = {"policy": policy, "epsilon": epsilon, "releases": releases, "every": every}
    if policy == "exact" and (epsilon is not None or releases is not None):
        raise InvalidData("--epsilon and --releases are for private releases: leave out either them or --policy exact")
    check_new(file, force=force)
    if pilot is None:
        about_table = {"--client": client, "--target": target, "--name": name, "--units": units, "--log": log}
        _check_without_table(about_table)
        _check_without_table({"--dates": dates, "--pilot": share, "--pilot-joins": joins or None})
        choices: dict[str, Any] = {
            "name": title,
            "catalogue": catalogue,
            "dimension": dimension,
            "bounds": bounds,
            "y": y,
        }
        choices |= {"inputs": listed(inputs), "spread": spread, "noise": noise, "encoding": encoding}
        draft, study = study_from_choices(file, {**choices, **promise}, force=force)
        show_written(file, study, draft.items) if not as_json else show(about(file, study))
        return
    _check_with_table({"--dimension": dimension, "--bounds": bounds, "--y": y, "--spread": spread, "--noise": noise})
    from motet.files import read

    table = read(pilot, encoding=encoding)
    client, target = asked_columns(table, client, target)
    from motet.study.pilot_clients import SHARE, PilotClients
    from motet.study.proposal import Promise

    chosen, drawn = Promise(clients=clients, **asked_promise(promise)), None
    if chosen.policy == "private":
        drawn = PilotClients.draw(table, client, target, share=SHARE if share is None else share, joins=joins)
    elif share is not None or joins:
        raise InvalidData("--pilot is for private releases; --policy exact uses all rows: leave out one of them")
    order = DATE_ORDERS[dates]
    roles = asked_roles(table, client, target, listed(inputs), name, catalogue, units_of(units), order, drawn)
    roles = replace(roles, logarithms=() if log == "none" else listed(log), encoding=encoding)
    _from_table(file, pilot, table, roles, drawn, chosen, title or file.stem, force=force, as_json=as_json)


# --- from a table ---


def _from_table(
    file: Path, path: Path, table: Table, roles: Roles, drawn: PilotClients | None, promise: Promise, title: str,
    *, force: bool, as_json: bool,
) -> None:  # fmt: skip
    from motet.study.choice import Choice
    from motet.study.pilot import Pilot

    pilot = Pilot.read(table, roles, drawn)
    if not as_json:
        show_pilot(pilot)
    with phases_shown(Console(stderr=True), quiet=as_json) as begin:
        choice = Choice.of(pilot, promise, begin)
        study = choice.proposal.write(file, title, force=force)
        found = choice.evaluation
        if drawn is not None and not choice.is_as_served:
            found = _evaluated(study, drawn.served(table, roles.client), begin)
        whole = None if drawn is None else _with_the_whole_table(study, table, choice, drawn, begin)
    if as_json:
        structure = "plain" if choice.is_plain else "full"
        report = {**about(file, study), "from": described(pilot), "settings": study.settings_source}
        errors = None if whole is None else errors_of(whole)
        show({**report, "structure": structure, "evaluation": found.to_dict(), "with_the_whole_table": errors})
        return
    show_items(file, pilot.items)
    whose = "table" if drawn is None else "pilot"
    show(f"{file}: written, with the settings that the {whose} makes likeliest. Evaluated: {found.subject}.")
    if choice.reason:
        show(choice.reason)
    for reason, rows in found.left_out.items():
        show(f"Left out: {count(rows, 'row')} ({reason}).")
    show_scores(found, "this study", NEW_ROWS)
    show_cost(found, whole, drawn)
    show_advice(found, study)
    show_next(file, study, path, drawn, roles.encoding)


def _evaluated(study: Study, table: Table, begin: Begin, whose: str = "") -> Evaluation:
    """On the rows of a table that the study takes, as it would be served; others are counted."""
    from motet.study.choice import evaluated, folds_of
    from motet.study.fitting import arrays_of, fitting_rows

    rows, outside = fitting_rows(study, table)
    advance = begin(f"Evaluating{whose} as it would be served", "fold", folds_of(len(rows.rows)))
    found = evaluated(study, *arrays_of(study, rows), advance=advance)
    return replace(found, left_out={**outside, **found.left_out})


def _with_the_whole_table(
    study: Study, table: Table, choice: Choice, drawn: PilotClients, begin: Begin
) -> Evaluation | None:
    """On the same rows as the study, with settings that all rows make likeliest; for whoever runs this, and in no file.
    None if nobody is beside the pilot, or the other rows have no settings.

    Rows outside the pilot's limits are in neither: they are the extreme ones, without which any error is smaller.
    """
    from motet.study.fitting import fitting_rows
    from motet.study.pilot import Pilot
    from motet.study.proposal import Proposal

    roles, promise = choice.proposal.pilot.roles, choice.proposal.promise
    promise = replace(promise, clients=choice.proposal.clients)
    if not drawn.others:
        return None
    try:
        with TemporaryDirectory() as folder:
            proposal = Proposal.of(Pilot.read(table, roles), promise, begin, plain=choice.is_plain)
            whole = proposal.write(Path(folder) / "whole.toml", "whole")
            rows = fitting_rows(study, drawn.served(table, roles.client))[0]
            return _evaluated(whole, rows, begin, " settings of all clients")
    except MotetError:
        return None


# --- which options go together ---


def _check_without_table(options: dict[str, Any]) -> None:
    if given := [option for option, value in options.items() if value is not None]:
        raise InvalidData(f"{given[0]} is about a table: give the table too, --from FILE")


def _check_with_table(options: dict[str, Any]) -> None:
    if given := [option for option, value in options.items() if value is not None]:
        raise InvalidData(f"{given[0]} is for a study without a table, and --from finds it: leave out one of them")

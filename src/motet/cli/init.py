"""``motet init``: a new study's file, from a table of pilot data, or from options alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from motet.cli.evaluate import show_scores
from motet.cli.phases import phases_shown
from motet.cli.proposal import (
    about,
    errors_of,
    pilot_facts,
    show_advice,
    show_cost,
    show_items,
    show_next,
    show_pilot,
    show_written,
)
from motet.cli.terminal import AsJson, Encoding, Force, show, split_commas
from motet.errors import InvalidData
from motet.tables.files import check_new
from motet.text import count

if TYPE_CHECKING:
    from motet.planning.pilot import Pilot
    from motet.study.template import Promise
    from motet.tables.files import Table


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
    logarithms: Annotated[
        str | None,
        typer.Option(
            "--log",
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
    """Write a commented study file: with --from, one that is right for a table; otherwise from options, which say at
    least what inputs are: --inputs, --catalogue or --dimension. Other options that you leave out get defaults.

    With --from, model, limits and basis are those that suit a table, and the study is evaluated on it, beside
    baselines, as it would be served. What the study file says becomes public, and its privacy budget does not cover
    that. So a private study takes all of it from a pilot: a fifth of the table's clients at random, at least 30. The
    file has their digests, and motet serve --data leaves them out; of the other clients it says nothing. With --policy
    exact, which promises nothing, there is no pilot, and all rows are used.

    Of each input it shows what it tells of the output at held-out rows. One that all but is the output is left out,
    unless --inputs names it: is it known when you predict? Settings of a large table are searched on some of its rows.
    """
    from motet.study.template import Promise

    check_new(file, force=force)
    promise = Promise.of(policy=policy, epsilon=epsilon, releases=releases, every=every, clients=clients)
    if pilot is None:
        of_table = {"--client": client, "--target": target, "--name": name, "--units": units, "--log": logarithms}
        of_pilot = {"--dates": dates, "--pilot": share, "--pilot-joins": joins or None}
        _refuse(of_table | of_pilot, "is about a table: give the table too, --from FILE")
        inputs_of = {"inputs": split_commas(inputs), "catalogue": catalogue, "dimension": dimension}
        of_outputs = {"bounds": bounds, "y": y, "shift_std": spread, "noise": noise}
        _from_options(file, {"name": title, "encoding": encoding, **inputs_of, **of_outputs}, promise, force, as_json)
        return
    of_options = {"--dimension": dimension, "--bounds": bounds, "--y": y, "--spread": spread, "--noise": noise}
    _refuse(of_options, "is for a study without a table, and --from finds it: leave out one of them")
    from motet.planning.pilot import read_pilot
    from motet.tables.files import read

    table = read(pilot, encoding=encoding)
    rows = read_pilot(
        table,
        client=client,
        target=target,
        name=name,
        catalogue=catalogue,
        inputs=inputs,
        units=_units(units),
        logarithms=() if logarithms == "none" else logarithms,
        dates=dates,
        encoding=encoding,
        policy=promise.policy,
        share=share,
        joins=joins,
    )
    _from_table(file, pilot, table, rows, promise, title, force=force, as_json=as_json)


def _refuse(options: dict[str, Any], why: str) -> None:
    """Raises if one of these options is given, which do not go together with others."""
    if given := [option for option, value in options.items() if value is not None]:
        raise InvalidData(f"{given[0]} {why}")


def _units(text: str | None) -> dict[str, str]:
    pairs = [part.partition("=") for part in split_commas(text) or ()]
    for column, equals, unit in pairs:
        if not (column.strip() and equals and unit.strip()):
            raise InvalidData(f"expected --units such as hours=h,dose=mg, got {text!r}")
    return {column.strip(): unit.strip() for column, _, unit in pairs}


def _from_options(file: Path, options: dict[str, Any], promise: Promise, force: bool, as_json: bool) -> None:
    from motet.study.template import Draft

    choices = {key: value for key, value in options.items() if value is not None}
    forms = [key for key in ("catalogue", "dimension", "inputs") if key in choices]
    if not forms:
        what = "what inputs are: --inputs COLUMNS, --catalogue FILE or --dimension NUMBER"
        raise InvalidData(f"missing: a table, --from FILE; or {what}")
    if len(forms) > 1:
        raise InvalidData(f"expected one of --catalogue, --inputs and --dimension, got --{' and --'.join(forms)}")
    if {"catalogue", "bounds"} <= choices.keys():
        raise InvalidData("--bounds is for inputs that are numbers, and a catalogue's inputs are names: leave it out")
    budget = {key: getattr(promise, key) for key in ("policy", "epsilon", "releases", "every")}
    draft = Draft(**choices, **budget)
    study = draft.write(file, force=force)
    if as_json:
        show(about(file, study))
    else:
        show_written(file, study, draft.items)


def _from_table(
    file: Path, path: Path, table: Table, pilot: Pilot, promise: Promise, title: str | None,
    *, force: bool, as_json: bool,
) -> None:  # fmt: skip
    from motet.planning.choice import choose

    drawn = pilot.drawn
    if not as_json:
        show_pilot(pilot)
    with phases_shown(Console(stderr=True), quiet=as_json) as begin:
        chosen = choose(pilot, promise, begin).as_served(table, begin)
        whole = chosen.with_the_whole_table(table, begin)
    study, evaluation = chosen.write(file, title=title, force=force), chosen.evaluation
    if as_json:
        structure = "plain" if chosen.proposal.is_plain else "full"
        report = {**about(file, study), "from": pilot_facts(pilot), "settings": study.settings_source}
        errors = None if whole is None else errors_of(whole)
        show({**report, "structure": structure, "evaluation": evaluation.to_dict(), "with_the_whole_table": errors})
        return
    show_items(file, pilot.items)
    whose = "table" if drawn is None else "pilot"
    show(f"{file}: written, with the settings that the {whose} makes likeliest. Evaluated: {evaluation.subject}.")
    if chosen.reason:
        show(chosen.reason)
    for reason, rows in evaluation.left_out.items():
        show(f"Left out: {count(rows, 'row')} ({reason}).")
    show_scores(evaluation, "this study")
    show_cost(evaluation, whole, drawn)
    show_advice(evaluation, study)
    show_next(file, study, path, drawn, pilot.roles.encoding)

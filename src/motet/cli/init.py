"""``motet init``: a new study's file, from a table of pilot data, or from options and questions at a terminal."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from motet.cli.evaluate import show_scores
from motet.cli.fit import steps_shown
from motet.cli.terminal import AsJson, Encoding, Force, progress_bar, show
from motet.errors import InvalidData, MotetError
from motet.files import check_new
from motet.text import count, first_few

if TYPE_CHECKING:
    from motet.files import Table
    from motet.model.dates import DateOrder
    from motet.study.choice import Choice
    from motet.study.evaluation import Evaluation
    from motet.study.items import Items
    from motet.study.pilot import Pilot, Roles
    from motet.study.pilot_clients import PilotClients
    from motet.study.proposal import Promise
    from motet.study.study import Study

DATE_ORDERS: dict[str | None, DateOrder] = {None: "", "day-first": "day first", "month-first": "month first"}
NEW_ROWS = 3  # of a new client's own, when a study is evaluated
FEW_OTHERS = 30  # clients beside the pilot


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
        typer.Option(help="Columns of inputs, separated by commas; by default all that can be.", metavar="COLUMNS"),
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
        choices |= {"inputs": _listed(inputs), "spread": spread, "noise": noise, "encoding": encoding}
        study = _from_choices(file, {**choices, **promise}, force=force, as_json=as_json)
        _show_written(file, study) if not as_json else show(_about(file, study))
        return
    _check_with_table({"--dimension": dimension, "--bounds": bounds, "--y": y, "--spread": spread, "--noise": noise})
    from motet.files import read

    table = read(pilot, encoding=encoding)
    client, target = _asked_columns(table, client, target)
    from motet.study.pilot_clients import SHARE, PilotClients
    from motet.study.proposal import Promise

    chosen, drawn = Promise(clients=clients, **_asked_promise(promise)), None
    if chosen.policy == "private":
        drawn = PilotClients.draw(table, client, target, share=SHARE if share is None else share, joins=joins)
    elif share is not None or joins:
        raise InvalidData("--pilot is for private releases; --policy exact uses all rows: leave out one of them")
    roles = _roles(table, client, target, _listed(inputs), name, catalogue, _units(units), drawn)
    roles = replace(roles, logarithms=() if log == "none" else _listed(log), dates=DATE_ORDERS[dates])
    roles = replace(roles, encoding=encoding)
    _from_table(file, pilot, table, roles, drawn, chosen, title or file.stem, force=force, as_json=as_json)


def _listed(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(part.strip() for part in text.split(",") if part.strip())


# --- from a table ---


def _from_table(
    file: Path, path: Path, table: Table, roles: Roles, drawn: PilotClients | None, promise: Promise, title: str,
    *, force: bool, as_json: bool,
) -> None:  # fmt: skip
    from motet.study.choice import Choice
    from motet.study.pilot import Pilot

    pilot = Pilot.read(table, roles, drawn)
    if not as_json:
        _show_pilot(pilot)
    console = Console(stderr=True)
    with steps_shown(console) as report:
        choice = Choice.of(pilot, promise, report)
    study = choice.proposal.write(file, title, force=force)
    found = choice.evaluation
    if drawn is not None and not choice.is_as_served:
        found = _evaluated(study, drawn.served(table, roles.client), console)
    whole = None if drawn is None else _with_the_whole_table(study, table, choice, drawn, console)
    if as_json:
        structure = "plain" if choice.is_plain else "full"
        about = {**_about(file, study), "from": _described(pilot), "settings": study.settings_source}
        errors = None if whole is None else _errors(whole)
        show({**about, "structure": structure, "evaluation": found.to_dict(), "with_the_whole_table": errors})
        return
    _show_items(file, pilot.items)
    whose = "table" if drawn is None else "pilot"
    show(f"{file}: written, with the settings that the {whose} makes likeliest. Evaluated: {found.subject}.")
    if choice.reason:
        show(choice.reason)
    for reason, rows in found.left_out.items():
        show(f"Left out: {count(rows, 'row')} ({reason}).")
    show_scores(found, "this study", NEW_ROWS)
    _show_cost(found, whole, drawn)
    _show_advice(found, study)
    _show_next(file, study, path, drawn)


def _evaluated(study: Study, table: Table, console: Console) -> Evaluation:
    """On the rows of a table that the study takes, as it would be served; others are counted."""
    from motet.study.choice import evaluated, folds_of
    from motet.study.fitting import arrays_of, fitting_rows

    rows, outside = fitting_rows(study, table)
    with progress_bar(console, "folds", folds_of(len(rows.rows)), "Evaluating") as advance:
        found = evaluated(study, *arrays_of(study, rows), advance=advance)
    return replace(found, left_out={**outside, **found.left_out})


def _with_the_whole_table(
    study: Study, table: Table, choice: Choice, drawn: PilotClients, console: Console
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
        with steps_shown(console) as report, TemporaryDirectory() as folder:
            proposal = Proposal.of(Pilot.read(table, roles), promise, report, plain=choice.is_plain)
            whole = proposal.write(Path(folder) / "whole.toml", "whole")
            return _evaluated(whole, fitting_rows(study, drawn.served(table, roles.client))[0], console)
    except MotetError:
        return None


def _errors(found: Evaluation) -> dict[str, float]:
    return {group.kind: group.score.error for group in found.groups}


def _show_cost(found: Evaluation, whole: Evaluation | None, drawn: PilotClients | None) -> None:
    """What is lost by settings of a pilot."""
    if drawn is None:
        show("The settings were found on all rows, these too; what was predicted from other rows is what is scored.")
    if whole is not None:
        theirs = " and ".join(f"{error:.4g} ({kind})" for kind, error in _errors(whole).items())
        ours = " and ".join(f"{error:.4g}" for error in _errors(found).values())
        show(f"What the pilot costs: with settings of the whole table the errors would be {theirs} instead of {ours}.")


def _described(pilot: Pilot) -> dict[str, Any]:
    """What the settings come from, for JSON."""
    others = 0 if pilot.drawn is None else pilot.drawn.others
    rows = {"file": pilot.file, "rows": len(pilot.y), "clients": len(pilot.sizes)}
    return {**rows, "other_clients": others, "notes": list(pilot.notes)}


def _show_pilot(pilot: Pilot) -> None:
    clients, sizes = count(len(pilot.sizes), "client"), sorted(pilot.sizes.tolist())
    few, most, drawn = sizes[0], sizes[-1], pilot.drawn
    if drawn is None:
        show(f"{pilot.file}: {count(len(pilot.y), 'row')} of {clients}, {few} to {most} each.")
    else:
        chosen = f"{count(len(drawn.names), 'client')} of {len(drawn.names) + drawn.others}, chosen at random"
        show(f"{pilot.file}: the pilot is {chosen}; {count(len(pilot.y), 'row')}, {few} to {most} each.")
        show(_about_pilot(drawn))
    if pilot.columns is not None:
        kinds = [f"{c.name} ({'category' if c.values else 'date' if c.since else 'number'})" for c in pilot.columns]
        show(f"Inputs: {', '.join(kinds)}. Output: {pilot.roles.target}.")
    elif pilot.catalogue is not None:
        features = len(pilot.catalogue.features)
        show(f"Inputs: {count(len(pilot.catalogue), 'item')} with {count(features, 'feature')}.")
    for line in pilot.notes:
        show(f"Note: {line}.")


def _about_pilot(drawn: PilotClients) -> str:
    """What being of the pilot means."""
    from motet.study.proposal import JOINS

    if drawn.joins:
        return f"The settings are those of the pilot, {JOINS}"
    if not drawn.others:
        return (
            "The settings are theirs, and everybody may read them. That is all clients of the table, so nobody is left "
            "to take part: others may send their rows; or --pilot-joins lets the pilot take part."
        )
    few = (
        f" {count(drawn.others, 'client')} are few: --pilot-joins lets the pilot take part too, outside of ε."
        if drawn.others < FEW_OTHERS
        else ""
    )
    return f"The settings are theirs, and everybody may read them; only the others take part, under ε.{few}"


def _show_advice(found: Evaluation, study: Study) -> None:
    """What to do if its error is larger than that of what people do without it."""
    errors = [(group.score.error, *(score.error for score in group.baseline_scores.values())) for group in found.groups]
    if all(error <= min(others) for error, *others in errors):
        return
    if study.private:
        show(
            "Each baseline has all rows without noise. More clients, a larger --epsilon, or --policy exact among "
            f"parties who trust each other may help; motet check {_quoted(study.path)} forecasts by how much."
        )
    if study.model.catalogue is not None and not study.model.catalogue.features:
        show("The items only have names: features of the items (--catalogue) let ratings of one tell about others.")


def _asked_columns(table: Table, client: str | None, target: str | None) -> tuple[str, str]:
    """The columns of clients and outputs: as options say, or as they are asked for at a terminal."""
    from motet.study.pilot import kinds_of

    if sys.stdin.isatty() and (client is None or target is None):
        listed = "".join(f"\n  {column}: {kind}" for column, kind in kinds_of(table).items())
        sys.stderr.write(f"{table.file} has {count(len(table.rows), 'row')} and the columns{listed}\n")
    return (
        _column(table, "client", "--client", "Which column says whose row it is (patient, user, site)?", client),
        _column(table, "y", "--target", "Which column is to be predicted?", target),
    )


def _roles(
    table: Table, client: str, target: str, inputs: tuple[str, ...] | None, name: str | None, catalogue: Path | None,
    units: dict[str, str], drawn: PilotClients | None,
) -> Roles:  # fmt: skip
    """What the columns mean; what a terminal is asked has defaults from the rows of the pilot."""
    from motet.study.pilot import Roles, kinds_of, uses_of

    if inputs is None and name is None and sys.stdin.isatty():
        rows = table if drawn is None else drawn.rows(table, client)
        free = [column for column, why_not in uses_of(rows, client, target).items() if not why_not]
        question = "Which columns are inputs (separated by commas; or the one column of items' names)"
        answer = _listed(_prompt(question, ",".join(free), str)) or ()
        name = answer[0] if len(answer) == 1 and kinds_of(rows).get(answer[0]) == "text" else None
        inputs = () if name else answer
    if name is None and catalogue is not None:
        name = "name" if "name" in table.columns else None
    return Roles(client=client, target=target, inputs=inputs or (), name=name, catalogue=catalogue, units=units)


def _column(table: Table, usual: str, option: str, question: str, given: str | None) -> str:
    if given is not None:
        return given
    if sys.stdin.isatty():
        default = usual if usual in table.columns else table.columns[0 if option == "--client" else -1]
        return str(_prompt(question, default, lambda text: _one_of(text.strip(), table.columns)))
    if usual in table.columns:
        return usual
    raise InvalidData(f"{table.file} has {first_few(table.columns)}: say which column is which, {option} COLUMN")


def _one_of(text: str, columns: list[str]) -> str:
    if text not in columns:
        raise typer.BadParameter(f"expected one of {', '.join(columns)}, got {text!r}")
    return text


def _units(text: str | None) -> dict[str, str]:
    pairs = [part.partition("=") for part in _listed(text) or ()]
    for column, equals, unit in pairs:
        if not (column.strip() and equals and unit.strip()):
            raise InvalidData(f"expected --units such as hours=h,dose=mg, got {text!r}")
    return {column.strip(): unit.strip() for column, _, unit in pairs}


# --- from choices ---


def _check_without_table(options: dict[str, Any]) -> None:
    if given := [option for option, value in options.items() if value is not None]:
        raise InvalidData(f"{given[0]} is about a table: give the table too, --from FILE")


def _check_with_table(options: dict[str, Any]) -> None:
    if given := [option for option, value in options.items() if value is not None]:
        raise InvalidData(f"{given[0]} is for a study without a table, and --from finds it: leave out one of them")


def _from_choices(file: Path, options: dict[str, Any], *, force: bool, as_json: bool) -> Study:
    from motet.study.template import Draft

    answers = {key: value for key, value in options.items() if value is not None}
    forms = [key for key in ("catalogue", "dimension", "inputs") if key in answers]
    if len(forms) > 1:
        raise InvalidData(f"expected one of --catalogue, --inputs and --dimension, got --{' and --'.join(forms)}")
    if {"catalogue", "bounds"} <= answers.keys():
        raise InvalidData("--bounds is for inputs that are numbers, and a catalogue's inputs are names: leave it out")
    if sys.stdin.isatty():
        _ask(answers)
    draft = Draft(**answers)
    study = draft.write(file, force=force)
    if not as_json:
        for line in () if draft.items is None else draft.items.notes:
            show(f"Note: {line}.")
        _show_items(file, draft.items)
    return study


def _ask(answers: dict[str, Any]) -> None:
    """Ask for what no option gives, with a default for each."""
    _answer(answers, "name", "Name of the study", str)
    if not {"catalogue", "dimension", "inputs"} & answers.keys():
        question = "Inputs: their names, separated by commas; or a CSV file of items"
        answer = _prompt(question, "x", _inputs)
        answers["catalogue" if isinstance(answer, Path) else "inputs"] = answer
    if "catalogue" not in answers:
        _answer(answers, "bounds", "The lowest and the highest number of an input", _pair, "0 1")
    _answer(answers, "y", "The lowest and the highest output", _pair, "-10 10")
    low, high = answers["y"]
    usual = f"{(high - low) / 8:.3g}"
    _answer(answers, "spread", "How far clients differ from their average (a standard deviation)", _positive, usual)
    half = f"{answers['spread'] / 2:.3g}"
    _answer(answers, "noise", "How far repeated outputs of one client differ (a standard deviation)", _positive, half)
    answers |= _asked_promise({key: answers.get(key) for key in ("policy", "epsilon", "releases", "every")})


def _asked_promise(options: dict[str, Any]) -> dict[str, Any]:
    """Policy and budget: as options say, asked for at a terminal, or left to the defaults."""
    answers = {key: value for key, value in options.items() if value is not None}
    if not sys.stdin.isatty():
        return answers
    question = "Releases: private; or exact, without noise, for parties that trust each other"
    _answer(answers, "policy", question, _valid("policy", str))
    if answers["policy"] == "private":
        _answer(answers, "epsilon", "Total privacy budget ε (1 is strict, 3 usual)", _valid("epsilon", float))
        _answer(answers, "releases", "How many releases share the budget", _valid("releases", int))
    _answer(answers, "every", "Time between releases (30s, 15m, 12h, 1d)", _valid("every", str))
    return answers


def _answer(
    answers: dict[str, Any], key: str, question: str, read: Callable[[str], Any], default: str | None = None
) -> None:
    from motet.study.template import Draft

    if key not in answers:
        answers[key] = _prompt(question, str(getattr(Draft(), key)) if default is None else default, read)


def _prompt(question: str, default: str, read: Callable[[str], Any]) -> Any:
    """Ask again until the answer can be read."""
    return typer.prompt(question, default=default, value_proc=read, err=True)


def _inputs(text: str) -> tuple[str, ...] | Path:
    if text.strip().lower().endswith(".csv"):
        if not Path(text.strip()).is_file():
            raise typer.BadParameter(f"expected names, or an existing file, got {text!r}")
        return Path(text.strip())
    if not (names := _listed(text)):
        raise typer.BadParameter("expected names such as hours,dose")
    return names


def _pair(text: str) -> tuple[float, float]:
    try:
        low, high = map(float, text.replace(",", " ").split())
    except ValueError:
        low, high = 0.0, 0.0
    if not low < high:
        raise typer.BadParameter(f"expected two numbers such as 0 1, the lower one first, got {text!r}")
    return low, high


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < math.inf:
        raise typer.BadParameter(f"expected a number above 0, got {text!r}")
    return number


def _valid(key: str, kind: Callable[[str], Any]) -> Callable[[str], Any]:
    """Reads a value that a study file takes for a key of its releases."""
    from motet.study.schema import Release, expected

    def read(text: str) -> Any:
        try:
            value = kind(text.strip())
            Release.model_validate({key: value})
        except ValueError:
            raise typer.BadParameter(f"expected {expected(Release, key)}, got {text!r}") from None
        return value

    return read


# --- what was written ---


def _quoted(file: Path) -> str:
    return shlex.quote(str(file))


def _show_items(file: Path, items: Items | None) -> None:
    """Where a catalogue is that was written."""
    from motet.study.items import items_file

    if (written := items_file(items, file)) is not None:
        show(f"{written}: written, the items with the numbers that the study reads.")


def _about(file: Path, study: Study) -> dict[str, Any]:
    return {"study": str(file), "name": study.name, "policy": study.release.policy}


def _show_written(file: Path, study: Study) -> None:
    catalogue = study.model.catalogue
    over = f"inputs of {count(study.dimension, 'number')}" if catalogue is None else count(len(catalogue), "item")
    show(f"{file}: a study over {over}, with {'private releases' if study.private else 'releases without noise'}.")
    show("Its settings are guesses: a table finds them (--from TABLE), motet check tells what to expect.")
    _show_next(file, study)


def _show_next(file: Path, study: Study, data: Path | None = None, drawn: PilotClients | None = None) -> None:
    by_example, by_release = ("inputs, limits and budget", "the model") if study.private else ("inputs", "the policy")
    show(f"Review it: the first example fixes {by_example}, the first release {by_release}.")
    show(f"Then: motet serve {_quoted(file)}")
    if data is not None and (drawn is None or drawn.joins or drawn.others):
        rows = "the table" if drawn is None or drawn.joins else f"the other {drawn.others} clients"
        show(f"Or, with the rows of {rows} in it: motet serve {_quoted(file)} --data {_quoted(data)}")

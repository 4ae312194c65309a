"""What ``motet init`` asks at a terminal, each with a default: a study from options alone, and what columns mean."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from motet.errors import InvalidData, MotetError
from motet.text import count, first_few

if TYPE_CHECKING:
    from motet.files import Table
    from motet.model.dates import DateOrder
    from motet.study.pilot import Roles
    from motet.study.pilot_clients import PilotClients
    from motet.study.study import Study
    from motet.study.template import Draft


def listed(text: str | None) -> tuple[str, ...] | None:
    """What commas separate."""
    return None if text is None else tuple(part.strip() for part in text.split(",") if part.strip())


# --- without a table ---


def study_from_choices(file: Path, options: dict[str, Any], *, force: bool) -> tuple[Draft, Study]:
    """From options, and at a terminal from answers."""
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
    return draft, draft.write(file, force=force)


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
    answers |= asked_promise({key: answers.get(key) for key in ("policy", "epsilon", "releases", "every")})


def asked_promise(options: dict[str, Any]) -> dict[str, Any]:
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
    if not (names := listed(text)):
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


# --- the columns of a table ---


def asked_columns(table: Table, client: str | None, target: str | None) -> tuple[str, str]:
    """The columns of clients and outputs: as options say, or as they are asked for at a terminal."""
    from motet.study.pilot import kinds_of

    if sys.stdin.isatty() and (client is None or target is None):
        listed = "".join(f"\n  {column}: {kind}" for column, kind in kinds_of(table).items())
        sys.stderr.write(f"{table.file} has {count(len(table.rows), 'row')} and the columns{listed}\n")
    return (
        _column(table, "client", "--client", "Which column says whose row it is (patient, user, site)?", client),
        _column(table, "y", "--target", "Which column is to be predicted?", target),
    )


def asked_roles(
    table: Table, client: str, target: str, inputs: tuple[str, ...] | None, name: str | None, catalogue: Path | None,
    units: dict[str, str], dates: DateOrder, drawn: PilotClients | None,
) -> Roles:  # fmt: skip
    """What the columns mean; what a terminal is asked has defaults from the rows of the pilot."""
    from motet.study.pilot import Roles, kinds_of

    if inputs is None and name is None and sys.stdin.isatty():
        rows = table if drawn is None else drawn.rows(table, client)
        free = _usual_inputs(rows, Roles(client=client, target=target, dates=dates))
        question = "Which columns are inputs (separated by commas; or the one column of items' names)"
        answer = listed(_prompt(question, ",".join(free), str)) or ()
        name = answer[0] if len(answer) == 1 and kinds_of(rows).get(answer[0]) == "text" else None
        inputs = () if name or answer == free else answer  # those that nobody has changed are not named
    if name is None and catalogue is not None:
        name = "name" if "name" in table.columns else None
    return Roles(
        client=client, target=target, inputs=inputs or (), name=name, catalogue=catalogue, units=units, dates=dates
    )


def _usual_inputs(rows: Table, roles: Roles) -> tuple[str, ...]:
    """Those that are taken if none is named; none is offered if they cannot be read."""
    from motet.study.pilot import Pilot

    try:
        return Pilot.read(rows, roles).roles.inputs
    except MotetError:
        return ()


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


def units_of(text: str | None) -> dict[str, str]:
    pairs = [part.partition("=") for part in listed(text) or ()]
    for column, equals, unit in pairs:
        if not (column.strip() and equals and unit.strip()):
            raise InvalidData(f"expected --units such as hours=h,dose=mg, got {text!r}")
    return {column.strip(): unit.strip() for column, _, unit in pairs}

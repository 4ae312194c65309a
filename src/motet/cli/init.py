"""``motet init``: a new study's file, from options and, at a terminal, a few questions."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from motet.cli.terminal import AsJson, Force, show
from motet.errors import InvalidData
from motet.files import check_new
from motet.text import count

if TYPE_CHECKING:
    from motet.study.study import Study


def init(
    file: Annotated[Path, typer.Argument(help="The study file to write.", metavar="FILE")] = Path("study.toml"),
    name: Annotated[str | None, typer.Option(help="The name of the study.", metavar="NAME")] = None,
    catalogue: Annotated[
        Path | None, typer.Option(help="Inputs are names: a CSV file with a header, names and numeric features.")
    ] = None,
    dimension: Annotated[int | None, typer.Option(help="Inputs are numbers: how many each input has.", min=1)] = None,
    bounds: Annotated[
        tuple[float, float] | None,
        typer.Option(help="The lowest and the highest of those numbers.", metavar="LOW HIGH"),
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
    every: Annotated[str | None, typer.Option(help="Time between releases: 30s, 15m, 12h, 1d.", metavar="TIME")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a commented study file. Options that you leave out are asked for; without a terminal they get defaults."""
    inputs = {"catalogue": catalogue, "dimension": dimension, "bounds": bounds}
    promise = {"policy": policy, "epsilon": epsilon, "releases": releases, "every": every}
    options: dict[str, Any] = {"name": name, **inputs, **promise}
    answers = {key: value for key, value in options.items() if value is not None}
    _check(answers)
    check_new(file, force=force)
    from motet.study.template import Draft

    if sys.stdin.isatty():
        _ask(answers)
    study = Draft(**answers).write(file, force=force)
    if as_json:
        show({"study": str(file), "name": study.name, "policy": study.release.policy})
    else:
        _show_written(file, study)


def _check(answers: dict[str, Any]) -> None:
    """Raise if options contradict each other."""
    if {"catalogue", "dimension"} <= answers.keys():
        raise InvalidData("expected --catalogue or --dimension, got both: inputs are names or numbers")
    if {"catalogue", "bounds"} <= answers.keys():
        raise InvalidData("--bounds is for inputs that are numbers, and a catalogue's inputs are names: leave it out")
    if answers.get("policy") == "exact" and {"epsilon", "releases"} & answers.keys():
        raise InvalidData("--epsilon and --releases are for private releases: leave out either them or --policy exact")


def _ask(answers: dict[str, Any]) -> None:
    """Ask for what no option gives, with a default for each."""
    _answer(answers, "name", "Name of the study", str)
    if not {"catalogue", "dimension"} & answers.keys():
        inputs = _prompt("Inputs: how many numbers each has, or a CSV file of their names", "1", _inputs)
        answers["dimension" if isinstance(inputs, int) else "catalogue"] = inputs
    if "dimension" in answers:
        _answer(answers, "bounds", "The lowest and the highest of those numbers", _pair, "0 1")
    question = "Releases: private; or exact, without noise, for parties that trust each other"
    _answer(answers, "policy", question, _valid("policy", str))
    if answers["policy"] == "private":
        _answer(answers, "epsilon", "Total privacy budget ε (1 is strict, 3 usual)", _valid("epsilon", float))
        _answer(answers, "releases", "How many releases share the budget", _valid("releases", int))
    _answer(answers, "every", "Time between releases (30s, 15m, 12h, 1d)", _valid("every", str))


def _answer(
    answers: dict[str, Any], key: str, question: str, read: Callable[[str], Any], default: str | None = None
) -> None:
    from motet.study.template import Draft

    if key not in answers:
        answers[key] = _prompt(question, str(getattr(Draft(), key)) if default is None else default, read)


def _prompt(question: str, default: str, read: Callable[[str], Any]) -> Any:
    """Ask again until the answer can be read."""
    return typer.prompt(question, default=default, value_proc=read, err=True)


def _inputs(text: str) -> int | Path:
    if text.strip().isdecimal():
        return int(text)
    if not Path(text).is_file():
        raise typer.BadParameter(f"expected a number from 1, or an existing file, got {text!r}")
    return Path(text)


def _pair(text: str) -> tuple[float, float]:
    try:
        low, high = map(float, text.replace(",", " ").split())
    except ValueError:
        low, high = 0.0, 0.0
    if not low < high:
        raise typer.BadParameter(f"expected two numbers such as 0 1, the lower one first, got {text!r}")
    return low, high


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


def _show_written(file: Path, study: Study) -> None:
    catalogue = study.model.catalogue
    over = f"inputs of {count(study.dimension, 'number')}" if catalogue is None else count(len(catalogue), "item")
    show(f"{file}: a study over {over}, with {'private releases' if study.private else 'releases without noise'}.")
    fixed = "model, limits and budget" if study.private else "the policy"
    show(f"Review it before the first start: afterwards {fixed} cannot change.")
    show(f"Then: motet serve {shlex.quote(str(file))}")

"""``motet init``: a new study's file, from options and, where somebody sits at the terminal, a few questions."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from motet.cli.terminal import AsJson, one_line_errors, show
from motet.errors import InvalidData
from motet.text import count

if TYPE_CHECKING:
    from motet.study.study import Study


def init(
    file: Annotated[Path, typer.Argument(help="The study file to write.", metavar="FILE")] = Path("study.toml"),
    name: Annotated[str | None, typer.Option(help="What the study is called.")] = None,
    catalogue: Annotated[
        Path | None, typer.Option(help="Inputs are names: a CSV file with a header, names and numeric features.")
    ] = None,
    dimension: Annotated[int | None, typer.Option(help="Inputs are numbers: how many each has.", min=1)] = None,
    bounds: Annotated[tuple[float, float] | None, typer.Option(help="Lowest and highest of those numbers.")] = None,
    policy: Annotated[
        Literal["private", "exact"] | None,
        typer.Option(help="Differentially private releases, or exact ones, for parties who trust each other."),
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="Of all private releases together.")] = None,
    releases: Annotated[int | None, typer.Option(help="How many private releases share it.")] = None,
    every: Annotated[str | None, typer.Option(help="Time between releases: 30s, 15m, 12h, 1d.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a commented study file; what no option gives is asked for at a terminal, else has a default."""
    inputs = {"catalogue": catalogue, "dimension": dimension, "bounds": bounds}
    promise = {"policy": policy, "epsilon": epsilon, "releases": releases, "every": every}
    given: dict[str, Any] = {"name": name, **inputs, **promise}
    said = {key: value for key, value in given.items() if value is not None}
    with one_line_errors():
        _check(said)
        from motet.study.template import Draft, check_new

        check_new(file, force=force)
        if sys.stdin.isatty():
            _ask(said)
        study = Draft(**said).write(file, force=force)
        if as_json:
            show({"study": str(file), "name": study.name, "policy": study.release.policy})
        else:
            _show_written(file, study)


def _check(said: dict[str, Any]) -> None:
    """Options that contradict each other."""
    if {"catalogue", "dimension"} <= said.keys():
        raise InvalidData("expected --catalogue or --dimension, got both: inputs are names or numbers")
    if {"catalogue", "bounds"} <= said.keys():
        raise InvalidData("--bounds are of numbers, and a catalogue's inputs are names: leave them out")
    if said.get("policy") == "exact" and {"epsilon", "releases"} & said.keys():
        raise InvalidData("--epsilon and --releases are of private releases: leave them out, or --policy exact")


def _ask(said: dict[str, Any]) -> None:
    """What is not said yet, with a default for each."""
    _asked(said, "name", "Name of the study", str)
    if not {"catalogue", "dimension"} & said.keys():
        inputs = _prompt("Inputs: how many numbers each has, or the CSV file of their names", "1", _inputs)
        said["dimension" if isinstance(inputs, int) else "catalogue"] = inputs
    if "dimension" in said:
        _asked(said, "bounds", "Lowest and highest of those numbers", _pair, "0 1")
    _asked(said, "policy", "Releases: private, or exact for parties who trust each other", _valid("policy", str))
    if said["policy"] == "private":
        _asked(said, "epsilon", "ε of all releases together (1 strict, 3 usual)", _valid("epsilon", float))
        _asked(said, "releases", "How many releases share it", _valid("releases", int))
    _asked(said, "every", "Time between releases (30s, 15m, 12h, 1d)", _valid("every", str))


def _asked(
    said: dict[str, Any], key: str, question: str, read: Callable[[str], Any], default: str | None = None
) -> None:
    from motet.study.template import Draft

    if key not in said:
        said[key] = _prompt(question, str(getattr(Draft(), key)) if default is None else default, read)


def _prompt(question: str, default: str, read: Callable[[str], Any]) -> Any:
    """Asked again until it can be read."""
    return typer.prompt(question, default=default, value_proc=read, err=True)


def _inputs(text: str) -> int | Path:
    if text.strip().isdecimal():
        return int(text)
    if not Path(text).is_file():
        raise typer.BadParameter(f"expected a number from 1, or a file that is there, got {text!r}")
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
    """Reads what a study file takes for a key of its releases."""
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
    show(f"{file}: {'a private' if study.private else 'an exact'} study over {over}.")
    fixed = "model, limits and budget are fixed" if study.private else "its policy is fixed"
    show(f"Look through it: {fixed} when it is first served.")
    show(f"Then: motet serve {shlex.quote(str(file))}")

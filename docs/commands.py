"""The command reference, from the commands themselves: python docs/commands.py writes docs/commands.md.

It reads their signatures and not the help on a terminal, so it is the same whatever that terminal's width.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

from typer.models import ArgumentInfo, OptionInfo

from motet.cli.app import COMMANDS
from motet.study.template import Draft

PAGE = Path(__file__).with_name("commands.md")
TYPES = {str: "text", int: "number", float: "number", Path: "file", bool: ""}
NEW = Draft()
USES = {  # what is not in a signature: the token that a command asks for, and a new study's defaults
    "init": f"By default the study is called *{NEW.name}*, inputs are {NEW.dimension} number from {NEW.bounds[0]:g} to "
    f"{NEW.bounds[1]:g}, and releases are {NEW.policy}, {NEW.releases} of them with an ε of {NEW.epsilon:g}, one every "
    f"`{NEW.every}`.",
    "serve": "`MOTET_OPERATOR_TOKEN` sets the operator's token; else the first start makes one and shows it once.",
    "enroll": "Needs the operator's token, `MOTET_OPERATOR_TOKEN`.",
    "clients": "Needs the operator's token, `MOTET_OPERATOR_TOKEN`.",
    "release": "Needs the operator's token, `MOTET_OPERATOR_TOKEN`.",
    "send": "Without `--tokens` it needs a client's token, `MOTET_TOKEN`.",
    "predict": "Without `--own` or `--tokens` it needs a client's token, `MOTET_TOKEN`.",
    "export": "With a server's address it needs a client's token, `MOTET_TOKEN`.",
}
EXITS = {
    "demo": "Exit code 0 also where Ctrl-C ended it.",
    "serve": "Exit code 0 if Ctrl-C or a signal stopped it.",
    "verify": "Exit code 1 also if a check failed.",
}
HEADER = """\
# Commands

`motet COMMAND --help` says the same in a terminal, `motet --version` which version it is.

| exit code | means |
|---|---|
| 0 | done |
| 1 | refused or failed, with one line on standard error: what was expected, what came, what to do |
| 2 | wrong usage: an unknown option, a missing argument |

| variable | means |
|---|---|
| `MOTET_URL` | the address of the server, in place of `--url` |
| `MOTET_TOKEN` | a client's token |
| `MOTET_OPERATOR_TOKEN` | the operator's token |
| `MOTET_LOG_FORMAT` | `plain` or `json`, in place of `--log-format` |

Tokens are never arguments. A command that needs one and finds no variable asks for it at a terminal, without showing
it; where there is no terminal it is refused. Tables are CSV files, or Parquet where pyarrow is installed (`pip
install 'motet[tables]'`): a column `name` for a study with a catalogue, else the inputs' numbers in their order; `y`;
where wanted `noise` (a variance, 1 by default), `id`, and `client` where a table is of several. Progress bars go to
standard error, and only to a terminal.
"""


class Parameter(NamedTuple):
    """An argument or option of a command, as whoever calls it knows it."""

    name: str
    info: OptionInfo | ArgumentInfo
    kind: Any  # its type, without None
    default: Any  # inspect's own emptiness where it is required

    @property
    def is_option(self) -> bool:
        return isinstance(self.info, OptionInfo)

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty

    @property
    def shown(self) -> str:
        """How it is written in a call."""
        if not self.is_option:
            return f"{self.info.metavar or self.name.upper()}{'…' if get_origin(self.kind) is list else ''}"
        said = [self.info.default, *(self.info.param_decls or ())]  # typer keeps the first name there
        given = [name for name in said if isinstance(name, str)] or [f"--{self.name.replace('_', '-')}"]
        return f"{given[0]} {self._value}".strip()

    @property
    def _value(self) -> str:
        if self.info.metavar:
            return str(self.info.metavar)
        if get_origin(self.kind) is Literal:
            return "|".join(map(str, get_args(self.kind)))
        if get_origin(self.kind) is tuple:
            return " ".join(TYPES[part].upper() for part in get_args(self.kind))
        return TYPES[self.kind].upper()

    @property
    def notes(self) -> str:
        """Its default, limits and variable."""
        low, high = self.info.min, self.info.max
        none = self.default is None or self.default is False or self.required
        found = [] if none else [f"`{self.default}`"]
        if low is not None:
            found.append(f"from {low:g}" + ("" if high is None else f" to {high}"))
        return "; ".join([*found, *(f"or `{name}`" for name in [self.info.envvar] if name)])


def parameters(command: Callable[..., None]) -> list[Parameter]:
    found = []
    for name, given in inspect.signature(command, eval_str=True).parameters.items():
        kind, info = get_args(given.annotation)
        if get_origin(kind) in (UnionType, Union):
            (kind,) = (part for part in get_args(kind) if part is not NoneType)
        found.append(Parameter(name, info, kind, given.default))
    return found


def section(command: Callable[..., None], example: str) -> str:
    name, known = command.__name__, parameters(command)
    arguments = [p.shown if p.required else f"[{p.shown}]" for p in known if not p.is_option]
    usage = " ".join(["motet", name, *arguments, *["[OPTIONS]"] * any(p.is_option for p in known)])
    what = _words(inspect.getdoc(command) or "")
    notes = " ".join(words[name] for words in (USES, EXITS) if name in words)
    parts = [f"## {name}", what, f"```sh\n{usage}\n```", _table(known), notes, f"Example:\n\n```sh\n{example}\n```"]
    return "\n\n".join(part for part in parts if part)


def _table(known: list[Parameter]) -> str:
    header = ["| argument or option | | default, limits, variable |", "|---|---|---|"]
    rows = [f"| `{_cell(p.shown)}` | {_cell(_words(p.info.help or ''))} | {_cell(p.notes)} |" for p in known]
    return "\n".join([*header, *rows]) if rows else ""


def _words(text: str) -> str:
    """Options and variables as code."""
    return re.sub(r"(?<![\w`-])(--[a-z-]+|MOTET_[A-Z_]+)", r"`\1`", text)


def _cell(text: str) -> str:
    return text.replace("|", " or ")


def reference() -> str:
    return "\n\n".join([HEADER.strip(), *(section(command, example) for command, example in COMMANDS)]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")

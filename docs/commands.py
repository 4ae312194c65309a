"""The command reference, from the commands themselves: python docs/commands.py writes docs/commands.md.

It reads their signatures and not the help on a terminal, so it is the same whatever that terminal's width.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path

from motet.cli.app import COMMANDS, NOTES
from motet.cli.command import Parameter, parameters, usage
from motet.study.template import Draft

PAGE = Path(__file__).with_name("commands.md")
NEW = Draft()
INIT = (
    f"Without a table the study is by default called *{NEW.name}*, inputs lie from {NEW.bounds[0]:g} to "
    f"{NEW.bounds[1]:g} and outputs from {NEW.y[0]:g} to {NEW.y[1]:g}. Releases are {NEW.policy}, {NEW.releases} of "
    f"them with an ε of {NEW.epsilon:g}, one every `{NEW.every}`."
)
HEADER = """\
# Commands

`motet COMMAND --help` shows the same in a terminal, `motet --version` the version. `motet` alone shows the list of
commands, with exit code 2.

| exit code | means |
|---|---|
| 0 | done |
| 1 | refused or failed, with one line on standard error: what was expected, what was received, what to do |
| 2 | wrong usage: an unknown option, a missing argument |

| variable | means |
|---|---|
| `MOTET_URL` | the address of the server, in place of `--url` |
| `MOTET_TOKEN` | a client's token |
| `MOTET_OPERATOR_TOKEN` | the operator's token, at least 16 letters |
| `SSL_CERT_FILE` | certificates of the authorities to trust, in PEM, if the server's is of your own authority |
| `MOTET_LOG_FORMAT` | `plain` or `json`, in place of `--log-format` |
| `MOTET_BLAS_THREADS` | BLAS threads while Motet computes: a number, by default 1, or `all` |

**Tokens** are never arguments. A command that needs one and finds no variable asks for it at a terminal, without
showing it; without a terminal it fails. A token that goes to another machine over `http://` is not encrypted: the
command then prints a warning.

**Tables** are CSV files, or Parquet files if pyarrow is installed (`pip install 'motet[tables]'`). They have a column
`name` in a study with a catalogue, else the inputs' numbers in their order; `y`; and optionally `noise` (a variance, 1
by default), `id`, and `client` in a table of several clients. An option that takes a table is named after what is in
it: `--own`, `--tokens`, `--names`, `--suspects`, `--catalogue`.

**For programs**, `--json` prints one JSON object on standard output and nothing else: numbers are numbers, times are
ISO 8601 in UTC. An error is then one JSON object on standard error, in the shape of the server's errors:
`{"error": {"code": "not_released", "message": "…", "where": null}}`. Errors of usage, with exit code 2, stay text.
Progress bars go to standard error, and only to a terminal.

**Files** that exist are not overwritten without `--force`; a file of tokens or of a client's data never is.

**Completion** of commands and options in your shell: `motet --install-completion`, or `motet --show-completion` to see
what that would add.
"""


def section(command: Callable[..., None], example: str) -> str:
    name, known = command.__name__, parameters(command)
    what = _words(inspect.getdoc(command) or "")
    note = INIT if name == "init" else _words(NOTES.get(name, ""))
    call = f"```sh\nmotet {name} {usage(known)}\n```"
    parts = [f"## {name}", what, call, _table(known), note, f"Example:\n\n```sh\n{example}\n```"]
    return "\n\n".join(part for part in parts if part)


def _table(known: list[Parameter]) -> str:
    header = ["| argument or option | | default, limits, variable |", "|---|---|---|"]
    rows = [f"| `{_cell(p.usage)}` | {_cell(_words(p.info.help or ''))} | {_cell(_notes(p))} |" for p in known]
    return "\n".join([*header, *rows]) if rows else ""


def _notes(p: Parameter) -> str:
    """Its default, limits and variable."""
    default = [] if p.required or p.default is None or p.default is False else [f"`{p.default}`"]
    variable = [f"or `{p.info.envvar}`"] if p.info.envvar else []
    return "; ".join([*default, *([p.limits] if p.limits else []), *variable])


def _words(text: str) -> str:
    """Options and variables as code."""
    return re.sub(r"(?<![\w`-])(--[a-z-]+|MOTET_[A-Z_]+)", r"`\1`", text)


def _cell(text: str) -> str:
    return text.replace("|", " or ")


def reference() -> str:
    return "\n\n".join([HEADER.strip(), *(section(command, example) for command, example in COMMANDS)]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")

"""What every command has: parameters read from its signature, one form of help, and errors in one line or as JSON.

Typer lays the help out, but parameters are spelled here: typer's own spelling changes from version to version. The
command reference in the docs is made of the same parts.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import typer
from typer.core import TyperCommand
from typer.models import ArgumentInfo, OptionInfo

from motet.errors import MotetError
from motet.text import printable

# What stands for a value of a type; an option of another type needs an entry here, or a metavar of its own.
VALUES = {str: "TEXT", int: "NUMBER", float: "NUMBER", Path: "FILE", bool: ""}
MAX_SHOWN_LIMIT = 2**31 - 1  # of an option; a limit that is not worth showing
EXTRAS = {"matplotlib": "plots", "pyarrow": "tables"}  # what a missing package is installed with; else the server's
SETTING = re.compile(r"""(?<![\w./\\'"-])([a-z_]+)=(?:True\b|"([^"]*)"|(?!["'/\[({-]|\.?\w))""")  # as Python writes it
ADVICE = {"only": "; or take all: predict has --each, send has --tokens"}  # what else commands offer, by ``where``

_options: ContextVar[Mapping[str, str] | None] = ContextVar("options", default=None)  # of the command that runs


class Parameter(NamedTuple):
    """An argument or option of a command, as its user knows it."""

    name: str
    info: OptionInfo | ArgumentInfo
    kind: Any  # its type, without None
    default: Any  # inspect.Parameter.empty if it is required

    @property
    def is_option(self) -> bool:
        return isinstance(self.info, OptionInfo)

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty

    @property
    def names(self) -> list[str]:
        """An option's spellings, of a flag those that set it; help and docs show the first."""
        declared = [self.info.default, *(self.info.param_decls or ())]  # typer keeps the first one as a default
        spelled = [name.partition("/")[0] for name in declared if isinstance(name, str)]
        return spelled or [f"--{self.name.replace('_', '-')}"]

    @property
    def value(self) -> str:
        """What stands for its value: FILE, or private|exact; "" for a flag."""
        if self.info.metavar:
            return str(self.info.metavar)
        if get_origin(self.kind) is Literal:
            return "|".join(map(str, get_args(self.kind)))
        return VALUES[self.kind] if self.is_option else self.name.upper()

    @property
    def usage(self) -> str:
        """How it is written in a call: ``--out FILE``, ``NAME…``."""
        if self.is_option:
            return f"{self.names[0]} {self.value}".strip()
        return f"{self.value}{'…' if get_origin(self.kind) is list else ''}"

    @property
    def limits(self) -> str:
        low, high = self.info.min, self.info.max
        most = "" if high is None or high >= MAX_SHOWN_LIMIT else f" to {high}"
        return "" if low is None else f"from {low:g}{most}"

    def expected(self) -> str:
        """The values that it takes, in words."""
        if get_origin(self.kind) is Literal:
            return " or ".join(map(str, get_args(self.kind)))
        kind = {int: "a whole number", float: "a number"}.get(self.kind, self.value)
        return f"{kind} {self.limits}".strip()


def parameters(command: Callable[..., Any]) -> list[Parameter]:
    """Those of a command's signature, in its order."""
    of_command = []
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        if get_origin(parameter.annotation) is not Annotated:
            expected = f"{name}: Annotated[{getattr(parameter.annotation, '__name__', 'type')}, typer.Option(help=…)]"
            raise TypeError(f"motet {command.__name__}: expected {expected}, or typer.Argument; see cli/terminal.py")
        kind, info = get_args(parameter.annotation)
        if get_origin(kind) in (UnionType, Union):
            (kind,) = (part for part in get_args(kind) if part is not NoneType)
        of_command.append(Parameter(name, info, kind, parameter.default))
    return of_command


def usage(of_command: Sequence[Parameter]) -> str:
    """The arguments of a call, and whether there are options."""
    arguments = [p.usage if p.required else f"[{p.usage}]" for p in of_command if not p.is_option]
    return " ".join([*arguments, *["[OPTIONS]"] * any(p.is_option for p in of_command)])


class Command(TyperCommand):
    """A command of the program; ``epilog`` are its examples, one a line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        all_args = list(args)  # parsing empties the other
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = self._refusal(error, all_args)
            raise

    def _refusal(self, error: Any, args: Sequence[str]) -> str:
        """What was expected and the value, instead of a library's words without the value."""
        for parameter in parameters(self.callback) if self.callback and error.param else ():
            if parameter.name == error.param.name and parameter.is_option and get_origin(parameter.kind) is not tuple:
                for name, value in zip(args, [*args[1:], ""]):
                    if name.partition("=")[0] in parameter.names:
                        return f"expected {parameter.expected()}, got {name.partition('=')[2] or value!r}"
        return str(error.message)

    def invoke(self, ctx: Any) -> Any:
        of_command = parameters(self.callback) if self.callback else []
        _options.set({p.name: p.names[0] for p in of_command if p.is_option})
        with errors_shown(as_json=ctx.params.get("as_json", False)):
            return super().invoke(ctx)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return [usage(parameters(self.callback))] if self.callback else []

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        of_command = parameters(self.callback) if self.callback else []
        rows = [[(p.usage, _description(p)) for p in of_command if p.is_option is option] for option in (False, True)]
        for title, section in (
            ("Arguments", rows[0]),
            ("Options", [*rows[1], ("-h, --help", "Show this text and exit.")]),
        ):
            if section:
                with formatter.section(title):
                    formatter.write_dl(section)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        formatter.write_paragraph()
        formatter.write("Examples:\n" + "".join(f"  {line}\n" for line in (self.epilog or "").splitlines()))


def _description(parameter: Parameter) -> str:
    """Its help, with default, limits and variable in brackets."""
    default = parameter.default
    notes = [] if parameter.required or default is None or default is False else [f"default: {default}"]
    notes += [parameter.limits] if parameter.limits else []
    notes += [f"or set {parameter.info.envvar}"] if parameter.info.envvar else []
    return f"{parameter.info.help} [{'; '.join(notes)}]" if notes else str(parameter.info.help)


@contextmanager
def errors_shown(*, as_json: bool) -> Iterator[None]:
    """An error of the package or the system becomes one line on standard error, and exit code 1.

    With ``--json`` the line is JSON of the server's shape, ``{"error": {"code", "message", "where"}}``. A warning is a
    line too, and left out of JSON.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: None if as_json else _print_error(str(message))
            yield
    except MotetError as error:
        code, where = error.code, error.where
        message = in_options(f"{error}{ADVICE.get(where or '', '')}")
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "motet"):
            raise
        code, where = "not_installed", None
        message = f"this needs {package}: pip install 'motet[{EXTRAS.get(package, 'server')}]'"
    except BrokenPipeError:  # the reader of our output has closed it
        raise
    except OSError as error:
        code, where, path = "os_error", None, error.filename
        message = f"cannot use {path}: {error.strerror}; check the path and its permissions" if path else str(error)
    else:
        return
    if as_json:
        sys.stderr.write(json.dumps({"error": {"code": code, "message": message, "where": where}}) + "\n")
    else:
        _print_error(message)
    raise typer.Exit(1)


def _print_error(message: str) -> None:
    sys.stderr.write(f"motet: {printable(in_options(message))}\n")


def in_options(text: str) -> str:
    """A message with the options of the command that runs in place of Python's settings: ``--force`` for
    ``force=True``, ``--dates day-first`` for ``dates="day-first"``."""
    options = _options.get() or {}

    def option(setting: re.Match[str]) -> str:
        name, value = options.get(setting[1]), setting[2]
        return setting[0] if name is None else f"{name} {value}" if value else name

    return SETTING.sub(option, text)

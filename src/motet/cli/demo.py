"""``motet demo``."""

from __future__ import annotations

import select
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from motet.cli.terminal import LOCAL, AsJson, show
from motet.errors import MotetError

if TYPE_CHECKING:
    from motet.music.demo import Demo, State

REQUIRED = ("fastapi", "httptools", "msgspec", "opendp", "prometheus_client", "sqlalchemy", "uvicorn")
REDRAW_SECONDS = 0.2


def demo(
    clients: Annotated[int, typer.Option(min=20, max=20_000, help="How many listeners send ratings.")] = 2000,
    exact: Annotated[bool, typer.Option("--exact", help="Release without noise, to see what the noise costs.")] = False,
    seconds: Annotated[
        float | None, typer.Option(min=1.0, help="Stop so many seconds after the start; else Ctrl-C stops it.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulated listeners.")] = 0,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="The server's port; else the first free one from 8000.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Serve a study on this machine, watch simulated listeners learn from each other, and try it yourself.

    Each listener has a privacy budget for ten releases. They come within a minute; then one comes every minute, for
    whoever joins later, until it is stopped. With --json it stops when all is released, and prints the figures.
    """
    end = time.monotonic() + (seconds or float("inf"))
    with _signals() as signals:
        if lacking := next((name for name in REQUIRED if find_spec(name) is None), None):
            raise MotetError(f"the demo runs a server and needs {lacking}: pip install 'motet[server]'")
        console = Console(stderr=as_json)
        with console.status("Loading", spinner="line"):  # the first time also compiles
            from motet.music.demo import Demo

        def over() -> bool:
            return bool(signals) or time.monotonic() > end or (as_json and playing.state.done) or _is_output_closed()

        with Demo(clients, exact=exact, seed=seed, port=port) as playing:
            if console.is_terminal:
                _draw(playing, console, over, end)
            elif not as_json:
                _report(playing, over)
            if playing.state.done and not as_json:
                _print(*invitation(playing.state, end))
            while not over():
                playing.check()
                time.sleep(REDRAW_SECONDS)
        playing.check()
        if as_json:
            show(playing.state.to_dict())
        elif not _is_output_closed():
            _print(*farewell())


@contextmanager
def _signals() -> Iterator[list[int]]:
    """The signals received that ask to stop; they interrupt nothing, so that nothing is left half done."""
    received: list[int] = []
    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    handlers = [signal.signal(number, lambda number, _: received.append(number)) for number in numbers]
    try:
        yield received
    finally:
        for number, handler in zip(numbers, handlers):
            signal.signal(number, handler)


def _is_output_closed() -> bool:
    """Whether the terminal was closed, or the reader of a pipe.

    The system sends the signal of it to the first process of the terminal, which may be make, and make waits for us.
    """
    output = select.poll()
    output.register(1, 0)
    return bool(output.poll(0))


def _draw(playing: Demo, console: Console, over: Callable[[], bool], end: float) -> None:
    """At a terminal: the address, then a view that is redrawn until all is done and leaves room for the invitation."""
    from motet.music.view import view

    state = playing.state
    with console.status("Starting the server", spinner="line"):
        while state.url is None and not over():
            playing.check()
            time.sleep(REDRAW_SECONDS)
    _print(*address(state))
    with Live(console=console, auto_refresh=False) as live:
        while True:
            last = over() or state.done
            below = 0
            if state.done:
                below = len(console.render_lines(Text("\n".join(invitation(state, end) + farewell()))))
            live.update(view(state, console, lines_below=below), refresh=True)
            if last:
                return
            playing.check()
            time.sleep(REDRAW_SECONDS)


def _report(playing: Demo, over: Callable[[], bool]) -> None:
    """Without a terminal: a line for each activity, the address, and a line for each release."""
    from motet.music.view import conclusion, line

    state, activity, number, welcome = playing.state, "", 0, list[str]()
    while True:
        last = over() or state.done
        if not welcome:
            _print(*(welcome := address(state)))
        for release in state.releases[number:]:
            _print(line(state, release))
            number += 1
        if state.activity != activity:
            activity = state.activity
            _print(activity)
        if last:
            break
        playing.check()
        time.sleep(REDRAW_SECONDS)
    if (text := conclusion(state)) is not None:
        _print(text)


def address(state: State) -> list[str]:
    """Where the page is, once the server answers."""
    if state.url is None:
        return []
    return [f"Open {state.url} in a browser: rate some artists there, and watch your list with each release."]


def invitation(state: State, end: float) -> list[str]:
    """Commands to try in another terminal; not broken into lines, so that they can be copied."""
    activate, motet = _program()
    folder, url = shlex.quote(str(state.folder)), "" if state.url == LOCAL else f" --url {state.url}"
    until = "until Ctrl-C" if end == float("inf") else f"for {max(0.0, end - time.monotonic()):.0f} s"
    lines = [f"Still up at {state.url} {until}. Try in another terminal:", *(f"  {line}" for line in activate)]
    lines += ["  # ten artists for the ratings in me.csv: edit them, they stay on this machine"]
    lines += [f"  {motet} predict --own {folder}/me.csv --top 10{url}"]
    lines += ["  # what an attacker can rebuild from the release", f"  {motet} audit {state.url}"]
    lines += [f"  # ratings to send: they are in the next release{'' if state.exact else ', within a minute'}"]
    lines += [f"  MOTET_TOKEN=$(cat {folder}/token) {motet} send {folder}/ratings.csv{url}"]
    return lines


def farewell() -> list[str]:
    """What to do next, as a command that works in a shell without ``motet`` too."""
    activate, motet = _program()
    return [
        "Stopped, and its files are removed. Your own study:",
        "  " + " && ".join([*activate, f"{motet} init STUDY.toml --from TABLE.csv --client COLUMN --target COLUMN"]),
    ]


def _program() -> tuple[list[str], str]:
    """What to type for this very program, and before it."""
    here, there = Path(sys.executable).with_name("motet"), shutil.which("motet")
    if there is not None and Path(there).resolve() == here.resolve():
        return [], "motet"
    if (activate := here.with_name("activate")).exists() and here.exists():
        return [f". {shlex.quote(str(activate))}"], "motet"
    return [], shlex.quote(str(here)) if here.exists() else f"{shlex.quote(sys.executable)} -m motet"


def _print(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()

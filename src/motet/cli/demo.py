"""``motet demo``."""

from __future__ import annotations

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

from motet.cli.terminal import AsJson, one_line_errors, show
from motet.errors import MotetError

if TYPE_CHECKING:
    from motet.music.demo import Demo
    from motet.music.progress import State

NEEDED = ("fastapi", "httptools", "msgspec", "opendp", "prometheus_client", "sqlalchemy", "uvicorn")
REDRAW = 0.2  # seconds


def demo(
    clients: Annotated[int, typer.Option(min=20, max=20_000, help="How many listeners send ratings.")] = 2000,
    exact: Annotated[bool, typer.Option("--exact", help="Release without noise, to see what the noise costs.")] = False,
    seconds: Annotated[
        float | None, typer.Option(min=1.0, help="End so many seconds after the start; else Ctrl-C ends it.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulated listeners.")] = 0,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="The server's port; else the first free one from 8000.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Serve a study on this machine, watch simulated listeners learn from each other, and try it yourself."""
    end = time.monotonic() + (seconds or float("inf"))
    with one_line_errors(), _signals() as asked:
        _require_server()
        from motet.music.demo import Demo

        def ended() -> bool:
            return bool(asked) or time.monotonic() > end

        with Demo(clients, exact=exact, seed=seed, port=port) as playing:
            console = Console(stderr=as_json)
            if console.is_terminal:
                _draw(playing, console, ended)
            elif not as_json:
                _tell(playing, ended)
            if playing.state.done and not as_json:
                _invite(playing.state)
            _wait(playing, ended)
        playing.check()
        if as_json:
            show(playing.state.to_dict())


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Those that came and ask us to end; nothing is interrupted, so that nothing is left half done."""
    asked: list[int] = []
    known = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    before = [signal.signal(number, lambda number, _: asked.append(number)) for number in known]
    try:
        yield asked
    finally:
        for number, handler in zip(known, before):
            signal.signal(number, handler)


def _require_server() -> None:
    for name in NEEDED:
        if find_spec(name) is None:
            raise MotetError(f"the demo runs a server and needs {name}: pip install 'motet[server]'")


# --- on a terminal, or without one ---


def _draw(playing: Demo, console: Console, ended: Callable[[], bool]) -> None:
    """A view, drawn again until all is done."""
    from motet.music.view import view

    with Live(console=console, auto_refresh=False) as live:
        while True:
            over = ended() or playing.state.done
            live.update(view(playing.state, console.width), refresh=True)
            if over:
                return
            playing.check()
            time.sleep(REDRAW)


def _tell(playing: Demo, ended: Callable[[], bool]) -> None:
    """A line for each step and each release."""
    from motet.music.view import conclusion, line

    state, said, told = playing.state, "", 0
    while True:
        over = ended() or state.done
        for release in state.releases[told:]:
            _say(line(state, release))
            told += 1
        if state.doing != said:
            said = state.doing
            _say(said)
        if over:
            break
        playing.check()
        time.sleep(REDRAW)
    if (text := conclusion(state)) is not None:
        _say(text)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _invite(state: State) -> None:
    """Commands to try in another terminal; not broken into lines, so that they can be copied."""
    motet, url, folder = _program(), state.url, shlex.quote(str(state.folder))
    _say(f"\nStill up at {url}, until Ctrl-C. Try in another terminal:\n")
    _say("  # ten artists for a passive listener, whose ratings stay on this machine")
    _say(f"  {motet} predict --url {url} --own {folder}/me.csv --top 10\n")
    _say("  # what a stranger can rebuild from the release")
    _say(f"  {motet} audit {url}\n")
    _say("  # ratings of your own")
    _say(f"  MOTET_TOKEN=$(cat {folder}/token) {motet} send {folder}/ratings.csv --url {url}\n")


def _program() -> str:
    """What to type for this very program."""
    here, found = Path(sys.executable).with_name("motet"), shutil.which("motet")
    if found is not None and Path(found).resolve() == here.resolve():
        return "motet"
    return shlex.quote(str(here)) if here.exists() else f"{shlex.quote(sys.executable)} -m motet"


def _wait(playing: Demo, ended: Callable[[], bool]) -> None:
    while not ended():
        playing.check()
        time.sleep(REDRAW)

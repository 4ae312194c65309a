"""Plays the demo and keeps its last view as the README's picture: python docs/terminal.py"""

from __future__ import annotations

import io
import re
import time
from pathlib import Path

from rich.console import Console

from motet.music.demo import Demo
from motet.music.view import MAX_WIDTH, view

PICTURE = Path(__file__).parent / "img" / "demo.svg"
FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def played(clients: int) -> Console:
    """A console that has recorded the view of a demo when all was released."""
    console = Console(
        record=True, width=MAX_WIDTH, height=40, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    with Demo(clients) as demo:
        while not demo.state.done:
            demo.check()
            time.sleep(0.2)
        console.print(view(demo.state, console))
    return console


def without_links(svg: str) -> str:
    """The picture with the reader's own fonts: it fetches nothing."""
    svg = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    return re.sub(r"font-family: [^;]*;", f"font-family: {FONTS};", svg)


if __name__ == "__main__":
    PICTURE.write_text(without_links(played(2000).export_svg(title="motet demo")), encoding="utf-8")

"""What a long command says on standard error: lines off a terminal, with a bound on the time that is left."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from motet.cli.phases import phases_shown


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_lines_off_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """One at the start of each phase, one every ten seconds, and none at a phase's end."""
    clock = Clock()
    with phases_shown(Console(file=io.StringIO()), clock=clock) as begin:
        advance = begin("Searching", "evaluation", 50)
        for _ in range(14):
            clock.now += 3.0
            advance()
        clock.now += 18.0
        finish = begin("Evaluating", "fold", 1)
        clock.now += 60.0
        finish()
    assert capsys.readouterr().err.splitlines() == [
        "[0:00] Searching: at most 50 evaluations",
        "[0:12] Searching: 4 of at most 50 evaluations, at most 138 s more",
        "[0:24] Searching: 8 of at most 50 evaluations, at most 126 s more",
        "[0:36] Searching: 12 of at most 50 evaluations, at most 114 s more",
        "[1:00] Evaluating: at most 1 fold",
    ]


def test_a_bar_at_a_terminal_and_nothing_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    screen = io.StringIO()
    with phases_shown(Console(file=screen, force_terminal=True, width=100)) as begin:
        begin("Searching", "evaluation", 50)()
        begin("Evaluating", "fold", 2)()
    assert "Evaluating" in screen.getvalue()
    assert "1/2" in screen.getvalue()
    with phases_shown(Console(file=io.StringIO()), quiet=True) as begin:
        begin("Searching", "evaluation", 50)()
    assert capsys.readouterr().err == ""

"""A demo for the terminal: a view that is drawn again and again, or a line for each release where there is none."""

from __future__ import annotations

import time
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from motet.music.crowd import EXAMPLES, SAMPLE
from motet.music.progress import Measured, Reference, State

GROUPS = {"active": "active: send theirs", "passive": "passive: keep theirs"}
WIDEST = 96
BESIDE = 40  # columns that are no bars
BETTER, WORSE = "#56b4e9", "#e69f00"  # than alone; colour-blind safe


def view(state: State, width: int) -> RenderableType:
    """How far the demo is, and what each release was worth."""
    width = min(width, WIDEST)
    parts: list[RenderableType] = [_counts(state)]
    if state.reference is not None and state.releases:
        chart = _chart(state.releases, state.reference, max(8, (width - BESIDE) // 2))
        parts += ["", chart, Text(_legend(state.reference, state.clients), style="dim")]
    if (text := conclusion(state)) is not None:
        parts += ["", Text(text, style="bold")]
    title = f"[bold]Motet[/]: {state.clients:,} listeners with {EXAMPLES} ratings each"
    return Panel(Group(*parts), title=title, title_align="left", width=width, padding=(0, 2))


def line(state: State, release: Measured) -> str:
    """One release, where there is no terminal."""
    sent, errors = f"{release.sent:,} of {state.ratings:,} ratings", release.errors
    found = f"release {release.version}: {sent}; error of active {errors.active:.3f}, of passive {errors.passive:.3f}"
    if (known := state.reference) is not None:
        found += f" (alone {known.separate.active:.3f}, {known.separate.passive:.3f})"
    return f"{found}; privacy: {_privacy(state, release.spent)}"


def conclusion(state: State) -> str | None:
    """What sharing gained and what the noise cost, once all is released."""
    if state.kept is None or state.reference is None:
        return None
    alone, exact = state.reference.separate.both, state.reference.exact.both
    shared = state.releases[-1].errors.both
    if state.exact:
        return f"Without noise all of the gain is there: alone {alone:.3f}, shared {shared:.3f}."
    return f"The noise left {state.kept:.0%} of the gain: alone {alone:.3f}, shared {shared:.3f}, exactly {exact:.3f}."


# --- parts of the view ---


def _counts(state: State) -> Table:
    bar = Table.grid(padding=(0, 2))
    bar.add_row(ProgressBar(total=state.ratings, completed=state.sent, width=24), _ratings(state))
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_row("server", f"{state.url}, {state.doing}" if state.url else state.doing)
    table.add_row("ratings", bar)
    table.add_row("releases", _releases(state))
    table.add_row("privacy", _privacy(state, state.spent))
    return table


def _ratings(state: State) -> str:
    return f"{state.sent:,} of {state.ratings:,}" + (f", {state.rate:.0f} a second" if state.sent else "")


def _releases(state: State) -> str:
    made = state.releases[-1].version if state.releases else 0
    if state.due is None:
        return f"{made}, all that the budget allows" if made else "none yet"
    wait = state.due - time.time()
    return f"{made}, the next {f'in {wait:.0f} s' if wait > 0.5 else 'now'}"


def _privacy(state: State, spent: float | None) -> str:
    if state.exact:
        return "none, releases are exact"
    return f"ε = {spent or 0.0:.2f} of {state.epsilon or 0.0:g} spent"


@dataclass(frozen=True)
class Scale:
    """So many columns, from the error without noise to the largest that came, with a mark where one is alone."""

    best: float
    alone: float
    worst: float
    columns: int

    @classmethod
    def of(cls, group: str, releases: list[Measured], reference: Reference, columns: int) -> Scale:
        alone = getattr(reference.separate, group)
        worst = max([alone, *(getattr(release.errors, group) for release in releases)])
        return cls(getattr(reference.exact, group), alone, worst, columns)

    def bar(self, error: float) -> Text:
        end, mark = self._column(error), self._column(self.alone)
        text = Text(f"{'━' * end}●".ljust(self.columns))
        text.stylize(BETTER if error < self.alone else WORSE)
        return text if mark == end else Text.assemble(text[:mark], "│", text[mark + 1 :])

    def _column(self, error: float) -> int:
        part = (error - self.best) / max(self.worst - self.best, 1e-9)
        return round(min(max(part, 0.0), 1.0) * (self.columns - 1))


def _chart(releases: list[Measured], reference: Reference, columns: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name in ("release", "ratings"):
        table.add_column(name, justify="right", style="dim")
    for heading in GROUPS.values():
        table.add_column(heading, no_wrap=True, width=columns)
        table.add_column("error")
    scales = {group: Scale.of(group, releases, reference, columns) for group in GROUPS}
    for release in releases:
        errors = {group: getattr(release.errors, group) for group in GROUPS}
        cells = [cell for group in GROUPS for cell in (scales[group].bar(errors[group]), f"{errors[group]:.3f}")]
        table.add_row(str(release.version), f"{release.sent:,}", *cells)
    return table


def _legend(reference: Reference, clients: int) -> str:
    alone, exact = reference.separate, reference.exact
    return (
        f"│ alone: {alone.active:.3f}, {alone.passive:.3f}; left end: without noise: "
        f"{exact.active:.3f}, {exact.passive:.3f}\n"
        f"error: root mean squared, over all artists, of {min(SAMPLE, clients)} listeners of each kind"
    )

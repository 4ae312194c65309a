"""What a demo shows: a panel that is redrawn at a terminal, or one line for each release."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from motet.music.crowd import EPSILON, RATINGS_PER_LISTENER, SAMPLE_SIZE, Errors
from motet.music.demo import BUDGET_RELEASES, Measurement, Reference, State

GROUPS = {"active": "active: send theirs", "passive": "passive: send none"}
MAX_WIDTH = 96  # columns of the panel
TEXT_WIDTH = 42  # columns of the panel that are no bars
MIN_BAR_WIDTH = 8
BETTER, WORSE = "#56b4e9", "#e69f00"  # than alone; colour-blind safe


def view(state: State, console: Console, lines_below: int = 0) -> RenderableType:
    """How far the demo is, and the errors with each release; so many lines below stay free on the screen."""

    def excess(panel: Panel) -> int:
        return len(console.render_lines(panel)) + lines_below - console.height

    if excess(panel := _panel(state, console, [""])) > 0 and (lines := excess(panel := _panel(state, console, []))) > 0:
        omitted = min(lines + 1, len(state.releases) - 2)  # one more, for the line that names them
        return _panel(state, console, [], omitted)
    return panel


def line(state: State, release: Measurement) -> str:
    """One release, if there is no terminal."""
    errors = f"error of active {release.errors.active:.3f}, of passive {release.errors.passive:.3f}"
    if state.reference is not None:
        errors += f" (alone {state.reference.separate.active:.3f}, {state.reference.separate.passive:.3f})"
    sent = f"{release.sent:,} of {state.ratings:,} ratings"
    return f"release {release.version}: {sent}; {errors}; privacy: {_privacy(state, release.spent or 0.0)}"


def conclusion(state: State) -> str | None:
    """What sharing improves and what the noise costs, once all is released."""
    if state.improvement is None or state.reference is None:
        return None
    alone, without_noise = state.reference.separate.both, state.reference.exact.both
    shared = state.releases[-1].errors.both
    if state.exact:
        return f"Error alone {alone:.3f}, shared without noise {shared:.3f}: this is the whole improvement."
    return (
        f"Error alone {alone:.3f}, shared privately {shared:.3f}, shared without noise {without_noise:.3f}: "
        f"privacy keeps {state.improvement:.0%} of the improvement."
    )


# --- parts of the panel ---


def _panel(state: State, console: Console, space: list[str], omitted: int = 0) -> Panel:
    width = min(console.width, MAX_WIDTH)
    parts: list[RenderableType] = [_counts(state)]
    if state.reference is not None and state.releases:
        columns = max(MIN_BAR_WIDTH, (width - TEXT_WIDTH) // 2)
        chart = _chart(state.reference, _rows(state.releases, omitted), columns)
        legend = f"RMS error of {min(SAMPLE_SIZE, state.clients)} listeners of each kind; a short bar is good"
        parts += [*space, chart, Text(legend, style="dim")]
    if (text := conclusion(state)) is not None:
        parts += [*space, Text(text, style="bold")]
    title = f"[bold]Motet[/]: {state.clients:,} listeners with {RATINGS_PER_LISTENER} ratings each"
    return Panel(Group(*parts), title=title, title_align="left", width=width, padding=(0, 2))


def _counts(state: State) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    if state.done:
        table.add_row("server", state.url)
    else:
        table.add_row(*(("server", f"{state.url}, {state.activity}") if state.url else ("now", state.activity)))
        bar = Table.grid(padding=(0, 2))
        rate = f", {state.rate:.0f} a second" if state.sent else ""
        bar.add_row(
            ProgressBar(total=state.ratings, completed=state.sent, width=24),
            f"{state.sent:,} of {state.ratings:,}{rate}",
        )
        table.add_row("ratings", bar)
        table.add_row("releases", _releases(state))
    table.add_row("privacy", _privacy(state, state.spent))
    return table


def _releases(state: State) -> str:
    number, order = (f"{state.version}", "next") if state.version else ("none yet", "first")
    if state.url is None or state.due is None:
        return number
    wait = state.due - time.time()
    return f"{number}, the {order} {f'in {wait:.0f} s' if wait > 0.5 else 'is being computed'}"


def _privacy(state: State, spent: float) -> str:
    if state.exact:
        return "none, releases are without noise"
    if not spent:
        return f"ε = {EPSILON:g} for each listener, in {BUDGET_RELEASES} releases"
    return f"ε = {spent:.2f} of {EPSILON:g} spent by a listener who was in all releases"


@dataclass(frozen=True)
class Scale:
    """Columns from the error without noise to the largest error, with a mark at the error alone."""

    shared: float
    alone: float
    maximum: float
    columns: int

    def bar(self, error: float) -> Text:
        end, alone = self._column(error), self._column(self.alone)
        text = Text(f"{'━' * end}●".ljust(self.columns))
        text.stylize(BETTER if error < self.alone else WORSE)
        return text if alone == end else Text.assemble(text[:alone], "│", text[alone + 1 :])

    def _column(self, error: float) -> int:
        part = (error - self.shared) / max(self.maximum - self.shared, 1e-9)
        return round(min(max(part, 0.0), 1.0) * (self.columns - 1))


class Row(NamedTuple):
    """Of the chart: one release, or several without errors and why."""

    label: str
    sent: str = ""
    errors: Errors | None = None
    note: str = ""


def _rows(releases: list[Measurement], omitted: int) -> list[Row]:
    """Without ``omitted`` releases after the first; one that came while another was measured has no errors either."""
    rows: list[Row] = []
    version = 0
    for release in [releases[0], *releases[1:][omitted:]]:
        if version + 1 < release.version:
            label = f"{version + 1}-{release.version - 1}" if version + 2 < release.version else f"{version + 1}"
            rows.append(Row(label, note="not shown" if omitted and len(rows) == 1 else "not measured"))
        rows.append(Row(f"{release.version}", f"{release.sent:,}", release.errors))
        version = release.version
    return rows


def _chart(reference: Reference, rows: list[Row], columns: int) -> Table:
    """The rows of releases between those of learning alone and of sharing without noise."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name in ("release", "ratings"):
        table.add_column(name, justify="right", style="dim")
    scales = {}
    for group, heading in GROUPS.items():
        table.add_column(heading, no_wrap=True, width=columns)
        table.add_column("error")
        alone, shared = getattr(reference.separate, group), getattr(reference.exact, group)
        maximum = max([alone, *(getattr(row.errors, group) for row in rows if row.errors is not None)])
        scales[group] = Scale(shared, alone, maximum, columns)
    for row in (Row("alone", errors=reference.separate), *rows, Row("no noise", errors=reference.exact)):
        cells: list[Text | str] = [row.note]
        if row.errors is not None:
            errors = {group: getattr(row.errors, group) for group in GROUPS}
            cells = [cell for group, error in errors.items() for cell in (scales[group].bar(error), f"{error:.3f}")]
        table.add_row(row.label, row.sent, *cells)
    return table

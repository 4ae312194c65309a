"""What a trial found: a table, and in words where Motet is behind; and the figure of a data set.

Pages of the docs take both from the files that are written here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from examples.peers import learners
from examples.protocol import BAND, Scores, Trial, run
from examples.rows import Rows
from motet import MixedEffectRegressor, plots
from motet.plots.axes import GREY, ORANGE

mpl.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).parents[1]
RESULTS, PICTURES = ROOT / "examples" / "results", ROOT / "docs" / "img"
MEASURES = {"squared_error": ("error", "rmse"), "log_loss": ("log score", "nlpd")}


def study(name: str, rows: Rows, labels: tuple[str, str], folder: Path | None = None, **sizes: int) -> Trial:
    """The whole of an example: everyone's trial, its table, and the figure; ``folder`` takes the files if given."""
    everyone, missing = learners()
    trial = run(rows, everyone, **sizes)
    publish(name, trial, missing, folder)
    figure = draw(rows, labels)
    figure.savefig((folder or PICTURES) / f"example-{name}.png", dpi=100)
    plt.close(figure)
    return trial


def publish(
    name: str, trial: Trial, missing: Sequence[str], folder: Path | None = None, more: Sequence[str] = ()
) -> None:
    """Print the table and the sentences, and write them for the docs."""
    lines = list(table(trial))
    lines += ["", *verdict(trial)]
    if missing:
        lines += ["", f"Not compared, because it is not installed or not feasible: {', '.join(missing)}."]
    if more:
        lines += ["", *more]
    print("\n".join(lines))
    target = folder or RESULTS
    target.mkdir(exist_ok=True)
    (target / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def table(trial: Trial) -> Iterator[str]:
    """A row for each learner, a column for each situation: error / log score / coverage in %."""
    yield f"| error / log score / % in 90 % bands | {' | '.join(trial.situations)} | s |"
    yield "|---" * (len(trial.situations) + 2) + "|"
    for name in trial.names:
        cells = (_cell(trial.scores[name, where]) for where in trial.situations)
        yield f"| {name} | {' | '.join(cells)} | {np.median(trial.seconds[name]):.2f} |"


def _cell(scores: Scores) -> str:
    return f"{scores.rmse:.4g} / {scores.nlpd:.2f} / {100 * scores.coverage:.0f}"


def verdict(trial: Trial) -> Iterator[str]:
    """Where the first learner is behind the best of the others by more than a standard error, or that it is nowhere."""
    ours, *others = trial.names
    behind = []
    for where in trial.situations:
        for measure, (words, shown) in MEASURES.items():
            peer = min(others, key=lambda name: float(getattr(trial.scores[name, where], measure).mean()))
            gap, error = trial.gap(ours, peer, where, measure)
            if gap > error:
                mine, best = (getattr(trial.scores[name, where], shown) for name in (ours, peer))
                distance = f"{gap / error:.1f} standard errors"
                behind.append(f"- {where}, {words}: {mine:.4g}, and {best:.4g} of {peer} ({distance})")
    if behind:
        yield "**Behind the best of the others by more than one standard error:**"
        yield ""
        yield from behind
    else:
        yield "**Nowhere behind the best of the others by more than one standard error.**"


def draw(rows: Rows, labels: tuple[str, str]) -> Any:
    """The average with its band, three tasks over their rows, and a new task with two rows."""
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), sharey=True, layout="constrained")
    reg = MixedEffectRegressor().fit(rows.X, rows.y, task=rows.task)
    tasks = np.unique(rows.task)
    plots.average(reg, ax=axes[0]).set_title("population")
    by_mean = tasks[np.argsort([rows.y[rows.task == j].mean() for j in tasks])]
    chosen = by_mean[[0, len(by_mean) // 2, -1]].tolist()
    plots.individuals(reg, chosen, ax=axes[1]).set_title("lowest, middle and highest task")
    new_task(rows, int(by_mean[-1]), axes[2])
    for ax, ylabel in zip(axes, (labels[1], "", "")):
        ax.set(xlabel=labels[0], ylabel=ylabel)
    return figure


def new_task(rows: Rows, task: int, ax: Any) -> None:
    """A task that the others have not seen: before its first row, and after two."""
    own, others = rows.take(rows.task == task), rows.take(rows.task != task)
    own = own.take(np.argsort(own.X[:, 0]))
    reg = MixedEffectRegressor().fit(others.X, others.y, task=others.task)
    samples = np.array([len(own) // 5, len(own) // 2])
    at = np.linspace(rows.X.min(), rows.X.max(), 200)[:, None]
    label = np.full(len(at), task)
    for colour, title in ((GREY, "before its first row"), (ORANGE, "after two rows")):
        mean, std = reg.predict(at, task=label, return_std=True)
        ax.fill_between(at[:, 0], mean - BAND * std, mean + BAND * std, color=colour, alpha=0.25, lw=0)
        ax.plot(at[:, 0], mean, color=colour, label=title)
        reg.partial_fit(own.X[samples], own.y[samples], task=own.task[samples])
    ax.plot(own.X[samples, 0], own.y[samples], "o", color="black", label="its two rows")
    rest = np.setdiff1d(np.arange(len(own)), samples)
    ax.plot(own.X[rest, 0], own.y[rest], "o", mfc="none", color="black", label="its other rows, not learned")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize="small")
    ax.set_title("a new task, with 90 % bands")

"""``motet tune`` and ``motet fit``: settings by evidence for a table of many tasks, and a release of what it says."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from motet.arrays import Array
from motet.cli.terminal import AsJson, Force, show, show_table
from motet.errors import InvalidData, NoEvidence
from motet.files import Table, cell_number, check_new, is_missing, read
from motet.text import count, first_few, suggestion

if TYPE_CHECKING:
    from motet.learning.components import Component
    from motet.learning.regressor import MixedEffectRegressor
    from motet.learning.search import Step

TASK = "client"

File = Annotated[Path, typer.Argument(metavar="FILE", help="A table: rows of many tasks.")]
TaskColumn = Annotated[
    str, typer.Option("--client", "--task", help="The column of each row's client, or task.", metavar="COLUMN")
]
TargetColumn = Annotated[str, typer.Option(help="The column of outputs.", metavar="COLUMN")]
InputColumns = Annotated[
    str | None,
    typer.Option(
        help="The columns of inputs, separated by commas; by default all others but id and noise.", metavar="COLUMNS"
    ),
]
AverageKernel = Annotated[
    str,
    typer.Option(help="The kernel of the average: rbf, matern, …; none leaves a linear bias alone.", metavar="KERNEL"),
]
ShiftKernel = Annotated[
    str, typer.Option(help="The kernel of the shifts: linear for intercept and slopes, rbf, …", metavar="KERNEL")
]
Criterion = Annotated[Literal["REML", "ML"], typer.Option(help="The restricted evidence, or the full one.")]


def tune(
    file: File,
    task: TaskColumn = TASK,
    target: TargetColumn = "y",
    inputs: InputColumns = None,
    method: Criterion = "REML",
    common: AverageKernel = "auto",
    individual: ShiftKernel = "auto",
    as_json: AsJson = False,
) -> None:
    """Find the settings that make a table of many tasks likeliest: how large and how smooth the average and the shifts
    of tasks are, and how large the noise. The gain of a component is the log evidence that it adds over leaving it out.

    Rows with a missing value are left out, and counted on standard error. A column noise holds each row's variance, in
    units of the noise's. With --json the object has a model, in the form that a study file takes.
    """
    examples = _read(file, task, target, inputs)
    reg = _tuned(examples, method, common, individual)
    if as_json:
        show(_described(examples, reg))
    else:
        _show(examples, reg)


def fit(
    file: File,
    out: Annotated[Path, typer.Option(help="The release's file to write.")] = Path("model.safetensors"),
    force: Force = False,
    task: TaskColumn = TASK,
    target: TargetColumn = "y",
    inputs: InputColumns = None,
    method: Criterion = "REML",
    common: AverageKernel = "auto",
    individual: ShiftKernel = "auto",
    as_json: AsJson = False,
) -> None:
    """Tune, as motet tune does, and write a release: from it and rows of its own anybody can predict a task, with motet
    predict --release.

    The file holds sums over all tasks and no rows, without noise added: whoever has two such files can compute the rows
    in between.
    """
    check_new(out, force=force)
    examples = _read(file, task, target, inputs)
    reg = _tuned(examples, method, common, individual)
    reg.disclosed_.save(out)
    if as_json:
        show({**_described(examples, reg), "out": str(out)})
        return
    _show(examples, reg)
    size = math.ceil(out.stat().st_size / 1000)
    show(f"The release is in {out}, {size} kB: motet predict INPUTS --own EXAMPLES --release {out}")


# --- the table ---


@dataclass(frozen=True, eq=False)
class Examples:
    """The complete rows of a table."""

    table: Table
    task: list[str]
    columns: list[str]  # of the inputs
    X: Array
    y: Array
    noise: Array
    left_out: int


def _read(path: Path, task: str, target: str, inputs: str | None) -> Examples:
    """The rows without missing values, which are announced."""
    table = read(path)
    for column, option in ((task, "--client"), (target, "--target")):
        require_column(table, column, option)
    if task == target:
        raise InvalidData(f"--client and --target are the same column, {task!r}: name two")
    columns = _input_columns(table, task, target, inputs)
    cells = np.array([_numbers(table, column, columns) for column in [*columns, target]]).T
    noise = np.array(table.floats("noise", default=1.0) if "noise" not in columns else [1.0] * len(cells))
    if (noise <= 0).any():
        raise table.refusal(int(np.argmax(noise <= 0)), "noise", "expected a variance above 0")
    from motet.learning.frames import complete_rows  # here, so that a wrong table is refused at once

    complete = complete_rows(np.isnan(cells), [*columns, target], f"{table.file}: every row has a missing value")
    labels, (*X, y) = table.only(complete.tolist()).texts(task), cells[complete].T
    return Examples(table, labels, columns, np.column_stack(X), y, noise[complete], len(cells) - len(complete))


def _input_columns(table: Table, task: str, target: str, inputs: str | None) -> list[str]:
    if inputs is None:
        columns = [column for column in table.columns if column not in (task, target, "id", "noise")]
    else:
        columns = [column.strip() for column in inputs.split(",") if column.strip()]
    for column in columns:
        require_column(table, column, "--inputs")
        if column in (task, target) or columns.count(column) > 1:
            raise InvalidData(f"--inputs has {column!r}, which is {_role(column, task, target)}: leave it out")
    if not columns:
        raise InvalidData(f"{table.file}: expected columns of inputs beside {task} and {target}, got none")
    return columns


def _role(column: str, task: str, target: str) -> str:
    return "the column of tasks" if column == task else "the column of outputs" if column == target else "there twice"


def require_column(table: Table, column: str, option: str) -> None:
    if column not in table.columns:
        got = first_few(table.columns)
        hint = suggestion(column, table.columns) or f"; name another, {option} COLUMN"
        raise InvalidData(f"{table.file}: no column {column!r}; got {got}{hint}")


def _numbers(table: Table, column: str, inputs: list[str]) -> list[float]:
    """A column of numbers, NaN where one is missing; a text is refused, with the way to leave it out."""
    numbers = []
    for k, cell in enumerate(table.cells(column)):
        number = math.nan if is_missing(cell) else cell_number(cell)
        if number is None:
            others = ",".join(other for other in inputs if other != column)
            hint = f"encode it, or leave it out: --inputs {others}" if column in inputs and others else "encode it"
            raise table.refusal(k, column, f"expected a number, got {cell!r:.60}; {hint}")
        numbers.append(number)
    return numbers


# --- the search ---


def _tuned(examples: Examples, method: Literal["REML", "ML"], common: str, individual: str) -> MixedEffectRegressor:
    from motet.learning.regressor import MixedEffectRegressor
    from motet.learning.regressor import tune as tune_regressor

    reg = MixedEffectRegressor(None if common == "none" else common, individual, method=method)
    with steps_shown(Console(stderr=True)) as report, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tuned = tune_regressor(reg, examples.X, examples.y, examples.task, 1.0 / examples.noise, report=report)
    if tuned.tuning_ is None:
        rows, tasks = count(len(examples.y), "row"), count(len(set(examples.task)), "task")
        raise NoEvidence(f"{rows} of {tasks} are too few, or too alike, to choose settings by: add rows")
    return tuned


@contextmanager
def steps_shown(console: Console) -> Iterator[Callable[[Step], None]]:
    """The last step of a search, at a terminal; how many will follow is not known."""
    columns = (SpinnerColumn(), TextColumn("Tuning: {task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        line = progress.add_task("first evaluation")

        def report(step: Step) -> None:
            text = f"{step.evaluation + 1} evaluations, log evidence {step.log_evidence:.2f}"
            progress.update(line, description=text)

        yield report


# --- what was found ---


def _described(examples: Examples, reg: MixedEffectRegressor) -> dict[str, Any]:
    """For JSON."""
    tuning, model = reg.tuning_, reg.disclosed_.model
    assert tuning is not None
    return {
        "rows": len(examples.y),
        "rows_left_out": examples.left_out,
        "tasks": len(set(examples.task)),
        "inputs": examples.columns,
        "method": tuning.method,
        "log_evidence": tuning.log_evidence,
        "components": _components(examples, reg),
        "notes": tuning.notes,
        "converged": tuning.converged,
        "evaluations": len(tuning.log),
        "seconds": tuning.seconds,
        "model": {**model.to_spec(), "sigma2": reg.sigma2_},
    }


def _components(examples: Examples, reg: MixedEffectRegressor) -> list[dict[str, Any]]:
    """Each component and the noise: the mean variance at the inputs, what it gains, length scales by input."""
    tuning = reg.tuning_
    assert tuning is not None
    listed = [
        {
            "component": component.label,
            "variance": component.size(tuning.components.X) * tuning.noise_variance,
            "gain": gain if math.isfinite(gain) else None,
            "length_scales": _length_scales(component, examples.columns),
        }
        for component, gain in tuning.gains.items()
    ]
    noise = {"component": "noise", "variance": tuning.noise_variance, "gain": None, "length_scales": None}
    return [*listed, noise]


def _length_scales(component: Component, columns: list[str]) -> dict[str, float] | None:
    """In the units of each input; None if the kernel has none."""
    from motet.kernels import Scaled
    from motet.learning.components import innermost

    lengths = getattr(innermost(component.kernel), "length_scale", None)
    if lengths is None:
        return None
    scale = component.kernel.scale if isinstance(component.kernel, Scaled) else 1.0
    return dict(zip(columns, np.broadcast_to(np.multiply(lengths, scale), len(columns)).tolist()))


def _show(examples: Examples, reg: MixedEffectRegressor) -> None:
    """As a table, and what the data did not tell."""
    found = _described(examples, reg)
    total = sum(component["variance"] for component in found["components"])
    rows = []
    for component in found["components"]:
        variance, gain, lengths = component["variance"], component["gain"], component["length_scales"] or {}
        of_noise = component["component"] == "noise"
        rows.append(
            (
                component["component"],
                f"{variance:.4g}",
                f"{variance**0.5:.4g}",
                f"{variance / total:.1%}" if total else "",
                "" if of_noise else "no limit" if gain is None else f"{gain:+.1f}",
                ", ".join(f"{column} {length:.3g}" for column, length in lengths.items()),
            )
        )
    tasks, inputs = count(found["tasks"], "task"), first_few(found["inputs"])
    show(f"{examples.table.file}: {count(found['rows'], 'row')} of {tasks}; inputs: {inputs}")
    names = ("component", "variance", "std", "share", "gain", "length scales")
    show_table(dict.fromkeys(names, ""), rows)
    model = found["model"]
    alpha = "" if model["common"] is None else f"α {model['alpha']:.4g}, "
    show(f"{alpha}λ {model['lam']:.4g}, σ² {model['sigma2']:.4g}")
    for note in found["notes"]:
        show(f"Note: {note}.")
    evaluations = count(found["evaluations"], "evaluation")
    show(f"{found['method']}: log evidence {found['log_evidence']:.3f}; {evaluations}, {found['seconds']:.1f} s")

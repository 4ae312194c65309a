"""``motet tune`` and ``motet fit``: settings by evidence for a table of many tasks, and a release of what it says."""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from motet.cli.terminal import AsJson, Encoding, Force, SkipMissing, note, progress_bar, show, show_table
from motet.datasets import Dataset, Fields, unfinished
from motet.errors import InvalidData, NoEvidence, NotAllowed
from motet.files import check_new, file_bytes
from motet.text import count, first_few

if TYPE_CHECKING:
    from motet.learning.components import Component
    from motet.learning.phases import Phases
    from motet.learning.regressor import MixedEffectRegressor
    from motet.learning.search import Step
    from motet.learning.table_fit import TableFit
    from motet.learning.tuning import Tuning
    from motet.model.model import Model
    from motet.release.disclosed import Disclosed
    from motet.release.names import Names

TASK = "client"

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="A table, rows of many tasks: CSV or Parquet, or a folder of such files.")
]
Data = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="A table, CSV or Parquet, or a folder of such files; or a study's TOML file."),
]
Dask = Annotated[
    str | None,
    typer.Option(
        help="The address of a Dask scheduler; local for a cluster of this machine's cores.", metavar="ADDRESS"
    ),
]
Settings = Annotated[
    Path | None,
    typer.Option(
        "--settings", help="Keep these settings: a release, or what motet tune --json printed.", metavar="FILE"
    ),
]
TuningRows = Annotated[int, typer.Option(help="Tune on about so many rows, of some tasks.", min=1, metavar="ROWS")]
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
    skip_missing: SkipMissing = False,
    encoding: Encoding = None,
    dask: Dask = None,
    as_json: AsJson = False,
) -> None:
    """Find the settings that make a table of many tasks likeliest: how large and how smooth the average and the shifts
    of tasks are, and how large the noise. The gain of a component is the log evidence that it adds over leaving it out.

    A column noise holds each row's variance, in units of the noise's. With --dask the rows stay in the workers' memory,
    and each step of the search is one pass over them. With --json the object has a model, in the form that a study file
    takes.
    """
    from motet.learning.job import READING
    from motet.learning.survey import Survey
    from motet.learning.table_fit import fields_of, tuned

    dataset = Dataset.open(file, encoding)
    fields = fields_of(dataset, task, target, _listed(inputs))
    dataset.check_outliers(fields)
    reg = _regressor(method, common, individual)
    with rows_shown(dataset, as_json) as report, steps_shown(Console(stderr=True), as_json) as report_step:
        if dask is None:
            survey = Survey.of(
                dataset, fields, limit=sys.maxsize, skip_missing=skip_missing, advance=partial(report, READING)
            )
            model, fitted, rows = tuned(survey, reg, report=report_step)
            counts = len(rows.y), len(rows.labels), survey.left_out
            tuning, sigma2 = _settled(fitted.tuning_, *counts[:2]), fitted.sigma2_
        else:
            from motet.learning.cluster_tuning import tune_on_cluster

            tuning, counts = tune_on_cluster(dataset, fields, reg, dask, skip_missing=skip_missing, report=report_step)
            model, sigma2 = tuning.model, tuning.model.sigma2 or tuning.noise_variance / tuning.model.lam
    found = Found(file.name, fields.inputs, *counts, tuning, model, sigma2, tuning.log_evidence)
    _show_units(dataset, fields, as_json)
    _announce(found, as_json)
    if as_json:
        show(found.described())
    else:
        _show(found)


def fit(
    file: Data,
    out: Annotated[Path, typer.Option(help="The release's file to write.")] = Path("model.safetensors"),
    force: Force = False,
    task: TaskColumn = TASK,
    target: TargetColumn = "y",
    inputs: InputColumns = None,
    settings: Settings = None,
    method: Criterion = "REML",
    common: AverageKernel = "auto",
    individual: ShiftKernel = "auto",
    tuning_rows: TuningRows = 20_000,
    landmarks: Annotated[int, typer.Option(help="So many, if the different inputs are more than 1,500.", min=1)] = 200,
    predictions: Annotated[
        Path | None, typer.Option(help="A Parquet file to write: mean and standard deviation at every row.")
    ] = None,
    coefficients: Annotated[
        Path | None, typer.Option(help="A Parquet file to write: every task's coefficients at its inputs.")
    ] = None,
    skip_missing: SkipMissing = False,
    encoding: Encoding = None,
    dask: Dask = None,
    as_json: AsJson = False,
) -> None:
    """Fit a table of any length and write a release: from it and rows of its own anybody can predict a task, with motet
    predict --release.

    Settings are those of --settings, or are tuned, as motet tune does, on some of the tasks. The table is read in
    batches: once, if rows of a task lie together; otherwise Dask brings them together on disk. With a study's file the
    examples are those of its database, and so are the settings.

    The release holds sums over all tasks and no rows, without noise added: whoever has two such files can compute the
    rows in between.
    """
    check_new(out, force=force)
    from motet.learning.table_fit import fields_of, fit_table

    if file.suffix.lower() == ".toml":
        options = {"inputs": inputs, "settings": settings, "dask": dask}
        options |= {"predictions": predictions, "coefficients": coefficients}
        if given := [f"--{name}" for name, value in options.items() if value is not None]:
            raise InvalidData(
                f"{file.name} settles what is fitted, and only a release is written: leave {given[0]} out"
            )
        found, release = _fit_study(file)
    else:
        model = None if settings is None else _settings(settings)
        dataset = Dataset.open(file, encoding)
        fields = fields_of(dataset, task, target, _listed(inputs))
        with rows_shown(dataset, as_json) as report, steps_shown(Console(stderr=True), as_json) as report_step:
            done = fit_table(
                dataset,
                task=task,
                target=target,
                inputs=_listed(inputs),
                model=model,
                regressor=_regressor(method, common, individual),
                landmarks=landmarks,
                tuning_rows=tuning_rows,
                predictions=predictions,
                coefficients=coefficients,
                skip_missing=skip_missing,
                dask=dask,
                force=force,
                report=report,
                report_step=report_step,
            )
        counts = done.rows, done.tasks, done.left_out
        numbers = done.release.model, done.release.sigma2 or math.nan, done.evidence.log_evidence
        tuning = _settled(done.tuning, *counts[:2]) if model is None else None
        found = Found(file.name, fields.inputs, *counts, tuning, *numbers, done)
        release = replace(done.release, names=_names(dataset, fields))
        _show_units(dataset, fields, as_json)
    with unfinished(out) as scratch:
        release.save(scratch)
    _announce(found, as_json)
    written = {"out": out, "predictions": predictions, "coefficients": coefficients}
    if as_json:
        show(found.described() | {name: str(path) for name, path in written.items() if path is not None})
        return
    _show(found)
    size = math.ceil(out.stat().st_size / 1000)
    show(f"The release is in {out}, {size} kB: motet predict INPUTS --own EXAMPLES --release {out}")


# --- the table and the settings ---


def _listed(inputs: str | None) -> list[str] | None:
    return None if inputs is None else [column.strip() for column in inputs.split(",") if column.strip()]


def _names(dataset: Dataset, fields: Fields) -> Names:
    """What a release says of the table's columns."""
    from motet.release.names import Names

    units = dataset.units(fields)
    inputs = {column: units.get(column, "") for column in fields.inputs}
    return Names(client=fields.task, target=fields.target, unit=units.get(fields.target, ""), inputs=inputs)


def _show_units(dataset: Dataset, fields: Fields, as_json: bool) -> None:
    for column, unit in dataset.units(fields).items():
        note(f"{column} is in {unit}, as every cell says", as_json=as_json)


def _regressor(method: Literal["REML", "ML"], common: str, individual: str) -> MixedEffectRegressor:
    from motet.learning.regressor import MixedEffectRegressor

    return MixedEffectRegressor(None if common == "none" else common, individual, method=method)


def _settings(path: Path) -> Model:
    """The model of a release, or of what ``motet tune --json`` printed."""
    from motet.model.model import Model
    from motet.release.disclosed import Disclosed
    from motet.release.file import MAX_FILE_BYTES

    try:
        data = file_bytes(path, MAX_FILE_BYTES)
    except OSError as error:
        raise InvalidData(f"cannot read {path}: {error.strerror or error}") from None
    if not data.lstrip().startswith(b"{"):
        return replace(Disclosed.from_bytes(data).model, sigma2=None)
    try:
        told = json.loads(data)
        spec = told.get("model", told)
    except (ValueError, AttributeError):
        raise InvalidData(f"{path.name}: expected a release, or what motet tune --json printed") from None
    return replace(Model.from_spec(spec), sigma2=None)


def _settled(tuning: Tuning | None, rows: int, tasks: int) -> Tuning:
    if tuning is None:
        of_tasks = f"{count(rows, 'row')} of {count(tasks, 'task')}"
        raise NoEvidence(f"{of_tasks} are too few, or too alike, to choose settings by: add rows")
    return tuning


def _fit_study(path: Path) -> tuple[Found, Disclosed]:
    """The examples of a study's database, with the study's settings."""
    from motet.learning.job import Counts, counted
    from motet.learning.partitions import rows_of_partition, solve_stream, whole_tasks
    from motet.store.examples import count_examples, example_fields, example_tables
    from motet.store.store import read_only
    from motet.study.study import Study

    study = Study.load(path)
    if study.private:
        raise NotAllowed(
            f"{path.name} promises privacy, and a fit has no noise: motet serve releases what the promise allows"
        )
    counts, fields = Counts(), example_fields(study.dimension)
    rows = rows_of_partition(study.model, study.dimension)
    with ExitStack() as stack:
        connection = stack.enter_context(read_only(study))
        bar = progress_bar(Console(stderr=True), "examples", count_examples(connection))
        stream = whole_tasks(example_tables(connection, study.model, study.dimension), fields.task, rows)
        tables = counted(stream, fields.task, counts, stack.enter_context(bar))
        solution, _ = solve_stream(tables, study.model, fields)
    numbers = study.model, solution.release.sigma2 or math.nan, solution.evidence.log_evidence
    release = replace(solution.release, names=study.names)
    return Found(path.name, fields.inputs, counts.rows, counts.tasks, 0, None, *numbers), release


@contextmanager
def rows_shown(dataset: Dataset, as_json: bool) -> Iterator[Callable[[str, int], None]]:
    """A bar for each stage, with rows a second and the time left; warnings are told as notes instead.

    Where there is no terminal, a line every few seconds; programs get none.
    """
    console = Console(stderr=True)
    lines = None if console.is_terminal else lines_shown(as_json)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rows, {task.fields[speed]} a second"),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with bar as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bars: dict[str, TaskID] = {}
        done: dict[str, int] = {}

        def report(stage: str, rows: int) -> None:
            done[stage] = done.get(stage, 0) + rows
            if lines is not None:
                lines.tell(f"{stage}: {done[stage]:,} of about {dataset.estimated_rows:,} rows")
                return
            if stage not in bars:
                bars[stage] = progress.add_task(stage, total=dataset.estimated_rows, speed="?")
            progress.advance(bars[stage], rows)
            speed = progress.tasks[list(bars).index(stage)].speed
            progress.update(bars[stage], speed="?" if speed is None else f"{speed:,.0f}")

        yield report


def lines_shown(as_json: bool) -> Phases:
    """What takes long, told in lines, where a bar cannot be drawn; nothing of what ends within some seconds."""
    from motet.learning.phases import Phases

    return Phases(partial(note, as_json=as_json))


@contextmanager
def steps_shown(console: Console, as_json: bool = False) -> Iterator[Callable[[Step], None]]:
    """The last step of a search, at a terminal; elsewhere a line every few seconds, which says about how long more."""
    if not console.is_terminal:
        yield lines_shown(as_json).step
        return
    columns = (SpinnerColumn(), TextColumn("Tuning: {task.description}"), TimeElapsedColumn())
    progress = Progress(*columns, console=console, transient=True)
    line: list[TaskID] = []

    def report(step: Step) -> None:
        if not line:
            line.append(progress.add_task("first evaluation"))
            progress.start()
        text = f"{step.evaluation + 1} evaluations, log evidence {step.log_evidence:.2f}"
        progress.update(line[0], description=text)

    try:
        yield report
    finally:
        progress.stop()


# --- what was found ---


@dataclass(frozen=True, eq=False)
class Found:
    """A fit, or the settings of one: of which table, and what a search found, if there was one."""

    file: str
    columns: Sequence[str]  # of the inputs
    rows: int
    tasks: int
    left_out: int
    tuning: Tuning | None
    model: Model
    sigma2: float
    log_evidence: float
    fit: TableFit | None = None

    def described(self) -> dict[str, Any]:
        """For JSON."""
        about: dict[str, Any] = {"rows": self.rows, "rows_left_out": self.left_out, "tasks": self.tasks}
        about |= {"inputs": list(self.columns), "log_evidence": self.log_evidence}
        if (tuning := self.tuning) is not None:
            about |= {
                "method": tuning.method,
                "components": _components(self.columns, tuning),
                "notes": tuning.notes,
                "converged": tuning.converged,
                "evaluations": len(tuning.log),
                "seconds": tuning.seconds,
            }
        if self.fit is not None:
            about |= {"tuned_rows": self.fit.tuned_rows, "shuffled": self.fit.shuffled}
            missed = self.fit.missed
            about |= {"missed_share": missed.share, "missed_std": missed.std, "missed_by_shifts": missed.shifts}
        return about | {"model": {**self.model.to_spec(), "sigma2": self.sigma2}}


def _components(columns: Sequence[str], tuning: Tuning) -> list[dict[str, Any]]:
    """Each component and the noise: the mean variance at the inputs, what it gains, length scales by input."""
    listed = [
        {
            "component": component.label,
            "variance": component.size(tuning.components.X) * tuning.noise_variance,
            "gain": gain if math.isfinite(gain) else None,
            "length_scales": _length_scales(component, columns),
        }
        for component, gain in tuning.gains.items()
    ]
    noise = {"component": "noise", "variance": tuning.noise_variance, "gain": None, "length_scales": None}
    return [*listed, noise]


def _length_scales(component: Component, columns: Sequence[str]) -> dict[str, float] | None:
    """In the units of each input; None if the kernel has none."""
    from motet.kernels import Scaled
    from motet.learning.components import innermost

    lengths = getattr(innermost(component.kernel), "length_scale", None)
    if lengths is None:
        return None
    scale = component.kernel.scale if isinstance(component.kernel, Scaled) else 1.0
    return dict(zip(columns, np.broadcast_to(np.multiply(lengths, scale), len(columns)).tolist()))


def _announce(found: Found, as_json: bool) -> None:
    if found.left_out:
        all_rows = found.rows + found.left_out
        note(f"{found.left_out} of {count(all_rows, 'row')} left out: a value is missing", as_json=as_json)


def _show(found: Found) -> None:
    """As a table, and what the data did not tell."""
    told = found.described()
    show(
        f"{found.file}: {count(found.rows, 'row')} of {count(found.tasks, 'task')}; inputs: {first_few(found.columns)}"
    )
    if found.tuning is not None:
        _show_components(told["components"])
    alpha = "" if found.model.common is None else f"α {found.model.alpha:.4g}, "
    show(f"{alpha}λ {found.model.lam:.4g}, σ² {found.sigma2:.4g}")
    if found.fit is not None and found.model.basis is not None and found.fit.missed.share > 0:
        missed = f"they miss {found.fit.missed.share:.2g} of the average's variance, a standard deviation of at most"
        show(f"{found.model.basis!r}: {missed} {found.fit.missed.std:.2g}")
    if found.fit is not None and found.fit.missed.shifts > 0:
        share = f"{found.fit.missed.shifts:.1g} of their variance"
        show(f"Long tasks: their shifts are computed through landmarks among each one's inputs, which miss {share}")
    for line in told.get("notes", []):
        show(f"Note: {line}.")
    if found.tuning is not None:
        evaluations = count(told["evaluations"], "evaluation")
        of_rows = f" on {count(found.fit.tuned_rows, 'row')}" if found.fit is not None else ""
        evidence = f"log evidence {found.tuning.log_evidence:.3f}{of_rows}"
        show(f"{found.tuning.method}: {evidence}; {evaluations}, {found.tuning.seconds:.1f} s")
    if found.tuning is None or (found.fit is not None and found.fit.tuned_rows < found.rows):
        show(f"Log evidence of all rows: {found.log_evidence:.3f}")


def _show_components(components: list[dict[str, Any]]) -> None:
    total = sum(component["variance"] for component in components)
    rows = []
    for component in components:
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
    show_table(dict.fromkeys(("component", "variance", "std", "share", "gain", "length scales"), ""), rows)

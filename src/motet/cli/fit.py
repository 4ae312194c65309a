"""``motet tune`` and ``motet fit``: settings by evidence for a table of many tasks, and a release of what it says."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import typer
from rich.console import Console

from motet.cli.phases import fit_shown
from motet.cli.terminal import AsJson, Encoding, Force, note, progress_bar, show, show_table, split_commas
from motet.errors import InvalidData, NoEvidence, NotAllowed
from motet.tables.arrow import unfinished
from motet.tables.files import check_new, file_bytes
from motet.tables.large import Dataset
from motet.tables.roles import Roles
from motet.text import count, first_few

if TYPE_CHECKING:
    from motet.model.model import Model
    from motet.regression.regressor import MixedEffectRegressor
    from motet.release.disclosed import Disclosed
    from motet.release.names import Names
    from motet.scale.fit import TableFit
    from motet.tuning.components import Component
    from motet.tuning.tuning import Tuning

TASK = "client"

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="A table, rows of many tasks: CSV or Parquet, or a folder of such files.")
]
Data = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="A table, CSV or Parquet, or a folder of such files; or a study's TOML file."),
]
LeaveOut = Annotated[
    bool,
    typer.Option(
        "--skip-missing/--refuse-missing",
        help="Leave out rows that lack an input, an output or a task, and count them; --refuse-missing refuses them.",
    ),
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
    skip_missing: LeaveOut = True,
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
    from motet.engine.system import System
    from motet.regression.parameters import settings_of
    from motet.scale.fit import roles_of, tuned
    from motet.scale.job import READING
    from motet.scale.survey import Survey
    from motet.tuning.tuning import folded_tasks

    dataset = Dataset.open(file, encoding)
    roles = roles_of(dataset, task, target, split_commas(inputs))
    dataset.check_outliers(roles)
    settings = settings_of(_regressor(method, common, individual))
    with fit_shown(dataset.estimated_rows, as_json) as (report, report_step):
        if dask is None:
            survey = Survey.of(
                dataset, roles, limit=sys.maxsize, skip_missing=skip_missing, advance=partial(report, READING)
            )
            model, chosen, rows = tuned(survey, settings, report=report_step)
            counts = len(rows.y), len(rows.labels), survey.left_out
            tuning = _settled(chosen, *counts[:2])
            sigma2 = System.of_tasks(model, *folded_tasks(rows, model)).evidence.sigma2
        else:
            from motet.scale.cluster import tune_on_cluster

            tuning, counts = tune_on_cluster(
                dataset, roles, settings, dask, skip_missing=skip_missing, report=report_step
            )
            model, sigma2 = tuning.model, tuning.model.sigma2 or tuning.model.noise.relative(tuning.noise_variance)
    result = FitReport(file.name, roles.inputs, *counts, tuning, model, sigma2, tuning.log_evidence)
    _show_units(dataset, roles, as_json)
    _show(result, {}, as_json)


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
    skip_missing: LeaveOut = True,
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
    from motet.scale.fit import fit_table, roles_of

    if file.suffix.lower() == ".toml":
        options = {"inputs": inputs, "settings": settings, "dask": dask}
        options |= {"predictions": predictions, "coefficients": coefficients}
        if given := [f"--{name}" for name, value in options.items() if value is not None]:
            raise InvalidData(
                f"{given[0]} is for tables: {file.name} says what is fitted, and only a release is written; omit it"
            )
        result, release = _fit_study(file)
    else:
        model = None if settings is None else _settings(settings)
        dataset = Dataset.open(file, encoding)
        roles = roles_of(dataset, task, target, split_commas(inputs))
        with fit_shown(dataset.estimated_rows, as_json) as (report, report_step):
            done = fit_table(
                dataset,
                task=task,
                target=target,
                inputs=split_commas(inputs),
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
        result = FitReport(file.name, roles.inputs, *counts, tuning, *numbers, done)
        release = replace(done.release, names=_names(dataset, roles))
        _show_units(dataset, roles, as_json)
    with unfinished(out) as scratch:
        release.save(scratch)
    written = {"out": out, "predictions": predictions, "coefficients": coefficients}
    _show(result, {name: str(path) for name, path in written.items() if path is not None}, as_json)
    if not as_json:
        size = math.ceil(out.stat().st_size / 1000)
        show(f"The release is in {out}, {size} kB: motet predict INPUTS --own EXAMPLES --release {out}")


# --- the table and the settings ---


def _names(dataset: Dataset, roles: Roles) -> Names:
    """What a release says of the table's columns."""
    from motet.release.names import Names

    units = dataset.units(roles)
    inputs = {column: units.get(column, "") for column in roles.inputs}
    return Names(client=roles.task, target=roles.target, unit=units.get(roles.target, ""), inputs=inputs)


def _show_units(dataset: Dataset, roles: Roles, as_json: bool) -> None:
    for column, unit in dataset.units(roles).items():
        note(f"{column} is in {unit}, as every cell says", as_json=as_json)


def _regressor(method: Literal["REML", "ML"], common: str, individual: str) -> MixedEffectRegressor:
    from motet.regression.regressor import MixedEffectRegressor

    return MixedEffectRegressor(None if common == "none" else common, individual, method=method)


def _settings(path: Path) -> Model:
    """The model of a release, or of what ``motet tune --json`` printed."""
    from motet.model.model import Model
    from motet.release.disclosed import Disclosed
    from motet.release.file import MAX_RELEASE_BYTES

    try:
        data = file_bytes(path, MAX_RELEASE_BYTES)
    except OSError as error:
        raise InvalidData(f"cannot read {path}: {error.strerror or error}") from None
    if not data.lstrip().startswith(b"{"):
        return replace(Disclosed.from_bytes(data).model, sigma2=None)
    try:
        content = json.loads(data)
        spec = content.get("model", content)
    except (ValueError, AttributeError):
        raise InvalidData(f"{path.name}: expected a release, or what motet tune --json printed") from None
    return replace(Model.from_spec(spec), sigma2=None)


def _settled(tuning: Tuning | None, rows: int, tasks: int) -> Tuning:
    if tuning is None:
        of_tasks = f"{count(rows, 'row')} of {count(tasks, 'task')}"
        raise NoEvidence(f"{of_tasks} are too few, or too alike, to choose settings by: add rows")
    return tuning


def _fit_study(path: Path) -> tuple[FitReport, Disclosed]:
    """The examples of a study's database, with the study's settings."""
    from motet.scale.job import Counts, counted
    from motet.scale.partitions import rows_of_partition, solve_stream, whole_tasks
    from motet.store.examples import count_examples, example_roles, example_tables
    from motet.store.store import read_only
    from motet.study.study import Study

    study = Study.load(path)
    if study.private:
        raise NotAllowed(
            f"{path.name} promises privacy, and a fit has no noise: motet serve releases what the promise allows"
        )
    counts, roles = Counts(), example_roles(study.dimension)
    rows = rows_of_partition(study.model, study.dimension)
    with ExitStack() as stack:
        connection = stack.enter_context(read_only(study))
        bar = progress_bar(Console(stderr=True), "examples", count_examples(connection))
        stream = whole_tasks(example_tables(connection, study.model, study.dimension), roles.task, rows)
        tables = counted(stream, roles.task, counts, stack.enter_context(bar))
        solution, _ = solve_stream(tables, study.model, roles)
    numbers = study.model, solution.release.sigma2 or math.nan, solution.evidence.log_evidence
    release = replace(solution.release, names=study.names)
    return FitReport(path.name, roles.inputs, counts.rows, counts.tasks, 0, None, *numbers), release


# --- results ---


@dataclass(frozen=True, eq=False)
class FitReport:
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

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        about: dict[str, Any] = {"rows": self.rows, "rows_left_out": self.left_out, "tasks": self.tasks}
        about |= {"inputs": list(self.columns), "log_evidence": self.log_evidence}
        if (tuning := self.tuning) is not None:
            about |= {
                "method": tuning.method,
                "components": _components(self.columns, tuning),
                "structure": [asdict(attempt) for attempt in tuning.path],
                "notes": tuning.notes,
                "converged": tuning.converged,
                "evaluations": len(tuning.log),
                "seconds": tuning.seconds,
            }
        if self.fit is not None:
            about |= {"tuned_rows": self.fit.tuned_rows, "shuffled": self.fit.shuffled}
            residual = self.fit.residual
            about |= {"missed_share": residual.share, "missed_std": residual.std, "missed_by_shifts": residual.shifts}
        return about | {"model": {**self.model.to_spec(), "sigma2": self.sigma2}}


def _components(columns: Sequence[str], tuning: Tuning) -> list[dict[str, Any]]:
    """Each component and the noise: the mean variance at the inputs, what it gains, length scales by input."""
    facts = [
        {
            "component": component.described(columns),
            "variance": component.size(tuning.components.X) * tuning.noise_variance,
            "gain": gain if math.isfinite(gain) else None,
            "length_scales": _length_scales(component, columns),
        }
        for component, gain in tuning.gains.items()
    ]
    noise = {"component": "noise", "variance": tuning.noise_variance, "gain": None, "length_scales": None}
    return [*facts, noise]


def _length_scales(component: Component, columns: Sequence[str]) -> dict[str, float] | None:
    """In the units of each input; None if the kernel has none, or is made of several."""
    from motet.kernels.algebra import leaves_in_units

    leaf, read, scales = next(leaves := leaves_in_units(component.kernel, range(len(columns)), [1.0] * len(columns)))
    lengths = getattr(leaf, "length_scale", None)
    if lengths is None or next(leaves, None) is not None:
        return None
    in_units = np.broadcast_to(np.multiply(lengths, scales), len(read)).tolist()
    return dict(zip([columns[c] for c in read], in_units))


def _show(result: FitReport, written: dict[str, str], as_json: bool) -> None:
    """As a table, and what the data did not tell; or as JSON with the files that were ``written``."""
    facts = result.to_dict()
    if as_json:
        show(facts | written)
        return
    if result.left_out:
        all_rows = count(result.rows + result.left_out, "row")
        note(f"{result.left_out} of {all_rows} left out: a value is missing", as_json=False)
    rows, tasks, tuning, fit = count(result.rows, "row"), count(result.tasks, "task"), result.tuning, result.fit
    show(f"{result.file}: {rows} of {tasks}; inputs: {first_few(result.columns)}")
    if tuning is not None:
        _show_components(facts["components"])
    alpha = "" if result.model.common is None else f"α {result.model.alpha:.4g}, "
    show(f"{alpha}λ {result.model.lam:.4g}, σ² {result.sigma2:.4g}")
    if fit is not None and result.model.basis is not None and fit.residual.share > 0:
        words = f"they miss {fit.residual.share:.2g} of the average's variance, a standard deviation of at most"
        show(f"{result.model.basis!r}: {words} {fit.residual.std:.2g}")
    if fit is not None and fit.residual.shifts > 0:
        share = f"{fit.residual.shifts:.1g} of their variance"
        show(f"Long tasks: their shifts are computed through landmarks among each one's inputs, which miss {share}")
    for line in facts.get("notes", []):
        show(f"Note: {line}.")
    if refused := [attempt.name for attempt in (tuning.path if tuning is not None else ()) if not attempt.kept]:
        show(f"Tried, and does not pay: {', '.join(refused)}.")
    if tuning is not None:
        of_rows = "" if fit is None else f" on {count(fit.tuned_rows, 'row')}"
        evaluations = f"{count(len(tuning.log), 'evaluation')}, {tuning.seconds:.1f} s"
        show(f"{tuning.method}: log evidence {tuning.log_evidence:.3f}{of_rows}; {evaluations}")
    if tuning is None or (fit is not None and fit.tuned_rows < result.rows):
        show(f"Log evidence of all rows: {result.log_evidence:.3f}")


def _show_components(components: list[dict[str, Any]]) -> None:
    total = sum(component["variance"] for component in components)
    rows = []
    for component in components:
        name, variance, gain = component["component"], component["variance"], component["gain"]
        share = f"{variance / total:.1%}" if total else ""
        told = "" if name == "noise" else "no limit" if gain is None else f"{gain:+.1f}"
        lengths = ", ".join(f"{column} {length:.3g}" for column, length in (component["length_scales"] or {}).items())
        rows.append((name, f"{variance:.4g}", f"{variance**0.5:.4g}", share, told, lengths))
    show_table(dict.fromkeys(("component", "variance", "std", "share", "gain", "length scales"), ""), rows)

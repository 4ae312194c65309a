"""The scikit-learn estimator: ``fit``, ``predict``, ``partial_fit`` and ``forget`` on arrays and data frames.

It is an ``Engine`` behind scikit-learn's interface. The argument ``task`` (routed metadata), or a column of a data
frame, holds the task of each row.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import Kernel
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from motet.arrays import Array, numbers
from motet.errors import InvalidData, InvalidModel, NoEvidence
from motet.learning import defaults
from motet.learning.condensation import is_linear
from motet.learning.defaults import Auto
from motet.learning.effects import fixed_effects, random_effects
from motet.learning.engine import Engine, labels_of
from motet.learning.evidence import Method
from motet.learning.formula import SETTLED, Formula
from motet.learning.frames import (
    check_inputs,
    columns_of,
    complete_rows,
    missing_outputs,
    split_tasks,
    warn_of_outliers,
)
from motet.learning.grouping import ONE_ROW_EACH, warn_of_groups
from motet.learning.phases import Phases
from motet.learning.profiles import Profile, profile
from motet.learning.residuals import LeaveOut, diagnostics, leave_out
from motet.learning.results import Results
from motet.learning.rows import Rows, noise_of
from motet.learning.search import Step
from motet.learning.structure import model_of
from motet.learning.summary import Summary
from motet.learning.survey import TUNING_ROWS
from motet.learning.tables import Table
from motet.learning.tuning import Tuning, tune_model
from motet.model.basis import BasisSpec, Bias
from motet.model.model import Model
from motet.model.own_landmarks import LANDMARKS
from motet.model.tasks import MAX_DENSE_ROWS, missed_by_own_landmarks
from motet.release.disclosed import Disclosed
from motet.text import count

ONE_TASK, GAUSSIAN = "all rows", "gaussian"
TOLD_SHARE = 0.01  # of the shifts' variance, missed by landmarks, from which on fit warns
SEARCHED_ROWS_PER_TASK = 300  # of long tasks whose model is not linear, by which settings are chosen


@dataclass(frozen=True)
class VarianceTable:
    """Where the variance of an observation comes from, on average over the inputs learned."""

    average: float
    individual: float
    noise: float

    def __str__(self) -> str:
        total = self.average + self.individual + self.noise
        lines = [f"{'component':<12}{'variance':>12}{'std':>12}{'share':>9}"]
        for name in ("average", "individual", "noise"):
            value = getattr(self, name)
            lines.append(f"{name:<12}{value:>12.4g}{value**0.5:>12.4g}{value / total if total else 0.0:>9.1%}")
        return "\n".join(lines)

    __repr__ = __str__


class MixedEffectRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Each task's function is the average of all plus a shift of its own.

    ``fit`` chooses the settings by evidence: how smooth the average is, how much tasks differ, and in what; how large
    the noise is. What is given is where the search starts; numbers of kernels that are marked ``"fixed"`` stay.

    Parameters
    ----------
    common, individual
        Kernels of the average and of the shifts: objects of scikit-learn or ``motet.kernels``; names of the closed list
        such as ``"rbf"``, which read scaled inputs; or ``"auto"``: a smooth average, and shifts of an intercept, slopes
        and a smooth part. ``common=None`` leaves the bias alone as the average: with a linear ``individual`` this is a
        linear mixed model.
    alpha
        Share of the common kernel, in [0, 1]: 0 learns tasks separately, 1 pools them.
    lam
        Noise variance, relative to the kernels'.
    bias
        ``"none"``, ``"constant"`` or ``"linear"``: functions of the average that are not penalised; or a list of
        columns, by number or by name, that have a slope beside the constant. ``"auto"`` is linear if there are rows
        enough.
    basis
        ``None``, ``Landmarks``, ``Eigen`` or ``Features``. None grows with the inputs and is exact, but its time grows
        with the cube of the number of different inputs. ``"auto"`` grows up to 1,500 of them; above, it takes the
        columns of a linear ``common``, or 200 landmarks among the inputs.
    sigma2
        Scale of all variances; None estimates it.
    task
        The column of a data frame that holds each row's task.
    optimizer
        ``"evidence"`` chooses the settings in ``fit``; None keeps those that are given.
    method
        ``"REML"``, the restricted evidence, or ``"ML"``.
    family
        ``"gaussian"``: outcomes are real numbers. There is no other yet.
    tuning_rows
        Of a larger table about so many rows, of tasks at random, choose the settings, which bounds the time of the
        search; ``tuning_.notes`` says so. All rows are then fitted. None, linear kernels and levels (``Identity``) take
        all rows for the settings too.
    verbose
        1 tells the phases of ``fit``, and of the search a line every few seconds, on standard error; 2 every step.

    Attributes
    ----------
    engine_
        The fitted model, with every task's examples.
    tuning_
        What the search found; None if there was none.
    shifts_missed_
        The share of the shifts' variance that landmarks miss in tasks of more than 2,000 rows, whose shift is computed
        through 200 of their own inputs unless its kernel has few features; 0 if there are no such tasks.
    """

    # What metadata routing passes on by default: groups go to the folds alone, which may be by other groups.
    __metadata_request__fit = {"task": True, "groups": False}  # noqa: RUF012
    __metadata_request__partial_fit = {"task": True, "groups": False}  # noqa: RUF012
    __metadata_request__predict = {"task": True, "groups": False}  # noqa: RUF012
    __metadata_request__score = {"task": True, "groups": False}  # noqa: RUF012

    formula: Formula | None = None  # by which frames are read
    engine_: Engine
    single_task_: bool
    tuning_: Tuning | None
    shifts_missed_: float

    def __init__(
        self,
        common: Kernel | str | None = "auto",
        individual: Kernel | str = "auto",
        alpha: float = 0.5,
        lam: float = 0.1,
        bias: Bias | Sequence[str] | Auto = "auto",
        basis: BasisSpec | Auto | None = "auto",
        sigma2: float | None = None,
        task: Hashable = None,
        optimizer: Literal["evidence"] | None = "evidence",
        method: Method = "REML",
        family: str = GAUSSIAN,
        tuning_rows: int | None = TUNING_ROWS,
        verbose: int = 0,
    ) -> None:
        self.common = common
        self.individual = individual
        self.alpha = alpha
        self.lam = lam
        self.bias = bias
        self.basis = basis
        self.sigma2 = sigma2
        self.task = task
        self.optimizer = optimizer
        self.method = method
        self.family = family
        self.tuning_rows = tuning_rows
        self.verbose = verbose

    @classmethod
    def from_formula(
        cls, formula: str, data: Any, *, sample_weight: Any = None, **settings: Any
    ) -> MixedEffectRegressor:
        """The mixed model of a formula such as ``"y ~ age*sex + (1 + age | id)"``, fitted to a data frame.

        The fixed part is the bias, the groups are the tasks. Then all methods take frames with the same columns; a
        group that was not fitted is a new individual. ``settings`` are the regressor's, but for those of the formula.
        """
        if given := [name for name in SETTLED if name in settings]:
            raise InvalidModel(f"the formula settles {' and '.join(given)}: leave that out")
        _check_family(settings.get("family", GAUSSIAN))
        read, frame, y, complete = Formula.read(formula, data)
        if sample_weight is not None:
            weight = numbers(sample_weight, "sample_weight")
            sample_weight = weight[complete] if weight.ndim and len(weight) == len(data) else weight
        reg = cls(**read.settings(frame), **settings)
        reg.formula = read
        return reg.fit(frame, y, sample_weight=sample_weight)

    def __sklearn_clone__(self) -> MixedEffectRegressor:
        copy: MixedEffectRegressor = super().__sklearn_clone__()
        if self.formula is not None:
            copy.formula = self.formula
        return copy

    # --- learning ---

    def fit(
        self, X: Any, y: Any, task: Any = None, sample_weight: Any = None, *, groups: Any = None
    ) -> MixedEffectRegressor:
        """Learn from scratch, settings included. ``groups`` is another name of ``task``. Without tasks all rows are one
        task, and a warning names a column that looks like a group.

        Rows with missing values are left out, with a warning, and so are those of weight 0.
        """
        if self.optimizer not in ("evidence", None):
            raise InvalidModel(f'optimizer must be "evidence" or None, got {self.optimizer!r:.40}')
        task = _one_of(task, groups)
        return self._learn(X, y, task, sample_weight, reset=True, tune=self.optimizer == "evidence")

    def partial_fit(
        self, X: Any, y: Any, task: Any = None, sample_weight: Any = None, *, groups: Any = None
    ) -> MixedEffectRegressor:
        """Learn more rows, exactly: as if all had been fitted at once. Settings stay as they are."""
        task = _one_of(task, groups)
        return self._learn(X, y, task, sample_weight, reset=not hasattr(self, "engine_"), tune=False)

    def forget(self, task: Hashable) -> MixedEffectRegressor:
        """Forget a task, exactly: as if it had never been fitted. Settings stay as they are."""
        check_is_fitted(self)
        self.engine_.forget(task)
        return self

    def _learn(
        self,
        X: Any,
        y: Any,
        task: Any,
        sample_weight: Any,
        *,
        reset: bool,
        tune: bool,
        report: Callable[[Step], None] | None = None,
    ) -> MixedEffectRegressor:
        _check_family(self.family)
        phases = Phases.of(self.verbose)
        rows = self._rows(X, y, task, sample_weight, reset=reset)
        if not reset and rows.single_task != self.single_task_:
            raise InvalidData("fitted with tasks and without: give task every time or never")
        if not reset:
            self.engine_.learn_many(rows.task, rows.X, rows.y, rows.noise)
            return self
        table = count(len(rows.y), "row")
        if not rows.single_task:
            table += f" of {count(len(rows.sizes), 'task')}"
        phases.begin(f"model: {table}, {count(rows.X.shape[1], 'column')} of inputs")
        model = model_of(self, rows)
        tuning = self._tune(model, rows, phases, report) if tune else None
        if tuning is not None:
            if 1 < len(rows.sizes) == len(rows.y):
                warnings.warn(ONE_ROW_EACH.format("task"), UserWarning, stacklevel=3)
            model = tuning.model
            if self.basis == "auto":
                model = replace(model, basis=defaults.basis("auto", model.common, rows.inputs))
        phases.begin(f"fit of {table}")
        engine = Engine(model)
        engine.learn_many(rows.task, rows.X, rows.y, rows.noise)
        engine.disclose()  # so that a wrong model is refused here
        self.engine_, self.single_task_, self.tuning_ = engine, rows.single_task, tuning
        self.shifts_missed_ = missed_by_own_landmarks(model.individual, rows.number, rows.X)
        if self.shifts_missed_ > TOLD_SHARE:
            warnings.warn(
                f"tasks of up to {rows.longest} rows: their shifts are computed through {LANDMARKS} landmarks among "
                f"each one's inputs, which miss {self.shifts_missed_:.0%} of their variance (it counts as noise)",
                UserWarning,
                stacklevel=3,
            )
        return self

    def _rows(self, X: Any, y: Any, task: Any, sample_weight: Any, *, reset: bool) -> Rows:
        """The rows to learn, checked, without those that have missing values or no weight."""
        X, task = self._split(X, task, needed=True)
        if y is None:
            raise InvalidData("fit requires y to be passed, but the target y is None")
        check_inputs(X, self.task, None)
        known = ~missing_outputs(y)
        y = np.where(known, y, 0.0) if not known.all() else y
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, reset=reset, ensure_all_finite="allow-nan")
        y = column_or_1d(y, warn=True).astype(np.float64)
        noise, weighted = noise_of(sample_weight, len(X))
        labels = [ONE_TASK] * len(X) if task is None else labels_of(task, len(X))
        complete = complete_rows(np.column_stack([np.isnan(X), ~known]), [*self._names, "y"])
        kept = complete[weighted[complete]]
        if len(kept) < len(X):
            X, y, noise, labels = X[kept], y[kept], noise[kept], [labels[i] for i in kept]
        if reset:
            warn_of_outliers({**dict(zip(self._names, X.T)), "y": y}, kept)
            if task is None:
                warn_of_groups(X, y, self._names, of_frame=hasattr(self, "feature_names_in_"))
        return Rows(labels, X, y, noise, task is None)

    def _tune(self, model: Model, rows: Rows, phases: Phases, report: Callable[[Step], None] | None) -> Tuning | None:
        """The settings by evidence; None, with a warning, if the rows are too few or too alike to tell any.

        Of many rows, or of long tasks, whose model is not linear some are enough for that, and all would take long.
        """
        whole = len(rows.y)
        if not is_linear(model, rows.X.shape[1]):
            if rows.longest > MAX_DENSE_ROWS:
                rows = rows.thinned(SEARCHED_ROWS_PER_TASK)
            if self.tuning_rows is not None and not defaults.has_levels(model.common, model.individual):
                rows = rows.sample(self.tuning_rows)
        sampled = len(rows.y) < whole
        phases.begin(f"settings by evidence{f', on {len(rows.y):,} of the rows' if sampled else ''}")
        engine = Engine(model)
        engine.learn_many(rows.task, rows.X, rows.y, rows.noise)
        engine.disclose()  # so that a wrong model is refused as such

        def step(step: Step) -> None:
            phases.step(step)
            if report is not None:
                report(step)

        try:
            tuning = tune_model(engine, method=self.method, report=step)
            return replace(tuning, table_rows=whole) if sampled else tuning
        except NoEvidence as reason:
            warnings.warn(f"settings are kept as given: {reason}", ConvergenceWarning, stacklevel=4)
            return None

    # --- results ---

    @property
    def disclosed_(self) -> Disclosed:
        """The release: the same object that a server publishes."""
        check_is_fitted(self)
        return self.engine_.disclose()

    @property
    def sigma2_(self) -> float:
        """The scale of all variances, estimated or given."""
        check_is_fitted(self)
        return self.engine_.evidence().sigma2

    @property
    def log_evidence_(self) -> float:
        """The restricted log evidence."""
        check_is_fitted(self)
        return self.engine_.evidence().log_evidence

    @property
    def tasks_(self) -> list[Hashable]:
        """The labels of all tasks learned."""
        check_is_fitted(self)
        return self.engine_.tasks

    @property
    def components_(self) -> VarianceTable:
        """Variance components: average, individual and noise (of an observation of weight 1)."""
        check_is_fitted(self)
        model, X = self.engine_.model, self.engine_.inputs
        common = 0.0 if model.common is None else model.common_share * float(np.mean(model.common.diag(X)))
        individual = model.individual_share * float(np.mean(model.individual.diag(X)))
        return VarianceTable(*(float(self.sigma2_) * part for part in (common, individual, model.lam)))

    @property
    def results_(self) -> Results:
        """All that tables of results are computed from."""
        check_is_fitted(self)
        method = self.method if self.tuning_ is None else self.tuning_.method
        return Results(self.engine_, self.tuning_, method, self._names)

    @property
    def _names(self) -> list[str]:
        """Of the inputs' columns."""
        names = getattr(self, "feature_names_in_", [f"column {k}" for k in range(self.n_features_in_)])
        return [str(name) for name in names]

    def summary(self) -> Summary:
        """How well it fits, variance components, length scales and fixed effects, with intervals."""
        return Summary(self.results_)

    def fixed_effects(self) -> Table:
        """The bias's weights in the inputs' own units, the intercept at input 0, with standard errors."""
        return fixed_effects(self.results_)

    def random_effects(self, X: Any = None) -> Table:
        """Each task's shift at the inputs X, or without X its intercept and slopes, with standard deviations."""
        inputs = None if X is None else self._inputs(self._split(X, None, needed=False)[0])
        return random_effects(self.results_, inputs)

    def loo(self) -> LeaveOut:
        """Every row predicted without itself, and without its task, in closed form; settings stay."""
        return leave_out(self.results_)

    def diagnostics(self) -> Table:
        """A row for each observation: population and individual prediction, standardised residuals."""
        return diagnostics(self.results_)

    def profile(self, name: str, values: Any = None) -> Profile:
        """The evidence by one number, the others at their best: "alpha", "lam", "sigma2", or a parameter's name."""
        return profile(self.results_, name, values)

    # --- prediction ---

    def predict(
        self, X: Any, task: Any = None, return_std: bool = False, observation: bool = False, *, groups: Any = None
    ) -> Any:
        """Each row's task at its input; without tasks the average function. ``groups`` is another name of ``task``.

        A label that was not learned, or a missing one, is a new individual: the average, with all variance of a shift.
        ``return_std`` adds standard deviations of the function, or with ``observation`` of an observation. A row with
        missing inputs is predicted as NaN.
        """
        check_is_fitted(self)
        X, task = self._split(X, _one_of(task, groups), needed=False)
        X = self._inputs(X)
        if self.single_task_:
            if task is not None:
                raise InvalidData("fitted without tasks, so predict takes none")
            task = np.full(len(X), ONE_TASK)
        task = None if task is None else labels_of(task, len(X))
        complete = np.flatnonzero(~np.isnan(X).any(axis=1))
        if len(complete) == len(X):
            return self._predict(X, task, return_std, observation)
        out = np.full((2, len(X)), np.nan)
        labels = None if task is None else [task[i] for i in complete]
        if len(complete):
            out[: 1 + return_std, complete] = self._predict(X[complete], labels, return_std, observation)
        return (out[0], out[1]) if return_std else out[0]

    def _predict(self, X: Array, task: Any, return_std: bool, observation: bool) -> Any:
        if task is None:
            return self.disclosed_.average(X, return_std, observation)
        return self.engine_.predict_many(task, X, return_std, observation)

    def score(self, X: Any, y: Any, task: Any = None, sample_weight: Any = None, *, groups: Any = None) -> float:
        """R² of the predictions for each row's task."""
        return float(r2_score(y, self.predict(X, _one_of(task, groups)), sample_weight=sample_weight))

    def _inputs(self, X: Any) -> Array:
        """Inputs as those that were fitted."""
        names = getattr(self, "feature_names_in_", None)
        check_inputs(X, self.task, None if names is None else list(names))
        return np.asarray(validate_data(self, X, dtype=np.float64, reset=False, ensure_all_finite="allow-nan"))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # rows with missing values are left out
        return tags

    def _split(self, X: Any, task: Any, *, needed: bool) -> tuple[Any, Any]:
        """The inputs without the task column, and the tasks, which are needed to learn and not to predict."""
        if self.formula is not None and columns_of(X):
            if task is not None:
                raise InvalidData("the formula names the tasks' column: leave task= out")
            return self.formula.inputs(X, learning=needed)
        if self.task is None:
            return X, task
        if task is not None:
            raise InvalidData(f"tasks are in the column {self.task!r} already: leave task= out")
        return split_tasks(X, self.task, required=needed)


def tune(
    reg: MixedEffectRegressor,
    X: Any,
    y: Any,
    task: Any = None,
    sample_weight: Any = None,
    report: Callable[[Step], None] | None = None,
) -> MixedEffectRegressor:
    """The same regressor, fitted, with settings chosen by evidence in place of its own, which it then keeps.

    Its ``tuning_`` has the log of the search, and what is known of every number; ``report`` gets every line of that
    log as it is written.
    """
    best = clone(reg).set_params(optimizer="evidence")
    best._learn(X, y, task, sample_weight, reset=True, tune=True, report=report)
    model = best.engine_.model
    names = ("common", "individual", "alpha", "lam", "bias", "basis")
    return best.set_params(**{name: getattr(model, name) for name in names}, optimizer=None)


def _one_of(task: Any, groups: Any) -> Any:
    """The tasks, by either name."""
    if task is not None and groups is not None:
        raise InvalidData("task= and groups= are two names of one thing, the group of each row: give one of them")
    return groups if task is None else task


def _check_family(family: Any) -> None:
    if family != GAUSSIAN:
        raise InvalidModel(
            f'family must be "{GAUSSIAN}", got {family!r:.40}: outcomes are real numbers with Gaussian noise, '
            "others are not there yet; a logarithm brings positive outcomes near to that"
        )


__all__ = ["MixedEffectRegressor", "VarianceTable", "tune"]

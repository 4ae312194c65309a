"""The scikit-learn estimator: ``fit``, ``predict``, ``partial_fit`` and ``forget`` on arrays and data frames.

It is an ``Engine`` behind scikit-learn's interface. The argument ``task`` (routed metadata), or a column of a data
frame, holds the task of each row.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.gaussian_process.kernels import Kernel
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from motet.arrays import Array, Index, numbers
from motet.engine.engine import Engine, labels_of
from motet.engine.system import Method
from motet.errors import InvalidData, InvalidModel, warn
from motet.kernels.nystrom import LANDMARKS
from motet.model.basis import BasisSpec, Bias
from motet.model.tasks import nystrom_residual
from motet.regression.effects import fixed_effects, random_effects
from motet.regression.formula import SETTLED, Formula
from motet.regression.parameters import GAUSSIAN, MISSING, check_family, check_parameters, settings_of
from motet.regression.profiles import Profile, profile
from motet.regression.residuals import LeaveOut, diagnostics, leave_out
from motet.regression.results import Results, VarianceTable
from motet.regression.scales import IDENTITY, SCALES, Distribution, quantiles
from motet.regression.summary import Summary
from motet.regression.tables import Table
from motet.regression.target import fit_target
from motet.regression.unknown import predict_encoded
from motet.release.disclosed import Disclosed
from motet.tables.encoding import Encoding
from motet.tables.frames import check_inputs, columns_of, complete_rows, missing_outputs, split_tasks, warn_of_outliers
from motet.tables.grouping import ONE_ROW_EACH, warn_of_groups
from motet.tables.missing import Missing
from motet.tables.rows import Rows, noise_of
from motet.text import count
from motet.tuning.defaults import TUNING_ROWS, Auto
from motet.tuning.phases import Phases
from motet.tuning.robust import ChosenNoise, Learned, NoiseChoice, fit_noise
from motet.tuning.search import Step
from motet.tuning.tuning import Tuning

ONE_TASK = "all rows"
TOLD_SHARE = 0.01  # of the shifts' variance, residual to landmarks, from which on fit warns


class MixedEffectRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Each task's function is the average of all plus a shift of its own.

    ``fit`` chooses the settings by evidence: how smooth the average is, how much tasks differ, and in what; how large
    the noise is. What is given is where the search starts; numbers of kernels that are marked ``"fixed"`` stay.

    Parameters
    ----------
    common, individual
        Kernels of the average and of the shifts: objects of scikit-learn or ``motet.kernels``; names of the closed list
        such as ``"rbf"``, which read scaled inputs; or ``"auto"``: of a smooth average, and of an intercept, slopes and
        a smooth part of the shifts, whatever the evidence and rows that are left out ask for. ``common=None`` leaves
        the bias alone as the average: with a linear ``individual`` this is a linear mixed model.
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
    missing
        What a row with missing inputs is to ``fit`` and ``predict``: ``"leave out"`` leaves it out with a warning, and
        predicts NaN; ``"indicator"`` keeps it, with an effect of its own: of a number, which is read as the column's
        mean there, or as one more level of a category.
    target
        The scale on which outputs are learned: ``"identity"``, ``"log"`` for outputs above 0 whose effects multiply, or
        ``"auto"``: the logarithm where rows and tasks that are left out are predicted better by it, if kernels, bias,
        basis and ``sigma2`` are chosen as well. ``predict``, ``predict_quantiles``, ``score`` and ``loo`` are of the
        outputs themselves; effects, components, evidence, diagnostics and the release are of what is learned.
    noise
        ``"gaussian"``: of one scale; ``"tasks"``: a scale for each task; ``"student"``: Student's t, in which outliers
        weigh little. ``"auto"`` chooses by rows that are left out, if a kernel is chosen too and ``sigma2`` is None.
    verbose
        1 tells the phases of ``fit``, and of the search a line every few seconds, on standard error; 2 every step.

    Attributes
    ----------
    engine_
        The fitted model, with every task's examples.
    tuning_
        What the search found; None if there was none.
    target_
        ``"log"`` if logarithms of outputs were learned, else ``"identity"``.
    noise_
        How the noise of rows differs; None if it does not.
    encoding_
        How columns of words, categories and dates, and missing cells, are read.
    shifts_residual_
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
    target_: str
    tuning_: Tuning | None
    noise_: ChosenNoise | None
    shifts_residual_: float

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
        missing: Literal["leave out", "indicator"] = "leave out",
        target: Literal["auto", "identity", "log"] = "auto",
        noise: NoiseChoice = "auto",
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
        self.missing = missing
        self.target = target
        self.noise = noise

    @classmethod
    def from_formula(
        cls, formula: str, data: Any, *, sample_weight: Any = None, **settings: Any
    ) -> MixedEffectRegressor:
        """The mixed model of a formula such as ``"y ~ age*sex + (1 + age | id)"``, fitted to a data frame.

        The fixed part is the bias, the groups are the tasks. Then all methods take frames with the same columns; a
        group that was not fitted is a new individual. ``settings`` are the regressor's, but for those of the formula.
        """
        if given := [name for name in SETTLED if name in settings]:
            raise InvalidModel(f"the formula has {' and '.join(given)} already: omit that")
        check_family(settings.get("family", GAUSSIAN))
        if settings.get("missing", MISSING[0]) != MISSING[0]:
            raise InvalidModel('a formula leaves rows with missing values out: omit missing="indicator"')
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

        Rows with missing values are left out, with a warning, unless ``missing="indicator"``; and those of weight 0.
        A data frame may have columns of words, categories, truth values and dates.
        """
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
        self.noise_ = None if self.noise_ is None else self.noise_.without(task)
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
        report: Callable[[Step], object] | None = None,
    ) -> MixedEffectRegressor:
        check_parameters(self)
        phases = Phases.of(self.verbose)

        def step(step: Step) -> None:
            phases.step(step)
            if report is not None:
                report(step)

        rows = self._rows(X, y, task, sample_weight, reset=reset)
        if not reset and rows.single_task != self.single_task_:
            raise InvalidData("expected task= in every call or in none, got it in some: give it every time or never")
        if not reset:
            noise = rows.noise if self.noise_ is None else rows.noise * self.noise_.of_new_rows(rows.tasks)
            self.engine_.learn_many(rows.tasks, rows.X, SCALES[self.target_].learned(rows.y), noise)
            return self
        table = count(len(rows.y), "row")
        if not rows.single_task:
            table += f" of {count(len(rows.sizes), 'task')}"
        phases.begin(f"model: {table}, {count(rows.X.shape[1], 'column')} of inputs")
        settings = settings_of(self)
        if tune:
            scale, model, tuning = fit_target(rows, settings, self.target, begin=phases.begin, report=step)
        else:
            scale, model, tuning = SCALES.get(self.target, IDENTITY), settings.model(rows), None
        learned = Learned(replace(rows, y=scale.learned(rows.y)), model, tuning)
        learned = fit_noise(learned, settings, self.noise, begin=phases.begin, report=step)
        rows, model, tuning = learned.rows, learned.model, learned.tuning
        if tuning is not None and 1 < len(rows.sizes) == len(rows.y):
            warn(ONE_ROW_EACH.format("task"))
        phases.begin(f"fit of {table}")
        engine = Engine(model)
        engine.learn_many(rows.tasks, rows.X, rows.y, rows.noise)
        engine.disclose()  # so that a wrong model is refused here
        self.engine_, self.single_task_, self.tuning_ = engine, rows.single_task, tuning
        self.target_, self.noise_ = scale.name, learned.noise
        self.shifts_residual_ = nystrom_residual(model.individual, rows.task, rows.X)
        if self.shifts_residual_ > TOLD_SHARE:
            warn(
                f"tasks of up to {rows.longest} rows: their shifts are computed through {LANDMARKS} landmarks among "
                f"each one's inputs, which miss {self.shifts_residual_:.0%} of their variance (it counts as noise)"
            )
        return self

    def _rows(self, X: Any, y: Any, task: Any, sample_weight: Any, *, reset: bool) -> Rows:
        """The rows to learn, checked, without those that have missing values or no weight."""
        X, task = self._split(X, task, needed=True)
        if y is None:
            raise InvalidData("fit requires y to be passed, but the target y is None")
        indicators = self.missing == "indicator"
        if reset:
            self.encoding_ = Encoding.of(X, may_be_task=task is None, indicators=indicators)
        X = self.encoding_.read(X, learning=True)
        check_inputs(X, self.task, None)
        known = ~missing_outputs(y)
        y = np.where(known, y, 0.0) if not known.all() else y
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, reset=reset, ensure_all_finite="allow-nan")
        y = column_or_1d(y, warn=True).astype(np.float64)
        of_frame = hasattr(self, "feature_names_in_")
        if reset and indicators:
            self.encoding_ = self.encoding_.with_fillers(X, self._columns, has_names=of_frame)
        noise, weighted = noise_of(sample_weight, len(X))
        labels = [ONE_TASK] * len(X) if task is None else labels_of(task, len(X))
        complete = complete_rows(Missing([*self._columns, "y"], np.column_stack([self.encoding_.absent(X), ~known])))
        kept = complete[weighted[complete]]
        if len(kept) < len(X):
            X, y, noise, labels = X[kept], y[kept], noise[kept], [labels[i] for i in kept]
        if reset:
            quantities, names = self.encoding_.quantities(X, self._columns)
            warn_of_outliers({**dict(zip(names, quantities.T)), "y": y}, kept)
            if task is None:
                warn_of_groups(quantities, y, names, of_frame=of_frame)
        return Rows.of(labels, self.encoding_.expand(X), y, noise, single_task=task is None)

    # --- results ---

    @property
    def disclosed_(self) -> Disclosed:
        """The release: the same object that a server publishes; of logarithms, if those are learned."""
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
        """Variance components of what is learned: average, individual and noise (of an observation of weight 1)."""
        check_is_fitted(self)
        return VarianceTable.of(self.engine_)

    @property
    def results_(self) -> Results:
        """All that tables of results are computed from."""
        check_is_fitted(self)
        method = self.method if self.tuning_ is None else self.tuning_.method
        names = self.encoding_.names or self._columns
        return Results(self.engine_, self.tuning_, method, names, self.encoding_, SCALES[self.target_], self.noise_)

    @property
    def _columns(self) -> list[str]:
        """The names of a frame's columns of inputs, or of an array's."""
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
        inputs = None if inputs is None else self.encoding_.expand(inputs)
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
        ``return_std`` adds standard deviations of the function, or with ``observation`` of an observation. A level of a
        category that was not learned is one more such level: the mean over those that were, with the variance between
        them. A row with missing inputs is predicted as NaN, or so as well with ``missing="indicator"``.
        """
        check_is_fitted(self)
        task = _one_of(task, groups)
        if not return_std and self.target_ == "identity":
            return self._predicted(X, task, False, False)
        predicted = self._distribution(X, task, observation or not return_std)
        return (predicted.mean, predicted.std) if return_std else predicted.mean

    def predict_quantiles(
        self,
        X: Any,
        task: Any = None,
        q: float | Sequence[float] = (0.05, 0.5, 0.95),
        observation: bool = True,
        *,
        groups: Any = None,
    ) -> Array:
        """A column for each of ``q``, of an observation of each row's task, or of the function. By default a 90 % band
        with its median: bands of logarithms are not symmetric, and above 0."""
        check_is_fitted(self)
        return quantiles(self._distribution(X, _one_of(task, groups), observation), q)

    def _distribution(self, X: Any, task: Any, observation: bool) -> Distribution:
        """Of what is predicted, in the outputs' unit."""
        moments = partial(self._predicted, X, task, True)
        return SCALES[self.target_].predicted(moments, observation=observation)

    def _predicted(self, X: Any, task: Any, return_std: bool, observation: bool) -> Any:
        """On the scale that is learned."""
        X, task = self._split(X, task, needed=False)
        X = self._inputs(X)
        if self.single_task_:
            if task is not None:
                raise InvalidData("this model was fitted without tasks: omit task= in predict, or fit it with task=")
            task = np.full(len(X), ONE_TASK)
        task = None if task is None else labels_of(task, len(X))
        if self.encoding_.columns is None and not np.isnan(X).any():
            return self._predict(X, task, return_std, observation)

        def predict(inputs: Array, rows: Index) -> Any:
            return self._predict(inputs, None if task is None else [task[i] for i in rows], return_std, observation)

        is_nan = self.missing == "leave out"
        mean, std = predict_encoded(predict, X, self.encoding_, self.engine_.inputs, missing_is_nan=is_nan)
        return (mean, std) if return_std else mean

    def _predict(self, X: Array, task: Any, return_std: bool, observation: bool) -> Any:
        if task is None:
            return self.disclosed_.average(X, return_std, observation)
        predicted = self.engine_.predict_many(task, X, return_std, observation)
        if self.noise_ is None or not (return_std and observation):
            return predicted
        mean, std = predicted
        more = self.noise_.of_observations(task) - 1.0
        return mean, np.sqrt(std**2 + more * self.components_.noise)

    def score(self, X: Any, y: Any, task: Any = None, sample_weight: Any = None, *, groups: Any = None) -> float:
        """R² of the predictions for each row's task."""
        return float(r2_score(y, self.predict(X, _one_of(task, groups)), sample_weight=sample_weight))

    def _inputs(self, X: Any) -> Array:
        """Inputs as those that were fitted, a number for each column."""
        names = getattr(self, "feature_names_in_", None)
        X = self.encoding_.read(X, learning=False)
        check_inputs(X, self.task, None if names is None else list(names))
        return np.asarray(validate_data(self, X, dtype=np.float64, reset=False, ensure_all_finite="allow-nan"))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # rows with missing values are left out, or read
        tags.target_tags.positive_only = self.target == "log"
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


def _one_of(task: Any, groups: Any) -> Any:
    """The tasks, by either name."""
    if task is not None and groups is not None:
        raise InvalidData("task= and groups= both name the group of each row: give one of them")
    return groups if task is None else task


__all__ = ["MixedEffectRegressor", "settings_of"]

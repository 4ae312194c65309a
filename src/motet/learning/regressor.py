"""The scikit-learn estimator: ``fit``, ``predict``, ``partial_fit`` and ``forget`` on arrays and data frames.

It is an ``Engine`` behind scikit-learn's interface. The argument ``task`` (routed metadata), or a column of a data
frame, holds the task of each row.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.gaussian_process.kernels import Kernel
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from motet.arrays import Array, Index, numbers
from motet.errors import EmptyData, InvalidData, WrongDimension
from motet.learning.engine import Engine, labels_of
from motet.learning.frames import check_inputs, split_tasks
from motet.model.basis import BasisSpec, Bias
from motet.model.model import Model
from motet.model.spec import from_spec
from motet.release.disclosed import Disclosed

ONE_TASK = "all rows"
NAMED_KERNELS = {"dot_product": {"sigma_0": 0.0}}  # parameters of a kernel given by its name, if not the defaults


@dataclass(frozen=True)
class Components:
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

    Parameters
    ----------
    common, individual
        Kernels of the average and of the shifts: objects of scikit-learn or ``motet.kernels``, or names of the closed
        list such as ``"rbf"``. ``common=None`` leaves the bias alone as the average: with a linear ``individual`` this
        is a linear mixed model.
    alpha
        Share of the common kernel, in [0, 1]: 0 learns tasks separately, 1 pools them.
    lam
        Noise variance, relative to the kernels'.
    bias
        ``"none"``, ``"constant"`` or ``"linear"``: functions of the average that are not penalised.
    basis
        None, ``Landmarks``, ``Eigen`` or ``Features``. None grows with the inputs and is exact, but its time grows with
        the cube of the number of different inputs: a few seconds at 2,000 of them, eight times as long at 4,000. With
        more, or in a search over many fits, give ``Landmarks`` (for example a sample of the inputs) or, for a linear
        ``common``, ``Features``.
    sigma2
        Scale of all variances; None estimates it.
    task
        The column of a data frame that holds each row's task.
    """

    # What metadata routing passes on by default.
    __metadata_request__fit = {"task": True}  # noqa: RUF012
    __metadata_request__partial_fit = {"task": True}  # noqa: RUF012
    __metadata_request__predict = {"task": True}  # noqa: RUF012
    __metadata_request__score = {"task": True}  # noqa: RUF012

    engine_: Engine
    single_task_: bool

    def __init__(
        self,
        common: Kernel | str | None = "rbf",
        individual: Kernel | str = "dot_product",
        alpha: float = 0.1,
        lam: float = 1e-3,
        bias: Bias = "constant",
        basis: BasisSpec | None = None,
        sigma2: float | None = None,
        task: Hashable = None,
    ) -> None:
        self.common = common
        self.individual = individual
        self.alpha = alpha
        self.lam = lam
        self.bias = bias
        self.basis = basis
        self.sigma2 = sigma2
        self.task = task

    # --- learning ---

    def fit(self, X: Any, y: Any, task: Any = None, sample_weight: Any = None) -> MixedEffectRegressor:
        """Learn from scratch. Without tasks all rows are one task; rows of weight 0 are left out."""
        return self._learn(X, y, task, sample_weight, reset=True)

    def partial_fit(self, X: Any, y: Any, task: Any = None, sample_weight: Any = None) -> MixedEffectRegressor:
        """Learn more rows, exactly: as if all had been fitted at once."""
        return self._learn(X, y, task, sample_weight, reset=not hasattr(self, "engine_"))

    def forget(self, task: Hashable) -> MixedEffectRegressor:
        """Forget a task, exactly: as if it had never been fitted."""
        check_is_fitted(self)
        self.engine_.forget(task)
        return self

    def _learn(self, X: Any, y: Any, task: Any, sample_weight: Any, *, reset: bool) -> MixedEffectRegressor:
        X, task = self._split(X, task, needed=True)
        if y is None:
            raise InvalidData("fit requires y to be passed, but the target y is None")
        check_inputs(X, self.task, None)
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, reset=reset)
        y = column_or_1d(y, warn=True).astype(np.float64)
        if not reset and (task is None) != self.single_task_:
            raise InvalidData("fitted with tasks and without: give task every time or never")
        noise, weighted = _noise(sample_weight, len(X))
        engine = Engine(self._model()) if reset else self.engine_
        labels = [ONE_TASK] * len(X) if task is None else labels_of(task, len(X))
        if not weighted.all():
            X, y, noise = X[weighted], y[weighted], noise[weighted]
            labels = [labels[i] for i in np.flatnonzero(weighted)]
        engine.learn_many(labels, X, y, noise)
        if reset:
            engine.disclose()  # so that a wrong model is refused here
        self.engine_, self.single_task_ = engine, task is None
        return self

    def _model(self) -> Model:
        kernels = (self.common, self.individual)
        common, individual = (
            from_spec({"kernel": k, **NAMED_KERNELS.get(k, {})}) if isinstance(k, str) else k for k in kernels
        )
        return Model(common, individual, self.alpha, self.lam, self.bias, self.basis, self.sigma2)

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
    def components_(self) -> Components:
        """Variance components: average, individual and noise (of an observation of weight 1)."""
        check_is_fitted(self)
        model, X = self.engine_.model, self.engine_.inputs
        common = 0.0 if model.common is None else model.common_share * float(np.mean(model.common.diag(X)))
        individual = model.individual_share * float(np.mean(model.individual.diag(X)))
        return Components(*(float(self.sigma2_) * part for part in (common, individual, model.lam)))

    # --- prediction ---

    def predict(self, X: Any, task: Any = None, return_std: bool = False, observation: bool = False) -> Any:
        """Each row's task at its input; without tasks the average function.

        A label that was not learned, or a missing one, is a new individual: the average, with all variance of a shift.
        ``return_std`` adds standard deviations of the function, or with ``observation`` of an observation.
        """
        check_is_fitted(self)
        X, task = self._split(X, task, needed=False)
        names = getattr(self, "feature_names_in_", None)
        check_inputs(X, self.task, None if names is None else list(names))
        X = validate_data(self, X, dtype=np.float64, reset=False)
        if self.single_task_:
            if task is not None:
                raise InvalidData("fitted without tasks, so predict takes none")
            task = np.full(len(X), ONE_TASK)
        if task is None:
            return self.disclosed_.average(X, return_std, observation)
        return self.engine_.predict_many(task, X, return_std, observation)

    def score(self, X: Any, y: Any, task: Any = None, sample_weight: Any = None) -> float:
        """R² of the predictions for each row's task."""
        return float(r2_score(y, self.predict(X, task), sample_weight=sample_weight))

    def _split(self, X: Any, task: Any, *, needed: bool) -> tuple[Any, Any]:
        """The inputs without the task column, and the tasks, which are needed to learn and not to predict."""
        if self.task is None:
            return X, task
        if task is not None:
            raise InvalidData(f"tasks are in the column {self.task!r} already: leave task= out")
        return split_tasks(X, self.task, required=needed)


def _noise(sample_weight: Any, n: int) -> tuple[Array, Index]:
    """Noise variances 1/weight, and which rows have a positive weight."""
    if sample_weight is None:
        return np.ones(n), np.ones(n, dtype=bool)
    weight = numbers(sample_weight, "sample_weight")
    weight = np.full(n, float(weight)) if weight.ndim == 0 else weight
    if weight.shape != (n,):
        raise WrongDimension(f"sample_weight must hold {n} numbers, one for each row, got shape {weight.shape}")
    if not (good := np.isfinite(weight) & (weight >= 0)).all():
        row = int(np.argmin(good))
        raise InvalidData(f"sample_weight must be finite and not negative; row {row} is {weight[row]}")
    if not weight.any():
        raise EmptyData("every sample_weight is zero: nothing to learn")
    with np.errstate(divide="ignore"):
        return 1.0 / weight, weight > 0


__all__ = ["Components", "MixedEffectRegressor"]

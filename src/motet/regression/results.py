"""What a fitted regressor knows, in the form that summaries, effects, residuals and comparisons are computed from."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from motet.arrays import Array, Index
from motet.engine.engine import Engine
from motet.engine.system import Method, System
from motet.regression.description import INTERCEPT
from motet.regression.scales import IDENTITY, Scale
from motet.tables.encoding import Encoding
from motet.threads import blas_limit
from motet.tuning.components import Component, Components
from motet.tuning.robust import ChosenNoise
from motet.tuning.tuning import Tuning

Z95 = 1.959963984540054  # of a normal distribution's 95 % interval


@dataclass(frozen=True)
class VarianceTable:
    """Where the variance of an observation comes from, on average over the inputs learned."""

    average: float
    individual: float
    noise: float

    @classmethod
    def of(cls, engine: Engine) -> VarianceTable:
        model, X, sigma2 = engine.model, engine.inputs, float(engine.evidence().sigma2)
        common = 0.0 if model.common is None else model.common_share * float(np.mean(model.common.diag(X)))
        individual = model.individual_share * float(np.mean(model.individual.diag(X)))
        return cls(sigma2 * common, sigma2 * individual, sigma2 * model.noise.observation(1.0))

    def __str__(self) -> str:
        total = self.average + self.individual + self.noise
        lines = [f"{'component':<12}{'variance':>12}{'std':>12}{'share':>9}"]
        for name in ("average", "individual", "noise"):
            value = getattr(self, name)
            lines.append(f"{name:<12}{value:>12.4g}{value**0.5:>12.4g}{value / total if total else 0.0:>9.1%}")
        return "\n".join(lines)

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class Results:
    """An engine with all that was learned, how its settings were chosen (None: given), and the inputs' names."""

    engine: Engine
    tuning: Tuning | None
    method: Method
    names: list[str]
    encoding: Encoding = field(default_factory=Encoding)
    scale: Scale = IDENTITY  # on which outputs are learned: all numbers here are of that
    noise: ChosenNoise | None = None  # of rows, if it differs

    @cached_property
    @blas_limit
    def system(self) -> System:
        """All tasks solved."""
        return System.of_tasks(self.engine.model, *self.engine.folded(), self.method)

    @cached_property
    def components(self) -> Components:
        """Every summand of both kernels, with its variance in units of the noise's."""
        return Components.of(self.engine.model, self.system.X) if self.tuning is None else self.tuning.components

    @property
    def fixed(self) -> list[str]:
        """The names of the fixed effects: an intercept, and the columns in which the bias has a slope."""
        basis = self.system.columns.basis
        return [] if basis.bias == "none" else [INTERCEPT, *(self.names[k] for k in basis.slopes)]

    @property
    def sigma2(self) -> float:
        return float(self.system.evidence.sigma2)

    @property
    def noise_variance(self) -> float:
        """σ²λ: of an observation of weight 1."""
        return self.sigma2 * self.engine.model.noise.variance(1.0)

    @property
    def zero(self) -> tuple[Component, ...]:
        """Components that the data did not ask for, or that were given no share."""
        if self.tuning is not None:
            return self.tuning.zero
        model = self.engine.model
        shares = {"average": model.common_share, "individual": model.individual_share}
        return tuple(c for c in self.components.terms if not shares[c.side])

    # --- criteria ---

    @property
    def criterion(self) -> float:
        """−2 · log evidence."""
        return -2.0 * self.system.evidence.log_evidence

    @property
    def parameters(self) -> int:
        """Fixed effects and variance parameters, as lme4 counts them, by REML and by ML.

        The latter are the numbers of the covariance that evidence chose, those at 0 and the noise included.
        """
        fixed = self.system.posterior.factor.bias_rank
        if self.tuning is None:
            return fixed + int(self.engine.model.noise.sigma2 is None)
        dropped = [c for c in self.zero if all(c is not other for other in self.components.terms)]
        return fixed + 1 + len(self.components.theta) + sum(c.parameters for c in dropped)

    @property
    def aic(self) -> float:
        return self.criterion + 2.0 * self.parameters

    @property
    def bic(self) -> float:
        return self.criterion + float(np.log(len(self.engine))) * self.parameters

    # --- rows and tasks ---

    @cached_property
    def rows(self) -> tuple[Index, Array, Array, Array]:
        """Of all rows, as they came: the task's number, the input, the output and the noise."""
        return self.engine.rows()

    @cached_property
    def multiplier(self) -> Array:
        """By which the noise of every row was multiplied."""
        _, X, y, noise = self.rows
        return np.ones(len(y)) if self.noise is None else self.noise.multipliers(self.task_labels, X, y, noise)

    @property
    def of_observations(self) -> Array:
        """By which the noise of an observation is multiplied, of every row's task."""
        return np.ones(len(self.rows[0])) if self.noise is None else self.noise.of_observations(self.task_labels)

    @cached_property
    def labels(self) -> dict[int, Hashable]:
        """The label of every task, by number."""
        numbers = np.unique(self.rows[0]).tolist()
        return dict(zip(numbers, self.engine.labels(numbers)))

    @property
    def task_labels(self) -> list[Hashable]:
        """The label of every row."""
        return [self.labels[int(task)] for task in self.rows[0]]

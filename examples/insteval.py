"""73,421 marks that 2,972 students gave 1,128 lecturers (lme4's InstEval): two crossed groups.

Students are the tasks, with an intercept each; lecturers are levels of the average. Both only have a name, so this is
the one example with settings. Known students alone are tried, once: here is how two crossed
groups go, and that they are lme4's to the last digit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, TargetEncoder
from threadpoolctl import threadpool_limits

from examples.peers import Learner, Mean, Motet, Prediction, Refitting, Separate
from examples.protocol import BAND, KNOWN, Trial, known_splits
from examples.report import PICTURES, publish
from examples.rows import Rows, load
from motet import MixedEffectRegressor, plots
from motet.arrays import Array, Index
from motet.kernels import ConstantKernel, Identity
from motet.plots.axes import BLUE

mpl.use("Agg")
import matplotlib.pyplot as plt

CROSSED = {"common": Identity(), "individual": ConstantKernel(1.0), "bias": "constant"}
LME4 = 237777.726, (0.3259, 0.5230, 1.1778)  # y ~ 1 + (1 | s) + (1 | d) by ML: criterion; student, lecturer, residual


class Encoded(Refitting):
    """A learner of scikit-learn on student and lecturer; its errors in cross-validation are its deviation."""

    def __init__(self, name: str, pipeline: Pipeline) -> None:
        self.name, self.pipeline = name, pipeline

    def fit(self, rows: Rows) -> None:
        Z = np.column_stack([rows.X, rows.task])
        folds = KFold(3, shuffle=True, random_state=0)
        self.std = float((rows.y - cross_val_predict(self.pipeline, Z, rows.y, cv=folds)).std())
        self.pipeline.fit(Z, rows.y)

    def predict(self, X: Array, task: Index) -> Prediction:
        return self.pipeline.predict(np.column_stack([X, task])), np.full(len(X), self.std)


class StudentMeans(Separate):
    """Each student's mean, without a look at the lecturer."""

    name = "mean of each student"

    def fit(self, rows: Rows) -> None:
        super().fit(Rows(rows.X[:, :0], rows.y, rows.task))

    def predict(self, X: Array, task: Index) -> Prediction:
        return super().predict(X[:, :0], task)


def learners() -> list[Learner]:
    motet = Motet(**CROSSED)
    motet.name = "Motet, crossed"
    boosting = HistGradientBoostingRegressor(random_state=0)
    return [
        motet,
        Encoded("gradient boosting, encoded", make_pipeline(TargetEncoder(), boosting)),
        Encoded("ridge, one-hot", make_pipeline(OneHotEncoder(handle_unknown="ignore"), Ridge(5.0))),
        StudentMeans(),
        Mean(),
    ]


@threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator]
def main(rows: Rows, folder: Path | None = None) -> Trial:
    trial = Trial()
    for train, test in known_splits(rows, 1):
        for learner in learners():
            trial.tune(learner, rows.take(train))
            trial.predict(learner, KNOWN, rows.take(test))
    reg = MixedEffectRegressor(**CROSSED, method="ML").fit(rows.X, rows.y, task=rows.task)
    missing = ["linear mixed model (statsmodels keeps crossed groups in one dense matrix)"]
    publish("insteval", trial, missing, folder, more=agreement(reg))
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    plots.shrinkage(reg, ax=axes[0]).set_title("students")
    lecturers(reg, axes[1])
    figure.savefig((folder or PICTURES) / "example-insteval.png", dpi=100)
    return trial


def agreement(reg: MixedEffectRegressor) -> list[str]:
    """The criterion and the standard deviations of all rows, beside what lme4 publishes."""
    parts = reg.components_
    ours = np.sqrt([parts.individual, parts.average, parts.noise])
    tuning = reg.tuning_
    assert tuning is not None
    lines = ["| all rows, ML | −2 log likelihood | student | lecturer | residual |", "|---|---|---|---|---|"]
    for name, value, stds in (("Motet", -2 * tuning.log_evidence, ours), ("lme4", *LME4)):
        lines.append(f"| {name} | {value:.3f} | {' | '.join(f'{std:.4f}' for std in stds)} |")
    return lines


def lecturers(reg: MixedEffectRegressor, ax: Any) -> None:
    """Every lecturer's mark with its band, in order."""
    mean, std = reg.disclosed_.average(reg.engine_.inputs, return_std=True)
    order = np.argsort(mean)
    at, mean, std = np.arange(len(mean)), mean[order], std[order]
    ax.fill_between(at, mean - BAND * std, mean + BAND * std, color=BLUE, alpha=0.3, lw=0, label="90 % band")
    ax.plot(at, mean, color=BLUE, label="estimate")
    ax.set(title="lecturers", xlabel="lecturers, in order", ylabel="mark of an average student")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize="small")


if __name__ == "__main__":
    main(load("lme4", "InstEval", ["d"], "y", "s"))

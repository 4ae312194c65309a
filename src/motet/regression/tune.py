"""``tune``: a regressor whose settings are those that evidence chooses, to be kept from then on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.base import clone

from motet.regression.regressor import MixedEffectRegressor
from motet.tuning.search import Step


def tune(
    reg: MixedEffectRegressor,
    X: Any,
    y: Any,
    task: Any = None,
    sample_weight: Any = None,
    report: Callable[[Step], object] | None = None,
) -> MixedEffectRegressor:
    """The same regressor, fitted, with settings chosen by evidence in place of its own, which it then keeps.

    Its ``tuning_`` has the log of the search, and what is known of every number; ``report`` gets every line of that
    log as it is written.
    """
    best = clone(reg).set_params(optimizer="evidence")
    best._learn(X, y, task, sample_weight, reset=True, tune=True, report=report)
    model = best.engine_.model
    names = ("common", "individual", "alpha", "lam", "bias", "basis")
    noise = "gaussian" if best.noise_ is None else best.noise_.noise.kind
    found = {name: getattr(model, name) for name in names}
    return best.set_params(**found, target=best.target_, noise=noise, optimizer=None)

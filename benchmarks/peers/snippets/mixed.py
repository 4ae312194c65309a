"""A random intercept and slope by maximum likelihood, and predictions for rows of groups that were seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from motet.arrays import Array


def motet(x: Array, y: Array, group: Array, x_new: Array, group_new: Array) -> Array:
    import pandas as pd

    from motet import MixedEffectRegressor

    data = pd.DataFrame({"x": x, "y": y, "group": group})
    reg = MixedEffectRegressor.from_formula("y ~ x + (1 + x | group)", data, method="ML")
    return reg.predict(pd.DataFrame({"x": x_new, "group": group_new}))


def statsmodels(x: Array, y: Array, group: Array, x_new: Array, group_new: Array) -> Array:
    import pandas as pd
    import statsmodels.formula.api as smf

    data = pd.DataFrame({"x": x, "y": y, "group": group})
    fitted = smf.mixedlm("y ~ x", data, groups="group", re_formula="~x").fit(reml=False)
    effects = pd.DataFrame(fitted.random_effects).T.loc[group_new].to_numpy()
    fixed = fitted.fe_params.to_numpy() + effects
    return fixed[:, 0] + fixed[:, 1] * x_new


def gpboost(x: Array, y: Array, group: Array, x_new: Array, group_new: Array) -> Array:
    from gpboost import GPModel

    model = GPModel(group_data=group, group_rand_coef_data=x, ind_effect_group_rand_coef=[1], likelihood="gaussian")
    model.fit(y=y, X=np.column_stack([np.ones_like(x), x]))
    X_new = np.column_stack([np.ones_like(x_new), x_new])
    return model.predict(X_pred=X_new, group_data_pred=group_new, group_rand_coef_data_pred=x_new)["mu"]

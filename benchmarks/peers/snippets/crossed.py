"""Marks of students for lecturers: a mean, and effects of both, by maximum likelihood."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from motet.arrays import Array


def motet(s: Array, d: Array, y: Array, s_new: Array, d_new: Array) -> Array:
    import pandas as pd

    from motet import MixedEffectRegressor

    data = pd.DataFrame({"s": s, "d": d, "y": y})
    reg = MixedEffectRegressor.from_formula("y ~ 1 + (1 | s) + (1 | d)", data, method="ML")
    return reg.predict(pd.DataFrame({"s": s_new, "d": d_new}))


def statsmodels(s: Array, d: Array, y: Array, s_new: Array, d_new: Array) -> Array:
    import pandas as pd
    import statsmodels.formula.api as smf

    data = pd.DataFrame({"s": s, "d": d, "y": y, "one": 1})
    parts = {"s": "0 + C(s)", "d": "0 + C(d)"}
    fitted = smf.mixedlm("y ~ 1", data, groups="one", re_formula="0", vc_formula=parts).fit(reml=False)
    effects = fitted.random_effects[1]
    both = [effects.get(f"s[C(s)[{a}]]", 0.0) + effects.get(f"d[C(d)[{b}]]", 0.0) for a, b in zip(s_new, d_new)]
    return fitted.fe_params.iloc[0] + np.array(both)


def gpboost(s: Array, d: Array, y: Array, s_new: Array, d_new: Array) -> Array:
    from gpboost import GPModel

    model = GPModel(group_data=np.column_stack([s, d]), likelihood="gaussian")
    model.fit(y=y, X=np.ones((len(y), 1)))
    new = np.column_stack([s_new, d_new])
    return model.predict(X_pred=np.ones((len(new), 1)), group_data_pred=new)["mu"]

"""Random examples of four tasks on a grid, so that inputs repeat within tasks and across them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from motet import Engine, Model
from motet.kernels import RBF, DotProduct

GRID = np.linspace(-2, 2, 9)[:, None]
Triple = tuple[str, float, float, float]
triples = st.tuples(
    st.sampled_from("abcd"), st.sampled_from(list(GRID[:, 0])), st.floats(-5, 5), st.sampled_from([0.01, 1.0, 100.0])
)


def learned(rows: list[Triple], basis: Any = None) -> Engine:
    engine = Engine(Model(RBF(1.0), DotProduct(0.5), alpha=0.3, lam=0.1, basis=basis, sigma2=1.0))
    for task, x, y, noise in rows:
        engine.learn(task, [x], y, noise)
    return engine

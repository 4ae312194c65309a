"""One kernel, or several, of every kind in the closed list, on inputs of three columns."""

from __future__ import annotations

import numpy as np

from motet.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Identity,
    Linear,
    Matern,
    On,
    RationalQuadratic,
)

KERNELS = [
    RBF(0.7),
    RBF([0.7, 1.3, 2.0]),
    RBF(0.7, length_scale_bounds="fixed"),
    RBF(0.7, length_scale_bounds=(0.1, 3.0)),
    Matern(0.7, nu=0.5),
    Matern([0.7, 1.3, 2.0], nu=1.5),
    Matern(0.7, nu=2.5),
    Matern(0.7, nu=np.inf),
    Matern(0.7, nu=1.1),
    RationalQuadratic(0.7, 1.7),
    ExpSineSquared(0.7, 2.1),
    DotProduct(0.0),
    DotProduct(0.4),
    ConstantKernel(2.5),
    Identity(),
    Linear(np.array([[2.0, 0.1, 0, 0], [0.1, 1, 0, 0.2], [0, 0, 1, 0], [0, 0.2, 0, 1]])),
    On(RBF([0.7, 1.3]), [2, 0]),
    RBF(1.0) + DotProduct(0.0) * ConstantKernel(0.1) + Identity(),
    RBF(1.0) * (Matern(1.0) + ConstantKernel(0.5)),
    Exponentiation(DotProduct(1.0), 2) + On(RBF(1.0) + Identity(), [1]),
]

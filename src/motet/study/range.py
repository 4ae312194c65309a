"""The range of inputs in which a model can be computed: the bounds of a study that names none.

A double has 16 digits, so a large input has a large rounding error. A kernel value that such an error changes by more
than the smallest noise variance is no longer the model's: covariances lose their inverse, and sums their digits. For a
dot product that is near x² = λw/ε, for a kernel of distance near |x| = ℓλw/ε, with ε = 2⁻⁵².
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from motet.arrays import MAX_MAGNITUDE
from motet.kernels.gram import gram
from motet.model.model import Model

MAGNITUDES = [digit * 10.0**power for power in range(150) for digit in (1, 2, 5)]
PROBES = 4  # directions in which inputs are tried


def largest_input(model: Model, dimension: int, smallest_noise: float) -> float:
    """The largest of MAGNITUDES that an input's column may have.

    1e150 if it may be anything, or if rounding matters even near 1, as for a kernel that compares names: then no bound
    would help.
    """
    kernels = [(model.individual_share, model.individual), (model.common_share, model.common)]

    def too_large(magnitude: float) -> bool:
        used = ((share, kernel) for share, kernel in kernels if share and kernel is not None)
        roundings = [share * _rounding(kernel, dimension, magnitude) for share, kernel in used]
        return not all(rounding <= model.noise.variance(smallest_noise) for rounding in roundings)

    first = bisect_left(MAGNITUDES, True, key=too_large)
    return MAGNITUDES[first - 1] if 0 < first < len(MAGNITUDES) else MAX_MAGNITUDE


@np.errstate(all="ignore")
def _rounding(kernel: Kernel, dimension: int, magnitude: float) -> float:
    """How much a kernel changes if inputs of this magnitude change in their last digit; NaN if it is not finite.

    Between inputs that are equal, and inputs that are apart by all fractions of the magnitude.
    """
    rng = np.random.default_rng(0)
    x = magnitude * np.vstack([np.ones(dimension), rng.uniform(-1.0, 1.0, size=(PROBES - 1, dimension))])
    distances = magnitude * np.append(0.0, 10.0 ** np.arange(-16, 0.01, 0.25))
    y = (x[:, None] - distances[:, None] * np.sign(x[:, None])).reshape(-1, dimension)
    rounded = x * (1 + np.finfo(float).eps)
    return float(np.abs(gram(kernel, rounded, y) - gram(kernel, x, y)).max())

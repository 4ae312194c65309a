"""The formula of a client's estimate: mean and variance of a task's function, given the weights of the average.

For one task at some inputs, or for a stack of tasks, each at its own. Everybody who predicts comes here: one client
(``Estimate``), many clients of a release (``clients``), all tasks of an engine (``learning.predictions``).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from motet.arrays import Array
from motet.linalg import LowRankInverse
from motet.model.tasks import Inverse


def task_coefficients(R: Inverse, y: Array, average: Array) -> Array:
    """a = R(y − Fθ̂); ``average`` is Fθ̂, at the task's own inputs."""
    return np.asarray((R @ (y - average)[..., None])[..., 0])


def task_mean(average: Array, k: Array, a: Array) -> Array:
    """f̂(x) = φ(x)ᵀθ̂ + k a with k = (1−α) k̃(x, h); ``average`` is φ(x)ᵀθ̂.

    In a stack of tasks each has its own k, or all share one.
    """
    shared = k.ndim == 2 and a.ndim == 2
    return np.asarray(average + (a @ k.T if shared else (k @ a[..., None])[..., 0]))


def task_variance(
    spread: Callable[[Array], Array], phi: Array, F: Array, k: Array, R: Inverse, unshared: Array
) -> Array:
    """qᵀΣq + unshared − k R kᵀ with q = φ(x) − FᵀRkᵀ, in units of σ².

    ``phi`` and ``F`` are rows φ at the inputs and at the task's own, in any coordinates; ``spread`` is qᵀΣq of rows q.
    ``unshared`` is the prior variance of all that is not the average's: of the shift, and of what the basis misses.
    """
    kR = k @ R
    rest = np.maximum(unshared - np.einsum("...ij,...ij->...i", kR, k), 0.0)
    return np.asarray(spread(phi - kR @ F) + rest)


# --- a long task, by the features u of its shift: k(x, x′) = u(x)ᵀu(x′), and R has them as its own ---


def feature_mean(average: Array, u: Array, R: LowRankInverse, y: Array, own_average: Array) -> Array:
    """f̂(x) = φ(x)ᵀθ̂ + u(x)ᵀc with the features' weights c = UᵀR(y − Fθ̂); ``own_average`` is Fθ̂."""
    weights = R.weights((y - own_average)[..., None])[..., : u.shape[-1], :]
    return np.asarray(average + (u @ weights)[..., 0])


def feature_variance(
    spread: Callable[[Array], Array], phi: Array, F: Array, u: Array, R: LowRankInverse, unshared: Array
) -> Array:
    """The same number as ``task_variance``. What is left of the weights' variance keeps its digits among many rows."""
    padded = np.concatenate([u, np.zeros((*u.shape[:-1], R.T.shape[-1] - u.shape[-1]))], axis=-1)
    unseen = np.maximum(unshared - np.einsum("...ij,...ij->...i", u, u), 0.0)  # of levels, and of what the basis misses
    return np.asarray(spread(phi - padded @ R.weights(F)) + R.variance(padded) + unseen)

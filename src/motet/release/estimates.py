"""The BLUP of a task's function and its variance, given the weights of the average: the formula of every estimate.

For one task at some inputs, or for a stack of tasks, each at its own. Everybody who predicts comes here: one client
(``Estimate``), many clients of a release (``clients``), all tasks of an engine (``engine.predictions``).
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


def kernel_mean(average: Array, k: Array, a: Array) -> Array:
    """f̂(x) = φ(x)ᵀθ̂ + k a with k = (1−α) k̃(x, h); ``average`` is φ(x)ᵀθ̂.

    In a stack of tasks each has its own k, or all share one.
    """
    shared = k.ndim == 2 and a.ndim == 2
    return np.asarray(average + (a @ k.T if shared else (k @ a[..., None])[..., 0]))


def task_mean(average: Array, k: Array, R: Inverse, y: Array, own_average: Array) -> Array:
    """The same, from a task's outputs; ``own_average`` is Fθ̂.

    Of a long task, whose R is by the features u of its shift, ``k`` are u(x), with k(x, x′) = u(x)ᵀu(x′): then the
    mean is φ(x)ᵀθ̂ + u(x)ᵀc with the features' weights c = UᵀR(y − Fθ̂).
    """
    if not isinstance(R, LowRankInverse):
        return kernel_mean(average, k, task_coefficients(R, y, own_average))
    weights = R.weights((y - own_average)[..., None])[..., : k.shape[-1], :]
    return np.asarray(average + (k @ weights)[..., 0])


def task_variance(
    average_variance: Callable[[Array], Array], phi: Array, F: Array, k: Array, R: Inverse, unshared: Array
) -> Array:
    """The same number as ``kernel_variance``; of a long task ``k`` are u(x), as in ``task_mean``.

    What is left of the features' variance keeps its digits among many rows.
    """
    if not isinstance(R, LowRankInverse):
        return kernel_variance(average_variance, phi, F, k, R, unshared)
    u = np.concatenate([k, np.zeros((*k.shape[:-1], R.T.shape[-1] - k.shape[-1]))], axis=-1)
    unseen = np.maximum(unshared - np.einsum("...ij,...ij->...i", k, k), 0.0)  # of levels, and of the residual
    return np.asarray(average_variance(phi - u @ R.weights(F)) + R.variance(u) + unseen)


def kernel_variance(
    average_variance: Callable[[Array], Array], phi: Array, F: Array, k: Array, R: Inverse, unshared: Array
) -> Array:
    """qᵀΣq + unshared − k R kᵀ with q = φ(x) − FᵀRkᵀ, in units of σ².

    ``phi`` and ``F`` are rows φ at the inputs and at the task's own, in any coordinates, and ``average_variance`` is
    qᵀΣq of rows q.
    ``unshared`` is the prior variance of all that is not the average's: of the shift, and of the basis's residual.
    """
    kR = k @ R
    rest = np.maximum(unshared - np.einsum("...ij,...ij->...i", kR, k), 0.0)
    return np.asarray(average_variance(phi - kR @ F) + rest)

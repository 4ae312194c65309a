"""Fixed effects (GLS), the bias's weights, and random effects (BLUP), every task's shift, with standard deviations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from motet.arrays import Array
from motet.errors import InvalidData
from motet.kernels.algebra import summands
from motet.kernels.classes import affine
from motet.kernels.gram import gram, linear_form
from motet.regression.description import INTERCEPT
from motet.regression.results import Z95, Results
from motet.regression.tables import Table
from motet.release.estimates import kernel_variance
from motet.text import input_text
from motet.threads import blas_limit


@blas_limit
def fixed_effects(results: Results) -> Table:
    """The bias's weights in the inputs' own units, the intercept at input 0: estimate, standard error, 95 % interval.

    A slope that the data do not identify is 0, without a standard error.
    """
    basis, posterior = results.system.columns.basis, results.system.posterior
    width = len(posterior.theta) - basis.rank
    T = np.zeros((width, len(posterior.theta)))
    T[:, basis.rank :] = np.eye(width)
    T[:1, basis.rank + 1 :] = -basis.origin[basis.slopes]  # counted from 0, not from the basis's origin
    W = posterior.whitened(T)
    error = np.sqrt(results.sigma2 * np.einsum("ij,ij->i", W, W))
    error[error == 0.0] = np.nan
    estimate = T @ posterior.theta
    return Table(
        {
            "effect": results.fixed,
            "estimate": estimate,
            "std_error": error,
            "low": estimate - Z95 * error,
            "high": estimate + Z95 * error,
            "t": estimate / error,
        },
        results.scale.titled("Fixed effects"),
    )


def random_effects(results: Results, X: Array | None = None) -> Table:
    """A row for each task: its shift at the inputs X, or without X its intercept and slopes; with standard deviations.

    Intercept and slopes are those of all linear parts of the shift, counted from input 0. The standard deviations
    include what is not known of the average.
    """
    kernel, share = results.engine.model.individual, results.engine.model.individual_share
    if X is None:
        p = results.system.X.shape[1]
        forms = (linear_form(summand, p) for summand in summands(kernel))
        C = share * sum((form for form in forms if form is not None), np.zeros((p + 1, p + 1)))
        if not C.any():
            raise InvalidData("the shifts have no intercept or slopes: give inputs X at which to show them")
        used = np.flatnonzero(np.diag(C) > 0)
        names = [[INTERCEPT, *results.names][k] for k in used]
        return _effects(results, names, lambda Z: C[used] @ affine(Z).swapaxes(-1, -2), np.diag(C)[used])
    names = [f"shift at {input_text(x)}" for x in X]

    def covariance(Z: Array) -> Array:
        """Of the shift at X with that at a stack of tasks' inputs."""
        return np.asarray(share * gram(kernel, np.broadcast_to(X, (len(Z), *X.shape)), Z))

    return _effects(results, names, covariance, share * kernel.diag(X))


@blas_limit
def _effects(results: Results, names: list[str], covariance: Callable[[Array], Array], prior_variance: Array) -> Table:
    """Numbers that depend on a task's shift, given ``covariance``, of them with the shift at the task's inputs."""
    system, count = results.system, len(names)
    values: dict[int, tuple[Array, Array]] = {}
    for batch, a in system.coefficients(count):
        k = covariance(system.X[batch.h])
        mean = (k @ a[:, :, None])[:, :, 0]
        F = system.columns.F[batch.h]
        phi = np.zeros((len(k), count, F.shape[-1]))
        variance = kernel_variance(system.posterior.variance, phi, F, k, batch.R, prior_variance)
        values |= dict(zip(batch.task.tolist(), zip(mean, np.sqrt(results.sigma2 * variance))))
    columns: dict[str, list[object]] = {"task": [label for number, label in results.labels.items()]}
    for i, name in enumerate(names):
        columns[name] = [float(values[number][0][i]) for number in results.labels]
        columns[f"{name} std"] = [float(values[number][1][i]) for number in results.labels]
    return Table(columns, results.scale.titled("Random effects"))

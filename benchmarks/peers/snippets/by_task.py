"""A Gaussian process by tasks, settings given: α e^{xᵀx′} + (1 − α) xᵀx′ within a task, noise λ, unit vectors x."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from motet.arrays import Array

ALPHA, LAM = 0.0714, 3.16e-4


def motet(X: Array, y: Array, task: Array, X_new: Array, task_new: Array) -> Array:
    from motet import MixedEffectRegressor
    from motet.kernels import RBF, ConstantKernel, DotProduct

    kernels: dict[str, Any] = {"common": ConstantKernel(math.e) * RBF(1.0), "individual": DotProduct(0.0)}
    reg = MixedEffectRegressor(**kernels, alpha=ALPHA, lam=LAM, bias="none", basis=None, optimizer=None)
    return reg.fit(X, y, task=task).predict(X_new, task=task_new)


def direct(X: Array, y: Array, task: Array, X_new: Array, task_new: Array) -> Array:
    def kernel(X: Array, task: Array, Z: Array, other: Array) -> Array:
        products = X @ Z.T
        return ALPHA * np.exp(products) + (1 - ALPHA) * (task[:, None] == other) * products

    K = kernel(X, task, X, task) + LAM * np.eye(len(y))
    return kernel(X_new, task_new, X, task) @ np.linalg.solve(K, y)


def scikit_learn(X: Array, y: Array, task: Array, X_new: Array, task_new: Array) -> Array:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import Kernel

    class ByTask(Kernel):  # type: ignore[misc]
        def __init__(self) -> None:
            pass

        def __call__(self, X: Array, Z: Array | None = None, eval_gradient: bool = False) -> Array:  # noqa: ARG002
            Z = X if Z is None else Z
            products = X[:, :-1] @ Z[:, :-1].T
            return ALPHA * np.exp(products) + (1 - ALPHA) * (X[:, -1:] == Z[:, -1]) * products

        def diag(self, X: Array) -> Array:
            return ALPHA * math.e + (1 - ALPHA) * (X[:, :-1] ** 2).sum(axis=1)

        def is_stationary(self) -> bool:
            return False

    process = GaussianProcessRegressor(ByTask(), alpha=LAM, optimizer=None)
    process.fit(np.column_stack([X, task]), y)
    return process.predict(np.column_stack([X_new, task_new]))


def gpytorch(X: Array, y: Array, task: Array, X_new: Array, task_new: Array) -> Array:
    import gpytorch
    import torch
    from gpytorch.kernels import LinearKernel, RBFKernel, ScaleKernel

    columns = tuple(range(X.shape[1]))

    class Process(gpytorch.models.ExactGP):  # type: ignore[misc]
        def __init__(self, X: Any, y: Any, likelihood: Any) -> None:
            super().__init__(X, y, likelihood)
            self.mean = gpytorch.means.ZeroMean()
            self.common = ScaleKernel(RBFKernel(active_dims=columns))
            self.linear = LinearKernel(active_dims=columns)
            self.same_task = RBFKernel(active_dims=(len(columns),))  # so short that it is 1 or 0
            self.covariance = self.common + self.linear * self.same_task

        def forward(self, X: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean(X), self.covariance(X))

    rows = torch.from_numpy(np.column_stack([X, task]))
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    process = Process(rows, torch.from_numpy(y), likelihood).double()
    likelihood.noise = LAM
    process.common.outputscale, process.common.base_kernel.lengthscale = ALPHA * math.e, 1.0
    process.linear.variance, process.same_task.lengthscale = 1 - ALPHA, 0.01
    process.eval()
    exact = gpytorch.settings.max_cholesky_size(100_000)
    with torch.no_grad(), exact, gpytorch.settings.skip_posterior_variances():
        return process(torch.from_numpy(np.column_stack([X_new, task_new]))).mean.numpy()

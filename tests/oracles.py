"""The same answers, slowly: written from the article, sharing nothing with the package but kernel objects.

``direct`` solves the article's eq. 3 over all examples at once; ``Literal`` is its Algorithms 2, 6 and 7 line by line
(with the right γ); ``DenseGP`` is the Gaussian process that the regularised problem is, with a flat prior on the bias.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
KernelFunction = Callable[[Array, Array], Array]


@dataclass
class Problem:
    """Raw examples and a model, as plain functions; ``kernels`` are those of single tasks.

    ``common`` None: K = K̃, and the average is the bias alone.
    """

    tasks: Sequence[Hashable]
    X: Array
    y: Array
    noise: Array
    common: KernelFunction | None
    individual: KernelFunction
    alpha: float
    lam: float
    bias: str | Sequence[int] = "none"
    kernels: Mapping[Hashable, KernelFunction] = field(default_factory=dict)

    @property
    def shares(self) -> tuple[float, float]:
        return (0.0, 1.0) if self.common is None else (self.alpha, 1.0 - self.alpha)

    def psi(self, X: Array) -> Array:
        if self.bias == "none" or (self.alpha == 0 and self.common is not None):
            return np.empty((len(X), 0))
        ones = np.ones((len(X), 1))
        if not isinstance(self.bias, str):
            return np.column_stack([ones, *(X[:, k] for k in self.bias)])
        return ones if self.bias == "constant" else np.hstack([ones, X])

    def cross(self, X1: Array, t1: Sequence[Hashable], X2: Array, t2: Sequence[Hashable]) -> Array:
        """The mixed-effect kernel (eq. 2); the label None is the average task, other unseen labels new ones."""
        common, individual = self.shares
        K = common * self.common(X1, X2) if self.common is not None else np.zeros((len(X1), len(X2)))
        for task in set(t1) & set(t2) - {None}:
            i, j = np.flatnonzero([t == task for t in t1]), np.flatnonzero([t == task for t in t2])
            K[np.ix_(i, j)] += individual * self.kernels.get(task, self.individual)(X1[i], X2[j])
        return K

    @property
    def V(self) -> Array:
        return self.cross(self.X, self.tasks, self.X, self.tasks) + self.lam * np.diag(self.noise)


def direct_condition(p: Problem) -> float:
    return float(np.linalg.cond(p.V))


def direct(p: Problem, X: Array, task: Hashable) -> Array:
    """f̂_task at X by the linear system of eq. 3."""
    Psi = p.psi(p.X)
    d = Psi.shape[1]
    system = np.block([[p.V, Psi], [Psi.T, np.zeros((d, d))]])
    solution = np.linalg.solve(system, np.concatenate([p.y, np.zeros(d)]))
    a, alpha_b = solution[: len(p.y)], solution[len(p.y) :]
    return p.cross(X, [task] * len(X), p.X, p.tasks) @ a + p.psi(X) @ alpha_b


class DenseGP:
    """Prior σ²K, noise σ²λw, flat bias without the directions that the inputs do not identify."""

    def __init__(self, p: Problem, sigma2: float | None = None) -> None:
        self.p = p
        Psi = p.psi(p.X)
        _, s, Vt = np.linalg.svd(Psi, full_matrices=False)
        self.keep = Vt[s > 1e-9 * s.max(initial=0.0)].T if len(s) else np.zeros((Psi.shape[1], 0))
        Psi = Psi @ self.keep
        self.Vinv = np.linalg.inv(p.V)
        self.A = Psi.T @ self.Vinv @ Psi
        self.Psi, self.d = Psi, Psi.shape[1]
        self.beta = np.linalg.solve(self.A, Psi.T @ self.Vinv @ p.y) if self.d else np.zeros(0)
        self.r = p.y - Psi @ self.beta
        self.Q = float(self.r @ self.Vinv @ self.r)
        self.sigma2 = self.Q / (len(p.y) - self.d) if sigma2 is None else sigma2

    @property
    def log_evidence(self) -> float:
        n = len(self.p.y) - self.d
        logs = np.linalg.slogdet(self.p.V)[1] + (np.linalg.slogdet(self.A)[1] if self.d else 0.0)
        return float(-0.5 * (n * np.log(2 * np.pi * self.sigma2) + logs + self.Q / self.sigma2))

    def predict(self, X: Array, task: Hashable) -> tuple[Array, Array]:
        """Mean and standard deviation; task None is the average, an unseen label a new individual."""
        p = self.p
        labels = [task] * len(X)
        k = p.cross(X, labels, p.X, p.tasks)
        psi = p.psi(X) @ self.keep
        mean = k @ self.Vinv @ self.r + psi @ self.beta
        q = psi - k @ self.Vinv @ self.Psi
        variance = np.diag(p.cross(X, labels, X, labels)) - np.einsum("ij,jk,ik->i", k, self.Vinv, k)
        if self.d:
            variance = variance + np.einsum("ij,jk,ik->i", q, np.linalg.inv(self.A), q)
        return mean, np.sqrt(self.sigma2 * np.maximum(variance, 0.0))


class Literal:
    """Algorithm 2 as printed but for γ in case 1; Algorithms 6 and 7 for the clients. K̄ strictly positive."""

    def __init__(self, p: Problem) -> None:
        self.p = p
        self.x = np.empty((0, p.X.shape[1]))
        self.y = np.empty(0)
        self.H = np.empty((0, 0))
        self.L = np.empty((0, 0))
        self.D = np.empty((0, 0))
        self.M = np.empty((0, p.psi(p.X).shape[1]))
        self.h: dict[Hashable, list[int]] = {}
        self.yj: dict[Hashable, Array] = {}
        self.wj: dict[Hashable, Array] = {}
        self.Rj: dict[Hashable, Array] = {}

    def receive(self, j: Hashable, x: Array, yi: float, wi: float) -> None:
        p, alpha, lam = self.p, self.p.alpha, self.p.lam
        s = _find(x, self.x)
        if s == len(self.x):  # lines 3–13
            self._new_input(x)
        h = self.h.setdefault(j, [])
        y, w, R = self.yj.get(j, np.empty(0)), self.wj.get(j, np.empty(0)), self.Rj.get(j, np.empty((0, 0)))
        q = _find(x, self.x[h])
        if q == len(h):  # lines 16–24
            h.append(s)
            y, w = np.append(y, yi), np.append(w, wi)
            k = (1 - alpha) * p.kernels.get(j, p.individual)(x[None], self.x[h])[0]
            u = np.append(R @ k[:-1], -1.0)
            gamma = 1 / (lam * wi - u @ k)
            mu = gamma * (u @ y)
            R = np.pad(R, (0, 1))
        else:  # lines 26–30
            u = R[:, q]
            w[q] = w[q] * wi / (w[q] + wi)
            y[q] += w[q] / wi * (yi - y[q])
            gamma = 1 / ((wi - w[q]) / (lam * w[q] ** 2) - R[q, q])  # printed: λw²/(wᵢ−w) − R
            mu = w[q] * (yi - y[q]) / (wi - w[q]) + gamma * (u @ y)
        R = R + gamma * np.outer(u, u)
        v = self.L[h].T @ u
        z = self.H @ v
        self.y = self.y + mu * v
        if alpha:
            self.H = self.H - np.outer(z, z) / (1 / (alpha * gamma) + v @ z)
        self.yj[j], self.wj[j], self.Rj[j] = y, w, R

    def _new_input(self, x: Array) -> None:
        assert self.p.common is not None
        k = self.p.common(x[None], np.vstack([self.x, x]))[0]
        psi = self.p.psi(x[None])[0]
        r = np.linalg.solve(self.L @ self.D, k[:-1]) if len(self.x) else np.empty(0)
        beta = k[-1] - r @ self.D @ r
        self.M = np.vstack([self.M, (psi - r @ self.D @ self.M) / beta])
        self.H, self.D = _grown(self.H, beta), _grown(self.D, beta)
        self.L = np.block([[self.L, np.zeros((len(r), 1))], [r[None], np.ones((1, 1))]])
        self.x, self.y = np.vstack([self.x, x]), np.append(self.y, 0.0)

    def predict(self, X: Array, j: Hashable) -> Array:
        """Algorithm 6 (or 7, after the client's own examples were received by a local copy)."""
        p, D, M, L, H = self.p, self.D, self.M, self.L, self.H
        assert p.common is not None
        z = H @ self.y
        b = np.linalg.solve(M.T @ (D - H) @ M, M.T @ z) if M.shape[1] else np.zeros(0)
        a_breve = np.linalg.solve(D @ L.T, z + (H - D) @ M @ b)
        mean = p.alpha * (p.common(X, self.x) @ a_breve + p.psi(X) @ b)
        if j in self.h:
            h = self.h[j]
            a = self.Rj[j] @ (self.yj[j] - p.alpha * L[h] @ (z + H @ M @ b))
            mean = mean + (1 - p.alpha) * p.kernels.get(j, p.individual)(X, self.x[h]) @ a
        return mean


def _find(x: Array, xs: Array) -> int:
    hits = np.flatnonzero((xs == x).all(axis=1))
    return int(hits[0]) if len(hits) else len(xs)


def _grown(A: Array, beta: float) -> Array:
    out = np.pad(A, (0, 1))
    out[-1, -1] = beta
    return out


# --- the private release ---


def private_vector(clip: Any, X: Array, y: Array, noise: Array) -> Array:
    """A client's vector (svec(Λʲ)/C_Λ, ηʲ/C_η), shortened to norm 1; repeats enter as rows of their own."""
    model, basis = clip.coordinates.model, clip.coordinates.basis
    F = basis.columns(X) @ clip.coordinates.T
    R = np.linalg.inv(within_task(model, basis, X, X) + model.lam * np.diag(noise))
    Lambda, eta = F.T @ R @ F, F.T @ R @ y
    k = len(eta)
    half = [Lambda[a, b] * (1.0 if a == b else np.sqrt(2.0)) for a in range(k) for b in range(a, k)]
    v = np.concatenate([np.array(half) / clip.C_Lambda, eta / clip.C_eta])
    return v / max(1.0, float(np.linalg.norm(v)))


def within_task(model: Any, basis: Any, X: Array, Y: Array) -> Array:
    """(1−α)K̃ + αK̄_res."""
    shift = model.individual_share * model.individual(X, Y)
    if model.common is None:
        return shift
    return shift + model.common_share * (model.common(X, Y) - basis.e(X) @ basis.e(Y).T)


def private_estimate(
    release: Any, others: list[tuple[Array, Array, Array]], client: tuple[Array, Array, Array], at: Array
) -> tuple[Array, Array]:
    """Mean and std of a client's function by one dense Gaussian process; the bias has a very wide prior."""
    model, basis = release.model, release.basis
    tasks = [*others, client]
    X, y, noise = (np.concatenate(parts) for parts in zip(*tasks))
    task = np.repeat(np.arange(len(tasks)), [len(t[1]) for t in tasks])
    wide = np.where(basis.prior == 0, 1e4, model.common_share)

    def K(P: Array, Q: Array, same: Array) -> Array:
        shared = (basis.columns(P) * wide) @ basis.columns(Q).T
        return np.asarray(shared + same * within_task(model, basis, P, Q))

    V = K(X, X, task[:, None] == task) + model.lam * np.diag(noise)
    k = K(at, X, np.ones((len(at), 1)) * (task == len(others)))
    mean = k @ np.linalg.solve(V, y)
    variance = np.diag(K(at, at, np.ones((len(at), len(at))))) - np.einsum("ij,ji->i", k, np.linalg.solve(V, k.T))
    return mean, np.sqrt(model.sigma2 * variance)

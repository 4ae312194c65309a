"""How good a release will be, from the model's own prior: formula 7 of docs/privacy.md.

A ``Forecast`` is the expected error of the average and of a client, and the coverage of bands. No data are used, so a
study may be judged, and a basis chosen, before anybody sends anything. Clients are simulated, and weights θ of the
average and the noise in Λ̃ are drawn a few times; given those, the error is in closed form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import erf, ndtri

from motet.arrays import Array
from motet.errors import InvalidModel
from motet.linalg import smat
from motet.model.model import Model
from motet.privacy.clipping import Clip
from motet.privacy.coordinates import Coordinates
from motet.privacy.denoise import LambdaEstimate, estimate_Lambda, weights_of_eta, weights_of_releases
from motet.privacy.ledger import Ledger
from motet.privacy.mechanism import Mechanism
from motet.privacy.population import Population, SharedResidual, whole_numbers
from motet.privacy.truths import Truths
from motet.threads import blas_limit

BAND_WIDTH = float(ndtri(0.95))  # standard deviations on either side of a 90 % band
MAX_DRAWS, MIN_DRAWS, DRAWN_NUMBERS = 200, 16, 2000  # of θ: more if it is short, because then each number matters more
PREDICTED_CLIENTS = 384  # that errors are means over
GAIN_TOLERANCE = 0.02  # of the gain of sharing, which a smaller rank may lose
CANDIDATE_RANKS = (5, 10, 20, 30, 40, 60, 80, 120, 160)


@dataclass(frozen=True)
class Forecast:
    """Root mean squared errors in the units of y, and shares from 0 to 1.

    ``average``: of the average function. ``function``: of a client's own function, computed from its own examples and
    the release. ``observation``: of its predictions of new observations. ``coverage``: of the 90 % bands of these.
    ``shortened``: the clients that the clip shortens.
    """

    average: float
    function: float
    observation: float
    coverage: float
    shortened: float = 0.0


def mean_forecast(forecasts: Sequence[Forecast], weights: Array | None = None) -> Forecast:
    """Of several alike: root mean squares of the errors, and means of the shares."""

    def mean(name: str, power: float) -> float:
        values = [getattr(one, name) ** power for one in forecasts]
        return float(np.average(values, weights=weights) ** (1 / power))

    errors = (mean(name, 2.0) for name in ("average", "function", "observation"))
    return Forecast(*errors, *(mean(name, 1.0) for name in ("coverage", "shortened")))


class Release(NamedTuple):
    """What a release says of θ, all (k, k): the covariance of θ̂ − θ that it claims, its second moments if the basis
    has no residual, and by how much θ̂ moves if the mean of clients' cη does."""

    covariance: Array
    moments: Array
    response: Array


def expected_errors(
    population: Population, releases: Sequence[Release], residual: SharedResidual, weights: Array | None = None
) -> Forecast:
    """Means over releases, which may have weights, and over clients and their new inputs.

    The residual of the basis is in a client's error and in the release's. What clients differ by
    would hide what releases do, so each client's error is compared with that from one release that is like all.
    """
    sigma2, draws = population.coordinates.sigma2, len(releases)
    weights = np.ones(draws) if weights is None else weights
    Sigma = np.average([release.covariance for release in releases], axis=0, weights=weights)
    everyone = ClientWeights.of(population, slice(max(draws, PREDICTED_CLIENTS)), Sigma)
    usual = everyone.own + _along(everyone.q, Sigma)
    errors, bands, averages, shares = [], [], [], []
    for number, (Sigma, T, J) in enumerate(releases):
        some = slice(number, max(draws, PREDICTED_CLIENTS), draws)
        h, new, (W, q, own) = population.h[some], population.new[some], ClientWeights.of(population, some, Sigma)
        JCK = sigma2 * J @ residual.CK
        shared = (q * (JCK.T[h].swapaxes(1, 2) @ W - JCK.T[new].swapaxes(1, 2)).swapaxes(1, 2)).sum(axis=2)
        T = T + sigma2 * J @ residual.CKC @ J.T
        errors.append(np.maximum(own + _along(q, T) + 2 * shared, 0.0))
        bands.append(np.maximum(own + _along(q, Sigma), 0.0))
        averages.append(np.mean(_along(population.columns, T)) - 2 * sigma2 * np.trace(J @ residual.CK_columns))
        shares.append(np.full(errors[-1].shape, weights[number]))
    error, share = np.concatenate(errors), np.concatenate(shares)
    noise = sigma2 * population.coordinates.model.noise.observation(1.0)
    more = error - np.concatenate([usual[number::draws] for number in range(draws)])
    function, ratio = (
        np.mean(usual) + np.average(more, weights=share),
        (np.concatenate(bands) + noise) / (error + noise),
    )
    average = np.average(averages, weights=weights) + sigma2 * np.mean(np.diag(population.residual))
    return Forecast(
        average=float(np.sqrt(max(average, 0.0))),
        function=float(np.sqrt(max(function, 0.0))),
        observation=float(np.sqrt(max(function, 0.0) + noise)),
        coverage=float(np.average(erf(BAND_WIDTH * np.sqrt(ratio / 2)), weights=share)),
    )


class ClientWeights(NamedTuple):
    """How some clients predict at their new inputs, if a release claims the covariance Σ of θ.

    A client predicts φ(x)ᵀθ̂ + W(y − Fθ̂), so with q = φ(x) − FᵀWᵀ its error is qᵀ(θ̂ − θ) and what is its ``own``, of
    which this is the variance.
    """

    W: Array
    q: Array
    own: Array

    @classmethod
    def of(cls, population: Population, some: slice, Sigma: Array) -> ClientWeights:
        sigma2, h, new = population.coordinates.sigma2, population.h[some], population.new[some]
        F, V, phi = population.F[some], sigma2 * population.V[some], population.columns[new]
        cross = sigma2 * population.K[new[:, :, None], h[:, None]].swapaxes(1, 2)
        W = np.linalg.solve(V + F @ Sigma @ F.swapaxes(1, 2), F @ Sigma @ phi.swapaxes(1, 2) + cross)
        own = sigma2 * np.diag(population.K)[new] + (W * (V @ W - 2 * cross)).sum(axis=1)
        return cls(W, phi - W.swapaxes(1, 2) @ F, own)


def _along(q: Array, S: Array) -> Array:
    """qᵀSq for every row q of a table or of a stack."""
    return np.asarray(((q @ S) * q).sum(axis=-1))


# --- without noise ---


@blas_limit
def alone(population: Population) -> Forecast:
    """For a client that knows the model and has its own examples, and no release."""
    prior = np.diag(population.coordinates.sigma2 * population.coordinates.prior_variance)
    nothing = SharedResidual.of(population, np.zeros(len(population)))
    return expected_errors(population, [Release(prior, prior, np.zeros_like(prior))], nothing)


@blas_limit
def without_noise(population: Population, clients: int, *, seed: int = 0) -> Forecast:
    """For a release without noise and without a clip: θ has the posterior of the model."""
    rng, coordinates = np.random.default_rng(seed), population.coordinates
    each = np.full(len(population), 1 / len(population))
    counts = rng.multinomial(clients, each, size=_draws(coordinates))
    precision = np.diag(1 / coordinates.prior_variance) + population.sums_of_Lambda(counts.astype(float))
    releases = [Release(coordinates.sigma2 * S, coordinates.sigma2 * S, clients * S) for S in np.linalg.inv(precision)]
    return expected_errors(population, releases, SharedResidual.of(population, np.ones(len(population))))


def _draws(coordinates: Coordinates) -> int:
    """How many of θ."""
    return min(MAX_DRAWS, max(MIN_DRAWS, DRAWN_NUMBERS // max(len(coordinates.prior_variance), 1)))


# --- private ---


@dataclass(frozen=True, eq=False)
class Draw:
    """One draw of θ, and what clipped clients tell about it; c are the clients' factors.

    A client's cη is cΛθ and a rest cρ, where ρ = FᵀRn comes from its own part n of y. The clip shortens clients with a
    large n more, so the mean of cρ is −b; by Stein's lemma b = σ²/C_η² E[c³Λη; clipped]. It shortens those whose ρ goes
    the way of Λθ more than others, so cρ falls with cΛθ: by BcΛθ, and a rest.
    """

    theta: Array
    factor: Array  # c
    pull: Array  # b
    pull_error: Array  # the covariance of b, a mean over simulated clients
    mean_Lambda: Array  # of cΛ
    slope: Array  # B
    rest_covariance: Array  # the covariance of cρ − BcΛθ

    @classmethod
    def of(cls, theta: Array, clip: Clip, Lambda: Array, rho: Array) -> Draw:
        sigma2, clients = clip.coordinates.sigma2, len(rho)
        signal = Lambda @ theta
        eta = signal + rho
        size = np.sqrt(np.einsum("mij,mij->m", Lambda, Lambda)) / clip.C_Lambda
        c = 1 / np.maximum(1.0, np.hypot(size, np.linalg.norm(eta, axis=1) / clip.C_eta))
        pull = (sigma2 / clip.C_eta**2 * (c < 1) * c**3)[:, None] * (Lambda @ eta[:, :, None])[:, :, 0]
        u, rest = c[:, None] * signal, c[:, None] * rho
        slope = np.linalg.lstsq(u - u.mean(axis=0), rest - rest.mean(axis=0), rcond=1e-3)[0].T
        mean_Lambda = np.tensordot(c, Lambda, axes=1) / clients
        pull_error, rest_covariance = _covariance(pull) / clients, _covariance(rest - u @ slope.T)
        return cls(theta, c, pull.mean(axis=0), pull_error, mean_Lambda, slope, rest_covariance)


class ClippedPopulation:
    """Simulated clients under a clip, for some draws of θ."""

    @blas_limit
    def __init__(self, population: Population, clip: Clip, *, seed: int = 0) -> None:
        rng, coordinates = np.random.default_rng(seed), population.coordinates
        self.population, self.clip, self._seed = population, clip, seed
        n = np.linalg.cholesky(population.V) @ rng.normal(size=(*population.V.shape[:2], 1))
        rho = np.sqrt(coordinates.sigma2) * (population.FR @ n)[:, :, 0]
        truths = Truths.draw(clip, _draws(coordinates), rng, even=True)
        self.draws = [Draw.of(theta, clip, population.Lambda, rho) for theta in truths.theta]
        self.weights = truths.weights

    @property
    def shortened(self) -> float:
        """The share of clients that the clip shortens."""
        return float(np.average([np.mean(draw.factor < 1) for draw in self.draws], weights=self.weights))

    @blas_limit
    def forecast(self, clients: int | Sequence[int], scale: float) -> Forecast:
        """For a release with noise of this scale; of several, with that many clients in each, for the last one."""
        rng = np.random.default_rng([self._seed, 1])
        sizes = np.maximum.accumulate(whole_numbers("clients", clients, 0))
        weights = weights_of_releases(sizes.tolist(), scale, self.clip.client_variance)
        scale = float(scale * np.linalg.norm(weights))
        joined, weight = np.diff(sizes, prepend=0), np.cumsum(weights[::-1])[::-1]  # of clients, by their first release
        each = np.full(len(self.population), 1 / len(self.population))
        factors = [draw.factor * (weight @ rng.multinomial(joined, each)) for draw in self.draws]
        sums = self.population.sums_of_Lambda(np.array(factors))
        effective = float(joined @ weight), float(joined @ weight**2)
        releases = [self._release(*one, effective, scale, rng) for one in zip(self.draws, sums)]
        expected = expected_errors(self.population, releases, self._residual, self.weights)
        return replace(expected, shortened=self.shortened)

    @cached_property
    def _residual(self) -> SharedResidual:
        factor = np.average([draw.factor for draw in self.draws], axis=0, weights=self.weights)
        return SharedResidual.of(self.population, factor)

    def _release(
        self, draw: Draw, Lambda: Array, effective: tuple[float, float], scale: float, rng: np.random.Generator
    ) -> Release:
        """One release, for a draw of the noise in Λ̃ and in η̃; the latter only for what is not in closed form."""
        clip, k = self.clip, len(Lambda)
        noise = smat(scale * rng.normal(size=clip.size - k), unit=clip.C_Lambda)
        estimate = estimate_Lambda(Lambda + noise, clip.mean_Lambda, scale * clip.C_Lambda)
        clients, squares = effective
        more = (Lambda - clients * draw.mean_Lambda) @ draw.theta  # than the mean of that many clients
        mean = Lambda @ draw.theta + draw.slope @ more - clients * draw.pull
        eta_covariance = squares * draw.rest_covariance + (scale * clip.C_eta) ** 2 * np.eye(k)
        eta = mean + np.linalg.cholesky(eta_covariance) @ rng.normal(size=k)
        covariance, M = self._weights(estimate, eta, scale)
        _, fixed = self._weights(estimate, mean, scale)
        bias = fixed @ mean - draw.theta
        moments = np.outer(bias, bias) + fixed @ (eta_covariance - clients**2 * draw.pull_error) @ fixed.T
        # The weights of η̃ depend on its noise, and are smaller if that is large: by how much, this draw of it says.
        error, error_if_fixed = M @ eta - draw.theta, fixed @ eta - draw.theta
        moments += np.outer(error, error) - np.outer(error_if_fixed, error_if_fixed)
        return Release(covariance, moments, clients * M)

    def _weights(self, estimate: LambdaEstimate, eta: Array, scale: float) -> tuple[Array, Array]:
        """Formula 5: the covariance of θ that a release claims, and M with θ̂ = Mη̃."""
        coordinates = self.clip.coordinates
        LS = weights_of_eta(coordinates, estimate, eta, scale * self.clip.C_eta)
        prior = np.diag(1 / (coordinates.sigma2 * coordinates.prior_variance))
        covariance = np.linalg.inv(prior + LS @ estimate.mean)
        return covariance, covariance @ LS


def _covariance(rows: Array) -> Array:
    return np.atleast_2d(np.cov(rows, rowvar=False))


# --- one study ---


def forecast(
    model: Model,
    *,
    clients: int | Sequence[int],
    examples: int | Sequence[int],
    ledger: Ledger | None,
    points: Any = None,
) -> Forecast:
    """The forecast for private releases under a ledger's budget, or for one without noise if it is None.

    ``clients``: their number, or their numbers in successive releases, for the last of these. ``examples``: how many a
    client has, or a list of such numbers. ``points``: inputs such as clients have, by default the model's own.
    """
    typical = int(np.median(whole_numbers("examples", examples, 1)))
    clip = Mechanism(model, examples=typical, points=points).clip
    population = Population.draw(clip.coordinates, examples)
    if ledger is None:
        return without_noise(population, int(whole_numbers("clients", clients, 0).max()))
    return ClippedPopulation(population, clip).forecast(clients, ledger.scale)


def best_rank(
    model: Model,
    *,
    clients: int,
    examples: int,
    ledger: Ledger,
    ranks: Sequence[int] = CANDIDATE_RANKS,
    advance: Callable[[], object] = lambda: None,
) -> int:
    """The rank of ``Eigen`` that serves the expected clients best under this budget, from public knowledge alone.

    A larger rank leaves less of K̄ and adds noise to more numbers. Of ranks that keep the gain of sharing, the smallest.
    After every rank ``advance`` is called.
    """
    basis = model.basis
    points = None if basis is None or "rank" not in basis.settings() else basis.public_points
    if basis is None or points is None:
        raise InvalidModel(f"expected a model with basis=Eigen(points, rank), got {basis!r}")
    ranks = [rank for rank in ranks if rank <= len(points)] or [len(points)]
    models = [replace(model, basis=replace(basis, rank=rank)) for rank in ranks]  # type: ignore[call-arg]
    forecasts = []
    for one in models:
        forecasts.append(forecast(one, clients=clients, examples=examples, ledger=ledger))
        advance()
    squares = np.array([one.function**2 for one in forecasts])
    apart = alone(Population.draw(Coordinates.of(models[0]), examples)).function ** 2
    good = squares - squares.min() <= GAIN_TOLERANCE * max(apart - squares.min(), 0.0)
    return ranks[int(np.argmax(good))]

"""The privacy budget: how much noise a study needs, how much of ε its releases have spent, and when it ends.

Noise and accounting are OpenDP's: the discrete Gaussian on integers under zero-concentrated differential privacy
(Bun and Steinke 2016, Canonne, Kamath and Steinke 2020), composed over all planned releases and converted to (ε, δ).
Neighbouring studies differ by one client, its whole history present or absent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from motet.arrays import finite_number, is_whole_number
from motet.errors import BudgetSpent, InvalidModel, MotetError

Integers: TypeAlias = NDArray[np.int64]
Perturbation: TypeAlias = Callable[[Integers, float], Integers]  # from a sum and a standard deviation to the noisy sum

UNIT = 2**20  # the norm that no client's vector of integers exceeds
MAX_EPSILON, MAX_DELTA, MAX_RELEASES = 20, 0.01, 10_000


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """(ε, δ) for all planned ``releases`` together, and the part that is spent.

    ``per="study"``: the study ends after its releases. ``per="client"``: each client takes part in at most this many
    releases and then retires, so the study need not end; ``participation`` counts them by client.
    """

    epsilon: float
    delta: float = 1e-5
    releases: int = 1
    per: Literal["study", "client"] = "study"
    releases_made: int = 0
    participation: Mapping[Hashable, int] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if (epsilon := finite_number(self.epsilon)) is None or not 1e-6 <= epsilon <= MAX_EPSILON:
            raise InvalidModel(f"epsilon must be a number from 1e-6 to {MAX_EPSILON}, got {self.epsilon!r}")
        if (delta := finite_number(self.delta)) is None or not 0 < delta <= MAX_DELTA:
            raise InvalidModel(
                f"delta must be a number above 0 and at most {MAX_DELTA}, well below 1 / clients, got {self.delta!r}"
            )
        if not (is_whole_number(self.releases) and 1 <= self.releases <= MAX_RELEASES):
            raise InvalidModel(f"releases must be a whole number from 1 to {MAX_RELEASES:,}, got {self.releases!r}")
        counts = [self.releases_made, *self.participation.values()]
        if not all(is_whole_number(count) and count >= 0 for count in counts):
            raise InvalidModel(f"numbers of releases must be whole numbers from 0, got {counts!r:.60}")
        if self.per not in ("study", "client"):
            raise InvalidModel(f'per must be "study" or "client", got {self.per!r}')

    @property
    def scale(self) -> float:
        """s: standard deviation of the noise, as a multiple of the largest norm of a client's vector."""
        return _scale(float(self.epsilon), float(self.delta), int(self.releases))

    @property
    def releases_left(self) -> int | None:
        """Releases left; None if the budget is per client."""
        return self.releases - self.releases_made if self.per == "study" else None

    @property
    def refusal(self) -> str | None:
        """Why the study makes no further release, in words; None while its budget allows one."""
        if self.per == "client" or self.releases_made < self.releases:
            return None
        return (
            f"the budget (ε = {self.epsilon:g}) is spent: all {self.releases} releases are out; the last one stays "
            "valid, and no more will come"
        )

    def end_for(self, releases: int) -> str | None:
        """Why no later release has a client that has taken part in so many, in words; None while one may."""
        if self.per == "study" or releases < self.releases:
            return self.refusal
        return (
            f"a client's budget (ε = {self.epsilon:g}) is for {self.releases} releases: it has taken part in as many, "
            "and later ones leave it out"
        )

    @property
    def epsilon_spent(self) -> float:
        """ε of the releases so far; if the budget is per client, for a client that took part in all of them."""
        releases = min(self.releases_made, self.releases)
        return epsilon_of(self.scale, float(self.delta), int(releases)) if releases else 0.0

    def retired(self, clients: Iterable[Hashable]) -> set[Hashable]:
        """The clients that have taken part in as many releases as they may."""
        if self.per == "study":
            return set()
        return {client for client in clients if self.participation.get(client, 0) >= self.releases}

    def charged(self, clients: Iterable[Hashable]) -> list[Hashable]:
        """Those of the clients in the next release who pay for it themselves: none if the budget is the study's."""
        retired = self.retired(clients := list(clients))
        return [client for client in clients if client not in retired] if self.per == "client" else []

    def after_release(self, clients: Collection[Hashable]) -> Ledger:
        """The ledger after one more release with these clients; refuses if the budget is spent."""
        if self.refusal is not None:
            raise BudgetSpent(self.refusal)
        if retired := self.retired(clients):
            raise BudgetSpent(
                f"{len(retired)} clients have taken part in {self.releases} releases, all they may: leave them out"
            )
        participation = dict(self.participation)
        if self.per == "client":
            participation |= {client: participation.get(client, 0) + 1 for client in clients}
        return replace(self, releases_made=self.releases_made + 1, participation=participation)


# --- noise and accounting by OpenDP ---


@cache
def _scale(epsilon: float, delta: float, releases: int) -> float:
    """The smallest noise scale with which this many releases together spend at most ε."""
    rho = (math.sqrt(math.log(1 / delta) + epsilon) - math.sqrt(math.log(1 / delta))) ** 2  # gives at most ε
    upper = 1.1 * math.sqrt(releases / (2 * rho))
    lower = math.sqrt(releases / 200)  # ρ = 100, more than an ε of 20 allows
    try:
        return float(
            _opendp().mod.binary_search(lambda s: epsilon_of(s, delta, releases) <= epsilon, bounds=(lower, upper))
        )
    except ValueError:
        raise InvalidModel(
            f"OpenDP finds no noise scale for ε = {epsilon:g}, δ = {delta:g} and {releases} releases"
        ) from None


@cache
def epsilon_of(scale: float, delta: float, releases: int) -> float:
    """ε of this many releases with noise of this scale, at δ."""
    c = _opendp().combinators
    composition = c.make_composition([_gaussian(scale * UNIT)] * releases)
    return float(c.make_fix_delta(c.make_zCDP_to_approxDP(composition), delta).map(float(UNIT))[0])


def opendp_noise(total: Integers, deviation: float) -> Integers:
    """The sum with discrete Gaussian noise of this standard deviation, from the system's entropy."""
    return np.array(_gaussian(deviation)(total.tolist()), dtype=np.int64)


def _gaussian(deviation: float) -> Any:
    dp = _opendp()
    if not math.isfinite(deviation):
        raise InvalidModel(f"the noise needs a finite standard deviation, got {deviation}")
    integers = dp.domains.vector_domain(dp.domains.atom_domain(T="i64"))
    return dp.measurements.make_gaussian(integers, dp.metrics.l2_distance(T="f64"), deviation)


@cache
def _opendp() -> Any:
    """Its modules one by one: its prelude imports much of scikit-learn."""
    try:
        import opendp.combinators
        import opendp.domains
        import opendp.measurements
        import opendp.metrics
        import opendp.mod
    except ImportError:
        raise MotetError("private releases need OpenDP: pip install 'motet[server]'") from None
    opendp.mod.enable_features("contrib")
    return opendp

"""The privacy budget: how much noise a study needs, what its releases have spent, and when it ends.

Noise and accounting are OpenDP's: the discrete Gaussian on whole numbers under zero-concentrated differential privacy
(Bun and Steinke 2016, Canonne, Kamath and Steinke 2020), composed over all planned releases and turned into (ε, δ).
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

from motet.errors import BudgetSpent, InvalidModel, MotetError

Whole: TypeAlias = NDArray[np.int64]
Noise: TypeAlias = Callable[[Whole, float], Whole]  # the sum and a standard deviation to the noisy sum

UNIT = 2**20  # the norm that no client's whole numbers exceed


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """(ε, δ) for a number of ``releases``, and what is spent of it.

    ``per="study"``: the study ends after its releases. ``per="client"``: each client takes part in at most so many and
    then retires, so the study need not end; ``taken`` counts them.
    """

    epsilon: float
    delta: float = 1e-5
    releases: int = 1
    per: Literal["study", "client"] = "study"
    spent: int = 0
    taken: Mapping[Hashable, int] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not (isinstance(self.epsilon, (int, float)) and 1e-6 <= self.epsilon <= 20):
            raise InvalidModel(f"epsilon must be a number from 1e-6 to 20, got {self.epsilon!r}")
        if not (isinstance(self.delta, (int, float)) and 0 < self.delta <= 0.01):
            raise InvalidModel(f"delta must lie in (0, 0.01], well below one over the clients, got {self.delta!r}")
        whole = isinstance(self.releases, int) and not isinstance(self.releases, bool)
        if not whole or not 1 <= self.releases <= 10_000:
            raise InvalidModel(f"releases must be a whole number from 1 to 10,000, got {self.releases!r}")
        counts = [self.spent, *self.taken.values()]
        if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in counts):
            raise InvalidModel(f"releases are counted in whole numbers from 0, got {counts!r:.60}")
        if self.per not in ("study", "client"):
            raise InvalidModel(f"a budget is per study or per client, got {self.per!r}")

    @property
    def scale(self) -> float:
        """Standard deviation of the noise, as a multiple of the largest contribution of a client."""
        return _scale(float(self.epsilon), float(self.delta), self.releases)

    @property
    def left(self) -> int | None:
        """Releases left; None where the budget is per client."""
        return self.releases - self.spent if self.per == "study" else None

    @property
    def epsilon_spent(self) -> float:
        """ε of the releases made so far; where the budget is per client, of one that took part in all it may."""
        made = min(self.spent, self.releases)
        return epsilon_of(self.scale, self.delta, made) if made else 0.0

    def retired(self, clients: Iterable[Hashable]) -> set[Hashable]:
        """Those of the clients who have taken part in all the releases that they may."""
        if self.per == "study":
            return set()
        return {client for client in clients if self.taken.get(client, 0) >= self.releases}

    def charged(self, clients: Collection[Hashable]) -> Ledger:
        """The ledger after one more release, of these clients; refuses when the budget is spent."""
        if self.per == "study" and self.spent >= self.releases:
            raise BudgetSpent(
                f"all {self.releases} releases of this study's budget (ε = {self.epsilon:g}) are made: "
                "no further one is private; the last stays valid"
            )
        if gone := self.retired(clients):
            raise BudgetSpent(f"{len(gone)} clients have taken part in {self.releases} releases: leave them out")
        taken = self.taken
        if self.per == "client":
            taken = {**taken, **{client: taken.get(client, 0) + 1 for client in clients}}
        return replace(self, spent=self.spent + 1, taken=taken)


@cache
def _scale(epsilon: float, delta: float, releases: int) -> float:
    rho = (math.sqrt(math.log(1 / delta) + epsilon) - math.sqrt(math.log(1 / delta))) ** 2  # enough, by a plain bound
    most = math.sqrt(releases / (2 * rho))
    bounds = (math.sqrt(releases / 200), 1.1 * most)  # a ρ of 100 is more than an ε of 20 allows
    try:
        return float(_opendp().binary_search(lambda s: epsilon_of(s, delta, releases) <= epsilon, bounds=bounds))
    except ValueError:
        raise InvalidModel(f"no noise is known for ε = {epsilon:g}, δ = {delta:g} and {releases} releases") from None


@cache
def epsilon_of(scale: float, delta: float, releases: int) -> float:
    """ε of so many releases with noise of this scale, at δ."""
    dp = _opendp()
    composed = dp.c.make_composition([_gaussian(scale * UNIT)] * releases)
    return float(dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(composed), delta).map(float(UNIT))[0])


def opendp_noise(total: Whole, deviation: float) -> Whole:
    """The sum with whole-number Gaussian noise of this standard deviation, from the system's entropy."""
    return np.array(_gaussian(deviation)(total.tolist()), dtype=np.int64)


def _gaussian(deviation: float) -> Any:
    dp = _opendp()
    if not math.isfinite(deviation):
        raise InvalidModel(f"noise must be finite, got a standard deviation of {deviation}")
    return dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"), deviation)


@cache
def _opendp() -> Any:
    try:
        import opendp.prelude as dp
    except ImportError:
        raise MotetError("private releases need OpenDP: pip install 'motet[server]'") from None
    dp.enable_features("contrib")
    return dp

"""Private releases, and attacks on releases.

A private release: ``ledger`` (the budget and the noise), ``coordinates`` and ``clipping`` (what one client adds, in
integers of bounded norm), ``denoise`` (the best estimate from noisy sums) and ``mechanism`` (the release itself).

Attacks: ``difference`` (between two releases), ``attacks`` (what it reveals about clients) and ``audit`` (the report
of ``motet audit``). docs/privacy.md has the formulas that the code refers to by number.
"""

from motet.privacy.ledger import Ledger
from motet.privacy.mechanism import Mechanism, PrivateRelease, best_rank, release

__all__ = ["Ledger", "Mechanism", "PrivateRelease", "best_rank", "release"]

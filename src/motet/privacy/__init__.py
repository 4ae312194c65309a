"""Private releases, and attacks on releases.

``Mechanism``, ``Ledger`` and ``release`` make a release that is (ε, δ)-differentially private; ``audit`` runs the
attacks that ``motet audit`` reports.
"""

from motet.privacy.ledger import Ledger
from motet.privacy.mechanism import Mechanism, PrivateRelease, best_rank, release

__all__ = ["Ledger", "Mechanism", "PrivateRelease", "best_rank", "release"]

"""Private releases: ``ledger`` (the budget and the noise), ``coordinates`` and ``clipping`` (what one client adds, in
integers of bounded norm), ``denoise`` (the best estimate from noisy sums) and ``mechanism`` (the release itself);
``forecast`` says beforehand how good it will be, from a simulated ``population`` and ``truths``, and ``simulation``
checks that.

Attacks on releases are in ``motet.attacks``. docs/privacy.md has the formulas that the code refers to by number.
"""

from motet.privacy.forecast import Forecast, best_rank, forecast
from motet.privacy.ledger import Ledger
from motet.privacy.mechanism import Mechanism, PrivateRelease, release

__all__ = ["Forecast", "Ledger", "Mechanism", "PrivateRelease", "best_rank", "forecast", "release"]

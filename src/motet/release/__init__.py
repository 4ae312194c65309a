"""What is published, and a client's estimate from it: the disclosed database, its file, the formula, coefficients.

A client needs nothing but this room, which is why ``client`` and ``learning`` meet here and nowhere else. Many clients
of one release are predicted together by ``motet.release.clients``.
"""

from motet.release.coefficients import Coefficients
from motet.release.disclosed import Disclosed, Estimate

__all__ = ["Coefficients", "Disclosed", "Estimate"]

"""What is published, and what a client makes of it: the disclosed database, its file, and estimates from it.

A client needs nothing but this room, which is why ``client`` and ``learning`` meet here and nowhere else.
"""

from motet.release.coefficients import Coefficients
from motet.release.disclosed import Disclosed, Estimate

__all__ = ["Coefficients", "Disclosed", "Estimate"]

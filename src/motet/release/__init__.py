"""What is published, and a client's estimate from it: ``disclosed`` is the release, ``posterior`` its average.

``estimates`` has the formula of every estimate, ``clients`` predicts many clients together; an active one has
``coefficients``. ``file`` is a release as bytes, ``names`` what its columns are called. A client needs nothing but this
room, which is why ``client`` and ``engine`` meet here and nowhere else.
"""

from motet.release.coefficients import Coefficients
from motet.release.disclosed import Disclosed, Estimate

__all__ = ["Coefficients", "Disclosed", "Estimate"]

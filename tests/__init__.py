"""Tests of every room, and what ``make fuzz`` and ``make soak`` run.

Whoever runs them, a case has no time limit of Hypothesis': on a busy machine it would fail tests that are right. A test
has fifty cases if it does not name another number.
"""

import os

from hypothesis import settings

settings.register_profile("motet", deadline=None, max_examples=50, derandomize=bool(os.environ.get("CI")))
settings.load_profile("motet")

"""Tests of every room, and what ``make fuzz`` and ``make soak`` run.

Whoever runs them, a case has no time limit of Hypothesis': on a busy machine it would fail tests that are right.
"""

import os

from hypothesis import settings

settings.register_profile("motet", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("motet")

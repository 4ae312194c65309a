"""In CI nothing may be skipped: whatever CI can run, it runs."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest
from hypothesis import settings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # tests run side by side
os.environ["SCIPY_ARRAY_API"] = "1"  # one of scikit-learn's checks wants it, before scipy is imported
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and os.environ.get("CI"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, which CI does not allow: {report.longrepr}"
    return report

"""The table of all that the system reads: a new reader is one more entry.

``share`` is of all cases. A reader that is slow has few, and those that strangers reach have most.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.fuzz import files, replies, requests
from tests.fuzz.reader import Open, opened


class Target(NamedTuple):
    open: Open
    share: float


TARGETS = {
    "bodies of requests": Target(requests.bodies, 0.25),
    "heads of requests": Target(requests.heads, 0.20),
    "bytes on a connection": Target(requests.framings, 0.10),
    "study files": Target(opened(files.study_files), 0.10),
    "CSV tables": Target(opened(files.csv_files), 0.07),
    "Excel workbooks": Target(opened(files.workbook_files), 0.01),
    "Parquet bytes": Target(opened(files.parquet_files), 0.05),
    "Parquet columns": Target(opened(files.parquet_columns), 0.03),
    "releases": Target(opened(files.releases), 0.06),
    "models": Target(opened(files.models), 0.04),
    "coefficients": Target(opened(files.coefficients), 0.03),
    "server's replies": Target(opened(replies.replies), 0.03),
    "addresses and tokens": Target(opened(files.addresses), 0.01),
    "backups": Target(opened(files.backups), 0.015),
    "databases": Target(opened(files.databases), 0.005),
}

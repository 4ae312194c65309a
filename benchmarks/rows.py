"""Long tasks: 100 groups × 20,000 rows with an intercept and three slopes, from a Parquet file, beside reading it."""

from __future__ import annotations

import tempfile
from functools import cache, partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import Row, duration, medians, peak_megabytes, seconds, timed
from motet import MixedEffectRegressor, Model, Moments, sql
from motet.arrays import Array
from motet.kernels import RBF, ConstantKernel, Linear
from motet.kernels.nystrom import LANDMARKS

GROUPS, LENGTH, INPUTS = 100, 20_000, ["a", "b", "c"]
NAMES: dict[str, Any] = {"task": "group", "target": "y", "inputs": INPUTS}
SMOOTH_GROUPS, SMOOTH = 10, ConstantKernel(1.0) + RBF(1.0)
MODEL = Model(None, Linear(np.eye(4).tolist()), 0.5, 1.0, bias="linear")


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()


@cache
def _file() -> Path:
    rng, group = np.random.default_rng(8), np.repeat(np.arange(GROUPS), LENGTH)
    X, effects = rng.normal(size=(len(group), 3)), rng.normal(size=(GROUPS, 4))
    y = effects[group, 0] + (X * effects[group, 1:]).sum(axis=1) + rng.normal(size=len(group))
    path = Path(_folder().name) / "long.parquet"
    pq.write_table(pa.table({"group": group, **dict(zip(INPUTS, X.T)), "y": y}), path)
    return path


def _read() -> tuple[Array, Array, Array]:
    """The file as arrays."""
    table = pq.read_table(_file())
    return table["group"].to_numpy(), np.column_stack([table[x].to_numpy() for x in INPUTS]), table["y"].to_numpy()


def fit_file() -> float:
    """A release and its evidence, with given settings."""
    group, X, y = _read()
    system = Moments.of_rows(group, X, y).system(MODEL)
    system.disclose(1)
    return system.evidence.log_evidence


def fit_in_database() -> float:
    return sql.moments(duckdb.connect(), str(_file()), **NAMES).evidence(MODEL).log_evidence


def tune_rows() -> MixedEffectRegressor:
    """The regressor, settings by evidence, and every row predicted with its standard deviation."""
    group, X, y = _read()
    reg = MixedEffectRegressor(None, "linear", bias="linear").fit(X, y, task=group)
    reg.predict(X, task=group, return_std=True)
    return reg


def fit_smooth() -> MixedEffectRegressor:
    """Ten of the groups with a smooth shift, which is computed through landmarks."""
    group, X, y = _some()
    return MixedEffectRegressor(None, SMOOTH, 0.5, 1.0, "linear", optimizer=None).fit(X, y, task=group)


def _some() -> tuple[Array, Array, Array]:
    group, X, y = _read()
    return group[: SMOOTH_GROUPS * LENGTH], X[: SMOOTH_GROUPS * LENGTH], y[: SMOOTH_GROUPS * LENGTH]


def _factors() -> None:
    """The kernel between the rows and 200 others, and its orthogonal factor, group by group."""
    _, X, _ = _some()
    for own in np.split(X, SMOOTH_GROUPS):
        np.linalg.qr(SMOOTH(own, own[:LANDMARKS]))


def _smooth_rows() -> list[Row]:
    takes, ratio = timed(fit_smooth, _factors, 3)
    peak = peak_megabytes("fit_smooth")
    job = f"fit of {SMOOTH_GROUPS} groups × {LENGTH:,} rows with a smooth shift, 200 landmarks in each"
    return [
        Row(job, takes, "the kernel at landmarks and its QR alone", ratio, 5.0),
        Row("the same, peak memory of the process", f"{peak:.0f} MB", "3 GB", peak / 3000, 1.0),
    ]


def rows() -> list[Row]:
    takes, r = timed(fit_file, _read, 9)
    by_sql, by_rows = medians(fit_in_database, fit_file, 5)
    group, X, y = _read()
    moments = Moments.of_rows(group, X, y)
    tuned, read = medians(partial(moments.tune, MODEL), _read, 5)
    whole, peak = seconds(tune_rows), peak_megabytes("tune_rows")
    difference = abs(fit_in_database() / fit_file() - 1.0)
    job, against = (
        f"{GROUPS} groups × {LENGTH:,} rows, intercept and three slopes",
        "reading the Parquet file into arrays",
    )
    return [
        Row(f"release and evidence of {job}", takes, against, r, 5.0),
        Row("the same, summed by DuckDB", duration(by_sql), "the same by rows", by_sql / by_rows, 5.0),
        Row("the same, evidence by SQL less that by rows", f"{difference:.0e}", "1e-9 of it", difference / 1e-9, 1.0),
        Row("the whole search of settings, from these moments", duration(tuned), against, tuned / read, 5.0),
        Row("regressor that tunes, and all rows predicted", duration(whole), "60 s", whole / 60.0, 1.0),
        Row("the same, peak memory of the process", f"{peak:.0f} MB", "3 GB", peak / 3000, 1.0),
        *_smooth_rows(),
    ]

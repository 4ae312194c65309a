"""Moments that a database sums, DuckDB and PostgreSQL, against those of the rows: no row leaves the database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import motet
from motet import Features, Model, Moments
from motet.errors import EmptyData, InvalidData, InvalidNoise
from motet.kernels import ConstantKernel, DotProduct, Linear, Scaled
from motet.scale.sql import MAX_INPUTS, moments, statement

INPUTS = ["age", 'height "cm"', "dose; DROP TABLE visits"]
NAMES: dict[str, Any] = {"task": "site", "target": "order", "inputs": INPUTS}
SCALE: tuple[list[float], list[float]] = [55.0, 170.0, 100.0], [20.0, 10.0, 1.0]
SHIFT = Scaled(Linear((np.eye(4) + 0.1).tolist()), *SCALE)
MODELS = [
    Model(None, SHIFT, 0.5, 0.3, bias="linear"),
    Model(None, ConstantKernel(0.4), 0.5, 0.3),
    Model(Scaled(DotProduct(0.7), *SCALE), SHIFT, 0.3, 0.2, bias="constant", basis=Features()),
]


def visits() -> dict[str, Any]:
    """Long and short tasks, shuffled, of inputs that are far from 0, whole numbers too."""
    rng = np.random.default_rng(0)
    sizes = [500, 1, 80, 3, 250, 2]
    site = np.repeat(np.arange(len(sizes)), sizes)
    age, height = rng.integers(20, 90, size=len(site)), rng.normal(170.0, 10.0, size=len(site))
    dose = rng.normal(100.0, 1.0, size=len(site))
    y = 100.0 + age + 0.1 * height + rng.normal(size=len(sizes))[site] * (dose - 100.0) + rng.normal(size=len(site))
    order = rng.permutation(len(site))
    columns = {"site": site, "age": age, INPUTS[1]: height, INPUTS[2]: dose, "order": y}
    named = {name: values[order].tolist() for name, values in columns.items()}
    named["site"] = [f"site {k}" for k in named["site"]]
    return named | {"variance": rng.uniform(0.5, 2.0, size=len(site)).tolist()}


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@pytest.fixture(scope="module")
def in_duckdb() -> Iterator[Any]:
    """The table, with rows to leave out and a decoy beside it."""
    connection = duckdb.connect()
    rows = pa.table(visits())
    connection.register("arrow_rows", rows)
    connection.execute('CREATE TABLE "all visits" AS SELECT * FROM arrow_rows')
    for column in visits():
        connection.execute(
            f'INSERT INTO "all visits" BY NAME SELECT * REPLACE (NULL AS {quoted(column)}) FROM arrow_rows LIMIT 1'
        )
    connection.execute(
        "CREATE SCHEMA ward; CREATE TABLE ward.visits AS SELECT * FROM arrow_rows; CREATE TABLE visits (x INT)"
    )
    yield connection
    connection.close()


def expected(noise: bool) -> Moments:
    rows = visits()
    X = np.column_stack([rows[name] for name in INPUTS]).astype(float)
    return Moments.of_rows(rows["site"], X, rows["order"], rows["variance"] if noise else None)


def compare(found: Moments, noise: bool) -> None:
    """Information, evidence, settings and estimates, to 1e-9 of their scale."""
    rows = expected(noise)
    assert set(found.labels) == set(rows.labels)
    assert found.rows == rows.rows
    at = rows.X[:4]
    for model in MODELS:
        information, twin = found.information(model), rows.information(model)
        np.testing.assert_allclose(information.G, twin.G, rtol=0, atol=1e-9 * np.abs(twin.G).max())
        np.testing.assert_allclose(information.g, twin.g, rtol=0, atol=1e-9 * np.abs(twin.g).max())
        assert found.evidence(model).log_evidence == pytest.approx(rows.evidence(model).log_evidence, rel=1e-9)
        assert found.evidence(model).sigma2 == pytest.approx(rows.evidence(model).sigma2, rel=1e-9)
        here, there = (m.estimate(m.disclose(model), "site 4").predict(at, return_std=True) for m in (found, rows))
        np.testing.assert_allclose(here[0], there[0], rtol=1e-9)
        np.testing.assert_allclose(here[1], there[1], rtol=1e-6)
    tuned = (m.tune(MODELS[1]).log_evidence for m in (found, rows))
    assert next(tuned) == pytest.approx(next(tuned), rel=1e-9)


@pytest.mark.parametrize("noise", [False, True])
def test_duckdb_sums_what_the_rows_say(in_duckdb: Any, noise: bool) -> None:
    column = {"noise": "variance"} if noise else {}
    if noise:
        compare(moments(in_duckdb, "all visits", **NAMES, **column), noise)
    compare(motet.sql.moments(in_duckdb, ("ward", "visits"), **NAMES, **column), noise)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [False, True])
def test_postgresql_sums_what_the_rows_say(postgres_url: str, noise: bool) -> None:
    import psycopg

    rows = visits()
    with psycopg.connect(postgres_url.replace("+psycopg", "")) as connection:
        kinds = {"site": "text", "age": "integer", INPUTS[1]: "numeric"}
        columns = ", ".join(f"{quoted(name)} {kinds.get(name, 'double precision')}" for name in rows)
        connection.execute(f"CREATE SCHEMA ward; CREATE TABLE ward.visits ({columns})".encode())
        with connection.cursor().copy(b"COPY ward.visits FROM STDIN") as copy:
            for row in zip(*rows.values()):
                copy.write_row(row)
        column = {"noise": "variance"} if noise else {}
        compare(moments(connection, ("ward", "visits"), **NAMES, **column), noise)


def test_a_file_is_summed_without_being_read_here(tmp_path: Any) -> None:
    import pyarrow.parquet as pq

    pq.write_table(pa.table(visits()), tmp_path / "visits.parquet")
    compare(moments(duckdb.connect(), str(tmp_path / "visits.parquet"), **NAMES), noise=False)


def test_the_answer_has_sums_alone(in_duckdb: Any) -> None:
    """A row for each task, with as many numbers as there are products of columns."""
    answer = in_duckdb.execute(statement(("ward", "visits"), **NAMES)).fetchall()
    assert len(answer) == 6
    assert {len(row) for row in answer} == {4 + 4 + 5 * 6 // 2}


def test_what_cannot_be_summed_is_refused(in_duckdb: Any) -> None:
    with pytest.raises(InvalidData, match="different columns"):
        statement("t", task="a", target="b", inputs=["a"])
    with pytest.raises(InvalidData, match=f"1 to {MAX_INPUTS} column names"):
        statement("t", task="a", target="b", inputs="c")
    with pytest.raises(InvalidData, match="the name of a table or column"):
        statement("t", task="a", target="b", inputs=["c\0"])
    in_duckdb.execute("CREATE OR REPLACE TABLE bad AS SELECT 1 AS task, 2.0::DOUBLE AS y, 'nan'::DOUBLE AS x, 0.0 AS w")
    names: dict[str, Any] = {"task": "task", "target": "y", "inputs": ["x"]}
    with pytest.raises(InvalidData, match="task 1 have numbers that are not finite"):
        moments(in_duckdb, "bad", **names)
    with pytest.raises(InvalidNoise, match="must be positive, those of task 1"):
        moments(in_duckdb, "bad", **names, noise="w")
    in_duckdb.execute("CREATE OR REPLACE TABLE empty AS SELECT * FROM bad WHERE task > 1")
    with pytest.raises(EmptyData, match="'empty'"):
        moments(in_duckdb, "empty", **names)

"""The JavaScript core against Python: every kernel, basis and bias, both policies, passive and active clients."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import fields
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Error, Page, Route

from motet.kernels.registry import COMPOSITES, KERNELS
from motet.model.basis import BASES
from motet.model.model import Model
from motet.tables.columns import Columns
from tests.web.vectors import Case, cases

CASES = dict(cases())
WEB = files("motet.server") / "web"
ORIGIN = "http://core.test"
PREDICT = """async (given) => {
  const { Disclosed } = await import("/disclosed.js");
  const { Matrix } = await import("/matrix.js");
  const bytes = Uint8Array.from(atob(given.release), (letter) => letter.charCodeAt(0));
  const release = new Disclosed(bytes.buffer);
  const table = (rows) => Matrix.of(rows, release.dimension);
  const points = release.points(table(given.probes));
  const estimate = given.coefficients === null
    ? release.estimate(table(given.X), given.y, given.noise)
    : release.activeEstimate(given.coefficients);
  const [average, own, moves] = [release.average(points), estimate.predict(points), estimate.influence(points)];
  const list = (values) => values === null ? null : Array.from(values);
  return {
    average: list(average.mean), average_std: list(average.std), mean: list(own.mean), std: list(own.std),
    moves: moves === null ? null : given.probes.map((_, i) => list(moves.row(i))),
  };
}"""


@pytest.fixture(scope="module")
def core(browser: Browser) -> Iterator[Page]:
    """A page that may import the modules of the core, and nothing else."""

    def serve(route: Route) -> None:
        name = route.request.url.rpartition("/")[2]
        folder = WEB if name in ("columns.js", "dates.js") else WEB / "core"
        body = (folder / name).read_text(encoding="utf-8") if name.endswith(".js") else "<!doctype html>"
        route.fulfill(body=body, content_type="text/javascript" if name.endswith(".js") else "text/html")

    page = browser.new_page()
    page.route(f"{ORIGIN}/**", serve)
    page.goto(ORIGIN)
    yield page
    page.close()


def assert_agree(found: Any, expected: Any) -> None:
    """To 1e-9 of the largest number, or of 1."""
    expected = np.asarray(expected)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("name", CASES)
def test_the_browser_computes_what_python_computes(core: Page, name: str) -> None:
    case = CASES[name]
    found, expected = core.evaluate(PREDICT, case.to_json()), case.expected()
    for quantity, values in expected.items():
        assert_agree(found[quantity], values)
    if "std" not in expected:
        assert found["std"] is found["average_std"] is None
    if case.coefficients is None and found["moves"] is not None:
        assert_agree(np.sum(found["moves"], axis=1), expected["mean"] - expected["average"])


def test_the_vectors_have_every_kernel_and_every_basis() -> None:
    """So that a new one is not forgotten in the browser."""
    kinds: set[str] = set()

    def collect(spec: Any) -> None:
        if isinstance(spec, list):
            for part in spec:
                collect(part)
        elif isinstance(spec, dict):
            kinds.update(spec[key] for key in ("kernel", "kind") if key in spec)
            collect(list(spec.values()))

    for case in CASES.values():
        spec = case.release.model.to_spec()
        collect([spec["common"], spec["individual"], {"kind": (spec["basis"] or {"kind": "growing"})["kind"]}])
    assert kinds == {*KERNELS, *COMPOSITES, *BASES, "growing"}


def test_each_rating_moves_the_estimate_by_its_own_surprise(core: Page) -> None:
    """An example that is what the average expects moves nothing; the others move what they moved before."""
    case: Case = CASES["catalogue, none, eigen"]
    X, y, noise = case.own
    before = np.array(core.evaluate(PREDICT, case.to_json())["moves"])
    expected_y = y.copy()
    expected_y[1] = case.release.average(X[1:2])[0]
    changed = Case(case.release, (X, expected_y, noise), case.probes)
    after = np.array(core.evaluate(PREDICT, changed.to_json())["moves"])
    assert np.abs(before[:, 1]).max() > 0.01
    assert_agree(after[:, 1], 0.0 * after[:, 1])
    assert_agree(np.delete(after, 1, axis=1), np.delete(before, 1, axis=1))


def test_the_page_knows_every_setting_of_a_model() -> None:
    (listed,) = re.findall(r"const SETTINGS = \[(.*?)\]", (WEB / "core" / "check.js").read_text(encoding="utf-8"))
    assert re.findall(r"\w+", listed) == [field.name for field in fields(Model)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[: len(data) // 2], "not a release"),
        (lambda data: b"<html>" + data, "not a release"),
        (lambda data: data.replace(b'\\"kernel\\": \\"rbf\\"', b'\\"kernel\\": \\"xyz\\"'), "does not know the kernel"),
        (lambda data: data.replace(b'\\"kind\\": \\"eigen\\"', b'\\"kind\\": \\"wheel\\"'), "does not know the basis"),
        (lambda data: data.replace(b'\\"format\\": 1', b'\\"format\\": 2'), "format 2"),
        (lambda data: data[:-8] + np.array([np.nan]).tobytes(), "not finite"),
    ],
)
def test_what_is_no_release_is_refused(core: Page, change: Any, message: str) -> None:
    case = CASES["catalogue, none, eigen"]
    data = case.release.to_bytes()
    assert change(data) != data
    given = case.to_json() | {"release": base64.b64encode(change(data)).decode()}
    with pytest.raises(Error, match=message):
        core.evaluate(PREDICT, given)


def test_cells_become_the_rows_that_python_makes_of_them(core: Page) -> None:
    columns = Columns.from_spec(
        [
            {"name": "hours", "bounds": [0.0, 24.0]},
            {"name": "sex", "values": ["f", "m", "x, or y"]},
            {"name": "visit", "since": "2024-02-28", "bounds": ["2024-01-01", "2026-12-31"]},
            {"name": "sales", "log_above": 0.3, "bounds": [-1e9, 1e9], "quantiles": [0.0, 0.2, 1.0, 5e3, 1e7]},
        ]
    )
    rows = [
        {"hours": hours, "sex": sex, "visit": visit, "sales": sales}
        for hours, sex, visit, sales in (
            ("1", "m", "2024-03-01", "0"),
            ("-2.5e-3", "f", "2023-12-31", "-1e-9"),
            (".5", "x, or y", "2024-02-29 06:00", "0.3"),
            ("+7.", "f", "2025-07-01T12:00:30", "123456.789"),
            ("0", "f", "2024-02-28T23:30:00-01:00", "-4.7e8"),
            ("1e2", "m", "2024-02-28T00:00Z", "1e30"),
        )
    ]
    read = """async ([specs, rows]) => {
      const { Columns } = await import("/columns.js");
      const columns = new Columns(specs);
      return rows.map((cells) => columns.expand(columns.columns.map((column) => column.number(cells[column.name]))));
    }"""
    found = np.array(core.evaluate(read, [columns.to_spec(), rows]))
    np.testing.assert_allclose(found, columns.rows(rows), rtol=0, atol=1e-12)
    back = """async ([specs, rows]) => {
      const { Columns } = await import("/columns.js");
      const columns = new Columns(specs);
      return rows.map((row) => columns.collapse(row).map((value, k) => columns.columns[k].cell(value)));
    }"""
    answer = core.evaluate(back, [columns.to_spec(), found.tolist()])
    cells = [[f"{one['hours']:g}", one["sex"], one["visit"]] for one in columns.cells(found)]
    assert [one[:3] for one in answer] == cells
    assert [float(one[3]) for one in answer] == [one["sales"] for one in columns.cells(found)]
    assert [float(one[3]) for one in answer] == [float(one["sales"]) for one in rows]
    for bad in (
        {"hours": "1,5"},
        {"sales": "1,5"},
        {"sex": "F"},
        {"visit": "1.3.2024"},
        {"visit": "2024-13-01"},
        {"hours": ""},
    ):
        with pytest.raises(Error, match="expected"):
            core.evaluate(read, [columns.to_spec(), [rows[0] | bad]])

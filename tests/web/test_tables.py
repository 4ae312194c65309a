"""Tables that are dropped on the page, opened there or saved from it: what Python reads, the page reads, and alike."""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from motet.client.responses import layout_of
from motet.client.tables import read_examples
from tests.server.world import World
from tests.web.studies import clinic_study, music_study, running_study, send
from tests.web.visitor import Visit, address, release_now

DROP = """(data) => {
  const transfer = new DataTransfer();
  transfer.items.add(new File([Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0))], "a.csv"));
  const event = new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true });
  document.querySelector("#own-result").dispatchEvent(event);
}"""
RATINGS = {"Miles Davis": 2.3, "Metallica": -1.5, "Guns N' Roses": 0.3}


def drop(page: Page, data: bytes) -> None:
    """Beside the list of examples: anywhere in the view."""
    page.evaluate(DROP, base64.b64encode(data).decode())


def saved(page: Page, button: str = "Save as CSV") -> bytes:
    with page.expect_download() as download:
        page.get_by_role("button", name=button).click()
    return download.value.path().read_bytes()


def test_what_the_page_saves_it_reads_again_and_python_too(tmp_path: Path, visit: Visit) -> None:
    with music_study(tmp_path, private=False) as served:
        release_now(served)
        visitor = visit(address(served), accept_downloads=True)
        page = visitor.page
        visitor.open("try")
        expect(page.locator("#own-columns")).to_have_text("artist, stars")  # as the study calls them
        for name, y in RATINGS.items():
            visitor.rate(name, y)
        mine = saved(page)
        best = visitor.best()
        page.get_by_role("button", name="Clear").click()
        expect(page.locator("#own-list li")).to_have_count(0)
        drop(page, mine)
        expect(page.locator("#own-read")).to_have_text("3 examples read.")
        assert saved(page) == mine
        assert visitor.best() == best
        (tmp_path / "mine.csv").write_bytes(mine)
        examples = read_examples(tmp_path / "mine.csv", layout_of(served.call("GET", "/v1/study").json()))
        assert dict(zip(examples.X, examples.y)) == RATINGS
        page.context.close()


def test_what_the_server_has_of_a_client_can_be_tried_with_its_noise(tmp_path: Path, visit: Visit) -> None:
    with running_study(tmp_path) as served:
        own = [{"x": {"distance": x}, "y": y, "noise": noise} for x, y, noise in ((5.0, 0.9, 4.0), (21.0, 1.6, 0.25))]
        send(served, served.tokens["own"] or "", own)
        release_now(served)
        visitor = visit(address(served), accept_downloads=True)
        page = visitor.page
        visitor.sign_in("mine", served.tokens["own"])
        expect(page.locator("#mine-list li")).to_have_count(2)
        table = saved(page, "Download as CSV")
        visitor.open("try")
        expect(page.locator("#own-form")).to_be_visible()
        drop(page, table)
        expect(page.locator("#own-result .chart circle.dot")).to_have_count(2)
        assert saved(page).decode() == "distance,pace,noise\r\n5,0.9,4\r\n21,1.6,0.25\r\n"
        x, mean, std = np.array(visitor.numbers("#own-result")).T
        noise = [4.0, 0.25]
        estimate = served.service.disclosed
        assert estimate is not None
        expected = estimate.estimate([{"distance": 5.0}, {"distance": 21.0}], [0.9, 1.6], noise)
        np.testing.assert_allclose([mean, std], expected.predict(x[:, None], return_std=True), atol=1e-6)
        page.context.close()


GOOD = {
    "commas, and columns that are of no use": (
        b"shoe,pace,runner,distance,note\nred,5.5,ann,1,x\nblue,6.25,ann,2.5,y\n",
        "2 examples read. Not used: shoe, runner, note.",
    ),
    "semicolons and decimal commas, in UTF-16": (
        "\ufeffclient;distance;pace\r\nann;1;5,5\r\nann;2,5;6,25\r\n".encode("utf-16-le"),
        "2 examples read.",
    ),
    "tabs, an index without a name, and old line ends": (
        b'""\tpace\tdistance\r1\t5.5\t1\r2\t6.25\t2.5\r',
        "2 examples read.",
    ),
    "semicolons between numbers with points": (b"distance;pace\n1;5.5\n2.5;6.25\n", "2 examples read."),
}


@pytest.mark.parametrize("kind", GOOD)
def test_tables_are_read_as_people_write_them(
    studies: dict[str, World], visit: Visit, tmp_path: Path, kind: str
) -> None:
    data, told = GOOD[kind]
    visitor = visit(address(studies["curve exact"]), accept_downloads=True)
    visitor.open("try")
    expect(visitor.page.locator("#own-form")).to_be_visible()
    drop(visitor.page, data)
    expect(visitor.page.locator("#own-read")).to_have_text(told)
    assert saved(visitor.page).decode() == "distance,pace\r\n1,5.5\r\n2.5,6.25\r\n"
    (tmp_path / "a.csv").write_bytes(data)
    layout = layout_of(studies["curve exact"].call("GET", "/v1/study").json())
    examples = read_examples(tmp_path / "a.csv", layout)
    assert [(x["distance"], y) for x, y in zip(examples.X, examples.y)] == [(1.0, 5.5), (2.5, 6.25)]


def test_a_table_that_is_wrong_is_refused_with_row_and_column(studies: dict[str, World], visit: Visit) -> None:
    visitor = visit(address(studies["curve exact"]))
    visitor.open("try")
    page = visitor.page
    page.get_by_text("Paste or open a CSV").click()
    for text, message in {
        "y,x\n1,2\n": 'row 1: no column "distance", "pace"; expected "distance", "pace", got "y", "x"',
        "distance,pace,pace\n1,2,3\n": 'row 1: column "pace" is there twice; rename one of them',
        "distance,pace,\n1,2,3\n": "row 1: column 3 has no name; name it",
        "distance,pace\n1,2\n3\n": "row 3: expected 2 cells, as the header has, got 1; cells with commas",
        "distance,pace\n1,2\n\nfar,3\n": 'row 4, distance: expected a number, got "far"',
        "distance,pace\n1,\n": "row 2, pace: expected a number, got nothing",
        "distance,pace\n1,3\n43,2\n": "row 3, distance: expected a number from 0 to 42, got 43",
        "distance,pace\n1,15.5\n": "row 2, pace: expected a number from −5 to 15, got 15.5",
        "distance,pace,noise\n1,2,0\n": "row 2, noise: expected a variance from 0.01 to 100, got 0",
        "client,distance,pace\na,1,2\nb,1,3\n": 'column "client" has 2 clients, "a", "b": leave the rows of one',
        "distance;pace\n1.5;2\n2,5;3\n": 'row 3, distance: expected a number, got "2,5"',
        "distance,pace\n": "the file has a header, and no example",
        "": "the file is empty: expected a header and a row for each example",
        'distance,pace\n"1,2\n': "a quotation mark is opened and not closed",
        "distance,pace\n1,\udcff\n": "expected text in UTF-8; save it as that",
    }.items():
        data = text.encode(errors="surrogateescape")
        page.set_input_files("#own-file", {"name": "a.csv", "mimeType": "text/csv", "buffer": data})
        expect(page.locator("#own-error")).to_contain_text(message)
        assert page.locator("#own-list li").count() == 0
    good = '\ufeffpace;distance\r\n"5.5";1\r\n'.encode()
    page.set_input_files("#own-file", {"name": "a.csv", "mimeType": "text/csv", "buffer": good})
    expect(page.locator("#own-list li")).to_have_count(1)
    expect(page.locator("#own-error")).to_have_text("")


def test_dates_are_read_in_the_order_of_the_study(tmp_path: Path, visit: Visit) -> None:
    with clinic_study(tmp_path, order="day first") as served:
        release_now(served)
        visitor = visit(address(served), accept_downloads=True)
        page = visitor.page
        visitor.open("try")
        expect(page.locator("#own-form")).to_be_visible()
        data = b"visit;sex;hours;glucose\n3.4.2025;f;1,5;2,5\n31.12.24;m;2;1\n"
        drop(page, data)
        expect(page.locator("#own-list li")).to_have_count(2)
        expect(page.locator("#own-result .answer")).to_contain_text("At hours 2 h, sex m, visit 2024-12-31")
        drop(page, b"visit,sex,hours,glucose\n12/31/2024,f,1,2\n")
        expect(page.locator("#own-error")).to_contain_text(
            "row 2, visit: expected a date such as 2024-03-01 or 1.3.2024"
        )
        (tmp_path / "a.csv").write_bytes(data)
        examples = read_examples(tmp_path / "a.csv", layout_of(served.call("GET", "/v1/study").json()))
        assert [x["visit"] for x in examples.X] == ["2025-04-03", "2024-12-31"]
        page.context.close()

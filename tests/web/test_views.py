"""A view of the page from outside: a file, its line in ``views.js``, its section and its link in ``index.html``."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from importlib.resources import as_file
from pathlib import Path

import pytest
from playwright.sync_api import expect

from motet.server import pages
from tests.web.studies import running_study
from tests.web.visitor import Visit, address, release_now

ADDED = """
/** The view "Numbers": how large the release is. */

import { byId, fill } from "./dom.js";
import { onChange, state } from "./state.js";

let times = 0;

export function start() {
  onChange("release", show);
}

export function appear() {
  times += 1;
  show();
}

function show() {
  fill(byId("numbers-text"), `Release ${state.release?.version ?? "none"}, looked at ${times} times.`);
}
"""
SECTION = '<section id="numbers" aria-label="Numbers" hidden><h2>Numbers</h2><p id="numbers-text"></p></section>\n'
LINK = '<a href="#numbers">Numbers</a>'


def test_every_view_has_its_file_its_section_and_its_link() -> None:
    text = {name: (pages.WEB / name).read_text(encoding="utf-8") for name in ("views.js", "index.html")}
    (listed,) = re.findall(r"VIEWS = \{(.*?)\}", text["views.js"], re.DOTALL)
    files = dict(re.findall(r"^  (\w+)(?:: (\w+))?,$", listed, re.MULTILINE))
    links = re.findall(r'<a href="#(\w+)">', text["index.html"])
    assert list(files) == links
    for view in files:
        assert (pages.WEB / f"{files[view] or view}.js").is_file()
        assert f'<section id="{view}" aria-label=' in text["index.html"]


@pytest.fixture
def with_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The page's files, with one view more."""
    web = tmp_path / "web"
    with as_file(pages.WEB) as folder:
        shutil.copytree(folder, web)
    (web / "numbers.js").write_text(ADDED.lstrip(), encoding="utf-8")
    for file, place, changed in (
        ("views.js", "import * as own", 'import * as numbers from "./numbers.js";\nimport * as own'),
        ("views.js", "  operator,\n", "  operator,\n  numbers,\n"),
        ("index.html", "</a>\n  </nav>", f"</a>\n    {LINK}\n  </nav>"),
        ("index.html", "</section>\n</div>\n</main>", f"</section>\n\n{SECTION}</div>\n</main>"),
    ):
        text = (web / file).read_text(encoding="utf-8")
        assert text.count(place) == 1, (file, place)
        (web / file).write_text(text.replace(place, changed), encoding="utf-8")
    monkeypatch.setattr(pages, "WEB", web)
    for cached in (pages.assets, pages._template):
        cached.cache_clear()
    yield
    for cached in (pages.assets, pages._template):
        cached.cache_clear()


@pytest.mark.usefixtures("with_numbers")
def test_a_view_that_is_added_is_shown_under_its_link(tmp_path: Path, visit: Visit) -> None:
    with running_study(tmp_path / "study", private=False) as served:
        version = release_now(served)
        visitor = visit(address(served))
        page = visitor.page
        expect(page.locator("#average-chart .chart path.curve")).to_have_count(1)
        page.get_by_role("link", name="Numbers").click()
        expect(page.locator("#numbers-text")).to_have_text(f"Release {version}, looked at 1 times.")
        expect(page.locator("#study")).to_be_hidden()
        expect(page.get_by_role("link", name="Numbers")).to_have_attribute("aria-current", "page")
        page.get_by_role("link", name="The study", exact=True).click()
        expect(page.locator("#numbers")).to_be_hidden()
        visitor.open("numbers")
        expect(page.locator("#numbers-text")).to_have_text(f"Release {version}, looked at 2 times.")
        assert visitor.findings() == []
        page.context.close()

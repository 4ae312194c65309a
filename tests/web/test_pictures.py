"""Pictures of each part of the page, light and dark, wide and narrow; nothing in them is cut off.

With MOTET_PICTURES=docs/img they become those of the docs.
"""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import expect

from tests.server.world import World
from tests.web.studies import send
from tests.web.visitor import Visit, Visitor, address

RATINGS = {"The Beatles": 2.4, "Miles Davis": 2.8, "Metallica": -1.5}
PACES = [{"x": {"distance": x}, "y": y} for x, y in ((5.0, 0.9), (10.0, 1.25), (21.0, 1.6))]
HEIGHTS = {1280: 860, 390: 1100}
COLOURS = 128
CUT_OFF = """() => Array.from(document.querySelectorAll("main *"))
  .filter((one) => one.clientWidth && one.scrollWidth > one.clientWidth + 1)
  .filter((one) => !one.closest(".scroll, svg, input, textarea, select"))
  .filter((one) => getComputedStyle(one).overflowX !== "visible")
  .map((one) => one.outerHTML.slice(0, 200))"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(os.environ.get("MOTET_PICTURES") or tmp_path_factory.mktemp("pictures"))


def take(visitor: Visitor, path: Path) -> None:
    visitor.settle()
    visitor.page.mouse.move(0, 0)
    visitor.page.evaluate("document.activeElement?.blur()")
    assert visitor.page.evaluate(CUT_OFF) == []
    picture = Image.open(BytesIO(visitor.page.screenshot()))
    assert picture.getextrema() != ((255, 255),) * 3
    picture.convert("RGB").quantize(COLOURS).save(path, optimize=True)


@pytest.mark.parametrize("width", HEIGHTS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_part_has_a_picture(
    studies: dict[str, World], visit: Visit, folder: Path, scheme: str, width: int
) -> None:
    music, curve = studies["music private"], studies["curve private"]
    listener = visit(address(music), scheme=scheme, width=width)
    runner = visit(address(curve), scheme=scheme, width=width)
    for visitor in (listener, runner):
        visitor.page.set_viewport_size({"width": width, "height": HEIGHTS[width]})
    expect(runner.page.locator("#average-chart .chart")).to_be_visible()
    take(runner, folder / f"page-study-{scheme}-{width}.png")
    listener.open("try")
    for name, y in RATINGS.items():
        listener.rate(name, y)
    expect(listener.page.get_by_role("heading", name="Your top 20")).to_be_visible()
    take(listener, folder / f"page-try-{scheme}-{width}.png")
    send(curve, curve.tokens["another"] or "", PACES)  # again and again: nothing counts twice
    runner.sign_in("mine", curve.tokens["another"])
    expect(runner.page.locator("#mine-result .chart circle.dot")).to_have_count(3)
    take(runner, folder / f"page-mine-{scheme}-{width}.png")
    runner.sign_in("operator", curve.tokens["operator"])
    expect(runner.page.locator("#operator-clients tr")).not_to_have_count(0)
    take(runner, folder / f"page-operator-{scheme}-{width}.png")

"""What a study cannot have: values outside of its limits are refused at the field, and no band or number shows them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from playwright.sync_api import Page, expect

from tests.server.world import World
from tests.web.studies import music_study, running_study, send
from tests.web.visitor import Visit, address, release_now


def fill(page: Page, part: str, values: dict[str, str], button: str) -> None:
    for name, value in values.items():
        page.locator(part).get_by_label(name, exact=True).fill(value)
    page.locator(part).get_by_role("button", name=button, exact=True).click()


def refusal_of(served: World, x: float, y: float) -> str:
    body = {"examples": [{"id": "far", "x": {"distance": x}, "y": y}]}
    answer = served.call("POST", "/v1/examples", "another", json=body)
    assert answer.status_code == 422
    return str(answer.json()["error"]["message"])


def test_what_the_server_would_refuse_is_refused_at_the_field(studies: dict[str, World], visit: Visit) -> None:
    served = studies["curve exact"]
    visitor = visit(address(served))
    page = visitor.page
    visitor.sign_in("mine", served.tokens["own"])
    expect(page.locator("#mine-parts")).to_be_visible()
    visitor.open("try")
    expect(page.locator("#own-form")).to_be_visible()
    for part, button in (("#try", "Add"), ("#mine", "Send")):
        visitor.open(part.removeprefix("#"))
        for field, x, y, reason in (
            ("distance (km)", "50", "1", "expected a number from 0 to 42, got 50"),
            ("pace", "5", "99", "expected a number from −5 to 15, got 99"),
            ("pace", "5", "fast", 'expected a number, got "fast"'),
        ):
            fill(page, part, {"distance (km)": x, "pace": y}, button)
            wrong = page.locator(part).get_by_label(field, exact=True)
            expect(wrong).to_be_focused()
            expect(wrong).to_have_attribute("aria-invalid", "true")
            expect(wrong).to_have_accessible_description(reason)
            expect(page.locator(f"{part} [aria-invalid]")).to_have_count(1)
            expect(page.locator(f"{part} .own-list li")).to_have_count(0)
    assert refusal_of(served, 50, 1) == "expected a number from 0 to 42, got 50"
    assert "a number from -5 to 15, got 99" in refusal_of(served, 5, 99)
    assert {request.method for request in visitor.requests} == {"GET"}
    visitor.open("try")
    fill(page, "#try", {"distance (km)": "42", "pace": "-5"}, "Add")  # the ends themselves
    expect(page.locator("#own-list li")).to_have_count(1)
    expect(page.locator("#try [aria-invalid]")).to_have_count(0)
    answer = page.locator("#own-result").get_by_label("Answer at distance (km)", exact=True)
    answer.fill("43")
    answer.press("Enter")
    expect(answer).to_have_accessible_description("expected a number from 0 to 42, got 43")
    expect(page.locator("#own-result .answer")).to_contain_text("At distance 42 km: your pace is")
    assert visitor.numbers("#own-result")[-1][0] == 42.0


def test_kept_examples_of_another_study_stretch_nothing_and_are_named(studies: dict[str, World], visit: Visit) -> None:
    visitor = visit(address(studies["curve exact"]))
    page = visitor.page
    kept = '[{"cells":{"distance":"500"},"y":1},{"cells":{"distance":"5"},"y":70},{"cells":{"distance":"5"},"y":1}]'
    page.evaluate("(kept) => localStorage.setItem('motet-own-examples', kept)", kept)
    page.reload()
    visitor.open("try")
    expect(page.locator("#own-result .chart circle.dot")).to_have_count(1)
    reasons = page.locator("#own-list small.error")
    expect(reasons).to_have_text(
        [
            "Not used: distance: expected a number from 0 to 42, got 500",
            "Not used: pace: expected a number from −5 to 15, got 70",
        ]
    )
    assert [visitor.numbers("#own-result")[k][0] for k in (0, -1)] == [0.0, 42.0]


def test_bands_and_numbers_end_where_outputs_do(tmp_path: Path, visit: Visit) -> None:
    with running_study(tmp_path, fastest=0.0) as served:
        release_now(served)
        visitor = visit(address(served))
        page = visitor.page
        visitor.open("try")
        expect(page.locator("#own-form")).to_be_visible()
        fill(page, "#try", {"distance (km)": "2", "pace": "0"}, "Add")
        fill(page, "#try", {"distance (km)": "4", "pace": "0"}, "Add")
        expect(page.locator("#own-result .chart circle.dot")).to_have_count(2)
        x, mean, std = np.array(visitor.numbers("#own-result")).T
        estimate = served.service.disclosed
        assert estimate is not None
        own = estimate.estimate([{"distance": 2.0}, {"distance": 4.0}], [0.0, 0.0])
        np.testing.assert_allclose([mean, std], own.predict(x[:, None], return_std=True), atol=1e-6)  # as they are
        assert mean.min() < -0.01
        chart = page.locator("#own-result .chart")
        zero = float(chart.locator("text.tick[text-anchor=end]").first.get_attribute("y") or "") - 4
        assert float(chart.locator("text.tick[text-anchor=end]").first.text_content() or "nan") == 0
        paths = chart.locator("path").evaluate_all("(all) => all.map((one) => one.getAttribute('d'))")
        pixels = [float(y) for path in paths for y in re.findall(r"[ML][\d.]+ ([-\d.]+)", path)]
        assert max(pixels) <= zero + 0.1
        cells = page.locator("#own-result .numbers tbody td").all_text_contents()
        assert not any(cell.startswith("−") for cell in cells)
        page.context.close()


def test_the_list_promises_no_more_than_can_be_given(tmp_path: Path, visit: Visit) -> None:
    with music_study(tmp_path, private=False, limit=0.5) as served:
        send(served, served.tokens["own"] or "", [{"x": name, "y": 0.5} for name in ("Metallica", "Iron Maiden")])
        release_now(served)
        visitor = visit(address(served))
        visitor.sign_in("mine", served.tokens["own"])
        expect(visitor.page.get_by_role("heading", name="Your top 20")).to_be_visible()
        best = [mean for _, mean, _ in visitor.best(place="#mine-result")]
        assert best[0] > 0.502
        assert best == sorted(best, reverse=True)
        shown = visitor.page.locator("#mine-result .ranked .value").all_text_contents()
        assert max(float(one.split(" ±")[0].replace("−", "-")) for one in shown) == 0.5
        visitor.page.context.close()

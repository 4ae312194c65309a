"""The page in a real browser: the study, and trying it without sending anything."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Route, expect

from motet import Disclosed, Estimate
from motet.server.pages import assets
from tests.scenarios.harness import CURVES, END, Program, poll, write_study
from tests.server.world import World
from tests.web.studies import SCRIPT, clinic_study, music_study, patient, running_study
from tests.web.visitor import Visit, Visitor, address, release_now

RATINGS = {"The Rolling Stones": 2.8, "Metallica": -2.5, "Miles Davis": 2.3, "Björk": 1.1, "Johnny Cash": -0.4}
OWN = {5.0: 0.9, 10.0: 1.25, 21.0: 1.6}


def release_of(served: World) -> Disclosed:
    return Disclosed.from_bytes(served.call("GET", "/v1/disclosed").content)


# --- the same numbers as Python ---


@pytest.mark.parametrize("policy", ["exact", "private"])
def test_a_listener_rates_five_artists_and_nothing_leaves_the_browser(
    studies: dict[str, World], visit: Visit, policy: str
) -> None:
    served = studies[f"music {policy}"]
    visitor = visit(address(served))
    visitor.open("try")
    expect(visitor.page.get_by_role("heading", name="The average's top 20")).to_be_visible()
    before = len(visitor.requests)
    for name, y in RATINGS.items():
        visitor.rate(name, y)
    expect(visitor.page.get_by_role("heading", name="Your top 20")).to_be_visible()
    found = visitor.best()

    release = release_of(served)
    estimate = release.estimate(list(RATINGS), list(RATINGS.values()))
    names = estimate.top(20, exclude=list(RATINGS))
    mean, std = estimate.predict(names, return_std=True)
    assert [name for name, _, _ in found] == names
    np.testing.assert_allclose([one for _, one, _ in found], mean, atol=1e-6)
    np.testing.assert_allclose([one for _, _, one in found], std, atol=1e-6)
    catalogue = release.model.catalogue
    assert catalogue is not None
    average, average_std = release.average(catalogue.rows, return_std=True)
    best = np.argsort(-average, kind="stable")[:20]
    shown = visitor.best("The best of the average")
    assert [name for name, _, _ in shown] == [catalogue.names[k] for k in best]
    np.testing.assert_allclose([one for _, _, one in shown], average_std[best], atol=1e-6)

    assert len(visitor.requests) == before
    for request in visitor.requests:
        assert (request.method, request.post_data) == ("GET", None)
        assert request.url.startswith(address(served))
        assert not any(str(y) in request.url for y in RATINGS.values())
    calls = [one for one in visitor.requests if "/v1/" in one.url]
    files = [
        one for one in visitor.requests if "/web/" in one.url or one.url.endswith("/#try") or one.url.endswith("/")
    ]
    assert len(calls) + len(files) == len(visitor.requests)
    expect(visitor.page.locator("#own-requests")).to_have_text(
        f"{len(calls)} requests besides those for the files of this page, all of them GET; 0 bytes sent with them."
    )


@pytest.mark.parametrize("policy", ["exact", "private"])
def test_own_points_make_an_own_curve(studies: dict[str, World], visit: Visit, policy: str) -> None:
    served = studies[f"curve {policy}"]
    visitor = visit(address(served))
    visitor.open("try")
    for x, y in OWN.items():
        visitor.page.get_by_label("distance (km)", exact=True).fill(str(x))
        visitor.page.get_by_label("pace", exact=True).fill(str(y))
        visitor.page.get_by_role("button", name="Add").click()
    expect(visitor.page.locator("#own-result .chart circle.dot")).to_have_count(3)
    x, mean, std = np.array(visitor.numbers("#own-result")).T
    estimate = release_of(served).estimate([{"distance": x} for x in OWN], list(OWN.values()))
    expected = estimate.predict(x[:, None], return_std=True)
    np.testing.assert_allclose([mean, std], expected, atol=1e-6)
    assert all(request.method == "GET" for request in visitor.requests)


def test_the_average_of_a_curve_is_the_releases(studies: dict[str, World], visit: Visit) -> None:
    served = studies["curve exact"]
    visitor = visit(address(served))
    expect(visitor.page.locator("#average-chart .chart path.curve")).to_have_count(1)
    x, mean, std = np.array(visitor.numbers("#average-chart")).T
    np.testing.assert_allclose([mean, std], release_of(served).average(x[:, None], return_std=True), atol=1e-6)


STROKES = "(curves) => curves.map((curve) => getComputedStyle(curve).stroke)"


def assert_answer(visitor: Visitor, estimate: Estimate, x: dict[str, Any]) -> None:
    """The visitor's own value in words below the chart."""
    mean, std = (float(one[0]) for one in estimate.predict([x], return_std=True))
    answer = visitor.page.locator("#own-result .answer strong").first

    def agrees() -> bool:
        visitor.settle()
        told = [float(answer.get_attribute(key) or "nan") for key in ("data-mean", "data-std")]
        return bool(np.allclose(told, [mean, std], rtol=0, atol=1e-6))

    poll(agrees, END, "the page gives the answer there")


def test_every_value_of_a_category_is_compared_or_the_page_says_which(tmp_path: Path, visit: Visit) -> None:
    wards = [f"ward {k}" for k in range(1, 11)]
    for count, text in ((5, ""), (10, "8 of the 10 values of sex are drawn")):
        with clinic_study(tmp_path / str(count), values=("f", "m", *wards[: count - 2])) as served:
            release_now(served)
            page = visit(address(served)).page
            page.locator("#study").get_by_label("Compare").select_option("sex")
            curves = page.locator("#average-chart .chart path.curve")
            expect(curves).to_have_count(min(count, 8))
            assert len(set(curves.evaluate_all(STROKES))) == min(count, 8)
            expect(page.locator("#average-chart .note")).to_contain_text(text)
            page.locator("#study").get_by_label("Answer at sex").select_option(wards[count - 3])
            expect(page.locator("#average-chart .legend")).to_contain_text(f"sex = {wards[count - 3]}")
            page.context.close()


def test_several_inputs_have_two_selectors_and_a_control_each(tmp_path: Path, visit: Visit) -> None:
    with clinic_study(tmp_path) as served:
        release_now(served)
        release = release_of(served)
        visitor = visit(address(served))
        page = visitor.page
        expect(page.locator("#study").get_by_label("Answer at visit", exact=True)).to_have_value("2025-07-02")
        page.locator("#study").get_by_label("Compare").select_option("sex")
        expect(page.locator("#average-chart .chart path.curve")).to_have_count(2)
        hours, mean, std = np.array(visitor.numbers("#average-chart")).T  # the last curve is that of m
        rows = [{**patient(h, "m"), "visit": "2025-07-02"} for h in hours]
        colours = page.locator("#average-chart .chart path.curve").evaluate_all(STROKES)
        assert len(set(colours)) == 2
        np.testing.assert_allclose([mean, std], release.average(rows, return_std=True), atol=1e-6)
        visitor.open("try")
        own = [patient(3.0, "m"), patient(9.5, "m")]
        for one, y in zip(own, ("2.5", "1.25")):
            page.get_by_label("hours (h)", exact=True).fill(str(one["hours"]))
            page.get_by_label("sex", exact=True).select_option(one["sex"])
            page.get_by_label("visit", exact=True).fill(one["visit"])
            page.get_by_label("glucose", exact=True).fill(y)
            page.get_by_role("button", name="Add").click()
        estimate = release.estimate(own, [2.5, 1.25])
        tried = page.locator("#try")
        for name, cell in {"hours (h)": "9.5", "sex": "m", "visit": "2025-03-01"}.items():  # as the last example
            expect(tried.get_by_label(f"Answer at {name}", exact=True)).to_have_value(cell)
        assert_answer(visitor, estimate, own[1])
        expect(page.locator("#own-result .answer")).to_contain_text(
            "At hours 9.5 h, sex m, visit 2025-03-01: your glucose is"
        )
        expect(page.locator("#own-result circle.faint")).to_have_count(0)
        tried.get_by_label("Answer at sex").select_option("f")
        expect(page.locator("#own-result circle.faint")).to_have_count(2)  # they are of m
        assert_answer(visitor, estimate, patient(9.5, "f"))
        tried.get_by_label("Compare").select_option("sex")
        expect(page.locator("#own-result .chart path.curve")).to_have_count(4)
        hours, mean, std = np.array(visitor.numbers("#own-result")).T
        rows = [patient(h, "m") for h in hours]
        np.testing.assert_allclose([mean, std], estimate.predict(rows, return_std=True), atol=1e-6)
        page.context.close()


def test_a_chosen_item_moves_nothing_until_it_is_moved(studies: dict[str, World], visit: Visit) -> None:
    """It is on the study's scale, where the average is, and all others stay where they are."""
    served = studies["music exact"]
    visitor = visit(address(served))
    visitor.open("try")
    page, name = visitor.page, "Björk"
    page.fill("#own-search", name)
    page.get_by_role("button", name=name, exact=True).click()
    slider = page.get_by_label(f"Your rating of {name}", exact=True)
    expect(slider).to_be_focused()
    ends = [slider.get_attribute(key) for key in ("min", "max", "step")]
    assert ends == ["-3", "3", "0.1"]
    average = release_of(served).average([name])[0]
    assert abs(float(slider.input_value()) - average) <= 0.05 + 1e-9
    expect(page.get_by_role("heading", name="Your top 20")).to_be_visible()
    own = {one: y for one, y, _ in visitor.best()}
    others = {one: y for one, y, _ in visitor.best("The best of the average") if one != name}
    assert len(own.keys() & others.keys()) > 15
    assert all(own[one] == pytest.approx(y, abs=1e-9) for one, y in others.items() if one in own)
    page.keyboard.press("End")
    expect(slider).to_have_value("3")
    poll(lambda: {one: y for one, y, _ in visitor.best()} != own, END, "the list moves")


def test_which_ratings_moved_what(studies: dict[str, World], visit: Visit) -> None:
    visitor = visit(address(studies["music exact"]))
    visitor.open("try")
    for name, y in list(RATINGS.items())[:2]:
        visitor.rate(name, y)
    visitor.settle()
    first = visitor.page.locator("ol[aria-label^='Your best'] > li").first
    expect(first.locator(".why")).to_have_text(
        re.compile(r"moved by (The Rolling Stones|Metallica) [+−].*, (Metallica|The Rolling Stones) [+−].*")
    )
    expect(first.locator(".remark")).to_have_text(re.compile(r"[▲▼] \d+, average \d+\.|as in the average"))


# --- the study ---


def test_the_study_in_words(studies: dict[str, World], visit: Visit) -> None:
    private, exact = (visit(address(studies[f"music {policy}"])).page for policy in ("private", "exact"))
    expect(private.locator("#facts")).to_contain_text("1 of 4")
    expect(private.locator("#next")).to_contain_text(re.compile(r"in (\d+ min )?\d+ s at (\d+ \w+ \d+, )?\d\d:\d\d"))
    expect(private.locator("#budget")).to_have_text(
        re.compile(r"1 of 4 releases is out. They spent ε = \d\.\d\d of 3; the rest pays for 3 more releases.")
    )
    expect(private.locator("#privacy")).to_contain_text("at most 20 times (e^ε) as likely")
    expect(private.locator("#privacy .gauge")).to_have_attribute("aria-label", re.compile("privacy budget"))
    expect(exact.locator("#privacy")).to_contain_text("Releases are without noise.")


def test_a_new_release_appears_by_itself_and_the_estimate_follows(tmp_path: Path, visit: Visit) -> None:
    with running_study(tmp_path) as served:
        visitor = visit(address(served))
        page = visitor.page
        expect(page.locator("#empty")).to_contain_text("Nothing is released yet. The first release is due at")
        visitor.open("try")
        expect(page.locator("#own-empty")).to_be_visible()
        release_now(served)
        expect(page.locator("#own-form")).to_be_visible()
        page.get_by_label("distance (km)", exact=True).fill("10")
        page.get_by_label("pace", exact=True).fill("7")
        page.get_by_role("button", name="Add").click()
        expect(page.locator("#own-result .chart circle.dot")).to_have_count(1)
        before = visitor.numbers("#own-result")
        served.call("POST", "/v1/examples", "own", json={"examples": [{"id": "1", "x": {"distance": 10.0}, "y": 12.0}]})
        served.release()
        visitor.open("study")
        expect(page.locator("#release")).to_have_text("2")
        visitor.open("try")
        after = visitor.numbers("#own-result")
        assert len(before) == len(after) == 9
        assert not np.allclose(before, after, atol=1e-4)
        page.context.close()


def test_a_budget_that_is_spent_says_so(tmp_path: Path, visit: Visit) -> None:
    with running_study(tmp_path, private=True) as served:
        for _ in range(4):
            served.release()
        page = visit(address(served)).page
        expect(page.locator("#next")).to_have_text("none: the budget is spent")
        expect(page.locator("#budget")).to_have_text(
            "All of it is spent: 4 releases are out. The last one stays valid, and no more will come: "
            "what clients send from now on is in none."
        )
        page.context.close()


def test_the_page_works_on_when_the_server_is_stopped(tmp_path: Path, visit: Visit) -> None:
    program = Program(write_study(tmp_path, CURVES + '[release]\npolicy = "exact"\nevery = "1s"\n'), forked=True)
    try:
        with program.operator() as operator:
            (ann,) = operator.enroll(["ann"])
            with program.client(ann.token) as me:
                me.send_many([[0.5], [1.5]], [0.9, 0.3])
            operator.release_now()
        visitor = visit(program.url)
        visitor.expected = ("net::ERR_",)
        visitor.open("try")
        expect(visitor.page.locator("#own-form")).to_be_visible()
    finally:
        program.process.send_signal(signal.SIGKILL)
        program.process.wait(60)
    page = visitor.page
    expect(page.locator("#trouble")).to_contain_text(re.compile("has not answered since .* It works on with release"))
    page.get_by_label("x", exact=True).fill("1")
    page.get_by_label("y", exact=True).fill("2")
    page.get_by_role("button", name="Add").click()
    expect(page.locator("#own-result .chart circle.dot")).to_have_count(1)
    assert len(visitor.numbers("#own-result")) == 9
    program.start()
    try:
        expect(page.locator("#trouble")).to_be_hidden()
        visitor.open("study")
        expect(page.locator("#next")).to_contain_text(re.compile("in |is being computed"))
    finally:
        program.process.terminate()
        program.process.wait(60)


def test_a_release_that_cannot_be_read_is_told_apart_from_a_silent_server(
    studies: dict[str, World], visit: Visit
) -> None:
    visitor = visit("about:blank")
    visitor.page.route("**/v1/disclosed", lambda route: route.fulfill(body="<html>a proxy's page</html>"))
    visitor.url = address(studies["curve exact"])
    visitor.open()
    expect(visitor.page.locator("#trouble")).to_have_text(
        "Something is wrong. not a release: expected a file that Motet wrote"
    )


def test_a_release_that_is_on_its_way_is_not_called_missing(studies: dict[str, World], visit: Visit) -> None:
    visitor, held = visit("about:blank"), list[Route]()

    def hold(route: Route) -> None:
        held.append(route)

    visitor.page.route("**/v1/disclosed", hold)
    visitor.url = address(studies["curve exact"])
    visitor.open("try")
    expect(visitor.page.locator("#own-empty")).to_have_text("Release 1 is being downloaded.")
    visitor.open("study")
    expect(visitor.page.locator("#average-empty")).to_have_text("Release 1 is being downloaded.")
    held[0].continue_()
    expect(visitor.page.locator("#average-chart .chart")).to_be_visible()
    expect(visitor.page.locator("#average-empty")).to_be_hidden()


def test_without_scripts_the_page_has_the_facts(studies: dict[str, World], visit: Visit) -> None:
    page = visit(address(studies["music private"]), java_script_enabled=False).page
    expect(page.locator("#plain")).to_contain_text("ε spent 1.39")
    expect(page.locator("#try")).to_be_hidden()


# --- own data ---


def test_own_data_are_kept_only_if_chosen_and_can_be_saved_and_cleared(studies: dict[str, World], visit: Visit) -> None:
    visitor = visit(address(studies["music exact"]), accept_downloads=True)
    page = visitor.page
    visitor.open("try")
    visitor.rate("Miles Davis", 2.3)
    page.reload()
    expect(page.get_by_role("heading", name="The average's top 20")).to_be_visible()
    assert page.locator("#own-list li").count() == 0
    visitor.rate("Miles Davis", 2.3)
    page.get_by_label("Keep on this device").check()
    page.reload()
    expect(page.get_by_label("Your rating of Miles Davis")).to_have_value("2.3")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as CSV").click()
    assert download.value.path().read_text(encoding="utf-8").split() == ["artist,stars", "Miles", "Davis,2.3"]
    page.get_by_role("button", name="Clear").click()
    page.reload()
    expect(page.get_by_role("heading", name="The average's top 20")).to_be_visible()
    assert page.locator("#own-list li").count() == 0


def test_all_can_be_done_with_the_keyboard(studies: dict[str, World], visit: Visit) -> None:
    visitor = visit(address(studies["music exact"]))
    page = visitor.page
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Try it")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Find something you know, and rate it")).to_be_visible()
    page.get_by_label("Find something you know, and rate it").focus()
    page.keyboard.type("björk")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    slider = page.get_by_label("Your rating of Björk")
    expect(slider).to_be_focused()
    expect(page.get_by_role("heading", name="Your top 20")).to_be_visible()
    first = visitor.best()
    page.keyboard.press("Home")
    expect(slider).to_have_value("-3")
    assert visitor.best() != first


# --- safety ---


def test_names_that_are_markup_stay_text(tmp_path: Path, visit: Visit) -> None:
    with music_study(tmp_path, private=False, name=SCRIPT, artist=SCRIPT) as served:
        release_now(served)
        visitor = visit(address(served))
        page = visitor.page
        expect(page.get_by_role("heading", level=1)).to_have_text(SCRIPT)
        expect(page).to_have_title(SCRIPT)
        visitor.open("try")
        visitor.rate(SCRIPT, 2.9)
        visitor.settle()
        expect(page.locator("#own-list")).to_contain_text(SCRIPT)
        expect(page.locator("ol[aria-label^='Your best'] .why").first).to_contain_text(SCRIPT)
        assert page.locator("main script").count() == 0
        page.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["music private", "curve exact"])
def test_nothing_serious_keeps_anyone_out(studies: dict[str, World], visit: Visit, kind: str, scheme: str) -> None:
    for width in (1280, 390):
        visitor = visit(address(studies[kind]), scheme=scheme, width=width)
        expect(visitor.page.locator("#average-chart > *")).to_have_count(1)
        assert visitor.findings() == []
        visitor.open("try")
        if kind.startswith("music"):
            visitor.rate("Metallica", 2.0)
        assert visitor.findings() == []
        wide = visitor.page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
        assert not wide


def test_a_first_visit_is_light(studies: dict[str, World], visit: Visit) -> None:
    """Besides the release, which is as large as the study makes it."""
    served = studies["music private"]
    visitor = visit(address(served))
    visitor.settle()
    calls = {request.url for request in visitor.requests if "/web/" not in request.url}
    assert {url.removeprefix(address(served)) for url in calls} == {
        "/", "/v1/study?model=false", "/v1/stream", "/v1/disclosed"
    }  # fmt: skip
    answers = [served.call("GET", path) for path in (*assets(), "/", "/v1/study?model=false")]
    assert sum(answer.num_bytes_downloaded for answer in answers) < 75_000  # compressed, as a browser asks for it

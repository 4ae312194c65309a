"""The page for people with a token: a client's own data, and the operator."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

from motet import Client
from tests.scenarios.harness import END, poll
from tests.server.world import World
from tests.web.studies import SCRIPT, music_study, running_study, send
from tests.web.visitor import Visit, Visitor, address, release_now

OWN = [{"x": {"distance": x}, "y": y} for x, y in ((5.0, 0.9), (10.0, 1.25), (21.0, 1.6))]
LIKED = [{"x": "Metallica", "y": 8.0}, {"x": "Miles Davis", "y": -3.0}, {"x": "Björk", "y": 5.0}]


def client(served: World) -> Client:
    return Client(address(served), served.tokens["own"] or "")


def assert_curve_is_the_clients(visitor: Visitor, served: World) -> None:
    """As soon as the page has drawn what the server has."""

    def agrees() -> bool:
        x, mean, std = np.array(visitor.numbers("#mine-result")).T
        with client(served) as me:
            expected = me.estimate().predict(x[:, None], return_std=True)
        return np.allclose([mean, std], expected, rtol=0, atol=1e-6)

    poll(agrees, END, "the page draws the client's curve")


# --- a client ---


@pytest.mark.parametrize("private", [False, True])
def test_a_client_sees_its_curve_and_adds_changes_and_removes(tmp_path: Path, visit: Visit, private: bool) -> None:
    with running_study(tmp_path, private=private) as served:
        send(served, served.tokens["own"] or "", OWN)
        release_now(served)
        visitor = visit(address(served))
        page = visitor.page
        visitor.sign_in("mine", served.tokens["own"])
        expect(page.locator("#mine h3").first).to_have_text("own: 3 examples")
        expect(page.locator("#mine-result .chart circle.dot")).to_have_count(3)
        assert_curve_is_the_clients(visitor, served)  # its examples are in the release, or under it, clipped
        page.locator("#mine-new-distance").fill("30")
        page.locator("#mine-new-pace").fill("2.5")
        page.get_by_role("button", name="Send").click()
        expect(page.locator("#mine-result .chart circle.dot")).to_have_count(4)
        assert_curve_is_the_clients(visitor, served)  # the new one is exchanged for nothing
        page.get_by_role("button", name="Remove 10").click()
        visitor.confirm("Cancel")
        expect(page.locator("#mine-list li")).to_have_count(4)
        visitor.expected = ("409",)
        page.get_by_role("button", name="Remove 10").click()
        visitor.confirm("Remove")
        expect(page.locator("#mine-list li")).to_have_count(3)
        page.get_by_role("button", name="Change 21").click()
        page.locator("#mine-list").get_by_label("pace", exact=True).fill("1.75")
        page.get_by_role("button", name="Save").click()
        expect(page.locator("#mine-list li").filter(has_text="21")).to_contain_text("1.75")
        if not private:
            expect(page.locator("#mine-unread")).to_contain_text("try again after the next one")
        with client(served) as me:
            stored = sorted((one["x"]["distance"], one["y"]) for one in me.examples())
        assert stored == [(5.0, 0.9), (21.0, 1.75), (30.0, 2.5)]
        served.release()
        expect(page.locator("#mine-unread")).to_have_text("")
        expect(page.locator("#mine-result .chart circle.dot")).to_have_count(3)
        assert_curve_is_the_clients(visitor, served)
        page.context.close()


@pytest.mark.parametrize("private", [False, True])
def test_a_listener_sees_its_top_20(tmp_path: Path, visit: Visit, private: bool) -> None:
    with music_study(tmp_path, private=private) as served:
        send(served, served.tokens["own"] or "", LIKED)
        release_now(served)
        visitor = visit(address(served))
        visitor.sign_in("mine", served.tokens["own"])
        expect(visitor.page.get_by_role("heading", name="Your top 20")).to_be_visible()
        shown = visitor.best(place="#mine-result")
        with client(served) as me:
            estimate = me.estimate()
        names = estimate.top(20, exclude=[one["x"] for one in LIKED])
        assert [name for name, _, _ in shown] == names
        np.testing.assert_allclose(
            np.array([pair for _, *pair in shown]).T, estimate.predict(names, return_std=True), atol=1e-6
        )
        visitor.page.context.close()


def test_forget_me_asks_first_and_then_nothing_is_left(tmp_path: Path, visit: Visit) -> None:
    with running_study(tmp_path) as served:
        send(served, served.tokens["own"] or "", OWN)
        visitor = visit(address(served), accept_downloads=True)
        page = visitor.page
        visitor.sign_in("mine", served.tokens["own"])  # before the first release
        expect(page.locator("#mine-result")).to_have_text("Your estimate appears with the first release.")
        with page.expect_download() as download:
            page.get_by_role("button", name="Download as CSV").click()
        header, *rows = download.value.path().read_text(encoding="utf-8").split()
        assert (header, sorted(rows)[0]) == ("id,distance,pace,noise", "0,5,0.9,1")
        page.get_by_role("button", name="Forget me").click()
        expect(page.get_by_role("dialog")).to_contain_text("You and your 3 examples are deleted")
        visitor.confirm("Cancel")
        assert served.call("GET", "/v1/me", "own").status_code == 200
        page.get_by_role("button", name="Forget me").click()
        visitor.confirm("Forget me")
        expect(page.locator("#mine-done")).to_contain_text("3 examples deleted.")  # it is no error
        expect(page.locator("#mine-error")).to_have_text("")
        expect(page.get_by_label("Your token")).to_be_visible()
        assert served.call("GET", "/v1/me", "own").status_code == 401
        page.context.close()


def test_a_token_in_a_link_leaves_the_address_and_is_stored_nowhere(studies: dict[str, World], visit: Visit) -> None:
    served = studies["curve exact"]
    visitor = visit(address(served))
    visitor.open(f"token={served.tokens['own']}")
    expect(visitor.page.locator("#mine h3").first).to_have_text("own: 0 examples")
    token = served.tokens["own"] or "missing"
    assert visitor.page.url == f"{address(served)}/#mine"
    assert all(token not in request.url for request in visitor.requests)
    kept = "JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])"
    assert visitor.page.evaluate(kept) == '[{},{},""]'
    assert token not in visitor.page.content()
    visitor.page.get_by_role("button", name="Sign out").first.click()
    expect(visitor.page.get_by_label("Your token")).to_be_visible()


def test_a_wrong_token_is_told_in_words(studies: dict[str, World], visit: Visit) -> None:
    served = studies["curve exact"]
    visitor = visit(address(served))
    visitor.expected = ("401", "403")
    visitor.sign_in("mine", "wrong")
    expect(visitor.page.locator("#mine-error")).to_contain_text("This token is not valid: it is mistyped")
    visitor.sign_in("operator", "wrong")
    expect(visitor.page.locator("#operator-error")).to_have_text("This token is not valid.")
    visitor.sign_in("operator", served.tokens["own"])
    expect(visitor.page.locator("#operator-error")).to_contain_text("only the operator may make this call")
    expect(visitor.page.locator("#operator-parts")).to_be_hidden()


def test_releases_for_clients_only_come_with_the_token(tmp_path: Path, visit: Visit) -> None:
    with running_study(tmp_path, settings='download = "clients"\n') as served:
        send(served, served.tokens["own"] or "", OWN)
        release_now(served)
        visitor = visit("about:blank")
        visitor.expected, visitor.url = ("401",), address(served)
        visitor.open()
        expect(visitor.page.locator("#trouble")).to_contain_text("gives its releases to clients only")
        visitor.sign_in("mine", served.tokens["own"])
        expect(visitor.page.locator("#mine-result .chart circle.dot")).to_have_count(3)
        expect(visitor.page.locator("#trouble")).to_be_hidden()
        visitor.page.context.close()


def test_whoever_sends_after_the_last_release_is_told(tmp_path: Path, visit: Visit) -> None:
    with running_study(tmp_path, private=True) as served:
        release_now(served)
        visitor = visit(address(served))
        page = visitor.page
        visitor.sign_in("mine", served.tokens["own"])
        visitor.sign_in("operator", served.tokens["operator"])
        expect(page.locator("#operator-count")).to_have_text("83 clients with 480 examples")
        for place in ("#mine-ended", "#operator-ended"):
            assert page.locator(place).is_hidden()
        for _ in range(3):
            served.release()
        reason = "The budget (ε = 3) is spent: all 4 releases are out; the last one stays valid, and no more will come."
        expect(page.locator("#operator-ended")).to_have_text(
            f"No later release has clients that you enroll now, or what anybody sends. {reason}"
        )
        visitor.open("mine")
        expect(page.locator("#mine-ended")).to_have_text(f"No later release has what you send or change now. {reason}")
        page.context.close()


def test_a_client_whose_own_budget_is_spent_is_told(tmp_path: Path, visit: Visit) -> None:
    with running_study(tmp_path, private=True, per="client") as served:
        send(served, served.tokens["own"] or "", OWN)
        release_now(served)
        visitor = visit(address(served))
        visitor.sign_in("mine", served.tokens["own"])
        expect(visitor.page.locator("#mine h3").first).to_have_text("own: 3 examples")
        assert visitor.page.locator("#mine-ended").is_hidden()
        for _ in range(4):
            served.release()
        expect(visitor.page.locator("#mine-ended")).to_contain_text(
            "A client's budget (ε = 3) is for 4 releases: it has taken part in as many, and later ones leave it out."
        )
        visitor.open("study")
        expect(visitor.page.locator("#next")).to_contain_text("in ")
        expect(visitor.page.locator("#budget")).to_have_text(
            "Each client has a budget of its own, ε = 3 for 4 releases; later ones leave it out, and the study goes "
            "on. 5 releases are out: a client that was in all it could be in has spent ε = 3.00."
        )
        page = visitor.page
        visitor.sign_in("operator", served.tokens["operator"])
        expect(page.locator("#operator-next")).to_contain_text("by a client that was in 4 releases; it may be in 4.")
        assert page.locator("#operator-ended").is_hidden()
        page.context.close()


# --- the operator ---


def test_the_operator_enrolls_revokes_and_sees_what_happens(tmp_path: Path, visit: Visit) -> None:
    with running_study(tmp_path) as served:
        release_now(served)
        visitor = visit(address(served))
        page = visitor.page
        visitor.sign_in("operator", served.tokens["operator"])
        expect(page.locator("#operator-count")).to_have_text("83 clients with 480 examples")
        expect(page.locator("#operator-next")).to_have_text(
            re.compile(r"Due at .*: 480 examples of 80 clients, with 0 changes since the last\.")
        )
        page.get_by_role("button", name="Enroll").click()
        looks = sum("/v1/refusals" in request.url for request in visitor.requests)
        with page.expect_response(lambda answer: "/v1/refusals" in answer.url):  # of the next look
            expect(page.locator("#operator-error")).to_contain_text("expected a name in each line, got none")
        visitor.settle()
        assert sum("/v1/refusals" in request.url for request in visitor.requests) > looks
        expect(page.locator("#operator-error")).to_contain_text("expected a name in each line, got none")
        page.get_by_label("Names, one in each line").fill(f"anna\n{SCRIPT}\n")
        page.get_by_role("button", name="Enroll").click()
        expect(page.locator("#operator-enrolled")).to_contain_text(SCRIPT)
        expect(page.locator("#operator-count")).to_have_text("85 clients with 480 examples")
        token = page.locator("#operator-enrolled code").first.inner_text()
        send(served, token, OWN)
        served.call("GET", "/v1/me", "garbage")
        page.get_by_role("searchbox", name="Find", exact=True).fill("anna")
        page.get_by_role("button", name="Revoke anna").click()
        visitor.confirm("Revoke")
        expect(page.locator("#operator-clients")).to_contain_text("revoked")
        headers = {"Authorization": f"Bearer {token}"}
        assert served.http.get("/v1/me", headers=headers).status_code == 401
        page.get_by_role("button", name="New token anna").click()
        visitor.confirm("New token")
        expect(page.locator("#operator-enrolled code")).to_have_count(1)
        other = page.locator("#operator-enrolled code").inner_text()
        assert other != token
        assert served.http.get("/v1/me", headers={"Authorization": f"Bearer {other}"}).json()["count"] == 3
        expect(page.locator("#operator-releases tr")).to_have_count(1)
        expect(page.locator("#operator-next")).to_contain_text(
            "483 examples of 81 clients, with 1 change since the last."
        )
        expect(page.locator("#operator-refusals tr").first).to_contain_text("/v1/me")
        page.get_by_role("button", name="Sign out").last.click()
        expect(page.get_by_label("The operator's token")).to_be_visible()
        assert other not in page.content()
        page.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_keeps_anyone_out(studies: dict[str, World], visit: Visit, scheme: str) -> None:
    for width in (1280, 390):
        visitor = visit(address(studies["curve private"]), scheme=scheme, width=width)
        for part, who in (("mine", "another"), ("operator", "operator")):
            visitor.open(part)
            assert visitor.findings() == []
            visitor.sign_in(part, studies["curve private"].tokens[who])
            expect(visitor.page.locator(f"#{part}-parts")).to_be_visible()
            assert visitor.findings() == []
            wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
            assert not visitor.page.evaluate(wide)

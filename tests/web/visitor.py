"""Somebody with a browser: opens the page, rates, types, and notes every request and every complaint of the page."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import ConsoleMessage, Page, Request, expect

from tests.server.world import World

SERIOUS = ("serious", "critical")
expect.set_options(timeout=30_000)  # of a machine that is slow and busy: no wait takes longer than it must


@dataclass
class Visitor:
    page: Page
    url: str
    requests: list[Request] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()  # complaints of the browser itself, about a server that is gone or refuses

    def open(self, part: str = "") -> None:
        if not self.requests:
            self.page.on("request", self._request)
            self.page.on("console", self._console)
            self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
            self.page.on("dialog", lambda dialog: self.complaints.append(f"a dialog: {dialog.message}"))
        self.page.goto(f"{self.url}/#{part}")

    def _request(self, request: Request) -> None:
        self.requests.append(request)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(text in message.text for text in self.expected):
            self.complaints.append(message.text)

    # --- a catalogue ---

    def rate(self, name: str, y: float) -> None:
        self.page.fill("#own-search", name)
        self.page.get_by_role("button", name=name, exact=True).click()
        slider = self.page.get_by_label(f"Your rating of {name}", exact=True)
        slider.evaluate("(range, y) => { range.value = y; range.dispatchEvent(new Event('input')); }", y)

    def best(self, title: str = "Your best", place: str = "#own-result") -> list[tuple[str, float, float]]:
        """Names, means and standard deviations of a list, as it is once nothing is left to compute."""
        self.settle()
        rows = self.page.locator(f"{place} ol[aria-label^='{title}'] > li")
        values: list[Any] = rows.evaluate_all("(rows) => rows.map((row) => ({ ...row.dataset }))")
        return [(one["item"], float(one["mean"]), float(one["std"])) for one in values]

    # --- curves ---

    def numbers(self, place: str) -> list[tuple[float, float, float]]:
        """x, mean and standard deviation of the last curve of a chart."""
        self.settle()
        cells = self.page.locator(f"{place} .numbers tbody td:last-child")
        values: list[Any] = cells.evaluate_all("(cells) => cells.map((cell) => ({ ...cell.dataset }))")
        return [(float(one["x"]), float(one["mean"]), float(one["std"])) for one in values]

    # --- people with a token ---

    def sign_in(self, part: str, token: str | None) -> None:
        self.open(part)
        self.page.fill(f"#{part}-token", token or "")
        self.page.click(f"#{part}-sign-in button")

    def confirm(self, action: str) -> None:
        self.page.get_by_role("dialog").get_by_role("button", name=action, exact=True).click()

    # --- the page as a whole ---

    def settle(self) -> None:
        """Until the worker has answered all that it was asked."""
        expect(self.page.locator("html")).to_have_attribute("data-waiting", "0")

    def findings(self) -> list[str]:
        """What axe finds that is serious."""
        self.settle()
        found = Axe().run(self.page).response["violations"]
        return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found if one["impact"] in SERIOUS]


Visit: TypeAlias = Callable[..., Visitor]


def address(served: World) -> str:
    return str(served.http.base_url).rstrip("/")


def release_now(served: World) -> int:
    """The first release at the present time, so that the page shows when the next is due."""
    served.now[0] = time.time() - 3600
    return served.release()

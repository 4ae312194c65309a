"""A real browser for the tests of the page: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.server.world import World
from tests.web.studies import music_study, running_study
from tests.web.visitor import Visitor, release_now

# Nothing of the browser's own leaves the machine, and it needs neither a sandbox nor a graphics card.
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Not for the session: while Playwright is there, nothing else has an event loop in this thread."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium on this machine: install Debian's package chromium")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Visitor]]:
    """Opens an address in a browser of its own; whatever the page complains about fails the test."""
    with ExitStack() as stack:
        yield lambda url, **settings: stack.enter_context(visiting(browser, url, **settings))


@pytest.fixture(scope="session")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, World]]:
    """One release each of music and of a curve, exact and private; tests leave them as they are."""
    with ExitStack() as stack:
        served = {}
        for kind, make in (("music", music_study), ("curve", running_study)):
            for policy in ("exact", "private"):
                folder = tmp_path_factory.mktemp(f"{kind}-{policy}")
                served[f"{kind} {policy}"] = stack.enter_context(make(folder, private=policy == "private"))
                release_now(served[f"{kind} {policy}"])
        yield served


@contextmanager
def visiting(
    browser: Browser, url: str, *, scheme: Literal["light", "dark"] = "light", width: int = 1280, **settings: Any
) -> Iterator[Visitor]:
    size: Any = {"width": width, "height": 900}
    context = browser.new_context(viewport=size, color_scheme=scheme, **settings)
    visitor = Visitor(context.new_page(), url)
    visitor.open()
    yield visitor
    context.close()
    assert visitor.complaints == []

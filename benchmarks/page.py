"""The page in a browser: opening it until a personal top 20 of 489 artists is there, one more rating, and its bytes."""

from __future__ import annotations

import json
import secrets
import shutil
import tempfile
import time
from functools import partial
from pathlib import Path

import httpx
import numpy as np
from playwright.sync_api import Browser, sync_playwright

from benchmarks.measure import Row, duration
from motet import Client
from motet.music.crowd import Crowd
from motet.music.hosting import running_server
from motet.server.pages import assets

LISTENERS, VISITS, RATINGS = 200, 7, 30
OPEN_SECONDS, RATING_SECONDS, FIRST_VISIT_BYTES = 1.5, 0.1, 150_000  # the aims
PORTS = range(8000, 9000)
SHOWN = "#own-result ol[aria-label^='Your best'] > li"
# From the event of the slider until the list is another one, in milliseconds.
RATE = """(y) => new Promise((resolve) => {
  const [range, place] = [document.querySelector("#own-list input[type=range]"), document.querySelector("#own-result")];
  const begin = performance.now();
  const observer = new MutationObserver(() => { observer.disconnect(); resolve(performance.now() - begin); });
  observer.observe(place, { childList: true });
  range.value = y;
  range.dispatchEvent(new Event("input"));
})"""


def page() -> list[Row]:
    """Without a browser on this machine, nothing."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        return []
    crowd, operator = Crowd(LISTENERS, 0), secrets.token_urlsafe(32)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        write = partial(crowd.write, Path(folder), exact=True, every=3600, releases=10)
        with running_server(write, PORTS, operator) as server:
            _send(crowd, Client(server.url, operator))
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
            opening, rating = _visits(browser, server.url, crowd)
            browser.close()
            loaded = _first_visit_bytes(server.url)
    first_visit = "a first visit to the page, besides the release"
    return [
        Row("opening the page, until a personal top 20 of 489", duration(opening), "1.5 s", opening / OPEN_SECONDS, 1),
        Row("one more rating on the page", duration(rating), "100 ms", rating / RATING_SECONDS, 1),
        Row(first_visit, f"{loaded / 1000:.0f} kB", "150 kB", loaded / FIRST_VISIT_BYTES, 1),
    ]


def _send(crowd: Crowd, operator: Client) -> None:
    for j, listener in enumerate(operator.enroll([f"listener {j}" for j in range(LISTENERS)])):
        operator.with_token(listener.token).send_many(*crowd.ratings(j))
    operator.release_now()


def _visits(browser: Browser, url: str, crowd: Crowd) -> tuple[float, float]:
    """Medians of visits with an empty cache and five ratings kept on the device, and of ratings."""
    openings, ratings = [], list[float]()
    names, values = crowd.ratings(LISTENERS)
    kept = json.dumps([{"cells": {"name": name}, "y": y} for name, y in zip(names, values)])
    for _ in range(VISITS):
        context = browser.new_context()
        context.add_init_script(f"localStorage.setItem('motet-own-examples', {json.dumps(kept)})")
        visit = context.new_page()
        begin = time.perf_counter()
        visit.goto(f"{url}/#try")
        visit.wait_for_selector(SHOWN)
        openings.append(time.perf_counter() - begin)
        ratings += [visit.evaluate(RATE, 5 * np.sin(k)) for k in range(RATINGS // VISITS + 1)]
        context.close()
    return float(np.median(openings)), float(np.median(ratings)) / 1000


def _first_visit_bytes(url: str) -> int:
    plain = [httpx.get(f"{url}{path}").content for path in ("/", "/v1/study?model=false")]
    return sum(map(len, plain)) + sum(len(file.gzipped) for file in assets().values())

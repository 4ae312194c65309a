"""Small studies for the tests of the page: the article's music with listeners, and a curve along one input."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from motet.music import simulation as music
from motet.music.crowd import COMMON_TOML, EXACT, PRIVATE, STUDY
from tests.server.world import World, world

SCRIPT = "<script>alert(1)</script>"
LISTENERS, RATINGS, RUNNERS = 60, 5, 80
RUNNING = """
[study]
name = "Running"
[model]
alpha = 0.5
lam = 0.02
sigma2 = 0.5
common = { kernel = "rbf", length_scale = 8.0 }
individual = { kernel = "constant", value = 1.0 }
[inputs]
columns = [{ name = "distance", bounds = [0.0, 42.0], unit = "km" }]
[table]
target = "pace"
[limits]
y = [-5.0, 15.0]
[release]
"""
MUSIC_TABLE = """
[table]
client = "listener"
name = "artist"
target = "stars"
"""
EXACT_CURVE = 'policy = "exact"\nevery = "1h"\n[server]\nrate = 1e6\n'
PRIVATE_CURVE = (
    'policy = "private"\nepsilon = 3.0\nreleases = 4\nevery = "1h"\n[server]\nrate = 1e6\n'
    '[basis]\nkind = "landmarks"\nspread = 8\n'
)


@contextmanager
def music_study(
    folder: Path, *, private: bool, rank: int = 20, name: str = "Music taste", artist: str = "", limit: float = 10.0
) -> Iterator[World]:
    """Listeners have sent ratings up to a limit, nothing is released; ``artist`` replaces the first of the names."""
    folder.mkdir(exist_ok=True)
    artists = (files("motet.music") / "artists.csv").read_text(encoding="utf-8")
    if artist:
        artists = artists.replace("The Beatles,", f"{artist},", 1)
    (folder / "artists.csv").write_text(artists, encoding="utf-8")
    policy = PRIVATE.format(epsilon=3.0, releases=4).replace('"client"', '"study"') if private else EXACT
    text = STUDY.format(common=COMMON_TOML, policy=policy, every=3600, port=8000)
    text = text.replace("rank = 80", f"rank = {rank}").replace('"Music taste"', f'"{name}"') + "rate = 1e6\n"
    text = text.replace("scale = [-3.0, 3.0", f"scale = [{-min(limit, 3.0)}, {min(limit, 3.0)}")
    text = text.replace("y = [-10.0, 10.0]", f"y = [{-limit}, {limit}]\n{MUSIC_TABLE}")
    for served in world(folder, text):
        catalogue = music.artists()
        listeners = music.simulate(catalogue, LISTENERS, RATINGS, 0)
        names = [artist if artist and k == 0 else one for k, one in enumerate(catalogue.names)]
        for who, token in enumerate(enroll(served, LISTENERS)):
            rows = slice(who * RATINGS, (who + 1) * RATINGS)
            pairs = zip(listeners.artist[rows], listeners.rating[rows])
            send(served, token, [{"x": names[k], "y": float(np.clip(y, -limit, limit))} for k, y in pairs])
        yield served


@contextmanager
def running_study(
    folder: Path, *, private: bool = False, settings: str = "", fastest: float = -5.0, per: str = "study"
) -> Iterator[World]:
    """Runners have sent their paces, in min/km above 5, at some distances, and nothing is released."""
    text = RUNNING.replace("y = [-5.0", f"y = [{fastest}")
    policy = PRIVATE_CURVE.replace("releases = 4", f'releases = 4\nper = "{per}"') if private else EXACT_CURVE
    for served in world(folder, text + policy + settings):
        rng = np.random.default_rng(5)
        for token in enroll(served, RUNNERS):
            distance = rng.uniform(1.0, 40.0, size=6)
            pace = -0.6 + 0.6 * rng.normal() + 0.05 * distance + 0.1 * rng.normal(size=6)
            pairs = zip(distance.round(2).tolist(), np.maximum(pace.round(3), fastest).tolist())
            send(served, token, [{"x": {"distance": x}, "y": y} for x, y in pairs])
        yield served


CLINIC = """
[study]
name = "Clinic"
[model]
alpha = 0.5
lam = 0.05
sigma2 = 1.0
common = { kernel = "sum", of = [
  { kernel = "rbf", length_scale = 6.0, columns = ["hours"] },
  { kernel = "dot_product", sigma_0 = 0.0, columns = ["sex"] },
] }
individual = { kernel = "constant", value = 1.0 }
[inputs]
columns = [
  { name = "hours", bounds = [0.0, 24.0], unit = "h" },
  { name = "sex", values = ["f", "m"] },
  { name = "visit", since = "2024-01-01", bounds = ["2024-01-01", "2026-12-31"] },
]
[table]
target = "glucose"
[release]
"""


@contextmanager
def clinic_study(folder: Path, *, values: tuple[str, ...] = ("f", "m"), order: str = "") -> Iterator[World]:
    """A number, a category and a date; patients have the first two values of the category."""
    text = CLINIC.replace('["f", "m"]', json.dumps(values))
    text = text.replace('name = "visit"', f'name = "visit", order = "{order}"') if order else text
    for served in world(folder, text + EXACT_CURVE):
        rng = np.random.default_rng(6)
        for token in enroll(served, 20):
            sex, level = rng.integers(2), 0.5 * rng.normal()
            hours = np.sort(rng.uniform(0.0, 24.0, size=4)).round(1).tolist()
            send(served, token, [{"x": patient(h, "fm"[sex]), "y": level + sex + float(np.sin(h / 4))} for h in hours])
        yield served


def patient(hours: float, sex: str) -> dict[str, Any]:
    return {"hours": hours, "sex": sex, "visit": "2025-03-01"}


def enroll(served: World, count: int) -> list[str]:
    names = [f"client {k}" for k in range(count)]
    clients = served.call("POST", "/v1/clients", "operator", json={"names": names}).json()["clients"]
    return [client["token"] for client in clients]


def send(served: World, token: str, examples: list[dict[str, Any]]) -> None:
    body = {"examples": [{"id": str(k), **example} for k, example in enumerate(examples)]}
    answer = served.http.post("/v1/examples", json=body, headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200, answer.text

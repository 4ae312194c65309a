"""Tables such as people bring: patients' glucose, ratings of films, sales of shops. Each has rows to learn and to test.

They have the shape of real ones: columns of text and dates that are no inputs, missing values, clients with few rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class OwnTable:
    """``rows`` are known to the study, ``later`` are rows of the same clients, for the test."""

    name: str
    rows: pd.DataFrame
    later: pd.DataFrame
    client: str
    target: str
    inputs: list[str]
    items: pd.DataFrame | None = None  # names and features, if inputs are names

    def write(self, folder: Path) -> None:
        self.rows.to_csv(folder / f"{self.name}.csv", index=False)
        self.later.to_csv(folder / "later.csv", index=False)
        if self.items is not None:
            self.items.to_csv(folder / "items.csv", index=False)


def glucose(seed: int = 1, patients: int = 150) -> OwnTable:
    """Blood glucose over the day: a rise after breakfast and lunch, when and as high as it is each patient's own."""
    rng = np.random.default_rng(seed)
    parts = []
    for k in range(patients):
        hours = np.sort(rng.uniform(0.0, 14.0, size=rng.integers(5, 12))).round(2)
        level, rise = rng.normal(115.0, 12.0), rng.normal(-0.5, 0.9)
        y = level + rise * (hours - 7.0) + rng.normal(0.0, 7.5, size=len(hours))
        for hour, height, width in ((1.6, 15.0, 1.0), (6.5, 20.0, 1.4)):  # breakfast and lunch
            own = (
                height * np.exp(rng.normal(0.0, 0.5)),
                hour + rng.normal(0.0, 0.5),
                width * np.exp(rng.normal(0.0, 0.3)),
            )
            y += own[0] * np.exp(-(((hours - own[1]) / own[2]) ** 2))
        parts.append(pd.DataFrame({"patient": f"P{k:03d}", "hours": hours, "glucose": y.round(1)}))
    frame = pd.concat(parts, ignore_index=True)
    frame.insert(1, "visit", (np.datetime64("2025-03-03") + rng.integers(0, 200, size=len(frame))).astype(str))
    frame["nurse"] = rng.choice(["Ines", "Tom", "Ayşe"], size=len(frame))
    frame["note"] = [f"sample {k}" for k in range(len(frame))]
    frame.loc[rng.choice(len(frame), size=14, replace=False), "glucose"] = np.nan
    return _split("glucose", frame, "patient", "glucose", ["hours"], rng, share=0.2)


def ratings(seed: int = 1, users: int = 2000, items: int = 300, *, features: bool = True) -> OwnTable:
    """Ratings from 1 to 5: what a film is like, four numbers, and what each user likes."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(items, 4))
    quality = 0.35 * Z @ rng.normal(size=4) / 2 + 0.3 * np.tanh(Z[:, 0] * Z[:, 1]) + rng.normal(0.0, 0.14, size=items)
    parts = []
    for k in range(users):
        chosen = rng.choice(items, size=min(items, 3 + rng.poisson(20)), replace=False)
        taste = rng.normal(0.0, 0.33, size=4)
        score = (
            3.5 + rng.normal(0.0, 0.38) + quality[chosen] + Z[chosen] @ taste + rng.normal(0.0, 0.75, size=len(chosen))
        )
        stars = np.clip(np.round(score), 1, 5).astype(int)
        parts.append(pd.DataFrame({"user": f"u{k}", "film": [f"film {i}" for i in chosen], "stars": stars}))
    frame = pd.concat(parts, ignore_index=True)
    columns = {f"f{k}": Z[:, k].round(4) for k in range(4)} if features else {}
    catalogue = pd.DataFrame({"film": [f"film {i}" for i in range(items)], **columns})
    return _split("ratings", frame, "user", "stars", ["film"], rng, share=0.2, items=catalogue)


def panel(seed: int = 1, shops: int = 80) -> OwnTable:
    """Weekly sales of shops: price, a competitor's price, advertising, temperature and footfall; region and season."""
    rng = np.random.default_rng(seed)
    parts = []
    for k in range(shops):
        n = int(rng.integers(17, 28))
        price, rival = rng.uniform(2.0, 6.0, size=(2, n))
        ads, warmth, footfall = (
            rng.gamma(2.0, 2.0, size=n),
            rng.normal(15.0, 7.0, size=n),
            rng.normal(100.0, 20.0, size=n),
        )
        region = ["north", "south", "west"][k % 3]
        season = rng.choice(["winter", "spring", "summer", "autumn"], size=n)
        own = rng.normal(0.0, 9.0), 1.0 + 0.35 * rng.normal(), 1.0 + 0.35 * rng.normal()
        effect = pd.Series(season).map({"winter": -3.0, "spring": 0.0, "summer": 3.5, "autumn": 0.5}).to_numpy()
        y = 80.0 + own[0] - 5.0 * own[1] * (price - 4.0) + 2.5 * (rival - 4.0) + 6.0 * own[2] * np.log1p(ads)
        y += (
            -0.03 * (warmth - 18.0) ** 2
            + 0.12 * (footfall - 100.0)
            + effect
            + {"north": 3.0, "south": -2.0, "west": 0.0}[region]
        )
        cells = {"price": price, "rival_price": rival, "ads": ads, "temperature": warmth, "footfall": footfall}
        table = pd.DataFrame({name: values.round(3) for name, values in cells.items()})
        parts.append(
            table.assign(shop=f"S{k:02d}", region=region, season=season, sales=(y + rng.normal(0, 5.0, n)).round(2))
        )
    frame = pd.concat(parts, ignore_index=True)
    for column in ("ads", "temperature"):
        frame.loc[rng.choice(len(frame), size=40, replace=False), column] = np.nan
    inputs = ["price", "rival_price", "ads", "temperature", "footfall", "region", "season"]
    return _split("panel", frame, "shop", "sales", inputs, rng, share=0.25)


TABLES: dict[str, Callable[..., OwnTable]] = {"glucose": glucose, "ratings": ratings, "panel": panel}


def _split(
    name: str,
    frame: pd.DataFrame,
    client: str,
    target: str,
    inputs: list[str],
    rng: np.random.Generator,
    *,
    share: float,
    items: pd.DataFrame | None = None,
) -> OwnTable:
    """Later rows are complete ones of clients that keep at least two."""
    complete = frame[[client, target, *inputs]].notna().all(axis=1).to_numpy()
    later = complete & (rng.random(len(frame)) < share)
    for rows in frame.groupby(client).indices.values():
        if np.count_nonzero(complete[rows] & ~later[rows]) < 2:
            later[rows] = False
    return OwnTable(
        name, frame[~later].reset_index(drop=True), frame[later].reset_index(drop=True), client, target, inputs, items
    )

"""The settings that the first start of a study pins in its database, as JSON under the study file's own keys.

Under ``private`` all of them are fixed: another budget, model or clip would undo the promise. Only the time between
releases may become longer; if it became shorter, more could be released after a backup than its restoration charges.
Under ``exact`` a model may be improved and a catalogue grow, but the policy is fixed, and so are the items of the
catalogue.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from motet.model.catalogue import Catalogue
from motet.model.model import Model
from motet.study.schema import Limits, Release
from motet.text import brief

FORMAT = 1
EVERY = "release.every"  # in seconds; the version before did not pin it


def pinned(
    model: Model,
    *,
    dimension: int,
    bounds: tuple[tuple[float, float], ...] | None,
    limits: Limits,
    release: Release,
) -> str:
    """Canonical: the same settings give the same text."""
    spec = model.to_spec()
    del spec["catalogue"]
    basis = spec.pop("basis") or {"kind": "growing"}
    pins: dict[str, Any] = {
        "format": FORMAT,
        "release.policy": release.policy,
        "inputs.dimension": dimension,
        "inputs.catalogue": None if model.catalogue is None else _digests(model.catalogue),
        "inputs.bounds": bounds,
        "limits.y": limits.y,
        "limits.noise": limits.noise,
    }
    pins |= {f"model.{key}": value for key, value in spec.items()}
    pins |= {f"basis.{key}": value for key, value in basis.items()}
    if release.policy == "private":
        budget = ("epsilon", "delta", "releases", "per", "examples")
        pins |= {f"release.{key}": getattr(release, key) for key in budget} | {EVERY: release.seconds}
    return json.dumps(pins, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _digests(catalogue: Catalogue) -> list[str]:
    """Of every item, so that a refusal can name the one that changed."""
    vectors = catalogue.vectors.astype("<f8")
    rows = (json.dumps(name).encode() + vector.tobytes() for name, vector in zip(catalogue.names, vectors))
    return [hashlib.sha256(row).hexdigest()[:32] for row in rows]


def pinned_seconds(pinned: str) -> float | None:
    """Between releases, at least, from then on; None if the settings do not have it."""
    seconds = json.loads(pinned).get(EVERY)
    return None if seconds is None else float(seconds)


def contradiction(then: str, now: str, catalogue: Catalogue | None) -> str | None:
    """Why settings contradict those pinned before, naming the key; None if they do not."""
    try:
        before, after = json.loads(then), json.loads(now)
        if before["format"] != FORMAT:
            return f"format: expected pinned settings of format {FORMAT}, got {brief(before['format'])}"
        return _contradiction(before, after, catalogue)
    except (ValueError, KeyError, TypeError, RecursionError):
        return f"format: expected settings that a study pinned, got {brief(then)}"


def _contradiction(then: Mapping[str, Any], now: Mapping[str, Any], catalogue: Catalogue | None) -> str | None:
    if then["release.policy"] != now["release.policy"]:
        return _differs("release.policy", then, now)
    items = then["inputs.catalogue"], now["inputs.catalogue"]
    if (items[0] is None) != (items[1] is None):
        kinds = ["lists of numbers" if some is None else "names in a catalogue" for some in items]
        return f"inputs.catalogue: expected {kinds[0]}, fixed at the first start, got {kinds[1]}"
    if then["inputs.dimension"] != now["inputs.dimension"]:
        return _differs("inputs.dimension", then, now)
    if catalogue is not None and (reason := _items(*items, catalogue, growing=now["release.policy"] == "exact")):
        return f"inputs.catalogue: {reason}"
    if now["release.policy"] == "exact":
        return None
    keys = sorted(key for key in then.keys() | now.keys() if then.get(key) != now.get(key) and key != EVERY)
    if keys:
        return _differs(keys[0], then, now)
    if now[EVERY] < then.get(EVERY, 0.0):
        return f"{EVERY}: expected {then[EVERY]:g} s or more, pinned at an earlier start, got {now[EVERY]:g} s"
    return None


def _differs(key: str, then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    return f"{key}: expected {brief(then.get(key))}, fixed at the first start, got {brief(now.get(key))}"


def _items(then: list[str], now: list[str], catalogue: Catalogue, *, growing: bool) -> str | None:
    for row, (before, after) in enumerate(zip(then, now)):
        if before != after:
            return f"item {row + 1} ({brief(catalogue.names[row])}) differs from the one at the first start"
    if growing and len(now) < len(then):
        return f"expected at least {len(then)} items, got {len(now)}: items may be appended, not removed"
    if not growing and len(now) != len(then):
        return f"expected {len(then)} items, got {len(now)}: the catalogue of a private study is fixed"
    return None

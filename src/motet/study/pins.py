"""What the first start of a study pins in its store, as JSON under the study file's own keys.

Under ``private`` all of it stays: another budget, model or clip would undo the promise. Under ``exact`` a model may be
improved and a catalogue grow, but rows that were learned from keep their meaning, and the policy stays.
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


def pinned(
    model: Model,
    *,
    dimension: int,
    bounds: tuple[tuple[float, float], ...] | None,
    limits: Limits,
    release: Release,
) -> str:
    """Canonical: the same settings give the same text."""
    said = model.to_spec()
    del said["catalogue"]
    basis = said.pop("basis") or {"kind": "growing"}
    pins: dict[str, Any] = {
        "format": FORMAT,
        "release.policy": release.policy,
        "inputs.dimension": dimension,
        "inputs.catalogue": None if model.catalogue is None else _digests(model.catalogue),
        "inputs.bounds": bounds,
        "limits.y": limits.y,
        "limits.noise": limits.noise,
    }
    pins |= {f"model.{key}": value for key, value in said.items()}
    pins |= {f"basis.{key}": value for key, value in basis.items()}
    if release.policy == "private":
        budget = ("epsilon", "delta", "releases", "per", "examples")
        pins |= {f"release.{key}": getattr(release, key) for key in budget}
    return json.dumps(pins, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _digests(catalogue: Catalogue) -> list[str]:
    """Of every row, so that the one that changed can be named."""
    vectors = catalogue.vectors.astype("<f8")
    rows = (json.dumps(name).encode() + vector.tobytes() for name, vector in zip(catalogue.names, vectors))
    return [hashlib.sha256(row).hexdigest()[:32] for row in rows]


def contradiction(then: str, now: str, catalogue: Catalogue | None) -> str | None:
    """Why settings contradict those pinned before, naming the key; None where they do not."""
    try:
        before, after = json.loads(then), json.loads(now)
        if before["format"] != FORMAT:
            return f"format: this version reads pinned settings of format {FORMAT}, got {brief(before['format'])}"
        return _contradiction(before, after, catalogue)
    except (ValueError, KeyError, TypeError, RecursionError):
        return f"format: expected settings that a study pinned, got {brief(then)}"


def _contradiction(then: Mapping[str, Any], now: Mapping[str, Any], catalogue: Catalogue | None) -> str | None:
    if then["release.policy"] != now["release.policy"]:
        return (
            f"release.policy: this store was started as {brief(then['release.policy'])} and stays so, "
            f"got {brief(now['release.policy'])}"
        )
    rows = then["inputs.catalogue"], now["inputs.catalogue"]
    if (rows[0] is None) != (rows[1] is None):
        kinds = ["names in a catalogue" if some is not None else "lists of numbers" for some in rows]
        return f"inputs.catalogue: inputs of this store are {kinds[0]}, got {kinds[1]}"
    if then["inputs.dimension"] != now["inputs.dimension"]:
        return _other("inputs.dimension", then, now)
    if catalogue is not None and (reason := _rows(*rows, catalogue, appending=now["release.policy"] == "exact")):
        return reason
    if now["release.policy"] == "exact":
        return None
    keys = sorted(key for key in then.keys() | now.keys() if then.get(key) != now.get(key))
    return _other(keys[0], then, now) if keys else None


def _other(key: str, then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    return f"{key}: this store was started with {brief(then.get(key))}, which is fixed, got {brief(now.get(key))}"


def _rows(then: list[str], now: list[str], catalogue: Catalogue, *, appending: bool) -> str | None:
    for row, (before, after) in enumerate(zip(then, now)):
        if before != after:
            name = brief(catalogue.names[row])
            return f"inputs.catalogue: item {row + 1} ({name}) is another than this store has"
    if len(now) < len(then) or (len(now) > len(then) and not appending):
        kept = "may be appended to, not cut" if appending else "is fixed in a private study"
        return f"inputs.catalogue: the catalogue {kept}; expected {len(then)} items, got {len(now)}"
    return None

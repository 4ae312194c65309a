"""The settings of a study that its database keeps, as JSON under the study file's keys, and which of them may change.

Nothing is fixed by a start. The first example fixes what clients have sent under: inputs, limits and the promise, which
is policy and budget and may become stricter until the first release. The first release fixes the rest. A backup fixes
the promise and the time between releases, which may become longer: what may have been released since is counted by
them when it is restored. Under ``exact`` only the policy and the meaning of inputs are ever fixed: a model may be
improved, and a catalogue grow.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from motet.model.model import Model
from motet.study.schema import Limits, PilotSection, Release
from motet.tables.catalogue import Catalogue
from motet.text import brief

FORMAT = 1
EVERY = "release.every"  # in seconds; earlier versions pinned it in private studies, or not at all
POLICY, PER, RELEASES = "release.policy", "release.per", "release.releases"
PROMISE = (POLICY, PER, "release.epsilon", "release.delta", RELEASES)
LIMITS = ("inputs.bounds", "limits.y", "limits.noise")
PILOT = ("pilot.digests", "pilot.joins")  # of a private study: whose rows its settings come from
INPUTS = ("columns",)  # keys of a model's specification that say what stored inputs mean, beside the catalogue
MEANING = ("inputs.dimension", *(f"inputs.{key}" for key in INPUTS))
CATALOGUE = "inputs.catalogue"


class Since(NamedTuple):
    """What has happened to a study that fixes settings, in words; empty if it has not."""

    example: str = ""  # one was stored, even if it was removed since: a client that has sent may send again
    backup: str = ""
    release: str = ""

    @property
    def inputs(self) -> str:
        """What fixes inputs and limits."""
        return self.example or self.release

    @property
    def promise(self) -> str:
        """What fixes policy and budget; before that, an example prevents what would weaken them."""
        return self.release or self.backup


EXAMPLE, BACKUP, RELEASE = "the first example", "the first backup", "the first release"
RELEASED = Since(EXAMPLE, BACKUP, RELEASE)


def pinned(
    model: Model, inputs: Mapping[str, Any], limits: Limits, release: Release, pilot: PilotSection | None = None
) -> str:
    """Canonical: the same settings give the same text. ``inputs`` are dimension and bounds."""
    spec = model.to_spec()
    del spec["catalogue"]
    basis = spec.pop("basis") or {"kind": "growing"}
    pins: dict[str, Any] = {
        "format": FORMAT,
        POLICY: release.policy,
        EVERY: release.seconds,
        CATALOGUE: None if model.catalogue is None else _digests(model.catalogue),
        "limits.y": limits.y,
        "limits.noise": limits.noise,
    }
    pins |= {f"inputs.{key}": value for key, value in inputs.items()}
    pins |= {f"inputs.{key}": spec.pop(key) for key in INPUTS if key in spec}
    pins |= {f"model.{key}": value for key, value in spec.items()}
    pins |= {f"basis.{key}": value for key, value in basis.items()}
    if release.policy == "private":
        budget = ("epsilon", "delta", "releases", "per", "examples")
        pins |= {f"release.{key}": getattr(release, key) for key in budget}
        pins |= {"release.center": release.center} if release.center else {}
        pins |= {} if pilot is None else {"pilot.digests": _one_digest(pilot), "pilot.joins": pilot.joins}
    return json.dumps(pins, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _digests(catalogue: Catalogue) -> list[str]:
    """Of every item, so that a refusal can name the one that changed."""
    vectors = catalogue.vectors.astype("<f8")
    rows = (json.dumps(name).encode() + vector.tobytes() for name, vector in zip(catalogue.names, vectors))
    return [hashlib.sha256(row).hexdigest()[:32] for row in rows]


def _one_digest(pilot: PilotSection) -> str:
    """Of the salt and all digests, in any order."""
    return hashlib.sha256(" ".join([pilot.salt, *sorted(pilot.digests)]).encode()).hexdigest()[:32]


def pinned_seconds(pinned: str) -> float | None:
    """Between releases, at least, from then on; None if the settings do not have it."""
    seconds = json.loads(pinned).get(EVERY)
    return None if seconds is None else float(seconds)


def terms(pinned: str) -> str:
    """A digest of what clients send under: inputs, limits and promise."""
    keys = (*MEANING, CATALOGUE, *LIMITS, *PILOT, *PROMISE)
    chosen = {key: value for key, value in json.loads(pinned).items() if key in keys}
    return hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()


def not_fixed(policy: str, since: Since) -> str:
    """What an edited study file may still change at the next start, and until when, in one line; empty if nothing."""
    private, parts, more = policy == "private", [], ""
    if not since.inputs:
        parts.append(f"{'inputs and limits' if private else 'inputs'} until {EXAMPLE}")
    if not since.promise and not private:
        parts.append(f"the policy until {RELEASE} or backup")
    elif not since.promise and not since.example:
        parts.append("policy and budget until that or a backup")
    elif not since.promise:
        more = "; the budget may become stricter until that or a backup"
    if not since.release and private:
        parts.append(f"the model until {RELEASE}")
    return f"Not fixed yet: {', '.join(parts)}{more}." if parts else ""


# --- what may change ---


def contradiction(then: str, now: str, catalogue: Catalogue | None, since: Since = RELEASED) -> str | None:
    """Why settings contradict those of the last start, naming the key; None if they do not."""
    try:
        before, after = json.loads(then), json.loads(now)
        if before["format"] != FORMAT:
            return f"format: expected pinned settings of format {FORMAT}, got {brief(before['format'])}"
        return _promise(before, after, since) or _inputs(before, after, catalogue, since) or _rest(before, after, since)
    except (ValueError, KeyError, TypeError, RecursionError):
        return f"format: expected settings that a study pinned, got {brief(then)}"


def _promise(then: Mapping[str, Any], now: Mapping[str, Any], since: Since) -> str | None:
    promised = since.example if then[POLICY] == "private" else ""
    for key in PROMISE:
        if then.get(key) == now.get(key):
            continue
        if since.promise:
            return _differs(key, then, now, since.promise)
        if promised and (allowed := _stricter(key, then, now)) is not None:
            return f"{key}: expected {allowed}, fixed since {promised}, got {brief(now.get(key))}"
    return None


def _stricter(key: str, then: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """What a key may be if nobody is to be promised less than before; None if it is that.

    ε and δ are of all releases together, so they bound what a client loses in the end. Of fewer releases each would
    have less noise, and a client that leaves early would have lost more. A budget of the study's is stricter than one
    of each client's: who is enrolled again does not get another one. A client that was to be in so many releases is
    not in more.
    """
    before, after = then[key], now.get(key)
    if key in (POLICY, PER):
        return None if (key, after) == (PER, "study") else brief(before)
    if key == RELEASES and then[PER] == "client":
        return f"{before}, in which each client is"
    if key == RELEASES:
        return None if after >= before else f"{before} or more, since fewer would have less noise each"
    return None if after <= before else f"{before:g} or less"


def _inputs(then: Mapping[str, Any], now: Mapping[str, Any], catalogue: Catalogue | None, since: Since) -> str | None:
    """What stored inputs mean. Bounds are limits, also those of named columns: free under ``exact``."""
    if not (event := since.inputs):
        return None
    items = then[CATALOGUE], now[CATALOGUE]
    if (items[0] is None) != (items[1] is None):
        kinds = ["lists of numbers" if some is None else "names in a catalogue" for some in items]
        return f"{CATALOGUE}: expected {kinds[0]}, fixed since {event}, got {kinds[1]}"
    exact = "exact" in (then[POLICY], now[POLICY])
    for key in MEANING:
        if _meaning(then.get(key), without_bounds=exact) != _meaning(now.get(key), without_bounds=exact):
            return _differs(key, then, now, event)
    if catalogue is not None and (reason := _items(*items, catalogue, event, growing=exact)):
        return f"{CATALOGUE}: {reason}"
    return None


def _meaning(value: Any, *, without_bounds: bool) -> Any:
    if not without_bounds or not isinstance(value, list):
        return value
    return [{key: column[key] for key in column if key != "bounds"} for column in value]


def _rest(then: Mapping[str, Any], now: Mapping[str, Any], since: Since) -> str | None:
    """Of a study that was private before: limits, all that the noise depends on, and the time between releases."""
    if "exact" in (then[POLICY], now[POLICY]):
        return None
    for key in sorted((then.keys() | now.keys()) - {EVERY, CATALOGUE, *PROMISE, *MEANING}):
        event = since.inputs if key in (*LIMITS, *PILOT) else since.release
        if event and then.get(key) != now.get(key):
            return _differs(key, then, now, event)
    if since.promise and now[EVERY] < then.get(EVERY, 0.0):
        return f"{EVERY}: expected {then[EVERY]:g} s or more, fixed since {since.promise}, got {now[EVERY]:g} s"
    return None


def _differs(key: str, then: Mapping[str, Any], now: Mapping[str, Any], event: str) -> str:
    return f"{key}: expected {brief(then.get(key))}, fixed since {event}, got {brief(now.get(key))}"


def _items(then: list[str], now: list[str], catalogue: Catalogue, event: str, *, growing: bool) -> str | None:
    for row, (before, after) in enumerate(zip(then, now)):
        if before != after:
            return f"item {row + 1} ({brief(catalogue.names[row])}) was changed; items are fixed since {event}"
    if growing and len(now) < len(then):
        return f"expected at least {len(then)} items, got {len(now)}: items may be appended, not removed"
    if not growing and len(now) != len(then):
        return f"expected {len(then)} items, fixed since {event}, got {len(now)}"
    return None

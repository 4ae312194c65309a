"""All attacks on one release, or on two, told in words and as plain data: what ``motet audit`` shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from motet.arrays import Array
from motet.errors import InvalidRelease
from motet.privacy.attacks import TOLERANCE, Found, presence, rebuilt
from motet.privacy.difference import Change, Examples, change
from motet.release.disclosed import Disclosed
from motet.text import count, input_text

SHOWN = 5  # inputs of a client, and clients, that a table has room for


@dataclass(frozen=True)
class Finding:
    """What one attack rebuilt: a line for people, and everything for programs."""

    attack: str
    text: str
    certain: str
    data: dict[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Exposure:
    title: str
    findings: list[Finding]
    notes: list[str]
    policy: str
    versions: list[int]

    @property
    def shown(self) -> list[Finding]:
        """As many as a table has room for, and how many more there are."""
        clients = [f for f in self.findings if f.attack.startswith("client")]
        others = [f for f in self.findings if f not in clients]
        more = len(clients) - SHOWN
        rest = [Finding("", f"and {more} clients more, all of them in --json", "", {})] if more > 0 else []
        return others + clients[:SHOWN] + rest

    def to_dict(self) -> dict[str, Any]:
        found = [{"attack": f.attack, "certain": f.certain, **f.data} for f in self.findings]
        return {"policy": self.policy, "releases": self.versions, "attacks": found}


def expose(
    first: Disclosed,
    second: Disclosed | None = None,
    *,
    own: Iterable[Examples] = (),
    suspects: Mapping[str, Examples] | None = None,
) -> Exposure:
    """Run every attack that needs no more than these files, what one sent oneself, and whom one suspects to be in."""
    releases = [first] if second is None else [first, second]
    found = change(None, first) if second is None else change(first, second, own=own)
    together, senders = rebuilt(found)
    findings = [_inversion(releases[-1])]
    if second is not None:
        findings.append(_finding(found, "differencing", together))
    findings += _separation(found, senders, alone=second is None)
    findings += [_membership(found, name, examples) for name, examples in (suspects or {}).items()]
    versions = [release.version for release in releases]
    title = f"{' and '.join(f'release {v}' for v in versions)}, {first.policy}"
    return Exposure(title, findings, _notes(first, findings, second is None), first.policy, versions)


def _notes(release: Disclosed, findings: list[Finding], alone: bool) -> list[str]:
    notes = []
    if any(f.certain == "no" for f in findings):
        notes.append("what is not certain is a guess, and no better than one")
    if alone:
        notes.append("a second release shows what was sent in between: motet audit FILE LATER")
    if release.policy == "exact":
        notes.append("exact releases promise nothing: they are for clients who trust each other")
    return notes


def _inversion(release: Disclosed) -> Finding:
    sums = change(None, release).over_inputs()
    known = sums.unique and not release.noise_scale
    names, pairs = _named(release, sums.inputs), sums.pairs if known else sums.pairs[:0]
    text = f"G and g over {len(names)} inputs"
    if len(pairs):
        a, b = pairs[np.argmin(np.abs(sums.G[tuple(pairs.T)]))]
        text += f"; {len(pairs)} pairs of them are one client's, as {input_text(names[a])} and {input_text(names[b])}"
    elif not known:
        text += ", with the noise of the release" if sums.unique else ", one of many that give this release"
    data = {"inputs": names, "G": sums.G.tolist(), "g": sums.g.tolist(), "pairs": pairs.tolist()}
    return Finding("inversion", text, "yes" if known else "no", data)


def _separation(found: Change, senders: list[Found], *, alone: bool) -> list[Finding]:
    """A finding for each client; of a single release only those that stand apart."""
    senders = [sender for sender in senders if sender.inputs_certain]
    if not senders:
        text = "no client stands apart" if alone else "the difference does not fall apart into clients"
        return [Finding("separation", text, "", {"clients": 0})]
    clients = [_finding(found, f"client {k}", sender) for k, sender in enumerate(senders, 1)]
    text = f"{count(len(senders), 'client')}, told apart by what goes together"
    return [Finding("separation", text, "yes", {"clients": len(senders)}), *clients]


def _membership(found: Change, name: str, examples: Examples) -> Finding:
    """How much of a client lies in the releases: 1 if it alone came, some of the others' where there are more."""
    share = presence(found, *examples)
    certain = abs(share - 1) < TOLERANCE and not found.release.noise_scale
    text = f"{name}: {share:.3g} times what it would add"
    return Finding("membership", text, "yes" if certain else "no", {"client": name, "share": share})


def _finding(found: Change, attack: str, what: Found) -> Finding:
    names = _named(found.release, what.inputs)
    pairs = [f"{input_text(name)} {y:.4g}" for name, y in zip(names, what.outputs)]
    more = f" and {len(pairs) - SHOWN} more" if len(pairs) > SHOWN else ""
    text = f"{'came' if what.came else 'left'}: {', '.join(pairs[:SHOWN])}{more}" if pairs else "no inputs to try"
    certain = "yes" if what.certain else "inputs" if what.inputs_certain else "no"
    data = {"came": what.came, "inputs": names, "outputs": what.outputs.tolist(), "noise": what.noise.tolist()}
    return Finding(attack, text, certain, data | {"fit": what.fit})


def _named(release: Disclosed, rows: Array) -> list[Any]:
    catalogue = release.model.catalogue
    return rows.tolist() if catalogue is None else catalogue.name_rows(rows)


# --- files ---


def load(path: Path) -> Disclosed:
    """A release from its file; a refusal names the file."""
    try:
        return Disclosed.load(path)
    except OSError as error:
        raise InvalidRelease(
            f"cannot read {path}: {error.strerror or error}; give a release's file, or an address with http://"
        ) from None
    except InvalidRelease as error:
        raise InvalidRelease(f"{path}: {error}") from None

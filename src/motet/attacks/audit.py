"""The report of ``motet audit``: every attack on one release, or on two, in words and as plain data.

The attacks themselves are in ``attacks``; here their results become findings for a table and for JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from motet.attacks.attacks import UNEXPLAINED_TOLERANCE, Reconstruction, inversion, overlap, reconstruct
from motet.attacks.difference import Difference, Examples
from motet.release.disclosed import Disclosed
from motet.text import count, input_text

MAX_SHOWN_CLIENTS, MAX_SHOWN_INPUTS = 5, 5  # clients or suspects in the table, inputs of each
OVERLAP = "Overlap of exactly 1: this client alone was added. Similar clients raise it."


@dataclass(frozen=True)
class Finding:
    """The result of one attack: a line for people, and everything for programs."""

    attack: str
    text: str
    certain: str
    data: dict[str, Any] = field(repr=False)


@dataclass(frozen=True)
class AuditReport:
    title: str
    findings: list[Finding]
    notes: list[str]
    policy: str
    versions: list[int]

    @property
    def rows(self) -> list[Finding]:
        """The findings for a table: a few clients and suspects, certain ones first, and how many more there are."""
        by_kind: dict[str, list[Finding]] = {"": [], "client": [], "suspect": []}
        for finding in self.findings:
            client, suspect = finding.attack.startswith("client"), finding.attack == "membership"
            by_kind["client" if client else "suspect" if suspect else ""].append(finding)
        by_kind["suspect"].sort(key=lambda finding: finding.certain != "yes")
        return [*by_kind[""], *_first_rows(by_kind["client"], "client"), *_first_rows(by_kind["suspect"], "suspect")]

    def to_dict(self) -> dict[str, Any]:
        attacks = [{"attack": f.attack, "certain": f.certain, **f.data} for f in self.findings]
        return {"policy": self.policy, "releases": self.versions, "attacks": attacks}


def _first_rows(findings: list[Finding], noun: str) -> list[Finding]:
    more = len(findings) - MAX_SHOWN_CLIENTS
    rest = [Finding("", f"and {count(more, f'more {noun}')}, all of them in the JSON", "", {})] if more > 0 else []
    return findings[:MAX_SHOWN_CLIENTS] + rest


def audit(
    first: Disclosed,
    second: Disclosed | None = None,
    *,
    attacker_examples: Iterable[Examples] = (),
    suspects: Mapping[str, Examples] | None = None,
) -> AuditReport:
    """Run every attack on one release, or on two of the same study.

    ``attacker_examples`` were sent between the two by clients of the attacker's own; ``suspects`` are clients that may
    have been added.
    """
    releases = [first] if second is None else [first, second]
    before, examples = (None, ()) if second is None else (first, attacker_examples)
    difference = Difference.between(before, releases[-1], attacker_examples=examples)
    together, clients = reconstruct(difference)
    findings = [_inversion_finding(releases[-1])]
    if second is not None:
        findings.append(_reconstruction_finding(difference, "differencing", together))
    findings += _separation_findings(difference, clients, single=second is None)
    findings += [_membership_finding(difference, name, examples) for name, examples in (suspects or {}).items()]
    versions = [release.version for release in releases]
    title = f"{' and '.join(f'release {version}' for version in versions)}, {first.policy}"
    return AuditReport(title, findings, _notes(first, findings, second is None), first.policy, versions)


def _notes(release: Disclosed, findings: list[Finding], single: bool) -> list[str]:
    notes = []
    if any(finding.attack == "membership" for finding in findings):
        notes.append(OVERLAP)
    if any(finding.certain == "no" for finding in findings):
        notes.append("Only findings marked 'yes' are certain; 'no' is no better than guessing.")
    if any(finding.certain == "inputs" for finding in findings):
        notes.append("Findings marked 'inputs' are certain about inputs, not about outputs.")
    if single:
        notes.append("A second release shows what was sent in between: motet audit FILE LATER")
    if release.policy == "exact":
        notes.append("Releases without noise are only for clients who trust each other.")
    return notes


# --- one finding for each attack ---


def _inversion_finding(release: Disclosed) -> Finding:
    sums = inversion(release)
    certain = sums.unique and not release.noise_scale
    names, pairs = release.model.inputs(sums.inputs), sums.pairs if certain else sums.pairs[:0]
    text = f"the sums G and g of all clients over {count(len(names), 'input')}"
    if not sums.unique:
        text = f"{text}, but many others would give the same release"
    elif not certain:
        text = f"{text}, but only with the release's noise"
    elif len(pairs):
        a, b = pairs[np.argmin(np.abs(sums.G[tuple(pairs.T)]))]
        example = f"{input_text(names[a])} and {input_text(names[b])}"
        text = f"{text}; {count(len(pairs), 'pair')} of inputs from one client, such as {example}"
    data = {"inputs": names, "G": sums.G.tolist(), "g": sums.g.tolist(), "pairs": pairs.tolist()}
    return Finding("inversion", text, "yes" if certain else "no", data)


def _reconstruction_finding(difference: Difference, attack: str, result: Reconstruction) -> Finding:
    names = difference.release.model.inputs(result.inputs)
    examples = [f"{input_text(name)} {y:.4g}" for name, y in zip(names, result.outputs)]
    more = f" and {len(examples) - MAX_SHOWN_INPUTS} more" if len(examples) > MAX_SHOWN_INPUTS else ""
    sign = "sent" if result.added else "removed"
    text = f"{sign}: {', '.join(examples[:MAX_SHOWN_INPUTS])}{more}" if examples else "no inputs to try"
    certain = "yes" if result.certain else "inputs" if result.inputs_certain else "no"
    data = {"came": result.added, "inputs": names, "outputs": result.outputs.tolist()}
    return Finding(attack, text, certain, data | {"noise": result.noise.tolist(), "fit": result.unexplained})


def _separation_findings(difference: Difference, clients: list[Reconstruction], *, single: bool) -> list[Finding]:
    """One finding for all clients that could be separated, and one for each."""
    clients = [client for client in clients if client.inputs_certain]
    if not clients:
        whole = "the release" if single else "the difference"
        return [Finding("separation", f"{whole} cannot be divided into clients", "", {"clients": 0})]
    text = f"{count(len(clients), 'client')}, separated by which inputs occur together"
    each = [_reconstruction_finding(difference, f"client {k}", client) for k, client in enumerate(clients, 1)]
    return [Finding("separation", text, "yes", {"clients": len(clients)}), *each]


def _membership_finding(difference: Difference, name: str, examples: Examples) -> Finding:
    share = overlap(difference, *examples)
    certain = abs(share - 1) < UNEXPLAINED_TOLERANCE and not difference.release.noise_scale
    text = f"{name}: this client was added (overlap 1)" if certain else f"{name}: not decided (overlap {share:.3g})"
    return Finding("membership", text, "yes" if certain else "no", {"client": name, "share": share})

"""A private study of three hospitals, as its page has it: each with a file of its own, and one of them passive."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import httpx
import numpy as np
import pytest

from motet import Engine, Model
from motet.study.study import Study
from tests.figures import check_figures
from tests.pages import ROOT, Session, check
from tests.scenarios.harness import END

FILES = (("patients", "log_mg_per_l"), ("later", "log_mg_per_l"), ("curves", "mean"))
Curves: TypeAlias = dict[str, dict[float, float]]  # of each patient: hours, and what was measured or predicted then


def read(path: Path, column: str) -> Curves:
    found: Curves = {}
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["patient"], {})[float(row["hours"])] = float(row[column])
    return found


def requests(session: Session) -> Counter[tuple[str, str]]:
    """How often each call was answered so far: its method and route."""
    headers = {"Authorization": f"Bearer {session.operator}"}
    text = httpx.get(f"{session.url}/metrics", headers=headers, timeout=END).text
    found = Counter[tuple[str, str]]()
    for method, route, times in re.findall(r'motet_requests_total\{method="(\w+)",route="([^"]+)".*\} (\S+)', text):
        found[method, route] += int(float(times))
    return found


def alone(seen: Curves, hours: Iterable[float], model: Model) -> Curves:
    """What would be predicted from each patient's own samples, with a release that knows nobody."""
    nobody, at = Engine(model).disclose(), np.array(list(hours))
    found: Curves = {}
    for patient, own in seen.items():
        estimate = nobody.estimate(np.array(list(own))[:, None], list(own.values()))
        found[patient] = dict(zip(at.tolist(), estimate.predict(at[:, None]).tolist()))
    return found


def error(predicted: Curves, truth: Curves) -> float:
    """Root mean squared, wherever there is a prediction."""
    missed = [y - truth[patient][hour] for patient, own in predicted.items() for hour, y in own.items()]
    return float(np.sqrt(np.mean(np.square(missed))))


def test_three_sites_one_of_them_passive(tmp_path: Path) -> None:
    counted: dict[str, Counter[tuple[str, str]]] = {}
    printed = ""
    with Session(ROOT / "docs" / "howto-sites.md", tmp_path) as session:
        for step in session.run():
            check(step)
            printed += step.printed
            if step.commands.title in ("South", "Islands"):
                counted[step.commands.title] = requests(session)
        told = httpx.get(f"{session.url}/v1/study", timeout=END).json()["budget"]
    check_figures(printed)
    asked = counted["Islands"] - counted["South"]
    assert set(asked) == {("GET", "/v1/disclosed"), ("GET", "/v1/study"), ("GET", "/metrics")}  # the last one is ours

    site, study = tmp_path / "islands", Study.load(tmp_path / "operator" / "study.toml")
    seen, later, predicted = (read(site / f"{name}.csv", column) for name, column in FILES)
    shared = error(predicted, later)
    assert (len(seen), predicted.keys()) == (40, seen.keys())
    for model in (study.model, replace(study.model, alpha=0.0)):
        assert shared < 0.9 * error(alone(seen, predicted["islands-1"], model), later)
    assert b"islands" not in (tmp_path / "operator" / "study.db").read_bytes()

    planned = study.ledger()
    assert planned is not None
    assert told["spent"] == replace(planned, releases_made=told["made"]).epsilon_spent
    verified = re.search(r"ledger +│ ok │ (\d+) releases?; ε spent ([\d.]+) of 3 ", step.printed)
    assert verified is not None
    assert 1 <= int(verified[1]) <= told["made"] <= planned.releases
    assert float(verified[2]) == pytest.approx(replace(planned, releases_made=int(verified[1])).epsilon_spent, rel=0.01)

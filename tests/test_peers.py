"""The comparison with peers, end to end on few examples; a peer that fails stays in the table, with its reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.defaults import defaults
from benchmarks.peers import data
from benchmarks.peers.__main__ import write
from benchmarks.peers.comparisons import DENSE, MOTET, TABLE, Comparison, Program, results
from benchmarks.peers.environments import R
from benchmarks.peers.report import lines, slope, table, wins
from benchmarks.peers.run import Limits, run

FAILING = Program("no package", "gpytorch")  # which is in an environment of its own, not in ours
MISSING = Program("no environment", "motet", "nowhere")


@pytest.fixture(scope="module")
def tiny() -> Comparison:
    return replace(TABLE["by_task"], sizes=(50, 100), programs=(MOTET, DENSE[0], FAILING, MISSING))


def test_peers_agree_and_failures_have_a_reason(tiny: Comparison, tmp_path: Path) -> None:
    limits = Limits()
    measured = list(results(tiny, limits))
    for ours, direct, failing, missing in (measured[:4], measured[4:]):
        assert ours.rmse == pytest.approx(direct.rmse)
        assert direct.difference is not None
        assert direct.difference < 1e-8
        assert "No module named 'gpytorch'" in failing.outcome.reason
        assert missing.outcome.reason.startswith("not installed")
    rows = table(tiny, measured).rows
    assert [row[1] for row in rows] == [program.name for program in tiny.programs] * 2
    assert [row[-1].startswith("**no result**") for row in rows] == [False, False, True, True] * 2
    assert "no package" not in " ".join(wins(measured))
    write({"by_task": (tiny, measured)}, limits, tmp_path / "PEERS.md", tmp_path / "peers.png")
    text = (tmp_path / "PEERS.md").read_text(encoding="utf-8")
    assert text.count("No module named 'gpytorch'") == 2
    assert (tmp_path / "peers.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("limits", "reason"), [(Limits(0.01), "0.01 s"), (Limits(megabytes=1), "1 MB")])
def test_limits(limits: Limits, reason: str) -> None:
    outcome = run("by_task", "motet", "own", data.by_task(50).given, limits)
    assert outcome.reason == f"more than {reason}"
    assert outcome.predicted is None


def test_a_program_that_ran_into_a_limit_is_not_tried_on_more(tiny: Comparison) -> None:
    first, second = results(replace(tiny, programs=(MOTET,)), Limits(megabytes=1))
    assert first.outcome.reason == "more than 1 MB"
    assert second.outcome.reason == "not tried: more than 1 MB at 50 examples"


def test_lines_of_a_snippet() -> None:
    assert lines("by_task", MOTET) == 5
    assert lines("mixed", Program("lme4", "lme4", R)) == 3
    assert all(lines(one.snippets, program) > 1 for one in TABLE.values() for program in one.programs)


def test_held_out_rows_are_not_given() -> None:
    made = data.mixed(20)
    assert len(made.given["y"]) == 160
    assert len(made.y_new) == 20
    assert not np.isin(made.y_new, made.given["y"]).any()


def test_fits_without_settings_are_timed_beside_their_peers() -> None:
    (row,) = defaults([(60, 1)])
    assert row.job == "fit without settings, 60 rows × 1 columns, and 12 predictions"
    assert np.isfinite(row.ratio)
    assert [part.split()[0] for part in row.note.split("; ")] == ["Motet", "LightGBM", "GPBoost"]


def test_slope() -> None:
    assert slope([1, 10, 100], [2.0, 2000.0, 2e6]) == pytest.approx(3.0)

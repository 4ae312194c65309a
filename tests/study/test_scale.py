"""The scale of an output, found in outputs: where a control for it goes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from motet.study.scale import even_scale, output_scale
from motet.study.study import Study
from motet.study.template import Draft

WIDE = (-1e9, 1e9)


@pytest.mark.parametrize(
    ("y", "scale"),
    [
        ([1, 2, 5, 3], (1.0, 5.0, 1.0)),
        ([0.5, 5.0, 3.5, 4.0], (0.5, 5.0, 0.5)),
        ([10, 90, 40], (10.0, 90.0, 10.0)),
        ([-0.3, 0.2, 0.1], (-0.3, 0.2, 0.1)),
    ],
)
def test_outputs_in_even_steps_keep_them(y: list[float], scale: tuple[float, float, float]) -> None:
    assert output_scale(np.array(y, dtype=float), WIDE) == scale


def test_a_measurement_has_round_ends_that_no_outlier_moves() -> None:
    y = np.random.default_rng(0).uniform(2.03, 17.96, size=1000)
    assert output_scale(y, (0.0, 30.0)) == (2.0, 18.0, 1.0)
    y[7] = 1e6
    assert output_scale(y, (0.0, 2e6)) == (2.0, 18.0, 1.0)


@pytest.mark.parametrize("y", [[3.14159, 3.14159], [0.0, 1e6, 0.123], [7.0, 7.0]])
def test_the_scale_is_within_the_limits(y: list[float]) -> None:
    low, high, step = output_scale(np.array(y), (0.0, 10.0))
    assert 0.0 <= low < high <= 10.0
    assert 0 < step <= high - low


@pytest.mark.parametrize("ends", [(0.0, 0.0), (-3.0, -3.0), (1e-9, 1e-6), (-10.0, 10.0), (0.0, 300.0), (99.9, 100.1)])
def test_even_scales_have_some_ten_to_hundred_steps(ends: tuple[float, float]) -> None:
    low, high, step = even_scale(*ends)
    assert low <= ends[0] + 1e-6 * step
    assert high >= ends[1] - 1e-6 * step
    assert 9.99 <= (high - low) / step <= 102


def test_a_study_without_the_section_calls_its_output_as_tables_do(tmp_path: Path) -> None:
    study = Draft(y=(0.0, 300.0)).write(tmp_path / "study.toml")
    assert study.output.scale == (0.0, 300.0, 10.0)
    text = study.path.read_text(encoding="utf-8")
    begin, end = text.index("[output]"), text.index("[basis]")
    plain = text[:begin] + text[end:]
    study.path.write_text(plain.replace('target = "y"', 'target = "glucose"'), encoding="utf-8")
    again = Study.load(study.path)
    assert (again.output_name, again.output.unit, again.output.scale) == ("glucose", None, None)
    assert again.pinned() == study.pinned()  # it is for people's eyes: nothing fixes it

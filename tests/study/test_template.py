"""Templates load, and name every key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from motet import Engine
from motet.errors import InvalidStudy
from motet.study.schema import File, basis_kinds
from motet.study.template import Draft

CHOICES: list[dict[str, Any]] = [
    *({"dimension": p} for p in (1, 2, 3, 4, 9)),
    {"inputs": ("hours", "dose"), "bounds": (0.0, 24.0), "y": (0.0, 300.0), "shift_std": 20.0, "noise": 5.0},
    {"catalogue": "features.csv"},
    {"catalogue": "names.csv"},
]


@pytest.mark.parametrize("policy", ["private", "exact"])
@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_drafts_load_and_name_every_key(tmp_path: Path, policy: Any, choices: dict[str, Any]) -> None:
    (tmp_path / "features.csv").write_text("name,loud,fast\na,1,2\nb,4,6\nc,0,0\n", encoding="utf-8")
    (tmp_path / "names.csv").write_text("name\na\nb\nc\n", encoding="utf-8")
    catalogue = {key: tmp_path / value for key, value in choices.items() if key == "catalogue"}
    study = Draft(name='My "first" study', policy=policy, **{**choices, **catalogue}).write(tmp_path / "study.toml")
    text = study.path.read_text(encoding="utf-8")
    assert study.name == 'My "first" study'
    assert study.release.policy == policy
    for section, field in File.model_fields.items():
        if section == "pilot":  # there is none without a table
            continue
        assert f"[{section}]" in text
        assert all(key in text for key in field.annotation.model_fields)  # type: ignore[union-attr]
    (bases,) = (line for line in text.splitlines() if line.startswith("[basis]"))
    assert all(kind in bases for kind in basis_kinds())


def test_a_draft_derives_sigma2_from_the_range_and_the_spread(tmp_path: Path) -> None:
    study = Draft(y=(0.0, 80.0), shift_std=5.0, noise=2.0).write(tmp_path / "study.toml")
    model = study.model
    assert model.sigma2 is not None
    assert study.limits.y == (0.0, 80.0)
    assert study.release.center == 40.0
    assert model.sigma2 * model.individual_share == pytest.approx(25.0, rel=1e-3)
    assert model.sigma2 * model.lam == pytest.approx(4.0, rel=1e-3)
    with pytest.raises(InvalidStudy, match="above 0"):
        Draft(shift_std=0.0).write(tmp_path / "other.toml")


def test_names_alone_make_a_personal_model(tmp_path: Path) -> None:
    """A client that likes all it has rated is predicted above the average at items that it has not rated."""
    (tmp_path / "names.csv").write_text("name\n" + "".join(f"item {k}\n" for k in range(60)), encoding="utf-8")
    study = Draft(catalogue=tmp_path / "names.csv", policy="exact").write(tmp_path / "study.toml")
    engine = Engine(study.model)
    engine.learn_many(["ann"] * 3, ["item 1", "item 2", "item 3"], [5.0, 5.0, 5.0])
    engine.learn_many(["bob"] * 3, ["item 1", "item 2", "item 3"], [1.0, 1.0, 1.0])
    release = engine.disclose()
    for item in ("item 4", "item 59"):
        ann = release.active_estimate(engine.coefficients("ann", release)).predict([item])[0]
        assert ann > release.average([item])[0] + 0.5


def test_a_draft_names_the_database_that_its_study_gets(tmp_path: Path) -> None:
    study = Draft().write(tmp_path / "running.toml")
    assert '# url = "sqlite:///running.db"' in study.path.read_text(encoding="utf-8")
    assert study.store_url.endswith("/running.db")

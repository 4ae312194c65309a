"""Templates load, and name every key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from motet.study.schema import File, basis_kinds
from motet.study.template import Draft, template
from tests.study.studies import load


@pytest.mark.parametrize("policy", ["private", "exact"])
@pytest.mark.parametrize("inputs", [*({"dimension": p} for p in (1, 2, 3, 4, 9)), {"catalogue": "items.csv"}], ids=str)
def test_templates_load_and_name_every_key(tmp_path: Path, policy: Any, inputs: dict[str, Any]) -> None:
    text = template('My "first" study', **inputs, items=3, features=2, policy=policy)
    study = load(tmp_path, text)
    assert study.name == 'My "first" study'
    assert study.release.policy == policy
    for section, field in File.model_fields.items():
        assert f"[{section}]" in text
        assert all(key in text for key in field.annotation.model_fields)  # type: ignore[union-attr]
    (bases,) = (line for line in text.splitlines() if line.startswith("[basis]"))
    assert all(kind in bases for kind in basis_kinds())


def test_a_template_for_names_alone(tmp_path: Path) -> None:
    assert load(tmp_path, template("a", catalogue="items.csv", items=2, features=0), "name\na\nb\n").private
    with pytest.raises(TypeError, match="a catalogue or a dimension"):
        template("a")


def test_a_draft_names_the_database_that_its_study_gets(tmp_path: Path) -> None:
    study = Draft().write(tmp_path / "running.toml")
    assert '# url = "sqlite:///running.db"' in study.path.read_text(encoding="utf-8")
    assert study.store_url.endswith("/running.db")

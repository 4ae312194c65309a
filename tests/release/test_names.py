"""What a release says of tables: carried in its file, and nothing is computed from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from motet import Disclosed, Engine, Model
from motet.client.tables import read_examples
from motet.errors import InvalidRelease
from motet.kernels import RBF
from motet.release.file import pack, unpack
from motet.release.names import Names
from tests.compatibility.test_before import BEFORE

NAMES = Names(study="Growth", client="patient", target="glucose", output="glucose", unit="mmol/L", inputs={"h": "h"})


@pytest.fixture
def release() -> Disclosed:
    engine = Engine(Model(RBF(1.0), RBF(1.0), 0.5, 0.1))
    engine.learn_many(["ann"] * 3, np.array([[1.0], [2.0], [4.0]]), [1.0, 2.0, 0.5])
    return engine.disclose()


def test_names_are_carried_and_change_no_number(release: Disclosed) -> None:
    named = Disclosed.from_bytes(replace(release, names=NAMES).to_bytes())
    assert named.names == NAMES
    assert named.names.text == "glucose (mmol/L)"
    assert "of glucose (mmol/L)" in repr(named)
    plain = Disclosed.from_bytes(release.to_bytes())
    np.testing.assert_array_equal(named.average([[1.5]]), plain.average([[1.5]]))
    assert replace(named, names=None).to_bytes() == release.to_bytes()


def test_a_release_without_names_is_as_it_always_was(release: Disclosed) -> None:
    assert "names" not in unpack(release.to_bytes())[0]
    for path in BEFORE.glob("*/release.safetensors"):
        before = Disclosed.from_bytes(path.read_bytes())
        assert before.names is None
        assert before.to_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    "spec",
    [
        [],
        {"client": 1},
        {"target": "a\nb"},
        {"unit": "x" * 201},
        {"inputs": ["h"]},
        {"inputs": {"h": None}},
        {"inputs": {str(k): "" for k in range(10_001)}},
    ],
)
def test_names_that_are_none_are_refused(release: Disclosed, spec: Any) -> None:
    header, tensors = unpack(release.to_bytes())
    with pytest.raises(InvalidRelease, match="not a release: expected"):
        Disclosed.from_bytes(pack(header | {"names": spec}, tensors))


def test_tables_are_read_by_them(release: Disclosed, tmp_path: Path) -> None:
    layout = replace(release, names=NAMES).layout
    path = tmp_path / "own.csv"
    path.write_text("site,glucose,h,patient\nnorth,5.5 mmol/L,2 h,ann\nsouth,6,3,ann\n", encoding="utf-8")
    examples = read_examples(path, layout)
    assert (examples.X, examples.y) == ([[2.0], [3.0]], [5.5, 6.0])

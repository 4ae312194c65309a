"""Coefficients as JSON: not a bit changes, and nothing foreign is read."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.errors import InvalidRelease
from motet.release.coefficients import Coefficients
from tests.client.fake_server import learned

FIELDS = ("release", "inputs", "y", "noise", "a", "kernel", "released")
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def coefficients(changed: bool) -> Coefficients:
    engine = learned()
    engine.disclose()
    if not changed:
        return engine.coefficients("u")
    release = engine.disclose()
    engine.learn("new", [0.1], 1 / 3, 0.7)
    return engine.coefficients("new", release)


@pytest.mark.parametrize("changed", [False, True])
def test_there_and_back_changes_no_bit(changed: bool) -> None:
    mine = coefficients(changed)
    read = Coefficients.from_dict(json.loads(json.dumps(mine.to_dict(), allow_nan=False)), 1)
    for name in ("inputs", "y", "noise", "a"):
        np.testing.assert_array_equal(getattr(read, name), getattr(mine, name), strict=True)
    assert (read.release, read.kernel) == (mine.release, mine.kernel)
    assert (read.released is None) is (mine.released is None) is not changed
    if mine.released is not None and read.released is not None:
        np.testing.assert_array_equal(read.released.X, mine.released.X, strict=True)  # no rows, but a column


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, None) for name in FIELDS if name != "released"),
        ("release", 7),
        ("inputs", [[1.0]]),
        ("inputs", [[1.0, 2.0], [1.0, 2.0]]),
        ("inputs", [[1.0], [float("nan")]]),
        ("inputs", [[1.0], ["2"]]),
        ("y", 1.0),
        ("y", [1.0, 1e300]),
        ("noise", [1.0, -1.0]),
        ("noise", 1.0),
        ("a", [1.0, 10**400]),
        ("a", [1.0]),
        ("kernel", {"kernel": "pickle"}),
        ("kernel", {"kernel": "rbf", "length_scale": -1}),
        ("kernel", {"kernel": "rbf", "length_scale": [1.0, 2.0]}),
        ("kernel", {"kernel": "rbf", "length_scale_bounds": [[1], [1, 2]]}),
        ("kernel", {"kernel": "identity", "columns": [5]}),
        ("released", []),
        ("released", {"inputs": [], "y": []}),
        ("released", {"inputs": [[1.0]], "y": [], "noise": []}),
    ],
)
def test_what_a_hostile_server_says_is_refused(name: str, value: Any) -> None:
    data = coefficients(False).to_dict()
    with pytest.raises(InvalidRelease, match="not a client's coefficients"):
        Coefficients.from_dict(data | {name: value}, 1)
    if value is None:
        del data[name]
        with pytest.raises(InvalidRelease, match="not a client's coefficients"):
            Coefficients.from_dict(data, 1)


@given(name=st.sampled_from(FIELDS), value=ANYTHING)
@settings(max_examples=80)
def test_anything_is_read_or_refused_cleanly(name: str, value: Any) -> None:
    data = coefficients(False).to_dict() | {name: value}
    for said in (data, value):
        try:
            Coefficients.from_dict(said, 1)
        except InvalidRelease:
            continue

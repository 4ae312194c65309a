"""A request's examples are read in two ways: whatever the fast one takes, the other takes too, as the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from motet.server.bodies import (
    FAST_DECODER,
    MAX_EXAMPLES_PER_REQUEST,
    MAX_ID_LENGTH,
    NewExamples,
    read_examples,
)

ONE: dict[str, Any] = {"id": "a", "x": [0.5], "y": 1.0, "noise": 2.0}

numbers = st.one_of(st.floats(), st.integers(), st.sampled_from([10**400, -(2**63), True, None, "1.5", "", [1.0]]))
inputs = st.one_of(st.text(max_size=5), st.lists(numbers, max_size=3), numbers)
ids = st.one_of(st.text(max_size=MAX_ID_LENGTH + 2), numbers)
fields = st.fixed_dictionaries({}, optional={"id": ids, "x": inputs, "y": numbers, "noise": numbers, "more": numbers})
finite = st.floats(allow_nan=False, allow_infinity=False)
good = st.fixed_dictionaries(
    {"id": st.text(min_size=1, max_size=MAX_ID_LENGTH), "x": st.text() | st.lists(finite)},
    optional={"noise": finite | st.integers(-(2**70), 2**70)},
).map(lambda one: {**one, "y": 0.1})


def read(body: bytes) -> list[tuple[Any, ...]]:
    return [(one.id, one.x, one.y, one.noise) for one in read_examples(body).examples]


def slowly(body: bytes) -> list[tuple[Any, ...]]:
    return [(one.id, one.x, one.y, one.noise) for one in NewExamples.model_validate_json(body).examples]


def both(body: bytes) -> None:
    try:
        expected = slowly(body)
    except ValidationError:
        with pytest.raises(ValidationError):
            read_examples(body)
        return
    found = read(body)
    assert repr(found) == repr(expected)  # also the types, the sign of 0, and what is not a number


@given(st.lists(fields | good, max_size=3))
@example([{"id": "a", "x": [1, -0.0], "y": 1}])
@example([{**ONE, "x": "a name"}, {**ONE, "id": "é\u2028😀"}])
@example([{**ONE, "y": float("nan")}])
def test_both_ways_read_the_same(examples: list[Any]) -> None:
    both(json.dumps({"examples": examples}).encode())
    both(json.dumps({"examples": examples}, ensure_ascii=False).encode(errors="surrogatepass"))


@given(st.lists(good, min_size=1, max_size=3))
def test_plain_bodies_are_read_fast(examples: list[Any]) -> None:
    FAST_DECODER.decode(json.dumps({"examples": examples}, allow_nan=False).encode())


@given(st.binary(max_size=3), st.integers(0, 60), st.integers(0, 60))
def test_damaged_bodies_are_refused_alike(put: bytes, begin: int, length: int) -> None:
    whole = json.dumps({"examples": [ONE]}).encode()
    both(whole[:begin] + put + whole[begin + length :])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'{"examples": []}',
        b'{"examples": {}}',
        b'{"examples": [], "examples": [{"id": "a", "x": [1.0], "y": 2.0}]}',
        b'{"examples": [{"id": "a", "id": "b", "x": [1.0], "y": 2.0, "y": 3.0}]}',
        b'{"examples": [{"id": "\\ud800", "x": [1.0], "y": 2.0}]}',
        b'{"examples": [{"id": "a\\u0000", "x": [1.0], "y": 1e999}]}',
        b'{"examples": [{"id": "a", "x": [0.1000000000000000055511151231257827021181583404541015625], "y": 5e-324}]}',
        b'{"examples": ' + b"[" * 100_000,
        b'\xef\xbb\xbf{"examples": []}',
        b'\xff{"examples": []}',
    ],
)
def test_odd_bodies(body: bytes) -> None:
    both(body)


@pytest.mark.parametrize("many", [MAX_EXAMPLES_PER_REQUEST, MAX_EXAMPLES_PER_REQUEST + 1])
def test_at_most_so_many(many: int) -> None:
    both(json.dumps({"examples": [{**ONE, "id": str(k)} for k in range(many)]}).encode())


@pytest.mark.parametrize("letters", [0, 1, MAX_ID_LENGTH, MAX_ID_LENGTH + 1])
def test_ids_are_counted_in_letters(letters: int) -> None:
    both(json.dumps({"examples": [{**ONE, "id": "😀" * letters}]}).encode())

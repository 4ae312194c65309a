"""Bodies of requests: read as Python's own JSON reads them, or refused; and a hostile one costs next to nothing."""

from __future__ import annotations

import json
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from motet.errors import InvalidData, WrongDimension
from motet.server.bodies import MAX_EXAMPLES_PER_REQUEST, MAX_ID_LENGTH, Bodies
from tests.study.studies import NAMED, SHORT, changed, load

ONE: dict[str, Any] = {"id": "a", "x": [0.5], "y": 1.0, "noise": 2.0}
TWO = {"dimension = 1": "dimension = 2"}

numbers = st.one_of(st.floats(), st.integers(), st.sampled_from([10**400, -(2**63), True, None, "1.5", "", [1.0]]))
inputs = st.one_of(st.text(max_size=5), st.lists(numbers, max_size=3), numbers)
ids = st.one_of(st.text(max_size=MAX_ID_LENGTH + 2), numbers)
fields = st.fixed_dictionaries({}, optional={"id": ids, "x": inputs, "y": numbers, "noise": numbers, "more": numbers})
finite = st.floats(allow_nan=False, allow_infinity=False)
letters = st.characters(codec="utf-8", min_codepoint=1, exclude_characters="./\\")
plain_text = st.text(letters, min_size=1, max_size=MAX_ID_LENGTH)
good = st.fixed_dictionaries(
    {"id": plain_text, "x": st.lists(finite, min_size=1, max_size=1)},
    optional={"noise": finite | st.integers(-(2**70), 2**70)},
).map(lambda one: {**one, "y": 0.1})


@pytest.fixture(scope="module")
def bodies(tmp_path_factory: pytest.TempPathFactory) -> Bodies:
    """Of inputs that are one number."""
    return Bodies(load(tmp_path_factory.mktemp("bodies"), SHORT))


def read(bodies: Bodies, body: bytes) -> list[tuple[Any, ...]]:
    return [(one.id, tuple(one.x), one.y, one.noise) for one in bodies.examples(body).examples]


def slowly(body: bytes) -> list[tuple[Any, ...]] | None:
    """The same by Python's JSON and plain checks; None if the body is not right."""

    def refuse(_: str) -> Any:
        raise ValueError

    try:
        whole = json.loads(body.decode("utf-8"), parse_constant=refuse)
    except (ValueError, RecursionError):
        return None
    if not isinstance(whole, dict) or whole.keys() != {"examples"}:
        return None
    each = whole["examples"]
    if not isinstance(each, list) or not 1 <= len(each) <= MAX_EXAMPLES_PER_REQUEST or not all(map(is_right, each)):
        return None
    return [(one["id"], (float(one["x"][0]),), float(one["y"]), float(one.get("noise", 1.0))) for one in each]


def is_right(one: Any) -> bool:
    if not isinstance(one, dict) or not {"id", "x", "y"} <= one.keys() <= {"id", "x", "y", "noise"}:
        return False
    id, x = one["id"], one["x"]
    right_id = isinstance(id, str) and 1 <= len(id) <= MAX_ID_LENGTH and is_unicode(id) and is_address_part(id)
    return right_id and isinstance(x, list) and len(x) == 1 and all(map(is_number, (*x, one["y"], one.get("noise", 1))))


def is_unicode(text: str) -> bool:
    return text.encode("utf-8", "replace").decode("utf-8") == text


def is_address_part(text: str) -> bool:
    return not set(text) & set("\0/\\") and text not in (".", "..")


def is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= 1.7976931348623157e308


def both(bodies: Bodies, body: bytes) -> None:
    expected = slowly(body)
    if expected is None:
        with pytest.raises(InvalidData) as refusal:
            read(bodies, body)
        assert len(f"{refusal.value}{refusal.value.where}") < 450
    else:
        assert repr(read(bodies, body)) == repr(expected)  # also the types, and the sign of 0


@given(st.lists(fields | good, max_size=3))
@example([{"id": "a", "x": [1], "y": 1}])
@example([{"id": "a", "x": [-0.0], "y": 1}])
@example([{**ONE, "x": "a name"}, {**ONE, "id": "é\u2028😀"}])
@example([{**ONE, "y": float("nan")}])
def test_bodies_are_read_as_python_reads_them(bodies: Bodies, examples: list[Any]) -> None:
    both(bodies, json.dumps({"examples": examples}).encode())
    both(bodies, json.dumps({"examples": examples}, ensure_ascii=False).encode(errors="surrogatepass"))


@given(st.lists(good, min_size=1, max_size=3))
def test_plain_bodies_are_right(bodies: Bodies, examples: list[Any]) -> None:
    assert len(read(bodies, json.dumps({"examples": examples}, allow_nan=False).encode())) == len(examples)


@given(st.binary(max_size=3), st.integers(0, 60), st.integers(0, 60))
def test_damaged_bodies_are_refused_alike(bodies: Bodies, put: bytes, begin: int, length: int) -> None:
    whole = json.dumps({"examples": [ONE]}).encode()
    both(bodies, whole[:begin] + put + whole[begin + length :])


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
        b'{"examples": [{"id": "a\\u0000", "x": [1.0], "y": 1.0}]}',
        b'{"examples": [{"id": "\\u002e.", "x": [1.0], "y": 1.0}]}',
        b'{"examples": [{"id": "a", "x": [0.1000000000000000055511151231257827021181583404541015625], "y": 5e-324}]}',
        b'{"examples": ' + b"[" * 100_000,
        b'\xef\xbb\xbf{"examples": []}',
        b'\xff{"examples": []}',
    ],
)
def test_odd_bodies(bodies: Bodies, body: bytes) -> None:
    try:
        both(bodies, body)
    except InvalidData:  # of a key that comes twice, one may be refused where Python takes the other
        assert body.count(b'"examples"') == 2


@pytest.mark.parametrize("many", [MAX_EXAMPLES_PER_REQUEST, MAX_EXAMPLES_PER_REQUEST + 1])
def test_at_most_so_many(bodies: Bodies, many: int) -> None:
    both(bodies, json.dumps({"examples": [{**ONE, "id": f"{{{k}}}"} for k in range(many)]}).encode())


@pytest.mark.parametrize("letters", [0, 1, MAX_ID_LENGTH, MAX_ID_LENGTH + 1])
def test_ids_are_counted_in_letters(bodies: Bodies, letters: int) -> None:
    both(bodies, json.dumps({"examples": [{**ONE, "id": "😀" * letters}]}).encode())


@pytest.mark.parametrize("id", [".", "..", "...", "../me", "a/b", "a\\b", "..\n", "%2e%2e", "a.b"])
def test_ids_do_not_lead_to_another_address(bodies: Bodies, id: str) -> None:
    both(bodies, json.dumps({"examples": [{**ONE, "id": id}]}).encode())


def test_refusals_say_what_is_expected_and_where(tmp_path: Path) -> None:
    two = Bodies(load(tmp_path, changed(SHORT, TWO)))
    for x, error, message, where in (
        ("[1]", WrongDimension, "expected a list of length 2", "body.examples.0.x"),
        ('[1, "2"]', InvalidData, "expected a number, got text", "body.examples.0.x.1"),
        ('"rose"', InvalidData, "expected a list, got text", "body.examples.0.x"),
    ):
        with pytest.raises(error) as refusal:
            two.examples(b'{"examples": [{"id": "a", "y": 1, "x": %s}]}' % x.encode())
        assert (str(refusal.value), refusal.value.where) == (message, where)
    named = Bodies(load(tmp_path, NAMED))
    with pytest.raises(InvalidData, match="expected text or a list, got a number"):
        named.example(b'{"y": 1, "x": 3}')
    assert named.example(b'{"y": 1, "x": "anything"}').x == "anything"


# --- hostile bodies ---

BYTES = 980_000
HOSTILE = {
    "an input of strings": b'{"examples":[{"id":"a","y":1,"x":[' + b'"a",' * (BYTES // 4),
    "an input of numbers": b'{"examples":[{"id":"a","y":1,"x":[' + b"0," * (BYTES // 2),
    "many examples": b'{"examples":[' + b'{"id":"a","x":[0],"y":0},' * (BYTES // 25),
    "many empty examples": b'{"examples":[' + b"{}," * (BYTES // 3),
    "a long id": b'{"examples":[{"id":"' + b"a" * BYTES + b'","y":1,"x":[0]}]}',
    "an escaped id": b'{"examples":[{"id":"' + b"\\u00e9" * (BYTES // 6) + b'","y":1,"x":[0]}]}',
    "a long number": b'{"examples":[{"id":"a","y":' + b"1" * BYTES + b',"x":[0]}]}',
    "a deep list": b'{"examples":' + b"[" * BYTES,
    "a long unknown key": b'{"examples":[{"' + b"z" * BYTES + b'":1}]}',
    "deep below an unknown key": b'{"examples":[{"z":' + b"[" * BYTES,
    "no JSON": b"\xff" * BYTES,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_body_is_refused_before_anything_is_built(bodies: Bodies, name: str) -> None:
    """The refusal takes at most as long as reading an honest body of the size, and a few times its memory."""
    honest = json.dumps({"examples": [{**ONE, "id": f"{'i' * 90}{k}"} for k in range(1000)]}).encode()
    begin = time.thread_time()
    for _ in range(7 * BYTES // len(honest)):
        bodies.examples(honest)
    reading = time.thread_time() - begin
    tracemalloc.start()
    begin = time.thread_time()
    with pytest.raises(InvalidData) as refusal:
        bodies.examples(HOSTILE[name])
    took, (_, peak) = time.thread_time() - begin, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(f"{refusal.value}{refusal.value.where}") < 450
    assert took < reading + 0.02
    assert peak < 6 * BYTES

"""Inputs by name over HTTP: any order, each name once, cells as people write them; whatever else comes is refused."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from motet import Disclosed
from motet.errors import InvalidData
from motet.server.bodies import Bodies
from tests.server.fuzz import fuzz
from tests.server.world import World, world
from tests.study.studies import VISITS, load

X: dict[str, Any] = {"hours": 3.5, "sex": "m", "visit": "2024-03-01"}


@pytest.fixture(scope="module")
def bodies(tmp_path_factory: pytest.TempPathFactory) -> Bodies:
    return Bodies(load(tmp_path_factory.mktemp("bodies"), VISITS))


def text(*pairs: tuple[str, Any]) -> str:
    """An object, also one that has a name twice."""
    return f"{{{', '.join(f'{json.dumps(name)}: {json.dumps(value)}' for name, value in pairs)}}}"


def body(*inputs: str, id: str = "a") -> bytes:
    examples = [f'{{"id": "{id}{k}", "y": 1, "x": {x}}}' for k, x in enumerate(inputs)]
    return f'{{"examples": [{", ".join(examples)}]}}'.encode()


def read(bodies: Bodies, data: bytes) -> list[Any]:
    return bodies.inputs(bodies.examples(data).examples)


# --- bodies ---

names = st.sampled_from(["hours", "sex", "visit", "Hours", "dose", ""])
cells: st.SearchStrategy[Any] = st.sampled_from([1, 2.5, "m", "2024-03-01", "", None, True, [1.0], {}])
right = st.permutations(list(X.items()))
inputs = st.lists(right | st.lists(st.tuples(names, cells), max_size=4), min_size=1, max_size=3)


def is_right(pairs: list[tuple[str, Any]]) -> bool:
    cells = dict(pairs)
    return (
        len(pairs) == len(cells)
        and cells.keys() == X.keys()
        and type(cells["hours"]) in (int, float)
        and isinstance(cells["sex"], (str, int, float))
        and isinstance(cells["visit"], str)
    )


@given(inputs, st.sampled_from(["a", "hours", "\\u0068ours", "é"]))
@example([[("hours", 1.0), *X.items()]], "a")
@example([[("sex", "hours"), ("hours", 1.0), ("visit", "sex")]], "visit")
def test_each_name_once_in_any_order_or_a_refusal(bodies: Bodies, given: list[Any], id: str) -> None:
    data = body(*(text(*pairs) for pairs in given), id=id)
    if all(map(is_right, given)):
        assert read(bodies, data) == [dict(pairs) for pairs in given]
        return
    with pytest.raises(InvalidData) as refused:
        read(bodies, data)
    body_, examples, place, x, *_ = str(refused.value.where).split(".")
    assert (body_, examples, x) == ("body", "examples", "x")
    assert not is_right(given[int(place)])


@pytest.mark.parametrize(
    ("x", "where", "message"),
    [
        ('{"hours": 1, "sex": "f"}', ".x", 'the input "visit" is missing: the inputs are hours, sex, visit'),
        ('{"hour": 1, "sex": "f"}', ".x", "unknown input \"hour\"; did you mean 'hours'? the inputs are hours,"),
        ('{"hours": "1", "sex": "f"}', ".x.hours", "expected a number, got text"),
        ('{"hours": 1e999, "sex": "f"}', ".x.hours", "expected a number, got a number out of range"),
        ('{"sex": null}', ".x.sex", 'expected "f" or "m", got nothing'),
        ('{"visit": 45000}', ".x.visit", "expected a date such as 2024-03-01, got a number"),
        ("[1, 2, 3]", ".x", 'expected an input by names, such as {"hours": 12.0, "sex": "f", "visit"'),
        ("null", ".x", "expected an input by names"),
        (text(*X.items(), ("sex", "f")), ".x.sex", 'the input "sex" is there twice: give each once'),
        ('{"hours": 1, "sex": "f", "visit": "", "\\u0068ours": 2}', ".x.hours", 'the input "hours" is there twice'),
    ],
)
def test_refusals_name_the_input(bodies: Bodies, x: str, where: str, message: str) -> None:
    for data, reader, place in (
        (body(text(*X.items()), x), bodies.examples, "body.examples.1"),
        (f'{{"y": 1, "x": {x}}}'.encode(), bodies.example, "body"),
    ):
        with pytest.raises(InvalidData) as refused:
            reader(data)
        assert message in str(refused.value)
        assert refused.value.where == place + where


def test_an_input_that_is_there_twice_is_one_too_many(bodies: Bodies) -> None:
    x = text(*X.items())
    with pytest.raises(InvalidData, match='"x" is there twice'):
        bodies.examples(f'{{"examples": [{{"id": "a", "y": 1, "x": {x}, "x": {x}}}]}}'.encode())


BYTES = 980_000
HOSTILE = {
    "an unknown name": b'{"examples":[{"id":"a","y":1,"x":{"' + b"z" * BYTES + b'":1}}]}',
    "many unknown names": b'{"examples":[{"id":"a","y":1,"x":{' + b'"a":1,' * (BYTES // 6),
    "a name again and again": b'{"examples":[{"id":"a","y":1,"x":{' + b'"hours":1,' * (BYTES // 10),
    "a long value": b'{"examples":[{"id":"a","y":1,"x":{"sex":"' + b"m" * BYTES + b'"}}]}',
    "many empty inputs": b'{"examples":[' + b'{"x":{}},' * (BYTES // 9),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_body_is_refused_before_anything_is_built(bodies: Bodies, name: str) -> None:
    tracemalloc.start()
    begin = time.thread_time()
    with pytest.raises(InvalidData) as refused:
        bodies.examples(HOSTILE[name])
    took, (_, peak) = time.thread_time() - begin, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(f"{refused.value}{refused.value.where}") < 450
    assert took < 0.1
    assert peak < 6 * BYTES


# --- a server ---


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("motet.server.routes.MAX_RELEASE_SECONDS", 0.01)
        yield from world(tmp_path_factory.mktemp("visits"), VISITS)


def send(visits: World, *xs: Any) -> Any:
    examples = [{"id": str(k), "x": x, "y": 1.0} for k, x in enumerate(xs)]
    return visits.call("POST", "/v1/examples", "another", json={"examples": examples})


def test_examples_come_back_as_they_were_sent(visits: World) -> None:
    later = {"visit": "2024-03-01T12:00:00", "sex": "f", "hours": 0.0}
    assert send(visits, X, later).json()["accepted"] == 2
    stored = visits.call("GET", "/v1/me/examples", "another").json()["examples"]
    assert [one["x"] for one in stored] == [X, later]
    changed = visits.call("PUT", "/v1/me/examples/1", "another", json={"x": {**X, "hours": 24}, "y": 2.0})
    assert changed.status_code in (200, 202)
    stored = visits.call("GET", "/v1/me/examples", "another").json()["examples"]
    assert [one["x"] for one in stored] == [X, {**X, "hours": 24.0}]
    visits.release()
    release = Disclosed.from_bytes(visits.call("GET", "/v1/disclosed").content)
    assert release.model.columns is not None
    assert release.rows([X, dict(reversed(X.items()))])[0].tolist() == [3.5, 0.0, 1.0, 60.0]


def test_the_study_tells_columns_and_the_names_of_other_columns(visits: World) -> None:
    told = visits.call("GET", "/v1/study").json()
    assert [column["name"] for column in told["model"]["columns"]] == list(X)
    assert told["table"] == {"client": "patient", "target": "glucose", "name": "name"}
    assert told["output"] == {"name": "glucose", "unit": None, "scale": None}
    assert told["bounds"] == [[0.0, 24.0], [0.0, 1.0], [0.0, 1.0], [0.0, 365.0]]


@pytest.mark.parametrize(
    ("x", "where"),
    [
        ({**X, "hours": 25}, "examples.1.x.hours"),
        ({**X, "sex": "w"}, "examples.1.x.sex"),
        ({**X, "visit": "2023-12-31"}, "examples.1.x.visit"),
        ({**X, "visit": "0001-01-01T00:00+14:00"}, "examples.1.x.visit"),
        ({**X, "more": 1}, "body.examples.1.x"),
        ([3.5, 0.0, 1.0, 60.0], "body.examples.1.x"),
    ],
)
def test_nothing_is_stored_of_a_request_with_a_wrong_input(visits: World, x: Any, where: str) -> None:
    before = visits.call("GET", "/v1/me", "own").json()["count"]
    examples = [{"id": str(k), "x": one, "y": 1.0} for k, one in enumerate((X, x))]
    answer = visits.call("POST", "/v1/examples", "own", json={"examples": examples})
    assert (answer.status_code, answer.json()["error"]["where"]) == (422, where)
    assert visits.call("GET", "/v1/me", "own").json()["count"] == before


def test_the_document_has_the_names_and_its_examples_work(visits: World) -> None:
    document = visits.call("GET", "/openapi.json").json()
    assert set(document["components"]["schemas"]["Input"]["required"]) == set(X)
    example = document["paths"]["/v1/examples"]["post"]["requestBody"]["content"]["application/json"]["example"]
    assert set(example["examples"][0]["x"]) == set(X)
    assert visits.call("POST", "/v1/examples", "another", json=example).status_code == 200
    assert "visit" in visits.call("GET", "/docs").text


@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/examples"), ("PUT", "/v1/me/examples/{id}")])
def test_whatever_is_sent_no_call_fails(visits: World, method: str, path: str) -> None:
    fuzz(visits, method, path)

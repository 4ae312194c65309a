"""Releases that somebody crafted: the page refuses each in one line, and shows on what it had before."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from playwright.sync_api import Page, Route, expect

from tests.server.world import World
from tests.web.visitor import Visit, address

Change: TypeAlias = Callable[[dict[str, Any], dict[str, Any], bytearray], Any]  # of arrays' entries, header, numbers
LOAD = """async (data) => {
  const { load } = await import("/web/calculator.js");
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  return load(bytes.buffer).then((release) => release.version, (error) => String(error.message));
}"""
MARKUP = "<img src=x onerror=alert(1)>"


def crafted(data: bytes, change: Change | None = None) -> bytes:
    """A release with its entries, its header or its numbers changed, and no check in between."""
    (size,) = struct.unpack("<Q", data[:8])
    table, numbers = json.loads(data[8 : 8 + size]), bytearray(data[8 + size :])
    header = json.loads(table["__metadata__"]["motet"])
    if change is not None:
        change(table, header, numbers)
    table["__metadata__"]["motet"] = json.dumps(header)
    text = json.dumps(table).encode()
    return struct.pack("<Q", len(text)) + text + numbers


def entry(name: str, **values: Any) -> Change:
    return lambda table, _header, _numbers: table[name].update(values)


def header(**values: Any) -> Change:
    return lambda _table, header, _numbers: header.update(values)


def model(**values: Any) -> Change:
    return lambda _table, header, _numbers: header["model"].update(values)


def first_number(value: float) -> Change:
    return lambda _table, _header, numbers: numbers.__setitem__(slice(0, 8), np.array([value]).tobytes())


def columns_without_rows(count: int) -> Change:
    """As arrays of 0 × 10⁹ are: they take no bytes of the file."""

    def change(table: dict[str, Any], header: dict[str, Any], numbers: bytearray) -> None:
        for name in ("landmarks", "redundant", "A", "Lambda", "eta", "theta"):
            shape = {"landmarks": [0, count], "redundant": [0, count], "eta": [0], "theta": [0]}.get(name, [0, 0])
            table[name] |= {"shape": shape, "data_offsets": [0, 0]}
        numbers.clear()
        header["model"] |= {"bias": "none", "basis": None, "catalogue": None}

    return change


def nested(depth: int) -> Change:
    """A power of a power of a power …"""

    def change(_table: Any, header: dict[str, Any], _numbers: Any) -> None:
        kernel = {"kernel": "constant", "value": 1.0}
        for _ in range(depth):
            kernel = {"kernel": "power", "of": kernel, "exponent": 1.0}
        header["model"]["individual"] = kernel

    return change


RBF = {"kernel": "rbf", "length_scale": 1.0}
CURVE: dict[str, Change] = {
    "shape of 10⁹ × 10⁹": entry("Lambda", shape=[10**9, 10**9]),
    "shape beyond whole numbers": entry("eta", shape=[2**60]),
    "a shape that is a text": entry("A", shape="10"),
    "three dimensions": entry("landmarks", shape=[1, 1, 1]),
    "a negative shape": entry("landmarks", shape=[-1, -8]),
    "half a column": entry("landmarks", shape=[0.5, 2]),
    "negative offsets": entry("theta", data_offsets=[-64, 0]),
    "offsets that end before they begin": entry("theta", data_offsets=[64, 0]),
    "offsets behind the end": entry("theta", data_offsets=[2**40, 2**40 + 8]),
    "no offsets": entry("theta", data_offsets=None),
    "numbers of 32 bits": entry("eta", dtype="F32"),
    "arrays over each other": lambda table, _h, _n: table["eta"].update(data_offsets=table["theta"]["data_offsets"]),
    "an array missing": lambda table, _h, _n: table.pop("eta"),
    "one array more": lambda table, _h, _n: table.update(more=table["eta"]),
    "numbers behind the last": lambda _t, _h, numbers: numbers.extend(bytes(8)),
    "numbers missing": lambda _t, _h, numbers: numbers.__delitem__(slice(0, 64)),
    "NaN": first_number(float("nan")),
    "infinity": first_number(float("inf")),
    "10⁹ columns": columns_without_rows(10**9),
    "20,000 columns": columns_without_rows(20_000),
    "no column": columns_without_rows(0),
    "a version that is true": header(version=True),
    "a version that is a text": header(version="1"),
    "a version of 4,000 digits": header(version=10**3999),
    "a version below 0": header(version=-1),
    "a version that is a list": header(version=[1]),
    "a policy that is markup": header(policy=MARKUP),
    "a format that is markup": header(format={"toString": MARKUP}),
    "sigma2 that is a text": header(sigma2=MARKUP),
    "no model": header(model=None),
    "a model that is a list": header(model=[]),
    "alpha of 7": model(alpha=7),
    "a setting of the model that is not known": model(likelihood="poisson"),
    "lam that is null": model(lam=None),
    "a bias in a column that is not there": model(bias=[10**9]),
    "a basis that is a number": model(basis=7),
    "a kernel without a name": model(common={}),
    "a kernel that is a list": model(individual=[RBF]),
    "a kernel of the prototype": model(common={"kernel": "constructor"}),
    "a sum of nothing": model(common={"kernel": "sum", "of": []}),
    "a sum of 100,000": model(common={"kernel": "sum", "of": [RBF] * 100_000}),
    "kernels 300 deep": nested(300),
    "a length that is a text": model(common={**RBF, "length_scale": MARKUP}),
    "a length of 0": model(common={**RBF, "length_scale": 0}),
    "Matérn without end": model(common={"kernel": "matern", "length_scale": 1.0, "nu": "Infinity"}),
    "Matérn of no number": model(common={"kernel": "matern", "length_scale": 1.0, "nu": None}),
    "a covariance that is a number": model(individual={"kernel": "linear", "covariance": 3}),
    "columns of a kernel that are not there": model(individual={**RBF, "columns": [10**6]}),
    "too few lengths": model(individual={"kernel": "scaled", "of": RBF, "center": [], "scale": []}),
    "named columns that are too many": model(columns=[{"name": "a"}, {"name": "b"}]),
    "named columns that are a text": model(columns=MARKUP),
    "a column whose name is a list": model(columns=[{"name": [MARKUP]}]),
    "a column with bounds that are a text": model(columns=[{"name": "distance", "bounds": MARKUP}]),
    "a catalogue where inputs have none": model(catalogue={"names": ["a"], "vectors": [[1.0, 2.0]]}),
}
CATALOGUE: dict[str, Change] = {
    "another catalogue": model(catalogue={"names": ["a", "b"], "vectors": [[1.0], [2.0]]}),
    "no catalogue": model(catalogue=None, bias="linear"),
    "a catalogue of no name": model(catalogue={"names": [], "vectors": []}),
    "names that are tables": model(catalogue={"names": [{"toString": MARKUP}], "vectors": [[1.0]]}),
    "names twice": model(catalogue={"names": ["a", "a"], "vectors": [[1.0], [1.0]]}),
    "features that are texts": model(catalogue={"names": ["a"], "vectors": [[MARKUP]]}),
    "features of 10⁶ names without any": model(catalogue={"names": [str(k) for k in range(10**6)], "vectors": []}),
}
BYTES = {
    "nothing": b"",
    "a header that is longer than the file": struct.pack("<Q", 2**63) + b"{}",
    "a header of a terabyte": struct.pack("<Q", 2**40) + b"{}",
    "JSON a million deep": struct.pack("<Q", 10**6) + b"[" * 10**6,
    "a header that is null": struct.pack("<Q", 4) + b"null",
    "a page": b"<!doctype html><title>no release</title>",
}


def refusal(page: Page, data: bytes) -> Any:
    return page.evaluate(LOAD, base64.b64encode(data).decode())


def test_crafted_releases_are_refused_in_one_line(studies: dict[str, World], visit: Visit) -> None:
    """Nothing hangs, nothing takes memory, and the release that was there can still be computed with."""
    curve, music = (studies[kind].call("GET", "/v1/disclosed").content for kind in ("curve exact", "music private"))
    page = visit(address(studies["curve exact"])).page
    assert [refusal(page, crafted(honest)) for honest in (music, curve)] == [1, 1]
    hostile = {name: crafted(curve, change) for name, change in CURVE.items()}
    hostile |= {name: crafted(music, change) for name, change in CATALOGUE.items()} | BYTES
    answers = {name: refusal(page, data) for name, data in hostile.items()}
    accepted = {name: answer for name, answer in answers.items() if not isinstance(answer, str)}
    unclear = {
        name: one for name, one in answers.items() if "release" not in str(one) or len(str(one).splitlines()) > 1
    }
    assert (accepted, unclear) == ({}, {})
    assert max(map(len, map(str, answers.values()))) < 200
    average = """async () => {
      const { predict } = await import("/web/calculator.js");
      return Array.from((await predict({ at: [[10.0]] })).average.mean);
    }"""
    assert np.isfinite(page.evaluate(average)).all()


def test_the_page_says_what_is_wrong_with_a_release(studies: dict[str, World], visit: Visit) -> None:
    page = visit(address(studies["curve exact"])).page
    honest = studies["curve exact"].call("GET", "/v1/disclosed").content

    def answer(route: Route) -> None:
        route.fulfill(body=crafted(honest, columns_without_rows(10**9)), content_type="application/octet-stream")

    page.route("**/v1/disclosed", answer)
    page.reload()
    expect(page.locator("#trouble")).to_contain_text("not a release: expected landmarks of at most")
    expect(page.locator("#name")).to_have_text("Running")


def test_a_matern_kernel_far_from_everything_is_zero(studies: dict[str, World], visit: Visit) -> None:
    """Its integral has no end where a distance over a length is infinite."""
    page = visit(address(studies["curve exact"])).page
    far = """async () => {
      const { kernelOf } = await import("/web/core/kernels.js");
      const { Matrix } = await import("/web/core/matrix.js");
      const kernel = kernelOf({ kernel: "matern", length_scale: 1e-200, nu: 0.7 });
      const X = Matrix.of([[0], [1]], 1);
      return Array.from(kernel.gram(X, X).data);
    }"""
    assert page.evaluate(far) == [1, 0, 0, 1]

"""What a start pins: all of a private study, the meaning of inputs of any."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from motet.study.study import Study
from tests.study.studies import EXACT, ITEMS, NAMED, SHORT, changed, load


def test_pinned_is_canonical_and_leaves_the_rest_free(tmp_path: Path) -> None:
    pinned = load(tmp_path, SHORT).pinned()
    assert json.dumps(json.loads(pinned), sort_keys=True, separators=(",", ":")) == pinned
    free = {
        "Curves": "Other",
        "[limits]": "[limits]\nexamples_per_client = 9",
        "[release]": '[server]\nport = 1\n[store]\nurl = "sqlite:///x.db"\n[release]',
        'kernel = "rbf"': 'kernel = "rbf", length_scale = 1',
        "lam = 0.1": "lam = 1e-1",
    }
    assert load(tmp_path, changed(SHORT, free)).pinned() == pinned


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("release.epsilon", {"epsilon = 1.0": "epsilon = 2.0"}),
        ("release.delta", {"[release]": "[release]\ndelta = 1e-6"}),
        ("release.releases", {"releases = 3": "releases = 4"}),
        ("release.per", {"[release]": '[release]\nper = "client"'}),
        ("release.examples", {"[release]": "[release]\nexamples = 6"}),
        ("model.alpha", {"alpha = 0.5": "alpha = 0.6"}),
        ("model.sigma2", {"sigma2 = 1.0": "sigma2 = 2.0"}),
        ("model.common", {'"rbf"': '"matern"'}),
        ("model.bias", {"lam": 'bias = "none"\nlam'}),
        ("basis.points", {"count = 5": "count = 6"}),
        ("basis.kind", {'"landmarks"': '"eigen"\nrank = 2'}),
        ("inputs.bounds", {"dimension = 1": "dimension = 1\nbounds = [0, 1]"}),
        ("inputs.dimension", {"dimension = 1": "dimension = 2"}),
        ("limits.y", {"-5.0": "-6.0"}),
        ("limits.noise", {"[limits]": "[limits]\nnoise = [0.1, 10.0]"}),
        ("release.policy", {"[release]": '[release]\npolicy = "exact"'}),
    ],
    ids=str,
)
def test_a_private_study_is_fixed(tmp_path: Path, key: str, change: dict[str, str]) -> None:
    pinned = load(tmp_path, SHORT).pinned()
    other = load(tmp_path, changed(SHORT, change))
    assert (other.contradicts(pinned) or "").startswith(f"{key}: ")
    assert (load(tmp_path, SHORT).contradicts(other.pinned()) or "").startswith(f"{key}: ")


def test_releases_of_a_private_study_may_become_rarer_only(tmp_path: Path) -> None:
    def every(time: str, text: str = SHORT) -> Study:
        return load(tmp_path, changed(text, {"[release]": f'[release]\nevery = "{time}"'}))

    pinned = every("1d").pinned()
    assert every("1d").contradicts(pinned) is None
    assert every("2d").contradicts(pinned) is None
    reason = "release.every: expected 86400 s or more, pinned at an earlier start, got 82800 s"
    assert every("23h").contradicts(pinned) == reason
    assert every("1s", EXACT).contradicts(every("1d", EXACT).pinned()) is None
    before = json.loads(pinned)
    del before["release.every"]  # as the version before pinned it
    assert every("1s").contradicts(json.dumps(before)) is None


def test_an_exact_study_may_improve_its_model(tmp_path: Path) -> None:
    pinned = load(tmp_path, NAMED).pinned()
    better = {
        "alpha = 0.5": "alpha = 0.9",
        "lam = 0.1": "lam = 0.2",
        "sigma2 = 1.0": "",
        '"rbf"': '"identity"',
        'kind = "landmarks"': "",
        "-5.0": "-6.0",
    }
    longer = load(tmp_path, changed(NAMED, better), ITEMS + "sea,0,1\n")
    assert longer.contradicts(pinned) is None
    assert load(tmp_path, NAMED).contradicts(longer.pinned()) == (
        "inputs.catalogue: expected at least 4 items, got 3: items may be appended, not removed"
    )
    reason = load(tmp_path, NAMED, ITEMS.replace("1.5", "1.6")).contradicts(pinned)
    assert reason == 'inputs.catalogue: item 2 ("leaf") differs from the one at the first start'
    assert load(tmp_path, NAMED, ITEMS.replace("leaf", "Leaf")).contradicts(pinned)
    wider = load(tmp_path, NAMED, "name,red,green,blue\nrose,1,0,0\n").contradicts(pinned)
    assert wider == "inputs.dimension: expected 3, fixed at the first start, got 4"
    numbers = load(tmp_path, EXACT)
    assert numbers.contradicts(pinned) == (
        "inputs.catalogue: expected names in a catalogue, fixed at the first start, got lists of numbers"
    )
    assert (load(tmp_path, NAMED).contradicts(numbers.pinned()) or "").startswith("inputs.catalogue: ")
    private = load(tmp_path, changed(NAMED, {'policy = "exact"': ""}))
    assert private.contradicts(pinned) == 'release.policy: expected "exact", fixed at the first start, got "private"'


def test_a_private_catalogue_does_not_grow(tmp_path: Path) -> None:
    text = changed(NAMED, {'policy = "exact"': ""})
    reason = load(tmp_path, text, ITEMS + "sea,0,1\n").contradicts(load(tmp_path, text).pinned())
    assert reason == "inputs.catalogue: expected 3 items, got 4: the catalogue of a private study is fixed"


@pytest.mark.parametrize("text", ["", "[]", "{}", "3", '{"format":1}', '{"format":2}'])
def test_pinned_text_of_others(tmp_path: Path, text: str) -> None:
    assert (load(tmp_path, SHORT).contradicts(text) or "").startswith("format: ")

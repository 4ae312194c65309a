"""What fixes which settings: the first example, the first backup, the first release; and what a promise may become."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from motet.errors import InvalidStudy
from motet.study.pins import BACKUP, EXAMPLE, RELEASE, RELEASED, Since
from motet.study.study import Study
from tests.study.studies import EXACT, ITEMS, NAMED, SHORT, changed, load

SENT, SAVED = Since(example=EXAMPLE), Since(backup=BACKUP)
COLUMNS = """columns = [
  { name = "hours", bounds = [0.0, 14.0] },
  { name = "sex", values = ["f", "m"] },
]"""
WITH_COLUMNS = SHORT.replace("dimension = 1", COLUMNS).replace(
    "grid = { from = 0.0, to = 1.0, count = 5 }", "spread = 5"
)


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


LIMITS: dict[str, dict[str, str]] = {
    "inputs.bounds": {"dimension = 1": "dimension = 1\nbounds = [0, 1]"},
    "inputs.dimension": {"dimension = 1": "dimension = 2"},
    "limits.y": {"-5.0": "-6.0"},
    "limits.noise": {"[limits]": "[limits]\nnoise = [0.1, 10.0]"},
}
MODEL: dict[str, dict[str, str]] = {
    "release.examples": {"[release]": "[release]\nexamples = 6"},
    "model.alpha": {"alpha = 0.5": "alpha = 0.6"},
    "model.sigma2": {"sigma2 = 1.0": "sigma2 = 2.0"},
    "model.common": {'"rbf"': '"matern"'},
    "model.bias": {"lam": 'bias = "none"\nlam'},
    "basis.points": {"count = 5": "count = 6"},
    "basis.kind": {'"landmarks"': '"eigen"\nrank = 2'},
}
PILOT = f"""
[pilot]
clients = 1
share = 0.2
salt = "{"0" * 32}"
joins = false
digests = ["{"a" * 16}"]
"""
PROMISE: dict[str, dict[str, str]] = {
    "release.policy": {"[release]": '[release]\npolicy = "exact"'},
    "release.per": {"[release]": '[release]\nper = "client"'},
    "release.epsilon": {"epsilon = 1.0": "epsilon = 2.0"},
    "release.delta": {"[release]": "[release]\ndelta = 1e-4"},
    "release.releases": {"releases = 3": "releases = 2"},
}


def reasons(folder: Path, change: dict[str, str], since: Since) -> tuple[str | None, str | None]:
    """Why a change of the private study is refused, and why the way back is."""
    study, other = load(folder, SHORT), load(folder, changed(SHORT, change))
    return other.contradicts(study.pinned(), since), study.contradicts(other.pinned(), since)


@pytest.mark.parametrize(
    ("key", "change", "fixing"),
    [
        *((key, change, (SENT, RELEASED)) for key, change in LIMITS.items()),
        *((key, change, (RELEASED,)) for key, change in MODEL.items()),
        *((key, change, (SAVED, RELEASED)) for key, change in PROMISE.items()),
    ],
    ids=str,
)
def test_each_setting_is_fixed_by_its_event_and_free_before(
    tmp_path: Path, key: str, change: dict[str, str], fixing: tuple[Since, ...]
) -> None:
    for since in (Since(), SAVED, SENT, RELEASED):
        if since == SENT and key in PROMISE:
            continue
        for reason in reasons(tmp_path, change, since):
            if since in fixing:
                event = next(filter(None, (since.inputs if key in LIMITS else since.promise, since.release)))
                assert (reason or "").startswith(f"{key}: expected ")
                assert f", fixed since {event}, got " in (reason or "")
            else:
                assert reason is None


@pytest.mark.parametrize("key", PROMISE)
def test_a_promise_may_become_stricter_but_not_weaker(tmp_path: Path, key: str) -> None:
    """Of each pair one way is weaker: no noise, an end for each client only, a larger ε or δ, fewer releases."""
    weaker, stricter = reasons(tmp_path, PROMISE[key], SENT)
    assert (weaker or "").startswith(f"{key}: expected ")
    assert ", fixed since the first example, got " in (weaker or "")
    assert stricter is None


def test_what_a_promise_expects(tmp_path: Path) -> None:
    def reason(*keys: str) -> str | None:
        change = {old: new for key in keys for old, new in PROMISE[key].items()}
        return load(tmp_path, changed(SHORT, change)).contradicts(load(tmp_path, SHORT).pinned(), SENT)

    fixed = "fixed since the first example"
    assert reason("release.policy") == f'release.policy: expected "private", {fixed}, got "exact"'
    assert reason("release.epsilon") == f"release.epsilon: expected 1 or less, {fixed}, got 2.0"
    assert reason("release.releases") == (
        f"release.releases: expected 3 or more, since fewer would have less noise each, {fixed}, got 2"
    )
    assert reason("release.epsilon", "release.releases", "release.policy") == reason("release.policy")


@pytest.mark.parametrize("releases", [2, 4])
def test_a_client_that_was_to_be_in_so_many_releases_is_not_in_others(tmp_path: Path, releases: int) -> None:
    each = changed(SHORT, PROMISE["release.per"])
    other = {"releases = 3": f"releases = {releases}"}
    for text in (changed(each, other), changed(SHORT, other)):
        reason = load(tmp_path, text).contradicts(load(tmp_path, each).pinned(), SENT) or ""
        assert reason.startswith("release.releases: expected 3, in which each client is, fixed since the first example")
    assert load(tmp_path, SHORT).contradicts(load(tmp_path, each).pinned(), SENT) is None


def test_a_study_without_noise_may_become_private_until_its_first_release(tmp_path: Path) -> None:
    private, exact = load(tmp_path, SHORT), load(tmp_path, EXACT)
    for since in (Since(), SENT):
        assert private.contradicts(exact.pinned(), since) is None
    for since, event in ((SAVED, BACKUP), (RELEASED, RELEASE)):
        reason = f'release.policy: expected "exact", fixed since {event}, got "private"'
        assert private.contradicts(exact.pinned(), since) == reason
    wider, taller = (load(tmp_path, changed(SHORT, LIMITS[key])) for key in ("limits.y", "inputs.dimension"))
    assert wider.contradicts(exact.pinned(), SENT) is None  # limits were free
    assert (taller.contradicts(exact.pinned(), SENT) or "").startswith("inputs.dimension: ")


def test_releases_of_a_private_study_may_become_rarer_only(tmp_path: Path) -> None:
    def every(time: str, text: str = SHORT) -> Study:
        return load(tmp_path, changed(text, {"[release]": f'[release]\nevery = "{time}"'}))

    pinned = every("1d").pinned()
    assert every("1d").contradicts(pinned) is None
    assert every("2d").contradicts(pinned) is None
    for since, event in ((RELEASED, RELEASE), (SAVED, BACKUP)):
        reason = f"release.every: expected 86400 s or more, fixed since {event}, got 82800 s"
        assert every("23h").contradicts(pinned, since) == reason
    assert every("23h").contradicts(pinned, SENT) is None
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
    other = load(tmp_path, NAMED, ITEMS.replace("1.5", "1.6"))
    reason = 'inputs.catalogue: item 2 ("leaf") was changed; items are fixed since the first example'
    assert other.contradicts(pinned) == reason
    assert other.contradicts(pinned, SAVED) is None
    assert load(tmp_path, NAMED, ITEMS.replace("leaf", "Leaf")).contradicts(pinned)
    wider = load(tmp_path, NAMED, "name,red,green,blue\nrose,1,0,0\n").contradicts(pinned)
    assert wider == "inputs.dimension: expected 3, fixed since the first example, got 4"
    numbers = load(tmp_path, EXACT)
    assert numbers.contradicts(pinned) == (
        "inputs.catalogue: expected names in a catalogue, fixed since the first example, got lists of numbers"
    )
    assert (load(tmp_path, NAMED).contradicts(numbers.pinned()) or "").startswith("inputs.catalogue: ")


def test_a_private_catalogue_does_not_grow(tmp_path: Path) -> None:
    text = changed(NAMED, {'policy = "exact"': ""})
    longer = load(tmp_path, text, ITEMS + "sea,0,1\n")
    reason = "inputs.catalogue: expected 3 items, fixed since the first example, got 4"
    assert longer.contradicts(load(tmp_path, text).pinned(), SENT) == reason
    assert longer.contradicts(load(tmp_path, text).pinned(), Since()) is None


@pytest.mark.parametrize(
    ("change", "policies"),
    [
        ({'"f", "m"': '"m", "f"'}, ("private", "exact")),
        ({'"hours"': '"age"'}, ("private", "exact")),
        ({"[0.0, 14.0]": "[0.0, 24.0]"}, ("private",)),  # a limit
    ],
    ids=str,
)
@pytest.mark.parametrize("policy", ["private", "exact"])
def test_named_inputs_keep_their_meaning(
    tmp_path: Path, policy: str, change: dict[str, str], policies: tuple[str, ...]
) -> None:
    text = changed(WITH_COLUMNS, {"[release]": f'[release]\npolicy = "{policy}"'})
    pinned, other = load(tmp_path, text).pinned(), load(tmp_path, changed(text, change))
    assert other.contradicts(pinned, Since()) is None
    for since in (SENT, RELEASED):
        assert (other.contradicts(pinned, since) is not None) == (policy in policies)
    if policy in policies:
        assert (other.contradicts(pinned, SENT) or "").startswith("inputs.columns: ")


def test_the_terms_are_what_clients_send_under(tmp_path: Path) -> None:
    study = load(tmp_path, SHORT)
    for change in (*LIMITS.values(), *PROMISE.values()):
        assert load(tmp_path, changed(SHORT, change)).terms != study.terms
    for change in MODEL.values():
        assert load(tmp_path, changed(SHORT, change)).terms == study.terms


def test_what_is_not_fixed_yet_is_one_line(tmp_path: Path) -> None:
    private, exact = load(tmp_path, SHORT), load(tmp_path, EXACT)
    both = Since(EXAMPLE, BACKUP)
    assert [private.not_fixed(since) for since in (Since(), SENT, SAVED, both, RELEASED)] == [
        "Not fixed yet: inputs and limits until the first example, policy and budget until that or a backup, "
        "the model until the first release.",
        "Not fixed yet: the model until the first release; the budget may become stricter until that or a backup.",
        "Not fixed yet: inputs and limits until the first example, the model until the first release.",
        "Not fixed yet: the model until the first release.",
        "",
    ]
    assert [exact.not_fixed(since) for since in (Since(), SENT, SAVED, both, RELEASED)] == [
        "Not fixed yet: inputs until the first example, the policy until the first release or backup.",
        "Not fixed yet: the policy until the first release or backup.",
        "Not fixed yet: inputs until the first example.",
        "",
        "",
    ]


@pytest.mark.parametrize("text", ["", "[]", "{}", "3", '{"format":1}', '{"format":2}'])
def test_pinned_text_of_others(tmp_path: Path, text: str) -> None:
    for since in (Since(), RELEASED):
        assert (load(tmp_path, SHORT).contradicts(text, since) or "").startswith("format: ")


def test_whose_the_settings_are_is_fixed_by_the_first_example(tmp_path: Path) -> None:
    pinned, sent = load(tmp_path, SHORT + PILOT).pinned(), Since(example=EXAMPLE)
    joins = load(tmp_path, SHORT + PILOT.replace("false", "true"))
    others = load(tmp_path, SHORT + PILOT.replace("aaaa", "bbbb"))
    assert joins.contradicts(pinned, Since()) is None
    assert joins.contradicts(pinned, sent) == "pilot.joins: expected false, fixed since the first example, got true"
    for study in (others, load(tmp_path, SHORT)):
        assert (study.contradicts(pinned, sent) or "").startswith("pilot.digests: expected")
    assert len({study.terms for study in (joins, others, load(tmp_path, SHORT + PILOT))}) == 3


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"clients = 1": "clients = 2"}, "pilot.clients: expected as many as pilot.digests has, got 2 and 1 different"),
        ({"a" * 16: "a" * 15}, "pilot.digests: expected a list of texts of 16 hexadecimal digits each"),
        ({"0" * 32: "salt"}, "pilot.salt: expected 32 hexadecimal digits"),
        ({"share = 0.2": "share = 2"}, "pilot.share: expected a number above 0 and at most 1, got 2"),
        ({"joins = false": "join = false"}, "pilot.join: unknown key; did you mean 'joins'"),
    ],
)
def test_a_pilot_that_is_not_right_is_refused(tmp_path: Path, change: dict[str, str], line: str) -> None:
    with pytest.raises(InvalidStudy, match=line.replace("'", ".")):
        load(tmp_path, SHORT + changed(PILOT, change))

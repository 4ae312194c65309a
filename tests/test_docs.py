"""The pages for the command line and the service: their sessions run, their tables and files are true."""

from __future__ import annotations

import configparser
import re
import runpy
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from benchmarks import sizes
from typer.testing import CliRunner

from motet.cli.app import COMMANDS, app
from motet.privacy.ledger import Ledger
from motet.server.app import ROUTES
from motet.server.metrics import GAUGES, Metrics
from motet.store.pins import pin
from motet.store.store import Store
from motet.study.schema import File, Server
from motet.study.study import Study
from tests.figures import check_figures, figures
from tests.pages import PRINTED, PYTHON_PAGES, ROOT, SOURCES, Session, blocks, check, check_python

DOCS = ROOT / "docs"
SESSIONS = (
    "own-table",
    "quickstart",
    "howto-listeners",
    "howto-table",
    "tables",
    "evaluate",
    "check",
    "service",
)
SCENARIO = "howto-sites"  # which tests/scenarios runs
NOT_RUN = {  # pages that predict nothing while tests run, and why
    "api": "generated from docstrings",
    "benchmarks": "times, by make bench",
    "commands": "generated from the commands",
    "deployment": "systemd, proxies and backups of the reader's own machine",
    "examples": "its figures are those of examples/results, which tests/test_examples.py compares",
    "glossary": "words",
    "install": "packages, by tests/test_install.py",
    "mathematics": "derivations",
    "notation": "symbols",
    "page": "in a browser, which tests/web runs",
    "postgresql": "a PostgreSQL of the reader's own; tests/store/test_postgresql.py and test_migrate.py have one",
    "reproduce": "the article's figures, which motet reproduce prints beside its own",
    "reliability": "promises and faults",
    "security": "promises and attacks",
}
NAMES = {command.__name__ for command, _ in COMMANDS}


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def rows(text: str, heading: str) -> list[list[str]]:
    """The cells of the table whose header begins so."""
    table = text.split(f"\n| {heading} ", 1)[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table]


@pytest.mark.parametrize("name", SESSIONS)
def test_the_page_says_what_is_printed(name: str, tmp_path: Path) -> None:
    with Session(DOCS / f"{name}.md", tmp_path) as session:
        steps = list(session.run())
    check_python(*session.python)
    assert len(steps) == page(name).count("```sh")
    for step in steps:
        check(step)
    check_figures("".join(step.printed for step in steps), shown=False)


# --- how good it is ---


def test_every_page_is_run_or_says_why_not() -> None:
    run = {*SESSIONS, SCENARIO, *(path.stem for path in PYTHON_PAGES)}
    assert run.isdisjoint(NOT_RUN)
    assert run | NOT_RUN.keys() == {path.stem for path in SOURCES}


@pytest.mark.parametrize("path", [path for path in SOURCES if path.stem not in NOT_RUN], ids=lambda path: path.stem)
def test_the_page_says_how_good_it_is(path: Path) -> None:
    """And is better than baselines, in what it shows; what it prints while it runs is compared there."""
    shown = "".join(block.body for block in blocks(path.read_text(encoding="utf-8")) if block.language in PRINTED)
    assert figures(shown), "print a line such as: error 0.39 with the release, 0.77 with own rows alone"
    check_figures(shown)


# --- the reference ---


@pytest.fixture(scope="module")
def reference() -> dict[str, Any]:
    """What is in the page's generator."""
    return runpy.run_path(str(DOCS / "commands.py"))


def test_the_reference_is_that_of_the_commands(reference: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert page("commands") == reference["reference"](), "python docs/commands.py writes it anew"


@pytest.mark.parametrize(("command", "example"), COMMANDS, ids=lambda value: getattr(value, "__name__", ""))
def test_all_of_a_command_is_told(command: Any, example: str, reference: dict[str, Any]) -> None:
    assert command.__doc__
    known = reference["parameters"](command)
    assert [parameter.name for parameter in known if not parameter.info.help] == []
    assert all(line.split()[:2] == ["motet", command.__name__] for line in example.splitlines())
    options = {parameter.names[0] for parameter in known if parameter.is_option}
    assert set(re.findall(r"--[\w-]+", example)) <= options
    shown = CliRunner().invoke(app, [command.__name__, "--help"], env={"COLUMNS": "200"}).output
    assert set(re.findall(r"--[a-z-]+", shown)) >= {*options, "--help"}


def test_the_tokens_that_commands_ask_for(
    reference: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("MOTET_TOKEN", "MOTET_OPERATOR_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    table = tmp_path / "table.csv"
    table.write_text("x,y\n1,2\n", encoding="utf-8")
    arguments = {name: [str(table)] for name in ("send", "replace", "remove")}
    arguments |= {"enroll": ["ann"], "export": ["http://127.0.0.1:1"]}
    for name in ("enroll", "clients", "release", "send", "replace", "remove", "forget", "predict", "export"):
        ended = CliRunner().invoke(app, [name, *arguments.get(name, [])])
        (asked,) = re.findall(r"MOTET_\w*TOKEN", ended.stderr)
        assert (ended.exit_code, asked in reference["NOTES"][name]) == (1, True), name


# --- security ---


def test_the_security_page_names_tests_settings_and_commands_that_exist() -> None:
    text = page("security")
    assert [path for path in re.findall(r"`(tests/\S+\.py)`", text) if not (ROOT / path).is_file()] == []
    for section, key in re.findall(r"`(release|limits|inputs|server)\.(\w+)`", text):
        settings: Any = File.model_fields[section].annotation
        assert key in settings.model_fields, (section, key)
    assert set(re.findall(r"`motet (\w+)", text)) <= NAMES
    claims = [line for line in text.split("## What is not promised")[0].splitlines() if line.startswith("| ")]
    assert len(claims) > 20
    assert [line for line in claims if "`tests/" not in line and line[2:].split()[0] not in ("promise", "attack")] == []


# --- reliability ---


def test_the_reliability_page_names_tests_that_exist() -> None:
    text = page("reliability")
    for file, name in set(re.findall(r"`(tests/\S+?\.py)(?:::(\w+))?`", text)):
        assert not name or f"\ndef {name}(" in (ROOT / file).read_text(encoding="utf-8"), (file, name)
    faults = rows(text, "fault")
    assert len(faults) >= 20
    assert [row for row in faults if "::test_" not in row[-1]] == []
    promises = rows(text, "promise")
    assert [row for row in promises if "::test_" not in row[-1] and "all of these tests" not in row[-1]] == []


# --- running a server ---


def test_the_unit_names_what_is_there() -> None:
    (body,) = (block.body for block in blocks(page("deployment")) if block.language == "ini")
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(body)
    service = unit["Service"]
    program, command, study = service["ExecStart"].split()
    assert (Path(program).name, command in NAMES) == ("motet", True)
    assert Path(study).parent == Path(service["WorkingDirectory"]) == Path("/var/lib") / service["StateDirectory"]
    install = blocks(page("deployment"))[0].body
    for path in (service["WorkingDirectory"], service["EnvironmentFile"], Path(program).parents[1], study):
        assert f"{path}" in install
    assert f"nologin {service['User']}\n" in install
    hardened = ("NoNewPrivileges", "PrivateTmp", "PrivateDevices", "ProtectHome")
    assert all(service[key] == "yes" for key in hardened)
    assert service["ProtectSystem"] == "strict"


def test_the_proxy_lets_nobody_take_what_the_server_has_for_all() -> None:
    """What one address has under way is counted there too, and is no more than the server itself gives it."""
    (body,) = (block.body for block in blocks(page("deployment")) if block.language == "nginx")
    zones = dict(re.findall(r"limit_(req|conn)_zone \$binary_remote_addr zone=(\w+):", body))
    (zone, number) = re.findall(r"^    limit_conn (\w+) (\d+);", body, re.MULTILINE)[0]
    assert zone == zones["conn"] != zones["req"]
    assert 0 < int(number) <= Server().max_connections_per_address
    assert f"limit_req zone={zones['req']} " in body


def test_commands_of_the_deployment_page_exist() -> None:
    called = re.findall(r"\bmotet (\w+) \S*study\.toml", page("deployment"))
    assert {"serve", "init", "backup", "verify"} <= set(called) <= NAMES


def test_what_there_is_to_watch() -> None:
    served = {(method, path) for method, path, *_ in ROUTES}
    metrics = Metrics(dict.fromkeys(GAUGES, lambda: 0.0)).text().decode()
    for ask, _, says in rows(page("deployment"), "ask"):
        method, path = ask.strip("`").split()
        assert (method, path) in served
        assert [name for name in re.findall(r"`(motet_\w+)`", says) if f"\n# TYPE {name}" not in f"\n{metrics}"] == []


def test_calls_of_the_service_page_are_served() -> None:
    served = {path for _, path, *_ in ROUTES if path.startswith("/v1")}
    told = {path for call, *_ in rows(page("service"), "call") for path in re.findall(r"/v1[^`]*", call)}
    assert told == served, "the table of docs/service.md has every route of server/app.py"


def test_noise_in_clients() -> None:
    for releases, *scales in rows(page("howto-listeners"), "releases"):
        for epsilon, scale in zip((1.0, 3.0), scales):
            found = Ledger(epsilon=epsilon, delta=1e-5, releases=int(releases)).scale
            assert float(scale) == pytest.approx(found, abs=0.006), (releases, epsilon)


def test_sizes_of_releases_and_of_the_database(tmp_path: Path) -> None:
    told = dict(rows(page("deployment"), "what"))
    kilobytes = [sizes.released(model) / 1e3 for name, model in sizes.bases() if "2,000" not in name]
    listed = [float(number) for number in re.findall(r"[\d.]+", told["a release on a grid of 25 times"])]
    listed += map(float, re.findall(r"\d+", told["a release over 489 items with 19 features, rank 20, 40, 80"]))
    listed += [1e3 * float(told["the same with a growing basis (policy `exact` only)"].split()[0])]
    assert kilobytes == pytest.approx(listed, rel=0.1)
    path = tmp_path / "study.toml"
    path.write_text(sizes.STUDY.format(port=8000), encoding="utf-8")
    study = Study.load(path)
    with closing(Store(study.store_url)) as store:
        pin(store, study, now=0.0)
        sizes.fill(store, study, 1000)
    an_example = path.with_suffix(".db").stat().st_size / 1000 / sizes.EACH
    assert an_example == pytest.approx(float(told["database"].split()[0]), rel=0.15)

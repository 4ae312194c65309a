"""The OpenAPI document, read by programs that nobody here wrote; and every answer, compared with what it says."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from motet.release.disclosed import Disclosed
from motet.server.app import ROUTES
from tests.scenarios.harness import END, poll
from tests.server.world import EXACT, PRIVATE, World, world
from tests.study.studies import ITEMS, VISITS

ANSWERS = {(route.method, route.path): route.answer for route in ROUTES}


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    yield from world(tmp_path_factory.mktemp("exact"), EXACT)


@pytest.fixture(scope="module")
def document(exact: World) -> Any:
    return exact.call("GET", "/openapi.json").json()


def operations(document: Any) -> Iterator[tuple[str, str, Any]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def test_it_has_the_calls_of_the_service_without_the_page(document: Any) -> None:
    served = {(method, path) for method, path, _ in operations(document)}
    assert served == {call for call, answer in ANSWERS.items() if answer is not None}
    assert not any(path in ("/", "/docs") or path.startswith("/web") for _, path in served)


def test_operations_have_short_names_tags_and_the_token_that_they_need(document: Any) -> None:
    names = [operation["operationId"] for *_, operation in operations(document)]
    assert len(set(names)) == len(names)
    assert all(name.isidentifier() and "v1" not in name for name in names)
    callers = {(route.method, route.path): route.caller for route in ROUTES}
    for method, path, operation in operations(document):
        caller = callers[method, path]
        assert operation["security"] == ([{caller: []}] if caller in ("client", "operator") else [])
        assert len(operation["tags"]) == 1
        assert not any(p["name"] == "authorization" for p in operation.get("parameters", ()))
    assert {scheme["scheme"] for scheme in document["components"]["securitySchemes"].values()} == {"bearer"}


def test_releases_for_clients_alone_need_a_token(tmp_path: Path) -> None:
    for w in world(tmp_path, EXACT + 'download = "clients"\n'):
        document = w.call("GET", "/openapi.json").json()
        assert document["paths"]["/v1/disclosed"]["get"]["security"] == [{"client": []}, {"operator": []}]


def test_every_answer_and_every_refusal_has_a_schema(document: Any) -> None:
    for method, path, operation in operations(document):
        for status, response in operation["responses"].items():
            if status != "304":
                (content,) = response["content"].values()
                assert content["schema"], (method, path, status)
        refusal = operation["responses"]["4XX"]["content"]["application/json"]["schema"]
        assert refusal == {"$ref": "#/components/schemas/ErrorBody"}
    release = document["paths"]["/v1/disclosed"]["get"]["responses"]["200"]["content"]
    assert release == {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    stream = document["paths"]["/v1/stream"]["get"]["responses"]["200"]["content"]["text/event-stream"]["schema"]
    assert stream["type"] == "string"
    assert '{"version": 3}' in stream["description"]


def test_inputs_are_said_without_keywords_that_generators_do_not_read(document: Any) -> None:
    x = document["components"]["schemas"]["NewExample"]["properties"]["x"]
    assert x == {"type": "array", "minItems": 1, "maxItems": 1, "items": {"type": "number"}}
    assert "prefixItems" not in json.dumps(document)


def check(method: str, path: str, answer: Any, fields: Any) -> None:
    """Every field is in the answer's type, and of its type."""
    kind = ANSWERS[method, path]
    assert isinstance(kind, type)
    assert issubclass(kind, BaseModel)
    kind.model_validate_json(json.dumps(fields), extra="forbid")
    assert answer.status_code in (200, 202)


@pytest.mark.parametrize(
    "text", [EXACT, PRIVATE, PRIVATE.replace("releases = 2", 'releases = 2\nper = "client"'), VISITS]
)
def test_answers_are_as_the_document_says(tmp_path: Path, text: str) -> None:
    for w in world(tmp_path, text):
        document = w.call("GET", "/openapi.json").json()
        body = document["paths"]["/v1/examples"]["post"]["requestBody"]["content"]["application/json"]["example"]
        calls: list[tuple[str, str, str | None, Any]] = [
            ("POST", "/v1/clients", "operator", {"names": ["a new one"]}),
            ("POST", "/v1/examples", "own", body),
            ("GET", "/healthz", None, None),
            ("GET", "/readyz", None, None),
            ("GET", "/v1/study", None, None),
            ("GET", "/v1/me", "own", None),
            ("GET", "/v1/me/examples", "own", None),
            ("GET", "/v1/me/coefficients", "own", None),
            ("GET", "/v1/clients", "operator", None),
            ("GET", "/v1/clients/figures", "operator", None),
            ("GET", "/v1/releases", "operator", None),
            ("PUT", "/v1/me/examples/{id}", "own", {k: v for k, v in body["examples"][0].items() if k != "id"}),
            ("DELETE", "/v1/me/examples/{id}", "own", None),
            ("DELETE", "/v1/me", "own", None),
            ("POST", "/v1/clients/{id}/token", "operator", None),
            ("DELETE", "/v1/clients/{id}", "operator", None),
        ]
        for method, path, who, json_body in calls:
            id = w.ids["another"] if path.startswith("/v1/clients") else body["examples"][0]["id"]
            answer = w.call(method, path.replace("{id}", id), who, json=json_body)
            check(method, path, answer, answer.json())
            if (method, path) == ("POST", "/v1/examples"):
                w.release()
        w.call("GET", "/v1/me", "garbage")
        refusals = w.call("GET", "/v1/refusals", "operator")
        check("GET", "/v1/refusals", refusals, refusals.json())
        told = {(method, path) for method, path, *_ in calls} | {("GET", "/v1/refusals"), ("POST", "/v1/releases")}
        assert told == {call for call, kind in ANSWERS.items() if isinstance(kind, type)}


# --- a generated client ---

GENERATOR = Path(sys.prefix) / "openapi" / "bin" / "openapi-python-client"


def generate(document: Any, folder: Path, package: str) -> None:
    """The package that openapi-python-client writes from the document, as it is; a warning is an error."""
    (folder / "document.json").write_text(json.dumps(document), encoding="utf-8")
    (folder / "config.yaml").write_text("post_hooks: []\n", encoding="utf-8")
    program = [str(GENERATOR), "generate", "--fail-on-warning", "--meta", "none"]
    options = ["--path", "document.json", "--config", "config.yaml", "--output-path", package]
    run = subprocess.run([*program, *options], cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.fixture(scope="module")
def package(document: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generated")
    generate(document, folder, "motet_http")
    return folder / "motet_http"


@pytest.fixture(scope="module")
def generated(package: Path) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(package.parent)
        yield importlib.import_module(package.name)


@pytest.mark.skipif(not GENERATOR.exists(), reason="openapi-python-client is not installed: make test does it")
def test_a_generated_client_enrolls_sends_releases_reads_and_forgets(exact: World, generated: Any) -> None:
    name, url = generated.__name__, str(exact.http.base_url)

    def call(path: str, **arguments: Any) -> Any:
        return importlib.import_module(f"{name}.api.{path}").sync(**arguments)

    models = importlib.import_module(f"{name}.models")
    token = "operator's"
    with generated.AuthenticatedClient(url, token=token) as operator, generated.Client(url) as anyone:
        (new,) = call("operator.enroll", client=operator, body=models.NewClients(names=["generated"])).clients
        assert isinstance(new, models.NewClient)
        refusal = call("operator.list_clients", client=anyone)
        assert isinstance(refusal, models.ErrorBody)
        assert refusal.error.code == "unauthorized"
        with generated.AuthenticatedClient(url, token=new.token) as me:
            example = models.IdentifiedExample(id="1", x=[0.5], y=1.0)
            sent = call("client.send", client=me, body=models.NewExamples(examples=[example]))
            assert sent == models.Sent(accepted=1, duplicates=0, count=1)
            with ThreadPoolExecutor(1) as pool:
                made = pool.submit(call, "operator.release_now", client=operator)
                poll(lambda: (exact.publisher.tick(), made.done())[1], END, "a release")
            assert made.result() == models.ReleaseVersion(version=exact.service.version)
            facts = call("public.study", client=anyone)
            assert (facts.policy, facts.version, facts.limits.y) == ("exact", exact.service.version, [-10.0, 10.0])
            release = Disclosed.from_bytes(call("public.disclosed", client=anyone).payload.read())
            assert release.version == facts.version
            (stored,) = call("client.my_examples", client=me).examples
            assert (stored.id, stored.x, stored.y) == ("1", [0.5], 1.0)
            assert len(call("client.my_coefficients", client=me).a) == 1
            assert call("client.forget_me", client=me).removed == 1
            assert isinstance(call("client.about_me", client=me), models.ErrorBody)


PROGRAM = """from motet_http import AuthenticatedClient, Client
from motet_http.api.client import my_examples, send
from motet_http.api.operator import enroll
from motet_http.api.public import study
from motet_http.models import ErrorBody, IdentifiedExample, NewClients, NewExamples


def token(operator: AuthenticatedClient) -> str:
    new = enroll.sync(client=operator, body=NewClients(names=["ann"]))
    assert new is not None and not isinstance(new, ErrorBody)
    return new.clients[0].token


def count(me: AuthenticatedClient) -> int:
    sent = send.sync(client=me, body=NewExamples(examples=[IdentifiedExample(id="1", x=[0.5], y=1.0)]))
    return 0 if sent is None or isinstance(sent, ErrorBody) else sent.count


def outputs(me: AuthenticatedClient) -> list[float]:
    page = my_examples.sync(client=me)
    return [] if page is None or isinstance(page, ErrorBody) else [example.y for example in page.examples]


def version(anyone: Client) -> int:
    facts = study.sync(client=anyone)
    return 0 if facts is None or isinstance(facts, ErrorBody) else facts.version
"""


@pytest.mark.skipif(not GENERATOR.exists(), reason="openapi-python-client is not installed: make test does it")
def test_a_program_with_the_generated_client_is_checked_by_its_types(package: Path) -> None:
    """Answers are no dictionaries: mypy knows their fields, and the two kinds of caller."""
    wrong = PROGRAM.replace("sent.count", "sent.counts").replace("x=[0.5]", 'x="0.5"').replace("facts.version", "facts")
    for name, text in (("right", PROGRAM), ("wrong", wrong)):
        (package.parent / f"{name}.py").write_text(text, encoding="utf-8")
    options = ["--strict", "--follow-imports=silent", "--cache-dir", "cache", "--config-file="]
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "right.py", "wrong.py"],
        cwd=package.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    errors = [line for line in checked.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 3, checked.stdout + checked.stderr
    assert all(error.startswith("wrong.py") for error in errors)


FORMS = {
    "noisy": PRIVATE,
    "columns": VISITS,
    "items": EXACT.replace("dimension = 1", 'catalogue = "items.csv"'),
    "plane": EXACT.replace("dimension = 1", "dimension = 2"),
}


@pytest.mark.skipif(not GENERATOR.exists(), reason="openapi-python-client is not installed: make test does it")
@pytest.mark.parametrize("form", FORMS)
def test_inputs_of_every_form_go_and_come_back(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One number, several, columns with names, and names of items."""
    (tmp_path / "items.csv").write_text(ITEMS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    for w in world(tmp_path, FORMS[form]):
        document = w.call("GET", "/openapi.json").json()
        generate(document, tmp_path, f"motet_{form}")
        client, models = (importlib.import_module(f"motet_{form}{module}") for module in ("", ".models"))
        send, read = (importlib.import_module(f"motet_{form}.api.client.{call}") for call in ("send", "my_examples"))
        body = document["paths"]["/v1/examples"]["post"]["requestBody"]["content"]["application/json"]["example"]
        with client.AuthenticatedClient(str(w.http.base_url), token=w.tokens["own"]) as me:
            sent = send.sync(client=me, body=models.NewExamples.from_dict(body))
            assert sent == models.Sent(accepted=1, duplicates=0, count=1)
            (stored,) = read.sync(client=me).to_dict()["examples"]
            assert stored["x"] == body["examples"][0]["x"]


TYPESCRIPT = Path(sys.prefix) / "typescript" / "node_modules" / ".bin"  # make check installs it where Node is there
USE = """import type { paths, components } from "./document";
type Facts = paths["/v1/study"]["get"]["responses"]["200"]["content"]["application/json"];
export const version = (facts: Facts): number => facts.version;
export const example: components["schemas"]["IdentifiedExample"] = { id: "1", x: [0.5], y: 1, noise: 1 };
export const sent = (answer: components["schemas"]["Sent"]): number => answer.accepted;
"""


@pytest.mark.skipif(not (TYPESCRIPT / "openapi-typescript").exists(), reason="openapi-typescript is not installed")
def test_generated_types_check_a_program(document: Any, tmp_path: Path) -> None:
    (tmp_path / "document.json").write_text(json.dumps(document), encoding="utf-8")

    def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(TYPESCRIPT / program), *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    written = run("openapi-typescript", "document.json", "--output", "document.d.ts")
    assert written.returncode == 0, written.stderr
    for text, ends in ((USE, 0), (USE.replace("facts.version", "facts.name"), 2)):
        (tmp_path / "use.ts").write_text(text, encoding="utf-8")
        checked = run("tsc", "--noEmit", "--strict", "use.ts")
        assert checked.returncode == ends, checked.stdout

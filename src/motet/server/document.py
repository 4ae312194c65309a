"""The OpenAPI document of a study, for programs that are written from it: who may call, what to send, what comes back.

It has the calls of the service, without the page and its files. Tokens are two schemes, a client's and the operator's;
an operation is named after its handler; every answer and every refusal has a schema.
"""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import FastAPI
from pydantic import BaseModel

from motet.server import answers
from motet.server.bodies import example_bodies, schemas
from motet.server.pages import docs_page
from motet.server.protection.streams import EventStream
from motet.study.study import Study

OPENAPI_TAGS = {
    "public": "The study and its releases.",
    "client": "A client's own examples, with its token.",
    "operator": "Clients and releases, with the operator's token.",
    "health": "For a supervisor or a load balancer.",
}
SCHEMES = {
    "client": {"type": "http", "scheme": "bearer", "description": "A client's token, as its enrolment has shown it."},
    "operator": {"type": "http", "scheme": "bearer", "description": "The token of the operator of the study."},
}
EVENTS = 'events named release, each with a line of data such as {"version": 3}, until the caller goes'
REFUSALS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": answers.ErrorBody, "description": "Refused."},
    "5XX": {"model": answers.ErrorBody, "description": "Not done: try again later."},
}


def responses(answer: type[BaseModel] | str, *, removes: bool = False) -> dict[int | str, dict[str, Any]]:
    """The successes of a call: JSON of a type, or another media type."""
    if answer == answers.RELEASE_TYPE:
        return {200: _text(answer, format="binary"), 304: {"description": "The caller has this version already."}}
    if answer == EventStream.media_type:
        return {200: _text(answer, description=EVENTS)}
    if isinstance(answer, str):
        return {200: _text(answer)}
    delayed: dict[int | str, dict[str, Any]] = {202: {"model": answer, "description": answers.REMOVAL_DELAY}}
    return {200: {"model": answer, "description": "Success."}} | (delayed if removes else {})


def _text(media_type: str, **form: str) -> dict[str, Any]:
    return {"description": "Success.", "content": {media_type: {"schema": {"type": "string", **form}}}}


def complete(app: FastAPI, study: Study) -> None:
    """Add to the document of the application what FastAPI does not know: tokens, and bodies with examples.

    It is then encoded, and the page of calls made from it, once for all readers.
    """
    document = app.openapi()
    components = document["components"]
    components["schemas"] |= {name: _readable(schema) for name, schema in schemas(study).items()}
    components["securitySchemes"] = SCHEMES
    for methods in document["paths"].values():
        for call in methods.values():
            call["security"] = security(call["x-caller"], study)
    for path, method, kind, example in example_bodies(study):
        content = {"schema": {"$ref": f"#/components/schemas/{kind}"}, "example": example}
        document["paths"][path][method]["requestBody"] = {"content": {"application/json": content}, "required": True}
    app.state.openapi, app.state.docs = msgspec.json.encode(document), docs_page(document).encode()


def security(caller: str, study: Study) -> list[dict[str, list[str]]]:
    """Any one of these tokens is needed; none if there is none in the list."""
    if caller == "downloader":
        return [{"client": []}, {"operator": []}] if study.server.download == "clients" else []
    return [{caller: []}] if caller in SCHEMES else []


def tag(caller: str, path: str) -> str:
    return "health" if path in ("/healthz", "/readyz", "/metrics") else caller if caller in OPENAPI_TAGS else "public"


def _readable(schema: Any) -> Any:
    """A schema in which a list of so many numbers is said without prefixItems, which many generators do not read."""
    if isinstance(schema, list):
        return [_readable(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: _readable(value) for key, value in schema.items()}
    if "prefixItems" in schema:
        schema["items"] = schema.pop("prefixItems")[0]
    return schema

"""Random requests to a route, by everyone, after its OpenAPI description."""

from __future__ import annotations

import os
from typing import Any

import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.server.world import World

CASES = int(os.environ.get("MOTET_FUZZ_CASES", "25"))  # random requests to each route
PEOPLE = (None, "garbage", "revoked", "another", "own", "operator")


def fuzz(world: World, method: str, path: str) -> None:
    """No call fails, and every refusal has one shape."""
    schema = schemathesis.openapi.from_url(f"{world.http.base_url}/openapi.json")
    world.service.study.server.__dict__["rate"] = 10_000

    @given(case=schema[path][method].as_strategy(), who=st.sampled_from(PEOPLE))
    @settings(max_examples=CASES, suppress_health_check=list(HealthCheck))
    def ask(case: Any, who: str | None) -> None:
        token = world.tokens[who] if who else None
        answer = case.call(headers={"Authorization": f"Bearer {token}"} if token else None)
        assert answer.status_code < 500 or (answer.status_code, path) == (503, "/v1/releases"), answer.text
        if answer.status_code >= 400:
            assert set(answer.json()["error"]) == {"code", "message", "where"}

    ask()

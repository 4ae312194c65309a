"""What a comparison of tokens may reveal: they are hashed before anything is compared, so no prefix is ever found."""

from __future__ import annotations

import hmac
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from motet.store.clients import hash_token
from tests.server.world import EXACT, world


def test_tokens_are_hashed_before_they_are_compared_or_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by a clock, but by what is compared: two hashes, in constant time, or a hash with an index."""
    compared: list[tuple[str, str]] = []
    asked: list[str] = []

    def compare(a: str, b: str) -> bool:
        compared.append((a, b))
        return genuine(a, b)

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        asked.append(f"{statement} {parameters}")

    genuine = hmac.compare_digest
    monkeypatch.setattr("motet.server.service.hmac.compare_digest", compare)
    for w in world(tmp_path, EXACT):
        event.listen(w.service.store.engine, "before_cursor_execute", note)
        compared.clear()
        operator, own = w.tokens["operator"] or "", w.tokens["own"] or ""
        guesses = ["x", operator[:-1], operator[:-1] + "x", operator + "x", "é", "x" * 5000]
        for guess in guesses:
            answer = w.http.get("/v1/clients", headers={b"Authorization": f"Bearer {guess}".encode()})
            assert answer.status_code == 401
        assert w.call("GET", "/v1/clients", "operator").status_code == 200
        assert w.call("GET", "/v1/me", "own").status_code == 200
        assert len(compared) == len(guesses) + 1
        assert {len(side) for pair in compared for side in pair} == {64}
        assert hash_token(operator) in compared[-1]
        text = "\n".join(asked)
        assert hash_token("x") in text
        assert not any(token in text for token in (operator, own))

"""Clients with more examples than a matrix of them would fit: clipped by the features of their shift."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from motet import Engine, Features, Landmarks, Model
from motet.errors import InvalidStudy
from motet.kernels import RBF, ConstantKernel, DotProduct
from motet.linalg import inverse
from motet.privacy.clipping import MAX_INPUTS_PER_CLIENT
from motet.privacy.ledger import UNIT
from motet.privacy.mechanism import Mechanism
from motet.study.study import Study
from tests.study.studies import EXACT, SHORT, changed

GRID = np.linspace(-1, 1, 9)[:, None]
SHIFT = ConstantKernel(0.5) + DotProduct(0.3)
MODELS = {
    "features": Model(DotProduct(0.5), SHIFT, 0.4, 0.2, basis=Features(), sigma2=1.0),
    "landmarks": Model(RBF(0.5), SHIFT, 0.4, 0.2, basis=Landmarks(GRID), sigma2=1.0),
}


def client(size: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(size)
    return rng.uniform(-1, 1, size=(size, 1)), rng.normal(size=size), rng.uniform(0.5, 2.0, size=size)


@pytest.mark.parametrize("name", MODELS)
def test_a_long_client_adds_its_clipped_information(name: str) -> None:
    """Against R formed in full; what landmarks miss is on its diagonal."""
    clip = Mechanism(MODELS[name], examples=5, points=GRID).clip
    X, y, noise = client(MAX_INPUTS_PER_CLIENT + 50)
    coordinates = clip.coordinates
    V = 0.6 * SHIFT(X) + np.diag(0.2 * noise)
    if name == "landmarks":
        E = coordinates.basis.e(X)
        V += np.diag(0.4 * np.diag(RBF(0.5)(X) - E @ E.T))
    expected = clip.to_integers(coordinates.columns(X)[None], *inverse(V[None]), y[None])[0]
    found = clip.vector(X, y, noise)
    assert np.linalg.norm(found) > 0.5 * UNIT
    np.testing.assert_allclose(found, expected, atol=1.01 + 1e-9 * UNIT)
    order = np.random.default_rng(0).permutation(len(y))
    np.testing.assert_array_equal(clip.vector(X[order], y[order], noise[order]), found)
    engine = Engine(MODELS[name])
    engine.learn_many(["long"] * len(y), X, y, noise)
    engine.learn_many(["short"] * 3, X[:3], y[:3], noise[:3])
    np.testing.assert_array_equal(clip.total(engine, without=["short"]), found)
    assert min(clip.norms([(X, y, noise)])[0], 1.0) == pytest.approx(np.linalg.norm(found / UNIT), rel=1e-4)


def test_a_long_client_of_another_shift_adds_nothing() -> None:
    clip = Mechanism(Model(RBF(0.5), RBF(0.3), 0.4, 0.2, basis=Landmarks(GRID), sigma2=1.0), examples=5).clip
    rows = client(MAX_INPUTS_PER_CLIENT + 1)
    assert not clip.vector(*rows).any()
    assert clip.norms([rows])[0] == 0.0


@pytest.mark.parametrize(
    ("policy", "shift", "refusal"),
    [
        ("private", "matern", "at most 2000 in .* few features"),
        ("exact", "identity", "at most 20000 in .* without identity"),
    ],
)
def test_a_study_may_have_clients_of_any_length(tmp_path: Path, policy: str, shift: str, refusal: str) -> None:
    change = {"matern": "dot_product", "[limits]": "[limits]\nexamples_per_client = 1000000"}
    text = changed(SHORT if policy == "private" else EXACT, change)
    for allowed in ("dot_product", *(["matern"] if policy == "exact" else [])):
        (tmp_path / "study.toml").write_text(text.replace("dot_product", allowed), encoding="utf-8")
        assert Study.load(tmp_path / "study.toml").limits.examples_per_client == 1_000_000
    (tmp_path / "study.toml").write_text(text.replace("dot_product", shift), encoding="utf-8")
    with pytest.raises(InvalidStudy, match=f"limits.examples_per_client: expected {refusal}"):
        Study.load(tmp_path / "study.toml")

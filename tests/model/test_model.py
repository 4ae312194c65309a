"""Model and Catalogue: frozen, checked, there and back."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from motet import Catalogue, Eigen, Features, Landmarks, Model
from motet.errors import EmptyData, InvalidData, InvalidModel, NotFinite, UnknownKernel, UnknownName, WrongDimension
from motet.kernels import RBF, DotProduct, Identity, On
from motet.tables.columns import Column, Columns

ITEMS = Catalogue(["a", "b", "c"], [[1.0, 0.1], [0.0, 1 / 3], [2.0, -0.0]])
VALID: dict[str, Any] = {"common": RBF(1.0), "individual": DotProduct(0.0), "alpha": 0.1, "lam": 1e-3}
MODELS = [
    Model(**VALID),
    Model(**VALID | {"common": None}, bias="linear", sigma2=0.1 + 0.2),
    Model(**VALID, basis=Landmarks([[0.1], [0.2]])),
    Model(**VALID, basis=Eigen(np.random.default_rng(0).normal(size=(5, 2)), 3)),
    Model(**VALID | {"common": DotProduct(0.5)}, basis=Features(), bias="none"),
    Model(**VALID, basis=Eigen(ITEMS, 2), catalogue=ITEMS),
    Model(common=None, individual=Identity(), alpha=0.5, lam=1.0, catalogue=Catalogue(["only", "names"])),
    Model(**VALID, bias=[2, 0]),
]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_there_and_back_through_json(model: Model) -> None:
    again = Model.from_json(model.to_json())
    assert again == model
    assert hash(again) == hash(model)
    assert again.to_json() == model.to_json()
    assert replace(model, alpha=0.9) != model


def test_every_setting_is_in_the_specification() -> None:
    """One that is left out while it has its default is there with another."""
    named = replace(MODELS[0], columns=Columns([Column(name="hours"), Column(name="dose")]))
    assert set(named.to_spec()) == {field.name for field in fields(Model)}


def test_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        MODELS[0].alpha = 0.5  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        ITEMS.vectors[0, 0] = 3.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": 1.5}, r"alpha must lie in \[0, 1\], got 1.5"),
        ({"alpha": float("nan")}, "alpha must be a finite number, got nan"),
        ({"lam": 0.0}, "lam must be positive, got 0.0"),
        ({"lam": "small"}, "lam must be a number, got 'small'"),
        ({"sigma2": -1.0}, "sigma2 must be positive"),
        ({"bias": "quadratic"}, "one of none, constant, linear, or a list of .* numbers from 0 on, got 'quadratic'"),
        ({"bias": [0, 0]}, r"different column numbers from 0 on, got \[0, 0\]"),
        ({"bias": [True]}, "different column numbers"),
        ({"bias": [-1]}, "different column numbers"),
        ({"bias": []}, "different column numbers"),
        ({"bias": [0], "catalogue": ITEMS}, "column numbers from 1 on"),
        ({"individual": None}, "expected a kernel such as RBF"),
        ({"individual": "rbf"}, "expected a kernel such as RBF"),
        ({"basis": "growing"}, "basis must be None or one of Landmarks, Eigen, Nystrom, Features, got 'growing'"),
        ({"basis": Features(), "common": None}, "with common=None, omit basis"),
    ],
    ids=str,
)
def test_refused_models(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidModel, match=message):
        Model(**VALID | change)


def test_refused_json() -> None:
    for text in ("{}", "[]", "nonsense", '{"catalogue": null, "basis": null, "common": null}'):
        with pytest.raises(InvalidModel, match="not a model's JSON"):
            Model.from_json(text)
    deep = '{"kernel": "power", "exponent": 1.0, "of": ' * 900 + '{"kernel": "rbf"}' + "}" * 900
    whole = json.loads(MODELS[0].to_json())
    with pytest.raises(InvalidModel, match="too many parts"):
        Model.from_json(json.dumps(whole).replace(json.dumps(whole["common"]), deep))
    with pytest.raises(InvalidModel, match="not a model's JSON"):
        Model.from_json("[" * 100_000)
    with pytest.raises(InvalidData, match="catalogue vectors must be real numbers"):
        Model.from_json(json.dumps(whole | {"catalogue": {"names": ["a"], "vectors": [["x"]]}}))
    with pytest.raises(UnknownKernel):
        Model.from_json(MODELS[0].to_json().replace("dot_product", "pickle"))
    with pytest.raises(InvalidModel, match=r"one of growing, landmarks \(points\), eigen \(points, rank\), nystrom"):
        Model.from_json(MODELS[2].to_json().replace("landmarks", "seamarks"))


def test_normalised_features_keep_every_digit(tmp_path: Path) -> None:
    """A study's database refuses a catalogue of other digits, so each row is summed as it always was."""
    Z = np.random.default_rng(0).random((200, 25))
    lines = [",".join([f"item {k}", *map(repr, row.tolist())]) for k, row in enumerate(Z)]
    (tmp_path / "items.csv").write_text("\n".join([",".join(["name", *map(str, "abcdefghijklmnopqrstuvwxy")]), *lines]))
    Z /= Z.max(axis=1, keepdims=True)
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    assert np.array_equal(Catalogue.from_csv(tmp_path / "items.csv", normalise=True).vectors, Z)


def test_a_catalogue_settles_the_columns() -> None:
    model = MODELS[5]
    assert model.common == On(RBF(1.0), [1, 2])
    assert model.dimension == 3
    with pytest.raises(WrongDimension, match="3 columns, got 2"):
        model.check_dimension(2)
    np.testing.assert_array_equal(model.rows(["c", "a"]), [[2, 2.0, 0.0], [0, 1.0, 0.1]])


def test_a_bias_of_some_columns() -> None:
    model = Model(**VALID, bias=[2, 0])
    assert model.bias == (0, 2)
    assert model.to_spec()["bias"] == [0, 2]
    with pytest.raises(WrongDimension, match="the bias reads column 2, inputs have 2"):
        model.check_dimension(2)


def test_linear_bias_does_not_read_the_index() -> None:
    model = Model(**VALID, basis=Landmarks(ITEMS), bias="linear", catalogue=ITEMS)
    basis = model.fixed_basis(3)
    assert basis is not None
    c = ITEMS.vectors[:, 1].mean()  # counted from amid the landmarks
    np.testing.assert_array_equal(
        basis.psi(ITEMS.rows), [[1, 0.0, *ITEMS.vectors[0, 1:] - c], [1, -1.0, 1 / 3 - c], [1, 1.0, 0 - c]]
    )


def test_catalogue() -> None:
    assert len(ITEMS) == 3
    assert ITEMS.features == [1, 2]
    assert ITEMS.name_rows(ITEMS.rows[[2, 0]]) == ["c", "a"]
    longer = ITEMS.appended(["d"], [[5.0, 6.0]])
    np.testing.assert_array_equal(longer.rows[:3], ITEMS.rows)
    assert longer.digest != ITEMS.digest
    assert Catalogue.from_spec(ITEMS.to_spec()).digest == ITEMS.digest
    assert Catalogue(["a\0b"], [[1.0, 2.0]]).digest != Catalogue(["a", "b"], [[1.0], [2.0]]).digest
    assert Catalogue(["\ud800"]).digest
    assert Catalogue(["ab", "c"]).digest != Catalogue(["a", "bc"]).digest


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Catalogue([]), EmptyData, "at least one name"),
        (lambda: Catalogue(None), InvalidData, "a list of names"),  # type: ignore[arg-type]
        (lambda: Catalogue("abc"), InvalidData, "a list of names"),
        (lambda: Catalogue(["a", "b", "a"]), InvalidData, "'a' is there twice"),
        (lambda: Catalogue(["a"], [[1.0], [2.0]]), WrongDimension, "1 rows of vectors"),
        (lambda: Catalogue(["a", "b"], [[1.0], [float("inf")]]), NotFinite, "row 1"),
        (lambda: Catalogue(["a"], [["x"]]), InvalidData, "must be real numbers"),
        (lambda: ITEMS.appended(["a"], [[1.0, 2.0]]), InvalidData, "'a' is there twice"),
        (lambda: ITEMS.appended(["d"], [[1.0]]), WrongDimension, "2 features"),
        (lambda: ITEMS.look_up(["zzz"]), UnknownName, "'zzz' is not among the catalogue's 3 names"),
    ],
)
def test_refused_catalogues(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()

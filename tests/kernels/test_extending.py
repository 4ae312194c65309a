"""A kernel and two bases from outside the package's files: registered, learned with, published, read; then refused.

The kernel is a subclass of ``RBF`` that is not a function of the distance, so whatever takes it for one is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from motet import Disclosed, Engine, Landmarks, MixedEffectRegressor, Model
from motet.errors import InvalidModel, InvalidStudy, UnknownKernel
from motet.kernels import RBF, DotProduct, Exponentiation, On, number, register
from motet.kernels.gram import gram
from motet.kernels.registry import KERNELS
from motet.kernels.spec import from_spec, to_spec
from motet.linalg import svec
from motet.model.basis import BASES, BasisSpec, register_basis
from motet.privacy.clipping import Clip
from motet.privacy.coordinates import Coordinates
from motet.study import Study
from tests.oracles import Array, DenseGP, Problem, private_vector


class Laplace(RBF):  # type: ignore[misc]
    """k(x, x′) = exp(−Σ |xᵢ − x′ᵢ| / length_scale) cos(tilt (x₀ − x′₀)); ``tilt`` may be negative."""

    def __init__(self, length_scale: float = 1.0, tilt: float = 0.0) -> None:
        super().__init__(length_scale, "fixed")
        self.tilt = tilt

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Any:
        assert X.ndim == 2, "as scikit-learn's kernels, one set at a time"
        assert not eval_gradient
        difference = X[:, None, :] - (X if Y is None else Y)[None, :, :]
        return np.exp(-np.abs(difference).sum(axis=2) / self.length_scale) * np.cos(self.tilt * difference[:, :, 0])


@dataclass(frozen=True, eq=False)
class Monomials(BasisSpec):
    """All products of two columns, for K̄ = DotProduct(σ)²: with z = (σ, x), (zᵀz′)² = svec(zzᵀ)ᵀsvec(z′z′ᵀ)."""

    scale: float
    kind: ClassVar[str] = "monomials"

    def build(self, kernel: Any, p: int) -> tuple[Array, Array]:  # noqa: ARG002
        return np.empty((0, p)), self.scale * np.eye((p + 1) * (p + 2) // 2)

    def functions(self, kernel: Any, landmarks: Array, X: Array) -> Array:  # noqa: ARG002
        Z = np.column_stack([np.full(len(X), kernel.kernel.sigma_0), X])
        return svec(Z[:, :, None] * Z[:, None, :]) / self.scale

    def check(self, kernel: Any, p: int) -> None:  # noqa: ARG002
        if type(kernel) is not Exponentiation:
            raise InvalidModel(f"Monomials needs the square of a DotProduct, got {kernel}")


@dataclass(frozen=True, eq=False)
class Subset(BasisSpec):
    """Some ``rank`` of the points as landmarks."""

    points: Any
    rank: int
    kind: ClassVar[str] = "subset"

    def build(self, kernel: Any, p: int) -> tuple[Array, Array]:
        return Landmarks(self.points[:: len(self.points) // self.rank][: self.rank]).build(kernel, p)

    def at_most(self, n: int) -> Subset:
        return Subset(self.points[:n], min(self.rank, n))


@pytest.fixture(autouse=True)
def extended() -> Iterator[None]:
    register("laplace", Laplace, {"tilt": number})
    register_basis(Monomials)
    register_basis(Subset)
    yield
    del KERNELS["laplace"], BASES["monomials"], BASES["subset"]


SIZES = {"few": (5, 4), "many tasks": (150, 3), "long tasks": (3, 40), "many repeats": (90, 6)}
SQUARE = Exponentiation(DotProduct(0.7), 2)
MODELS = {
    "kernel": (Laplace(1.5), On(Laplace(0.8, -1.2), [1, 0]) + DotProduct(0.3), None),
    "basis": (SQUARE, RBF(1.0), Monomials(3.0)),
    "both": (SQUARE, Laplace(0.8, 0.5) * Laplace(2.0), Monomials(0.5)),
}


def problem(size: str, common: Any, individual: Any, bias: str) -> Problem:
    tasks, examples = SIZES[size]
    rng = np.random.default_rng(0)
    pool = rng.normal(size=(12 if size == "many repeats" else tasks * examples, 2))
    labels = np.repeat([f"t{k}" for k in range(tasks)], examples)
    rows = rng.permuted(np.resize(np.arange(len(pool)), tasks * examples))
    y, noise = rng.normal(size=len(rows)) + 2.0, 10 ** rng.uniform(-1, 1, size=len(rows))
    return Problem(labels.tolist(), pool[rows], y, noise, common, individual, 0.4, 0.3, bias)


@pytest.mark.parametrize("bias", ["none", "constant"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", MODELS)
def test_learned_published_and_read(name: str, size: str, bias: str, tmp_path: Path) -> None:
    """As the dense Gaussian process, for the tasks that sent their examples and for one that did not."""
    common, individual, basis = MODELS[name]
    p = problem(size, common, individual, bias)
    others = np.array([task != "t1" for task in p.tasks])
    model = Model(common, individual, p.alpha, p.lam, bias, basis)  # type: ignore[arg-type]
    engine = Engine(model)
    engine.learn_many(np.array(p.tasks)[others], p.X[others], p.y[others], p.noise[others])
    engine.disclose().save(tmp_path / "release")
    release = Disclosed.load(tmp_path / "release")
    assert release.model == model
    X = np.vstack([p.X[~others], p.X[:5], np.random.default_rng(1).normal(size=(6, 2))])

    gp = DenseGP(Problem(**vars(p) | {"tasks": [t for t in p.tasks if t != "t1"]} | rows_of(p, others)))
    assert release.sigma2 == pytest.approx(gp.sigma2, rel=1e-7)
    assert engine.evidence().log_evidence == pytest.approx(gp.log_evidence, rel=1e-7)
    assert_close(release.average(X, return_std=True), gp.predict(X, None))
    active = release.active_estimate(engine.coefficients("t0"))
    assert_close(active.predict(X, return_std=True), gp.predict(X, "t0"))

    passive = release.estimate(p.X[~others], p.y[~others], p.noise[~others])
    assert_close(passive.predict(X, return_std=True), DenseGP(p, release.sigma2).predict(X, "t1"))


@pytest.mark.parametrize("size", SIZES)
def test_fitted_as_an_estimator(size: str) -> None:
    p = problem(size, Laplace(1.0), Laplace(0.6), "constant")
    reg = MixedEffectRegressor(Laplace(), Laplace(0.6), alpha=p.alpha, lam=p.lam, bias="constant", optimizer=None)
    reg.fit(p.X, p.y, task=p.tasks, sample_weight=1 / p.noise)
    gp, X = DenseGP(p), p.X[:7] + 0.1
    for task in ("t2", "somebody new"):
        assert_close(reg.predict(X, task=[task] * len(X), return_std=True), gp.predict(X, task))


def test_a_basis_of_other_functions_has_its_settings_tuned() -> None:
    """As those of the growing one, which has all of its kernel too: of its own functions no derivatives are known."""
    p = problem("many tasks", SQUARE, RBF(1.0), "constant")
    fits = [MixedEffectRegressor(SQUARE, RBF(1.0), bias="constant", basis=one) for one in (Monomials(3.0), None)]
    ours, grown = (reg.fit(p.X, p.y + 3.0 * p.X[:, 0] ** 2, task=p.tasks) for reg in fits)
    assert isinstance(ours.engine_.model.basis, Monomials)
    assert ours.log_evidence_ == pytest.approx(grown.log_evidence_, rel=1e-9)
    np.testing.assert_allclose(ours.predict(p.X[:9]), grown.predict(p.X[:9]), rtol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_released_in_private(name: str) -> None:
    common, individual, basis = MODELS[name]
    points = np.random.default_rng(2).normal(size=(30, 2))
    model = Model(common, individual, 0.4, 0.3, "none", basis or Subset(points, 8), sigma2=1.0)
    clip = Clip.of(Coordinates.of(model, points), 4)
    X, y, noise = points[[3, 7, 20, 21]], np.array([1.0, -0.5, 0.2, 2.0]), np.array([1.0, 0.5, 2.0, 1.0])
    np.testing.assert_allclose(clip.vector(X, y, noise) / 2**20, private_vector(clip, X, y, noise), atol=3e-6)


def test_a_study_file_may_choose_a_basis_made_of_points(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(STUDY, encoding="utf-8")
    study = Study.load(path)
    assert study.model.common == Laplace(2.0)
    assert isinstance(study.model.basis, Subset)
    assert Model.from_json(study.model.to_json()) == study.model
    basis = study.model.fixed_basis(1)
    assert basis is not None
    assert basis.rank == 3
    path.write_text(STUDY.replace('"subset"', '"monomials"'), encoding="utf-8")
    with pytest.raises(
        InvalidStudy, match=r'basis.kind: .* "features" or "subset", got "monomials", whose settings scale no'
    ):
        Study.load(path)


STUDY = """
[study]
name = "Outside"
[model]
alpha = 0.5
lam = 0.1
sigma2 = 1.0
common = { kernel = "laplace", length_scale = 2.0 }
individual = { kernel = "laplace", tilt = -1 }
[inputs]
dimension = 1
[basis]
kind = "subset"
rank = 3
grid = { from = 0.0, to = 8.0, count = 9 }
[limits]
y = [-5.0, 5.0]
[release]
epsilon = 3.0
releases = 2
"""


def test_the_list_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is in it by its looks, by its ancestors, or twice; what is taken out of it is refused."""
    with pytest.raises(InvalidModel, match="already"):
        register("rbf", Laplace)
    with pytest.raises(InvalidModel, match="already"):
        register("sum", type("Other", (Laplace,), {}))
    with pytest.raises(InvalidModel, match="already"):
        register("another", Laplace)
    with pytest.raises(InvalidModel, match="already"):
        register_basis(Subset)
    with pytest.raises(UnknownKernel, match="unknown kernel Descendant"):
        to_spec(type("Descendant", (Laplace,), {})())
    with pytest.raises(InvalidModel, match="tilt of Laplace must be a number, got 'left'"):
        to_spec(Laplace(1.0, "left"))  # type: ignore[arg-type]
    with pytest.raises(InvalidModel, match="needs the square of a DotProduct"):
        Model(RBF(1.0), RBF(1.0), 0.4, 0.3, basis=Monomials(1.0)).check_dimension(2)

    model = Model(Laplace(1.0), RBF(1.0), 0.4, 0.3, basis=Subset([[0.0], [1.0]], 1))
    engine = Engine(model)
    engine.learn("a", [0.5], 1.0)
    engine.disclose().save(tmp_path / "release")
    with monkeypatch.context() as without:
        without.delitem(KERNELS, "laplace")
        with pytest.raises(UnknownKernel, match="unknown kernel 'laplace': known are rbf"):
            Disclosed.load(tmp_path / "release")
        with pytest.raises(UnknownKernel, match="unknown kernel Laplace: known are rbf"):
            model.to_json()
    with monkeypatch.context() as without:
        without.delitem(BASES, "subset")
        with pytest.raises(InvalidModel, match="basis must be one of growing, landmarks"):
            Disclosed.load(tmp_path / "release")
    assert Disclosed.load(tmp_path / "release").model == model


def test_a_kernel_may_bring_a_fast_evaluation_of_stacks() -> None:
    class Fast(Laplace):
        def over(self, X: Array, Y: Array) -> Array:
            return np.full((*X.shape[:-1], Y.shape[-2]), 7.0)

    X = np.zeros((3, 2, 2))
    np.testing.assert_array_equal(gram(Fast() + Laplace(), X), np.full((3, 2, 2), 8.0))
    assert from_spec(to_spec(Laplace(2.0, -1.0))) == Laplace(2.0, -1.0)


def rows_of(p: Problem, rows: Array) -> dict[str, Any]:
    return {"X": p.X[rows], "y": p.y[rows], "noise": p.noise[rows]}


def assert_close(found: tuple[Array, Array], expected: tuple[Array, Array]) -> None:
    for one, other in zip(found, expected):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)

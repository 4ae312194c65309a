"""Studies proposed from pilot tables: they load, say why, and are right for data from a known model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from motet.kernels import RBF, ConstantKernel, Matern, On, Scaled
from motet.kernels.algebra import in_units, leaves
from motet.planning.findings import limits_warning
from motet.planning.inputs import PilotRoles
from motet.planning.pilot import Pilot
from motet.planning.proposal import Proposal, starting_models
from motet.planning.sections import StudyFile
from motet.study.schema import File
from motet.study.template import Promise
from motet.tables.files import read
from motet.tuning.components import DEFAULT_BOUNDS
from tests.own_tables import glucose, panel, ratings

pytestmark = pytest.mark.slow  # models are tuned or evaluated many times


def proposal(tmp_path: Path, frame: pd.DataFrame, roles: PilotRoles, promise: Promise | None = None) -> Proposal:
    frame.to_csv(tmp_path / "pilot.csv", index=False)
    return Proposal.of(Pilot.read(read(tmp_path / "pilot.csv"), roles), promise or Promise())


def test_a_numeric_input(tmp_path: Path) -> None:
    table = glucose(3, 40)
    found = proposal(tmp_path, table.rows, PilotRoles(task="patient", target="glucose", inputs=("hours",)))
    study = StudyFile(found, tmp_path / "study.toml", "Glucose").write()
    text = study.path.read_text(encoding="utf-8")
    for section, field in File.model_fields.items():
        assert (f"[{section}]" in text) is (section != "pilot")  # all rows were used
        assert field.annotation is not None
    assert study.model.columns is not None
    assert study.table.client == "patient"
    assert study.model.sigma2 == found.sigma2
    assert study.release.center == pytest.approx(table.rows["glucose"].mean(), rel=1e-2)
    assert study.release.examples == 6
    assert study.limits.y is not None
    low, high = study.limits.y
    assert low < table.rows["glucose"].min() < table.rows["glucose"].max() < high
    assert study.mechanism() is not None
    # The file's rounded numbers are the tuned model.
    X = np.linspace(1, 13, 9)[:, None]
    tuned = found.tuning.model
    for share in ("common", "individual"):
        ours, theirs = getattr(study.model, share), getattr(tuned, share)
        np.testing.assert_allclose(ours(X), theirs(X), rtol=0.06, atol=0.06 * theirs.diag(X).max())


def test_columns_of_all_kinds_and_policies(tmp_path: Path) -> None:
    table = panel(2, 12)
    inputs = ("price", "ads", "season")
    roles = PilotRoles(task="shop", target="sales", inputs=inputs)
    private = proposal(tmp_path, table.rows, roles, Promise(clients=500))
    study = StudyFile(private, tmp_path / "study.toml", "Sales").write()
    assert study.dimension == 6
    assert "the forecast's best for 500 clients" in study.path.read_text(encoding="utf-8")
    exact = StudyFile(Proposal(private.pilot, Promise(policy="exact"), private.tuning), tmp_path / "exact.toml").write()
    assert not exact.private
    assert exact.model.basis is not None


def test_items_without_features_get_a_catalogue_and_a_personal_model(tmp_path: Path) -> None:
    table = ratings(2, 40, 25, features=False)
    found = proposal(tmp_path, table.rows, PilotRoles(task="user", target="stars", name="film"))
    study = StudyFile(found, tmp_path / "study.toml", "Films").write()
    assert study.model.catalogue is not None
    assert set(study.model.catalogue.names) == set(table.rows["film"])
    assert (tmp_path / "study-items.csv").read_text(encoding="utf-8").startswith("name\nfilm ")
    assert study.limits.y == (1.0, 5.0)
    apart = study.model.individual(study.model.catalogue.rows[:2])
    assert apart[0, 1] > 0  # what a user thinks of one film tells of another
    assert limits_warning(study, study.model.catalogue.rows, may_cut=False) == ""
    with pytest.raises(Exception, match=r"study\.toml already exists"):
        StudyFile(found, tmp_path / "study.toml", "Films").write()


@pytest.mark.parametrize("by_one_scale", [True, False])
def test_features_are_read_by_the_scale_that_suits(tmp_path: Path, by_one_scale: bool) -> None:
    """Tags, of which the common ones matter more; or numbers in units of their own, which all matter."""
    rng = np.random.default_rng(0)
    spread = np.array([1.0, 1.0, 0.5, 0.3, 0.1, 0.05, 0.03])
    tags = np.abs(rng.normal(size=(80, 7))) * spread
    weight = np.ones(7) if by_one_scale else 1 / spread
    names = [f"song {k}" for k in range(80)]
    items = pd.DataFrame(tags, columns=list("abcdefg"))
    items.insert(0, "name", names)
    items.to_csv(tmp_path / "songs.csv", index=False)
    rows = []
    for user in range(60):
        liked = tags @ (weight * (1 + rng.normal(size=7)))
        rows += [(f"u{user}", names[k], liked[k] + 0.1 * rng.normal()) for k in rng.choice(80, 10, replace=False)]
    frame = pd.DataFrame(rows, columns=["user", "song", "stars"])
    roles = PilotRoles(task="user", target="stars", name="song", catalogue=tmp_path / "songs.csv")
    found = proposal(tmp_path, frame, roles)
    assert ("center=[0.0, 0.0," in str(found.tuning.model.individual)) == by_one_scale
    assert found.tuning.noise_variance == pytest.approx(0.01, rel=0.5)


def test_small_shifts_beside_a_large_average_stay(tmp_path: Path) -> None:
    """Heights of children: the average goes from 50 to 190 cm, and children differ by some."""
    rng = np.random.default_rng(0)
    years = rng.uniform(0, 15, size=400).round(1)
    born, grown = np.repeat(rng.normal((50, 36), 2.0, size=(80, 2)), 5, axis=0).T
    cm = born + grown * np.sqrt(years) + 0.7 * rng.normal(size=400)
    frame = pd.DataFrame({"child": np.repeat(np.arange(80), 5), "years": years, "cm": cm.round(1)})
    found = proposal(tmp_path, frame, PilotRoles(task="child", target="cm", inputs=("years",)))
    study = StudyFile(found, tmp_path / "study.toml", "Growth").write()
    assert 1 - study.model.alpha == pytest.approx(1 - found.tuning.model.alpha, rel=0.05)
    assert study.model.alpha > 0.999


def test_one_length_for_many_inputs_has_an_end(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 8)), columns=[*"abcdefg", "y"]).assign(client=np.arange(40) % 8)
    frame["g"] += 1.7e9
    frame.to_csv(tmp_path / "pilot.csv", index=False)
    table = read(tmp_path / "pilot.csv")
    for inputs, ends in (("abcdefg", (0.3 * 7**0.5, 2 * 7**0.5)), ("ab", DEFAULT_BOUNDS)):
        pilot = Pilot.read(table, PilotRoles(task="client", target="y", inputs=tuple(inputs)))
        alike, weighted = starting_models(pilot)
        for model in (alike, weighted):
            smooth = [leaf for leaf, _ in leaves(model.individual) if type(leaf) is RBF]
            assert [one.length_scale_bounds for one in smooth] == [pytest.approx(ends)]
            assert model.common is not None
            center = np.array(model.common.k1.k2.center)
            assert np.abs(center - frame[list(inputs)].mean()).max() < 0.01  # also of large numbers
        assert alike.common is not None
        assert weighted.common is not None
        shares = np.array(alike.common.k1.k2.scale) / np.array(weighted.common.k1.k2.scale)
        assert shares.max() == pytest.approx(1.0, rel=1e-3)
        assert 0.09 < shares.min() < 0.9  # inputs that tell less have smaller slopes
        for plain in starting_models(pilot, plain=True):
            assert type(plain.individual) is ConstantKernel
            assert not [leaf for leaf, _ in leaves(plain.common) if type(leaf) is RBF]


def test_kernels_in_the_units_of_the_inputs() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(5.0, 3.0, size=(6, 2))
    kernel = On(Scaled(ConstantKernel(2.0) * RBF(0.5), [5.0], [3.0]), [1]) + Scaled(
        Matern([1.0, 2.0], nu=1.5), [1, 2], [3, 4]
    )
    plain = Scaled(RBF([0.5, 1.5]), [5.0, 4.0], [3.0, 2.0])
    for one in (kernel, plain, On(Scaled(RBF(0.5), [5.0], [3.0]), [0])):
        np.testing.assert_allclose(in_units(one)(X), one(X), rtol=1e-12)
    assert in_units(plain) == RBF([1.5, 3.0])

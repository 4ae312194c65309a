"""The catalogue of artists makes sense, bad tables are refused in one line, and the article's study comes out."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from motet.cli.app import app
from motet.errors import InvalidData
from motet.music import simulation as music
from motet.music.reproduce import ALPHAS, ARTICLE, LAMS, hits, preference, top
from motet.music.simulation import TAGS, artists

NEIGHBOURS = [
    ("Metallica", "Megadeth"), ("Bob Marley", "Peter Tosh"), ("Wolfgang Amadeus Mozart", "Ludwig van Beethoven"),
    ("Miles Davis", "John Coltrane"), ("Bob Dylan", "Leonard Cohen"), ("Radiohead", "Muse"), ("Daft Punk", "Justice"),
    ("Brian Eno", "Aphex Twin"), ("Johnny Cash", "Willie Nelson"), ("Aretha Franklin", "Otis Redding"),
    ("Madonna", "Kylie Minogue"), ("Nas", "Jay-Z"), ("The Clash", "Ramones"), ("B.B. King", "Muddy Waters"),
    ("Arcade Fire", "The National"), ("Mariah Carey", "Whitney Houston"), ("Nick Drake", "Elliott Smith"),
]  # fmt: skip


def test_the_catalogue() -> None:
    catalogue = artists()
    assert len(catalogue) == 489
    plain = {
        unicodedata.normalize("NFKD", n).encode("ascii", "ignore").lower().removeprefix(b"the ")
        for n in catalogue.names
    }
    assert len(plain) == 489
    Z = catalogue.vectors
    np.testing.assert_allclose(np.linalg.norm(Z, axis=1), 1.0)
    assert Z.min() >= 0.0
    assert ((Z > 0).sum(axis=1) >= 2).all()
    assert ((Z > 0).sum(axis=0) >= 20).all()
    assert np.triu(Z @ Z.T, 1).max() < 0.9999  # artists differ


@pytest.mark.parametrize(("one", "other"), NEIGHBOURS)
def test_neighbours_make_sense(one: str, other: str) -> None:
    catalogue = artists()
    similarity = catalogue.vectors @ catalogue.look_up([one])[0, 1:]
    nearest = [catalogue.names[k] for k in np.argsort(-similarity)[1:26]]
    assert other in nearest


def table(*rows: str, header: str = "artist," + ",".join(TAGS)) -> str:
    return "\n".join([header, *rows])


GOOD = "Somebody," + ",".join(["0.5"] * 19)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "t.csv: expected a header and at least one row"),
        (table(GOOD, header="who," + ",".join(TAGS)), "t.csv: no column 'artist'"),
        (
            table("Somebody" + ",0.5" * 18, header="artist," + ",".join(TAGS[:-1])),
            "t.csv: no column 'singer-songwriter'",
        ),
        (table(GOOD, "Nobody," + ",".join(["0"] * 19)), "t.csv, row 3: expected a feature other than 0"),
        (table(GOOD, GOOD), "t.csv, row 3, column artist: 'Somebody' is in row 2 already"),
        (table("Somebody,much" + ",0" * 18), "t.csv, row 2, column rock: expected a finite number, got 'much'"),
        (table("Somebody,0.5,1.5" + ",0" * 17), "t.csv, row 2, column pop: expected a number in [0, 1], got 1.5"),
        (table("Somebody,nan" + ",0" * 18), "t.csv, row 2, column rock: expected a finite number, got 'nan'"),
        (table("Somebody,1"), "t.csv, row 2: expected 20 cells, as the header has, got 2"),
        (table("," + ",".join(["0.5"] * 19)), "t.csv, row 2, column artist: expected a value, got nothing"),
    ],
)
def test_bad_tables_are_refused_by_row_and_column(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidData) as refused:
        artists(tmp_path / "t.csv")
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


def test_listeners_are_the_articles() -> None:
    catalogue = artists()
    listeners = music.simulate(catalogue, users=4000, examples=5, seed=1)
    own = listeners.tastes - 0.25 * listeners.average
    covariance = own.T @ own / len(own)
    expected = 0.75**2 * catalogue.vectors @ catalogue.vectors.T
    assert np.abs(covariance - expected).max() < 0.1
    assert len(listeners.rating) == 20_000
    for user in (0, 17):
        assert len(set(listeners.artist[listeners.user == user])) == 5  # different artists
    noise = listeners.rating - listeners.tastes[listeners.user, listeners.artist]
    assert np.std(noise) == pytest.approx(0.01, rel=0.05)
    with pytest.raises(InvalidData, match="only 489"):
        music.simulate(catalogue, 10, 490, 0)


def test_scores() -> None:
    f = np.array([[3.0, 1.0, 2.0, 0.0]])
    np.testing.assert_array_equal(top(f, 2), [[0, 2]])
    assert preference(np.array([0.0]))[0] == 0.5
    assert preference(np.array([2.0]))[0] == pytest.approx(1 / (1 + np.exp(-1)))
    truth = np.arange(50) < 20
    estimate = np.where((np.arange(50) >= 10) & (np.arange(50) < 30), 1.0, 0.0)
    assert hits(truth[None], estimate[None])[0] == 10


def reproduce(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


def test_the_study_comes_out(tmp_path: Path) -> None:
    """A sixth of the article's users: what must hold with all of them holds already."""
    done = reproduce("--users", "500", "--out", tmp_path / "report", "--json")
    assert done.exit_code == 0, done.stderr
    results = json.loads(done.stdout)
    assert results["users"] == 500
    assert abs(int(np.argmin(np.abs(ALPHAS - results["alpha"]))) - 1) <= 1  # the article's grid point, or the next
    assert 0 < results["alpha"] < 1
    assert 0.1 <= results["lam"] / ARTICLE["lam"] <= 10
    assert results["rmse"] < min(results["rmse_separate"], results["rmse_pooled"])
    assert results["top20hits"] > max(results["top20hits_separate"], results["top20hits_pooled"])
    assert results["max_difference_online"] < 1e-6
    assert results["max_difference_passive"] < 1e-6
    assert len(results["grid"]["rmse"]) == len(ALPHAS)
    assert len(results["grid"]["rmse"][0]) == len(LAMS)
    files = {path.name: path for path in (tmp_path / "report").iterdir()}
    assert {"report.html", "results.json", "fig2-tags.png", "fig6-users.svg"} <= files.keys()
    assert json.loads(files["results.json"].read_text()) == results
    page = files["report.html"].read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 5
    assert "http" not in page
    assert f"{results['top20hits']:.4f}" in page


def test_a_bad_table_of_artists_is_one_line(tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text(table("Somebody,much" + ",0" * 18))
    for path, message in ((bad, "column rock: expected a finite number"), (tmp_path / "none.csv", "cannot read")):
        refused = reproduce("--artists", path, "--out", tmp_path)
        assert refused.exit_code == 1
        assert refused.stderr.startswith("motet: ")
        assert message in refused.stderr
        assert refused.stderr.count("\n") == 1

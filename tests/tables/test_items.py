"""Catalogues as people have them: words and lists become columns, and a study reads the file that is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from motet.errors import InvalidData
from motet.study.study import Study
from motet.study.template import Draft
from motet.tables.catalogue import Catalogue
from motet.tables.items import MAX_VALUE_COLUMNS, Items, items_file, written_items

MOVIES = """movieId,title,genres,year,country,imdbId,studio
1,"Matrix, The (1999)",Action|Drama,1999,US,114709,Big
2,Heat,Action,1995,US,113277,Big
3,Amelie,Comedy,,FR,112281,Big
4,"Say ""Hi"", again",Comedy|Drama,2001,FR,113041,Big
"""


def movies(folder: Path, text: str = MOVIES) -> Path:
    path = folder / "movies.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_lists_and_words_become_columns_and_titles_are_left_out(tmp_path: Path) -> None:
    items = Items.read(movies(tmp_path))
    genres = ("genres=Action", "genres=Comedy", "genres=Drama")
    assert items.header == ("movieId", *genres, "year", "country=FR", "country=US")
    assert items.catalogue.names == ("1", "2", "3", "4")
    np.testing.assert_array_equal(items.catalogue.vectors[:, :3], [[1, 0, 1], [1, 0, 0], [0, 1, 0], [0, 1, 1]])
    year = items.catalogue.vectors[:, 3]
    known = np.array([1999.0, 1995.0, 2001.0])
    np.testing.assert_allclose(year[[0, 1, 3]], (known - known.mean()) / known.std(), rtol=1e-5)
    assert year[2] == 0.0  # the mean
    assert items.notes == (
        "movies.csv: title is left out (text, 4 different)",
        "movies.csv: genres, lists, becomes 3 columns (Action, Comedy, Drama)",
        "movies.csv: year is scaled: 0 is its mean, 1 its standard deviation; 1 item without one has the mean",
        "movies.csv: country, words, becomes 2 columns (FR, US)",
        "movies.csv: imdbId is left out (other ids of the items)",
        "movies.csv: studio is left out (one value only)",
    )


def test_a_file_that_is_written_is_the_same_catalogue(tmp_path: Path) -> None:
    items = Items.read(movies(tmp_path), "title")
    assert items.catalogue.names[0] == "Matrix, The (1999)"
    with written_items(items, tmp_path / "films.toml", force=False):
        pass
    again = Catalogue.from_csv(tmp_path / "films-items.csv")
    assert again.digest == items.catalogue.digest
    with pytest.raises(RuntimeError), written_items(items, tmp_path / "other.toml", force=False):
        raise RuntimeError
    assert not (tmp_path / "other-items.csv").exists()


def test_a_catalogue_of_numbers_stays_as_it_is(tmp_path: Path) -> None:
    path = movies(tmp_path, "name,loud,fast\na,10,20\nb,40,60\n")
    items = Items.read(path)
    assert not items.is_new
    assert items_file(items, tmp_path / "study.toml") is None
    assert items.catalogue.digest == Catalogue.from_csv(path).digest


def test_only_the_most_frequent_values_become_columns(tmp_path: Path) -> None:
    rows = "".join(f"{k},tag{k % 60}|common{k % 2}\n" for k in range(150))
    items = Items.read(movies(tmp_path, f"id,tags\n{rows}"))
    assert len(items.catalogue.features) == MAX_VALUE_COLUMNS
    assert items.header[1:3] == ("tags=common0", "tags=common1")
    assert items.notes[0].endswith(", the most frequent; 12 others left out")


def test_what_a_person_must_decide_is_refused(tmp_path: Path) -> None:
    years = "".join(f"{k},{'<1900' if k == 7 else 1900 + k}\n" for k in range(20))
    with pytest.raises(InvalidData, match=r'movies\.csv, row 9, column year: .* "<1900" in row 9, below a limit'):
        Items.read(movies(tmp_path, f"id,year\n{years}"))
    with pytest.raises(InvalidData, match="'1' is in row 2 already"):
        Items.read(movies(tmp_path, "id,genre\n1,a|b\n1,a\n"))
    with pytest.raises(InvalidData, match=r"got 'Action\|Drama': .*motet init makes columns of words"):
        Catalogue.from_csv(movies(tmp_path, "id,genre\n1,Action|Drama\n"))


def test_a_study_without_a_table_reads_them_too(tmp_path: Path) -> None:
    study = Draft(catalogue=movies(tmp_path)).write(tmp_path / "films.toml")
    catalogue = study.model.catalogue
    assert catalogue is not None
    assert len(catalogue.features) == 6
    assert 'catalogue = "films-items.csv"' in (tmp_path / "films.toml").read_text(encoding="utf-8")
    assert Study.load(tmp_path / "films.toml").model.catalogue.digest == catalogue.digest  # type: ignore[union-attr]


def test_its_encoding_is_told(tmp_path: Path) -> None:
    path = tmp_path / "movies.csv"
    path.write_bytes("id,country\n1,Österreich\n2,Perú\n3,Perú\n4,Österreich\n".encode("latin-1"))
    assert Items.read(path, encoding="latin-1").header == ("id", "country=Perú", "country=Österreich")

"""Every Python block of README and docs runs, and prints what the text block behind it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.pages import PYTHON_PAGES, ROOT, SOURCES, blocks, check_python, python_session
from tests.test_docs import SESSIONS

PAGE_WIDTH = 80  # letters of code that a page of the site shows


@pytest.mark.parametrize(
    "page", [page for page in PYTHON_PAGES if page.stem not in SESSIONS], ids=lambda page: page.name
)
def test_the_page_says_what_it_prints(page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Sessions at terminals, by tests/test_docs.py, have the Python of their pages too."""
    monkeypatch.chdir(tmp_path)
    check_python(*python_session(page))


@pytest.mark.parametrize("page", SOURCES[1:], ids=lambda page: page.name)
def test_code_fits_the_width_of_a_page(page: Path) -> None:
    """What is longer is cut off in a browser."""
    code = [block.body for block in blocks(page.read_text(encoding="utf-8")) if block.language in ("python", "sh")]
    assert [line for text in code for line in text.splitlines() if len(line) > PAGE_WIDTH] == []


def test_readme_links_lead_somewhere() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        assert (ROOT / target).exists(), target


def test_files_that_are_named_exist() -> None:
    for page in [*SOURCES, ROOT / "CONTRIBUTING.md"]:
        named = re.findall(r"\b(?:src|tests|docs|benchmarks|experiments)/[\w/-]+\.(?:py|md)\b", page.read_text("utf-8"))
        assert [name for name in named if not (ROOT / name).exists()] == [], page.name


def test_figures_of_the_readme_are_those_of_the_results() -> None:
    results = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    table = (ROOT / "README.md").read_text(encoding="utf-8").split("| job |")[1].split("\n\n")[0].splitlines()[2:]
    assert len(table) >= 5
    for row in table:
        assert row.removesuffix("|") in results

"""Every Python block of README and docs runs, and prints what the text block behind it says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
SOURCES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in SOURCES if "```python" in page.read_text(encoding="utf-8")]


def session(page: Path) -> tuple[str, str]:
    """What a page's blocks print, and what it says that they print."""
    printed, said, names = io.StringIO(), "", {"__name__": "page"}
    for language, body in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            with contextlib.redirect_stdout(printed):
                exec(compile(body, page.name, "exec"), names)
        elif language == "text":
            said += body
    return printed.getvalue(), said


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_page_says_what_it_prints(page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    printed, said = session(page)
    assert printed == said


def test_readme_links_lead_somewhere() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        assert (ROOT / target).exists(), target

"""The site: it is built without a warning, and a search for a question's words finds the page that answers it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with warnings as errors."""
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install 'tiramisu_py[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert built.returncode == 0, built.stderr
    return folder


def found(site: Path, question: str) -> list[str]:
    """The pages that a search lists first: those with most of the words in a title, then in the text."""
    words = re.findall(r"\w+", question.lower())
    pages: dict[str, tuple[int, int]] = {}
    for entry in json.loads((site / "search" / "search_index.json").read_text())["docs"]:
        page = entry["location"].partition("#")[0]
        title, text = entry["title"].lower(), entry["text"].lower()
        score = sum(word in title for word in words), sum(word in text for word in words)
        pages[page] = max(pages.get(page, (0, 0)), score)
    return sorted(pages, key=lambda page: pages[page], reverse=True)


@pytest.mark.parametrize(
    ("question", "page"),
    [
        ("why was it refused and what would be accepted", "howto/why-refused/"),
        ("schedule refused accepted", "howto/why-refused/"),
        ("what does the schedule do", "howto/what-a-schedule-does/"),
        ("how do I call it from C", "howto/call-from-c/"),
        ("call from C", "howto/call-from-c/"),
    ],
)
def test_a_question_finds_its_page(site: Path, question: str, page: str) -> None:
    assert page in found(site, question)[:2]


def test_every_chapter_is_there(site: Path) -> None:
    for source in (ROOT / "docs" / "guide").glob("*.md"):
        assert (site / "guide" / source.stem / "index.html").exists()

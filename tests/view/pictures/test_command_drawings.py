"""The drawings of commands in the reference: read in a browser, and compared with what the programs do."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.view.pictures.browser import Page, measured, needs_browser

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts"))

from command_pictures import EXAMPLES, made  # noqa: E402

#: Lets the measure look at all texts.
LABELS = "<script>document.querySelectorAll('text').forEach((node) => node.classList.add('label'))</script>"


def numbers(drawing: str) -> list[str]:
    """The steps in the cells of a drawing, before and after, as they are drawn: row by row."""
    return re.findall(r'class="small in middle">(\d+)<', drawing)


@needs_browser
@pytest.mark.parametrize("dark", [False, True])
def test_no_label_of_a_drawing_is_on_another(dark: bool, tmp_path: Path) -> None:
    pages = {name: Page(f"<!DOCTYPE html><body>{made(name)}</body>", before=LABELS) for name in EXAMPLES}
    for name, found in measured(pages, tmp_path, dark=dark).items():
        assert found["overlaps"] == [], name
        assert found["labels"] > 5
        assert found["requests"] == 0


def test_cells_have_the_steps_of_the_loops() -> None:
    """Rows of 5 one after another; columns of 3 one after another; backwards; vectors of 4; tiles of 2 x 3."""
    rows = [str(step) for step in range(1, 16)]
    assert numbers(made("interchange")) == [*rows, *(str(1 + i + 3 * j) for i in range(3) for j in range(5))]
    assert numbers(made("parallelize")) == [*rows, *(str(1 + j) for _ in range(3) for j in range(5))]
    assert numbers(made("reverse")) == [*map(str, range(1, 9)), *map(str, range(8, 0, -1))]
    assert numbers(made("vectorize"))[10:] == ["1"] * 4 + ["2"] * 4 + ["3"] * 2
    tiled = [12 * (i // 2) + 6 * (j // 3) + 3 * (i % 2) + j % 3 + 1 for i in range(4) for j in range(6)]
    assert numbers(made("tile"))[24:] == [str(step) for step in tiled]


def test_a_drawing_is_read_in_light_and_in_dark_and_names_its_command() -> None:
    for name in EXAMPLES:
        drawing = made(name)
        assert "@media (prefers-color-scheme: dark)" in drawing
        assert f"<title>{name}: " in drawing
        assert "http" not in drawing.replace("http://www.w3.org/2000/svg", "")

"""The pictures of the guide's chapter: each is what a browser shows of the page that a program writes."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.view.pictures.browser import needs_browser

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts"))

from guide_pictures import CHAPTER, Shown, run_programs, shown, unlike  # noqa: E402

#: The share of squares in which pictures of one page differ between browsers; what is seen of a schedule is more.
TOLERATED = 0.001


def has_the_fonts() -> bool:
    """Whether the fonts of the pictures are here: others have other widths, which move everything."""
    listed = shutil.which("fc-list")
    if listed is None:
        return False
    families = subprocess.run([listed, ":", "family"], capture_output=True, text=True, check=True).stdout
    return {"DejaVu Sans", "DejaVu Sans Mono"} <= {line.split(",")[0] for line in families.splitlines()}


needs_fonts = pytest.mark.skipif(not has_the_fonts(), reason="no DejaVu fonts here: apt-get install fonts-dejavu-core")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the pages that the programs of the chapter write."""
    folder = tmp_path_factory.mktemp("pages")
    run_programs(folder)
    return folder


def test_each_picture_of_the_chapter_is_there_and_says_how_it_is_made() -> None:
    text = CHAPTER.read_text()
    pictures = list(shown())
    assert [each.picture for each in pictures] == re.findall(r"\((pictures/seeing-[^)]*)\)", text)
    written = re.findall(r'picture", "([\w-]+\.html)"', text)
    assert len(pictures) >= 6
    for each in pictures:
        header = (CHAPTER.parent / each.picture).read_bytes()[:24]
        assert header[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">II", header[16:24]) == each.size
        assert each.page in written
    kept = {path.name for path in (CHAPTER.parent / "pictures").glob("seeing-*.png")}
    assert kept == {Path(each.picture).name for each in pictures}


@needs_browser
@needs_fonts
@pytest.mark.parametrize("each", list(shown()), ids=lambda each: Path(each.picture).stem)
def test_a_browser_shows_what_the_picture_in_the_chapter_shows(
    each: Shown, pages: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("--update-golden"):
        each.take(pages, each.kept)
    each.take(pages, tmp_path / "now.png")
    differs = unlike(tmp_path / "now.png", each.kept)
    assert differs <= TOLERATED, f"{differs:.1%} of {each.picture} is not what is shown now; scripts/pictures takes it"


@needs_browser
@needs_fonts
def test_a_picture_of_another_step_or_schedule_is_not_taken_for_the_same(pages: Path, tmp_path: Path) -> None:
    ranks = next(each for each in shown() if each.page == "ranks.html")
    Shown(ranks.picture, ranks.page, "step=47", ranks.size, ranks.dark).take(pages, tmp_path / "step.png")
    assert unlike(tmp_path / "step.png", ranks.kept) > TOLERATED
    tiled = next(each for each in shown() if each.page == "tiled.html")
    Shown(tiled.picture, "fused.html", tiled.asked, tiled.size, tiled.dark).take(pages, tmp_path / "fused.png")
    assert unlike(tmp_path / "fused.png", tiled.kept) > 10 * TOLERATED

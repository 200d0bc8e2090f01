"""The pictures of the guide's chapter are there, as large as the chapter says, and of pages that its programs write."""

from __future__ import annotations

import re
import struct
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts"))

from guide_pictures import CHAPTER, shown  # noqa: E402


def test_each_picture_of_the_chapter_is_there_and_says_how_it_is_made() -> None:
    text = CHAPTER.read_text()
    pictures = list(shown())
    assert [each.picture for each in pictures] == re.findall(r"\((pictures/seeing-[^)]*)\)", text)
    written = re.findall(r'picture\("([\w-]+\.html)"', text)
    assert len(pictures) >= 6
    for each in pictures:
        header = (CHAPTER.parent / each.picture).read_bytes()[:24]
        assert header[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">II", header[16:24]) == each.size
        assert each.page in written
    kept = {path.name for path in (CHAPTER.parent / "pictures").glob("seeing-*.png")}
    assert kept == {Path(each.picture).name for each in pictures}

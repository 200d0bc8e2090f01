"""Takes the pictures of the guide's chapter on pictures in a headless browser.

After each picture of the chapter stands, in a comment, what it shows: the file that a program of the chapter writes,
its state, the size of the window, and ``dark`` for dark colours::

    ![...](pictures/seeing-tiled.png)
    <!-- tiled.html#step=40 1300x800 dark -->
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.view.pictures.browser import BROWSER, screenshot  # noqa: E402

CHAPTER = ROOT / "docs" / "guide" / "13-seeing.md"
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"\]\((pictures/[\w-]+\.png)\)\n<!-- ([\w-]+\.html)(?:#(\S+))? (\d+)x(\d+)( dark)? -->")


@dataclass(frozen=True)
class Shown:
    """A picture of the chapter: its file, the page in it, the page's state, and the window."""

    picture: str
    page: str
    asked: str
    size: tuple[int, int]
    dark: bool


def shown() -> Iterator[Shown]:
    """The pictures of the chapter."""
    for picture, page, asked, width, height, dark in SHOWN.findall(CHAPTER.read_text()):
        yield Shown(picture, page, asked, (int(width), int(height)), bool(dark))


def main() -> None:
    """Run the programs of the chapter, and take its pictures, in few colours: they are small then."""
    if BROWSER is None:
        raise SystemExit("no Chromium on this machine: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        session: dict[str, object] = {"__name__": "__main__"}
        for block in FENCE.findall(CHAPTER.read_text()):
            exec(block, session)
        for each in shown():
            path = CHAPTER.parent / each.picture
            screenshot(Path(folder) / each.page, path, each.asked, dark=each.dark, size=each.size)
            with Image.open(path) as image:
                image.convert("RGB").quantize(256, kmeans=1, dither=Image.Dither.NONE).save(path, optimize=True)
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()

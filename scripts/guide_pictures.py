"""Takes the pictures of the guide's chapter on pictures in a headless browser.

After each picture of the chapter stands, in a comment, what it shows: the file that a program of the chapter writes,
its state, the size of the window, and ``dark`` for dark colours::

    ![...](pictures/seeing-tiled.png)
    <!-- tiled.html#step=40 1300x800 dark -->

``tests/view/pictures/test_guide_pictures.py`` takes them too, and compares them with those that are kept.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageChops

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.view.pictures.browser import BROWSER, screenshot  # noqa: E402

CHAPTER = ROOT / "docs" / "guide" / "13-seeing.md"
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"\]\((pictures/[\w-]+\.png)\)\n<!-- ([\w-]+\.html)(?:#(\S+))? (\d+)x(\d+)( dark)? -->")
#: The fonts of the pictures: those that a page asks for are others on other machines.
FONTS = {"system-ui": '"DejaVu Sans"', "ui-monospace": '"DejaVu Sans Mono"'}
#: Two pictures are compared in squares of so many pixels, by their mean colours, which may differ by so much.
SQUARE, ALIKE = 6, 20


@dataclass(frozen=True)
class Shown:
    """A picture of the chapter: its file, the page in it, the page's state, and the window."""

    picture: str
    page: str
    asked: str
    size: tuple[int, int]
    dark: bool

    @property
    def kept(self) -> Path:
        """The picture in the repository."""
        return CHAPTER.parent / self.picture

    def take(self, folder: Path, path: Path) -> None:
        """Take the picture of a page in `folder`, in few colours: it is small then."""
        text = (folder / self.page).read_text(encoding="utf-8")
        for asked, given in FONTS.items():
            text = text.replace(asked, given)
        page = folder / f"taken-{self.page}"
        page.write_text(text, encoding="utf-8")
        screenshot(page, path, self.asked, dark=self.dark, size=self.size)
        with Image.open(path) as image:
            image.convert("RGB").quantize(256, kmeans=1, dither=Image.Dither.NONE).save(path, optimize=True)


def shown() -> Iterator[Shown]:
    """The pictures of the chapter."""
    for picture, page, asked, width, height, dark in SHOWN.findall(CHAPTER.read_text()):
        yield Shown(picture, page, asked, (int(width), int(height)), bool(dark))


def run_programs(folder: Path) -> None:
    """Run the programs of the chapter, which write their pages to `folder`."""
    with chdir(folder):
        session: dict[str, object] = {"__name__": "__main__"}
        for block in FENCE.findall(CHAPTER.read_text()):
            exec(block, session)


def unlike(first: Path, second: Path) -> float:
    """The share of the squares of two pictures that are not alike; 1 if their sizes differ."""
    with Image.open(first) as a, Image.open(second) as b:
        if a.size != b.size:
            return 1.0
        small = (max(1, a.width // SQUARE), max(1, a.height // SQUARE))
        means = [image.convert("RGB").resize(small, Image.Resampling.BOX) for image in (a, b)]
    channels = ImageChops.difference(*means).split()
    worst = ImageChops.lighter(ImageChops.lighter(channels[0], channels[1]), channels[2])
    return sum(worst.histogram()[ALIKE + 1 :]) / (small[0] * small[1])


def main() -> None:
    """Take all pictures of the chapter."""
    if BROWSER is None:
        raise SystemExit("no Chromium on this machine: apt-get install chromium fonts-dejavu-core")
    with tempfile.TemporaryDirectory() as folder:
        run_programs(Path(folder))
        for each in shown():
            each.take(Path(folder), each.kept)
            print(each.kept.relative_to(ROOT))


if __name__ == "__main__":
    main()

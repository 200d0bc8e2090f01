"""The house: the documentation lists all rooms; each is small, and few modules share a name."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "tiramisu_py"
MOST = 15  # modules in a room


def rooms() -> dict[str, list[str]]:
    """The modules of each room, by its path; without the emitters' files that are no Python."""
    found: dict[str, list[str]] = {}
    for top in (PACKAGE, ROOT / "backends"):
        for path in sorted(top.rglob("*.py")):
            if path.is_relative_to(PACKAGE / "backends"):  # the link to the other folder
                continue
            folder = path.parent.relative_to(PACKAGE if top is PACKAGE else ROOT).as_posix()
            names = found.setdefault(folder, [])
            if path.stem != "__init__":
                names.append(path.stem)
    return found


def test_the_documentation_lists_every_room_that_there_is() -> None:
    page = (ROOT / "docs" / "how-it-works.md").read_text()
    listed = set(re.findall(r"^\| `([a-z/]+)/` \|", page, re.MULTILINE))
    there = {room for room in rooms() if room != "." and not room.startswith("backends/")}
    assert listed == there


@pytest.mark.parametrize("room", rooms())
def test_a_room_is_small_enough_to_be_read(room: str) -> None:
    assert len(rooms()[room]) <= MOST


def test_few_modules_share_a_name() -> None:
    names = Counter(name for modules in rooms().values() for name in modules)
    assert sum(count > 1 for count in names.values()) < MOST

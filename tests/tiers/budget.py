"""What each room of tests may take, and how many cases of its longest families a plain run makes: `budget.toml`."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("budget.toml")


@dataclass(frozen=True)
class Budget:
    """Seconds of processor time by room, of a plain run and of one with all cases; numbers of plain cases by family,
    and the `usual` one.
    """

    plain: Mapping[str, float]
    all: Mapping[str, float]
    cases: Mapping[str, int]
    usual: int


@functools.cache
def budget() -> Budget:
    """The budget of this checkout."""
    read = tomllib.loads(FILE.read_text())
    rooms = {name: tuple(seconds) for name, seconds in read["rooms"].items()}
    plain, everything = ({name: seconds[k] for name, seconds in rooms.items()} for k in (0, 1))
    return Budget(plain, everything, read["cases"], read["usual"])


def room_of(nodeid: str) -> str:
    """The room of a test: its folder below `tests/`, or its file if it is in none."""
    parts = nodeid.partition("::")[0].removeprefix("tests/").split("/")
    return parts[0].removesuffix(".py")

"""A plain run makes some cases of each family of tests; which, changes from commit to commit.

A family is a test with all its parameters. A few of its plain cases are in every run, as many as the budget says: they
take turns; with 0, as cases marked `slow` do, one turn each in `TURNS` runs. The tests that mutations of the compiler
name are in every run. So a default run catches every mutation, and each case is run within some commits.
"""

from __future__ import annotations

import os
import subprocess
import zlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pytest

#: Runs after which every case has had its turn, if each run has the next one.
TURNS = 40
#: So often each turn is told apart, for what does not depend on the cases: the processor of a run.
ROUNDS = 6
#: The turn of a run, for its workers; given by hand to have a run again.
VARIABLE = "TIRAMISU_TURN"


def this_turn() -> int:
    """The turn of this commit, or the one given, of all rounds; 0 where there is no git."""
    given = os.environ.get(VARIABLE)
    if given is None:
        given = str(_of_commit())
        os.environ[VARIABLE] = given
    return int(given) % (TURNS * ROUNDS)


def _of_commit() -> int:
    """A number that follows from the hash of the commit."""
    command = ["git", "rev-parse", "HEAD"]
    try:
        found = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.SubprocessError):
        return 0
    return int(found.stdout, 16) % (TURNS * ROUNDS)


def family(item: pytest.Item) -> str:
    """The test of an item below the folder of tests, without its parameters."""
    return item.nodeid.removeprefix("tests/").partition("[")[0]


def chosen(
    items: Sequence[pytest.Item],
    turn: int,
    cases: Mapping[str, int],
    always: Collection[str],
    usual: int | None = None,
    most: int | None = None,
) -> list[pytest.Item]:
    """The items of a plain run in their order.

    `cases` are numbers of plain cases, by family, and `usual` is that of the others (all if None): or as many as give
    each its turn in time. `most` is the greatest for any. `always` are tests, with their parameters or without, that
    every run has.
    """
    families: dict[str, list[pytest.Item]] = {}
    for item in items:
        families.setdefault(family(item), []).append(item)
    found: set[pytest.Item] = set()
    for name, members in families.items():
        slow = [item for item in members if item.get_closest_marker("slow")]
        plain = [item for item in members if not item.get_closest_marker("slow")]
        wanted = cases.get(name, len(plain) if usual is None else usual)
        each = min(wanted and max(wanted, -(-len(plain) // TURNS)), len(plain) if most is None else most)
        found.update(item for item in members if item.nodeid.removeprefix("tests/") in always)
        found.update(plain if name in always else ())
        found.update(_in_turn(plain, -(-len(plain) // each) if each else TURNS, turn, name))
        found.update(_in_turn(slow, TURNS, turn, name))
    return [item for item in items if item in found]


def _in_turn(members: Sequence[pytest.Item], step: int, turn: int, name: str) -> Sequence[pytest.Item]:
    """Every `step`-th member; families begin at different ones, so that runs are alike long."""
    return members[(turn + zlib.crc32(name.encode())) % step :: step] if members else ()

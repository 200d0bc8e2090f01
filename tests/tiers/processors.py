"""The processors that a run of all tests is for: `python -m tests.tiers.processors` begins with that of its turn."""

from __future__ import annotations

import sys

from tests.processors import OWN, become
from tests.tiers.families import this_turn
from tiramisu_py.build import processor_for
from tiramisu_py.errors import ToolchainError

#: The levels of x86-64 whose vectors differ.
LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")


def processors() -> list[str]:
    """The levels that this machine has, and its own processor; from the one that this turn is for."""
    become(OWN)
    kinds = [*filter(_is_part_of_this_machine, LEVELS), OWN]
    own = this_turn() % len(kinds)
    return [*kinds[own:], *kinds[:own]]


def _is_part_of_this_machine(name: str) -> bool:
    try:
        return not processor_for(name).obstacle
    except ToolchainError:  # there is no compiler, or it is for another kind of processor
        return False


if __name__ == "__main__":
    sys.stdout.write(" ".join(processors()) + "\n")

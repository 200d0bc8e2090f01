"""The processors that a run of all tests is for: `python -m tests.tiers.processors` begins with that of its turn."""

from __future__ import annotations

import sys

from tests.processors import OWN, become
from tests.tiers.families import TURNS, this_turn
from tiramisu_py.errors import ToolchainError
from tiramisu_py.toolchain import processor_for

#: The levels of x86-64 whose vectors differ.
LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")


def processors() -> list[str]:
    """The one that this turn is for, of the levels that this machine has and its own processor; then, for each other
    size of vectors, one that has it.
    """
    become(OWN)
    kinds = {name: size for name in (*LEVELS, OWN) if (size := _vector_bytes(name))}
    own = [*kinds][this_turn() // TURNS % len(kinds)]
    others = {size: name for name, size in reversed(kinds.items()) if size != kinds[own]}
    return [own, *others.values()]


def _vector_bytes(name: str) -> int:
    """The size of its vectors, 0 of what is no part of this machine."""
    try:
        found = processor_for(name)
    except ToolchainError:  # there is no compiler, or it is for another kind of processor
        return 16 if name == OWN else 0
    return 0 if found.obstacle else found.vector_bytes


if __name__ == "__main__":
    sys.stdout.write(" ".join(processors()) + "\n")

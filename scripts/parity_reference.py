"""Writes docs/parity.md: runs the programs of tests/parity, and tells what TIRAMISU's tests are about and how ours end.

With ``--check`` nothing is run, and it only reports, by its exit status, whether the page has the rows of the programs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from command_reference import ROOT, kept

sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]
from benchmarks.common.tables import table  # noqa: E402 (of this checkout)
from tests.parity import devices, legality, loops, places  # noqa: E402, F401 (each registers its groups)
from tests.parity.groups import GROUPS, Group, ordered  # noqa: E402

PAGE = ROOT / "docs" / "parity.md"
HEAD = """# Parity with TIRAMISU's tests

TIRAMISU has 199 numbered tests. Those about one matter are a group here, with a program of ours for it: scheduled with
the commands named, compiled, and compared with NumPy or plain Python (ranks and GPUs in the simulators). Made by
`scripts/reference` from `tests/parity`, whose programs it runs.
"""
#: What a program says that ends as it should.
RIGHT = "right"


def row(group: Group) -> tuple[str, str, str, str]:
    """The row of a group, as it is if its program is right."""
    return group.numbers, group.feature, group.words, RIGHT


def page(groups: Sequence[Group]) -> str:
    """The page with the rows of these groups."""
    header = ("TIRAMISU's tests", "what they are about", "our words", "result")
    return f"{HEAD}\n{table(header, [row(each) for each in ordered(groups)])}\n"


def main() -> int:
    """Write the page if all programs are right, or check that it is current."""
    if "--check" not in sys.argv[1:]:
        for each in ordered(GROUPS):
            each.run()
    return kept(PAGE, page(GROUPS))


if __name__ == "__main__":
    sys.exit(main())

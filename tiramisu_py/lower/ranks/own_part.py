"""The part of a program that one rank executes, over the arrays that the rank has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.ir.device_boxes import DeviceBox
from tiramisu_py.lower.ranks.block_copies import Arrays
from tiramisu_py.lower.ranks.combining_code import CollectedParts, collected
from tiramisu_py.lower.ranks.least_device_boxes import device_boxes
from tiramisu_py.lower.ranks.local_boxes import localised
from tiramisu_py.lower.ranks.one_rank import Ranked, on_one_rank
from tiramisu_py.program.program import Program
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class OwnPart:
    """`whole` is over the arrays of the whole call, `ranked` over those that the rank has, with its `accesses`.

    Without ranks both are one program.
    """

    reductions: CollectedParts
    whole: Ranked
    arrays: Arrays
    ranked: Ranked
    accesses: MemoryAccesses

    def boxes(self) -> Mapping[str, DeviceBox]:
        """The box of each array that GPUs use."""
        return device_boxes(self.ranked.program, self.accesses)


def own_part(program: Program) -> OwnPart:
    """The part of a program that one rank executes."""
    reductions = collected(program)
    whole = replace(on_one_rank(reductions.program), definitions=reductions.definitions)
    accesses = MemoryAccesses(whole.program)
    arrays = Arrays(whole, accesses)
    ranked = whole
    if whole.grid is not None:
        ranked = arrays.in_blocks()
        ranked = localised(ranked, MemoryAccesses(ranked.program, accesses.values))
        accesses = MemoryAccesses(ranked.program, accesses.values)
    return OwnPart(reductions, whole, arrays, ranked, accesses)

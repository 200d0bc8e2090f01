"""Blocks whose bounds are known at run time."""

from __future__ import annotations

from tiramisu_py.algorithm.expressions import Operand, Param
from tiramisu_py.function.applying.scheduled import Scheduled
from tiramisu_py.schedule.ranks.declare_blocks import DeclareBlocks


class BlockCommands(Scheduled):
    """How ranks share numbers out among them, where that is known at run time only."""

    def blocks(self, extent: Operand, lower: Param, upper: Param) -> None:
        """Let each rank have a block of the numbers from 0 up to `extent`, of which it knows the bounds at run time.

        ::

            R, lo, hi = tm.params("R lo hi")
            f = tm.Function("blur", params=[R, lo, hi])
            ...
            f.blocks(R, lo, hi)
            image.distribute([r], rank=r, bounds=(lo, hi))      a rank holds, and is called with, image[lo..hi]
            bx.tag_distribute(r, bounds=(lo, hi))               and computes bx[lo..hi]
            down = f.create_xfer(bx[r], send=({r: (hi - 1, hi)}, hi < R), to=tm.rank + 1,
                                 recv=({r: (lo - 1, lo)}, lo > 0), source=tm.rank - 1)

        `lower` and `upper` are parameters of the function with values of their own on each rank. The blocks of rank
        0, 1, ... follow one another and cover all numbers; any number of ranks, and any split, will do that gives each
        rank as many numbers as messages take from it (`Blocks.least`); ranks after the last block have nothing to do.
        """
        self.apply(DeclareBlocks(self.name, extent, lower, upper))

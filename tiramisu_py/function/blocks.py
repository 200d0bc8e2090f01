"""Blocks whose bounds are known at run time."""

from __future__ import annotations

from tiramisu_py.algorithm.expressions import Operand, Param
from tiramisu_py.function.applying.scheduled import Scheduled
from tiramisu_py.schedule.ranks.declare_blocks import DeclareBlocks


class BlockCommands(Scheduled):
    """The command on blocks of ranks whose bounds are known only at run time."""

    def blocks(self, extent: Operand, lower: Param, upper: Param) -> None:
        """Give each rank a block of the numbers from 0 up to `extent`, whose bounds are known at run time.

        ::

            R, lo, hi = tm.params("R lo hi")
            f = tm.Function("blur", params=[R, lo, hi])
            ...
            f.blocks(R, lo, hi)
            image.distribute([r], rank=r, bounds=(lo, hi))      a rank holds, and is called with, image[lo..hi]
            bx.tag_distribute(r, bounds=(lo, hi))               and computes bx[lo..hi]
            down = f.create_xfer(bx[r], send=({r: (hi - 1, hi)}, hi < R), to=tm.rank + 1,
                                 recv=({r: (lo - 1, lo)}, lo > 0), source=tm.rank - 1)

        `lower` and `upper` are parameters of the function, whose values differ by rank. The blocks of ranks 0, 1, ...
        follow one another and cover all numbers. Any number of ranks and any split are allowed, as long as each block
        has the numbers that messages take from it (`Blocks.least`); ranks after the last block have nothing to do.
        """
        self.apply(DeclareBlocks(self.name, extent, lower, upper))

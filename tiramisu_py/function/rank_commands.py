"""Commands that run loops on ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.function.script import as_written
from tiramisu_py.function.statements import Statements
from tiramisu_py.program.loops import Combine
from tiramisu_py.program.program import Program
from tiramisu_py.schedule import blocks, ranks

if TYPE_CHECKING:
    from tiramisu_py.function.scheduled import Scheduled


class Distributable:
    """What the caller passes, or is given: an array that ranks may hold in parts."""

    _function: Scheduled
    name: str

    def distribute(self, iterators: Sequence[Iter], rank: object, bounds: object = None) -> Self:
        """Let each rank hold a part of the array: the element at ``[iterators]`` is on rank `rank`.

        ::

            image.distribute([r, c], rank=r // B)           rows r with r // B == q on rank q (blocks)
            image.distribute([r, c], rank=(r // B) % P)     blocks of B rows, dealt out to P ranks in turn
            image.distribute([r, c], rank=0)                all of it on rank 0
            a.distribute([i, j], rank=(i // B, j // B))     tiles on a process grid
            a.distribute([i, j], rank=(i // B, None))       rows; the same on all ranks along the second axis
            image.distribute([r, c], rank=r, bounds=(lo, hi))   the rows of the rank's block (Function.blocks)
        """
        command = as_written(self.name, "distribute", (iterators,), {"rank": rank, "bounds": bounds})

        def change(program: Program, _: str) -> Program:
            if bounds is not None:
                return blocks.distribute(program, self.name, iterators, rank, bounds)
            return ranks.distribute(program, self.name, iterators, rank)

        self._function.apply(command, change)
        return self


class RankCommands(Statements):
    """How the loops of a computation are dealt out to ranks."""

    def tag_distribute(
        self, *loops: Iter, drop_rank_iter: bool = True, combine: Combine | None = None, bounds: object = None
    ) -> Self:
        """Run the iterations of a loop on ranks: iteration q on rank q, of several loops on a process grid.

        ::

            for q in 0..P:          -->   on rank q:
                for r1 in 0..B:               for r1 in 0..B:
                    S[B*q + r1]                   S[B*q + r1]      (tag_distribute(q))

        What has no such loop is executed by every rank. A rank keeps its own part of what is stored; with
        ``drop_rank_iter=False`` it keeps arrays in full, at their global indices.
        With ``bounds=(lo, hi)``, parameters that `Function.blocks` declared, a rank runs the iterations from lo up to
        hi, one after another; their values are its own, and known at run time.
        Source: TIRAMISU, ``tag_distribute_level``.
        """
        names = self.statement_names()
        shown = {"drop_rank_iter": None if drop_rank_iter else False, "combine": combine, "bounds": bounds}

        def change(program: Program, text: str) -> Program:
            if bounds is not None:
                return blocks.tag_distribute(program, names, loops, bounds, text)
            return ranks.tag_distribute(program, names, loops, drop_rank_iter, combine, text)

        self._apply("tag_distribute", loops, shown, change)
        return self

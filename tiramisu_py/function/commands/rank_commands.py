"""Commands that run loops on ranks, and that say which ranks hold the caller's arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.function.applying.applied import AppliedStatements, Nameable
from tiramisu_py.program.loops import Combine
from tiramisu_py.schedule.ranks.distribute import Distribute, TagDistribute

if TYPE_CHECKING:
    pass


class Distributable(Nameable):
    """What the caller passes, or is given: an array that ranks may hold in parts."""

    name: str

    def distribute(self, iterators: Sequence[Iter], rank: object, bounds: object = None) -> Self:
        """Let each rank hold a part of the array: the element at ``[iterators]`` is on rank `rank`.

        A second call replaces the first.

        ::

            image.distribute([r, c], rank=r // B)           rows r with r // B == q on rank q (blocks)
            image.distribute([r, c], rank=(r // B) % P)     blocks of B rows, dealt out to P ranks in turn
            image.distribute([r, c], rank=tm.pieces(r, [H]))    rows below H on rank 0, others on rank 1
            image.distribute([r, c], rank=0)                all of it on rank 0
            image.distribute([r, c], rank=None)             all of it on every rank, as without the command
            a.distribute([i, j], rank=(i // B, j // B))     tiles on a process grid
            a.distribute([i, j], rank=(i // B, None))       rows; the same on all ranks along the second axis
            image.distribute([r, c], rank=r, bounds=(lo, hi))   the rows of the rank's block (Function.blocks)

        Points that pieces are cut at may be parameters: they are chosen when the function is called (`tm.pieces`). The
        caller passes on each rank the part that it holds, without gaps, and is given the like of an output; the
        algorithm and the commands go on naming elements by their indices in the whole. Said again, it replaces what it
        said before; an output that is stored over an input is held as the input is. A temporary is held where it is
        computed. Raises `CommandError` for anything else than an input or an output in host memory, or where the
        number of entries is not that of the axes of the process grid.
        """
        self._function.apply(Distribute(self._named, iterators, rank=rank, bounds=bounds))
        return self


class RankCommands(AppliedStatements):
    """How the loops of a computation are dealt out to ranks."""

    def tag_distribute(
        self,
        *loops: Iter,
        axis: int | None = None,
        drop_rank_iter: bool = True,
        combine: Combine | None = None,
        bounds: object = None,
    ) -> Self:
        """Run the iterations of a loop on ranks: iteration q on rank q, of several loops on a process grid.

        ::

            for q in 0..P:          -->   on rank q:
                for r1 in 0..B:               for r1 in 0..B:
                    S[B*q + r1]                   S[B*q + r1]      (tag_distribute(q))

        The first loop is along axis 0 of the grid, the second along axis 1; a single one may be along another `axis`.
        Ranks are numbered row by row: on a grid of 2 x 3, rank 4 has the coordinates (1, 1). The loop may be anywhere
        in the nest, outside of loops that run on threads or on a GPU. What has no loop along an axis is executed by
        every rank along it. A rank keeps its own part of what is stored; with ``drop_rank_iter=False`` it keeps arrays
        in full, at their global indices. Over the loop of a reduction, ``combine=tm.PRIVATE`` lets each rank add up its
        own terms; at the end of the loop all ranks along its axis combine them (MPI_Allreduce), each starts and has the
        value, and the order is MPI's. No combination with `bounds`.
        The grid is as large as the loops need, or as `Function.grid` says.
        With ``bounds=(lo, hi)``, parameters that `Function.blocks` declared, a rank runs the iterations from lo up to
        hi, one after another; their values are its own, and known at run time.
        Source: TIRAMISU, ``tag_distribute_level``.
        """
        command = TagDistribute(
            self._named, loops, axis=axis, drop_rank_iter=drop_rank_iter, combine=combine, bounds=bounds
        )
        self._apply(command)
        return self

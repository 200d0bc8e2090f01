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
    """An array that the caller passes or receives, and that ranks may hold in parts."""

    name: str

    def distribute(self, iterators: Sequence[Iter], rank: object, bounds: object = None) -> Self:
        """Let each rank hold a part of the array: the element at ``[iterators]`` is on rank `rank`.

        A second call replaces the first.

        ::

            on each rank: image[r, c]     -->     on rank q: image[r, c] where r // B == q

            image.distribute([r, c], rank=r // B)           rows r with r // B == q on rank q (blocks)
            image.distribute([r, c], rank=(r // B) % P)     blocks of B rows, dealt out to P ranks in turn
            image.distribute([r, c], rank=tm.pieces(r, [H]))    rows below H on rank 0, others on rank 1
            image.distribute([r, c], rank=0)                all of it on rank 0
            image.distribute([r, c], rank=None)             all of it on every rank, as without the command
            a.distribute([i, j], rank=(i // B, j // B))     tiles on a process grid
            a.distribute([i, j], rank=(i // B, None))       rows; the same on all ranks along the second axis
            image.distribute([r, c], rank=r, bounds=(lo, hi))   the rows of the rank's block (Function.blocks)

        The points at which pieces are cut may be parameters, chosen when the function is called (`tm.pieces`). On each
        rank the caller passes the part that the rank holds, without gaps, and receives its part of an output; the
        algorithm and the commands still use indices into the whole array. An output stored over an input is held like
        the input. A temporary is held where it is computed. Raises `CommandError` for anything but an input or an
        output in host memory, and if the number of entries is not the number of axes of the process grid.
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
        """Run the iterations of a loop on ranks: iteration q on rank q; several loops run on a process grid.

        ::

            for q in 0..P:          -->   on rank q:
                for r1 in 0..B:               for r1 in 0..B:
                    S[B*q + r1]                   S[B*q + r1]      (tag_distribute(q))

        The first loop is along axis 0 of the grid, the second along axis 1; a single one may be along another `axis`.
        Ranks are numbered row by row: on a grid of 2 x 3, rank 4 has the coordinates (1, 1). The loop may be anywhere
        in the nest, outside of loops that run on threads or on a GPU. A statement without a loop along an axis is
        executed by every rank along it. A rank keeps its own part of the stored values; with ``drop_rank_iter=False``
        it keeps arrays in full, at their global indices. Over the loop of a reduction, ``combine=tm.PRIVATE`` lets each
        rank add up its own terms; at the end of the loop all ranks along its axis combine them (MPI_Allreduce, in an
        order chosen by MPI; with ``combine=tm.TREE`` by halves of their numbers). Each rank runs the start of the
        reduction, and has its value in the end. `combine` cannot be used with `bounds`. The grid is as large as the
        loops need, or as `Function.grid` declares it. With ``bounds=(lo, hi)``, parameters that `Function.blocks`
        declared, a rank runs the iterations from lo up to hi, one after another; the bounds differ by rank, and are
        known at run time. Source: TIRAMISU, ``tag_distribute_level``.
        """
        command = TagDistribute(
            self._named, loops, axis=axis, drop_rank_iter=drop_rank_iter, combine=combine, bounds=bounds
        )
        self._apply(command)
        return self

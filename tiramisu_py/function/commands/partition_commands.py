"""The command that deals a computation out to threads of the host, GPUs and ranks: partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.function.applying.applied import AppliedStatements, as_list
from tiramisu_py.program.targets import Target
from tiramisu_py.schedule.instances.partition import DealOut, Where

if TYPE_CHECKING:
    from tiramisu_py.function.handles.selection import Selection


class PartitionCommands(AppliedStatements):
    """How the iterations of a loop are dealt out to devices and ranks."""

    def partition(self, level: Iter, where: Where, targets: Sequence[Target]) -> tuple[Selection, ...]:
        """Cut the computation into parts at a level, and let each run on a target: threads of the host, or a GPU.

        ::

            for r in 0..R:          -->   kernel on GPU 0:
                for c in 0..C:                r in 0..G, c in 0..C: by_0[r, c]
                    by[r, c]              #pragma omp parallel for
                                          for r in G..R:
                                              for c in 0..C: by_1[r, c]    (partition(r, [G], [tm.gpu(), tm.cores()]))

        `where` says which iterations of the level each target gets::

            by.partition(r, [G, H], targets)              points, one fewer than targets: r < G, G <= r < H, H <= r
            by.partition(r, tm.shares(3, 1), targets)     shares of the level, one for each target
            by.partition(r, [(0, G), (G, R)], targets)    ranges from a lower bound up to an upper one, likewise

        Points and bounds are integers or affine in the parameters; a parameter makes a split that is chosen at run
        time, without compiling again. Each iteration belongs to exactly one part, which the command proves; a part may
        be empty. In a program with ranks, a target says on which ranks it runs::

            by.partition(r, [G, H], [tm.gpu(ranks=0), tm.cores(ranks=0), tm.cores(ranks=1)])
            by.partition(r, [G], [tm.gpu(ranks=range(0, 2)), tm.cores(ranks=range(2, 4))])

        Then each part has a loop over its ranks just outside of the level (``r_rank``), tagged as by `tag_distribute`;
        several ranks get consecutive blocks, whose sizes differ by at most one iteration. `Function.derive_transfers`
        adds transfers, waits and messages between the parts. The statements of a reduction are cut alike, at a loop
        that both its start and its update have.

        Returns the parts, in order: ``by_0``, ``by_1``, which can be scheduled further like those of `separate_at`; the
        loops of a part are new, for example ``r_block`` and ``r_thread`` on a GPU (see `gpu`, `cores`).
        `Program.partitions` keeps the record. Raises `CommandError` for a loop that does not exist, is tagged, or is
        shared with other computations, for points, shares or ranges that do not fit the targets, and, with the smallest
        counterexample, for ranges that overlap or leave something out. Source: TIRAMISU, ``separate_at`` and
        ``rank_offset``.
        """
        self._apply(DealOut(self._named, level, as_list(where), targets))
        return self._pieces(self._function.program.partitions[-1].parts)

    if TYPE_CHECKING:  # defined in `Selection`

        def _pieces(self, groups: Sequence[tuple[str, ...]]) -> tuple[Selection, ...]: ...

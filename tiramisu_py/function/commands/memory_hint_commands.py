"""Commands on the way between a computation and memory: store_nontemporal and prefetch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.errors import CommandError
from tiramisu_py.function.applying.applied import AppliedStatements, Nameable
from tiramisu_py.schedule.storage.memory_hints import MOST_LOCAL, Prefetch, StoreNontemporal

if TYPE_CHECKING:
    from tiramisu_py.function.handles.computations import Input


class StoreCommands(AppliedStatements):
    """How a computation writes to memory, and reads it."""

    def store_nontemporal(self, *, above: int | None = None) -> Self:
        """Write what is computed to memory past the caches, in calls whose arrays are too large for them.

        ::

            for r, for c in vectors:  -->   if the arrays have more than `above` bytes, and addresses fit:
                by[r, c] = ..                   for r, for c in vectors: by[r, c] = ..      (past the caches)
                                            else:
                                                for r, for c in vectors: by[r, c] = ..

        An ordinary store first reads its cache line from memory; one past the caches only writes, which saves a third
        to a half of the time of what only streams through memory, and costs time where the arrays fit the caches. So
        both versions are in the library, and each call chooses: `above` bytes (of all arrays of the caller's that the
        function uses, together) are by default 3/4 of the last-level cache of the machine that it runs on; of several
        bounds the least counts. ``above=0`` means whenever it can be. Each thread makes sure that its stores have
        arrived before others go on.

        Only whole vectors (of `vectorize`, 16 bytes and more) that begin at multiples of their size can be stored past
        the caches. The call looks: rows must be multiples of a vector long, and the array must begin where the loop
        then stores aligned vectors; otherwise all is stored as ever. Results that a compiled function allocates begin
        at such addresses, `Kernel.empty` makes others; ``np.empty`` does not promise it. What is not vectorized, and
        the iterations that are left over, is stored as ever. Where neither GCC's x86 instructions nor Clang's
        non-temporal stores are there, everything is.

        Raises `CommandError` for updates of a reduction, which read what they store, for what GPUs do, and for what is
        in registers.
        """
        self._apply(StoreNontemporal(self._named, above=above))
        return self

    def prefetch(
        self, read: AppliedStatements | Input, level: Iter, distance: int = 4, *, locality: int = MOST_LOCAL
    ) -> Self:
        """Ask for what a later iteration of a loop will read, so that it is in the caches by then.

        ::

            for r, for c in vectors:  -->   for r, for c in vectors:
                by[r, c] = a[r, c] ..           prefetch a[r, c + 256]
                                                by[r, c] = a[r, c] ..       (prefetch(a, c, 256))

        In each iteration of `level` (a loop of this computation; of two of one name, the inner one that what is read
        depends on) what it reads of `read`, an input or a computation in memory, is prefetched as it will be read
        `distance` iterations later: one element of each cache line, and none in the iterations that vectors leave over.
        The processor finds plain streams by itself; this is for many rows at once, strides, and the next block.
        `locality` is 0 for what is needed once, to 3 for what should stay in all caches. Nothing is read: what would be
        outside the array does no harm. Say it when the loops are as they shall be: `check()` refuses a prefetch whose
        loop a later command takes away. A second call for the same array and loop replaces the first.

        Raises `CommandError` where nothing of `read` is read in such a loop or the place does not move with it (what is
        computed at a consumer's loop moves with its own loops), for GPUs and registers, and where what is read depends
        on other values.
        """
        if not isinstance(read, Nameable) or read._function is not self._function:
            raise CommandError(
                f"{read!r} is neither an input nor a computation of {self._function.name}: give what the declaration "
                f"gave back, or {self._function.name}[name]"
            )
        self._apply(Prefetch(self._named, read._named, level, distance, locality=locality))
        return self

"""Commands on the memory accesses of a computation: store_nontemporal and prefetch."""

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
        """Store results to memory past the caches, in calls whose arrays are too large for them.

        ::

            for r, for c in vectors:  -->   if the arrays have more than `above` bytes, and addresses fit:
                by[r, c] = ..                   for r, for c in vectors: by[r, c] = ..      (past the caches)
                                            else:
                                                for r, for c in vectors: by[r, c] = ..

        An ordinary store first reads its cache line from memory; a store past the caches only writes. This saves a
        third to a half of the time of loops that only stream through memory, and costs time if the arrays fit the
        caches. So the library contains both versions, and each call chooses: `above` (the bytes of all arrays of the
        caller that the function uses, together) is by default 3/4 of the last-level cache of the machine that it runs
        on (a virtual machine may see more than its cores can have, which is 48 MiB for each); the least of several
        bounds counts. ``above=0`` means whenever possible. Each thread makes sure that its stores have arrived before
        others continue.

        Only whole vectors (of `vectorize`, 16 bytes and more) that begin at multiples of their size can be stored past
        the caches. Each call checks this: rows must be multiples of a vector long, and the array must begin at an
        address that makes the vectors aligned; otherwise all stores are ordinary. Results that a compiled function
        allocates begin at such addresses, and so do arrays of `Kernel.empty`; ``np.empty`` does not promise it. Code
        that is not vectorized, and the remaining iterations of vectors, use ordinary stores, and so does all code where
        neither GCC's x86 instructions nor Clang's non-temporal stores are available.

        Raises `CommandError` for updates of a reduction, which read what they store, for statements on GPUs, and for
        values in registers.
        """
        self._apply(StoreNontemporal(self._named, above=above))
        return self

    def prefetch(
        self, read: AppliedStatements | Input, level: Iter, distance: int = 4, *, locality: int = MOST_LOCAL
    ) -> Self:
        """Prefetch the elements that a later iteration of a loop will read, so that they are in the caches by then.

        ::

            for r, for c in vectors:  -->   for r, for c in vectors:
                by[r, c] = a[r, c] ..           prefetch a[r, c + 256]
                                                by[r, c] = a[r, c] ..       (prefetch(a, c, 256))

        Each iteration of `level` prefetches the elements of `read` (an input, or a computation in memory) that will be
        read `distance` iterations later: one element of each cache line, and none in the remaining iterations of
        vectors. `level` is a loop of this computation; of two with one name, it is the inner one on which the access
        depends. The processor finds plain streams by itself; this is for many rows at once, strides, and the next
        block. `locality` ranges from 0, for elements needed once, to 3, for elements that should stay in all caches.
        Nothing is read, so addresses outside the array do no harm. Give the command when the loops are final: `check()`
        refuses a prefetch whose loop a later command removes. A second call for the same array and loop replaces the
        first.

        Raises `CommandError` if `read` is not read in such a loop, if the place read does not move with the loop (a
        computation at a consumer's loop moves with its own loops), for GPUs and registers, and if the indices depend on
        other values.
        """
        if not isinstance(read, Nameable) or read._function is not self._function:
            raise CommandError(
                f"{read!r} is neither an input nor a computation of {self._function.name}: give what the declaration "
                f"gave back, or {self._function.name}[name]"
            )
        self._apply(Prefetch(self._named, read._named, level, distance, locality=locality))
        return self

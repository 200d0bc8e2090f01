"""Commands on the way between a computation and memory: store_nontemporal."""

from __future__ import annotations

from typing import Self

from tiramisu_py.function.statements import Statements
from tiramisu_py.schedule import stores


class StoreCommands(Statements):
    """How a computation writes to memory."""

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
        names = self.statement_names()
        self._apply("store_nontemporal", (), {"above": above},
                    lambda p, _: stores.store_nontemporal(p, names, above))  # fmt: skip
        return self

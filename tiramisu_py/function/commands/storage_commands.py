"""Commands on storage: store_in, store_at, slide, fold, keep and place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from tiramisu_py.algorithm.expressions import Expr, Iter
from tiramisu_py.function.applying.applied import AppliedStatements, Level, Nameable, as_list
from tiramisu_py.program.machine.pages import Policy
from tiramisu_py.program.storage import Buffer, Memory
from tiramisu_py.schedule.locality.compute_at import StoreAt
from tiramisu_py.schedule.locality.slide import Slide
from tiramisu_py.schedule.ranks.store_in import StoreIn
from tiramisu_py.schedule.storage.fold import Fold
from tiramisu_py.schedule.storage.keep import Keep
from tiramisu_py.schedule.storage.place import Place

if TYPE_CHECKING:
    from tiramisu_py.function.handles.computations import Input


class StorageCommands(AppliedStatements):
    """Commands on the buffer of a computation."""

    def store_in(
        self,
        buffer: Buffer | Input | AppliedStatements | Memory | str | Sequence[Expr | int],
        indices: Sequence[Expr | int] | None = None,
        *,
        device: int = 0,
    ) -> Self:
        """Keep the values in another buffer or with another layout; a second call replaces the first.

        ::

            for i, for j:           -->   for i, for j:
                c at c[i, j]                  c at c[j, i]                (c.store_in([j, i]))

        ``p.store_in(tm.Buffer("two", [2], tm.float32), [i % 2])`` folds p to two elements; ``c.store_in([j, i])``
        transposes its own array; ``c.store_in(a, [i])`` overwrites the input a (in place); ``p.store_in(tm.REGISTER)``
        keeps its current buffer in registers, ``p.store_in(tm.SHARED)`` in the shared memory of each block of a kernel,
        ``p.store_in(tm.GPU)`` in the memory of GPUs alone; ``tm.PINNED`` is page-locked memory of the host, and
        ``tm.HOST_MAPPED`` is page-locked memory that GPUs address too. Names are also accepted:
        ``p.store_in("shared")``. An output in ``tm.GPU`` is an array of the caller on the GPU `device`. Indices are
        affine in the iterators, with floor division and modulo, or count rows: ``i * M + j`` in a buffer of extent
        ``N * M``. It is proven that no value is overwritten before its
        last use. All statements of a computation (parts of `separate_at`, start and update of a reduction) store to one
        buffer: give the command to the computation; it is refused for one of several parts. For an output, this buffer
        is then the caller's array, with its layout (`evaluate` uses the plain one), and may be a part of another array:
        ``o.store_in(tm.Buffer("part", [N, M], tm.float32, strides=[S, 1]), [i, j])``.
        """
        into: Any = buffer._named if isinstance(buffer, Nameable) else buffer
        self._apply(StoreIn(self._named, into, as_list(indices), device=device))
        return self

    def store_at(self, consumer: AppliedStatements, level: Level) -> Self:
        """Keep one copy of the buffer for each iteration of a surrounding loop (at `root`: one for the whole call).

        ::

            for r0:                 -->   for r0:
                for r1:                       allocate bx
                    allocate bx               for r1:
                    bx[..]                        bx[..]
                    by[..] = f(bx)                by[..] = f(bx)          (bx.store_at(by, r0))

        The buffer shrinks to the values of one iteration; a layout of `store_in` or `fold` is kept, in either order.
        """
        self._apply(StoreAt(self._named, self._other(consumer), level))
        return self

    def slide(self, level: Iter, along: Iter | None = None, by: int | None = None, *, origin: int = 0) -> Self:
        """Compute, in each iteration of a loop, only values that no earlier one has, and keep those read later.

        ::

            for r1 in 0..n:                -->   for r1 in -2..n:
                for r in r1..r1+3: bx[r - r1]        bx[(r1 + 2) % 3]                   (row r1 + 2)
                by[r1] = f(bx[0], bx[1], bx[2])      if r1 >= 0: by[r1] = f(bx[r1 % 3], bx[(r1 + 1) % 3], ...)

        First ``bx.compute_at(by, r1)``, then ``bx.slide(r1)``: `level` is a sequential loop of the consumer, in each
        iteration of which the values are recomputed. Each iteration then computes one strip of `by` values along one
        index: that of the own loop `along`, or the only one that moves with `level`. Strip ``floor((x - origin) / by)``
        runs `lead` iterations before the iteration of the same number. The lead is the least constant for which every
        value exists when it is first read, so that the loop begins with iterations that only compute in advance. `by`
        is the distance by which an iteration advances: 1 for a loop over rows, 16 for one over strips of 16 columns.
        Along other indices values are recomputed as before. If the window moves by one value in a few iterations, as
        that of an upsampled image does (``p[y // 2]``), the first of these computes it.

        The buffer has one copy for each iteration of the loops outside `level`, folded along that index to a ring: it
        keeps the fewest strips (index ``x % (by * n)``) for which no value is overwritten before its last use. A buffer
        placed further out by `store_in` or `store_at` stays as it is; see `fold`. In registers
        (``v.store_in(tm.REGISTER)``), with the loops over the other indices unrolled and `along` in vectors, the ring
        is a window of named vectors: each iteration ends with moves from one to the next, and a read at an unaligned
        distance combines two neighbours in one instruction. Copies made by `cache` slide as well, so that each vector
        of an input is loaded once. If several computations slide, give the command to consumers first.
        """
        self._apply(Slide(self._named, level, along, by, origin=origin))
        return self

    def fold(self, dim: Iter, modulo: int) -> Self:
        """Keep `modulo` elements along one index in the current buffer, and reuse them cyclically.

        ::

            bx[r, c]                        -->   bx[r % 3, c]                                     (fold(r, 3))

        The buffer may be local to a loop by `store_at` or `compute_at` (before or after), or be one of the whole call;
        `slide` folds by itself. It is proven that no value is overwritten before its last use.
        """
        self._apply(Fold(self._named, dim, modulo))
        return self

    def keep(self) -> Self:
        """Let the caller keep the values of an input that are packed once, and pass them in place of the input.

        ::

            conv(pictures, weights):             -->   conv_pack_weights(weights, weights_packed):
                weights_packed[..] = weights[..]           weights_packed[..] = weights[..]
                total[..] += .. weights_packed[..]     conv(pictures, weights_packed):
                                                           total[..] += .. weights_packed[..]

        It is for a copy made by `pack` for the whole call, and for a computation at the top of the program; they are
        made from one array of the caller, and everything else reads what is packed. All operands kept of one input are
        made by one function: ``packed = kernel.pack("weights", weights)`` calls it, and ``kernel(pictures, packed)``
        takes the result, for any number of pictures. Given a plain array, a call packs it first. For C programs the
        function is in the header, with the layout of the array and a function for its size.
        """
        self._apply(Keep(self._named))
        return self

    def place(self, policy: Policy | str, *, node: int | None = None) -> Self:
        """Choose on which memory nodes (sockets) of the machine the pages of a temporary are.

        ::

            allocate bx             -->   allocate bx, each page on the node of the thread that first writes to it
                                          allocate bx, page k on node k mod (number of nodes)
                                          allocate bx, all pages on node 1
                                                         (bx.place("local"), ("interleave"), ("bind", node=1))

        ``bx.place("local")``: fresh pages, each on the node of the thread that first writes to it;
        ``bx.place("interleave")``: cyclically on all nodes; ``bx.place("bind", node=1)``: all on one, which must exist
        where the function is called. Nothing but the program's own loops touches the pages first. Pages are mapped and
        given back in each call (with `store_at`, in each iteration), which does not pay for small buffers. On a machine
        without memory nodes the policy makes no difference: see `Kernel.placement`. The policy stays with the buffer,
        and follows the values if `store_in` moves them. Raises `CommandError` for buffers that are not in ordinary
        memory of the host, and for arrays of the caller (`Kernel.empty` makes those).
        """
        self._apply(Place(self._named, policy, node=node))
        return self

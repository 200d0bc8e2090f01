"""Commands on storage: store_in, store_at, slide, fold and place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from tiramisu_py.algorithm.expressions import Expr, Iter
from tiramisu_py.errors import CommandError, DeclarationError
from tiramisu_py.function.applying.as_written import unless
from tiramisu_py.function.applying.statements import Level, Statements
from tiramisu_py.program.pages import Policy, as_policy
from tiramisu_py.program.program import Program
from tiramisu_py.program.storage import Buffer, Memory, as_memory
from tiramisu_py.schedule.arguments import size
from tiramisu_py.schedule.locality import compute_at as recompute
from tiramisu_py.schedule.locality import slide as sliding
from tiramisu_py.schedule.loops.order import Root
from tiramisu_py.schedule.ranks import distribute as ranks
from tiramisu_py.schedule.ranks import exchange as messages
from tiramisu_py.schedule.storage import fold as folds
from tiramisu_py.schedule.storage import pages as policies
from tiramisu_py.schedule.storage import store as placement
from tiramisu_py.schedule.storage.shared_scope import settled

if TYPE_CHECKING:
    from tiramisu_py.function.handles.computations import Input


class StorageCommands(Statements):
    """What the buffer of a computation can be told."""

    def store_in(
        self,
        buffer: Buffer | Input | Statements | Memory | str | Sequence[Expr | int],
        indices: Sequence[Expr | int] | None = None,
        *,
        device: int = 0,
    ) -> Self:
        """Keep the values in another buffer or with another layout; a second call replaces the first.

        ``p.store_in(tm.Buffer("two", [2], tm.float32), [i % 2])`` folds p to two elements; ``c.store_in([j, i])``
        transposes its own array; ``c.store_in(a, [i])`` overwrites the input a (in place); ``p.store_in(tm.REGISTER)``
        keeps its present buffer in registers, ``p.store_in(tm.SHARED)`` in the shared memory of each block of a kernel,
        ``p.store_in(tm.GPU)`` in the memory of GPUs alone; ``tm.PINNED`` is page-locked memory of the host, and
        ``tm.HOST_MAPPED`` such memory that GPUs address too. Their names will do: ``p.store_in("shared")``. An output
        in ``tm.GPU`` is an array of the caller on the GPU `device`. Indices are affine, with floor division and modulo,
        in the iterators. That no value is overwritten before its last use is proven. All statements of a computation
        (parts of `separate_at`, start and update of a reduction) store to its one buffer: the command is given to the
        computation, and refused for one of several parts. Of an output, the
        caller's array is then this buffer, with its layout (`evaluate` keeps to the plain one).
        """
        into, at = self._target(buffer, indices)
        names = self.statement_names()
        written = (buffer,) if indices is None else (buffer, list(indices))
        self._apply(
            "store_in", written, {"device": device or None},
            lambda p, _: _shared_out(
                settled(placement.store_in(p, self._source, names, into, at, size(device, "device", 0)))
            ),
        )  # fmt: skip
        return self

    def _target(
        self, given: object, indices: Sequence[object] | None
    ) -> tuple[Buffer | str | Memory | None, Sequence[object] | None]:
        if isinstance(given, Buffer | Memory):
            return given, indices
        if isinstance(given, str):
            return self._named_memory(given), indices
        if isinstance(given, list | tuple):
            if indices is not None:
                raise CommandError(f"{self}.store_in takes a buffer and indices, or indices alone")
            return None, given
        name = getattr(given, "name", None)
        if name not in self._function.program.storages:
            raise CommandError(
                f"{given!r} is not a buffer: use tm.Buffer(name, extents, type), an input or a computation"
            )
        return str(name), indices

    def _named_memory(self, name: str) -> Memory:
        try:
            return as_memory(name)
        except DeclarationError as error:
            raise CommandError(f"{self}.store_in: {error}; or a tm.Buffer, an input or a computation") from None

    def store_at(self, consumer: Statements, level: Level) -> Self:
        """Keep one copy of the buffer for each iteration of a loop around (at `root`: one for the whole call).

        The buffer shrinks to what one iteration keeps; a layout of `store_in` or `fold` stays, in either order.
        """
        names, others = self.statement_names(), self._others(consumer)

        def change(p: Program, _: str) -> Program:
            scope = () if isinstance(level, Root) else recompute.scope_of(p, others, level)
            return settled(placement.store_at(p, self._source, names, scope))

        self._apply("store_at", (consumer, level), {}, change)
        return self

    def slide(self, level: Iter, along: Iter | None = None, by: int | None = None, *, origin: int = 0) -> Self:
        """Compute, in each iteration of a loop, only what no earlier one has, and keep what later ones read.

        ::

            for r1 in 0..n:                -->   for r1 in -2..n:
                for r in r1..r1+3: bx[r - r1]        bx[(r1 + 2) % 3]                   (row r1 + 2)
                by[r1] = f(bx[0], bx[1], bx[2])      if r1 >= 0: by[r1] = f(bx[r1 % 3], bx[(r1 + 1) % 3], ...)

        First ``bx.compute_at(by, r1)``, then ``bx.slide(r1)``: `level` is a loop of the consumer, in each iteration of
        which the values are recomputed; its iterations follow one another. Strips of `by` values along one index (that
        of the own loop `along`; the one that moves with `level`, where there is just one) are computed one an
        iteration: strip ``floor((x - origin) / by)`` runs `lead` iterations before the one of its own number, the least
        constant lead with which every value is there when it is first read, so that the loop begins with iterations
        that only compute in advance. `by` is what one iteration moves on by: 1 for a loop over rows, 16 for one over
        strips of 16 columns. Along other indices values are recomputed as before.

        The buffer has one copy for each iteration of the loops outside `level`, folded along that index: it keeps the
        fewest strips (index ``x % (by * n)``) with which no value is overwritten before its last use, a ring; one that
        was placed by `store_in` or `store_at` further out stays as it is, see `fold`. In registers
        (``v.store_in(tm.REGISTER)``), with the loops over the other indices unrolled and `along` in vectors, the ring
        is a window of named vectors: each iteration ends with moves from one to the next, and what is read at an
        unaligned distance comes from two neighbours by one instruction. Copies made by `cache` slide as well, so that
        each vector of an input is loaded once. Of several that slide, consumers come first.
        """
        names = self.statement_names()
        positional: tuple[object, ...] = (level,)
        shown: dict[str, object] = {"origin": unless(0, origin)}
        if along is not None:
            positional = (level, along) if by is None else (level, along, by)
        else:
            shown["by"] = by
        self._apply(
            "slide", positional, shown,
            lambda p, _: sliding.slide(p, self._source, names, level, along, by, origin),
        )  # fmt: skip
        return self

    def fold(self, dim: Iter, modulo: int) -> Self:
        """Keep `modulo` elements along one index in the present buffer, and use them again in turn.

        ::

            bx[r, c]                        -->   bx[r % 3, c]                                     (fold(r, 3))

        For a buffer that `store_at` or `compute_at` gives to a loop (before or after), as for one of the whole call;
        `slide` folds by itself. That no value is overwritten before its last use is proven.
        """
        names = self.statement_names()
        self._apply("fold", (dim, modulo), {}, lambda p, _: folds.fold(p, self._source, names, dim, modulo))
        return self

    def place(self, policy: Policy | str, *, node: int | None = None) -> Self:
        """Say on which memory nodes (sockets) of the machine the pages of a temporary are.

        ``bx.place("local")``: fresh pages, each on the node of the thread that first writes to it;
        ``bx.place("interleave")``: in turn on all nodes; ``bx.place("bind", node=1)``: all on one, which must exist
        where the function is called. Nothing but the program's own loops touches the pages first. They are mapped and
        given back in each call (in each iteration, with `store_at`), which small buffers are not worth. Without
        memory nodes it makes no difference: see `Kernel.placement`. The policy stays with the buffer, and goes with
        the values where `store_in` moves them. Raises `CommandError` for what is not in ordinary memory of the host,
        and for arrays of the caller (`Kernel.empty` makes those).
        """
        names = self.statement_names()
        try:
            chosen = as_policy(policy)
        except DeclarationError as error:
            raise CommandError(f"{self}.place: {error}") from None
        self._apply(
            "place", (policy,), {"node": node},
            lambda p, _: policies.place(p, self._source, names, chosen, node),
        )  # fmt: skip
        return self


def _shared_out(program: Program) -> Program:
    """The program with arrays of the caller that ranks can hold as they are stored; refuses what they cannot."""
    return ranks.held_alike(messages.check_still_sent(program))

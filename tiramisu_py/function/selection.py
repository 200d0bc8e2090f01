"""The scheduling commands, as methods: what a computation, or a part of one, can be told.

Every command checks its arguments, returns its handle (or the new ones), and leaves the program as it was when it
raises `CommandError`. Whether the result is right is proven by `Function.check`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from tiramisu_py.algorithm.expressions import Expr, Iter
from tiramisu_py.errors import CommandError
from tiramisu_py.function.case_commands import CaseCommands
from tiramisu_py.function.gpu_commands import GpuCommands
from tiramisu_py.function.loop_commands import LoopCommands
from tiramisu_py.function.operations import Awaitable
from tiramisu_py.function.order_commands import OrderCommands
from tiramisu_py.function.partition_commands import PartitionCommands
from tiramisu_py.function.rank_commands import RankCommands
from tiramisu_py.function.statements import Level
from tiramisu_py.function.storage_commands import StorageCommands
from tiramisu_py.function.store_commands import StoreCommands
from tiramisu_py.function.time_commands import TimeCommands
from tiramisu_py.program.program import Program
from tiramisu_py.program.storage import Memory, as_memory
from tiramisu_py.schedule import caches, copies, parts, raw, recompute
from tiramisu_py.schedule.order import root
from tiramisu_py.schedule.selection import free_name, loop_name

if TYPE_CHECKING:
    from tiramisu_py.function.handles import Input
    from tiramisu_py.function.scheduled import Scheduled


class Selection(
    LoopCommands,
    GpuCommands,
    RankCommands,
    OrderCommands,
    StorageCommands,
    StoreCommands,
    PartitionCommands,
    TimeCommands,
    CaseCommands,
    Awaitable,
):
    """Some statements of one computation; the commands apply to those that have the loop that is named."""

    def separate_at(self, loop: Iter, points: Sequence[Expr | int]) -> tuple[Selection, ...]:
        """Cut the computation into parts at values of a loop; each part is scheduled apart.

        ::

            for i in 0..N: S[i]     -->   for i in 0..8: S_0[i]
                                          for i in 8..N: S_1[i]           (separate_at(i, [8]))

        Points are integers or affine in the parameters; parts may be empty. ``separate_at(tm.rank, [1])`` parts the
        first rank from the others, wherever the loop over ranks is. Returns the parts, in order.
        """
        names = self.statement_names()
        self._apply("separate_at", (loop, points), {}, lambda p, _: parts.separate_at(p, names, loop, points))
        return self._parts()

    def _parts(self) -> tuple[Selection, ...]:
        return tuple(Part(self._function, self._source, name) for name in self.statement_names())

    def _made(self, names: Sequence[str]) -> tuple[Selection, ...]:
        return tuple(Part(self._function, self._source, name) for name in names)

    def _pieces(self, groups: Sequence[tuple[str, ...]]) -> tuple[Selection, ...]:
        made = [Piece(self, f"{self.name}_{k}", names) for k, names in enumerate(groups)]
        return tuple(piece._each[0] if len(piece._each) == 1 else piece for piece in made)

    def get_update(self, number: int) -> Selection:
        """The part (or, of a reduction, the statement) with this number: 0 for the first."""
        found = self._parts()
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < len(found):
            raise CommandError(f"{self} has {len(found)} statements: {number!r} is not one of 0 to {len(found) - 1}")
        return found[number]

    # -- recomputation

    def compute_at(self, consumer: Selection, level: Iter) -> Self:
        """Compute, in each iteration of a loop of the consumer, the values that this iteration reads.

        ::

            for r, for c: bx[r, c]  -->   for r0, for c0:
            for r0, c0, r1, c1:               for r, for c: bx[r, c]      (what the tile needs)
                by[..]                        for r1, for c1: by[..]

        Values that several iterations need are recomputed. The buffer shrinks to what one iteration needs, with one
        copy for each; outputs, and computations placed by `store_in` or `store_at`, keep their place.
        Source: Halide and TIRAMISU, ``compute_at``.
        """
        names, others = self.statement_names(), self._others(consumer)
        self._apply("compute_at", (consumer, level), {},
                    lambda p, text: recompute.compute_at(p, self._source, names, others, level, text))  # fmt: skip
        return self

    def inline(self) -> Self:
        """Substitute the expression where it is read; the computation keeps no buffer and no loop of its own.

        ::

            p[i] = 2 * a[i]         -->   q[i] = 2 * a[i] + 1
            q[i] = p[i] + 1
        """
        names = self.statement_names()
        self._apply("inline", (), {}, lambda p, _: parts.inline(p, names, self._source))
        return self

    def set_schedule(self, text: str) -> Self:
        """Replace all loops by those of an isl map: ``"{ [i, j] -> [d, j] : d = i + j }"``.

        The map takes the statement's instances to its loops, outermost first; names of output dimensions become the
        names of the loops (t0, t1, ... where they have none). Raises `CommandError` for a map that leaves out
        instances, is not single-valued, or has several pieces.
        """
        names = self.statement_names()
        self._apply("set_schedule", (text,), {}, lambda p, _: raw.raw_schedule(p, names, text))
        return self

    def cache(
        self,
        source: Selection | Input,
        level: Level,
        iterators: Sequence[Iter],
        *,
        name: str | None = None,
        memory: Memory | str = Memory.HOST,
        layout: Sequence[Expr | int] | None = None,
    ) -> Selection:
        """Copy what this computation reads of a source, at a level of its loops, and read the copy instead.

        ::

            for r0: for r1, for c:  -->   for r0:
                by[..] = image[..]            for y, for x: image_cache[y, x] = image[..]
                                              for r1, for c: by[..] = image_cache[..]

        `iterators` name the loops of the copy, one for each dimension of the source. `layout` gives the index in the
        copy as expressions of the iterators, counted from the corner of what is copied: ``layout=[x // 8, y, x % 8]``.
        Returns the copy, which can be scheduled like a computation.
        """
        return self._copy("cache", source, level, iterators, name, as_memory(memory), layout)

    def pack(
        self,
        source: Selection | Input,
        iterators: Sequence[Iter],
        layout: Sequence[Expr | int],
        *,
        level: Level = root,
        name: str | None = None,
    ) -> Selection:
        """Copy what is read of a source into another layout, once for the whole call or at a level: see `cache`."""
        return self._copy("pack", source, level, iterators, name, Memory.HOST, layout)

    def _copy(
        self,
        command: str,
        source: Selection | Input,
        level: Level,
        iterators: Sequence[Iter],
        name: str | None,
        memory: Memory,
        layout: Sequence[Expr | int] | None,
    ) -> Selection:
        names, origin = self.statement_names(), self._copied(source)
        made = name or f"{origin}_{'packed' if command == 'pack' else 'cache'}"
        laid_out = None if layout is None else tuple(layout)
        copy = copies.Copy(made, origin, tuple(map(loop_name, iterators)), memory, laid_out)
        shown: dict[str, object] = {"name": name, "memory": memory if memory is not Memory.HOST else None}
        if command == "pack":
            written: tuple[object, ...] = (source, list(iterators), list(laid_out or ()))
            shown["level"] = None if level is root else level
        else:
            written = (source, level, list(iterators))
            shown["layout"] = layout
        self._apply(command, written, shown, lambda p, text: copies.copy_at(p, names, level, copy, text))
        return Part(self._function, origin, made)

    def cache_shared(
        self,
        source: Selection | Input,
        level: Iter,
        iterators: Sequence[Iter],
        *,
        threads: Sequence[Iter] | None = None,
        pad: int = 0,
        deferred: bool = False,
        buffers: int = 1,
        vector: int = 1,
        layout: Sequence[Expr] | None = None,
        name: str | None = None,
    ) -> Selection:
        """Copy what a block of threads reads of a source into its shared memory, and read the copy.

        ::

            for r0, c0 on blocks:         -->   for r0, c0 on blocks:
                for r1, c1 on threads:              for y, x on threads: image_shared[y, x] = image[..]
                    by[..] = f(image)               for r1, c1 on threads: by[..] = f(image_shared)

        `level` is the innermost block loop, or a loop inside: in each iteration of the sequential loops down to it the
        copy is made anew. (A thread loop as the level changes nothing: the copy is for all threads of the block.)
        `iterators` name its loops, one for each dimension of the source. The threads of the block share the
        work, neighbours taking neighbours along the last dimension; `threads` names iterators that run on threads,
        the last along x, instead. `pad` adds elements to the last dimension, so that columns lie in different banks.
        With `deferred` the copies are only started, and complete at the next barrier (``cp.async``). With
        ``buffers=2`` two buffers take turns: the copy for the next iteration of `level` is made during this one.
        With ``vector=4`` a thread copies 4 neighbours along the last dimension at once, where they are aligned: the
        function may have to assume that rows are multiples of 4 elements long. `layout` gives the indices of an element
        of the copy by its indices within what is copied, as in `cache`: another order, or rows that are shifted against
        bank conflicts. What is read must have constant extents. Returns the copy, which can be scheduled like a
        computation.
        """
        made, origin = self._name_of_copy(source, name, "shared")
        names = self.statement_names()
        shown = {
            "threads": threads, "pad": pad or None, "deferred": deferred or None,
            "buffers": buffers if buffers != 1 else None, "vector": vector if vector != 1 else None, "layout": layout,
            "name": name,
        }  # fmt: skip

        def change(program: Program, text: str) -> Program:
            wanted = caches.in_shared_memory(made, origin, iterators, threads, pad, deferred, buffers, vector, layout)
            return caches.cache(program, names, level, wanted, text)

        self._apply("cache_shared", (source, level, list(iterators)), shown, change)
        return Part(self._function, origin, made)

    def cache_local(
        self, source: Selection | Input, level: Iter, iterators: Sequence[Iter], *, name: str | None = None
    ) -> Selection:
        """Copy what each thread of a kernel reads of a source in an iteration of a loop into its registers.

        ::

            for k on a thread:            -->   for k on a thread:
                for u in 0..4:                      for x in 0..4: a_local[x] = a[..]
                    S[..] = f(a)                    for u in 0..4: S[..] = f(a_local)

        `level` is the innermost thread loop of the statements that read, or a loop inside. What is read must have
        constant extents; unroll all loops that index the copy, so that it needs no memory. A source that has been
        copied to shared memory is copied from there.
        """
        made, origin = self._name_of_copy(source, name, "local")
        names = self.statement_names()

        def change(program: Program, text: str) -> Program:
            return caches.cache(program, names, level, caches.in_registers(made, origin, iterators), text)

        self._apply("cache_local", (source, level, list(iterators)), {"name": name}, change)
        return Part(self._function, origin, made)

    def _name_of_copy(self, source: Selection | Input, name: str | None, kind: str) -> tuple[str, str]:
        origin = self._copied(source)
        return (name or free_name(self._function.program, f"{origin}_{kind}")), origin

    def _copied(self, source: object) -> str:
        """The name of what is to be copied: an input or a computation of this function."""
        if isinstance(source, Part):
            raise CommandError(f"{source.name} is a part or a copy: name the computation or the input it comes from")
        owner = getattr(source, "_function", None)
        if owner is None:
            raise CommandError(f"{source!r} is neither an input nor a computation of {self._function.name}")
        if owner is not self._function:
            raise CommandError(f"{source} belongs to the function {owner.name}, not to {self._function.name}")
        return str(getattr(source, "name", source))


class Part(Selection):
    """One statement: a part of a computation, the initialisation or the update of a reduction, or a copy."""

    def __init__(self, function: Scheduled, source: str, statement: str) -> None:
        super().__init__(function, source)
        self._statement = statement

    @property
    def name(self) -> str:
        """The name of the statement."""
        return self._statement

    def statement_names(self) -> tuple[str, ...]:
        statements = self._function.program.statements
        found = tuple(s.name for s in statements.values() if self._statement in (s.name, *s.part_of))
        return found or (self._statement,)

    def __repr__(self) -> str:
        for role in ("init", "update"):
            if self._statement == f"{self._source}_{role}":
                return f"{self._source}.{role}"
        return self._statement


class Piece(Selection):
    """A part of a reduction: that of its start and that of its update (`get_update` has each)."""

    def __init__(self, whole: Selection, name: str, statements: Sequence[str]) -> None:
        super().__init__(whole._function, whole._source)
        self._name, self._each = name, [Part(whole._function, whole._source, statement) for statement in statements]

    @property
    def name(self) -> str:
        """The name of the computation and the number of the part."""
        return self._name

    def statement_names(self) -> tuple[str, ...]:
        return tuple(name for part in self._each for name in part.statement_names())

    def __repr__(self) -> str:
        return self._name

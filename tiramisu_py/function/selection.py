"""The scheduling commands, as methods: what a computation, or a part of one, can be told.

Every command checks its arguments, returns its handle (or the new ones), and leaves the program as it was when it
raises `CommandError`. Whether the result is right is proven by `Function.check`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Self

from tiramisu_py.algorithm.expressions import Expr, Iter
from tiramisu_py.errors import CommandError
from tiramisu_py.function.script import as_written
from tiramisu_py.program.loops import Combine
from tiramisu_py.program.program import Program
from tiramisu_py.program.storage import Buffer, Memory
from tiramisu_py.schedule import copies, loops, order, parts, placement, raw, recompute, tags
from tiramisu_py.schedule.order import Root, root
from tiramisu_py.schedule.selection import loop_name

if TYPE_CHECKING:
    from tiramisu_py.function.function import Function
    from tiramisu_py.function.handles import Input

Transform = Callable[[Program, str], Program]
Level = Iter | Root


class Selection:
    """Some statements of one computation; the commands apply to those that have the loop that is named."""

    def __init__(self, function: Function, source: str) -> None:
        self._function = function
        self._source = source

    @property
    def name(self) -> str:
        """The name of the computation."""
        return self._source

    def statement_names(self) -> tuple[str, ...]:
        """The names of the statements that this handle stands for."""
        found = tuple(s.name for s in self._function.program.statements_of(self._source))
        if not found:
            raise CommandError(f"{self._source} has been inlined: it has no loops and no buffer any more")
        return found

    def __repr__(self) -> str:
        return self._source

    def _apply(
        self, command: str, positional: tuple[object, ...], named: Mapping[str, object], change: Transform
    ) -> None:
        self._function.apply(as_written(repr(self), command, positional, named), change)

    def _others(self, given: object) -> tuple[str, ...]:
        if not isinstance(given, Selection):
            raise CommandError(f"{given!r} is not a computation of {self._function.name}")
        if given._function is not self._function:
            raise CommandError(f"{given} belongs to the function {given._function.name}, not to {self._function.name}")
        return given.statement_names()

    # -- loops

    def split(self, loop: Iter, by: int, outer: Iter, inner: Iter, *, origin: int = 0) -> Self:
        """Cut a loop into blocks of `by` iterations; the last block may be shorter.

        ::

            for i in 0..N:          -->   for i0 in 0..ceil(N / by):
                S[i]                          for i1 in 0..min(by, N - by*i0):
                                                  S[by*i0 + i1]

        Blocks start at multiples of `by` counted from `origin`: ``i0 = floor((i - origin) / by)``.
        Raises `CommandError` for a loop that is not there, that is tagged, a size below 1, or a name in use.
        """
        names = self.statement_names()
        self._apply("split", (loop, by, outer, inner), {"origin": origin or None},
                    lambda p, _: loops.split(p, names, loop, by, outer, inner, origin))  # fmt: skip
        return self

    def tile(self, *arguments: Iter | int) -> Self:
        """Tile two or three loops: ``tile(i, j, 32, 64, i0, j0, i1, j1)``, or three loops, sizes and names likewise.

        ::

            for i in 0..N:          -->   for i0 in ..:
                for j in 0..M:                for j0 in ..:
                    S[i, j]                       for i1 in 0..32:
                                                      for j1 in 0..64:
                                                          S[32*i0 + i1, 64*j0 + j1]

        Source: TIRAMISU, ``computation::tile``. Raises `CommandError` as `split` does, and where the loops are not
        perfectly nested.
        """
        count = len(arguments) // 4
        if len(arguments) not in (8, 12):
            raise CommandError(
                "tile takes 2 or 3 loops, as many sizes, as many outer and as many inner names: "
                "tile(i, j, 32, 64, i0, j0, i1, j1)"
            )
        names = self.statement_names()
        tiled, sizes, new = arguments[:count], arguments[count : 2 * count], arguments[2 * count :]
        self._apply("tile", arguments, {}, lambda p, _: loops.tile(p, names, tiled, sizes, new))
        return self

    def interchange(self, a: Iter, b: Iter) -> Self:
        """Swap two loops.

        ::

            for i in ..:            -->   for j in ..:
                for j in ..:                  for i in ..:
                    S[i, j]                       S[i, j]

        Tags stay with their loops. Raises `CommandError` where the loops are not perfectly nested.
        """
        names = self.statement_names()
        self._apply("interchange", (a, b), {}, lambda p, _: loops.interchange(p, names, a, b))
        return self

    def reorder(self, *order: Iter) -> Self:
        """Permute loops: those named take, in the order given, the positions that they occupy now.

        ::

            for i, for j, for k: S[i, j, k]     -- reorder(k, i, j) -->     for k, for i, for j: S[i, j, k]
        """
        names = self.statement_names()
        self._apply("reorder", order, {}, lambda p, _: loops.reorder(p, names, order))
        return self

    def shift(self, loop: Iter, by: Expr | int) -> Self:
        """Run this computation `by` iterations later in a loop that it may share with others.

        ::

            for i in 0..N:          -->   for i in 0..N + 1:
                p[i]                          if i < N: p[i]
                q[i]                          if i > 0: q[i - 1]          (q.shift(i, 1))

        `by` is an integer or affine in the parameters; negative means earlier.
        """
        names = self.statement_names()
        self._apply("shift", (loop, by), {}, lambda p, _: loops.shift(p, names, loop, by))
        return self

    def skew(self, outer: Iter, inner: Iter, factor: int, new: Iter | None = None) -> Self:
        """Start the inner loop later by `factor` for each iteration of an outer one: ``inner' = inner + factor*outer``.

        ::

            for t in 0..T:          -->   for t in 0..T:
                for i in 0..N:                for i in t..N + t:
                    S[t, i]                       S[t, i - t]             (skew(t, i, 1))

        `new` renames the loop. Makes wavefronts parallel and time loops tileable.
        """
        names = self.statement_names()
        self._apply("skew", (outer, inner, factor), {"new": new},
                    lambda p, _: loops.skew(p, names, outer, inner, factor, new))  # fmt: skip
        return self

    def reverse(self, loop: Iter) -> Self:
        """Run a loop backwards: ``i' = -i``.

        ::

            for i in 0..N: S[i]     -->   for i in -(N - 1)..1: S[-i]
        """
        names = self.statement_names()
        self._apply("reverse", (loop,), {}, lambda p, _: loops.reverse(p, names, loop))
        return self

    # -- tags

    def parallelize(
        self, *over: Iter, schedule: str = "static", chunk: int | None = None, combine: Combine | None = None
    ) -> Self:
        """Deal the iterations of a loop out to threads; several directly nested loops are dealt out together.

        ::

            for i in 0..N:          -->   #pragma omp parallel for schedule(static)
                S[i]                      for (i = 0; i < N; i++) S[i]

        `schedule` is ``"static"``, ``"dynamic"`` or ``"guided"``, with an optional `chunk`. Over the loop of a
        reduction, name how partial results are combined: ``combine=tm.PRIVATE`` or ``tm.ATOMIC``.
        """
        names = self.statement_names()
        shown = {"schedule": schedule if schedule != "static" else None, "chunk": chunk, "combine": combine}
        self._apply("parallelize", over, shown,
                    lambda p, text: tags.parallelize(p, names, over, schedule, chunk, combine, text))  # fmt: skip
        return self

    def vectorize(self, loop: Iter, width: int, *, combine: Combine | None = None) -> Self:
        """Run a loop in strips of `width` lanes (2, 4, 8, 16, 32 or 64); what is left over runs one by one.

        ::

            for j in 0..N:          -->   for (j = 0; j + 8 <= N; j += 8) S[j : j + 8]
                S[j]                      for (; j < N; j++) S[j]

        Strips are cut from the loop's lower bound; the iterator keeps its name. Over the loop of a reduction,
        ``combine=tm.PRIVATE`` keeps a partial result in each lane.
        """
        names = self.statement_names()
        self._apply("vectorize", (loop, width), {"combine": combine},
                    lambda p, text: tags.vectorize(p, names, loop, width, combine, text))  # fmt: skip
        return self

    def unroll(self, loop: Iter, factor: int | None = None) -> Self:
        """Repeat a loop's body `factor` times, or (without a factor) for all of its iterations.

        ::

            for i in 0..N: S[i]     -->   for (i = 0; i + 2 <= N; i += 2) { S[i]; S[i + 1]; }
                                          for (; i < N; i++) S[i];                      (unroll(i, 2))

        Without a factor the loop should have a constant number of iterations in full tiles; other tiles keep a loop.
        """
        names = self.statement_names()
        self._apply("unroll", (loop,) if factor is None else (loop, factor), {},
                    lambda p, text: tags.unroll(p, names, loop, factor, text))  # fmt: skip
        return self

    # -- order

    def after(self, other: Selection, level: Level = root) -> Self:
        """Come after `other`, in its loops up to and including `level` (at `root`: after its whole nest).

        ::

            for i: p[i]             -->   for i:
            for i: q[i]                       p[i]
                                              q[i]                        (q.after(p, i))
        """
        names, others = self.statement_names(), self._others(other)
        self._apply("after", (other, level), {},
                    lambda p, text: order.place_after(p, others, names, level, True, text))  # fmt: skip
        return self

    def before(self, other: Selection, level: Level = root) -> Self:
        """Come before `other`, in its loops up to and including `level` (at `root`: before its whole nest)."""
        names, others = self.statement_names(), self._others(other)
        self._apply("before", (other, level), {},
                    lambda p, text: order.place_after(p, names, others, level, False, text))  # fmt: skip
        return self

    def then(self, other: Selection, level: Level = root) -> Selection:
        """Let `other` follow, and return it, so that orders can be chained: ``a.then(b, i).then(c, i)``."""
        other.after(self, level)
        return other

    def between(self, first: Selection, first_level: Level, second: Selection, second_level: Level) -> Self:
        """Come after `first` at one level and before `second` at another."""
        names, a, b = self.statement_names(), self._others(first), self._others(second)

        def change(p: Program, text: str) -> Program:
            p = order.place_after(p, a, names, first_level, True, text)
            return order.place_after(p, names, b, second_level, False, text)

        self._apply("between", (first, first_level, second, second_level), {}, change)
        return self

    def fuse(self, other: Selection, level: Iter) -> Self:
        """Share the loops of `other` up to and including `level`, in the order that the two have now."""
        names, others = self.statement_names(), self._others(other)
        self._apply("fuse", (other, level), {}, lambda p, text: order.fuse(p, others, names, level, text))
        return self

    # -- parts

    def separate_at(self, loop: Iter, points: Sequence[Expr | int]) -> tuple[Selection, ...]:
        """Cut the computation into parts at values of a loop; each part is scheduled apart.

        ::

            for i in 0..N: S[i]     -->   for i in 0..8: S_0[i]
                                          for i in 8..N: S_1[i]           (separate_at(i, [8]))

        Points are integers or affine in the parameters; parts may be empty. Returns the parts, in order.
        """
        names = self.statement_names()
        self._apply("separate_at", (loop, points), {}, lambda p, _: parts.separate_at(p, names, loop, points))
        return self._parts()

    def _parts(self) -> tuple[Selection, ...]:
        return tuple(Part(self._function, self._source, name) for name in self.statement_names())

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

    # -- storage

    def store_in(
        self,
        buffer: Buffer | Input | Selection | Memory | Sequence[Expr | int],
        indices: Sequence[Expr | int] | None = None,
    ) -> Self:
        """Keep the values in another buffer or with another layout; a second call replaces the first.

        ``p.store_in(tm.Buffer("two", [2], tm.float32), [i % 2])`` folds p to two elements; ``c.store_in([j, i])``
        transposes its own array; ``c.store_in(a, [i])`` overwrites the input a (in place); ``p.store_in(tm.REGISTER)``
        keeps its present buffer in registers. Indices are affine, with floor division and modulo, in the iterators.
        That no value is overwritten before its last use is proven.
        """
        into, at = self._target(buffer, indices)
        names = self.statement_names()
        written = (buffer,) if indices is None else (buffer, list(indices))
        self._apply("store_in", written, {}, lambda p, _: placement.store_in(p, self._source, names, into, at))
        return self

    def _target(
        self, given: object, indices: Sequence[object] | None
    ) -> tuple[Buffer | str | Memory | None, Sequence[object] | None]:
        if isinstance(given, Buffer | Memory):
            return given, indices
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

    def store_at(self, consumer: Selection, level: Level) -> Self:
        """Keep one copy of the buffer for each iteration of a loop around (at `root`: one for the whole call).

        The buffer shrinks to what one iteration keeps.
        """
        names, others = self.statement_names(), self._others(consumer)

        def change(p: Program, _: str) -> Program:
            scope = () if isinstance(level, Root) else recompute.scope_of(p, others, level)
            return placement.store_at(p, self._source, names, scope)

        self._apply("store_at", (consumer, level), {}, change)
        return self

    def cache(
        self,
        source: Selection | Input,
        level: Level,
        iterators: Sequence[Iter],
        *,
        name: str | None = None,
        memory: Memory = Memory.HOST,
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
        return self._copy("cache", source, level, iterators, name or f"{source.name}_cache", memory, layout)

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
        return self._copy("pack", source, level, iterators, name or f"{source.name}_packed", Memory.HOST, layout)

    def _copy(
        self,
        command: str,
        source: Selection | Input,
        level: Level,
        iterators: Sequence[Iter],
        name: str,
        memory: Memory,
        layout: Sequence[Expr | int] | None,
    ) -> Selection:
        names = self.statement_names()
        if isinstance(source, Part):
            raise CommandError(f"{source.name} is a part or a copy: name the computation or the input it comes from")
        copy = copies.Copy(
            name, source.name, tuple(map(loop_name, iterators)), memory, None if layout is None else tuple(layout)
        )
        shown = {"name": name, "memory": memory if memory is not Memory.HOST else None, "layout": layout}
        self._apply(command, (source, level, list(iterators)), shown,
                    lambda p, text: copies.copy_at(p, names, level, copy, text))  # fmt: skip
        return Part(self._function, source.name, name)


class Part(Selection):
    """One statement: a part of a computation, the initialisation or the update of a reduction, or a copy."""

    def __init__(self, function: Function, source: str, statement: str) -> None:
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

"""Commands that copy what a computation reads: cache, pack, cache_shared and cache_local."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tiramisu_py.algorithm.expressions import Expr, Iter
from tiramisu_py.errors import CommandError
from tiramisu_py.function.applying.statements import Level, Statements
from tiramisu_py.program.fresh_names import free_name
from tiramisu_py.program.program import Program
from tiramisu_py.program.storage import Memory, as_memory
from tiramisu_py.schedule.arguments import loop_name
from tiramisu_py.schedule.devices import kernel_copies as caches
from tiramisu_py.schedule.locality import copies
from tiramisu_py.schedule.loops.order import root

if TYPE_CHECKING:
    from tiramisu_py.function.handles.computations import Input
    from tiramisu_py.function.handles.selection import Selection


class CopyCommands(Statements):
    """What a computation that reads a source can be told of copies of it."""

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
        laid_out = None if layout is None else _listed(command, "layout", layout)
        outer = tuple(map(loop_name, _listed(command, "iterators", iterators)))
        copy = copies.Copy(made, origin, outer, memory, laid_out)
        shown: dict[str, object] = {"name": name, "memory": memory if memory is not Memory.HOST else None}
        if command == "pack":
            written: tuple[object, ...] = (source, list(iterators), list(laid_out or ()))
            shown["level"] = None if level is root else level
        else:
            written = (source, level, list(iterators))
            shown["layout"] = layout
        self._apply(command, written, shown, lambda p, text: copies.copy_at(p, names, level, copy, text))
        return self._made([made], origin)[0]

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
        return self._made([made], origin)[0]

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
        return self._made([made], origin)[0]

    def _name_of_copy(self, source: Selection | Input, name: str | None, kind: str) -> tuple[str, str]:
        origin = self._copied(source)
        return (name or free_name(self._function.program, f"{origin}_{kind}")), origin

    if TYPE_CHECKING:  # what is made knows its handles

        def _made(self, names: Sequence[str], source: str | None = None) -> tuple[Selection, ...]: ...

        def _copied(self, source: object) -> str: ...


def _listed(command: str, what: str, given: object) -> tuple[Any, ...]:
    """An argument that is a list; raises `CommandError` for one expression alone, or what is no list."""
    if isinstance(given, Expr | str) or not isinstance(given, Iterable):
        raise CommandError(f"{command}: {what} is a list, such as [{given}], and not {given} alone")
    return tuple(given)

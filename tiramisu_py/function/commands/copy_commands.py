"""Commands that copy the values that a computation reads: cache, pack, cache_shared and cache_local."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tiramisu_py.algorithm.expressions import Expr, Iter
from tiramisu_py.function.applying.applied import AppliedStatements, Level, as_list
from tiramisu_py.program.storage import Memory, as_memory
from tiramisu_py.schedule.command_fields import Named
from tiramisu_py.schedule.devices.kernel_copies import CacheLocal, CacheShared
from tiramisu_py.schedule.locality.cached_copies import CacheAt, Copies, Pack
from tiramisu_py.schedule.loops.order import root

if TYPE_CHECKING:
    from tiramisu_py.function.handles.computations import Input
    from tiramisu_py.function.handles.selection import Selection


class CopyCommands(AppliedStatements):
    """Commands that let a computation read a copy of a source."""

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
        """Copy the values of a source that this computation reads, at a level of its loops, and read the copy instead.

        ::

            for r0: for r1, for c:  -->   for r0:
                by[..] = image[..]            for y, for x: image_cache[y, x] = image[..]
                                              for r1, for c: by[..] = image_cache[..]

        `iterators` name the loops of the copy, one for each dimension of the source. `layout` gives the index in the
        copy as expressions of the iterators, counted from the corner of the copied box: ``layout=[x // 8, y, x % 8]``.
        Returns the copy, which can be scheduled like a computation.
        """
        copied, memory = self._copied(source), as_memory(memory)
        return self._copy(
            CacheAt(self._named, copied, level, as_list(iterators), name=name, memory=memory, layout=layout)
        )

    def pack(
        self,
        source: Selection | Input,
        iterators: Sequence[Iter],
        layout: Sequence[Expr | int],
        *,
        level: Level = root,
        name: str | None = None,
    ) -> Selection:
        """Copy the values read of a source into another layout, once for the whole call or at a level: see `cache`.

        ::

            for i, for j:           -->   for k, for x: a_packed[x, k] = a[k, x]
                b[..] = f(a[j, i])        for i, for j:
                                              b[..] = f(a_packed[i, j])   (b.pack(a, [k, x], [x, k]))
        """
        copied = self._copied(source)
        return self._copy(Pack(self._named, copied, as_list(iterators), as_list(layout), name=name, level=level))

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
        """Copy the values of a source that a block of threads reads into its shared memory, and read the copy.

        ::

            for r0, c0 on blocks:         -->   for r0, c0 on blocks:
                for r1, c1 on threads:              for y, x on threads: image_shared[y, x] = image[..]
                    by[..] = f(image)               for r1, c1 on threads: by[..] = f(image_shared)

        `level` is the innermost block loop or a loop inside it; the copy is made anew in each iteration of the
        sequential loops down to it. (A thread loop as the level changes nothing: the copy is for all threads of the
        block.) `iterators` name its loops, one for each dimension of the source. The threads of the block share the
        work, neighbouring threads copying neighbours along the last dimension; with `threads`, the iterators named
        there run on threads instead, the last along x. `pad` adds elements to the last dimension, so that columns lie
        in different banks. With `deferred` the copies are only started, and complete at the next barrier
        (``cp.async``). With ``buffers=2`` two buffers alternate: the copy for the next iteration of `level` is made
        during this one. With ``vector=4`` a thread copies 4 neighbours along the last dimension at once, where they are
        aligned: the function may have to assume that rows are multiples of 4 elements long. `layout` gives the indices
        of an element in the copy from its indices within the copied box, as in `cache`: for another order, or for rows
        shifted against bank conflicts. The box must have constant extents. Returns the copy, which can be scheduled
        like a computation.
        """
        command = CacheShared(
            self._named, self._copied(source), level, as_list(iterators), threads=threads, pad=pad, deferred=deferred,
            buffers=buffers, vector=vector, layout=layout, name=name,
        )  # fmt: skip
        return self._kernel_copy(command)

    def cache_local(
        self, source: Selection | Input, level: Iter, iterators: Sequence[Iter], *, name: str | None = None
    ) -> Selection:
        """Copy the values of a source that each thread of a kernel reads in an iteration of a loop into its registers.

        ::

            for k on a thread:            -->   for k on a thread:
                for u in 0..4:                      for x in 0..4: a_local[x] = a[..]
                    S[..] = f(a)                    for u in 0..4: S[..] = f(a_local)

        `level` is the innermost thread loop of the reading statements, or a loop inside it. The copied box must have
        constant extents; unroll all loops that index the copy, so that it needs no memory. A source that has been
        copied to shared memory is copied from there.
        """
        return self._kernel_copy(CacheLocal(self._named, self._copied(source), level, as_list(iterators), name=name))

    def _copy(self, command: Copies) -> Selection:
        self._apply(command)
        return self._made([command.made()], command.copied.source)[0]

    def _kernel_copy(self, command: CacheShared | CacheLocal) -> Selection:
        made = command.made(self._function.program)
        self._apply(command)
        return self._made([made], command.copied.source)[0]

    if TYPE_CHECKING:  # defined in `Selection`

        def _made(self, names: Sequence[str], source: str | None = None) -> tuple[Selection, ...]: ...

        def _copied(self, source: object) -> Named: ...

"""The command `copy`: the values that a computation reads are copied near it, and read from the copy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY

from tiramisu_py.algorithm.expressions import Expr, Iter
from tiramisu_py.errors import CommandError
from tiramisu_py.program.fresh_names import free_name
from tiramisu_py.program.program import Program
from tiramisu_py.program.storage import Memory, as_memory
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import listed, loop_name, size, statements
from tiramisu_py.schedule.command_fields import Handle, OnStatements, source_given
from tiramisu_py.schedule.devices.kernel_copies import WIDTHS, KernelCopy, cache
from tiramisu_py.schedule.devices.tag_gpu import kernel_around
from tiramisu_py.schedule.locality.cached_copies import CachedCopy, copy_at
from tiramisu_py.schedule.loops.order import Root, inner_level, level_of, root


@dataclass(frozen=True, eq=False)
class CopyValues(OnStatements):
    """Copy the values of a source that this computation reads, in each iteration of a loop, and read the copy instead.

    ::

        for r0: for r1, for c:  -->   for r0:
            by[..] = image[..]            for y, for x: image_cache[y, x] = image[..]
                                          for r1, for c: by[..] = image_cache[..]
                                                          (by.copy(image, [y, x], at=r0))

    `iterators` name the loops of the copy, one for each dimension of the source. It is made in each iteration of the
    loop `at`, or at `root` (without `at`) once for the whole call. `layout` gives the index in the copy as expressions
    of the iterators, counted from the corner of the copied box: ``layout=[x // 8, y, x % 8]``::

        for i, for j:           -->   for k, for x: a_packed[x, k] = a[k, x]
            b[..] = f(a[j, i])        for i, for j:
                                          b[..] = f(a_packed[i, j])   (b.copy(a, [k, x], layout=[x, k]))

    With ``into=tm.SHARED`` the values that a block of threads reads are copied into its shared memory::

        for r0, c0 on blocks:         -->   for r0, c0 on blocks:
            for r1, c1 on threads:              for y, x on threads: image_shared[y, x] = image[..]
                by[..] = f(image)               for r1, c1 on threads: by[..] = f(image_shared)
                                                          (by.copy(image, [y, x], at=c0, into=tm.SHARED))

    There `at` is the innermost block loop or a loop inside it; the copy is made anew in each iteration of the
    sequential loops down to it. (A thread loop changes nothing: the copy is for all threads of the block.) The threads
    of the block share the work, neighbouring threads copying neighbours along the last dimension; with `threads`, the
    iterators named there run on threads instead, the last along x. `pad` adds elements to the last dimension, so that
    columns lie in different banks. With `deferred` the copies are only started, and complete at the next barrier
    (``cp.async``). With ``buffers=2`` two buffers alternate: the copy for the next iteration of `at` is made during
    this one. With ``vector=4`` a thread copies 4 neighbours along the last dimension at once, where they are aligned:
    the function may have to assume that rows are multiples of 4 elements long. The box must have constant extents.

    With ``into=tm.REGISTER`` each thread of a kernel copies what it reads into its registers::

        for k on a thread:            -->   for k on a thread:
            for u in 0..4:                      for x in 0..4: a_local[x] = a[..]
                S[..] = f(a)                    for u in 0..4: S[..] = f(a_local)
                                                          (S.copy(a, [x], at=k, into=tm.REGISTER))

    There `at` is the innermost thread loop of the reading statements, or a loop inside it; unroll all loops that index
    the copy. A source that has been copied to shared memory is copied from there.

    Returns the copy, which can be scheduled like a computation. It is called `name`, or ``image_cache``,
    ``image_packed`` where it has a layout, ``image_shared`` and ``image_local`` in kernels.
    """

    verb = "copy"
    lists = ("iterators", "layout", "threads")

    source: Handle
    iterators: Sequence[Iter]
    _: KW_ONLY
    at: Iter | Root = root
    into: Memory | str = Memory.HOST
    layout: Sequence[Expr | int] | None = None
    threads: Sequence[Iter] | None = None
    pad: int = 0
    deferred: bool = False
    buffers: int = 1
    vector: int = 1
    name: str | None = None

    def made(self, program: Program) -> str:
        """The name of the copy."""
        if self.name:
            return self.name
        source = source_given(program, self.source)
        if self._is_in_kernel(program):
            return free_name(program, f"{source}_{'shared' if as_memory(self.into) is Memory.SHARED else 'local'}")
        return f"{source}_{'cache' if self.layout is None else 'packed'}"

    def applied(self, program: Program) -> Program:
        if self._is_in_kernel(program):
            return cache(program, self.names(program), inner_level(self.at), self._in_kernel(program), self.text)
        for option, given, usual in (
            ("threads", self.threads, None), ("pad", self.pad, 0), ("deferred", self.deferred, False),
            ("buffers", self.buffers, 1), ("vector", self.vector, 1),
        ):  # fmt: skip
            if given != usual:
                raise CommandError(f"{option}={given!r} is for copies in the shared memory of a kernel: into=tm.SHARED")
        layout = None if self.layout is None else _several("layout", self.layout)
        iterators, source = self._iterators, source_given(program, self.source)
        copy = CachedCopy(self.made(program), source, iterators, as_memory(self.into), layout)
        return copy_at(program, self.names(program), level_of(self.at), copy, self.text)

    @property
    def _iterators(self) -> tuple[str, ...]:
        return tuple(map(loop_name, _several("iterators", self.iterators)))

    def _is_in_kernel(self, program: Program) -> bool:
        """Whether the copy is of a block, or of a thread; registers outside of kernels are those of the host."""
        memory = as_memory(self.into)
        if memory is not Memory.REGISTER:
            return memory is Memory.SHARED
        return any(kernel_around(program, each) is not None for each in statements(program, self.names(program)))

    def _in_kernel(self, program: Program) -> KernelCopy:
        """The copy that is asked for, checked; raises `CommandError`."""
        if self.buffers not in (1, 2) or isinstance(self.buffers, bool):
            raise CommandError(f"buffers={self.buffers!r}: a copy has 1 buffer, or 2 that take turns")
        iterators = self._iterators
        threads = None if self.threads is None else tuple(map(loop_name, listed(self.threads, "threads")))
        if self.vector not in WIDTHS or isinstance(self.vector, bool):
            widths = ", ".join(map(str, WIDTHS))
            raise CommandError(f"vector={self.vector!r}: a thread copies {widths} neighbours at once")
        unknown = [name for name in threads or () if name not in iterators]
        if unknown:
            raise CommandError(f"threads={unknown}: name iterators of the copy, {', '.join(iterators)}")
        layout = None if self.layout is None else tuple(listed(self.layout, "layout"))
        wanted = KernelCopy(
            self.made(program), source_given(program, self.source), iterators, as_memory(self.into), threads,
            size(self.pad, "pad", 0), bool(self.deferred), int(self.buffers), int(self.vector), layout,
        )  # fmt: skip
        plain = KernelCopy(wanted.name, wanted.source, iterators, wanted.memory)
        if wanted.memory is Memory.REGISTER and wanted != plain:
            raise CommandError(
                "registers of a thread have no threads=, pad=, deferred=, buffers=, vector= or layout=: these are for "
                "copies in shared memory, into=tm.SHARED"
            )
        return wanted


def _several(what: str, given: object) -> tuple[object, ...]:
    """The items of a list argument; raises `CommandError` for a single expression or anything else."""
    if isinstance(given, Expr | str) or not isinstance(given, Iterable):
        raise CommandError(f"copy: {what} is a list, such as [{given}], and not {given} alone")
    return tuple(given)

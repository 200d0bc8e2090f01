"""Kernels that take values along: what is read at its own place alone is computed there, and never stored.

A value of edges or nodes without sums is substituted where it is read: it is in registers. Sums that another value
reads in place, and nobody else, grow in registers in its loops: a product with its activation, a sum over edges with
what is added to it. Each value is computed once, with its terms in their order, so that bits stay. What is read through
an index is stored: other edges read it. On a GPU products of rows keep their kernels, where the threads of a block
share the rows. Source: Wu, Hector, algorithms 3.1 and 3.2.

A value that is not stored saves its bytes twice, but what it is made of has to be there for longer. So each is weighed:
bytes moved must become fewer, and the most bytes of temporaries at a time not more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field, replace
from functools import cached_property
from math import prod
from typing import Any

import tiramisu_py as tm
from tiramisu_py import queries, recipes
from tiramisu_py.errors import DeclarationError
from tiramisu_py.records import dataclass

#: The most bytes of sums that a tile has in registers, but for one row.
TILE = 24 * 64
#: The value of each size at which arrays are compared that take turns in memory.
SAMPLE = 1000


@dataclass(frozen=True)
class TakenValue:
    """A value and the kernel that could take it along: bytes moved, and the most temporaries, without and with it.

    Without a graph there are no numbers; `why` then says why it is taken or left.
    """

    name: str
    kernel: str
    is_taken: bool
    moved: tuple[int, int] | None = None
    most: tuple[int, int] | None = None
    why: str = ""

    def __str__(self) -> str:
        word = "takes" if self.is_taken else "leaves"
        head = f"{self.kernel} {word} {self.name}{' along' if self.is_taken else ''}: "
        if self.moved is None or self.most is None:
            return f"{head}{self.why}"
        return (
            f"{head}{self.moved[1]} bytes moved, {self.moved[0]} without, temporaries of at most {self.most[1]} bytes, "
            f"{self.most[0]} without"
        )


@dataclass(eq=False)
class FusedKernels:
    """The kernels of a layer: the value that each stores, with the sums, and the other values, that it takes along."""

    sums: dict[str, list[str]] = field(default_factory=dict)
    values: dict[str, list[str]] = field(default_factory=dict)
    weighed: list[TakenValue] = field(default_factory=list)

    @property
    def hosts(self) -> dict[str, str]:
        """The kernel of each value that is taken along."""
        return {name: kernel for of in (self.sums, self.values) for kernel, names in of.items() for name in names}

    def along(self, kernel: str) -> list[str]:
        """The values that a kernel takes along."""
        return [*self.sums.get(kernel, ()), *self.values.get(kernel, ())]


def fused(
    f: tm.Function,
    way: bool | str,
    sizes: Mapping[str, int] | None,
    *,
    on_gpu: bool = False,
    threads: int | None = None,
    apart: Collection[str] = (),
) -> FusedKernels:
    """Choose what kernels take along: all that can be with True, nothing with False, what pays with "count".

    `sizes` are those of a graph, and so many `threads` have tiles of their own. Without sizes a value is taken whose
    kernel is next to that of its reader, and as large: then no size makes temporaries more. Values that are to be
    `apart` keep their kernels.
    """
    made = FusedKernels()
    if not way:
        return made
    kernels = _Kernels(f, sizes, on_gpu, threads or recipes.Cpu.here().cores)
    for name in [*f.program.algorithm.computations]:
        reader = kernels.reader_of(name)
        if not reader:
            continue
        if made.sums.get(name) or name in apart:  # its own loops have sums
            continue
        found = kernels.weighed(name, reader, made.hosts)
        if way is True and not found.is_taken:
            found = replace(found, is_taken=True, why="asked for")
        made.weighed.append(found)
        if found.is_taken and kernels.declared[name].is_reduction:
            made.sums.setdefault(reader, []).append(name)
        elif found.is_taken:
            made.values.setdefault(reader, []).extend([*made.values.pop(name, []), name])
    return made


def checked_fusion(way: object) -> bool | str:
    """Whether kernels take values along; raises `DeclarationError`."""
    if way is True or way is False or way == "count":
        return way
    raise DeclarationError(f"fuse={way!r}: give True, False, or 'count', which takes along what saves bytes")


class _Kernels:
    """The values of a function in the order of their kernels, and who reads them."""

    def __init__(self, f: tm.Function, sizes: Mapping[str, int] | None, on_gpu: bool, threads: int) -> None:
        self.algorithm: Any = f.program.algorithm
        self.sizes, self.on_gpu, self.threads = sizes, on_gpu, threads
        self.declared: dict[str, queries.Declared] = dict(self.algorithm.computations)
        self.place = {name: place for place, name in enumerate(self.declared)}

    @cached_property
    def readers(self) -> dict[str, list[str]]:
        """The values that read each one."""
        found: dict[str, list[str]] = {name: [] for name in self.declared}
        for name, each in self.declared.items():
            for source in queries.sources_of(each):
                if source in found and source != name:
                    found[source].append(name)
        return found

    def reader_of(self, name: str) -> str:
        """The value whose kernel can compute this one, since nobody else reads it, and not elsewhere; empty if none."""
        declared, readers = self.declared[name], self.readers[name]
        if name in self.algorithm.outputs or len(readers) != 1 or not declared.iterators or declared.group:
            return ""
        reader = self.declared[readers[0]]
        if declared.is_reduction:
            return "" if reader.is_reduction or not self._takes_sums(declared, reader) else reader.name
        return reader.name if self._takes_value(declared, reader) else ""

    def _takes_sums(self, sums: queries.Declared, reader: queries.Declared) -> bool:
        """Whether sums may grow where a value reads them: no scatters, nor values of the positions of runs."""
        found = queries.run_of_positions(self.algorithm, sums)
        if queries.chosen_by_values(sums) or (found is not None and found.position in sums.iterators):
            return False
        if queries.run_of_positions(self.algorithm, reader) is not None:
            return False
        return queries.is_read_in_place(self.algorithm, sums.name, reader.name)

    def _takes_value(self, value: queries.Declared, reader: queries.Declared) -> bool:
        """Whether a value may be substituted: each is read by one point, once, or is a sum or product of a few."""
        points = sorted(reader.point_iterators)
        reads = [each for each in queries.accesses(reader.expr) if each.source == value.name]
        guarded = any(each.source == value.name for part in reader.guards for each in queries.accesses(part))
        at = {tuple(index.name if isinstance(index, tm.Iter) else "" for index in each.indices) for each in reads}
        if guarded or len(at) != 1 or sorted(next(iter(at))) != points or queries.chosen_by_values(reader):
            return False
        if len(value.point_iterators) != len(points) or value.guards:
            return False
        return len(reads) == 1 or _is_cheap(value.expr)

    # -- what is saved

    def weighed(self, name: str, kernel: str, hosts: Mapping[str, str]) -> TakenValue:
        """Whether it pays that a kernel takes a value along."""
        if self.sizes is None:
            near = self._are_neighbours(name, kernel, hosts) and self._are_as_large(name, kernel)
            why = "next to it, and as large" if near else "the graph decides"
            return TakenValue(name, kernel, near, why=why)
        taken = {**{each: kernel if of == name else of for each, of in hosts.items()}, name: kernel}
        moved, held = (self.moved(hosts), self.moved(taken)), (self.held(hosts), self.held(taken))
        most = max(held[0].values(), default=0), max(held[1].values(), default=0)
        own = [each for each, of in taken.items() if of == kernel and self.declared[each].is_reduction]
        if own and (len(own) > 1 or held[1][kernel] > held[0][name]):  # tiles that were not there at a time
            most = most[0], max(most[1], held[1][kernel] + sum(map(self._tile_of, own)))
        return TakenValue(name, kernel, moved[1] < moved[0] and most[1] <= most[0], moved, most)

    def _tile_of(self, name: str) -> int:
        """The most bytes of the tile in which sums grow, in registers or on the stack, and of copies of weights."""
        if self.on_gpu:
            return 0
        declared = self.declared[name]
        width = (queries.extents(declared)[-1] or 1) * declared.dtype.bytes
        copied = 0
        for read in queries.accesses(declared.expr):
            last = read.indices[-1] if read.indices else None
            if isinstance(last, tm.Iter) and last.name in declared.over and read.source in self.declared:
                copied += self._bytes[read.source]
        return self.threads * (TILE + width) + copied

    def _are_neighbours(self, name: str, kernel: str, hosts: Mapping[str, str]) -> bool:
        between = [each for each, at in self.place.items() if self.place[name] < at < self.place[kernel]]
        return all(hosts.get(each) == kernel for each in between)

    def _are_as_large(self, name: str, kernel: str) -> bool:
        own, other = self.declared[name], self.declared[kernel]
        return own.dtype == other.dtype and queries.same_values(own, other)

    def bytes_of(self, name: str, at: Mapping[str, int]) -> int:
        """The bytes of a value at some sizes; values of the positions of runs are stored by position."""
        declared = self.declared[name]
        found = queries.run_of_positions(self.algorithm, declared)
        row = found.row if found is not None and found.position in declared.iterators else ""
        axes = [each for each in declared.iterators if each != row]
        return declared.dtype.bytes * prod(queries.extent_at(declared, each, at) for each in axes)

    @cached_property
    def _bytes(self) -> dict[str, int]:
        return {name: self.bytes_of(name, self.sizes or {}) for name in self.declared}

    @cached_property
    def _samples(self) -> dict[str, int]:
        return {name: self.bytes_of(name, dict.fromkeys(self.algorithm.params, SAMPLE)) for name in self.declared}

    def moved(self, hosts: Mapping[str, str]) -> int:
        """The bytes of all values that are stored: once by their kernels, and once by each that reads them."""
        total = 0
        for name, readers in self.readers.items():
            if name not in hosts:
                total += self._bytes[name] * (1 + len({hosts.get(each, each) for each in readers}))
        return total

    def held(self, hosts: Mapping[str, str]) -> dict[str, int]:
        """The bytes of temporaries while each kernel runs."""
        kernels = [name for name in self.declared if name not in hosts]
        place = {name: at for at, name in enumerate(kernels)}
        held = list[queries.TemporaryArray]()
        for name in kernels:
            if name not in self.algorithm.outputs:
                last = max((place[hosts.get(each, each)] for each in self.readers[name]), default=place[name])
                held.append(queries.TemporaryArray(name, place[name], last, self._bytes[name], self._samples[name]))
        return dict(zip(kernels, queries.bytes_in_turns(held, len(kernels), lasting=self.on_gpu), strict=True))


def _is_cheap(e: Any) -> bool:
    """Whether an expression is one sum or product, which may as well be computed twice."""
    return (
        isinstance(e, queries.Binary)
        and e.op in "+-*"
        and all(isinstance(each, queries.Access | queries.Const) for each in e.children())
    )

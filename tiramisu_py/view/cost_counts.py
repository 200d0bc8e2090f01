"""The counts of a schedule's cost, by isl: instances, elements, footprints of tiles, lanes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Access
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.counting.amounts import Communication
from tiramisu_py.counting.even_runs import with_even_runs
from tiramisu_py.counting.lattice_points import classes, count
from tiramisu_py.counting.work import ON_CHIP, operations
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.dependence.strided_lanes import strided_lanes
from tiramisu_py.program.loops import LoopId, Vector
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Home, Memory
from tiramisu_py.view.memory_traffic import CacheTraffic
from tiramisu_py.view.schedule_cost import ArrayCost, EmittedFindings, MemoryCost, ScheduleCost, StatementCost, TileCost

_WORDS = {Memory.REGISTER: "registers", Memory.SHARED: "shared memory"}


def schedule_cost(
    program: Program, sizes: Mapping[str, int], moved: Communication, emitted: Callable[[], EmittedFindings]
) -> ScheduleCost:
    """The cost of a program as it is proven (completed, and spread over its ranks) at given sizes.

    `emitted` finds, when it is asked for, what is known of its loops alone.
    """
    return _Counted(with_even_runs(program, sizes), sizes).cost(moved, emitted)


class _Counted:
    def __init__(self, program: Program, sizes: Mapping[str, int]) -> None:
        self.program = program
        self.sizes = sizes
        self.accesses = MemoryAccesses(program)

    def cost(self, moved: Communication, emitted: Callable[[], EmittedFindings]) -> ScheduleCost:
        acting = self.program.acting
        return ScheduleCost(
            self.program.algorithm.name,
            {name: self.sizes[name] for name in self.program.algorithm.params},
            tuple(self._statement(each) for each in acting),
            tuple(self._arrays()),
            tuple(self._tiles()),
            moved,
            tuple(self._memories()),
            CacheTraffic([(each, self._cached(each)) for each in acting], self.sizes),
            emitted,
        )

    def _cached(self, statement: Statement) -> list[tuple[MemoryAccess, int]]:
        """The accesses of a statement that go through a core's caches, and the bytes of an element."""
        if self.program.kernel_of(statement) is not None or statement.link.transfer or statement.link.message:
            return []
        found = [(access, self._size(access)) for access in self._of(statement)]
        return [(access, size) for access, size in found if size]

    def _memories(self) -> Iterator[MemoryCost]:
        """The bytes of all loads and stores of each memory but that of the host."""
        moved: dict[str, list[int]] = {}
        for statement in self.program.acting:
            in_kernel = self.program.kernel_of(statement) is not None
            for access in self._of(statement):
                on_gpu = "global memory of GPUs" if in_kernel and access.home.device is not None else ""
                if words := _WORDS.get(access.buffer.memory, on_gpu):
                    size = access.buffer.dtype.bytes * self._times(statement, access)
                    moved.setdefault(words, [0, 0])[access.is_write] += size
        for words in sorted(moved):
            yield MemoryCost(words, *moved[words])

    def _of(self, statement: Statement) -> Iterator[MemoryAccess]:
        """The arrays that a statement reads, its partial result included, and those that it stores."""
        for source in self.accesses.sources(statement):
            if (read := self.accesses.read(statement, source)) is not None:
                yield read
        if statement.adds and (partial := self.accesses.accumulator(statement)) is not None:
            yield partial
        if statement.stores and (write := self.accesses.write(statement)) is not None:
            yield write

    def _size(self, access: MemoryAccess) -> int:
        return 0 if access.buffer.memory in ON_CHIP else access.buffer.dtype.bytes

    def _fixed(self, of: isl.Set) -> isl.Set:
        return sets.named(sets.fixed(of, self.sizes), None)

    def _times(self, statement: Statement, access: MemoryAccess) -> int:
        """How often an element is accessed: once for each instance at a place that values say, whatever that is."""
        if access.is_write or statement.moves or access.source == statement.source:
            return count(self._fixed(access.domain))
        parts = [e for root in (statement.body, *statement.guards) for e in walk(root) if isinstance(e, Access)]
        named = {e.key(): e for e in parts if e.source == access.source}.values()
        if not any(isinstance(inner, Access) for e in named for index in e.indices for inner in walk(index)):
            return count(self._fixed(access.domain))
        return len(named) * count(self._fixed(access.domain.apply(sets.graph(access.instance))))

    def _statement(self, statement: Statement) -> StatementCost:
        instances = count(self._fixed(statement.instances.intersect_params(self.program.context.params())))
        loaded = stored = 0
        for access in self._of(statement):
            size = self._size(access) * self._times(statement, access)
            loaded, stored = (loaded, stored + size) if access.is_write else (loaded + size, stored)
        each = operations(statement.body) if statement.role in (Role.VALUE, Role.UPDATE) else 0
        each += statement.role is Role.UPDATE
        return StatementCost(
            statement.handle, instances, each * instances, loaded, stored, self._lanes(statement),
            str(statement.body.dtype), self.program.kernel_of(statement) is not None, self._strided(statement),
        )  # fmt: skip

    def _strided(self, statement: Statement) -> tuple[str, ...]:
        found = strided_lanes(self.program, statement)
        return () if found is None else found.arrays

    def _lanes(self, statement: Statement) -> float | None:
        """The share of the lanes of a statement's vectors in which it runs: strips count from the first iteration."""
        depths = [d for d, loop in enumerate(statement.loops) if isinstance(self.program.loops[loop].tag, Vector)]
        if not depths:
            return None
        tag = self.program.loops[statement.loops[depths[0]]].tag
        assert isinstance(tag, Vector)
        forms = sets.outputs(statement.coords)
        others = sets.function(statement.frame, None, [f for d, f in enumerate(forms) if d != depths[0]])
        line = sets.function(statement.frame, None, [forms[depths[0]]])
        within = statement.instances.intersect_params(self.program.context.params())
        lanes = sets.graph(others, within).reverse().apply_range(sets.graph(line))
        used = vectors = 0
        for alike in classes(sets.fixed_map(lanes, self.sizes)):
            keys = count(alike.keys)
            used += keys * alike.images
            vectors += keys * -(-alike.images // tag.width)
        return used / (vectors * tag.width) if vectors else None

    def _arrays(self) -> Iterator[ArrayCost]:
        touched: dict[Home, list[isl.Set]] = {}
        buffers = {}
        for statement in self.program.acting:
            for access in self._of(statement):
                touched.setdefault(access.home, []).append(self._fixed(access.accessed))
                buffers[access.home] = access
        for home, parts in touched.items():
            elements, access = count(sets.union_of(parts).coalesce()), buffers[home]
            memory = access.buffer.memory.value if home.device is None else f"GPU {home.device}"
            callers = access.buffer.argument and home.device == access.buffer.device
            yield ArrayCost(home.buffer, memory, elements, elements * self._size(access), callers)

    def _tiles(self) -> Iterator[TileCost]:
        """The footprints of the nests that have loops over tiles, by these loops."""
        nests: dict[tuple[LoopId, ...], list[Statement]] = {}
        for statement in self.program.acting:
            around = statement.loops[: tile_loops(self.program, statement)]
            if around:
                nests.setdefault(around, []).append(statement)
        for loops, statements in nests.items():
            yield self._tile(loops, statements)

    def _tile(self, loops: tuple[LoopId, ...], statements: list[Statement]) -> TileCost:
        relations: dict[Home, list[isl.Map]] = {}
        sizes: dict[Home, int] = {}
        tiles = list[isl.Set]()
        for statement in statements:
            for access in self._of(statement):
                used = access.prefix(len(loops)).reverse().apply_range(access.places)
                relations.setdefault(access.home, []).append(sets.fixed_map(used, self.sizes))
                sizes[access.home] = self._size(access)
                tiles.append(relations[access.home][-1].domain())
        largest, total = list[tuple[str, int]](), 0
        for home, parts in relations.items():
            found = [(alike.images, count(alike.keys)) for alike in classes(sets.union_of(parts).coalesce())]
            total += sizes[home] * sum(images * keys for images, keys in found)
            if sizes[home]:
                largest.append((home.buffer, sizes[home] * max((images for images, _ in found), default=0)))
        names = tuple(self.program.loops[loop].name for loop in loops)
        return TileCost(names, count(sets.union_of(tiles).coalesce()), tuple(largest), total)


def tile_loops(program: Program, statement: Statement) -> int:
    """The number of outer loops up to the innermost one that counts tiles, if there are loops inside."""
    tiles = [depth for depth, loop in enumerate(statement.loops[:-1]) if _counts_tiles(program, loop)]
    return max(tiles, default=-1) + 1


def _counts_tiles(program: Program, loop: LoopId) -> bool:
    """Whether the coordinate of a loop, other than that of a rank, is the same on several consecutive points."""
    if program.loops[loop].is_rank:
        return False
    inside = program.with_this_loop(loop)
    return any(_is_floor(sets.outputs(statement.coords)[statement.depth(loop)]) for statement in inside)


def _is_floor(form: isl.Aff) -> bool:
    """Whether a form is a floor of dimensions, without a dimension itself."""
    taken = sets.terms(form)
    return taken.denominator > 1 or (bool(taken.divs) and not any(taken.dims))

"""The cost of a schedule at given sizes before it runs: operations, bytes, footprints of tiles, lanes, messages.

All numbers are exact counts of integer sets, at these sizes; they say nothing of caches, which depend on the machine.
What is read and stored more than once is counted in three ways: each time (`accessed`), once for each tile
(`through_tiles`: what a cache has to fetch that holds one tile at a time), and once (`distinct`). Operations are those
of the expressions: both sides of a select count, whichever is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.counting.amounts import Communication
from tiramisu_py.counting.lattice_points import classes, count
from tiramisu_py.counting.work import operations
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.errors import ArgumentError
from tiramisu_py.program.loops import LoopId, Vector
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Home, Memory
from tiramisu_py.view.roofline import Mark, Rates, require_rates, roofline

#: Memories without traffic of their own: what is in them is in registers, or on the chip of a GPU.
ON_CHIP = (Memory.REGISTER, Memory.SHARED)


@dataclass(frozen=True)
class StatementCost:
    """A statement: its instances, their operations, the bytes that they load and store, each time.

    Instances in a vector loop fill `lanes` of the lanes of its vectors, between 0 and 1; None without a vector loop.
    """

    name: str
    instances: int
    operations: int
    loaded: int
    stored: int
    lanes: float | None


@dataclass(frozen=True)
class ArrayCost:
    """An array in one memory: the elements that are read or stored, and their bytes.

    An array that exists once for each tile, or rank, has the elements of all these copies.
    """

    name: str
    memory: str
    elements: int
    bytes: int
    callers: bool


@dataclass(frozen=True)
class TileCost:
    """The tiles of one loop nest: their loops, their number, the bytes of each array's elements in the largest of them.

    `footprint` is the sum over all arrays, and `total` the sum over all tiles.
    """

    loops: tuple[str, ...]
    tiles: int
    arrays: tuple[tuple[str, int], ...]
    total: int

    @property
    def footprint(self) -> int:
        """The bytes that a tile reads and stores, at most."""
        return sum(size for _, size in self.arrays)


@dataclass(frozen=True)
class ScheduleCost:
    """The cost of a schedule at `sizes`."""

    name: str
    sizes: Mapping[str, int]
    statements: tuple[StatementCost, ...]
    arrays: tuple[ArrayCost, ...]
    tiles: tuple[TileCost, ...]
    communication: Communication

    @property
    def operations(self) -> int:
        """All arithmetic operations."""
        return sum(each.operations for each in self.statements)

    @property
    def accessed(self) -> int:
        """The bytes of all loads and stores."""
        return sum(each.loaded + each.stored for each in self.statements)

    @property
    def distinct(self) -> int:
        """The bytes of all elements that are read or stored, each counted once."""
        return sum(each.bytes for each in self.arrays)

    @property
    def compulsory(self) -> int:
        """The bytes of the elements of the caller's arrays that are read or stored: no schedule moves less."""
        return sum(each.bytes for each in self.arrays if each.callers)

    @property
    def through_tiles(self) -> int:
        """The bytes that each tile reads or stores, each element counted once for each tile; 0 without tiles."""
        return sum(each.total for each in self.tiles)

    @property
    def intensity(self) -> float:
        """Operations for each compulsory byte: beside those of a machine, it says what limits the speed."""
        return self.operations / self.compulsory if self.compulsory else 0.0

    def roofline(self, machine: Rates, seconds: float | None = None) -> str:
        """A roofline plot as SVG text: what limits the schedule on a machine, operations or memory.

        ::

            timing = kernel.time(image)
            Path("blur.svg").write_text(f.cost(N=1000, M=2000).roofline(tm.Machine.here(), timing.minimum))

        It marks the operations for each byte that has to be moved, and for each byte that tiles move, below the roof of
        the machine, and the speed of a call that took so many `seconds`. Raises `ArgumentError` for a machine
        without rates, and for `seconds` that are no time.
        """
        require_rates(machine)
        timed = isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds < math.inf
        if seconds is not None and not timed:
            raise ArgumentError(f"seconds={seconds!r}: give the time of a call in seconds, such as timing.minimum")
        marks = [Mark("each byte of the caller's arrays once", self.intensity)]
        if self.through_tiles:
            marks.append(Mark("each byte once for each tile", self.operations / self.through_tiles))
        if seconds is not None:
            marks.append(Mark("measured", self.intensity, self.operations / seconds))
        sizes = ", ".join(f"{name} = {value}" for name, value in self.sizes.items())
        return roofline(f"{self.name} at {sizes}" if sizes else self.name, marks, machine)

    def as_dict(self) -> dict[str, Any]:
        """The cost as plain data."""
        moved = [[m.name, m.direction, m.messages, m.elements, m.bytes] for m in self.communication.transfers]
        return {
            "name": self.name,
            "sizes": dict(self.sizes),
            "statements": [asdict(each) for each in self.statements],
            "arrays": [asdict(each) for each in self.arrays],
            "tiles": [asdict(each) | {"footprint": each.footprint} for each in self.tiles],
            "moved": moved,
            "operations": self.operations,
            "accessed": self.accessed,
            "through_tiles": self.through_tiles,
            "distinct": self.distinct,
            "compulsory": self.compulsory,
        }

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} = {value}" for name, value in self.sizes.items())
        lines = [f"{self.name}{f' at {sizes}' if sizes else ''}:"]
        lines.append(f"  {self.operations:,} operations, {self.intensity:.3g} for each byte of the caller's arrays")
        lines.append(
            f"  bytes: {self.accessed:,} accessed, {self.distinct:,} distinct, {self.compulsory:,} the caller's"
        )
        for each in self.statements:
            lanes = "" if each.lanes is None else f", {100 * each.lanes:.3g} % of the lanes"
            done = f"{each.instances:,} instances, {each.operations:,} operations"
            lines.append(f"  {each.name}: {done}, {each.loaded:,} bytes loaded, {each.stored:,} stored{lanes}")
        lines += [f"  {a.name} ({a.memory}): {a.elements:,} elements, {a.bytes:,} bytes" for a in self.arrays]
        for tile in self.tiles:
            parts = ", ".join(f"{name} {size:,}" for name, size in tile.arrays)
            loops = ", ".join(tile.loops)
            lines.append(f"  {tile.tiles:,} tiles of {loops}: at most {tile.footprint:,} bytes each ({parts})")
        moved = self.communication.transfers
        lines += [
            f"  {m.name}, {m.direction}: {m.elements:,} elements, {m.bytes:,} bytes in {m.messages:,}" for m in moved
        ]
        return "\n".join(lines)


def schedule_cost(program: Program, sizes: Mapping[str, int], moved: Communication) -> ScheduleCost:
    """The cost of a program as it is proven (completed, and spread over its ranks) at given sizes."""
    return _Counted(program, sizes).cost(moved)


class _Counted:
    def __init__(self, program: Program, sizes: Mapping[str, int]) -> None:
        self.program = program
        self.sizes = sizes
        self.accesses = MemoryAccesses(program)

    def cost(self, moved: Communication) -> ScheduleCost:
        acting = self.program.acting
        return ScheduleCost(
            self.program.algorithm.name,
            {name: self.sizes[name] for name in self.program.algorithm.params},
            tuple(self._statement(each) for each in acting),
            tuple(self._arrays()),
            tuple(self._tiles()),
            moved,
        )

    def _of(self, statement: Statement) -> Iterator[MemoryAccess]:
        """What a statement reads, its partial result included, and what it stores."""
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

    def _statement(self, statement: Statement) -> StatementCost:
        instances = count(self._fixed(statement.instances.intersect_params(self.program.context.params())))
        loaded = stored = 0
        for access in self._of(statement):
            size = self._size(access) * count(self._fixed(access.domain))
            loaded, stored = (loaded, stored + size) if access.is_write else (loaded + size, stored)
        each = operations(statement.body) if statement.role in (Role.VALUE, Role.UPDATE) else 0
        each += statement.role is Role.UPDATE
        return StatementCost(statement.handle, instances, each * instances, loaded, stored, self._lanes(statement))

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

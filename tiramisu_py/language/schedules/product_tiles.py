"""Products of blocks in tiles of registers: each is summed where a block reads it, and never is in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tiramisu_py.algorithm import operators
from tiramisu_py.algorithm.expressions import Iter, Select
from tiramisu_py.algorithm.traversal import accesses, walk
from tiramisu_py.errors import CommandError
from tiramisu_py.function.arrays import ProgramValue
from tiramisu_py.function.handles.computations import Computation, Reduction, Selection
from tiramisu_py.language.launched import KernelRun
from tiramisu_py.language.schedules.placement import axes_of, extent_of_axis, loop_names
from tiramisu_py.language.values.groups import sources_of
from tiramisu_py.program.storage import Memory
from tiramisu_py.toolchain.target_processor import Target

#: The most lanes of a vector loop.
MOST_LANES = 16
#: The most vectors in a row of a tile.
MOST_VECTORS = 4


def lanes_of(machine: Target, size: int) -> int:
    """The elements of so many bytes in a vector, or in two where these are 8 bytes."""
    return max(min(machine.vector_bytes // size, MOST_LANES), 2)


def width_along(run: KernelRun, value: ProgramValue, axis: Iter, machine: Target) -> int:
    """The lanes of a vector along an axis: a power of two."""
    lanes = lanes_of(machine, max(value.dtype.bytes, 1))
    extent = extent_of_axis(run, value, axis)
    while extent and lanes > extent:
        lanes //= 2
    return lanes


def tile_sizes(run: KernelRun, value: ProgramValue, row: Iter, column: Iter, machine: Target) -> tuple[int, int, int]:
    """The rows and columns of a tile of accumulators, and its lanes: it leaves registers for a row of vectors."""
    lanes = width_along(run, value, column, machine)
    vectors = MOST_VECTORS if machine.vector_registers >= 32 else 2
    columns = _divisor(extent_of_axis(run, value, column), lanes, vectors * lanes)
    most = max((machine.vector_registers - 2) // max(columns // lanes, 1) - 1, 1)
    return _divisor(extent_of_axis(run, value, row), 1, most), columns, lanes


def cut(axis: Iter) -> tuple[Iter, Iter]:
    """The loops over tiles and in them of an axis."""
    return Iter(f"{axis.name}_tile"), Iter(f"{axis.name}_in")


def tried(run: KernelRun, apply: Callable[[], object]) -> bool:
    """Whether commands can be applied; if one is refused none of them is."""
    try:
        with run.function.all_or_nothing():
            apply()
    except CommandError:
        return False
    return True


def terms_of(run: KernelRun, value: ProgramValue) -> list[Iter]:
    """The axes of blocks over which a value is reduced."""
    known = {*run.programs.axes.loops, *run.programs.axes.programs}
    return [each for each in value.over if each.name not in known]


class ProductTiles:
    """The products of a run that one block reads, element by element: computed with it, tile by tile."""

    def __init__(self, run: KernelRun, machine: Target) -> None:
        self._run = run
        self._machine = machine
        #: The innermost loop over tiles of each block that reads products, and the axes of which it has tiles.
        self._readers: dict[str, tuple[Iter, tuple[str, str]]] = {}
        #: The values whose loops are tiles: products, and what reads them.
        self.tiled: set[str] = set()

    def place(self, value: ProgramValue) -> tuple[Selection, Iter] | None:
        """Compute a product in the tiles of its reader, which is where it should be; None for other values."""
        reader, axes = self._reader(value), axes_of(self._run, value)
        if reader is None:
            return None
        sizes = self._sizes(value, reader, axes[-2], axes[-1])
        if sizes is None:
            return None
        handle, reading = self._run.function[value.name], self._run.function[reader.name]
        assert isinstance(handle, Reduction)
        terms, axes_in_tiles = terms_of(self._run, value), (axes[-2].name, axes[-1].name)
        if reader.name in self._readers and self._readers[reader.name][1] != axes_in_tiles:
            return None
        loops = [self._readers[reader.name][0]] if reader.name in self._readers else []

        def apply() -> None:
            if not loops:
                loops.append(self._cut_reader(reading, axes, sizes))
            handle.compute_at(reading, loops[0])
            self._in_registers(handle, axes, terms, sizes[2])

        if not tried(self._run, apply):
            return None
        self._readers[reader.name] = loops[0], axes_in_tiles
        self.tiled |= {value.name, reader.name}
        return reading, loops[0]

    def _reader(self, value: ProgramValue) -> ProgramValue | None:
        """The only reader of a product, if it reads each element for its own one."""
        terms = terms_of(self._run, value)
        if len(axes_of(self._run, value)) < 2 or value.op is not operators.sum_ or value.where is not None:
            return None
        if not terms or len(terms) < len(value.over) or value.name in self._run.stored:
            return None
        readers = [each for each in self._run.values if value.name in sources_of(each)]
        if len(readers) != 1 or readers[0].over or readers[0].name in self._run.stored or readers[0] is value:
            return None
        (reader,) = readers
        own = [each.name for each in value.domain]
        same = [each.name for each in reader.domain] == own and loop_names(self._run, reader) == loop_names(
            self._run, value
        )
        reads = [each for each in accesses(reader.expr) if each.source == value.name]
        return reader if same and all([getattr(i, "name", "") for i in each.indices] == own for each in reads) else None

    def _sizes(self, value: ProgramValue, reader: ProgramValue, row: Iter, column: Iter) -> tuple[int, int, int] | None:
        """The rows and columns of a tile, and its lanes; None where registers have no room for them.

        Tiles of what is read under a condition are as wide as the block: full ones are told apart by rows alone.
        """
        rows, columns, lanes = tile_sizes(self._run, value, row, column, self._machine)
        extent, registers = extent_of_axis(self._run, value, column), self._machine.vector_registers
        if columns == extent or not _chosen(value, reader):
            return rows, columns, lanes
        vectors = extent // lanes
        if vectors > registers // 2:
            return None
        most = max((registers - 2) // vectors - 1, 1)
        return _divisor(extent_of_axis(self._run, value, row), 1, most), extent, lanes

    def _cut_reader(self, reading: Computation, axes: Sequence[Iter], sizes: tuple[int, int, int]) -> Iter:
        """Cut the loops of the reader into tiles; the innermost loop over tiles."""
        (row, column), (rows, columns, lanes) = axes[-2:], sizes
        (i0, i1), (j0, j1) = cut(row), cut(column)
        reading.tile(row, column, rows, columns, i0, j0, i1, j1)
        reading.reorder(j0, i0, i1, j1)  # a panel of the right operand stays near for all rows
        reading.unroll(i1)
        reading.vectorize(j1, lanes, remainder="mask")
        return i0

    def _in_registers(self, handle: Reduction, axes: Sequence[Iter], terms: Sequence[Iter], lanes: int) -> None:
        row, column = axes[-2:]
        handle.store_in(Memory.REGISTER)
        handle.update.reorder(*terms, row, column)
        handle.unroll(row)
        handle.vectorize(column, lanes, remainder="mask")


def _chosen(value: ProgramValue, reader: ProgramValue) -> bool:
    """Whether a value is read under a condition."""
    choices = [each for each in walk(reader.expr) if isinstance(each, Select)]
    return any(value.name in {access.source for access in accesses(each)} for each in choices)


def _divisor(extent: int, least: int, most: int) -> int:
    """The largest number of at most `most` that divides an extent, by doubling from `least`."""
    found = least
    while found * 2 <= most and extent % (found * 2) == 0:
        found *= 2
    return found

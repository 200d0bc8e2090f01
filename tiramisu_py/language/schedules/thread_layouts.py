"""The threads of a block that have the elements of each value, and which values need not leave their registers.

Without products the last axis of a value is along x, and the one before along the other threads. A product has tiles:
a thread has several rows, and in each of them groups of neighbouring columns. With tensor cores a warp
has its threads along x and y, 4 and 8, and what the instruction computes is dealt out in fragments: of 16 rows and 8
columns thread (x, y) has rows y and y + 8, and columns 2x and 2x + 1. Values that are made of a product, element by
element, have its tiles or fragments too; all others have neighbouring elements on neighbouring threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd

from tiramisu_py.algorithm import operators
from tiramisu_py.algorithm.expressions import Access, Binary, Cast, Iter
from tiramisu_py.algorithm.traversal import accesses
from tiramisu_py.algorithm.types import bfloat16, float16, float32
from tiramisu_py.function.arrays import ProgramValue
from tiramisu_py.function.handles.computations import Reduction, Selection
from tiramisu_py.language.launched import KernelRun
from tiramisu_py.language.schedules.placement import block_axes, extent_of_axis, is_replaced, loop_names
from tiramisu_py.language.schedules.rows_in_registers import Rows, reads_own_elements, rows_in_registers
from tiramisu_py.language.schedules.wide_loads import neighbours
from tiramisu_py.language.values.groups import sources_of
from tiramisu_py.program.loops import Combine
from tiramisu_py.program.machine.gpu_target import CUDA
from tiramisu_py.program.machine.tensor_instructions import WARP_SHAPE
from tiramisu_py.program.storage import Memory, Swizzle
from tiramisu_py.records import dataclass

#: The threads of a warp.
WARP = 32
#: The rows and columns of a product's tile.
ROWS, COLUMNS = 16, 8
#: The neighbouring columns of a tile, and the threads of a warp along x and y that have tiles.
NEIGHBOURS, TILE_SHAPE = 4, (8, 4)
#: The most terms that are written out for a tile.
MOST_TERMS = 32
#: The rows of a factor that a warp loads at once.
SWIZZLED = 8
#: The most elements of a value that a thread keeps in registers.
MOST_REGISTERS = 64


@dataclass(frozen=True, eq=False)
class TensorProduct:
    """A product for tensor cores: its loop over the terms of a block, the instruction, and the terms that it adds."""

    terms: Iter
    instruction: str
    together: int


@dataclass(frozen=True, eq=False)
class ThreadLoops:
    """The loops of a statement over threads, the last one along x, and those that a product's instruction runs.

    A thread loads the elements of the loop `vector`, so many, at once. `combine` says how they add theirs up.
    """

    threads: tuple[Iter, ...]
    tile: tuple[Iter, ...] = ()
    unrolled: tuple[Iter, ...] = ()
    vector: tuple[Iter, int] | None = None
    combine: Combine | None = None


@dataclass(frozen=True, eq=False)
class ThreadLayouts:
    """How the elements of a run's values are dealt out to the threads of a block of so many warps."""

    run: KernelRun
    warps: int
    products: dict[str, TensorProduct]
    fragments: frozenset[str]
    tiles: frozenset[str]
    alike: frozenset[tuple[str, str]]
    rows: Rows | None = None

    @property
    def _warp(self) -> tuple[int, int] | None:
        """The threads of a warp along x and y; None where all of them are along x."""
        return WARP_SHAPE if self.fragments else TILE_SHAPE if self.tiles else None

    def _kind(self, name: str) -> tuple[bool, bool]:
        """Whether a value has fragments, and whether it has tiles."""
        return name in self.fragments, name in self.tiles

    def stays_in_registers(self, value: ProgramValue) -> bool:
        """Whether the thread that has an element of a value is the one that reads it, whoever does."""
        name = value.name
        if self.rows is not None:
            return name in self.rows.kept
        readers = [other.name for other in self.run.values if name in sources_of(other)]
        outputs = self.run.stored
        if name in outputs or not readers or not self._is_small(value):
            return False
        if name in sources_of(value) and not (loop_names(self.run, value) and is_replaced(self.run, value)):
            return False  # registers have names: what several iterations keep is no array of them
        same = {self._kind(name)} == {self._kind(other) for other in readers}
        return same and all((name, other) in self.alike for other in readers)

    def swizzle(self, value: ProgramValue) -> Swizzle | None:
        """How the rows are turned of a factor that tensor cores read: None where they need not be, or cannot.

        A warp loads 8 rows of it at once, 16 bytes of each, which are in different banks then. Rows are alike that have
        128 bytes together, since their elements are in different banks anyway.
        Of 4 bytes, these are elements of which a thread needs neighbouring terms.
        """
        axes, group = _axes(self.run, value), CUDA.widest // value.dtype.bytes
        for name, product in self.products.items():
            reader = next(each for each in self.run.values if each.name == name)
            for access in accesses(reader.expr) if value.name in sources_of(reader) else ():
                by_terms = access.indices[-1].same_as(product.terms) or value.dtype.bytes == 2
                if access.source != value.name or len(axes) < 2 or not by_terms:
                    continue
                groups = extent_of_axis(self.run, value, axes[-1]) // group
                if groups < 2 or groups.bit_count() > 1:
                    return None
                return (groups, group, SWIZZLED // groups) if groups < SWIZZLED else (SWIZZLED, group)
        return None

    def has_its_own(self, source: str, reader: str) -> bool:
        """Whether the thread that has an element of a value is the one that reads it for that of another value."""
        return self._kind(source) == self._kind(reader) and (source, reader) in self.alike

    def _is_small(self, value: ProgramValue) -> bool:
        elements = 1
        for axis in _axes(self.run, value):
            elements *= extent_of_axis(self.run, value, axis)
        return 0 < elements <= MOST_REGISTERS * WARP * self.warps

    def loops(self, value: ProgramValue, part: Selection) -> ThreadLoops:
        """Cut the axes of a statement for the threads of a block."""
        axes = block_axes(self.run, value, part)
        if self.rows is not None and value.name in self.rows.elements | self.rows.sums:
            return self._in_rows(value, part, axes, self.rows)
        if not axes:
            return ThreadLoops(())
        if value.name in self.fragments:
            return self._in_fragments(value, part, axes)
        if value.name in self.tiles:
            return self._in_tiles(value, part, axes)
        return self._side_by_side(value, part, axes)

    # -- fragments

    def _in_fragments(self, value: ProgramValue, part: Selection, axes: Sequence[Iter]) -> ThreadLoops:
        """Rows and columns as the instruction deals them out to the threads of a warp."""
        extents = [extent_of_axis(self.run, value, axis) for axis in axes]
        by_rows, by_columns = gcd(extents[0] // ROWS, self.warps), gcd(extents[1] // COLUMNS, self.warps)
        warps = (by_rows, 1) if by_rows >= by_columns else (1, by_columns)
        parts, warp, lanes, own = list[Iter](), list[Iter](), list[Iter](), list[Iter]()
        for axis, extent, size, count, lane in zip(axes, extents, (ROWS, COLUMNS), warps, (8, 2), strict=True):
            rest = self._cut(part, axis, extent, size * count, axis, "part", parts)
            rest = self._cut(part, rest, size * count, size, axis, "warp", warp)
            first, second = _named(axis, "half"), _named(axis, "lane")
            if axis is axes[1]:
                first, second = _named(axis, "lane"), _named(axis, "pair")
            part.split(rest, lane, first, second)
            lanes.append(second if axis is axes[0] else first)
            own.append(first if axis is axes[0] else second)
        threads = (*warp, *lanes)
        terms = list[Iter]()
        product = self.products.get(value.name)
        if product is None or product.terms.name not in self._names(part):
            part.reorder(*threads, *parts, *own)
            return ThreadLoops(threads)
        last = self._cut(part, product.terms, value.over[product.terms], product.together, product.terms, "step", terms)
        part.reorder(*terms, *threads, *parts, *own, last)
        return ThreadLoops(threads, (*own, last), (*terms, *parts))

    def _cut(self, part: Selection, loop: Iter, extent: int, by: int, axis: Iter, word: str, outer: list[Iter]) -> Iter:
        """Cut a loop if it has more iterations than `by`; the inner loop, while the outer one joins a list."""
        if extent <= by:
            return loop
        cut, rest = _named(axis, word), _named(axis, f"in_{word}")
        part.split(loop, by, cut, rest)
        outer.append(cut)
        return rest

    # -- tiles

    def _in_tiles(self, value: ProgramValue, part: Selection, axes: Sequence[Iter]) -> ThreadLoops:
        """Rows dealt out to threads in turn, and in each of them groups of neighbouring columns."""
        (x, y), (row, column) = TILE_SHAPE, axes
        rows, columns = (extent_of_axis(self.run, value, axis) for axis in axes)
        parts, warp = list[Iter](), list[Iter]()
        rest = self._cut(part, row, rows, y * self.warps, row, "part", parts)
        rest = self._cut(part, rest, y * self.warps, y, row, "warp", warp)
        group = self._cut(part, column, columns, x * NEIGHBOURS, column, "part", parts)
        lane, own = _named(column, "lane"), _named(column, "own")
        part.split(group, NEIGHBOURS, lane, own)
        threads = (*warp, rest, lane)
        terms, unrolled = self._terms(value, part), list[Iter]()
        if terms:  # neighbouring terms are loaded at once
            *terms, last = terms
            extent = extent_of_axis(self.run, value, last)
            unrolled = [self._cut(part, last, extent, MOST_TERMS, last, "part", terms)]
        part.reorder(*terms, *unrolled, *threads, *parts, own)
        return ThreadLoops(threads, unrolled=(*unrolled, *parts, own))

    # -- rows

    def _in_rows(self, value: ProgramValue, part: Selection, axes: Sequence[Iter], rows: Rows) -> ThreadLoops:
        """A row in turn on all threads, each of which has groups of neighbours; sums are trees."""
        axis, is_sum, parts, own = rows.axis(self.run, value), value.name in rows.sums, list[Iter](), list[Iter]()
        if is_sum and axis.name not in self._names(part):
            return ThreadLoops(())
        thread = self._cut(part, axis, rows.extent, rows.threads * rows.lanes, axis, "part", parts)
        if rows.lanes > 1:
            group, thread, last = thread, _named(axis, "lane"), _named(axis, "own")
            part.split(group, rows.lanes, thread, last)
            own.append(last)
        part.reorder(thread, *(each for each in axes if each.name != axis.name), *parts, *own)
        if value.name in rows.loaded or (own and value.name in self.run.stored):
            return ThreadLoops((thread,), unrolled=tuple(parts), vector=(own[0], rows.lanes))
        return ThreadLoops((thread,), unrolled=(*parts, *own), combine=Combine.TREE if is_sum else None)

    # -- neighbours

    def _side_by_side(self, value: ProgramValue, part: Selection, axes: Sequence[Iter]) -> ThreadLoops:
        """Neighbouring elements on neighbouring threads."""
        found, outer = list[Iter](), list[Iter]()
        extents = [extent_of_axis(self.run, value, axis) for axis in axes]
        vector, lanes = list[Iter](), self._lanes(value, axes, extents)
        if lanes > 1:
            first, each = _named(axes[-1], "vector"), _named(axes[-1], "element")
            part.split(axes[-1], lanes, first, each)
            axes, extents, vector = [*axes[:-1], first], [*extents[:-1], extents[-1] // lanes], [each]
        if self._warp is not None:
            found = self._in_warps(part, axes, extents, outer, self._warp)
        else:
            most = (self.warps, WARP) if len(axes) > 1 else (self.warps * WARP,)
            for axis, extent, count in zip(axes[-2:], extents[-2:], most, strict=True):
                found.append(self._cut(part, axis, extent, count, axis, "part", outer))
        outermost = list(axes[:-2])
        terms = self._terms(value, part)
        part.reorder(*outer, *outermost, *found, *terms, *vector)
        return ThreadLoops(tuple(found), vector=(vector[0], lanes) if vector else None)

    def _lanes(self, value: ProgramValue, axes: Sequence[Iter], extents: Sequence[int]) -> int:
        """The neighbouring elements that a thread brings into shared memory at once."""
        program = self.run.function.program
        if program.buffers[program.storages[value.name].buffer].memory is not Memory.SHARED:
            return 1
        lanes = neighbours(self.run, value, axes[-1], extents, self.warps * WARP)
        if len(axes) > 1 and self._warp is None:  # a row is along x, where no thread is to be idle
            while lanes > 1 and extents[-1] // lanes < min(extents[-1], WARP):
                lanes //= 2
        return lanes

    def _in_warps(
        self, part: Selection, axes: Sequence[Iter], extents: Sequence[int], outer: list[Iter], shape: tuple[int, int]
    ) -> list[Iter]:
        """The loops over warps, and over threads of a warp along y and x."""
        x, y = shape
        last, extent = axes[-1], extents[-1]
        warps, lanes = list[Iter](), list[Iter]()
        if len(axes) > 1 and extent < WARP:  # rows along y, and warps
            row, rows = axes[-2], extents[-2]
            rest = self._cut(part, row, rows, y * self.warps, row, "part", outer)
            lanes.append(self._cut(part, rest, min(rows, y * self.warps), y, row, "warp", warps))
            lanes.append(self._cut(part, last, extent, x, last, "part", outer))
            return [*warps, *lanes]
        if len(axes) > 1:
            row, rows = axes[-2], extents[-2]
            warps.append(self._cut(part, row, rows, self.warps, row, "part", outer))
            rest = self._cut(part, last, extent, WARP, last, "part", outer)
        else:
            rest = self._cut(part, last, extent, WARP * self.warps, last, "part", outer)
            rest = self._cut(part, rest, min(extent, WARP * self.warps), WARP, last, "warp", warps)
        lane = self._cut(part, rest, min(extent, WARP), x, last, "row", lanes)
        return [*warps, *lanes, lane]

    def _terms(self, value: ProgramValue, part: Selection) -> list[Iter]:
        """The loops over the terms of a block, innermost."""
        loops = {*self.run.programs.axes.loops, *self.run.programs.axes.programs}
        over = {each.name for each in value.over} - loops
        return [Iter(name) for name in self._names(part) if name in over]

    def _names(self, part: Selection) -> tuple[str, ...]:
        program = self.run.function.program
        return program.loop_names(program.statements[part.statement_names()[0]])


def layouts(run: KernelRun, warps: int, chosen: Mapping[str, Memory]) -> ThreadLayouts:
    """How the values of a run are dealt out, from who reads what; before any loop is on threads.

    A product is left to loops where the user has `chosen` other memory for its sums, or registers for a factor.
    """
    on_cuda = run.function.program.targets.gpu.compiler == CUDA.compiler
    products = dict[str, TensorProduct]()
    for value in run.values if on_cuda else ():
        factors = {chosen.get(name) for name in sources_of(value)}
        if chosen.get(value.name, Memory.REGISTER) is Memory.REGISTER and Memory.REGISTER not in factors:
            found = _product(run, value)
            products |= {} if found is None else {value.name: found}
    alike = frozenset(
        (name, value.name) for value in run.values for name in sources_of(value) if _is_read_alike(run, name, value)
    )
    fragments = set(products)
    _with_followers(run, fragments, alike)
    tiles = set() if products else {value.name for value in run.values if _has_tiles(run, value, warps, chosen)}
    _with_followers(run, tiles, alike)
    rows = None if products or tiles else rows_in_registers(run, warps * WARP, chosen)
    return ThreadLayouts(run, warps, products, frozenset(fragments), frozenset(tiles), alike, rows)


def _with_followers(run: KernelRun, found: set[str], alike: frozenset[tuple[str, str]]) -> None:
    """Add the values that are made of some, element by element."""
    for value in run.values:
        follows = any(name in found and (name, value.name) in alike for name in sources_of(value))
        if follows and (value.name in run.stored or not isinstance(run.function[value.name], Reduction)):
            found.add(value.name)


def _has_tiles(run: KernelRun, value: ProgramValue, warps: int, chosen: Mapping[str, Memory]) -> bool:
    """Whether a value is a product in float32 of two blocks in shared memory, which whole tiles cover."""
    axes, (x, y) = _axes(run, value), TILE_SHAPE
    if value.op is not operators.sum_ or value.where is not None or value.name in run.stored or len(axes) != 2:
        return False
    if value.dtype != float32 or chosen.get(value.name, Memory.REGISTER) is not Memory.REGISTER:
        return False
    body = value.expr
    if not isinstance(body, Binary) or body.op != "*" or len({each.source for each in accesses(body)}) != 2:
        return False
    rows, columns = (extent_of_axis(run, value, axis) for axis in axes)
    return bool(rows and columns) and not rows % (y * warps) and not columns % (x * NEIGHBOURS)


def _product(run: KernelRun, value: ProgramValue) -> TensorProduct | None:
    """The product of two blocks that tensor cores take, summed in float32; None where they do not take its extents."""
    axes = _axes(run, value)
    if value.op is not operators.sum_ or value.where is not None or value.name in run.stored or len(axes) != 2:
        return None
    loops = {*run.programs.axes.loops, *run.programs.axes.programs}
    terms = [(each, extent) for each, extent in value.over.items() if each.name not in loops]
    extents = [extent_of_axis(run, value, axis) for axis in axes]
    if len(terms) != 1 or not isinstance(terms[0][1], int) or value.dtype != float32:
        return None
    name = _instruction(value, value.name in run.programs.tf32)
    if name is None:
        return None
    together = 16 if name == "m16n8k16" else 8
    whole = zip((*extents, terms[0][1]), (ROWS, COLUMNS, together), strict=True)
    if any(not extent or extent % by for extent, by in whole):
        return None
    return TensorProduct(terms[0][0], name, together)


def _instruction(value: ProgramValue, tf32: bool) -> str | None:
    """The instruction for the types of a product's factors, two values; None if there is none."""
    if not isinstance(value.expr, Binary) or value.expr.op != "*":
        return None
    wide = [isinstance(each, Cast) for each in (value.expr.left, value.expr.right)]
    left, right = (each.operand if isinstance(each, Cast) else each for each in (value.expr.left, value.expr.right))
    if not isinstance(left, Access) or not isinstance(right, Access) or left.source == right.source:
        return None
    if all(wide) and left.dtype == right.dtype and left.dtype in (float16, bfloat16):
        return "m16n8k16"
    return "m16n8k8.tf32" if tf32 and not any(wide) and left.dtype == right.dtype == float32 else None


def _is_read_alike(run: KernelRun, source: str, reader: ProgramValue) -> bool:
    """Whether each execution of a reader reads, of another value of the run, the element at its own axes."""
    value = next((each for each in run.values if each.name == source), None)
    if value is None or source in run.stored:
        return False
    handle = run.function[reader.name]
    part = handle.update if isinstance(handle, Reduction) else handle
    own, other = _axes(run, value), block_axes(run, reader, part)
    same = [extent_of_axis(run, value, axis) for axis in own] == [extent_of_axis(run, reader, axis) for axis in other]
    return bool(own) and same and reads_own_elements(run, source, reader, own, other)


def _axes(run: KernelRun, value: ProgramValue) -> list[Iter]:
    """The axes of a block, as its first statement has them."""
    handle = run.function[value.name]
    return block_axes(run, value, handle.init if isinstance(handle, Reduction) else handle)


def _named(axis: Iter, word: str) -> Iter:
    return Iter(f"{axis.name}_{word}")

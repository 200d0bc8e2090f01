"""Block programs on cores: programs are iterations of a parallel loop, products run in tiles of registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tiramisu_py.algorithm import declarations
from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.algorithm.traversal import accesses
from tiramisu_py.errors import CommandError
from tiramisu_py.function.arrays import ProgramValue
from tiramisu_py.function.handles.computations import Reduction
from tiramisu_py.language.launched import KernelRun
from tiramisu_py.language.schedules.parts_of_sums import sum_on_cores
from tiramisu_py.language.schedules.placement import (
    PlacedValues,
    axes_of,
    block_axes,
    extent_of_axis,
    main_statement,
    placed,
)
from tiramisu_py.language.values.groups import sources_of
from tiramisu_py.program.loops import Combine
from tiramisu_py.program.targets import Cores
from tiramisu_py.toolchain.target_processor import Target, target

#: The most lanes of a vector loop.
MOST_LANES = 16
#: The most partial results of a sum, or of a maximum.
PARTIAL_RESULTS = 64
#: The most vectors in a row of a tile.
MOST_VECTORS = 4


def _lanes(machine: Target, size: int) -> int:
    """The elements of so many bytes in a vector, or in two where these are 8 bytes."""
    return max(min(machine.vector_bytes // size, MOST_LANES), 2)


def on_cores(run: KernelRun, where: Cores) -> None:
    """Schedule the programs of a run on cores."""
    here = target(None)
    machine = here if where.vector is None else replace(here, vector_bytes=4 * where.vector)
    try:
        with run.function.all_or_nothing():
            whole = placed(run)
    except CommandError:  # of values that are made of each other in turns: each keeps loops of its own
        whole = unplaced(run)
    for value in whole.values:
        _columns_side_by_side(run, value, whole)
    for value in whole.values:
        _in_vectors(run, value, machine)
    for parted in run.sums:
        sum_on_cores(run, parted, _lanes(machine, parted.total.dtype.bytes), where.parallel)
    if whole.programs and where.parallel:
        _parallel(run, whole)
    elif where.parallel:
        for value in whole.values:
            _in_own_loops(run, value)


def unplaced(run: KernelRun) -> PlacedValues:
    """The values of a run in loops of their own, where they cannot be in those of their program."""
    main = run.function[run.stored[-1]]
    return PlacedValues((), main, run.values)


def _parallel(run: KernelRun, whole: PlacedValues) -> None:
    """Deal the programs out to threads: those of all axes of the grid but what adds up."""
    over = {each.name for value in run.values if value.name in run.stored for each in value.over}
    free = [each for each in whole.programs if each.name not in over]
    if free:
        whole.main.parallelize(free[0])
    elif run.is_atomic(whole.main.name):
        main_statement(whole).parallelize(whole.programs[0], combine=Combine.ATOMIC)


def _in_own_loops(run: KernelRun, value: ProgramValue) -> None:
    """Deal the outermost loop of a value out to threads: over programs, or over the runs or rows of an array."""
    outer = next(iter(value.domain), None)
    if outer is not None and (value.name in run.stored or outer.name in run.programs.axes.programs):
        _tried(run, lambda: run.function[value.name].parallelize(outer))


def _in_vectors(run: KernelRun, value: ProgramValue, machine: Target) -> None:
    handle, axes = run.function[value.name], block_axes(run, value, run.function[value.name])
    if isinstance(handle, Reduction):
        _reduced_in_vectors(run, value, handle, axes, machine)
    elif axes:
        _vector(run, value, "", axes, machine)


def _width(run: KernelRun, value: ProgramValue, axis: Iter, machine: Target) -> int:
    """The lanes of a vector along an axis: a power of two."""
    lanes = _lanes(machine, max(value.dtype.bytes, 1))
    extent = extent_of_axis(run, value, axis)
    while extent and lanes > extent:
        lanes //= 2
    return lanes


def _vector(run: KernelRun, value: ProgramValue, part: str, axes: Sequence[Iter], machine: Target) -> None:
    """KernelRun the last axis in vectors."""
    handle = run.function[value.name]
    selected = getattr(handle, part) if part else handle
    width = _width(run, value, axes[-1], machine)
    if width >= 2:
        _tried(run, lambda: selected.vectorize(axes[-1], width, remainder="mask"))


def _reduced_in_vectors(
    run: KernelRun, value: ProgramValue, handle: Reduction, axes: Sequence[Iter], machine: Target
) -> None:
    """A product in tiles of registers; other reductions in lanes of their own, or with partial results in lanes."""
    if axes:
        _vector(run, value, "init", axes, machine)
    terms = [each for each in value.over if each.name not in (*run.programs.axes.loops, *run.programs.axes.programs)]
    if axes and all(value.over[each] == 1 for each in terms) and value.where is not None:
        _lanes_of_rows(run, value, handle, axes, terms, machine)
    elif len(axes) >= 2 and terms and value.name not in run.stored:
        _tile(run, value, handle, axes, terms, machine)
    elif axes and not terms:
        _vector(run, value, "update", axes, machine)
    elif axes and value.op is not declarations.max_ and value.op is not declarations.min_:
        _lanes_of_rows(run, value, handle, axes, terms, machine)
    elif terms:
        width = _width(run, value, terms[-1], machine)
        while width < PARTIAL_RESULTS and extent_of_axis(run, value, terms[-1]) >= 4 * width:
            width *= 2  # partial results of several vectors: no addition waits for the one before
        _tried(run, lambda: handle.update.vectorize(terms[-1], width, combine=Combine.PRIVATE))


def _lanes_of_rows(
    run: KernelRun,
    value: ProgramValue,
    handle: Reduction,
    axes: Sequence[Iter],
    terms: Sequence[Iter],
    machine: Target,
) -> None:
    """Results side by side in lanes, each with its own terms in their order."""
    width = _width(run, value, axes[-1], machine)

    def apply() -> None:
        handle.update.split(axes[-1], width, *_cut(run, axes[-1]))
        outer, inner = _cut(run, axes[-1])
        handle.update.reorder(outer, *terms, inner)
        handle.update.vectorize(inner, width, remainder="mask")

    _tried(run, apply)


def _tile(
    run: KernelRun,
    value: ProgramValue,
    handle: Reduction,
    axes: Sequence[Iter],
    terms: Sequence[Iter],
    machine: Target,
) -> None:
    """Tiles of accumulators in registers: a row of vectors of the right operand, for some rows of the left one."""
    row, column = axes[-2:]
    lanes = _width(run, value, column, machine)
    vectors = MOST_VECTORS if machine.vector_registers >= 32 else 2
    columns = _divisor(extent_of_axis(run, value, column), lanes, vectors * lanes)
    rows = _divisor(
        extent_of_axis(run, value, row), 1, max((machine.vector_registers - 2) // max(columns // lanes, 1) - 1, 1)
    )

    def apply() -> None:
        (i0, i1), (j0, j1) = _cut(run, row), _cut(run, column)
        update = handle.update
        update.tile(row, column, rows, columns, i0, j0, i1, j1)
        update.reorder(j0, i0, *terms, i1, j1)  # a panel of the right operand stays near for all rows
        update.unroll(i1)
        update.vectorize(j1, lanes, remainder="mask")

    _tried(run, apply)


def _columns_side_by_side(run: KernelRun, value: ProgramValue, whole: PlacedValues) -> None:
    """Store a block along the columns of the products that read it, where these have another axis of it in vectors.

    So is k in ``tl.dot(q, tl.trans(k))``: it is copied with its axes exchanged, once for all rows.
    """
    axes = axes_of(run, value)
    if value.name in run.stored or value.name not in whole.within or len(axes) != 2 or value.over:
        return
    found = {_axis_of_columns(run, reader, value) for reader in run.values if value.name in sources_of(reader)}
    if found != {axes[0].name}:
        return
    turned, handle = [axes[1], axes[0]], run.function[value.name]

    def apply() -> None:
        handle.reorder(*turned)
        handle.store_in(turned)
        handle.store_at(*whole.within[value.name])

    _tried(run, apply)


def _axis_of_columns(run: KernelRun, reader: ProgramValue, value: ProgramValue) -> str:
    """The axis of a block that is a product's last one; empty where it is read otherwise."""
    axes, own = axes_of(run, reader), [each.name for each in value.domain]
    reads = [access for access in accesses(reader.expr) if access.source == value.name]
    if len(axes) < 2 or not reader.over or reader.name in run.stored or len(reads) != 1:
        return ""
    indices = [getattr(index, "name", "") for index in reads[0].indices]
    return own[indices.index(axes[-1].name)] if axes[-1].name in indices else ""


def _divisor(extent: int, least: int, most: int) -> int:
    """The largest number of at most `most` that divides an extent, by doubling from `least`."""
    found = least
    while found * 2 <= most and extent % (found * 2) == 0:
        found *= 2
    return found


def _cut(run: KernelRun, axis: Iter) -> tuple[Iter, Iter]:
    return Iter(f"{axis.name}_tile"), Iter(f"{axis.name}_in")


def _tried(run: KernelRun, apply: Callable[[], object]) -> bool:
    """Whether commands can be applied; if one is refused none of them is."""
    try:
        with run.function.all_or_nothing():
            apply()
    except CommandError:
        return False
    return True

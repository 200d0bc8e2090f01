"""Block programs on cores: programs are iterations of a parallel loop, products run in tiles of registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tiramisu_py.algorithm import operators
from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.algorithm.traversal import accesses
from tiramisu_py.errors import CommandError
from tiramisu_py.function.arrays import ProgramValue
from tiramisu_py.function.handles.computations import Reduction
from tiramisu_py.language.launched import KernelRun
from tiramisu_py.language.schedules.loads_in_place import load_early, read_in_place
from tiramisu_py.language.schedules.parts_of_sums import sum_on_cores
from tiramisu_py.language.schedules.placement import (
    PlacedValues,
    axes_of,
    block_axes,
    extent_of_axis,
    main_statement,
    placed,
)
from tiramisu_py.language.schedules.product_tiles import (
    ProductTiles,
    cut,
    lanes_of,
    terms_of,
    tile_sizes,
    tried,
    width_along,
)
from tiramisu_py.language.values.groups import sources_of
from tiramisu_py.program.loops import Combine
from tiramisu_py.program.targets import Cores
from tiramisu_py.toolchain.target_processor import Target, target

#: The most partial results of a sum, or of a maximum.
PARTIAL_RESULTS = 64


def on_cores(run: KernelRun, where: Cores) -> None:
    """Schedule the programs of a run on cores."""
    here = target(None)
    machine = here if where.vector is None else replace(here, vector_bytes=4 * where.vector)
    run = read_in_place(run)
    try:
        with run.function.all_or_nothing():
            tiles = ProductTiles(run, machine)
            whole = placed(run, inside=tiles.place)
    except CommandError:  # of values that are made of each other in turns: each keeps loops of its own
        whole, tiles = unplaced(run), ProductTiles(run, machine)
    for value in whole.values:
        _columns_side_by_side(run, value, whole)
    for value in whole.values:
        if value.name not in tiles.tiled:
            _in_vectors(run, value, machine)
    load_early(run, whole)
    for parted in run.sums:
        sum_on_cores(run, parted, lanes_of(machine, parted.total.dtype.bytes), where.parallel)
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
        tried(run, lambda: run.function[value.name].parallelize(outer))


def _in_vectors(run: KernelRun, value: ProgramValue, machine: Target) -> None:
    handle, axes = run.function[value.name], block_axes(run, value, run.function[value.name])
    if isinstance(handle, Reduction):
        _reduced_in_vectors(run, value, handle, axes, machine)
    elif axes:
        _vector(run, value, "", axes, machine)


def _vector(run: KernelRun, value: ProgramValue, part: str, axes: Sequence[Iter], machine: Target) -> None:
    """KernelRun the last axis in vectors."""
    handle = run.function[value.name]
    selected = getattr(handle, part) if part else handle
    width = width_along(run, value, axes[-1], machine)
    if width >= 2:
        tried(run, lambda: selected.vectorize(axes[-1], width, remainder="mask"))


def _reduced_in_vectors(
    run: KernelRun, value: ProgramValue, handle: Reduction, axes: Sequence[Iter], machine: Target
) -> None:
    """A product in tiles of registers; other reductions in lanes of their own, or with partial results in lanes."""
    if axes:
        _vector(run, value, "init", axes, machine)
    terms = terms_of(run, value)
    if axes and all(value.over[each] == 1 for each in terms) and value.where is not None:
        _lanes_of_rows(run, value, handle, axes, terms, machine)
    elif len(axes) >= 2 and terms and value.name not in run.stored:
        _tile(run, value, handle, axes, terms, machine)
    elif axes and not terms:
        _vector(run, value, "update", axes, machine)
    elif axes and not _along_rows(value, terms):
        _lanes_of_rows(run, value, handle, axes, terms, machine)
    elif terms:
        width = width_along(run, value, terms[-1], machine)
        while width < PARTIAL_RESULTS and extent_of_axis(run, value, terms[-1]) >= 4 * width:
            width *= 2  # partial results of several vectors: no addition waits for the one before
        tried(run, lambda: handle.update.vectorize(terms[-1], width, combine=Combine.PRIVATE, remainder="mask"))


def _along_rows(value: ProgramValue, terms: Sequence[Iter]) -> bool:
    """Whether the terms of a result lie one after another, so that a vector of them is loaded at once.

    The largest and the least have no order, so that they need none.
    """
    if value.op is operators.max_ or value.op is operators.min_:
        return True
    over = [each for each in accesses(value.expr) if terms and terms[-1].name in map(str, each.indices)]
    return bool(over) and all(str(each.indices[-1]) == terms[-1].name for each in over)


def _lanes_of_rows(
    run: KernelRun,
    value: ProgramValue,
    handle: Reduction,
    axes: Sequence[Iter],
    terms: Sequence[Iter],
    machine: Target,
) -> None:
    """Results side by side in lanes, each with its own terms in their order."""
    width = width_along(run, value, axes[-1], machine)

    def apply() -> None:
        handle.update.split(axes[-1], width, *cut(axes[-1]))
        outer, inner = cut(axes[-1])
        handle.update.reorder(outer, *terms, inner)
        handle.update.vectorize(inner, width, remainder="mask")

    tried(run, apply)


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
    rows, columns, lanes = tile_sizes(run, value, row, column, machine)

    def apply() -> None:
        (i0, i1), (j0, j1) = cut(row), cut(column)
        update = handle.update
        update.tile(row, column, rows, columns, i0, j0, i1, j1)
        update.reorder(j0, i0, *terms, i1, j1)  # a panel of the right operand stays near for all rows
        update.unroll(i1)
        update.vectorize(j1, lanes, remainder="mask")

    tried(run, apply)


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

    tried(run, apply)


def _axis_of_columns(run: KernelRun, reader: ProgramValue, value: ProgramValue) -> str:
    """The axis of a block that is a product's last one; empty where it is read otherwise."""
    axes, own = axes_of(run, reader), [each.name for each in value.domain]
    reads = [access for access in accesses(reader.expr) if access.source == value.name]
    if len(axes) < 2 or not reader.over or reader.name in run.stored or len(reads) != 1:
        return ""
    indices = [getattr(index, "name", "") for index in reads[0].indices]
    return own[indices.index(axes[-1].name)] if axes[-1].name in indices else ""

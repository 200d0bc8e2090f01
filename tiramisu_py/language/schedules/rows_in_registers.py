"""Rows in registers: a block whose programs have one row each keeps it in the registers of its threads.

A sum, a minimum or a maximum of a row is a tree: each thread combines its own elements, and the threads of a block then
combine theirs, so that all of them have the result. Nothing of a row is in shared memory, unless a thread reads what
another one has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tiramisu_py import sets
from tiramisu_py.algorithm import operators
from tiramisu_py.algorithm.declarations import value_names
from tiramisu_py.algorithm.expressions import Const, Iter, Select
from tiramisu_py.algorithm.types import TupleType
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.function.arrays import ProgramValue
from tiramisu_py.function.handles.computations import Reduction
from tiramisu_py.language.launched import KernelRun
from tiramisu_py.language.schedules.placement import axes_of, block_axes, loop_names
from tiramisu_py.language.schedules.wide_loads import neighbours
from tiramisu_py.language.values.groups import sources_of
from tiramisu_py.program.storage import Memory
from tiramisu_py.records import dataclass

#: The operators that threads combine in a tree.
OPERATORS = (operators.sum_, operators.min_, operators.max_)
#: The most elements of a row that a thread has, and the threads of a warp.
MOST_ELEMENTS, WARP = 64, 32


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of `extent` elements: so many `threads` have groups of `lanes` neighbours, `loaded` at once.

    `elements` are the values with an element of a row each, `sums` those of a row, and `kept` what no other thread
    reads.
    """

    extent: int
    threads: int
    lanes: int
    elements: frozenset[str]
    sums: frozenset[str]
    kept: frozenset[str]
    loaded: frozenset[str]

    def axis(self, run: KernelRun, value: ProgramValue) -> Iter:
        """The loop over the elements of a row: of a sum, over its terms."""
        if value.name in self.sums:
            return next(iter(value.over))
        return block_axes(run, value, run.function[value.name])[-1]


def rows_in_registers(run: KernelRun, threads: int, chosen: Mapping[str, Memory]) -> Rows | None:
    """The rows of a run; None where a program has other values, or sums of a row that are no trees."""
    sums = [value for value in run.values if value.over]
    if not sums or run.sums or any(loop_names(run, value) for value in run.values):
        return None
    extents = {_terms(run, value, chosen) for value in sums}
    extent = next(iter(extents))
    if len(extents) > 1 or extent is None or extent % min(threads, extent) or extent % WARP:
        return None
    threads = min(threads, extent)
    lengths = {value.name: _length(run, value) for value in run.values if not value.over}
    if not set(lengths.values()) <= {1, extent} or extent // threads > MOST_ELEMENTS:
        return None
    elements = [value for value in run.values if lengths.get(value.name) == extent]
    wide = {value.name: _at_once(run, value, extent, threads) for value in elements if value.name not in run.stored}
    lanes = max(wide.values(), default=1)
    return _with_kept(run, chosen, Rows(
        extent, threads, lanes,
        frozenset(value.name for value in elements),
        frozenset(value.name for value in sums),
        frozenset(),
        frozenset(name for name, together in wide.items() if lanes > 1 and together == lanes),
    ))  # fmt: skip


def _with_kept(run: KernelRun, chosen: Mapping[str, Memory], rows: Rows) -> Rows:
    """The rows with the values that stay in registers: the sums, and elements that their own threads read alone."""
    kept = set(rows.sums)
    for value in run.values:
        if value.name in rows.elements - set(run.stored) and value.name not in chosen:
            readers = [each for each in run.values if value.name in sources_of(each)]
            inside = all(each.name in rows.elements | rows.sums for each in readers)
            (own,) = axes_of(run, value)
            if readers and inside and all(
                reads_own_elements(run, value.name, each, [own], [rows.axis(run, each)]) for each in readers
            ):  # fmt: skip
                kept.add(value.name)
    return Rows(rows.extent, rows.threads, rows.lanes, rows.elements, rows.sums, frozenset(kept), rows.loaded)


def _terms(run: KernelRun, value: ProgramValue, chosen: Mapping[str, Memory]) -> int | None:
    """The terms of a sum of a row, one for each program; None for other reductions."""
    if value.where is not None or len(value.over) != 1 or axes_of(run, value) or value.name in run.stored:
        return None
    if isinstance(value.dtype, TupleType) or not any(value.op is each for each in OPERATORS):
        return None
    if not isinstance(run.function[value.name], Reduction) or value.name in chosen or value.name in sources_of(value):
        return None
    (terms,) = value.over.values()
    found = int(terms.value) if isinstance(terms, Const) else terms
    return found if isinstance(found, int) else None


def _length(run: KernelRun, value: ProgramValue) -> int | None:
    """The elements of a value that a program has, in a row or alone; None for others."""
    if value.name not in run.stored:
        axes, extents = axes_of(run, value), dict(value.domain)
        found = [extents[axis] for axis in axes]
    else:
        (stores, *others) = run.stores[value.name]
        if others:
            return None
        found = list(stores.bounds.values())[stores.programs :]
        ones = {f"{program}_one" for program in run.programs.axes.programs}
        axes = [each for each in block_axes(run, value, run.function[value.name]) if each.name not in ones]
    if len(found) != len(axes) or len(found) > 1 or value.name in sources_of(value):
        return None
    constant = [int(each.value) if isinstance(each, Const) else each for each in found]
    return next((each if isinstance(each, int) else None for each in constant), 1)


def _at_once(run: KernelRun, value: ProgramValue, extent: int, threads: int) -> int:
    """The neighbours that a thread loads at once, without a mask."""
    (axis,) = axes_of(run, value)
    return 1 if isinstance(value.expr, Select) else neighbours(run, value, axis, [extent], threads)


def reads_own_elements(
    run: KernelRun, source: str, reader: ProgramValue, own: Sequence[Iter], loops: Sequence[Iter]
) -> bool:
    """Whether each execution of a reader reads, of another value, the element whose axes are its own loops."""
    program = run.function.program
    accesses, names = MemoryAccesses(program), value_names(program.algorithm.source(source))
    for statement in program.statements_of(reader.name):
        relation = accesses.read_relation(statement, source) if source in statement.loads else None
        if relation is None:
            continue
        values, around = sets.variables(relation.get_space().range()), program.loop_names(statement)
        read = sets.function(relation.get_space().range(), None, [values[names.index(axis.name)] for axis in own])
        coords = sets.outputs(statement.coords)
        here = sets.function(statement.frame, None, [coords[around.index(axis.name)] for axis in loops])
        if not relation.apply_range(sets.graph(read)).is_subset(sets.graph(here)):
            return False
    return True

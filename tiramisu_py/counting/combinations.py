"""The amount of partial results that ranks combine: the elements of each combination, once for each rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.counting.lattice_points import classes
from tiramisu_py.dependence.value_boxes import box_around
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.combined_reductions import combined_loops, groups
from tiramisu_py.program.statement import Statement
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class Given:
    """Ranks (by coordinates) that each contribute the same number of elements, bytes and combinations."""

    source: str
    ranks: isl.Set
    elements: int
    bytes: int
    combinations: int


def given(program: Program, params: Mapping[str, int]) -> Iterator[Given]:
    """The contribution of each rank to the combinations of a spread program; none from a rank alone on its line."""
    for updates in groups(program):
        size = program.buffers[program.storages[updates[0].target].buffer].dtype.bytes
        whole = sets.fixed(_given(program, updates), params)
        axes, depth = program.rank_axes, _depth(program, updates[0])
        forms = sets.variables(whole.get_space())
        rank = sets.graph(sets.function(whole.get_space(), None, forms[:axes]), whole)
        outside = sets.graph(sets.function(whole.get_space(), None, forms[axes : axes + depth]), whole)
        together = _together(program, updates[0], sets.fixed(_ranks(program), params))
        values = list(classes(rank.reverse()))
        for several in classes(rank.reverse().apply_range(outside)):
            for single in values:
                both = several.keys.intersect(single.keys).intersect(together).coalesce()
                if not both.is_empty():
                    yield Given(updates[0].source, both, single.images, single.images * size, several.images)


def _ranks(program: Program) -> isl.Set:
    assert program.ranks is not None
    return program.ranks


def _depth(program: Program, update: Statement) -> int:
    """The number of loops around a combination, without loops over ranks."""
    outermost = update.depth(next(iter(combined_loops(program, update).values())))
    return sum(not program.loops[loop].is_rank for loop in update.loops[:outermost])


def _given(program: Program, updates: tuple[Statement, ...]) -> isl.Set:
    """``[rank, loops around, value]`` of what each rank gives: a box of values in each iteration."""
    parts = list[isl.Set]()
    for update in updates:
        assert update.onto is not None
        outermost = update.depth(next(iter(combined_loops(program, update).values())))
        coords = zip(update.loops[:outermost], sets.outputs(update.coords), strict=False)
        around = [form for loop, form in coords if not program.loops[loop].is_rank]
        forms = [*sets.outputs(update.onto), *around, *sets.outputs(program.value_of(update))]
        here = update.instances.intersect_params(program.context.params())
        parts.append(here.apply(sets.graph(sets.function(update.frame, None, forms))))
    found = sets.union_of(parts)
    return box_around(found.coalesce(), program.rank_axes + _depth(program, updates[0]))


def _together(program: Program, update: Statement, everyone: isl.Set) -> isl.Set:
    """The ranks that share their line of the process grid with another rank."""
    combined = combined_loops(program, update)
    variables = sets.variables(everyone.get_space())
    line = [v for axis, v in enumerate(variables) if axis not in combined]
    on = sets.graph(sets.function(everyone.get_space(), None, line), everyone)
    others = on.apply_range(on.reverse()).subtract(sets.graph(sets.identity(everyone.get_space())))
    return others.domain()

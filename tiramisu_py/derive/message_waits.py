"""Waits for messages: in each iteration of the loops around, for what was posted in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Const
from tiramisu_py.algorithm.types import int64
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement, Waiting
from tiramisu_py.schedule.recompute import distinct
from tiramisu_py.schedule.selection import free_name


@dataclass(frozen=True, eq=False)
class Wait:
    """A wait that is to be declared, and the program with its loops."""

    program: Program
    statement: Statement


def waiting_for(program: Program, half: str, loops: tuple[LoopId, ...]) -> Wait | None:
    """A wait, in some of the outermost loops of a half, for the messages of the iteration; None where none can be.

    Each iteration is told from the others by some of the indices of the values that it sends or receives.
    """
    awaited = program.statements[half]
    name = free_name(program, f"{half}_wait")
    if not any(not program.loops[loop].is_rank for loop in loops):
        return Wait(program, _outside(program, awaited, name, loops))
    for positions, relation in _tellings(program, awaited, loops):
        back = sets.as_single_function(relation)
        if back is not None:
            return Wait(program, _inside(program, awaited, name, loops, positions, relation.domain(), back))
    return None


def _outside(program: Program, awaited: Statement, name: str, loops: tuple[LoopId, ...]) -> Statement:
    """A wait for everything that a half does: on each rank, where it is inside of loops over ranks."""
    instances = awaited.instances.apply(sets.graph(sets.renamed(awaited.prefix(len(loops)), name))).coalesce()
    if not loops:
        instances = sets.universe(instances.get_space()).intersect_params(program.context)
    dims = distinct([program.loops[loop].name for loop in loops])
    instances = sets.with_dims(instances, dims)
    return _wait(program, awaited, name, instances, dims, (), loops, sets.identity(instances.get_space()))


def _inside(
    program: Program,
    awaited: Statement,
    name: str,
    loops: tuple[LoopId, ...],
    positions: tuple[int, ...],
    waiting: isl.Set,
    back: isl.MultiAff,
) -> Statement:
    """A wait ``[indices, ranks]`` in the iteration ``back[indices, ranks]``."""
    values = awaited.dims[len(awaited.dims) - sets.out_size(program.value_of(awaited)) :]
    ranks = [program.loops[loop].name for loop in loops if program.loops[loop].is_rank]
    dims = distinct([*(values[position] for position in positions), *ranks])
    instances = sets.with_dims(sets.named(sets.plain(waiting), name), dims)
    coords = sets.from_frame(back, instances.get_space())
    return _wait(program, awaited, name, instances, dims, positions, loops, coords)


def _tellings(
    program: Program, awaited: Statement, loops: tuple[LoopId, ...]
) -> Iterator[tuple[tuple[int, ...], isl.Map]]:
    """Some indices of values that tell the iteration: ``[indices, ranks] -> iteration``, the fewest first."""
    instances = awaited.instances.intersect_params(program.context.params())
    iterations = sets.outputs(awaited.prefix(len(loops)))
    ranks = [form for form, loop in zip(iterations, loops, strict=True) if program.loops[loop].is_rank]
    values = sets.outputs(program.value_of(awaited))
    here = sets.graph(sets.function(awaited.frame, None, iterations), instances)
    for count in range(1, len(values) + 1):
        for positions in combinations(range(len(values)), count):
            told = sets.function(awaited.frame, None, [*(values[k] for k in positions), *ranks])
            relation = sets.graph(told, instances).reverse().apply_range(here).coalesce()
            if relation.is_single_valued():
                first = relation if relation.is_injective() else relation.reverse().lexmin().reverse().coalesce()
                yield positions, first


def _wait(
    program: Program,
    awaited: Statement,
    name: str,
    instances: isl.Set,
    dims: list[str],
    positions: tuple[int, ...],
    loops: tuple[LoopId, ...],
    coords: isl.MultiAff,
) -> Statement:
    return Statement(
        name=name,
        source="",
        role=Role.WAIT,
        dims=tuple(dims),
        instances=instances,
        point=sets.function(instances.get_space(), None, []),
        loops=loops,
        coords=sets.renamed(coords, None),
        body=Const(0, int64),
        target="",
        waits=Waiting(awaited.name, positions),
        derived=True,
    )

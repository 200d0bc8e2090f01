"""Waits for messages: each iteration of the outer loops waits for the messages posted in it."""

from __future__ import annotations

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Const
from tiramisu_py.algorithm.types import int64
from tiramisu_py.program.fresh_names import free_name
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Link, MemoryUse, Role, Statement, StatementOrigin, Waiting


def waiting_for(program: Program, half: str, loops: tuple[LoopId, ...]) -> Statement:
    """A wait in the outermost loops of a half, for its messages of the iteration (for all, without loops)."""
    awaited = program.statements[half]
    name, dims = free_name(program, f"{half}_wait"), awaited.dims[: len(loops)]
    if loops:
        instances = awaited.instances.apply(sets.graph(sets.renamed(awaited.prefix(len(loops)), name)))
    else:
        instances = sets.universe(program.algorithm.frame(name, ())).intersect_params(program.context)
    instances = sets.with_dims(sets.plain(instances), dims)
    frame = instances.get_space()
    return Statement(
        name=name,
        source="",
        role=Role.WAIT,
        dims=dims,
        instances=instances,
        point=sets.function(frame, None, []),
        loops=loops,
        coords=sets.renamed(sets.identity(frame), None),
        body=Const(0, int64),
        memory=MemoryUse(target=""),
        link=Link(waits=Waiting(half, tuple(range(len(loops))), by_iterator=True)),
        origin=StatementOrigin(derived=True),
    )

"""Waits for operations of GPUs, barriers between the threads of a block, and how both are taken away again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import value_names
from tiramisu_py.algorithm.expressions import Const
from tiramisu_py.algorithm.types import int64
from tiramisu_py.errors import CommandError
from tiramisu_py.program.kernels import KernelNest, kernels
from tiramisu_py.program.loops import GpuThread, Loop, LoopId
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement, Waiting
from tiramisu_py.schedule.selection import check_new_name, find, loop_name, nest


def with_barrier(
    program: Program, name: str, loops: tuple[LoopId, ...], after: str, before: str | None, command: str
) -> Program:
    """The program with one more barrier, between the statements `after` and `before` of a kernel.

    `loops` are the loops around it: those of the host and the block loops, and then sequential and thread loops that
    both statements share. It is met in every iteration of the sequential loops in which some thread of the block
    executes a statement inside them, and then by all threads of the block. `before` may be None: the barrier then only
    comes after `after` (as one does that separates an iteration of the innermost of `loops` from the next).
    """
    check_new_name(program, name, "the barrier (see name=)")
    nest_ = _kernel_around(program, loops, after)
    dims = _named_apart([program.loops[loop].name for loop in loops])
    instances = sets.with_dims(sets.named(_uniform(nest_, loops), name), dims)
    statement = _idle(Role.BARRIER, name, dims, instances, loops, sets.identity(instances.get_space()), None)
    program = _declared_after(program, statement, [after])
    level = loops[-1]
    orders = [Order(after, name, level, command)]
    if before is not None:
        orders.append(Order(name, before, level, command))
    return program.with_(orders=(*program.orders, *orders))


def _kernel_around(program: Program, loops: tuple[LoopId, ...], inside: str) -> KernelNest:
    for nest_ in kernels(program):
        if nest_.first in loops and any(s.name == inside for s in nest_.statements):
            if set(nest_.blocks) <= set(loops):
                return nest_
            outermost = program.loops[nest_.blocks[-1]].name
            raise CommandError(f"a barrier is inside all block loops of its kernel: choose {outermost} or a loop inside")
    raise CommandError(f"a barrier is for the threads of a block, and {inside} is in no kernel: see tag_gpu")


def _uniform(nest_: KernelNest, loops: tuple[LoopId, ...]) -> isl.Set:
    """The iterations of `loops` that some thread executes, for all threads of the block."""
    found: isl.Set | None = None
    count = len(loops)
    for statement in nest_.statements:
        if statement.loops[:count] == loops and statement.stores:
            here = sets.graph(statement.prefix(count), statement.instances).range()
            found = here if found is None else found.union(here)
    if found is None:
        raise CommandError("no statement of the kernel is inside all of these loops")
    for position, loop in enumerate(loops):
        if isinstance(nest_.program.loops[loop].tag, GpuThread):
            found = all_threads(nest_, found, position, loop)
    return found.coalesce()


def all_threads(nest_: KernelNest, found: isl.Set, position: int, loop: LoopId) -> isl.Set:
    """Iterations of loops with the coordinate of a thread loop replaced by those of all threads of the block.

    Iterations of loops inside it become those of any thread.
    """
    tag = nest_.program.loops[loop].tag
    assert isinstance(tag, GpuThread)
    freed = sets.freed(found, position)
    space = freed.get_space()
    variables = sets.variables(space)
    corner = nest_.corner(loop)
    low = sets.compose(
        sets.function(space, None, variables[: sets.size(corner.get_domain_space())]),
        sets.function(corner.get_domain_space(), None, [corner]),
    )
    number = variables[position].sub(sets.outputs(low)[0])
    return freed.intersect(sets.within(number, 0, nest_.shape[tag.axis]))


def wait(
    program: Program, of: str, names: Sequence[str], dims: Sequence[str], domain: isl.Set | None, waiting: Waiting
) -> Program:
    """The program with a wait called `names[0]`..."""
    raise NotImplementedError

"""Tickets: in a kernel with counted block loops, the last of their blocks goes on with what follows.

::

    for b on blocks:  total_blocks[b] = ...             for b on blocks:  total_blocks[b] = ...
    the last block:   total = sum of total_blocks  -->  every block:      takes a ticket
                                                        the last block:   total = sum of total_blocks

A block takes its ticket after all that it stores. So what follows comes after the stores of all blocks that are counted
together: those with the same coordinates of the other block loops. What is in the kernel before the first part, or
outside of block loops, stays there, and is refused by the proof.
"""

from __future__ import annotations

from tiramisu_py import sets
from tiramisu_py.program.fresh_names import free_name
from tiramisu_py.program.kernels import KernelNest, kernels
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role
from tiramisu_py.schedule.devices.place_waits import idle


def with_tickets(program: Program) -> Program:
    """The program with a ticket between the two parts of each kernel that has them."""
    for nest in kernels(program):
        if nest.is_last:
            program = _with_ticket(program, nest)
    return program


def _with_ticket(program: Program, nest: KernelNest) -> Program:
    around, position = (*nest.host, *nest.blocks), program.positions
    name = free_name(program, f"{nest.name}_ticket")
    first, inside = ([s for s in some if s.loops[: len(around)] == around] for some in (nest.beside, nest.statements))
    parts = [
        sets.graph(s.prefix(len(around)), s.instances.intersect_params(program.context.params())).range()
        for s in inside
    ]
    ends = max((position[s.name][len(around)] for s in first), default=0)
    later = [s for s in inside if position[s.name][len(around)] > ends]
    instances = sets.named(sets.union_of(parts).coalesce(), name)
    dims = [f"i{k}" for k in range(len(around))]
    ticket = idle(Role.TICKET, name, dims, instances, around, sets.variables(instances.get_space()))
    program = program.with_statement_before(ticket, [s.name for s in nest.statements])
    orders = [Order(s.name, name, around[-1]) for s in nest.beside]
    orders += [Order(name, s.name, around[-1]) for s in later]
    return program.with_(orders=(*program.orders, *orders))

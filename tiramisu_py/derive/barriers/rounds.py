"""Barriers between the rounds of persistent kernels, in which a block goes on as another one and reuses its memory.

::

    for round: block b:  copy to shared memory; barrier; use it
          -->            copy to shared memory; barrier; use it; barrier
"""

from __future__ import annotations

from dataclasses import replace

from tiramisu_py.errors import CommandError
from tiramisu_py.program.fresh_names import free_name
from tiramisu_py.program.kernels import KernelNest, kernels
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program
from tiramisu_py.program.storage import Memory
from tiramisu_py.schedule.devices.place_waits import with_barrier


def with_rounds_apart(program: Program) -> Program:
    """The program with a barrier at the end of each block of a persistent kernel that has shared memory."""
    for nest in kernels(program):
        if nest.launch.grid is not None and _has_shared_memory(nest):
            try:
                program = _ended(replace(nest, program=program))
            except CommandError:  # a kernel whose statements do not share its blocks: the proof says so
                continue
    return program


def _has_shared_memory(nest: KernelNest) -> bool:
    storages, buffers = nest.program.storages, nest.program.buffers
    stored = (storages[statement.memory.target].buffer for statement in nest.statements if statement.stores)
    return any(buffers[name].memory is Memory.SHARED for name in stored)


def _ended(nest: KernelNest) -> Program:
    program, node = nest.program, (*nest.host, *nest.blocks)
    inside = [statement.name for statement in nest.statements]
    name = free_name(program, f"{nest.name}_round")
    program = with_barrier(program, name, node, inside[-1], None, "")
    return program.with_(orders=(*program.orders, *(Order(other, name, node[-1]) for other in inside)))

"""Stores that change nothing: an element of the host's memory is loaded, and stored where it was.

    A[i, j] = A[i, j]   -->

Code leaves such executions out where it can; where one stays, in a lane beside others that do change their places, it
stores the bits that it has loaded. So another iteration of a parallel loop, or another lane, may read the place before
the store or after it. It may not change the place: that would conflict with the load.
"""

from __future__ import annotations

from tiramisu_py.algorithm.types import TupleType
from tiramisu_py.program.loops import Vector
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Memory


def may_be_idle(program: Program, statement: Statement) -> bool:
    """Whether a statement of the host may only load and store an element, with nothing else that counts on the store.

    Registers are variables that loops carry. A vector past the end of a loop stores something where a later store may
    bring the value back. What ranks exchange is copied from array to array.
    """
    if (
        statement.role not in (Role.VALUE, Role.COPY)
        or statement.link.transfer is not None
        or statement.link.message is not None
    ):
        return False
    target = program.buffers[program.storages[statement.memory.target].buffer]
    if target.memory is not Memory.HOST or isinstance(target.dtype, TupleType):
        return False
    if program.kernel_of(statement) is not None or any(loop.is_rank for loop in program.loops.values()):
        return False
    return not any(
        isinstance(tag := program.loops[loop].tag, Vector) and tag.remainder == "pad"
        for other in program.storing
        if program.storages[other.memory.target].buffer == target.name
        for loop in other.loops
    )

"""Stores that change nothing: an element of the host's memory is loaded, and stored where it was.

    A[i, j] = A[i, j]   -->

The proof has seen these executions, which give the element the name of another value; as code they do nothing. So loops
leave them out: the border of a recurrence that keeps its values in place, ``select(border, h[t - 1, i], ...)``, its
first level in the array of an input, and the end of a time loop in that array.
"""

from __future__ import annotations

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Access, Expr
from tiramisu_py.algorithm.types import TupleType
from tiramisu_py.program.loops import Vector
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Memory


def changing(program: Program, statement: Statement, reader: Affine, part: isl.Set, body: Expr) -> isl.Set:
    """The instances of a part of a statement that do not store an element where they have loaded it."""
    if not isinstance(body, Access) or not _may_be_idle(program, statement, body):
        return part
    source, target = program.storage_for(statement, body.source), program.storages[statement.target]
    same = (
        source.buffer == target.buffer and program.in_scope(statement, source) and program.in_scope(statement, target)
    )
    if not same:
        return part
    try:
        indices = [reader.single(index) for index in body.indices]
    except NotAffine:
        return part
    value = sets.function(statement.frame, body.source, indices)
    loaded = program.place(statement, source, value, stored=False)
    stored = program.place(statement, target, program.value_of(statement))
    equal = sets.graph(loaded).intersect(sets.graph(stored)).domain()
    left = part.subtract(equal)
    return left.coalesce() if not left.is_equal(part) else part


def _may_be_idle(program: Program, statement: Statement, body: Access) -> bool:
    """Whether a statement of the host only loads and stores an element, and nothing else counts on the store.

    Registers are variables that loops carry. A vector past the end of a loop stores something where a later store may
    bring the value back. What ranks exchange is copied from array to array.
    """
    if statement.role not in (Role.VALUE, Role.COPY) or statement.transfer is not None or statement.message is not None:
        return False
    target = program.buffers[program.storages[statement.target].buffer]
    if target.memory is not Memory.HOST or isinstance(body.dtype, TupleType) or body.dtype != target.dtype:
        return False
    if program.kernel_of(statement) is not None or any(loop.is_rank for loop in program.loops.values()):
        return False
    return not any(
        isinstance(tag := program.loops[loop].tag, Vector) and tag.remainder == "pad"
        for other in program.storing
        if program.storages[other.target].buffer == target.name
        for loop in other.loops
    )

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
from tiramisu_py.dependence.idle_stores import may_be_idle
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement


def changing(program: Program, statement: Statement, reader: Affine, part: isl.Set, body: Expr) -> isl.Set:
    """The instances of a part of a statement that do not store an element where they have loaded it."""
    if not isinstance(body, Access) or not may_be_idle(program, statement):
        return part
    source, target = program.storage_for(statement, body.source), program.storages[statement.target]
    if body.dtype != program.buffers[target.buffer].dtype:
        return part
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

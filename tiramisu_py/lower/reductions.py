"""Loops whose iterations update the same elements of a reduction: what they keep private, and how it is combined."""

from __future__ import annotations

from collections.abc import Iterator

from tiramisu_py import sets
from tiramisu_py.lower.ir import Allocate, Block, For, If, Let, Node, Private, Store
from tiramisu_py.program.loops import LoopId, Parallel, Vector
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement


def privates(program: Program, loop: LoopId, body: Node) -> tuple[Private, ...]:
    """The buffers that a concurrent loop with ``combine=`` only updates, where iterations meet in an element."""
    tag = program.loops[loop].tag
    if not isinstance(tag, Parallel | Vector) or tag.combine is None:
        return ()
    found: dict[str, Private] = {}
    for store in _stores(body, frozenset()):
        statement = program.statements[store.statement]
        if store.update is not None and store.buffer not in found and _meet(program, statement, loop):
            found[store.buffer] = Private(store.buffer, store.update, tag.combine)
    return tuple(found.values())


def _stores(node: Node | None, local: frozenset[str]) -> Iterator[Store]:
    """The stores below a node to buffers that are not allocated there."""
    match node:
        case Block():
            for child in node.body:
                yield from _stores(child, local)
        case For() | Let():
            yield from _stores(node.body, local)
        case Allocate():
            yield from _stores(node.body, local | {node.buffer})
        case If():
            yield from _stores(node.then, local)
            yield from _stores(node.otherwise, local)
        case Store() if node.buffer not in local:
            yield node


def _meet(program: Program, statement: Statement, loop: LoopId) -> bool:
    """Whether different iterations of a loop, within one iteration of those around it, store to one place."""
    if statement.role is not Role.UPDATE:
        return False
    depth = statement.depth(loop)
    place = program.place(statement, program.storages[statement.target], program.value_of(statement))
    around = sets.graph(sets.joined(statement.prefix(depth), place), statement.instances)
    here = sets.function(statement.frame, None, [sets.outputs(statement.coords)[depth]])
    return not around.reverse().apply_range(sets.graph(here, statement.instances)).is_single_valued()

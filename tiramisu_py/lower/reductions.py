"""Loops whose iterations update the same elements of a reduction: what they keep private, and how it is combined."""

from __future__ import annotations

from collections.abc import Iterator

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.errors import UnsupportedError
from tiramisu_py.lower.ir import Allocate, Block, For, If, Let, Load, Node, Private, Store
from tiramisu_py.lower.transform import expressions
from tiramisu_py.lower.transform import walk as nodes
from tiramisu_py.program.loops import Combine, LoopId, Parallel, Vector
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement


def privates(program: Program, loop: LoopId, body: Node) -> tuple[Private, ...]:
    """The buffers that a concurrent loop with ``combine=`` only updates, where iterations meet in an element.

    Raises `UnsupportedError` where a private copy would stand for more than the partial results of one operator.
    """
    tag = program.loops[loop].tag
    if not isinstance(tag, Parallel | Vector) or tag.combine is None:
        return ()
    updates: dict[str, list[Store]] = {}
    for store in _stores(body, frozenset()):
        if store.update is not None:
            updates.setdefault(store.buffer, []).append(store)
    found = []
    for buffer, stores in updates.items():
        if _meet(program, [program.statements[name] for name in {s.statement: None for s in stores}], loop):
            if tag.combine is Combine.PRIVATE:
                _check_alone(program, loop, body, stores)
            assert stores[0].update is not None
            found.append(Private(buffer, stores[0].update, tag.combine))
    return tuple(found)


def _check_alone(program: Program, loop: LoopId, body: Node, updates: list[Store]) -> None:
    """Refuse private copies of a buffer that the loop uses otherwise too: a copy holds nothing but partial results."""
    buffer, name = updates[0].buffer, program.loops[loop].name
    if any(store.update is not updates[0].update for store in updates):
        raise UnsupportedError(
            f"loop {name} keeps private copies of {buffer}, but two operators update it: keep them in two buffers"
        )
    if any(True for node in nodes(body) for _ in _other_uses(node, buffer)):
        raise UnsupportedError(
            f"loop {name} keeps private copies of {buffer} until its end, but {buffer} is read or stored to inside it "
            "otherwise too: use combine=tm.ATOMIC, or move the other statements out of the loop"
        )


def _other_uses(node: Node, buffer: str) -> Iterator[Node | Load]:
    """The uses of a buffer by one statement that are not part of an update."""
    own = None
    if isinstance(node, Store) and node.buffer == buffer:
        own = Load(buffer, node.indices, node.value.dtype).key()
        if node.update is None:
            yield node
    for load in (e for root in expressions(node) for e in walk(root) if isinstance(e, Load)):
        if load.buffer == buffer and load.key() != own:
            yield load


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


def _meet(program: Program, statements: list[Statement], loop: LoopId) -> bool:
    """Whether different iterations of a loop, within one iteration of those around it, store to one place."""
    meeting: isl.Map | None = None
    for statement in statements:
        if statement.role is Role.UPDATE:
            mine = _iterations_by_place(program, statement, loop)
            meeting = mine if meeting is None else meeting.union(mine)
    return meeting is not None and not meeting.is_single_valued()


def _iterations_by_place(program: Program, statement: Statement, loop: LoopId) -> isl.Map:
    """``[iterations around, place] -> iteration of the loop``."""
    depth = statement.depth(loop)
    place = program.place(statement, program.storages[statement.target], program.value_of(statement))
    around = sets.graph(sets.joined(statement.prefix(depth), place), statement.instances)
    here = sets.function(statement.frame, None, [sets.outputs(statement.coords)[depth]])
    return around.reverse().apply_range(sets.graph(here, statement.instances))

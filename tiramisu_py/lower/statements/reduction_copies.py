"""Private copies of buffers for loops whose iterations update the same elements of a reduction."""

from __future__ import annotations

from collections.abc import Iterator

from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import Allocate, Block, For, If, Let, Load, Node, Private, Store
from tiramisu_py.ir.rewriting import expressions
from tiramisu_py.ir.rewriting import walk as nodes
from tiramisu_py.program.loops import Combine, LoopId, Parallel, Vector
from tiramisu_py.program.private_buffers import meet
from tiramisu_py.program.program import Program


def privates(program: Program, loop: LoopId, body: Node) -> tuple[Private, ...]:
    """The buffers that a concurrent loop with ``combine=`` only updates, and whose elements several iterations update.

    The proof has shown that a private copy holds only partial results of one operator.
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
        if meet(program, [program.statements[name] for name in {s.statement: None for s in stores}], loop):
            if tag.combine is Combine.PRIVATE:
                _check_alone(program, loop, body, stores)
            assert stores[0].update is not None
            found.append(Private(buffer, stores[0].update, tag.combine))
    return tuple(found)


def _check_alone(program: Program, loop: LoopId, body: Node, updates: list[Store]) -> None:
    """Check again that a private copy holds only partial results of one operator; the proof has shown it."""
    buffer, name = updates[0].buffer, program.loops[loop].name
    otherwise = any(True for node in nodes(body) for _ in _other_uses(node, buffer))
    if otherwise or any(store.update is not updates[0].update for store in updates):
        raise CompilerDefect(f"loop {name} keeps private copies of {buffer}, but also accesses {buffer} itself")


def _other_uses(node: Node, buffer: str) -> Iterator[Node | Load]:
    """The uses of a buffer by one statement other than in updates."""
    own = None
    if isinstance(node, Store) and node.buffer == buffer:
        own = Load(buffer, node.indices, node.value.dtype).key()
        if node.update is None:
            yield node
    for load in (e for root in expressions(node) for e in walk(root) if isinstance(e, Load)):
        if load.buffer == buffer and load.key() != own:
            yield load


def _stores(node: Node | None, local: frozenset[str]) -> Iterator[Store]:
    """The stores inside a node to buffers that are not allocated there."""
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

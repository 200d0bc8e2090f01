"""The allocation of temporaries: around the whole body, or inside the innermost loop of their scope."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.types import int64
from tiramisu_py.ir import Allocate, Block, Node
from tiramisu_py.lower.statements.instances import Instance
from tiramisu_py.program.statement import Statement, is_gpu
from tiramisu_py.program.storage import Memory
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class Fragment:
    """A piece of generated code, and the temporaries in it.

    `statement` is any of the statements inside; `waiting` are the temporaries used inside that are not allocated yet,
    `allocated` those that are allocated inside.
    """

    node: Node
    statement: Statement
    waiting: frozenset[str] = field(default=frozenset())
    allocated: frozenset[str] = field(default=frozenset())


def sequence(fragments: Sequence[Fragment]) -> Fragment:
    """Fragments one after another, as one."""
    if len(fragments) == 1:
        return fragments[0]
    nodes: list[Node] = []
    for fragment in fragments:
        nodes.extend(fragment.node.body if isinstance(fragment.node, Block) else (fragment.node,))
    waiting = frozenset(name for fragment in fragments for name in fragment.waiting)
    allocated = frozenset(name for fragment in fragments for name in fragment.allocated)
    return Fragment(Block(tuple(nodes)), fragments[0].statement, waiting, allocated)


def allocating(array: Instance, body: Node) -> Allocate:
    """The allocation of an array around its uses."""
    buffer, on_gpu = array.buffer, is_gpu(array.device)
    extents = tuple(typed(extent, int64) for extent in buffer.extents)
    register = buffer.memory is Memory.REGISTER
    memory = Memory.HOST if register else Memory.GPU if on_gpu else buffer.memory
    pages = buffer.pages if memory is Memory.HOST else None
    return Allocate(
        array.name,
        extents,
        buffer.dtype,
        body,
        register=register,
        memory=memory,
        device=array.device,
        pages=pages,
        swizzle=buffer.swizzle,
    )


def allocated_in(fragments: Sequence[Fragment], arrays: Sequence[Instance]) -> Fragment:
    """Fragments in sequence, with `arrays` allocated around the fragments that use them.

    A loop that isl left out, since it has one iteration, is a run of siblings. The same loop may also be among the
    siblings in full, with its own copy inside; then each run between such loops gets a copy.
    """
    listed = list(fragments)
    for array in arrays:
        listed = _around_runs(listed, array)
    return sequence(listed)


def _around_runs(fragments: list[Fragment], array: Instance) -> list[Fragment]:
    result: list[Fragment] = []
    run: list[Fragment] = []
    for fragment in fragments:
        if array.name in fragment.allocated:
            result += [*_around_uses(run, array), fragment]
            run = []
        else:
            run.append(fragment)
    return result + _around_uses(run, array)


def _around_uses(run: list[Fragment], array: Instance) -> list[Fragment]:
    using = [position for position, fragment in enumerate(run) if array.name in fragment.waiting]
    if not using:
        return run
    first, last = using[0], len(run) if array.lasting else using[-1] + 1
    inside = sequence(run[first:last])
    around = replace(
        inside,
        node=allocating(array, inside.node),
        waiting=inside.waiting - {array.name},
        allocated=inside.allocated | {array.name},
    )
    return [*run[:first], around, *run[last:]]

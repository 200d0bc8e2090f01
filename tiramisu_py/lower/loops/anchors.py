"""Anchors, which keep iterations whole: isl may move a statement that only runs in the last iteration behind the loop.

That keeps the order, but separates a part of the iteration from its local buffer. Anchors are instances that do
nothing, at the begin and at the end of each iteration: isl keeps an iteration between its anchors whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.ir import Allocate, Node
from tiramisu_py.ir.rewriting import walk
from tiramisu_py.lower.statements.instances import Instance
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class Anchor:
    """An anchor at the begin or the end of a loop's iterations: its instances, and their time (all dimensions)."""

    name: str
    loop: LoopId
    instances: isl.Set
    time: isl.MultiAff

    @property
    def level(self) -> int:
        """The level of siblings at which it comes first or last."""
        return sets.size(self.instances)


def anchors_of(program: Program, statements: Sequence[Statement], loop: LoopId) -> list[Anchor]:
    """The two anchors of a loop's iterations."""
    inside = [statement for statement in statements if loop in statement.loops]
    level = inside[0].depth(loop) + 1
    beside = [program.positions[statement.name][level] for statement in inside]
    iterations = _iterations(program, inside, level)
    found = []
    for name, position in ((f"@first{loop}", min(beside) - 1), (f"@last{loop}", max(beside) + 2)):
        instances = sets.named(iterations, name)
        found.append(Anchor(name, loop, instances, time_beside(program, inside[0], instances, position)))
    return found


def _iterations(program: Program, inside: Sequence[Statement], level: int) -> isl.Set:
    parts = list[isl.Set]()
    for statement in inside:
        instances = statement.instances.intersect_params(program.context)
        parts.append(instances.apply(sets.graph(statement.prefix(level))))
    return sets.union_of(parts).coalesce()


def time_beside(program: Program, like: Statement, instances: isl.Set, position: int) -> isl.MultiAff:
    """The time of iterations of some loops around a statement, at a position among the siblings inside."""
    space = instances.get_space()
    statics = [*program.positions[like.name][: sets.size(instances)], position]
    vector = [sets.constant(space, statics[0])]
    for dynamic, static in zip(sets.variables(space), statics[1:], strict=True):
        vector += [dynamic, sets.constant(space, static)]
    vector += [sets.constant(space, 0)] * (program.time_size - len(vector))
    return sets.function(space, None, vector)


def parted(arrays: Mapping[str, Instance], node: Node, waiting: frozenset[str]) -> bool:
    """Whether some array that is local to a loop is not allocated exactly once in a nest."""
    allocated = [inner.buffer for inner in walk(node) if isinstance(inner, Allocate)]
    local = {name for name in {*allocated, *waiting} if name in arrays and arrays[name].buffer.scope}
    return any(name in waiting or allocated.count(name) != 1 for name in local)

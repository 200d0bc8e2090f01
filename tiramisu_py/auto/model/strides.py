"""How the reads of a computation move through memory along its iterators: which loop should be innermost."""

from __future__ import annotations

from collections.abc import Sequence

from tiramisu_py import Expr
from tiramisu_py.queries import Access, Call, Declared, LinearRead, walk

#: What a vector of elements costs along a loop, relative to contiguous ones: the same element for all lanes, an
#: element in each lane from memory lines of its own, and elements at computed places.
SAME, APART, COMPUTED = 0.25, 8.0, 10.0
#: Elements at most so many apart are picked from as many whole vectors.
NEAR = 4


def read_cost(read: LinearRead, iterator: str) -> float:
    """The cost of a vector of a read in a loop over the iterator."""
    step = read.step(iterator)
    if step is None:
        return COMPUTED
    if 1 < step <= NEAR:
        return float(step)
    return {0: SAME, 1: 1.0, -1: 1.5}.get(step, APART)


def result_cost(computation: Declared, iterator: str) -> float:
    """The cost of storing the result in a vector loop over an iterator; a sum in registers costs nothing."""
    if iterator in computation.over:
        return 0.0
    return 1.0 if computation.iterators[-1:] == (iterator,) else APART


def loop_cost(found: Sequence[LinearRead], computation: Declared, iterator: str) -> float:
    """The cost of one vector of all accesses in a loop over an iterator."""
    return sum(read_cost(read, iterator) for read in found) + result_cost(computation, iterator)


def best_iterator(found: Sequence[LinearRead], computation: Declared, allowed: Sequence[str]) -> str | None:
    """The iterator along which vectors are cheapest, the innermost of equal ones; None if none is allowed."""
    if not allowed:
        return None
    costs = {name: loop_cost(found, computation, name) for name in allowed}
    least = min(costs.values())
    return [name for name in allowed if costs[name] <= least][-1]


def operations(computation: Declared) -> int:
    """The arithmetic operations of one value or term; a call of a function counts as eight."""
    return sum(_weight(node) for node in walk(computation.expr))


def _weight(node: Expr) -> int:
    if isinstance(node, Call):
        return 8
    return 0 if isinstance(node, Access) or not list(node.children()) else 1

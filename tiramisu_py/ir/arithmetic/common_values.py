"""Names for the values that a statement of a kernel computes more than once.

Before: ``y[i] = floor(0.9 * i) >= 0 ? x[int(floor(0.9 * i))] : 0``. After: ``part_0 = floor(0.9 * i)``, then the
statement with it. Compilers find such values by themselves; readers do not. Expressions with loads stay in place: the
condition around them may be what makes the load safe.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from tiramisu_py.algorithm.expressions import Call, Cast, Expr
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.algorithm.traversal import walk as parts
from tiramisu_py.ir import Lane, Let, Load, Node, Ramp, Store, Variable
from tiramisu_py.ir.arithmetic.linear import Key
from tiramisu_py.ir.rewriting import Names, with_children

#: Expressions with fewer parts are as easy to read as a name.
LEAST_PARTS = 6
#: So are expressions that have fewer parts than this once their own parts have names.
LEAST_LEFT = 3


def named(node: Node, taken: Names) -> Node:
    """The statement with the values that its stores compute more than once defined before them."""
    if not isinstance(node, Store):
        return with_children(node, lambda child: named(child, taken.inside(node)))
    names: dict[Key, Expr] = {}
    definitions: list[tuple[str, Expr]] = []
    for value in repeated((*node.indices, node.value), _is_worth_a_name):
        short = with_names(value, names)
        if len(list(parts(short))) < LEAST_LEFT:
            continue
        name = taken.fresh(f"part_{len(definitions)}")
        definitions.append((name, short))
        names[value.key()] = Variable(name, value.dtype)
    indices = tuple(with_names(index, names) for index in node.indices)
    result: Node = replace(node, indices=indices, value=with_names(node.value, names))
    for name, value in reversed(definitions):
        result = Let(name, value, result)
    return result


def with_names(e: Expr, names: Mapping[Key, Expr]) -> Expr:
    """An expression in which parts have names."""
    return rewrite(e, lambda part: names.get(part.key()))


def repeated(roots: Iterable[Expr], is_worth_a_name: Callable[[Expr], bool]) -> Iterator[Expr]:
    """The values that occur more than once, and more often than any value that contains them; small ones first."""
    found: list[Expr] = []
    counts: Counter[Key] = Counter()
    for root in roots:
        times = _times(root)
        worthy = [part for part in parts(root) if is_worth_a_name(part)]
        for part in worthy:
            counts[part.key()] += times[id(part)]
        found += worthy
    values = {part.key(): part for part in found if counts[part.key()] > 1}
    inside = {
        inner.key()
        for key, value in values.items()
        for inner in parts(value)
        if inner is not value and counts[inner.key()] == counts[key]
    }
    kept = [value for key, value in values.items() if key not in inside]
    yield from sorted(kept, key=lambda value: len(list(parts(value))))


def _times(root: Expr) -> dict[int, int]:
    """How often each node, by its id, occurs in an expression, whose parts may be shared."""
    nodes = list(parts(root))
    times = dict.fromkeys(map(id, nodes), 0)
    times[id(root)] = 1
    for node in reversed(nodes):
        for child in node.children():
            times[id(child)] += times[id(node)]
    return times


def _is_worth_a_name(e: Expr) -> bool:
    """Whether an expression is large, computes values rather than indices, and loads nothing."""
    inside = list(parts(e))
    if len(inside) < LEAST_PARTS or e.dtype.is_bool:
        return False
    loads = any(isinstance(part, Load | Ramp | Lane) or _is_foreign(part) for part in inside)
    return not loads and any(isinstance(part, Call | Cast) for part in inside)


def _is_foreign(e: Expr) -> bool:
    return isinstance(e, Call) and e.extern is not None

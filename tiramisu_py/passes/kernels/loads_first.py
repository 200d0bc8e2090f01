"""Values of an unrolled loop that are computed before any of them is stored, so that their loads overlap.

Before: ``for u in 0 .. 8: two[t % 2, u] = f(two[(t + 1) % 2, u])``. After: ``for u: heat[u] = f(...)``, then ``for u:
two[t % 2, u] = heat[u]``, with heat in registers. A compiler cannot see that no stored element is loaded again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tiramisu_py.algorithm.expressions import Binary, Expr, Iter, constant
from tiramisu_py.algorithm.types import int64
from tiramisu_py.ir import Allocate, Block, Comment, For, Load, Node, Store
from tiramisu_py.ir.arithmetic.linear import difference
from tiramisu_py.ir.arithmetic.remainders import as_remainders
from tiramisu_py.ir.rewriting import Names, block, loads, with_children
from tiramisu_py.program.loops import Unroll
from tiramisu_py.program.storage import Memory

#: Loops with more iterations would need too many registers.
MOST_VALUES = 16


def staged(node: Node, taken: Names) -> Node:
    """The statement with loops to be unrolled split in two, if they load from the array that they store to."""
    node = with_children(node, lambda child: staged(child, taken.inside(node)))
    store = _only_store(node)
    if not isinstance(node, For) or store is None or not _is_apart(store):
        return node
    name = taken.fresh(store.statement)
    here: tuple[Expr, ...] = (Iter(node.variable, int64),)
    comments = [child for child in _listed(node.body) if isinstance(child, Comment)]
    value = Store(name, here, store.value, store.statement)
    result = replace(store, value=Load(name, here, store.value.dtype))
    loops = [replace(node, body=block([*comments, value])), replace(node, body=result)]
    return Allocate(name, (node.upper,), store.value.dtype, block(loops), register=True, memory=Memory.REGISTER)


def _listed(node: Node) -> Sequence[Node]:
    return node.body if isinstance(node, Block) else (node,)


def _only_store(node: Node) -> Store | None:
    """The only statement of a short loop to be unrolled, if that is a store."""
    if not isinstance(node, For) or not isinstance(node.tag, Unroll) or constant(node.lower) != 0 or node.step != 1:
        return None
    inside = [child for child in _listed(node.body) if not isinstance(child, Comment)]
    if len(inside) != 1 or (constant(node.upper) or MOST_VALUES + 1) > MOST_VALUES:
        return None
    only = inside[0]
    return only if isinstance(only, Store) and only.update is None and not only.atomic else None


def _is_apart(store: Store) -> bool:
    """Whether a store's value loads from the same array, and only elements that no iteration stores."""
    own = [load for load in loads(store) if load.buffer == store.buffer]
    return bool(own) and all(any(map(_differ, load.indices, store.indices)) for load in own)


def _differ(a: Expr, b: Expr) -> bool:
    """Whether two indices are remainders that are never equal: ``t % 2`` and ``(t + 1) % 2``."""
    a, b = as_remainders(a), as_remainders(b)
    if not (isinstance(a, Binary) and isinstance(b, Binary) and a.op == b.op == "%"):
        return False
    divisor = constant(a.right)
    gap = difference(a.left, b.left)
    return bool(divisor) and constant(b.right) == divisor and gap is not None and gap % int(divisor or 1) != 0

"""Scalar promotion: buffers whose indices are all constant after unrolling become variables, for registers.

Before: ``allocate bx[10]; bx[0] = e; ... bx[0] + bx[1]``. After: ``bx_0 = e; ... bx_0 + bx_1``. An element that is
stored once is a constant. A buffer that is only accessed in whole vectors becomes a variable for each vector; a load
that straddles two vectors reads both (`Shifted`).

A ring (see `rings`) that some loops index by a variable is an array only there. Before: ``allocate v: { A; for
c0: B(c0); for c0: C(c0) }`` where C indexes v by a variable. After: A and B on variables, which are stored to v before
C. Where A needs an array, too, B alone is on variables, which are loaded before it: a window that stays on the stack is
loaded across the vectors that were just stored there, and processors wait for such stores.
"""

from __future__ import annotations

from dataclasses import replace

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.ir import Allocate, Block, For, Let, Load, Mma, Node, Ramp, Store, TreeReduce
from tiramisu_py.ir.arithmetic.linear import number
from tiramisu_py.ir.rewriting import Names, buffers_in, contents, names, walk, with_children, with_expressions
from tiramisu_py.passes.base import About, NestPass
from tiramisu_py.passes.registers.elements import Cell, ElementAccess, accesses
from tiramisu_py.passes.registers.variables import Promotion
from tiramisu_py.program.loops import Parallel
from tiramisu_py.program.storage import Memory
from tiramisu_py.records import dataclass

#: A buffer with more elements stays an array.
MOST_VARIABLES = 256


@dataclass(frozen=True)
class Promote(NestPass):
    """Turn small buffers with constant indices into variables (scalar promotion).

    ::

        allocate bx[2]:               -->   bx_0 = e
            bx[0] = e                       bx_1 = g
            bx[1] = g                       S(bx_0 + bx_1)
            S(bx[0] + bx[1])
    """

    def apply(self, what: Node, about: About) -> Node:
        return registers(what, about.taken)


def registers(node: Node, taken: Names) -> Node:
    """The statement with small buffers of constant indices turned into variables."""
    if Allocate not in contents(node):
        return node
    node = with_children(node, lambda child: registers(child, taken.inside(node)))
    if not isinstance(node, Allocate) or _is_shared(node) or _is_combined(node):
        return node
    known = _elements(node, node.body)
    if known is None:
        return _in_part(node, taken) if node.ring else node
    return Promotion(node, _lanes(known), _variables(node, {access.cell for access in known}, taken)).body()


def _elements(node: Allocate, inside: Node) -> set[ElementAccess] | None:
    """The elements of a buffer that a statement accesses, or vectors of one size; None if there is another access, or
    there are too many.
    """
    found = set(accesses(node, inside))
    known = {access for access in found if access is not None}
    few = len({access.lanes for access in known}) < 2 and len(known) <= MOST_VARIABLES
    return known if few and None not in found else None


def _lanes(known: set[ElementAccess]) -> int:
    return next((access.lanes for access in known), 1)


def _is_shared(node: Allocate) -> bool:
    """Whether threads share the buffer: it is a block's memory, or a parallel loop inside its scope uses it."""
    if node.memory is not Memory.HOST and not node.register:
        return True
    loops = (loop for loop in walk(node.body) if isinstance(loop, For) and isinstance(loop.tag, Parallel))
    return any(node.buffer in names(loop) for loop in loops)


def _is_combined(node: Allocate) -> bool:
    """Whether it is a thread's partial result in a tree, a variable already, or has the sums of a warp."""
    if contents(node.body).isdisjoint((TreeReduce, Mma)):
        return False
    return any(
        (isinstance(inner, TreeReduce) and node.buffer in inner.buffers)
        or (isinstance(inner, Mma) and node.buffer == inner.buffer)
        for inner in walk(node.body)
    )


def _variables(node: Allocate, cells: set[Cell], taken: Names) -> dict[Cell, str]:
    """A name for each element: the buffer's name and the element's indices in the dimensions where they differ."""
    differing = [len(set(positions)) > 1 for positions in zip(*cells, strict=True)]
    inside = names(node.body)

    def name(cell: Cell) -> str:
        kept = [position for position, differs in zip(cell, differing, strict=True) if differs]
        return "_".join([node.buffer, *map(str, kept or (0,))])

    return {cell: taken.fresh(name(cell), inside) for cell in sorted(cells)}


# -- in some loops


def _in_part(node: Allocate, taken: Names) -> Node:
    """A ring as variables up to the first statement that needs an array, and as an array from there on, but in loops
    that need none.
    """
    kept = {id(statement) for statement in _needing_array(node, node.body)}
    node = replace(node, body=_with_loops(node, node.body, kept, taken))
    after = _needing_array(node, node.body)
    before = _without(node.body, {id(statement) for statement in after})
    known = _elements(node, before)
    if known is None or For not in contents(before):
        return node
    variables = _variables(node, {access.cell for access in known}, taken)
    return replace(node, body=Promotion(node, _lanes(known), variables, tuple(after)).body())


def _with_loops(node: Allocate, inside: Node, kept: set[int], taken: Names, array: bool = False) -> Node:
    """A statement with the loops that move a ring, and need no array, on variables where it is an array."""
    array = array or id(inside) in kept
    if node.buffer not in names(inside) or isinstance(inside, Allocate):
        return inside
    if array and isinstance(inside, For) and _moves(node, inside):
        known = _elements(node, inside)
        if known is not None and _lanes(known) > 1:
            return _loop_on_variables(node, inside, known, taken)
    return with_children(inside, lambda child: _with_loops(node, child, kept, taken, array))


def _moves(node: Allocate, loop: For) -> bool:
    """Whether each iteration of a loop stores elements of a buffer to others, outside of inner loops."""
    stores = (inner for inner in walk(loop.body) if isinstance(inner, Store) and inner.buffer == node.buffer)
    moves = any(node.buffer in buffers_in(store.value) for store in stores)
    return moves and not any(isinstance(inner, For) and node.buffer in names(inner) for inner in walk(loop.body))


def _loop_on_variables(node: Allocate, loop: For, known: set[ElementAccess], taken: Names) -> Node:
    """``v' = v; loop on v'; v = v'`` for the vectors that a loop uses, where v' are variables.

    All elements of a ring have values: it starts as zeros.
    """
    own = taken.fresh(f"{node.buffer}_kept", names(node.body) | {node.buffer})
    lanes = _lanes(known)
    places = [
        (*map(number, cell[:-1]), Ramp(number(cell[-1] * lanes), lanes)) for cell in sorted({e.cell for e in known})
    ]
    loads = [Store(own, place, Load(node.buffer, place, node.dtype), own) for place in places]
    stores = [Store(node.buffer, place, Load(own, place, node.dtype), node.buffer) for place in places]
    inner = replace(node, buffer=own, body=Block((*loads, _renamed(loop, node.buffer, own), *stores)))
    return registers(inner, taken)


def _renamed(node: Node, old: str, new: str) -> Node:
    """A statement that uses another buffer in the place of one."""
    if old not in names(node):
        return node
    node = with_expressions(
        node,
        lambda e: rewrite(e, lambda part: _load_of(part, old, new)) if old in buffers_in(e) else e,
    )
    if isinstance(node, Store) and node.buffer == old:
        node = replace(node, buffer=new)
    return with_children(node, lambda child: _renamed(child, old, new))


def _load_of(e: Expr, old: str, new: str) -> Expr | None:
    return replace(e, buffer=new) if isinstance(e, Load) and e.buffer == old else None


@deep
def _needing_array(node: Allocate, inside: Node) -> list[Node]:
    """The first statement in which a buffer has to be an array, and those after it."""
    if _elements(node, inside) is not None:
        return []
    if isinstance(inside, Let):
        return _needing_array(node, inside.body)
    if not isinstance(inside, Block):
        return [inside]
    for position, child in enumerate(inside.body):
        found = _needing_array(node, child)
        if found:
            return [*found, *inside.body[position + 1 :]]
    return [inside]


def _without(node: Node, left_out: set[int]) -> Node:
    return Block(()) if id(node) in left_out else with_children(node, lambda child: _without(child, left_out))

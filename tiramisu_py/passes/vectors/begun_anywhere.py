"""Loops whose iterations may begin at any element of a row, so that those stores begin where cache lines do.

A loop stores a whole cache line of each of several rows in turn. In arrays that do not begin at a line, each of these
is a part of two, and past the caches such parts are slow. If each iteration computes the same of the elements at its
own place, and reads nothing that the loop stores, the iterations may as well be those at the places of lines, and the
two at the ends of the row as they were: these store some elements twice, the same values.
"""

from __future__ import annotations

from tiramisu_py.algorithm.expressions import Binary, Cast, Const, Expr, Iter, Param, Select, Unary
from tiramisu_py.algorithm.traversal import iterators, rewrite
from tiramisu_py.algorithm.traversal import walk as parts
from tiramisu_py.algorithm.types import int64
from tiramisu_py.ir import Allocate, Block, Comment, For, Load, Prefetch, Ramp, Scalar, Store
from tiramisu_py.ir.arithmetic.linear import linear
from tiramisu_py.ir.rewriting import read_buffers, walk
from tiramisu_py.records import dataclass

#: What has the same value in all lanes if its operands have.
_ALIKE = (Binary, Unary, Select, Cast, Const, Iter, Param, Scalar)


def along(loop: For, elements: int) -> tuple[str, ...]:
    """The arrays along which a loop moves by so many elements an iteration, if its iterations may begin anywhere."""
    inside = list(walk(loop.body))
    plain = loop.tag is None and loop.step == 1 and not loop.reductions and not loop.left
    if not plain or any(not isinstance(node, Allocate | Block | Comment | Prefetch | Store) for node in inside):
        return ()
    own = frozenset(node.buffer for node in inside if isinstance(node, Allocate))
    stores = [node for node in inside if isinstance(node, Store)]
    written = {store.buffer for store in stores} - own
    if len(written) != 1 or not written.isdisjoint(read_buffers(loop.body)):
        return ()
    moved = _Moved(loop.variable, elements, own)
    if not all(map(moved.store, stores)) or moved.still & moved.arrays.keys() or not moved.alike():
        return ()
    return tuple(sorted(moved.arrays)) if min(moved.computed) == 0 and written <= moved.arrays.keys() else ()


@dataclass(frozen=True, eq=False)
class _Place:
    """The last index of an access: lane 0's element of the strip, `start`; with `moves`, of the iteration's strip."""

    start: int
    moves: bool


class _Moved:
    """What the stores of an iteration compute at the places of its strip: `arrays` move along, others stay `still`."""

    def __init__(self, variable: str, elements: int, own: frozenset[str]) -> None:
        self.variable, self.elements, self.own = variable, elements, own
        self.arrays: dict[str, None] = {}
        self.still: set[str] = set()
        self.computed: dict[int, list[tuple[object, ...]]] = {}

    def alike(self) -> bool:
        """Whether the parts of a strip, if vectors are parts, compute the same of the elements at their own places."""
        first, *others = self.computed.values()
        return all(each == first for each in others)

    def store(self, node: Store) -> bool:
        """Whether a store's value is the same of the elements at each of its lanes' places; it is kept for `alike`."""
        place = self._place(node.buffer, node.indices)
        if place is None or node.update is not None or node.atomic or not 0 <= place.start < self.elements:
            return False
        last = node.indices[-1]
        assert isinstance(last, Ramp)
        loads = list[tuple[object, ...]]()
        fits = True

        def relative(e: Expr) -> Expr | None:
            nonlocal fits
            if not isinstance(e, Load):
                return None
            known = self._relative(e, place.start, last.lanes)
            fits = fits and known is not None
            loads.append(known or ())
            return Iter(f"<load {len(loads)}>", e.dtype)

        value = rewrite(node.value, relative)
        alike = all(isinstance(e, _ALIKE) for e in parts(value)) and self.variable not in iterators(value)
        rows = tuple(index.key() for index in node.indices[:-1])
        self.computed.setdefault(place.start, []).append((node.buffer, rows, value.key(), tuple(loads)))
        return fits and alike

    def _relative(self, load: Load, start: int, lanes: int) -> tuple[object, ...] | None:
        """What a load reads beside the elements at the places of a strip's part that begins at `start`."""
        rows = tuple(index.key() for index in load.indices[:-1])
        if not any(isinstance(e, Ramp) for index in load.indices for e in parts(index)):
            self.still.add(load.buffer)
            fixed = load.buffer not in self.own and not any(self.variable in iterators(e) for e in load.indices)
            return (load.buffer, rows, load.indices[-1].key() if load.indices else None) if fixed else None
        place = self._place(load.buffer, load.indices)
        last = load.indices[-1]
        if place is None or not isinstance(last, Ramp) or last.lanes != lanes:
            return None
        if not place.moves and place.start != start:
            return None
        return load.buffer, rows, place.start - start

    def _place(self, buffer: str, indices: tuple[Expr, ...]) -> _Place | None:
        """The place of an access of a vector; None for any other."""
        if not indices or not isinstance(indices[-1], Ramp):
            return None
        *rows, last = indices
        assert isinstance(last, Ramp)
        form = linear(last.base)
        if any(self.variable in iterators(row) or any(isinstance(e, Ramp) for e in parts(row)) for row in rows):
            return None
        if buffer in self.own:
            return _Place(form.constant, False) if form.is_constant else None
        own = Iter(self.variable, int64)
        if list(form.terms) != [own.key()] or form.factor(own) != self.elements:
            return None
        self.arrays[buffer] = None
        return _Place(form.constant, True)

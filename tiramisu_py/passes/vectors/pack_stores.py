"""Narrow results of wide arithmetic, stored a whole register at a time.

Before, for 64 lanes of uint8 computed from int32 in registers of 64 bytes: four stores of 16 bytes,
``grey[c + 16*k : ...] = uint8(x[c + 16*k : ...])``. After: four parts ``grey_k = x[c + 16*k : ...]``, and one store of
64 bytes, ``grey[c : c + 64] = uint8(joined(grey_0, grey_1, grey_2, grey_3))``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace

from tiramisu_py.algorithm.expressions import Binary, Cast, Expr, Select, Unary
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.traversal import kinds, rewrite
from tiramisu_py.algorithm.types import int32
from tiramisu_py.ir import Idiom, Joined, Let, Load, Node, Ramp, Store, Variable
from tiramisu_py.ir.arithmetic.lanes import is_half
from tiramisu_py.ir.arithmetic.linear import along_lanes
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.ir.rewriting import Names
from tiramisu_py.records import dataclass

Part = Callable[[Expr, int], Expr]


def is_contiguous(node: Store) -> bool:
    """Whether the lanes of a store are contiguous in memory."""
    lines = [along_lanes(index) for index in node.indices]
    return bool(lines) and [line[1] if line else None for line in lines] == [0] * (len(lines) - 1) + [1]


def joined_store(node: Store, first: int, size: int, count: int, part: Part, taken: Names) -> Node | None:
    """`count` parts of `size` lanes of a store, from part `first` on, as one store; None if that is not possible.

    `part` makes the expression of one part from that of all lanes.
    """
    joining = Joining(first, size, count, node.value.dtype.bytes, part, taken, node.buffer)
    value = joining.whole(node.value)
    if value is None or not joining.named:
        return None
    found: Node = replace(node, indices=tuple(map(joining.kept, node.indices)), value=value)
    for name, wide in reversed(joining.named):
        found = Let(name, wide, found)
    return found


@dataclass
class Joining:
    """Expressions for `count` parts at once, of elements of `element` bytes; wider expressions stay in parts."""

    first: int
    size: int
    count: int
    element: int
    part: Part
    taken: Names
    buffer: str
    named: list[tuple[str, Expr]] = field(default_factory=list)

    @deep
    def whole(self, e: Expr) -> Expr | None:
        """The expression for all parts at once; None if there is none."""
        if Ramp not in kinds(e):
            return e if kinds(e).isdisjoint((Variable, Load)) else None
        if isinstance(e, Load):
            return self.kept(e) if e.dtype.bytes <= self.element else None
        if any(is_half(part.dtype) for part in (e, *e.children())):  # computed in float32
            return None
        if isinstance(e, Cast):
            return self._narrowed(e)
        narrow = all(child.dtype.bytes <= self.element for child in e.children())
        if not narrow or not isinstance(e, Binary | Unary | Select | Idiom):
            return None
        children = tuple(whole for child in e.children() if (whole := self.whole(child)) is not None)
        return e.rebuilt(children) if len(children) == len(e.children()) else None

    def _narrowed(self, e: Cast) -> Expr | None:
        wide = e.operand
        if wide.dtype.bytes <= self.element:
            inner = self.whole(wide)
            return None if inner is None or e.dtype.bytes > self.element else Cast(inner, e.dtype)
        if e.dtype.bytes != self.element or not e.dtype.is_integer or wide.dtype.bytes != self.element * self.count:
            return None
        if wide.dtype.is_float:
            wide = Cast(wide, int32)
        if wide.dtype.bytes != self.element * self.count or not wide.dtype.is_integer:
            return None
        names = [self.taken.fresh(f"{self.buffer}_{k}") for k in range(self.count)]
        self.named += [(name, self.part(wide, self.first + k)) for k, name in enumerate(names)]
        return Cast(Joined(tuple(Variable(name, wide.dtype) for name in names), wide.dtype), e.dtype)

    def kept(self, e: Expr) -> Expr:
        """An expression with ramps over the lanes of all parts."""
        lanes = self.size * self.count

        def moved(inner: Expr) -> Expr | None:
            if isinstance(inner, Ramp):
                return Ramp(simplified(inner.base + self.first * self.size), lanes, inner.dtype)
            return None

        return simplified(rewrite(e, moved))

"""The numbers of the iterations of a bundle, at run time: a call whose numbers do not fit 64 bits is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Iter
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import For, If, Node
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.ir.loop_functions import Precondition
from tiramisu_py.program.bundles import BundledLoops, bundles
from tiramisu_py.program.program import Program

#: Numbers of iterations are at most this: twice as many, and a stride more, fit 64 bits.
MOST = 2**62 - 1
#: The first iteration of each loop of a bundle, and the number of iterations, outermost first.
Box = tuple[list[Expr], list[Expr]]


def bundle_sizes(program: Program) -> tuple[Precondition, ...]:
    """The conditions on sizes for the iterations of each bundle to have numbers, in an order that never overflows."""
    found: list[Precondition] = []
    for each in bundles(program):
        if not each.iterations.is_empty():
            found += _conditions(box_of(each)[1], each.names)
    return tuple(found)


def box_of(bundled: BundledLoops) -> Box:
    """The first iteration of each loop of a bundle, and the number of iterations. Raises `CompilerDefect` if no such
    box is known; the proof has shown that there is one.
    """
    known = bundled.first_and_count()
    if known is None:
        raise CompilerDefect(f"the bundle of {bundled.names} is no box any more")
    lows, extents = (list(map(simplified, each)) for each in known)
    return lows, extents


def _conditions(extents: list[Expr], names: str) -> Iterator[Precondition]:
    product: Expr = arithmetic.number(1)
    written = " * ".join(f"({extent})" if isinstance(extent, Binary) else str(extent) for extent in extents)
    for extent in extents:
        own = simplified(arithmetic.larger(extent, arithmetic.number(1)))
        limit = simplified(Binary("//", arithmetic.number(MOST), product, int64))
        condition = simplified(Binary("<=", own, limit, bool_))
        if not isinstance(product, Const) and not (isinstance(condition, Const) and condition.value):
            yield condition, f"{written} <= {MOST}, the iterations of the joined loops {names}"
        product = simplified(Binary("*", product, own, int64))


def in_box(names: Sequence[str], box: Box, part: Expr, parts: int | None, body: Node) -> Node:
    """The body in all iterations of loops with these variables whose numbers have the remainder `part` by `parts`.

    Without `parts`, in the one iteration with the number `part`.
    """
    number: Expr = arithmetic.number(0)
    for name, low, extent in zip(names, *box, strict=True):
        distance = Binary("-", Iter(name, int64), low, int64)
        number = Binary("+", Binary("*", number, extent, int64), distance, int64)
    number = simplified(number)
    own = number if parts is None else Binary("%", number, arithmetic.number(parts), int64)
    node: Node = If(Binary("==", own, part, bool_), body)
    for name, low, extent in reversed([*zip(names, *box, strict=True)]):
        node = For(name, low, simplified(arithmetic.added(low, extent)), node, joined=", ".join(names))
    return node

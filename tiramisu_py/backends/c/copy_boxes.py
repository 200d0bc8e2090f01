"""Boxes of elements to copy between memories, as few and as long contiguous runs as their shape allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cgen

from tiramisu_py.algorithm.expressions import Binary, Expr, Iter, constant
from tiramisu_py.algorithm.types import int64
from tiramisu_py.backends.c.expressions.scalars import Scalars
from tiramisu_py.backends.c.expressions.scope import Scope
from tiramisu_py.ir import Copy
from tiramisu_py.ir.arithmetic.linear import difference, number
from tiramisu_py.records import dataclass

Text = Callable[[Expr], str]

#: The levels of a box that one call of a runtime copies.
MOST_LEVELS = 3


@dataclass(frozen=True, eq=False)
class CopiedBox:
    """A copy as calls of a runtime: one in each iteration of `loops`, of a box with these `members`, in bytes.

    `first` and `into` are the positions of its first element, in the source and in the target.
    """

    scope: Scope
    first: Expr
    into: Expr
    members: str
    loops: tuple[tuple[str, str], ...]

    def place_in(self, array: str, position: Expr) -> str:
        """The address of an element."""
        name = self.scope.arrays[array].name
        return name if constant(position) == 0 else f"&{name}[{Scalars(self.scope).text(position)}]"

    def bytes_before(self, array: str, position: Expr) -> str:
        """The bytes before an element."""
        kind = self.scope.arrays[array].dtype.c_name
        return "0" if constant(position) == 0 else f"(size_t)({Scalars(self.scope).text(position)})*sizeof({kind})"

    def around(self, call: cgen.Generable) -> cgen.Generable:
        """The loops around a call."""
        for name, more in self.loops:
            header = (cgen.Line(f"int64_t {name} = 0"), cgen.Line(more), cgen.Line(f"{name}++"))
            call = cgen.For(*header, cgen.Block([call]))
        return call


def copied_box(node: Copy, scope: Scope) -> CopiedBox:
    """The calls of a runtime that carry out a copy."""
    source, target, inner = scope.arrays[node.source], scope.arrays[node.target], scope.inner()
    box = levels(node.extents, source.extents, target.extents)
    text, loops = Scalars(inner).text, list[tuple[str, str]]()
    first, into = source.flat(node.first), target.flat(node.into)
    for depth, level in enumerate(box[MOST_LEVELS:]):
        counter = Iter(f"tm_{depth}", int64)
        first, into = _stepped(first, counter, level.source), _stepped(into, counter, level.target)
        loops.append((counter.name, text(counter < level.counts[0])))
    members = ", ".join(_members(box[:MOST_LEVELS], source.dtype.c_name, text))
    return CopiedBox(inner, first, into, members, tuple(loops))


@dataclass(frozen=True, eq=False)
class BoxLevel:
    """As many pieces as the product of `counts`, `source` elements apart in the source and `target` in the target."""

    counts: tuple[Expr, ...]
    source: Expr
    target: Expr


def levels(extents: tuple[Expr, ...], source: tuple[Expr, ...], target: tuple[Expr, ...]) -> list[BoxLevel]:
    """The levels of a box of `extents` in arrays with extents `source` and `target`, contiguous elements first.

    A dimension that the box fills in both arrays is merged with the next one: all rows of a matrix are one run.
    """
    found = [BoxLevel((), number(1), number(1))]
    whole = True
    source_step: Expr = number(1)
    target_step: Expr = number(1)
    for extent, of_source, of_target in reversed(list(zip(extents, source, target, strict=True))):
        if constant(extent) != 1:
            if whole:
                last = found.pop()
                found.append(BoxLevel((*last.counts, extent), last.source, last.target))
            else:
                found.append(BoxLevel((extent,), source_step, target_step))
                whole = True
        whole = whole and difference(extent, of_source) == 0 and difference(extent, of_target) == 0
        source_step, target_step = product(of_source, source_step), product(of_target, target_step)
    return found


def product(a: Expr, b: Expr) -> Expr:
    """``a * b``; a literal if both are literals."""
    x, y = constant(a), constant(b)
    if x is not None and y is not None:
        return number(x * y)
    if x == 1:
        return b
    return a if y == 1 else Binary("*", a, b, int64)


def _stepped(start: Expr, counter: Expr, step: Expr) -> Expr:
    return Binary("+", start, product(step, counter), int64)


def _members(box: list[BoxLevel], kind: str, text: Text) -> list[str]:
    """The members of a box of a runtime, in bytes."""
    members = [f".run = {_bytes(box[0].counts, kind, text)}"]
    for n, (counted, step) in enumerate((("lines", "pitch"), ("planes", "plane")), 1):
        members.append(f".{counted} = {_count(box[n].counts, text) if n < len(box) else '1'}")
        if n < len(box):
            sides = (("target", box[n].target), ("source", box[n].source))
            members += [f".{side}_{step} = {_bytes((size,), kind, text)}" for side, size in sides]
    return members


def _count(counts: Sequence[Expr], text: Text) -> str:
    """The product of extents, each clamped to at least 0."""
    return "*".join(text(n) if constant(n) is not None else f"tm_count({text(n)})" for n in reversed(counts)) or "1"


def _bytes(counts: Sequence[Expr], kind: str, text: Text) -> str:
    number = _count(counts, text)
    return f"sizeof({kind})" if number == "1" else f"{number}*sizeof({kind})"

"""Vectors wider than a register of the processor, split into parts that fit: compilers keep wider ones in memory.

Before, for 32 lanes of float32 in registers of 64 bytes: ``y[c + 0 .. 31] = x[c + 0 .. 31] * v``. After: the same for
``c + 0 .. 15`` and v_0, then for ``c + 16 .. 31`` and v_1. A loop over lanes becomes one for each part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field, replace

from tiramisu_py.algorithm.expressions import Binary, Cast, Expr, Iter, Select, Unary, constant
from tiramisu_py.algorithm.stacks import deep, deep_nest
from tiramisu_py.algorithm.traversal import kinds, mentions, rewrite
from tiramisu_py.algorithm.types import DType, float32, int32, int64
from tiramisu_py.ir import (
    Allocate,
    Assign,
    Block,
    Declare,
    For,
    Idiom,
    Joined,
    Lane,
    Let,
    Load,
    Mask,
    Node,
    Ramp,
    Store,
    Variable,
)
from tiramisu_py.ir.arithmetic import pairs
from tiramisu_py.ir.arithmetic.lanes import is_half
from tiramisu_py.ir.arithmetic.linear import along_lanes, number
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.ir.rewriting import (
    Names,
    block,
    buffers_in,
    defined,
    expressions,
    walk,
    with_children,
    with_expressions,
)
from tiramisu_py.records import dataclass


def widest(node: Node) -> int:
    """The bytes of the widest type among the values that a statement computes, loads or stores.

    16-bit floats that are computed, not only moved, are so in float32.
    """
    return max((_computed(e).bytes for e in _typed(node)), default=1)


def widest_stored(node: Node) -> int:
    """The widest of the types that values have in memory."""
    return max((e.dtype.bytes for e in _typed(node)), default=1)


def _computed(e: Expr) -> DType:
    """The type in which a value is computed."""
    moved = isinstance(e, Load | Iter)
    return float32 if not moved and any(is_half(part.dtype) for part in (e, *e.children())) else e.dtype


def _typed(node: Node) -> Iterator[Expr]:
    for statement in walk(node):
        if isinstance(statement, Store | Assign | Declare):
            yield statement.value
        for e in expressions(statement)[-1:] if isinstance(statement, Store) else expressions(statement):
            yield from (part for part in _values(e) if isinstance(part, Load | Cast))


def _values(e: Expr) -> Iterator[Expr]:
    """The parts of an expression without those inside indices."""
    yield e
    if pairs.is_narrowed(e):  # what is wide in it is never in two registers
        for cast in pairs.widened(e.children()[0]):
            yield from _values(cast.operand)
        return
    for part in () if isinstance(e, Load) else e.children():
        yield from _values(part)


@dataclass
class RegisterParts:
    """Splits vectors of `width` lanes into parts of `size`; `lane` is the variable of loops over lanes.

    Stores of narrow elements fill a register of `register` bytes, if that is given.
    """

    width: int
    size: int
    lane: str
    taken: Names
    register: int = 0
    variables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    buffers: dict[str, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    mask: Mask | None = None

    @property
    def count(self) -> int:
        """The number of parts of a vector."""
        return self.width // self.size

    @deep_nest
    def split(self, node: Node) -> Node:
        """The statement with every vector split into parts."""
        match node:
            case Block():
                with self._scope():
                    return block([self.split(child) for child in node.body])
            case For() if self._is_over_lanes(node):
                return block([self._active(self._lanes_of(node, k), k) for k in range(self.count)])
            case Mask():
                around, self.mask = self.mask, node
                body = self.split(node.body)
                self.mask = around
                return body
            case Let() if self._is_vector(node.value):
                values = [self.part(node.value, k) for k in range(self.count)]
                with self._scope():
                    names = self.named(node.variable)
                    body = self.split(node.body)
                for k in reversed(range(self.count)):
                    body = self._active(Let(names[k], values[k], body), k)
                return body
            case Declare() if node.lanes > 1:
                values = [self.part(node.value, k) for k in range(self.count)]
                names = self.variables.get(node.variable) or self.named(node.variable)
                made = [replace(node, variable=names[k], value=v, lanes=self.size) for k, v in enumerate(values)]
                return block([self._active(part, k) for k, part in enumerate(made)])
            case Assign() if node.variable in self.variables:
                names = self.variables[node.variable]
                parts = [replace(node, variable=n, value=self.part(node.value, k)) for k, n in enumerate(names)]
                return block([self._active(part, k) for k, part in enumerate(parts)])
            case Store() if node.buffer in self.buffers or any(map(self._is_vector, (*node.indices, node.value))):
                return self._whole(node) or block([self._active(self._stored(node, k), k) for k in range(self.count)])
            case Allocate() if node.lanes > 1:
                return self._allocated(node)
        with self._hiding(node):
            return with_children(node, self.split)

    def _whole(self, node: Store) -> Node | None:
        """The store in as few parts as its own types allow, whatever other statements need; None if split as usual."""
        if self.mask is not None or self.register == 0 or not is_contiguous(node) or node.buffer in self.buffers:
            return None
        size = min(max(self.register // widest(node), 2), self.width)
        if size > self.size and not any(map(self._uses_parts, (node.value, *node.indices))):
            own = RegisterParts(self.width, size, self.lane, self.taken, self.register)
            return own.split(node) if size < self.width else node
        lanes = min(self.width, self.register // node.value.dtype.bytes)
        count = lanes // self.size
        if count < 2:
            return None
        firsts = range(0, self.count, count)
        stores = [joined_store(node, first, self.size, count, self.part, self.taken) for first in firsts]
        return None if None in stores else block([store for store in stores if store is not None])

    def _uses_parts(self, e: Expr) -> bool:
        """Whether an expression reads a vector that has been split."""
        return mentions(e, (*self.variables, self.lane)) or not buffers_in(e).isdisjoint(self.buffers)

    def _active(self, node: Node, k: int) -> Node:
        """A statement of part k under the mask of that part, if there is one."""
        if self.mask is None:
            return node
        count = simplified(Binary("-", self.mask.count, number(k * self.size), int64))
        return Mask(count, self.size, node)

    def named(self, name: str) -> tuple[str, ...]:
        """The names of the parts of a variable, from here on to the end of the scope."""
        names = tuple(self.taken.fresh(f"{name}_{k}") for k in range(self.count))
        self.variables[name] = names
        return names

    @contextmanager
    def _scope(self) -> Iterator[None]:
        """A scope for the names of split vectors: a lane's own copy elsewhere has the same name and is not split."""
        variables, buffers = dict(self.variables), dict(self.buffers)
        yield
        self.variables, self.buffers = variables, buffers

    @contextmanager
    def _hiding(self, node: Node) -> Iterator[None]:
        """The scope inside a statement that defines an unsplit variable or buffer, which hides a split one."""
        with self._scope():
            if isinstance(node, Allocate):
                self.buffers.pop(node.buffer, None)
            self.variables.pop(defined(node) or "", None)
            yield

    def _allocated(self, node: Allocate) -> Node:
        names = tuple(self.taken.fresh(f"{node.buffer}_{k}") for k in range(self.count))
        with self._scope():
            self.buffers[node.buffer] = (len(node.extents), names)
            body = self.split(node.body)
        for name in reversed(names):
            body = replace(node, buffer=name, lanes=self.size, body=body)
        return body

    def _is_over_lanes(self, node: For) -> bool:
        return node.variable == self.lane and constant(node.lower) == 0 and constant(node.upper) == self.width

    def _lanes_of(self, node: For, k: int) -> Node:
        """The loop over the lanes of one part."""
        return replace(node, upper=number(self.size), body=self._in_lane(node.body, k))

    def _in_lane(self, node: Node, k: int) -> Node:
        if isinstance(node, Store):
            return self._stored(node, k)
        changed = with_expressions(node, lambda e: self.part(e, k))
        with self._hiding(node):
            return with_children(changed, lambda child: self._in_lane(child, k))

    def _stored(self, node: Store, k: int) -> Node:
        value = self.part(node.value, k)
        buffer, indices = self._element(node.buffer, node.indices, k)
        return replace(node, buffer=buffer, indices=indices, value=value)

    def _element(self, buffer: str, indices: tuple[Expr, ...], k: int) -> tuple[str, tuple[Expr, ...]]:
        """An element of a buffer in part k: a buffer of vectors becomes one buffer for each part."""
        rank, names = self.buffers.get(buffer, (len(indices), ()))
        own = tuple(self.part(index, k) for index in indices[:rank])
        return (names[k] if names else buffer), own + indices[rank:]

    def part(self, e: Expr, k: int) -> Expr:
        """An expression in part k of its lanes."""
        return simplified(rewrite(e, lambda inner: self._changed(inner, k)))

    def _changed(self, e: Expr, k: int) -> Expr | None:
        if not self._is_vector(e) and not mentions(e, (self.lane,)):
            return e
        match e:
            case Idiom(name=pairs.NARROWED):  # what is wide in a part fits a register
                return Cast(self.part(e.operands[0], k), e.dtype)
            case Ramp():
                return Ramp(simplified(e.base + k * self.size), self.size, e.dtype)
            case Lane(vector=Iter() as vector) if vector.name in self.variables:
                return Lane(Variable(self.variables[vector.name][k], vector.dtype), e.lane, e.dtype)
            case Load() if e.buffer in self.buffers:
                buffer, indices = self._element(e.buffer, e.indices, k)
                return Load(buffer, indices, e.dtype)
            case Iter() if e.name in self.variables:
                return type(e)(self.variables[e.name][k], e.dtype)
            case Iter() if e.name == self.lane:
                return Iter(self.lane, int64) + k * self.size
        return None

    def _is_vector(self, e: Expr) -> bool:
        return Ramp in kinds(e) or mentions(e, self.variables) or not buffers_in(e).isdisjoint(self.buffers)


# -- narrow results of wide arithmetic, stored a whole register at a time
#
# Before, for 64 lanes of uint8 computed from int32 in registers of 64 bytes: four stores of 16 bytes, ``grey[c + 16*k :
# ...] = uint8(x[c + 16*k : ...])``. After: four parts ``grey_k = x[c + 16*k : ...]``, and one store of 64 bytes,
# ``grey[c : c + 64] = uint8(joined(grey_0, grey_1, grey_2, grey_3))``.


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

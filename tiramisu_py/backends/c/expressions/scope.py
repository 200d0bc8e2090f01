"""The names in scope at a point of the generated source: variables, buffers and their names in C."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from tiramisu_py.algorithm.expressions import Binary, Expr, constant
from tiramisu_py.algorithm.types import DType, int64
from tiramisu_py.ir import ArrayArgument, For, Let, LoopFunction, Mask, MemoryBlock
from tiramisu_py.ir.arithmetic.facts import Facts, facts_of
from tiramisu_py.ir.arithmetic.lanes import Lanes
from tiramisu_py.ir.arithmetic.linear import number
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class NamedArray:
    """A buffer as C sees it: a pointer or an array of elements, each of `lanes` lanes, in row-major order.

    If `nested`, it is an array of arrays, ``a[i][j]``; if `is_shared`, the threads of a block share it. Kernels are
    passed `device_name`, or `name` if there is none. With `strides` it is in another order than the row-major one.
    A kernel loads what is `apart` by instructions of its own, which compilers make one of no others.
    """

    name: str
    dtype: DType
    extents: tuple[Expr, ...]
    lanes: int = 1
    nested: bool = False
    is_shared: bool = False
    device_name: str = ""
    strides: tuple[Expr, ...] | None = None
    apart: bool = False

    @property
    def sizes(self) -> tuple[Expr, ...]:
        """The expressions of which positions consist, beside indices."""
        return (*self.extents, *(self.strides or ()))

    def flat(self, indices: tuple[Expr, ...]) -> Expr:
        """The position of an element."""
        position: Expr = number(0)
        if self.strides is not None:
            for index, stride in zip(indices, self.strides, strict=True):
                position = _sum(position, _product(index, stride))
            return position
        for index, extent in zip(indices, self.extents, strict=True):
            position = _sum(_product(position, extent), index)
        return position

    def distance(self, steps: tuple[int, ...]) -> Expr:
        """The distance in memory between two elements that are `steps` apart in each dimension."""
        return self.flat(tuple(map(number, steps)))


def _product(a: Expr, b: Expr) -> Expr:
    x, y = constant(a), constant(b)
    if x is not None and y is not None:
        return number(x * y)
    if x == 0 or y == 1:
        return a
    return b if x == 1 else Binary("*", a, b, int64)


def _sum(a: Expr, b: Expr) -> Expr:
    """``a + b`` without parentheses around b: ``a + x - 1`` for ``a + (x - 1)``."""
    if constant(a) == 0:
        return b
    start, value = constant(a), constant(b)
    if value is not None:
        if start is not None:
            return number(start + value)
        return a if value == 0 else Binary("+" if value > 0 else "-", a, number(abs(value)), int64)
    if isinstance(b, Binary) and b.op in ("+", "-"):
        rest = constant(b.right)
        return Binary(b.op, _sum(a, b.left), b.right, int64) if rest is None or rest > 0 else Binary("+", a, b, int64)
    return Binary("+", a, b, int64)


@dataclass(frozen=True, eq=False)
class Element:
    """The text of an element of an array, which is the same wherever the array is in scope."""

    array: NamedArray
    indices: tuple[Expr, ...]
    text: str


@dataclass(frozen=True, eq=False)
class OpenBlock:
    """A block of memory: the expression of its address in C, and its number among those that are freed together."""

    block: MemoryBlock
    name: str
    number: int | None = None


@dataclass
class Scope:
    """The names in scope, one object for each C block; declarations in the block are added to it.

    `row_ends` are the prefetches of a sequence, by identity, with which their row of vectors ends; `innermost` is the
    variable of the innermost loop.
    All scopes of a function share `elements`, found by the identities of array and indices, and the `blocks` of memory,
    whose names differ.
    """

    names: Mapping[str, str]
    arrays: dict[str, NamedArray] = field(default_factory=dict)
    lanes: Lanes = field(default_factory=Lanes)
    facts: Facts = field(default_factory=Facts)
    stack: int = 0
    threaded: bool = False
    streaming: bool = False
    atomic: frozenset[str] = frozenset()
    mask: Mask | None = None
    declared: set[str] = field(default_factory=set)
    row_ends: frozenset[int] = frozenset()
    innermost: str = ""
    elements: dict[tuple[int, ...], Element] = field(default_factory=dict)
    blocks: dict[str, OpenBlock] = field(default_factory=dict)

    def inner(self) -> Scope:
        """The scope of a nested block."""
        return replace(self, arrays=dict(self.arrays), declared=set())

    def declare(self, name: str, lanes: int = 1) -> None:
        """Add a variable."""
        self.declared.add(name)
        self.lanes = self.lanes.with_variable(name, lanes)

    def enter(self, node: For | Let, lanes: int = 1) -> None:
        """Add the variable of a loop or a definition, and the facts that follow from it."""
        self.facts = self.facts.inside(node)
        self.innermost = node.variable if isinstance(node, For) else self.innermost
        self.declare(node.variable, lanes)

    def declare_array(self, name: str, array: NamedArray) -> None:
        """Add a buffer."""
        self.declared.add(name)
        self.arrays[name] = array
        self.lanes = self.lanes.with_buffer(name, len(array.extents), array.lanes)


def of_function(function: LoopFunction, names: Mapping[str, str]) -> Scope:
    """The names in scope at the start of a function's body."""
    scope = Scope(names, facts=facts_of(function))
    for argument in function.arguments:
        if isinstance(argument, ArrayArgument):
            name = names[argument.name]
            on_device = f"{name}_device" if argument.mapped else ""
            array = NamedArray(name, argument.dtype, argument.extents, device_name=on_device, strides=argument.strides)
            scope.declare_array(argument.name, array)
            if argument.device is not None:
                scope.declare_array(f"{argument.name}@gpu{argument.device}", array)
    scope.declared = {*function.params, *(argument.name for argument in function.arguments)}
    return scope

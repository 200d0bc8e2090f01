"""Rules of the expressions of loop IR, and the names in scope that they refer to; `verify` has those of statements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace

from tiramisu_py.algorithm.expressions import COMPARISONS, Binary, Expr, Iter, Param, Select, Unary
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.algorithm.types import DType, bool_, int64
from tiramisu_py.ir import GpuIndex, Joined, KernelFunction, Lane, Load, Node, Ramp, Scalar, Shifted
from tiramisu_py.ir.rewriting import expressions
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class Value:
    """A variable's type and lanes; `assignable` if `Assign` may change it."""

    dtype: DType
    lanes: int = 1
    assignable: bool = False


@dataclass(frozen=True)
class KnownArray:
    """A buffer: its type, its number of indices, and the lanes of an element."""

    dtype: DType
    rank: int
    lanes: int = 1


@dataclass(frozen=True)
class KnownNames:
    """The names in scope: variables, buffers, kernels, and the ranks of arrays of events and requests (`handles`)."""

    values: Mapping[str, Value]
    arrays: Mapping[str, KnownArray]
    handles: Mapping[str, int] = field(default_factory=dict)
    kernels: Mapping[str, KernelFunction] = field(default_factory=dict)
    in_kernel: bool = False

    def with_value(self, name: str, value: Value) -> KnownNames:
        return replace(self, values={**self.values, name: value})

    def with_array(self, name: str, array: KnownArray) -> KnownNames:
        return replace(self, arrays={**self.arrays, name: array})

    def with_handles(self, name: str, rank: int) -> KnownNames:
        return replace(self, handles={**self.handles, name: rank})


def of_expressions(node: Node, scope: KnownNames) -> Iterator[str]:
    """The rules that the expressions of a statement break."""
    for expression in expressions(node):
        lanes: dict[int, int] = {}
        for part in walk(expression):
            for said in _expression(part, scope, lanes):
                yield f"{said} in {expression}"
            lanes[id(part)] = _lanes_from(part, scope, lanes)


def _expression(e: Expr, scope: KnownNames, lanes: Mapping[int, int]) -> Iterator[str]:
    """The rules that an expression breaks, given the lanes of its operands."""
    several = {lanes[id(child)] for child in e.children()} - {1}
    if len(several) > 1 and not isinstance(e, Load | Lane | Joined):
        yield f"operands have {' and '.join(map(str, sorted(several)))} lanes"
    match e:
        case Iter() | Param() | Scalar():
            yield from _known(e, scope)
        case Binary():
            yield from _binary(e)
        case Unary() if e.operand.dtype != e.dtype:
            yield f"{e.op} makes {e.dtype} of {e.operand.dtype}"
        case Select():
            if not e.condition.dtype.is_bool or e.yes.dtype != e.dtype or e.no.dtype != e.dtype:
                yield f"a select of {e.yes.dtype} and {e.no.dtype} by {e.condition.dtype} makes {e.dtype}"
        case Load():
            yield from element(e.buffer, e.indices, scope, e.dtype)
        case GpuIndex() if not scope.in_kernel:
            yield f"{e} is on the host"
        case Ramp() if lanes[id(e.base)] != 1:
            yield "a ramp starts at a vector"
        case Shifted() if not 0 < e.by < lanes[id(e.low)] or lanes[id(e.low)] != lanes[id(e.high)]:
            yield f"vectors of {lanes[id(e.low)]} and {lanes[id(e.high)]} lanes are shifted by {e.by}"


def _known(e: Iter | Param | Scalar, scope: KnownNames) -> Iterator[str]:
    value = scope.values.get(e.name)
    if value is None:
        yield f"{e.name} is not defined there"
    elif value.dtype != e.dtype:
        yield f"{e.name} is {value.dtype}, but is used as {e.dtype}"


def _binary(e: Binary) -> Iterator[str]:
    made = bool_ if e.op in COMPARISONS else e.left.dtype
    if e.left.dtype != e.right.dtype or e.dtype != made:
        yield f"{e.op} makes {e.dtype} of {e.left.dtype} and {e.right.dtype}"


def element(buffer: str, indices: tuple[Expr, ...], scope: KnownNames, dtype: DType | None = None) -> Iterator[str]:
    """The rules that an element access breaks; an additional last index names a lane of a vector element."""
    array = scope.arrays.get(buffer)
    if array is None:
        yield f"the buffer {buffer} does not exist there"
        return
    if len(indices) != array.rank and not (array.lanes > 1 and len(indices) == array.rank + 1):
        yield f"{buffer} has {array.rank} indices, but is used with {len(indices)}"
    for index in indices:
        if index.dtype != int64:
            yield f"an index of {buffer} is {index.dtype}"
    if dtype is not None and dtype != array.dtype:
        yield f"{buffer} is {array.dtype}, but is loaded as {dtype}"


def expected(e: Expr, scope: KnownNames, dtype: DType) -> Iterator[str]:
    """Check that a bound, an extent or a condition has the type `dtype` and one lane."""
    if e.dtype != dtype:
        yield f"{e} is {e.dtype}, where {dtype} is needed"
    lanes = lanes_of(e, scope)
    if lanes != 1:
        yield f"{e} has {lanes} lanes, where a scalar is needed"


def lanes_of(e: Expr, scope: KnownNames) -> int:
    """The lanes of an expression."""
    lanes: dict[int, int] = {}
    for part in walk(e):
        lanes[id(part)] = _lanes_from(part, scope, lanes)
    return lanes[id(e)]


def _lanes_from(e: Expr, scope: KnownNames, lanes: Mapping[int, int]) -> int:
    match e:
        case Iter() | Param() | Scalar():
            return scope.values[e.name].lanes if e.name in scope.values else 1
        case Ramp():
            return e.lanes
        case Lane():
            return lanes[id(e.lane)]
        case Joined():
            return sum(lanes[id(part)] for part in e.parts)
        case Load():
            own = _element_lanes(e.buffer, len(e.indices), scope)
            return max([own, *(lanes[id(index)] for index in e.indices)])
    return max((lanes[id(child)] for child in e.children()), default=1)


def _element_lanes(buffer: str, indices: int, scope: KnownNames) -> int:
    array = scope.arrays.get(buffer)
    return array.lanes if array is not None and indices == array.rank else 1


def lanes_of_element(buffer: str, indices: tuple[Expr, ...], scope: KnownNames) -> int:
    """The number of elements that a store writes, or the lanes of its vector element."""
    return max([_element_lanes(buffer, len(indices), scope), *(lanes_of(index, scope) for index in indices)])

"""Symbolic values of a traced model: what an edge or a node has, as expressions of the index of the edge or the node.

A value has a `shape`, and says what it is at a point and at indices of its shape. Most values are written into what
reads them. Products, sums, and what a model assigns to an edge or a node are steps: computations of their own.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

import tiramisu_py as tm
from tiramisu_py.errors import DeclarationError
from tiramisu_py.records import dataclass

if TYPE_CHECKING:
    from tiramisu_py.graphs.emitting import EmittedLayer

Shape = tuple[int, ...]

#: The loops that a value is made in: over edges, over nodes, or neither.
EDGES, NODES, ANYWHERE = "edges", "nodes", ""


class ModelValue(ABC):
    """A value of each edge, or of each node."""

    shape: Shape
    loop: str

    @abstractmethod
    def at(self, made: EmittedLayer, point: Any, axes: Sequence[Any]) -> Any:
        """The expression of the value at an edge or a node, and at indices of its shape."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The value as messages name it."""

    @property
    def parts(self) -> tuple[ModelValue, ...]:
        """The values that it is made of."""
        return ()

    def __bool__(self) -> bool:
        raise DeclarationError(
            f"{self.name} has another value on each edge or node, so that no Python condition can ask for it: write "
            "graphs.select(condition, one, other)"
        )

    def __add__(self, other: Any) -> ModelValue:
        return elementwise("+", lambda a, b: a + b, self, other)

    def __radd__(self, other: Any) -> ModelValue:
        return elementwise("+", lambda a, b: a + b, other, self)

    def __sub__(self, other: Any) -> ModelValue:
        return elementwise("-", lambda a, b: a - b, self, other)

    def __rsub__(self, other: Any) -> ModelValue:
        return elementwise("-", lambda a, b: a - b, other, self)

    def __mul__(self, other: Any) -> ModelValue:
        return elementwise("*", lambda a, b: a * b, self, other)

    def __rmul__(self, other: Any) -> ModelValue:
        return elementwise("*", lambda a, b: a * b, other, self)

    def __truediv__(self, other: Any) -> ModelValue:
        return elementwise("/", lambda a, b: a / b, self, other)

    def __rtruediv__(self, other: Any) -> ModelValue:
        return elementwise("/", lambda a, b: a / b, other, self)

    def __neg__(self) -> ModelValue:
        return elementwise("-", lambda a: -a, self)

    def __gt__(self, other: Any) -> ModelValue:
        return elementwise(">", lambda a, b: a > b, self, other)

    def __lt__(self, other: Any) -> ModelValue:
        return elementwise("<", lambda a, b: a < b, self, other)

    def __ge__(self, other: Any) -> ModelValue:
        return elementwise(">=", lambda a, b: a >= b, self, other)

    def __le__(self, other: Any) -> ModelValue:
        return elementwise("<=", lambda a, b: a <= b, self, other)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **_: Any) -> ModelValue:
        if method == "__call__" and ufunc.__name__ in _OF_NUMPY:
            op, function = _OF_NUMPY[ufunc.__name__]
            return elementwise(op, function, *inputs)
        word = f"graphs.{ufunc.__name__}" if ufunc.__name__ in _WORDS else "the operators of graphs"
        raise DeclarationError(
            f"np.{ufunc.__name__} computes on arrays, and {self.name} stands for a value of each edge or node: write "
            f"{word}"
        )

    def __getitem__(self, index: Any) -> NoReturn:
        raise DeclarationError(
            f"{self.name} has the shape {self.shape} and no parts of its own: operators take whole values; "
            "graphs.reshape gives another shape"
        )

    def __iter__(self) -> NoReturn:
        raise DeclarationError(f"{self.name} is one value of shape {self.shape}: it has no items to loop over")

    __hash__ = object.__hash__


@dataclass(frozen=True, eq=False)
class Number(ModelValue):
    """A number, the same everywhere."""

    value: float
    shape: Shape = ()
    loop: str = ANYWHERE

    @property
    def name(self) -> str:
        return str(self.value)

    def at(self, made: EmittedLayer, point: Any, axes: Sequence[Any]) -> Any:
        return self.value


@dataclass(frozen=True, eq=False)
class GivenValue(ModelValue):
    """A value that the caller passes for each node or edge, ``v.feature``."""

    input: str
    shape: Shape
    loop: str

    @property
    def name(self) -> str:
        return self.input

    def at(self, made: EmittedLayer, point: Any, axes: Sequence[Any]) -> Any:
        return made.f[self.input][(point, *axes)]


@dataclass(frozen=True, eq=False)
class OfNode(ModelValue):
    """A value of a node as the edge has it: ``e.src["k"]``."""

    end: str
    of: ModelValue

    @property
    def shape(self) -> Shape:  # type: ignore[override]
        return self.of.shape

    @property
    def loop(self) -> str:  # type: ignore[override]
        return EDGES

    @property
    def name(self) -> str:
        return f"e.{self.end} {self.of.name}"

    @property
    def parts(self) -> tuple[ModelValue, ...]:
        return (self.of,)

    def at(self, made: EmittedLayer, point: Any, axes: Sequence[Any]) -> Any:
        return self.of.at(made, made.node_at(self.end, point), axes)


@dataclass(frozen=True, eq=False)
class Slice(ModelValue):
    """The weights of a type, ``W[e.etype]``, or all of weights without types, where `types` is empty."""

    weight: str
    types: str
    end: str
    shape: Shape
    loop: str

    @property
    def name(self) -> str:
        of = f"{f'e.{self.end}.' if self.end else ''}{self.types}"
        return f"{self.weight}[{of}]" if self.types else self.weight

    def __getitem__(self, index: Any) -> NoReturn:
        if self.types:
            super().__getitem__(index)
        raise DeclarationError(
            f"{self.weight} is one for all, of shape {self.shape}, so that it has no types to choose one by: declare "
            f'weights={{"{self.weight}": ("etype", ..)}}'
        )

    def at(self, made: EmittedLayer, point: Any, axes: Sequence[Any]) -> Any:
        weight = made.f[self.weight]
        if not self.types:
            return weight[tuple(axes)]
        at = made.node_at(self.end, point) if self.end else point
        return weight[(made.index(self.types)[at], *axes)]


@dataclass(frozen=True, eq=False)
class Elementwise(ModelValue):
    """An operation on each element; a value whose shape begins another one's has each element for all of the rest."""

    op: str
    function: Callable[..., Any]
    operands: tuple[ModelValue, ...]
    shape: Shape
    loop: str

    @property
    def name(self) -> str:
        names = [each.name for each in self.operands]
        return f"({f' {self.op} '.join(names)})" if len(self.op) < 3 else f"{self.op}({', '.join(names)})"

    @property
    def parts(self) -> tuple[ModelValue, ...]:
        return self.operands

    def at(self, made: EmittedLayer, point: Any, axes: Sequence[Any]) -> Any:
        return self.function(*(each.at(made, point, axes[: len(each.shape)]) for each in self.operands))


@dataclass(frozen=True, eq=False)
class Reshaped(ModelValue):
    """The elements of a value in the same order, in another shape."""

    of: ModelValue
    shape: Shape

    @property
    def loop(self) -> str:  # type: ignore[override]
        return self.of.loop

    @property
    def name(self) -> str:
        return f"reshape({self.of.name}, {self.shape})"

    @property
    def parts(self) -> tuple[ModelValue, ...]:
        return (self.of,)

    def at(self, made: EmittedLayer, point: Any, axes: Sequence[Any]) -> Any:
        flat: Any = 0
        for extent, axis in zip(self.shape, axes, strict=True):
            flat = flat * extent + axis
        found: list[Any] = []
        for extent in reversed(self.of.shape[1:]):
            found.append(flat % extent)
            flat = flat // extent
        return self.of.at(made, point, ([flat, *reversed(found)] if self.of.shape else []))


@dataclass(frozen=True, eq=False)
class JoinedRows(ModelValue):
    """Two values one after the other, along the last axis."""

    first: ModelValue
    second: ModelValue

    @property
    def shape(self) -> Shape:  # type: ignore[override]
        return (*self.first.shape[:-1], self.first.shape[-1] + self.second.shape[-1])

    @property
    def loop(self) -> str:  # type: ignore[override]
        return self.first.loop or self.second.loop

    @property
    def name(self) -> str:
        return f"concat({self.first.name}, {self.second.name})"

    @property
    def parts(self) -> tuple[ModelValue, ...]:
        return self.first, self.second

    def at(self, made: EmittedLayer, point: Any, axes: Sequence[Any]) -> Any:
        *rest, last = axes
        middle = self.first.shape[-1]
        return tm.select(
            last < middle, self.first.at(made, point, axes), self.second.at(made, point, [*rest, last - middle])
        )


class ModelStep(ModelValue):
    """A value that is computed and kept for each edge or node; `label` is what the model, or its kind, calls it."""

    label: str

    @property
    def name(self) -> str:
        return self.label

    def at(self, made: EmittedLayer, point: Any, axes: Sequence[Any]) -> Any:
        return made.steps[self][(*made.instance(self.loop, point), *axes)]


@dataclass(eq=False)
class AssignedValue(ModelStep):
    """An expression that the model has assigned, ``e["att"] = ..``."""

    label: str
    of: ModelValue
    shape: Shape
    loop: str

    @property
    def parts(self) -> tuple[ModelValue, ...]:
        return (self.of,)


@dataclass(eq=False)
class RowProduct(ModelStep):
    """A sum of products over one axis: of a row and weights, or of two rows."""

    label: str
    kind: str
    left: ModelValue
    right: ModelValue
    shape: Shape
    loop: str

    @property
    def parts(self) -> tuple[ModelValue, ...]:
        return self.left, self.right


@dataclass(eq=False)
class NodeSum(ModelStep):
    """The sum, or the largest, for each node, of a value of the edges that end (or begin) there."""

    label: str
    end: str
    term: ModelValue
    shape: Shape
    loop: str = NODES
    largest: bool = False

    @property
    def parts(self) -> tuple[ModelValue, ...]:
        return (self.term,)


#: The arithmetic that NumPy's numbers ask for, ``np.float64(2) * e.src["k"]``.
_OF_NUMPY: dict[str, tuple[str, Callable[..., Any]]] = {
    "add": ("+", operator.add),
    "subtract": ("-", operator.sub),
    "multiply": ("*", operator.mul),
    "divide": ("/", operator.truediv),
    "negative": ("-", operator.neg),
    "greater": (">", operator.gt),
    "less": ("<", operator.lt),
    "greater_equal": (">=", operator.ge),
    "less_equal": ("<=", operator.le),
}
#: Operators of graphs that NumPy has under the same name.
_WORDS = ("exp", "tanh", "sqrt")


def as_value(given: Any) -> ModelValue:
    """A value, or a number as one; raises `DeclarationError`."""
    if isinstance(given, ModelValue):
        return given
    if isinstance(given, int | float | np.integer | np.floating) and not isinstance(given, bool):
        return Number(float(given))
    raise DeclarationError(f"{given!r} is neither a value of an edge or a node nor a number")


def elementwise(op: str, function: Callable[..., Any], *operands: Any) -> ModelValue:
    """An operation on each element of values whose shapes are equal, or begin one another.

    Raises `DeclarationError`.
    """
    values = tuple(map(as_value, operands))
    shape = max((each.shape for each in values), key=len)
    for each in values:
        if each.shape != shape[: len(each.shape)]:
            raise DeclarationError(
                f"{each.name} has the shape {each.shape}, which is not that of {op} with {shape}: shapes are equal, or "
                "one begins the other, as () and (heads,) begin (heads, 16)"
            )
    return Elementwise(op, function, values, shape, loop_of(values))


def larger(a: Any, b: Any) -> ModelValue:
    """The larger of two values, element by element."""
    return elementwise("maximum", tm.maximum, a, b)


def loop_of(values: Sequence[ModelValue]) -> str:
    """The loop that values are made in together; raises `DeclarationError` for edges beside nodes."""
    loops = {each.loop for each in values if each.loop}
    if len(loops) > 1:
        raise DeclarationError(
            f"{' and '.join(each.name for each in values)}: one is of each edge, the other of each node; an edge has "
            "those of its nodes as e.src[..] and e.dst[..]"
        )
    return loops.pop() if loops else ANYWHERE

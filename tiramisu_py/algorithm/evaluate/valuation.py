"""Evaluation of expressions at many points at once, over known values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from tiramisu_py.algorithm.evaluate import numeric
from tiramisu_py.algorithm.evaluate.lattice import Column, Mask
from tiramisu_py.algorithm.evaluate.numeric import Array
from tiramisu_py.algorithm.expressions import (
    Access,
    Binary,
    Call,
    Cast,
    Component,
    Const,
    Expr,
    Iter,
    Param,
    Select,
    TupleValue,
    Unary,
)
from tiramisu_py.algorithm.stacks import Steps, unstacked
from tiramisu_py.algorithm.traversal import accesses, occurrences
from tiramisu_py.errors import ArgumentError, DeclarationError
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class Points:
    """Points by columns. `rows` says which value of the computation each belongs to, where that matters."""

    columns: Mapping[str, Array]
    count: int
    rows: Column | None = None

    def where(self, chosen: Mask) -> Points:
        """The points that a mask chooses."""
        columns = {name: column[chosen] for name, column in self.columns.items()}
        return Points(columns, int(np.count_nonzero(chosen)), None if self.rows is None else self.rows[chosen])

    def at(self, position: int) -> dict[str, int]:
        """One point, by iterator."""
        return {name: int(column[position]) for name, column in self.columns.items()}


@dataclass(eq=False)
class Values:
    """The values of an input or a computation: an array whose first element has the indices `low`.

    `members` marks the elements of the value set, `done` the known ones; None stands for all.
    """

    name: str
    low: tuple[int, ...]
    array: Array
    members: Mask | None = None
    done: Mask | None = None

    def finish(self) -> None:
        """Mark all members as known."""
        complete = self.members is None or bool(self.members.all())
        self.done = self.members = None if complete else self.members

    def indices(self, flat: int) -> tuple[int, ...]:
        """The indices of an element, from its position in the array."""
        return tuple(int(k) + low for k, low in zip(np.unravel_index(flat, self.array.shape), self.low, strict=True))

    def located(self, columns: Sequence[Array], count: int) -> tuple[Column, Mask]:
        """The positions of elements in the array (0 for an element outside), and the mask of those inside."""
        flat, inside = np.zeros(count, dtype=np.int64), np.ones(count, dtype=np.bool_)
        for column, low, extent in zip(columns, self.low, self.array.shape, strict=True):
            offset = column - low
            inside &= (offset >= 0) & (offset < extent)
            flat = flat * extent + offset
        return np.where(inside, flat, 0), inside


class Valuation:
    """Evaluates typed expressions (see `typed`) at points, reading known values.

    If a point reads a value of a computation in progress that is not known yet, the value's position is stored in
    `blocked`, at the row of the point; the result of that row is then meaningless, and is computed again later.
    `offsets` has the computations in progress, and the number of the first position of each.
    """

    def __init__(self, params: Mapping[str, int]) -> None:
        self.params = params
        self.values: dict[str, Values] = {}
        self.reader = ""
        self.iterators: tuple[str, ...] = ()
        self.blocked: Column | None = None
        self.offsets: dict[str, int] = {}

    def column(self, e: Expr, at: Points) -> Array:
        """The values of an expression, one for each point."""
        return np.broadcast_to(self.value(e, at), (at.count,))

    def value(self, e: Expr, at: Points) -> Array:
        """The values of an expression, or a single value if it is the same for all points."""
        uses = occurrences(e)
        return unstacked(self._steps, e, at, shared=lambda call: uses.get(id(call[0]), 0) > 1)

    def _steps(self, e: Expr, at: Points) -> Steps[Array]:
        """The values of a node; yields its operands, each with the points at which to evaluate it."""
        if isinstance(e, Select):
            return (yield from self._select(e, at))
        operands = []
        for operand in e.children():
            operands.append((yield operand, at))
        return self._computed(e, operands, at)

    def _computed(self, e: Expr, operands: list[Array], at: Points) -> Array:
        match e:
            case Const():
                return numeric.literal(e.value, e.dtype)
            case Iter():
                return at.columns[e.name]
            case Param():
                return np.asarray(self.params[e.name], dtype=np.int64)
            case Access():
                return self._read(e, operands, at)
            case Unary():
                return numeric.unary(e.op, operands[0], e.dtype)
            case Binary():
                return self._binary(e, *operands)
            case Cast():
                return numeric.converted(operands[0], e.dtype)
            case Call():
                return self._call(e, operands, at)
            case TupleValue():
                return numeric.together(operands, e.dtype)
            case Component(whole=whole):
                return numeric.component(operands[0], whole.dtype, e.position)
        raise DeclarationError(f"{e} has no value")

    def _binary(self, e: Binary, left: Array, right: Array) -> Array:
        try:
            return numeric.binary(e.op, left, right, e.dtype)
        except ValueError as error:  # a negative power of an integer
            raise ArgumentError(f"{self.reader} computes {e}: {error}") from None

    def _select(self, e: Select, at: Points) -> Steps[Array]:
        """The values of a select; each branch is evaluated only at the points that take it."""
        result: Array
        taken = np.broadcast_to((yield e.condition, at), (at.count,))
        if taken.all() or not taken.any():
            result = yield (e.yes if taken.all() else e.no), at
            return result
        result = np.empty(at.count, dtype=e.dtype.numpy)
        result[taken] = yield e.yes, at.where(taken)
        result[~taken] = yield e.no, at.where(~taken)
        return result

    def _call(self, e: Call, values: list[Array], at: Points) -> Array:
        if e.extern is None:
            return numeric.called(_NUMPY_NAMES.get(e.function, e.function), values, e.dtype)
        arguments = [np.broadcast_to(argument, (at.count,)) for argument in values]
        alive = self._alive(at)
        if alive is None:
            return numeric.called_extern(e.extern, arguments, at.count)
        result = np.zeros(at.count, dtype=e.dtype.numpy)
        chosen = [argument[alive] for argument in arguments]
        result[alive] = numeric.called_extern(e.extern, chosen, int(np.count_nonzero(alive)))
        return result

    # -- reading

    def _alive(self, at: Points) -> Mask | None:
        """The points that have not read an unknown value yet; None for all."""
        if self.blocked is None or at.rows is None:
            return None
        alive: Mask = self.blocked[at.rows] < 0
        return alive

    def _read(self, e: Access, indices: list[Array], at: Points) -> Array:
        source = self.values[e.source]
        flat, inside = source.located(indices, at.count)
        alive = self._alive(at)
        wrong = ~inside if alive is None else ~inside & alive
        if wrong.any():
            self._refuse(e, at, int(np.argmax(wrong)))
        if source.done is not None:
            missing = inside & ~source.done.reshape(-1)[flat] if source.done.size else ~inside
            self._check_missing(e, at, source, flat, missing if alive is None else missing & alive)
        if not source.array.size:
            return np.zeros(at.count, dtype=source.array.dtype)
        return np.asarray(source.array.reshape(-1)[flat])

    def _check_missing(self, e: Access, at: Points, source: Values, flat: Column, missing: Mask) -> None:
        if not missing.any():
            return
        assert source.members is not None
        outside = missing & ~source.members.reshape(-1)[flat]
        if outside.any() or self.blocked is None or at.rows is None:
            self._refuse(e, at, int(np.argmax(outside)))
        self.blocked[at.rows[missing]] = flat[missing] + self.offsets[source.name]

    def _refuse(self, e: Access, at: Points, position: int) -> NoReturn:
        """Raise `ArgumentError` or `DeclarationError`: the point at a position reads out of bounds."""
        chosen = np.zeros(at.count, dtype=np.bool_)
        chosen[position] = True
        element = [int(self.column(index, at.where(chosen))[0]) for index in e.indices]
        where = self.point_text(at.at(position))
        message = f"{where} reads {_indexed(e.source, element)}, which is outside {self._extent(e.source)}"
        by_value = any(accesses(index) for index in e.indices)
        raise ArgumentError(message) if by_value else DeclarationError(message)

    def _extent(self, source: str) -> str:
        values = self.values[source]
        if values.done is not None or any(values.low):
            return f"the value set of {source}"
        return f"{source}, which has shape {values.array.shape}"

    def point_text(self, point: Mapping[str, int]) -> str:
        """A point of the current computation, in words."""
        value = _indexed(self.reader, [point[name] for name in self.iterators if name in point])
        over = ", ".join(f"{name} = {k}" for name, k in point.items() if name not in self.iterators)
        return f"{value} (at {over})" if over else value


_NUMPY_NAMES = {"abs": "absolute"}


def _indexed(name: str, indices: Sequence[int]) -> str:
    return f"{name}[{', '.join(map(str, indices))}]"


def empty_values(name: str, low: tuple[int, ...], shape: tuple[int, ...], dtype: npt.DTypeLike) -> Values:
    """Storage for values, none of them known yet."""
    return Values(
        name, low, np.zeros(shape, dtype=dtype), np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
    )


def all_known(name: str, array: npt.NDArray[Any]) -> Values:
    """The values of an array that the caller passed."""
    return Values(name, (0,) * array.ndim, np.ascontiguousarray(array).reshape(array.shape))

"""Loads of neighbours: elements of an array at computed indices and beside them, as interpolation reads them.

Loads of one array whose indices differ only by constants, ``image[i, j]``, ``image[i, j + 1]``, ``image[i + 1, j]``
and ``image[i + 1, j + 1]`` with i and j different in each lane, become one call, which reads neighbours together.
Expressions that the statement uses more than once, mostly indices, are computed before it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

import cgen

from tiramisu_py.algorithm.expressions import Binary, Cast, Const, Expr, Select
from tiramisu_py.algorithm.traversal import kinds, rewrite, walk
from tiramisu_py.algorithm.types import DType, int32
from tiramisu_py.backends.c.expressions.parentheses import call
from tiramisu_py.backends.c.expressions.scope import Scope
from tiramisu_py.backends.c.vectors.vector_types import VectorTypes
from tiramisu_py.backends.c.vectors.vectors import Vectors
from tiramisu_py.ir import Load, Variable
from tiramisu_py.ir.arithmetic.common_values import repeated, with_names
from tiramisu_py.ir.arithmetic.linear import Key
from tiramisu_py.records import dataclass

#: The neighbours of a call, as distances from the first: a 2 by 2 square.
SQUARE = ((0, 0), (0, 1), (1, 0), (1, 1))

Place = tuple[int, int]


@dataclass
class Neighbours:
    """Loads of one array, at constant distances from a row and a column that differ from lane to lane."""

    buffer: str
    dtype: DType
    row: Expr
    column: Expr
    taps: dict[Place, Key] = field(default_factory=dict)

    @property
    def _least(self) -> Place:
        return min(row for row, _ in self.taps), min(column for _, column in self.taps)

    @property
    def is_square(self) -> bool:
        """Whether the loads form a 2 by 2 square."""
        return tuple(place for place, _ in self.placed()) == SQUARE

    def placed(self) -> list[tuple[Place, Key]]:
        """The loads, sorted by their distance from the first row and the first column."""
        down, right = self._least
        return sorted(((row - down, column - right), key) for (row, column), key in self.taps.items())

    def first(self) -> tuple[Expr, Expr]:
        """The first row and the first column."""
        down, right = self._least
        return _moved(self.row, down), _moved(self.column, right)


def _moved(index: Expr, by: int) -> Expr:
    return index if by == 0 else Binary("+", index, Const(by, int32), int32)


@dataclass
class Prepared:
    """A value, the lines before it that define its loads and common subexpressions, and the scope with their names."""

    lines: list[cgen.Generable]
    value: Expr
    scope: Scope


def prepared(value: Expr, scope: Scope, types: VectorTypes) -> Prepared | None:
    """A value of vectors with its loads of neighbours before it; None if it has none."""
    if scope.mask is not None:
        return None  # inactive lanes have no valid address
    groups = [group for group in _neighbours(value, scope) if group.is_square]
    return _Preparation(scope.inner(), types, scope.lanes.of(value)).of(value, groups) if groups else None


def _neighbours(value: Expr, scope: Scope) -> Iterable[Neighbours]:
    if Cast not in kinds(value):
        return ()  # as all places in 32 bits have
    if any(isinstance(e, Select) and scope.lanes.of(e.condition) == 1 for e in walk(value)):
        return ()  # only the taken branch may load
    found: dict[Key, Neighbours] = {}
    for e in walk(value):
        if not isinstance(e, Load) or e.dtype.is_bool or scope.arrays[e.buffer].lanes > 1:
            continue
        if scope.arrays[e.buffer].strides is not None:
            continue  # what is read together lies in rows
        places = [place for index in e.indices if (place := _place(index, scope)) is not None]
        if len(places) == len(e.indices) == len(("row", "column")):
            (row, down), (column, right) = places
            key = (e.buffer, row.key(), column.key())
            group = found.setdefault(key, Neighbours(e.buffer, e.dtype, row, column))
            group.taps[down, right] = e.key()
    return found.values()


def _place(index: Expr, scope: Scope) -> tuple[Expr, int] | None:
    """A 32-bit index that differs from lane to lane, as its part without the added constant, and that constant."""
    if not isinstance(index, Cast) or index.operand.dtype != int32 or scope.lanes.of(index) == 1:
        return None
    inner = index.operand
    if isinstance(inner, Binary) and inner.op in ("+", "-") and isinstance(inner.right, Const):
        return inner.left, int(inner.right.value) if inner.op == "+" else -int(inner.right.value)
    return inner, 0


def _tap(e: Expr, taps: Mapping[Key, Expr]) -> Expr | None:
    """What stands for a load of a neighbour, or for its conversion: a neighbour may be given in a wider type."""
    load = e.operand if isinstance(e, Cast) else e
    tap = taps.get(load.key()) if isinstance(load, Load) else None
    return tap if tap is None or tap.dtype == e.dtype else Cast(tap, e.dtype)


@dataclass
class _Preparation:
    scope: Scope
    types: VectorTypes
    lanes: int
    lines: list[cgen.Generable] = field(default_factory=list)
    names: dict[Key, Expr] = field(default_factory=dict)
    reserved: set[str] = field(default_factory=set)

    def of(self, value: Expr, groups: Sequence[Neighbours]) -> Prepared:
        taps: dict[Key, Expr] = {}
        for group in groups:
            for (down, right), key in group.placed():
                given = self.types.neighbour(group.dtype, self.lanes)
                taps[key] = Variable(self._fresh(f"{self._own(group.buffer)}_{down}{right}"), given)
        value = rewrite(value, lambda e: _tap(e, taps))
        loaded = {variable.key() for variable in taps.values()}
        places = [index for group in groups for index in group.first()]
        later: list[Expr] = []
        for part in repeated((*places, value), self._is_worth_a_name):
            if any(inner.key() in loaded for inner in walk(part)):
                later.append(part)
            else:
                self._define(part)
        for group in groups:
            self._load(group, [taps[key] for _, key in group.placed()])
        for part in later:
            self._define(part)
        return Prepared(self.lines, with_names(value, self.names), self.scope)

    def _is_worth_a_name(self, e: Expr) -> bool:
        """Whether an expression is computed for each lane, and so worth naming if it occurs twice."""
        return bool(e.children()) and not isinstance(e, Load) and not e.dtype.is_bool and self.scope.lanes.of(e) > 1

    def _define(self, value: Expr) -> None:
        text, name = self._text(value), self._fresh("part_", 0)
        self.lines.append(cgen.Statement(f"const {self.types.name(value.dtype, self.lanes)} {name} = {text}"))
        self.scope.declare(name, self.lanes)
        self.names[value.key()] = Variable(name, value.dtype)

    def _load(self, group: Neighbours, taps: Sequence[Expr]) -> None:
        """The declaration of the taps, and the call that loads them."""
        array, kind = self.scope.arrays[group.buffer], self.types.neighbours(group.dtype, self.lanes)
        given = self.types.name(self.types.neighbour(group.dtype, self.lanes), self.lanes)
        sizes = [Vectors(self.scope, self.types, self.lanes).scalars(extent).text for extent in array.extents]
        names = [str(tap) for tap in taps]
        self.lines.append(cgen.Statement(f"{given} {', '.join(names)}"))
        for name in names:
            self.scope.declare(name, self.lanes)
        places = [self._text(index) for index in group.first()]
        arguments = (array.name, *sizes, *places, *(f"&{name}" for name in names))
        self.lines.append(cgen.Statement(call("TM_NEIGHBOURS", kind, *arguments).text))

    def _text(self, value: Expr) -> str:
        return Vectors(self.scope, self.types, self.lanes)(with_names(value, self.names)).text

    def _own(self, buffer: str) -> str:
        return self.scope.arrays[buffer].name

    def _fresh(self, name: str, number: int | None = None) -> str:
        """A name that is free in the scope; a number is appended if it is taken, or if `number` is given."""
        taken = {*self.scope.names.values(), *self.scope.declared, *(a.name for a in self.scope.arrays.values())}
        taken |= {str(variable) for variable in self.names.values()} | self.reserved
        numbered = (f"{name}{k}" for k in itertools.count(number or 0))
        free = name if number is None and name not in taken else next(n for n in numbered if n not in taken)
        self.reserved.add(free)
        return free

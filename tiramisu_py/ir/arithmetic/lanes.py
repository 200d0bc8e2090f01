"""The number of lanes of an expression, and the expressions that the emitter can compute on all lanes at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import Any

from tiramisu_py.algorithm.expressions import COMPARISONS, Binary, Call, Cast, Const, Expr, Iter, Param, Select, Unary
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.traversal import kept_on_node, kinds, walk
from tiramisu_py.algorithm.types import DType, float16, float64, strong
from tiramisu_py.ir import Joined, Lane, Load, Ramp, Scalar
from tiramisu_py.ir.rewriting import loads_in, names_in
from tiramisu_py.records import dataclass

#: Expressions that have lanes by themselves.
_WITH_LANES = frozenset((Ramp, Joined))
#: Where an expression keeps its own lanes.
#: Functions with more arguments are called lane by lane.
MOST_ARGUMENTS = 2


@dataclass(frozen=True)
class Lanes:
    """The lanes of the variables in sight, and of the elements of buffers: (number of indices, lanes).

    `foreign` says whether the user's functions may be called for all lanes, `halves` whether 16-bit floats have
    vectors. The variables `values` hold what is computed, as elements of arrays do, and no index.
    """

    variables: Mapping[str, int] = field(default_factory=dict)
    buffers: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    foreign: bool = True
    halves: bool = False
    values: frozenset[str] = frozenset()

    def with_variable(self, name: str, lanes: int) -> Lanes:
        """The lanes with one variable added."""
        return replace(self, variables={**self.variables, name: lanes})

    def with_buffer(self, name: str, rank: int, lanes: int) -> Lanes:
        """The lanes with one buffer added."""
        return replace(self, buffers={**self.buffers, name: (rank, lanes)})

    @cached_property
    def _wide(self) -> frozenset[str]:
        """The variables and buffers of vectors."""
        variables = [name for name, lanes in self.variables.items() if lanes > 1]
        return frozenset([*variables, *(name for name, (_, lanes) in self.buffers.items() if lanes > 1)])

    def of(self, e: Expr) -> int:
        """The lanes of an expression: 1 for a scalar."""
        if isinstance(e, Const | Param):
            return 1
        if isinstance(e, Iter):
            return self.variables.get(e.name, 1)
        return self._of_node(e) if not names_in(e).isdisjoint(self._wide) else _own_lanes(e)

    @deep
    def _of_node(self, e: Expr) -> int:
        match e:
            case Ramp():
                return e.lanes
            case Lane():
                return 1
            case Joined():
                return sum(map(self.of, e.parts))
            case Load():
                inner = max(map(self.of, e.indices), default=1)
                return max(inner, self.of_element(e.buffer, len(e.indices)))
        return max(map(self.of, e.children()), default=1)

    def of_element(self, buffer: str, rank: int) -> int:
        """The lanes of an element named by `rank` indices (an additional index names a lane of a vector element)."""
        own, lanes = self.buffers.get(buffer, (rank, 1))
        return lanes if rank == own else 1

    def vectorisable(self, e: Expr, target: Load | None = None) -> bool:
        """Whether all lanes can be computed at once.

        A select by lane reads both branches in every lane, so its condition must not guard a load. Safe are the loads
        that happen in any case, the stored element (`target`), and everything under a condition on values only: for
        these the algorithm's soundness requires that both branches may be read.
        """
        safe = _Safe(e, target)
        return all(self._computable(part, safe) for part in walk(e) if self.of(part) > 1)

    def are_halves_apart(self, e: Expr) -> bool:
        """Whether an operation with 16-bit floats has no vectors."""
        return _has_halves(e) and not (self.halves and in_float32(e))

    def _computable(self, e: Expr, safe: _Safe) -> bool:
        if self.are_halves_apart(e):
            return False
        match e:
            case Load() if self.of_element(e.buffer, len(e.indices)) > 1:
                return all(self.of(index) == 1 for index in e.indices)
            case Select() if self.of(e.condition) > 1 and any(map(_is_foreign, [*walk(e.yes), *walk(e.no)])):
                return False
            case Select() if self.of(e.condition) > 1 and guards(e.condition, self.values):
                return all(load.key() in safe.loads for load in (*loads_in(e.yes), *loads_in(e.no)))
            case Call():
                return len(e.arguments) <= MOST_ARGUMENTS and (self.foreign or e.extern is None)
        return True


def is_half(dtype: DType) -> bool:
    """Whether a type is one of the 16-bit floats, which processors store, but compute in float32."""
    return dtype.is_half


def in_float32(e: Expr) -> bool:
    """Whether an expression with 16-bit floats is one operation in float32 between conversions, or no operation.

    A float64 is rounded to float16 at once, one by one; integers that float32 does not hold are too large for float16.
    """
    match e:
        case Load() | Iter():
            return True
        case Cast() if is_half(e.dtype):
            return strong(e.dtype) != float16 or strong(e.operand.dtype) != float64
        case Cast():
            return not e.dtype.is_bool
        case Unary() | Binary():
            return is_half(e.dtype) and e.op in ("-", "+", "*", "/", "min", "max")
    return False


def _has_halves(e: Expr) -> bool:
    return is_half(e.dtype) or any(is_half(part.dtype) for part in e.children())


def _is_foreign(e: Expr) -> bool:
    """Whether an expression calls a function of the user's, which may rely on the condition around its call."""
    return isinstance(e, Call) and e.extern is not None


def guards(condition: Expr, values: frozenset[str] = frozenset()) -> bool:
    """Whether a condition has a part on indices or sizes, which may guard loads; the variables `values` are neither."""

    def is_value(e: Expr) -> bool:
        """Whether an expression cannot be in an affine condition; conditions with it let both branches be read."""
        return isinstance(e, Load | Scalar | Call) or e.dtype.is_float or (isinstance(e, Iter) and e.name in values)

    parts = list(walk(condition))
    compared = (part for part in parts if isinstance(part, Binary) and part.op in COMPARISONS)
    variables = any(isinstance(part, Iter) and part.dtype.is_bool and part.name not in values for part in parts)
    return variables or any(not any(map(is_value, walk(comparison))) for comparison in compared)


@kept_on_node
def _own_lanes(e: Expr) -> int:
    """The lanes of an expression without variables and buffers of vectors."""
    return 1 if kinds(e).isdisjoint(_WITH_LANES) else Lanes()._of_node(e)


@dataclass(frozen=True, eq=False)
class _Safe:
    """The loads that happen in any case: those of an expression outside its choices, and the stored element."""

    value: Expr
    target: Load | None

    @cached_property
    def loads(self) -> frozenset[tuple[Any, ...]]:
        """Their keys."""
        found = [part.key() for part in _unconditional(self.value) if isinstance(part, Load)]
        return frozenset(found if self.target is None else [*found, self.target.key()])


def _unconditional(e: Expr) -> Iterator[Expr]:
    """The parts of an expression that are evaluated in any case."""
    waiting, seen = [e], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            waiting += reversed((node.condition,) if isinstance(node, Select) else node.children())

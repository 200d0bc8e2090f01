"""Pairs of executions that their conditions exclude: not both of them take place.

An execution takes place only where its guards hold. A guard that compares an element of an input S with a form of the
instance bounds this element. With S[u] <= h for an execution x and S[w] >= l for an execution y,

    u = w                          l <= S[u] <= h            excludes  h < l
    w <= u,  S monotone            l <= S[w] <= S[u] <= h    excludes  h < l
    u != w,  S distinct            S[u] = h,  S[w] = l       excludes  h = l,  if both guards are equations

A permutation is distinct.

Inputs name one value for each element, whatever becomes of the array in memory, so that the values read by the two
executions agree; that each read sees this value is another condition.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.declarations import Algorithm, Computation, Input
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.domains.domain import conjuncts
from tiramisu_py.algorithm.domains.reads import narrowest
from tiramisu_py.algorithm.domains.runs import is_exact
from tiramisu_py.algorithm.expressions import Access, Binary, Const, Expr
from tiramisu_py.algorithm.traversal import mentions
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.records import dataclass

#: The comparison with its sides exchanged.
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}


class Fact(NamedTuple):
    """A declared fact about an input: ``monotone``, ``permutation`` or ``distinct``."""

    source: str
    name: str

    def __str__(self) -> str:
        if self.name == "distinct":
            return f"the elements of {self.source} are distinct"
        return f"{self.source} is {'monotone' if self.name == 'monotone' else 'a permutation'}"


@dataclass(frozen=True, eq=False)
class _ElementBound:
    """A guard of an access: ``source[index] >= low`` and ``source[index] <= high``, where these are not None.

    All are functions of the domain of the access; `low` and `high` of an equation are one form.
    """

    source: str
    index: tuple[isl.Aff, ...]
    low: isl.Aff | None
    high: isl.Aff | None

    @property
    def is_equation(self) -> bool:
        return self.low is self.high


class Exclusions:
    """The pairs of accesses of one program that can both take place; `relied` are the facts that excluded others."""

    def __init__(self, accesses: MemoryAccesses) -> None:
        self.accesses = accesses
        self.relied: dict[Fact, None] = {}

    def possible(self, a: MemoryAccess, b: MemoryAccess, pairs: isl.Map) -> isl.Map:
        """The pairs ``a -> b`` of a relation that the guards of both, and the declared facts, do not exclude."""
        for fact, excluded in self._excluded(a, b, self._declared()):
            left = pairs.subtract(excluded)
            if fact is not None and not pairs.is_subset(left):
                self.relied[fact] = None
            pairs = left
        return pairs

    def restricts(self, access: MemoryAccess) -> bool:
        """Whether a guard of an access bounds an element, so that it may exclude pairs with others."""
        return bool(self._bounds(access))

    def advice(self, a: MemoryAccess, b: MemoryAccess, pairs: isl.Map, otherwise: str) -> str:
        """The advice to declare a fact that would exclude all pairs ``a -> b``, and what to do if it is not true."""
        fact = self._missing(a, b, pairs)
        if fact is None:
            return otherwise
        return f"if {fact}, declare it so: {fact.name}=True; otherwise {otherwise}"

    def _missing(self, a: MemoryAccess, b: MemoryAccess, pairs: isl.Map) -> Fact | None:
        """A fact, not declared but possible, that would exclude all pairs ``a -> b`` of a relation."""
        declared = self._declared()
        for source in dict.fromkeys(bound.source for bound in self._bounds(a)):
            for name in ("permutation", "distinct", "monotone"):
                fact = Fact(source, name)
                if fact in declared or not self._may_be(fact, a):
                    continue
                left = pairs
                for _, excluded in self._excluded(a, b, [*declared, fact]):
                    left = left.subtract(excluded)
                if left.is_empty():
                    return fact
        return None

    def _may_be(self, fact: Fact, access: MemoryAccess) -> bool:
        """Whether the declared range of an input allows a fact: a permutation of n elements has the values 0 to n.

        Terms of a reduction are seldom all for different values: these are not said to be distinct.
        """
        declared = self.accesses.program.algorithm.inputs[fact.source]
        if fact.name == "distinct":
            computed = self.accesses.program.algorithm.computations.get(access.source)
            return computed is not None and not computed.is_reduction
        if fact.name == "monotone" or declared.values is None:
            return True
        low, high = declared.values
        return len(declared.shape) == 1 and low.same_as(Const(0, low.dtype)) and high.same_as(declared.shape[0])

    def _declared(self) -> list[Fact]:
        """The declared facts."""
        inputs = self.accesses.program.algorithm.inputs.values()
        return [Fact(each.name, "monotone") for each in inputs if each.monotone] + [
            Fact(each.name, name) for each in inputs if (name := _how_distinct(each))
        ]

    # -- relations

    def _excluded(
        self, a: MemoryAccess, b: MemoryAccess, facts: Collection[Fact]
    ) -> Iterator[tuple[Fact | None, isl.Map]]:
        """The excluded pairs ``a -> b``, each relation with the fact that it relies on; the simplest ones first."""
        bounds = [(x, y) for x in self._bounds(a) for y in self._bounds(b) if x.source == y.source]
        found: list[tuple[Fact | None, isl.Map]] = []
        for x, y in bounds:
            monotone = Fact(x.source, "monotone")
            apart = [fact for name in ("permutation", "distinct") if (fact := Fact(x.source, name)) in facts]
            if x.high is not None and y.low is not None:
                yield None, self._crossing(a, x, b, y, False)
                found += [(monotone, self._crossing(a, x, b, y, True))] if monotone in facts else []
            if x.low is not None and y.high is not None:
                yield None, self._crossing(b, y, a, x, False).reverse()
                found += [(monotone, self._crossing(b, y, a, x, True).reverse())] if monotone in facts else []
            if apart and x.is_equation and y.is_equation:
                found.append((apart[0], self._repeated(a, x, b, y)))
        yield from found

    def _crossing(
        self, a: MemoryAccess, upper: _ElementBound, b: MemoryAccess, lower: _ElementBound, monotone: bool
    ) -> isl.Map:
        """The pairs with an upper bound of an element less than the lower bound of the same, or of an earlier, one."""
        assert upper.high is not None and lower.low is not None
        above, below = _graph(a, [*upper.index, upper.high]), _graph(b, [*lower.index, lower.low])
        last = len(upper.index)
        apart = sets.less_at(_any_pair(above), last)
        same = sets.equal_prefix(apart, last)
        if monotone and last:
            same = same.union(sets.greater_at(sets.equal_prefix(apart, last - 1), last - 1))
        return above.apply_range(same).apply_range(below.reverse())

    def _repeated(self, a: MemoryAccess, x: _ElementBound, b: MemoryAccess, y: _ElementBound) -> isl.Map:
        """The pairs with equations that give two different elements one value."""
        assert x.low is not None and y.low is not None
        first, second = _graph(a, [*x.index, x.low]), _graph(b, [*y.index, y.low])
        count = len(x.index)
        equal = sets.equal_at(_any_pair(first), count)
        different = equal.subtract(sets.equal_prefix(equal, count))
        return first.apply_range(different).apply_range(second.reverse())

    # -- guards

    def _bounds(self, access: MemoryAccess) -> list[_ElementBound]:
        """The guards of an access that compare an element of an input with a form."""
        found = (_bound(self.accesses.program.algorithm, reader, guard) for reader, guard in self._guards(access))
        return [bound for bound in found if bound is not None]

    def _of_value_read(self, access: MemoryAccess) -> Iterator[tuple[Affine, Expr]]:
        """The conditions under which a value exists that is read: the algorithm reads no others.

        A transfer or a message may, which moves more than there is.
        """
        declared = self.accesses.program.algorithm.computations.get(access.source)
        statement = access.actor.statement
        if access.is_write or declared is None or statement is None or statement.moves or not declared.guards:
            return
        forms = sets.outputs(access.value)
        reader = Affine(access.domain.get_space(), dict(zip(declared.iterators, forms, strict=True)))
        for guard in declared.guards:
            if not mentions(guard, declared.over):
                yield from ((reader, condition) for condition in conjuncts(guard))

    def _guards(self, access: MemoryAccess) -> Iterator[tuple[Affine, Expr]]:
        """The conditions under which an access takes place, each with a reader of its forms.

        What a statement reads in order to evaluate its guards, it reads in any case.
        """
        program, statement = self.accesses.program, access.actor.statement
        if statement is not None:
            yield from self._of_value_read(access)
            if not access.is_write and any(access.source in self.accesses.values.sources(g) for g in statement.guards):
                return
            forms = sets.outputs(sets.compose(access.instance, statement.point))
            names, guards = program.point_names(statement), statement.guards
        else:
            declared = program.algorithm.source(access.source)
            if not isinstance(declared, Computation):
                return
            forms, names = sets.outputs(access.value), declared.iterators
            guards = tuple(guard for guard in declared.guards if not mentions(guard, declared.over))
        reader = Affine(access.domain.get_space(), dict(zip(names, forms, strict=False)))
        for guard in guards:
            for condition in conjuncts(guard):
                yield reader, condition


def _how_distinct(declared: Input) -> str:
    """The declared fact by which no two elements are equal; empty if there is none."""
    return "permutation" if declared.permutation else "distinct" if declared.injective else ""


def _graph(access: MemoryAccess, forms: list[isl.Aff]) -> isl.Map:
    return sets.graph(sets.function(access.domain.get_space(), None, forms), access.domain)


def _any_pair(of: isl.Map) -> isl.Map:
    """The universal relation on the range of a relation."""
    return isl.Map.universe(of.get_space().range().map_from_set())


def _bound(algorithm: Algorithm, reader: Affine, condition: Expr) -> _ElementBound | None:
    """A condition as a bound of an element of an input; None if it is none."""
    condition = typed(condition)
    if not isinstance(condition, Binary) or condition.op not in _MIRRORED:
        return None
    for op, side, other in (
        (condition.op, condition.left, condition.right),
        (_MIRRORED[condition.op], condition.right, condition.left),
    ):
        element = narrowest(side)
        declared = algorithm.inputs.get(element.source) if isinstance(element, Access) else None
        if isinstance(element, Access) and declared is not None and _is_array(declared):
            return _compared(reader, element, op, other)
    return None


def _is_array(declared: Input) -> bool:
    return declared.dtype.is_integer and bool(declared.shape)


def _compared(reader: Affine, element: Access, op: str, other: Expr) -> _ElementBound | None:
    """The bound that ``element op other`` is; None if index or other side have no affine form."""
    if not all(map(is_exact, (*element.indices, other))):
        return None
    try:
        index, form = tuple(map(reader.single, element.indices)), reader.single(other)
    except NotAffine:
        return None
    low = {"==": form, ">=": form, ">": sets.plus(form, 1)}.get(op)
    high = {"==": form, "<=": form, "<": sets.plus(form, -1)}.get(op)
    return _ElementBound(element.source, index, low, high)

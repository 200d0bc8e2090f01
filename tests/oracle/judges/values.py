"""Layer I at one size: which values exist, which values each one reads, and whether that makes sense at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

from tests.oracle.judges.plain import OPERATORS, NotInteger, Point, integer, integers, points
from tiramisu_py.algorithm.declarations import Algorithm, Computation, Input
from tiramisu_py.algorithm.expressions import Access, Binary, Cast, Expr, Iter, Select, as_expr
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.algorithm.types import TupleType
from tiramisu_py.algorithm.words.stages import StageCall

#: A value: the name of an input or a computation, and its indices.
Named = tuple[str, Point]


@dataclass(frozen=True)
class Values:
    """The values of an algorithm at given parameters."""

    algorithm: Algorithm
    params: Mapping[str, int]

    @cached_property
    def exist(self) -> dict[str, frozenset[Point]]:
        """The indices of the values of each computation."""
        return {name: frozenset(points(c.domain, self.params)) for name, c in self.algorithm.computations.items()}

    @cached_property
    def terms(self) -> dict[Named, frozenset[Point]]:
        """The points that make each value: itself, or the terms of a reduction."""
        found: dict[Named, set[Point]] = {(c, v): set() for c, existing in self.exist.items() for v in existing}
        for name, computation in self.algorithm.computations.items():
            for point in points(computation.points, self.params):
                found.setdefault((name, point[: len(computation.iterators)]), set()).add(point)
        return {value: frozenset(of) for value, of in found.items()}

    def shape(self, source: Input) -> Point:
        """The extents of an input."""
        return self._shapes[source.name]

    @cached_property
    def _shapes(self) -> dict[str, Point]:
        inputs = self.algorithm.inputs
        return {name: tuple(max(0, n) for n in integers(inputs[name].shape, self.params)) for name in inputs}

    def has(self, value: Named) -> bool:
        """Whether a value exists (for an input: lies inside the array)."""
        source, index = value
        declared = self.algorithm.source(source)
        if isinstance(declared, Computation):
            return index in self.exist[source]
        return all(0 <= i < n for i, n in zip(index, self.shape(declared), strict=True))

    def read_by(self, e: Expr, names: Mapping[str, int]) -> Iterator[Named]:
        """The values that an expression reads; of a select with a known condition, those of the branch taken."""
        if isinstance(e, Select):
            try:
                yield from self.read_by(e.yes if integer(e.condition, names) else e.no, names)
                return
            except NotInteger:
                pass
        for child in e.children():
            yield from self.read_by(child, names)
        if isinstance(e, Access) and not self._is_scalar(e.source):
            for index in product(*(sorted(self.choices(i, names)) for i in e.indices)):
                yield e.source, index

    def choices(self, e: Expr, names: Mapping[str, int]) -> frozenset[int]:
        """What an index may be: one integer, or whatever the declared facts allow an input's elements to be."""
        try:
            return frozenset({integer(e, names)})
        except NotInteger:
            pass
        match e:
            case Access() if e.source in self.algorithm.inputs:
                return frozenset(self.range_of(self.algorithm.inputs[e.source]))
            case Cast():
                return self.choices(e.operand, names)
            case Binary():
                sides = product(self.choices(e.left, names), self.choices(e.right, names))
                return frozenset(OPERATORS[e.op](a, b) for a, b in sides)
        raise AssertionError(f"nothing is known of the index {e}")

    def root(self, value: Named) -> Named:
        """The value that a value is, if its expression is nothing but another value: ``h[t, 0] = h[t - 1, 0]``."""
        if value not in self._roots:
            parent = self._parent(value)
            self._roots[value] = value if parent is None else self.root(parent)
        return self._roots[value]

    @cached_property
    def _roots(self) -> dict[Named, Named]:
        return {}

    def _parent(self, value: Named) -> Named | None:
        """The value that the expression of a value is; None if it computes something."""
        declared = self.algorithm.computations.get(value[0])
        if declared is None or not _is_plain(declared) or declared.guards or declared.stage is not None:
            return None
        names = {**self.params, **dict(zip(declared.iterators, value[1], strict=True))}
        e = declared.expr
        try:
            while isinstance(e, Select) and e.yes.dtype == e.no.dtype == e.dtype:
                e = e.yes if integer(e.condition, names) else e.no
            if isinstance(e, Access) and e.indices and e.dtype == declared.dtype:
                source = self.algorithm.source(e.source)
                return (e.source, integers(e.indices, names)) if _is_plain(source) else None
        except NotInteger:
            pass
        return None

    def range_of(self, source: Input) -> range:
        """The values that an input's elements are declared to have."""
        assert source.values is not None, f"nothing is declared of the values of {source.name}"
        return range(*integers(source.values, self.params))

    def read_in_call(self, computation: Computation, point: Point) -> Iterator[Named]:
        """The values that the call for a value reads: each access at all values of its iterators in this call."""
        written, call = computation.written, computation.expr
        assert written is not None and isinstance(call, StageCall)
        count = len(written.each)
        elements = [other for other in self.exist[computation.name] if other[:count] == point[:count]]
        found = dict[Named, None]()
        for access in (e for e in call.arguments if isinstance(e, Access) and e.indices):
            used = {part.name for part in walk(access) if isinstance(part, Iter)}
            over = {i.name: self._range(extent) for i, extent in (written.over or {}).items() if i.name in used}
            for element, rest in product(elements, product(*over.values())):
                names = {**self.params, **dict(zip(computation.iterators, element, strict=True))}
                names |= dict(zip(over, rest, strict=True))
                found[access.source, integers(access.indices, names)] = None
        yield from found

    def _range(self, extent: Any) -> range:
        low, high = extent if isinstance(extent, tuple) else (0, extent)
        return range(*(integer(as_expr(bound), self.params) for bound in (low, high)))

    def _is_scalar(self, source: str) -> bool:
        declared = self.algorithm.source(source)
        return isinstance(declared, Input) and declared.scalar

    def names(self, computation: Computation, point: Point) -> dict[str, int]:
        """The iterators of a computation and the parameters, by name."""
        return {**self.params, **dict(zip(computation.point_iterators, point, strict=True))}

    def holds(self, guards: Sequence[Expr], names: Mapping[str, int]) -> bool:
        """Whether conditions on values hold, for which arrays must be given: see `given`."""
        assert not guards, "conditions on values are judged with arrays alone"
        return True

    def needed(self, value: Named) -> list[Named]:
        """The values that one value is made of."""
        computation = self.algorithm.computations[value[0]]
        return [read for point in self.terms[value] for read in self.reads(computation, computation.expr, point)]

    def reads(self, computation: Computation, e: Expr, point: Point) -> Sequence[Named]:
        """The values that an expression of a computation reads at one of its points."""
        _, known = self._known.setdefault((computation.name, id(e)), (e, {}))  # kept, and so is its number
        if point not in known:
            called = isinstance(e, StageCall)
            found = self.read_in_call(computation, point) if called else self.read_by(e, self.names(computation, point))
            known[point] = tuple(found)
        return known[point]

    @cached_property
    def _known(self) -> dict[tuple[str, int], tuple[Expr, dict[Point, tuple[Named, ...]]]]:
        return {}

    def faults(self) -> set[str]:
        """What is wrong with the algorithm itself: reads outside value sets (bounds), circular values (algorithm)."""
        needs = {value: self.needed(value) for value in self.terms}
        found = {"bounds"} if any(not self.has(read) for reads in needs.values() for read in reads) else set()
        return found | ({"algorithm"} if _circular(needs) else set())


def _is_plain(source: Input | Computation) -> bool:
    """Whether the values of a source are single numbers, and no sums."""
    return not (isinstance(source, Computation) and source.is_reduction) and not isinstance(source.dtype, TupleType)


def _circular(needs: Mapping[Named, list[Named]]) -> bool:
    """Whether some value needs itself: take away what needs nothing that is left, until nothing changes."""
    waiting = {value: {read for read in reads if read in needs} for value, reads in needs.items()}
    readers: dict[Named, list[Named]] = {}
    for value, reads in waiting.items():
        for read in reads:
            readers.setdefault(read, []).append(value)
    ready = [value for value, reads in waiting.items() if not reads]
    made = 0
    while ready:
        value = ready.pop()
        made += 1
        for reader in readers.get(value, ()):
            waiting[reader].discard(value)
            if not waiting[reader]:
                ready.append(reader)
    return made < len(needs)

"""Candidates for a computation: each is a few commands, the reason for them, and what they cover."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import cached_property

from tiramisu_py import Function, Iter
from tiramisu_py.auto.model.cost import CostModel, ValueWork, cycles
from tiramisu_py.auto.model.strides import APART, operations, read_cost, result_cost
from tiramisu_py.queries import (
    Algorithm,
    Declared,
    LinearRead,
    Program,
    Statement,
    extents,
    linear_reads,
    unused_iterator,
)
from tiramisu_py.recipes import Cpu
from tiramisu_py.recipes.cpu import MOST_LANES
from tiramisu_py.records import dataclass

#: The bytes that come from memory for an element, if its neighbours in the cache line are used much later.
LINE = 32


@dataclass(frozen=True)
class Offer:
    """Commands for some computations: what they do, why, and the computations that have their loops then.

    `apply` gives the commands to a function. `key` names the offer: its anchor, and what it does. `work` is what the
    cost model ranks the offers of one anchor by. `is_tiled` says that sizes of the processor's caches are in it.
    """

    anchor: str
    what: str
    why: str
    apply: Callable[[Function], object]
    covers: tuple[str, ...]
    work: ValueWork
    is_tiled: bool = False

    @property
    def key(self) -> tuple[str, str]:
        return self.anchor, self.what


@dataclass(frozen=True, eq=False)
class Problem:
    """A function to be scheduled for a processor, and what is known of its computations."""

    function: Function
    cpu: Cpu
    threads: int
    model: CostModel | None = None
    tiles: bool = True
    _touches: dict[str, tuple[LinearRead, ...]] = field(default_factory=dict)
    _extents: dict[str, list[int | None]] = field(default_factory=dict)

    def cost(self, work: ValueWork) -> float:
        """The estimate that offers are ranked by: the user's, or that of the processor's cycles."""
        return cycles(work, self.cpu.costs) if self.model is None else self.model(work)

    @property
    def latency(self) -> float:
        """The cycles of an addition of floating-point numbers whose operand is the result of the one before."""
        return self.cpu.costs.add_latency

    @cached_property
    def algorithm(self) -> Algorithm:
        return self.function.program.algorithm

    @cached_property
    def given(self) -> frozenset[str]:
        """The computations whose loops the user has changed, tagged or put in order: they are left alone.

        An order among computations of one group (`Function.together`) stays too, but their loops may be changed.
        """
        program = self.function.program
        first = program.history[0]
        pairs = [(order.before, order.after) for order in program.orders]
        ordered = {name for pair in pairs if not self._in_one_group(*pair) for name in pair}
        joined = {name for pair in pairs for name in pair} - ordered
        found = set()
        for name in self.algorithm.computations:
            statements = program.statements_of(name)
            same = (_is_as_declared(first, each, each.name in joined) for each in statements)
            tagged = any(program.loops[loop].tag is not None for each in statements for loop in each.loops)
            if not statements or tagged or not all(same) or any(each.name in ordered for each in statements):
                found.add(name)
        return frozenset(found)

    def _in_one_group(self, *names: str) -> bool:
        statements = self.function.program.statements
        sources = [self.algorithm.source(statements[name].source) for name in names if name in statements]
        groups = {source.group if isinstance(source, Declared) else None for source in sources}
        return len(groups) == 1 and None not in groups

    def computation(self, name: str) -> Declared:
        return self.algorithm.computations[name]

    def extents(self, name: str) -> list[int | None]:
        """How many values each iterator of a computation has; None where that depends on parameters."""
        declared = self.computation(name)
        if name not in self._extents:
            self._extents[name] = extents(declared)
        return self._extents[name]

    def point_extents(self, name: str) -> list[int | None]:
        """The extents of all iterators of its points, terms included."""
        declared = self.computation(name)
        key = f"{name}, points"
        if key not in self._extents:
            self._extents[key] = extents(declared, terms=True)
        return self._extents[key]

    def touches(self, name: str) -> tuple[LinearRead, ...]:
        """The accesses of a computation."""
        if name not in self._touches:
            self._touches[name] = linear_reads(self.computation(name))
        return self._touches[name]

    @cached_property
    def readers(self) -> dict[str, tuple[str, ...]]:
        """By computation, those that read it."""
        found: dict[str, tuple[str, ...]] = dict.fromkeys(self.algorithm.computations, ())
        for name in found:
            for source in {touch.access.source for touch in self.touches(name)} & found.keys():
                found[source] = (*found[source], name)
        return found

    def sources(self, name: str) -> list[str]:
        """The computations that one reads, without itself, in the order of declaration."""
        read = {touch.access.source for touch in self.touches(name)} - {name}
        return [each for each in self.algorithm.computations if each in read]

    def reads_of(self, reader: str, source: str) -> list[LinearRead]:
        """The reads of a source by a computation."""
        return [touch for touch in self.touches(reader) if touch.access.source == source]

    def is_only_written(self, name: str) -> bool:
        """Whether nothing reads a result, nor its array under another name: it may be stored past the caches."""
        storages = self.function.program.storages
        buffer = storages[name].buffer
        shared = any(each.buffer == buffer for other, each in storages.items() if other != name)
        return name in self.algorithm.outputs and not self.readers[name] and not shared

    def is_recurrent(self, name: str) -> bool:
        """Whether a computation reads values of its own."""
        return bool(self.reads_of(name, name))

    def is_pointwise(self, reader: str, source: str) -> bool:
        """Whether a computation reads a source only at its own iterators, all of them, in order."""
        own = tuple(Iter(name).key() for name in self.computation(reader).iterators)
        return all(tuple(i.key() for i in read.access.indices) == own for read in self.reads_of(reader, source))

    def has_first_storage(self, name: str) -> bool:
        """Whether a computation is stored as it was declared: the user has not chosen where."""
        program = self.function.program
        first = program.history[0].storages
        return name in first and program.storages[name] is first[name]

    def operations(self, name: str) -> int:
        return operations(self.computation(name))

    def work(
        self,
        name: str,
        vector: str | None,
        lanes: int = 1,
        *,
        moved: float = 1.0,
        stores: float = 1.0,
        chain: float = 0.0,
    ) -> ValueWork:
        """The work of a value or term of a computation in a loop over `vector`.

        `moved` is the share of its values that come from memory, and `stores` how often a term loads or stores its sum.
        """
        declared, touched = self.computation(name), self.touches(name)
        accesses = sum(read_cost(touch, vector) if vector else 1.0 for touch in touched)
        if vector is not None:
            stores *= result_cost(declared, vector)
        inner = vector or next(reversed(declared.point_iterators), "")
        large = [touch for touch in touched if len(touch.access.indices) >= len(declared.iterators)]
        apart = {touch.access.source: read_cost(touch, inner) >= APART for touch in large}
        if not declared.is_reduction:
            apart[name] = result_cost(declared, inner) >= APART
        size = sum(LINE if far else declared.dtype.bytes for far in apart.values())
        added = 1 if declared.is_reduction else 0
        return ValueWork(self.operations(name) + added, accesses + stores, moved * size, lanes, chain)

    def lanes(self, name: str) -> int:
        """The lanes of a vector of a computation's values: a power of two, also for values of several components."""
        fitting = min(self.cpu.lanes(self.computation(name).dtype.bytes), MOST_LANES)
        return 1 << (fitting.bit_length() - 1)


def _is_as_declared(first: Program, statement: Statement, joined: bool) -> bool:
    """Whether the loops of a statement are those of the first program, which others may have `joined`."""
    before = first.statements.get(statement.name, statement)
    return before is statement or (joined and before.coords.plain_is_equal(statement.coords))


class Fresh:
    """New iterators for commands on a function: names that neither it nor an earlier one has."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self._given: set[str] = set()

    def __call__(self, name: str) -> Iter:
        found = unused_iterator(self._function, name, self._given)
        self._given.add(found.name)
        return found

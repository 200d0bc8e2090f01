"""The judge of schedules: runs the executions of a program one by one, and sees which value is where.

It shares nothing with the proof but the definition of a program. Contents of places are names of values, or partial
results: the multiset of the terms that are in them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.oracle.judges.events import Event, Execution, Misplaced, Place, linear, loads_first, parted
from tests.oracle.judges.plain import Point, integers, points
from tests.oracle.judges.values import Named, Values
from tiramisu_py.algorithm.types import TupleType
from tiramisu_py.program.loops import Combine
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role

#: A partial result of a reduction: the value it is for, and its terms: in order if that is locked, or sorted.
Partial = tuple[Named, tuple[Point, ...]]
Content = Named | Partial


@dataclass(frozen=True)
class Failure:
    """One thing that goes wrong, of one of the kinds of refusal."""

    kind: str
    text: str


def judge(
    program: Program, params: Mapping[str, int], tries: int = 0, seed: int = 0, given: Values | None = None
) -> list[Failure]:
    """Everything that goes wrong at these parameters; `tries` more runs in orders that concurrent loops allow.

    `given` are the values where arrays decide which there are.
    """
    values = Values(program.algorithm, params) if given is None else given
    faults = values.faults()
    if faults:
        return [Failure(kind, "the algorithm itself") for kind in sorted(faults)]
    execution = Execution(program, params, values)
    try:
        events = execution.events()
        exits = _exits(execution)
    except Misplaced as error:
        return [Failure("reach", str(error))]
    found = [*_outside(execution, events, exits), *_races(execution, events), *_calls(execution, events)]
    choice = random.Random(seed)
    for order in [None] + [choice] * tries:
        found += Run(execution, exits).failures(linear(events, order))
    return found


def kinds(failures: Iterable[Failure]) -> frozenset[str]:
    """The kinds of some failures."""
    return frozenset(failure.kind for failure in failures)


def _exits(execution: Execution) -> list[tuple[Place, Named]]:
    """What the caller reads in the end, and where."""
    outputs = execution.program.algorithm.outputs
    return [
        (execution.outside_any_loop(name, index), (name, index))
        for name in outputs
        for index in sorted(execution.values.exist[name])
    ]


def _outside(execution: Execution, events: Sequence[Event], exits: Sequence[tuple[Place, Named]]) -> list[Failure]:
    """Accesses outside buffers, and reads of values that do not exist."""
    found = []
    for event in events:
        for place, value in (*event.reads, (event.target, event.value)):
            if not execution.inside(place):
                found.append(Failure("bounds", f"{event} touches {place}, outside its buffer"))
            if not execution.values.has(value):
                found.append(Failure("bounds", f"{event} names {value}, which does not exist"))
    return found + [
        Failure("bounds", f"the output {value} is kept at {place}, outside its buffer")
        for place, value in exits
        if not execution.inside(place)
    ]


def _races(execution: Execution, events: Sequence[Event]) -> list[Failure]:
    """Conflicting accesses that nothing orders; updates of one reduction may conflict under a `combine`."""
    computations = execution.program.algorithm.computations
    locked = {name for name, computation in computations.items() if computation.ordered}
    several = {name for name, computation in computations.items() if isinstance(computation.dtype, TupleType)}
    touched: dict[Place, list[tuple[Event, bool]]] = {}
    for event in events:
        for place in {place for place, _ in event.reads}:
            touched.setdefault(place, []).append((event, False))
        touched.setdefault(event.target, []).append((event, True))
    found = []
    for place, accesses in touched.items():
        for position, (a, writes) in enumerate(accesses):
            for b, too in accesses[:position]:
                if a.call is not None and a.call == b.call:
                    continue  # see _calls
                if writes != too and loads_first(*((b, a) if writes else (a, b))):
                    continue
                if a is not b and (writes or too) and _race(a, b, writes and too and a.value[0] not in locked):
                    found.append(Failure("race", f"nothing orders {b} and {a}, which meet at {place}"))
                elif a is not b and writes and too and a.value[0] in several and _is_atomic(a, b):
                    found.append(Failure("reduction", f"{b} and {a} combine several values at once at {place}"))
    return found


def _calls(execution: Execution, events: Sequence[Event]) -> list[Failure]:
    """Calls over whole arrays: each computes all its values, to elements of their own that it does not read.

    What it updates in place it reads where it stores.
    """
    found, calls = list[Failure](), dict[object, list[Event]]()
    for event in events:
        if event.call is not None:
            calls.setdefault(event.call, []).append(event)
    for together in calls.values():
        first = together[0]
        written = execution.program.algorithm.computations[first.value[0]].written
        count = len(written.each) if written is not None else 0
        whole = {value for value in execution.values.exist[first.value[0]] if value[:count] == first.value[1][:count]}
        if {event.value[1] for event in together} != whole:
            found.append(Failure("bounds", f"{first} is a part of a call, which computes {len(whole)} values"))
        targets = [event.target for event in together]
        read = {place for event in together for place, (source, _) in event.reads if source != first.updated}
        if len(set(targets)) < len(targets) or read & set(targets):
            found.append(Failure("race", f"the call of {first} stores to one element twice, or to one that it reads"))
        old = {place for event in together for place, (source, _) in event.reads if source == first.updated}
        if first.updated and old != set(targets):
            found.append(Failure("reach", f"the call of {first} stores elsewhere than it reads what it updates"))
    return found


def _is_atomic(a: Event, b: Event) -> bool:
    """Whether the loop that makes two events concurrent updates atomically."""
    _, loop = parted(a, b)
    return loop is not None and getattr(loop.tag, "combine", None) is Combine.ATOMIC


def _race(a: Event, b: Event, may_combine: bool) -> bool:
    ordered, loop = parted(a, b)
    if ordered:
        return False
    combined = loop is not None and loop.tag is not None and getattr(loop.tag, "combine", None) is not None
    return not (combined and may_combine and a.role is b.role is Role.UPDATE and a.value == b.value)


@dataclass
class Run:
    """One run of the events in a given order."""

    execution: Execution
    exits: Sequence[tuple[Place, Named]]
    held: dict[Place, Content] = field(default_factory=dict)
    ever: dict[Place, set[Content]] = field(default_factory=dict)
    found: list[Failure] = field(default_factory=list)

    def failures(self, order: Sequence[Event]) -> list[Failure]:
        """Enter, run the events, leave."""
        before = self._enter()
        for together in _together(order):
            for event in together:
                for place, value in event.reads:
                    self._check(place, value, str(event))
                if event.call is None:
                    self._write(event.target, self._stored(event))
            for event in together if together[0].call is not None else ():
                self._write(event.target, self._stored(event))
        for place, value in self.exits:
            self._check(place, value, "the caller")
        outputs = {place for place, _ in self.exits}
        for place, content in before.items():
            if self.held[place] != content and place not in outputs:
                self.found.append(Failure("overwritten", f"the caller's {place} has been changed"))
        return self.found

    def _enter(self) -> dict[Place, Content]:
        """Fill the caller's arrays: inputs with their values, others with something of the caller's own."""
        program, values = self.execution.program, self.execution.values
        for buffer in program.buffers.values():
            if buffer.argument:
                for element in _box(integers(buffer.extents, self.execution.params)):
                    self._write((buffer.name, (), element), (f"the caller's {buffer.name}", element))
        for source in program.algorithm.inputs.values():
            if source.scalar:
                continue
            for index in _box(values.shape(source)):
                self._write(self.execution.outside_any_loop(source.name, index), (source.name, index))
        return dict(self.held)

    def _write(self, place: Place, content: Content) -> None:
        self.held[place] = content
        self.ever.setdefault(place, set()).add(content)

    def _complete(self, value: Named) -> Content:
        """What a place holds when it holds the value."""
        computations = self.execution.program.algorithm.computations
        if value[0] in computations and computations[value[0]].is_reduction:
            return value, tuple(sorted(self.execution.values.terms.get(value, ())))
        return value

    def _is_equal(self, held: Content | None, wanted: Content) -> bool:
        """Whether a place holds what is wanted, or a copy of it, or both are copies of one value."""
        if held == wanted or held is None:
            return held == wanted
        names = [content for content in (held, wanted) if isinstance(content[0], str)]
        roots = {self.execution.values.root(name) for name in names}  # type: ignore[arg-type]
        return len(names) == 2 and len(roots) == 1

    def _check(self, place: Place, value: Named, reader: str) -> None:
        held, wanted = self.held.get(place), self._complete(value)
        if self._is_equal(held, wanted):
            return
        if held is not None and held[0] == value:
            kind = "reduction"
        elif wanted in self.ever.get(place, ()):
            kind = "overwritten"
        else:
            kind = "order"
        self.found.append(Failure(kind, f"{reader} wants {value} at {place}, which holds {held}"))

    def _stored(self, event: Event) -> Content:
        if event.role is Role.INIT:
            return event.value, ()
        if event.role is not Role.UPDATE:
            return self._complete(event.value)
        held = self.held.get(event.target)
        if held is None or held[0] != event.value:
            kind = "reduction" if held is None else "overwritten"
            self.found.append(Failure(kind, f"{event} wants a partial result at {event.target}, which holds {held}"))
            return event.value, (event.point,)
        terms = (*held[1], event.point)
        if self.execution.program.algorithm.computations[event.value[0]].ordered:
            if list(terms) != sorted(terms):
                self.found.append(Failure("reduction", f"{event} comes after {terms[-2]}, though the order is locked"))
            return event.value, terms
        return event.value, tuple(sorted(terms))


def _together(order: Sequence[Event]) -> Iterator[list[Event]]:
    """The events one by one, but those of a call over whole arrays together, where the first of them is."""
    calls: dict[object, list[Event]] = {}
    for event in order:
        calls.setdefault(event.call or event, []).append(event)
    yield from calls.values()


def _box(extents: Point) -> list[Point]:
    found: list[Point] = [()]
    for extent in extents:
        found = [(*index, i) for index in found for i in range(extent)]
    return found


def sizes(program: Program, most: int) -> list[dict[str, int]]:
    """All parameter values from 0 to `most` for which the function is defined."""
    names = program.algorithm.params
    context = program.context.params().from_params()
    choices = (dict(zip(names, choice, strict=True)) for choice in _box((most + 1,) * len(names)))
    return [params for params in choices if points(context, params)]

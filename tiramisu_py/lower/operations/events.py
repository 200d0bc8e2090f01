"""Waits: the events that operations record, and the waits for them.

If an operation completes one group of values, its event is indexed by the group; else, if one operation completes each
group, by the iteration of the host that issues the operation; otherwise there is one event for all operations, which
each of them records again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.from_isl import of_params
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.ir import Await, Block, Events, Node, Record
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.lower.operations.host_part import HostProgram
from tiramisu_py.lower.statements.index_set_splitting import DomainPiece
from tiramisu_py.lower.statements.loop_names import unique
from tiramisu_py.lower.statements.operation import LoweredOperation, Template
from tiramisu_py.lower.statements.templates import Wanted
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import FILES, Statement
from tiramisu_py.records import dataclass

#: An operation, its statements that are waited for, and for each of them the forms that distinguish groups.
Key = tuple[str, tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class Event:
    """The events of one operation: their index by the iteration of the host, and by the group to wait for."""

    name: str
    operation: str
    queue: tuple[int, int]
    recorded: isl.PwMultiAff
    awaited: isl.PwMultiAff
    corner: tuple[isl.PwAff, ...]
    extents: tuple[Expr, ...]

    def around(self, body: Node) -> Node:
        """The code inside the scope of the events."""
        return Events(self.name, self.extents, self.queue[0], body)

    def indices(self, function: isl.PwMultiAff, frame: isl.Space) -> list[isl.PwAff]:
        """The index of an event, from 0, as forms on a frame."""
        here = sets.identity(frame)
        forms = [sets.pulled(form, here) for form in sets.as_function(function)]
        return [form.sub(sets.at_any_point(low, frame)) for form, low in zip(forms, self.corner, strict=True)]


class Waits:
    """The events of a program."""

    def __init__(self, program: Program, host: HostProgram, taken: frozenset[str]) -> None:
        self.program = program
        self.host = host
        self.taken = set(taken)
        self.events: dict[Key, Event] = {}
        self.of_wait: dict[str, list[Event]] = {}
        for statement in program.statements.values():
            if statement.link.waits is not None:
                self.of_wait[statement.name] = list(self._events(statement))

    def _events(self, wait: Statement) -> Iterator[Event]:
        """The events of a wait, one for each operation that contains awaited statements."""
        assert wait.link.waits is not None
        groups: dict[str, list[Statement]] = {}
        for statement in self.program.awaited(wait):
            if self.program.queue_of(statement) is not None and not statement.instances.is_empty():
                groups.setdefault(self.host.operation[statement.name], []).append(statement)
        for operation, statements in groups.items():
            told = [sets.function(s.frame, None, self.program.told_apart(wait, s)) for s in statements]
            key = (operation, tuple(statement.name for statement in statements), tuple(map(str, told)))
            if key not in self.events:
                self.events[key] = self._event(operation, statements, told)
            yield self.events[key]

    def _event(self, operation: str, statements: Sequence[Statement], told: Sequence[isl.MultiAff]) -> Event:
        queue = self.program.queue_of(statements[0])
        assert queue is not None
        groups = self._groups(operation, statements, told)
        recorded, awaited = _index(groups)
        used = sets.graph_of(recorded).intersect_domain(groups.domain()).range()
        lows = [sets.smallest_coordinate(used, axis) for axis in range(sets.size(used))]
        highs = [sets.largest(used, axis) for axis in range(sets.size(used))]
        context = self.program.context
        extents = tuple(
            simplified(of_params(sets.extent_between(a, b), context)) for a, b in zip(lows, highs, strict=True)
        )
        name = unique(f"{operation}_done", self.taken)
        self.taken.add(name)
        return Event(name, operation, queue, recorded, awaited, tuple(lows), extents)

    def _groups(self, operation: str, statements: Sequence[Statement], told: Sequence[isl.MultiAff]) -> isl.Map:
        """``iteration of the host -> group`` of an operation."""
        depth = len(self.host.program.statements[operation].loops)
        parts = list[isl.Map]()
        for statement, group in zip(statements, told, strict=True):
            within = statement.instances.intersect_params(self.program.context)
            issued = sets.graph(statement.prefix(depth), within)
            parts.append(issued.reverse().apply_range(sets.graph(group)))
        return sets.union_of(parts).coalesce()

    # -- in code

    def recorded(self, operation: LoweredOperation) -> LoweredOperation:
        """An operation with the records of its events after it."""
        name = operation.piece.statement.name
        listed = [event for event in self.events.values() if event.operation == name]
        forms = list(operation.forms)
        nodes: list[Node] = [operation.template]
        for event in listed:
            indices = event.indices(event.recorded, operation.piece.frame)
            places = tuple(Wanted(len(forms) + i, 0) for i in range(len(indices)))
            forms += indices
            nodes.append(Record(event.name, places, *event.queue))
        return replace(operation, forms=tuple(forms), template=Block(tuple(nodes))) if listed else operation

    def awaits(self, wait: Statement) -> list[LoweredOperation]:
        """The code of a wait: it waits for the events of the groups that some operation completes."""
        assert wait.link.waits is not None
        found = []
        for number, event in enumerate(self.of_wait[wait.name]):
            domain = sets.named(event.awaited.domain(), sets.tuple_name(wait.frame))
            instances = wait.instances.intersect_params(self.program.context).intersect(domain)
            if instances.is_empty():
                continue
            name = f"{wait.name}#{number}"
            piece = DomainPiece(name, wait, sets.named(instances, name), wait.body)
            template = Template()
            places = template.places(event.indices(event.awaited, piece.frame))
            node = _await(event, places, wait)
            found.append(LoweredOperation(piece, tuple(template.forms), node))
        return found

    def around(self, body: Node) -> Node:
        """The code inside the scope of all events."""
        for event in reversed(self.events.values()):
            body = event.around(body)
        return body


def _await(event: Event, places: tuple[Expr, ...], wait: Statement) -> Await:
    """A wait for an event. The host waits in place of a sequence where files are one of the two: what is put on the
    sequence comes later.
    """
    assert wait.link.waits is not None
    device, stream = wait.link.waits.device, wait.link.waits.on
    if event.queue[0] == FILES or (stream is not None and device == FILES):
        device, stream = event.queue[0], None
    return Await(event.name, places, device, stream, wait.name)


def _index(groups: isl.Map) -> tuple[isl.PwMultiAff, isl.PwMultiAff]:
    """The index of an event by the iteration of the host, and by the group."""
    completed_by = groups.reverse()
    if groups.is_single_valued():
        return sets.piecewise(groups), sets.identity_on(groups.range())
    if completed_by.is_single_valued():
        return sets.identity_on(groups.domain()), sets.piecewise(completed_by)
    return sets.nothing_on(groups.domain()), sets.nothing_on(groups.range())

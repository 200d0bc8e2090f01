"""A plain judge of GPU programs at given sizes: a graph of events, reachability, and a run with a dictionary as memory.

It shares with the proof what is read and written (`MemoryAccesses`), and nothing of the order: that is worked out here
event by event from the time vectors.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Any

from tiramisu_py import sets
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.program.kernels import kernels
from tiramisu_py.program.loops import GpuThread
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.sets import smallest

Vector = tuple[int, ...]


@dataclass
class Event:
    """One instance of a statement: its operation, its block and thread, its sigma, and what it accesses."""

    statement: Statement
    host: Vector
    sigma: Vector
    block: Vector = ()
    thread: Vector = ()
    reads: list[tuple[str, Vector, Any]] = field(default_factory=list)
    writes: list[tuple[str, Vector, Any]] = field(default_factory=list)


class Judge:
    """One program at given sizes."""

    def __init__(self, program: Program, sizes: dict[str, int]) -> None:
        self.program = program
        self.sizes = {name: sizes[name] for name in program.algorithm.params}
        self.accesses = MemoryAccesses(program)
        self.nests = {s.name: nest for nest in kernels(program) for s in nest.statements}
        self.events = [e for s in program.statements.values() for e in self._events(s)]
        self.events.sort(key=lambda e: e.sigma)
        self._graph()

    # -- events

    def _events(self, statement: Statement) -> list[Event]:
        domain = statement.instances.intersect_params(self.program.context.params())
        found = {at: self._event(statement, at) for at in sets.points(sets.fixed(domain, self.sizes))}
        for access in self._accesses(statement):
            for at in sets.points(sets.fixed(access.domain, self.sizes)):
                event = found[self._value(access.instance, at)]
                entry = (access.home, self._value(access.place, at), (access.source, self._value(access.value, at)))
                (event.writes if access.is_write else event.reads).append(entry)
        return list(found.values())

    def _accesses(self, statement: Statement) -> list[MemoryAccess]:
        if not statement.stores:
            return []
        made = [
            self.accesses.write(statement),
            *(self.accesses.read(statement, s) for s in self.accesses.sources(statement)),
        ]
        return [access for access in made if access is not None]

    def _value(self, function: Any, at: Vector) -> Vector:
        return smallest.evaluated(function, at, self.sizes)

    def _event(self, statement: Statement, at: Vector) -> Event:
        time = list(self._value(self.program.times[statement.name], at))
        depth = self.program.host_depth(statement)
        host = tuple(time[: 2 * depth + 1])
        for level, loop in enumerate(statement.loops):
            if isinstance(self.program.loops[loop].tag, GpuThread):
                time[2 * level + 1] = 0
        event = Event(statement, host, tuple(time))
        nest = self.nests.get(statement.name)
        if nest is not None:
            event.block = self._value(nest.block_of(statement), at)
            event.thread = self._value(nest.thread_of(statement), at)
        return event

    # -- the order of operations

    def _graph(self) -> None:
        """Edges between what the host does, and the starts and ends of operations; then what is reachable."""
        edges: dict[Any, set[Any]] = defaultdict(set)
        acts = sorted({self._act(e): e for e in self.events}.items(), key=lambda item: item[0][0])
        line: list[Any] = ["entry"]
        last: dict[Any, Any] = {}
        gates: dict[Any, list[Any]] = defaultdict(list)
        issued: list[tuple[Any, Event]] = []
        for act, event in acts:
            statement, queue = event.statement, self.program.queue_of(event.statement)
            line.append(("host", act))
            if queue is not None:
                start, end = ("start", act), ("end", act)
                edges["host", act].add(start)
                edges[start].add(end)
                for before in [last[queue]] if queue in last else []:
                    edges[before].add(start)
                for gate in gates[queue]:
                    edges[gate].add(start)
                last[queue] = end
                issued += [(end, e) for e in self.events if self._act(e) == act]
                if statement.link.transfer is not None and not statement.link.transfer.asynchronous:
                    line.append(("blocked", act))
                    edges[end].add(("blocked", act))
            elif statement.link.waits is not None:
                self._wait(event, act, issued, edges, gates)
        line.append("exit")
        for one, two in pairwise(line):
            edges[one].add(two)
        self.edges = edges
        self.reachable: dict[Any, set[Any]] = {}

    def _act(self, event: Event) -> tuple[Vector, str]:
        nest = self.nests.get(event.statement.name)
        name = event.statement.name if nest is None else f"kernel {nest.first}"
        if event.statement.stores and self.program.queue_of(event.statement) is None:
            return (event.sigma, name)
        return (event.host, name)

    def _wait(self, event: Event, act: Any, issued: list[tuple[Any, Event]], edges: Any, gates: Any) -> None:
        waits = event.statement.link.waits
        assert waits is not None
        awaited = {s.name for s in self.program.awaited(event.statement)}
        wanted = tuple(v for v in event.reads)  # waits read nothing
        assert not wanted
        for end, other in issued:
            if other.statement.name not in awaited:
                continue
            value = other.sigma[1::2] if waits.by_loop else other.writes[0][2][1] if other.writes else ()
            if tuple(value[k] for k in waits.positions) == self._indices(event):
                if waits.on is None:
                    edges[end].add(("host", act))
                else:
                    gates[waits.device, waits.on].append(end)

    def _indices(self, event: Event) -> Vector:
        """The indices of a wait's instance: the instance whose time this is."""
        statement = event.statement
        for at in sets.points(sets.fixed(statement.instances, self.sizes)):
            if self._value(self.program.times[statement.name], at) == event.sigma:
                return at
        raise AssertionError(statement.name)

    def _reaches(self, one: Any, two: Any) -> bool:
        if one not in self.reachable:
            found, todo = set(), [one]
            while todo:
                for after in self.edges.get(todo.pop(), ()):
                    if after not in found:
                        found.add(after)
                        todo.append(after)
            self.reachable[one] = found
        return two in self.reachable[one]

    # -- verdicts

    def before(self, x: Event, y: Event) -> bool:
        """Whether x is certain to have happened before y."""
        if self._act(x) == self._act(y):
            return self._inside(x, y)
        one, two = self._act(x), self._act(y)
        end = ("end", one) if self.program.queue_of(x.statement) is not None else ("host", one)
        start = ("start", two) if self.program.queue_of(y.statement) is not None else ("host", two)
        return self._reaches(end, start)

    def _inside(self, x: Event, y: Event) -> bool:
        if x.block != y.block or not x.block:
            return False
        if x.thread == y.thread and not x.statement.link.deferred:
            return x.sigma < y.sigma
        bells = (e for e in self.events if e.statement.role is Role.BARRIER and e.block == x.block)
        passed = {e.sigma for e in bells if x.sigma < e.sigma < y.sigma}
        return len(passed) >= max(1, x.statement.link.deferred)

    def races(self) -> list[tuple[Event, Event]]:
        """Conflicting accesses with no order."""
        by_place: dict[Any, list[tuple[Event, bool]]] = defaultdict(list)
        for event in self.events:
            for home, place, _ in {*event.reads}:
                by_place[home, place].append((event, False))
            for home, place, _ in event.writes:
                by_place[home, place].append((event, True))
        found = []
        for accessing in by_place.values():
            for (x, xw), (y, yw) in combinations(accessing, 2):
                if (xw or yw) and x is not y and not self.before(x, y) and not self.before(y, x):
                    found.append((x, y))
        return found

    def unfinished(self) -> list[Event]:
        """Operations that the function's return does not wait for."""
        operations = [e for e in self.events if self.program.queue_of(e.statement) is not None]
        return [e for e in operations if not self._reaches(("end", self._act(e)), "exit")]

    def wrong_reads(self) -> list[Any]:
        """Reads that do not see their value, in the order of issue (chains of a reduction count as one value)."""
        memory: dict[Any, Any] = {}
        wrong = []
        entries = [t for h in self.accesses.homes() for t in self.accesses.writers(h) if t.actor.statement is None]
        exits = [t for h in self.accesses.homes() for t in self.accesses.readers(h) if t.actor.statement is None]
        for access in entries:
            memory |= {(access.home, place): named for place, named in self._callers(access)}
        for event in self.events:
            for home, place, named in event.reads:
                if memory.get((home, place)) != named:
                    wrong.append((event.statement.name, named))
            for home, place, named in event.writes:
                memory[home, place] = named
        for access in exits:
            wrong += [("exit", named) for p, named in self._callers(access) if memory.get((access.home, p)) != named]
        return wrong

    def _callers(self, access: MemoryAccess) -> list[tuple[Vector, Any]]:
        at = sets.points(sets.fixed(access.domain, self.sizes))
        return [(self._value(access.place, p), (access.source, self._value(access.value, p))) for p in at]

    def accepts(self) -> bool:
        """Whether the program is right at these sizes."""
        return not (self.races() or self.unfinished() or self.wrong_reads())

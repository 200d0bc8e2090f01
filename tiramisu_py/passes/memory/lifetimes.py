"""Lifetimes of arrays in a sequence of host statements: from the first use until nothing can use them any more.

The host's own statements are done when the next one begins. Kernels and copies are done later, and so are messages: a
stream runs what is put on it in order, an event that was recorded on it happens when all before is done, and who waits
for the event knows that. A clock says, for each stream, up to which statement it is known to be done.

    a before c  iff  each use of c knows that each use of a is done
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import field

from tiramisu_py.ir import Await, Complete, Copy, For, Launch, Node, Post, Record
from tiramisu_py.ir.rewriting import contents, expressions, names, names_in, walk
from tiramisu_py.program.loops import Parallel
from tiramisu_py.records import dataclass

#: What works beside the host: a stream of a device, or the messages of an array of requests.
Worker = tuple[str, int, int]
#: What starts operations that go on beside the host, or waits for some.
CONCURRENT = frozenset((Launch, Copy, Record, Await, Post, Complete))
#: The last statement of each worker that is known to be done.
Clock = dict[Worker, int]
#: An array, and who uses it; None is the host itself.
Use = tuple[str, Worker | None]


@dataclass
class Lifetime:
    """The statements from the `first` to the `last` one that use an array, by their positions.

    `users` are the workers that use it, each with its last statement; `known` is the clock that all uses have. The host
    knows that it is not used any more after statement `ended` (None: before the end of the sequence it never does).
    """

    first: int
    last: int
    users: Clock = field(default_factory=dict)
    known: Clock = field(default_factory=dict)
    ended: int | None = None

    def before(self, other: Lifetime) -> bool:
        """Whether each use of this array is done before the other one is used."""
        return self.last < other.first and _knows(other.known, self.users)

    def until(self, count: int) -> int:
        """The last of `count` statements at which it has to exist."""
        return count - 1 if self.ended is None else self.ended


def lifetimes(statements: Sequence[Node], arrays: Collection[str]) -> dict[str, Lifetime]:
    """The lifetimes of those `arrays` that the statements use."""
    found: dict[str, Lifetime] = {}
    clocks = _Clocks(statements)
    for position, statement in enumerate(statements):
        for name, worker in _uses(statement):
            if name in arrays:
                known = clocks.of(worker)
                life = found.setdefault(name, Lifetime(position, position, known=known))
                life.last = position
                life.known = {each: min(at, known[each]) for each, at in life.known.items() if each in known}
                if worker is not None:
                    life.users[worker] = position
        clocks.after(position, statement)
    for life in found.values():
        later = range(life.last, len(statements))
        life.ended = next((at for at in later if _knows(clocks.history[at], life.users)), None)
    return found


def _knows(clock: Clock, users: Clock) -> bool:
    return all(clock.get(worker, -1) >= at for worker, at in users.items())


def _joined(*clocks: Clock) -> Clock:
    return {worker: max(c.get(worker, -1) for c in clocks) for clock in clocks for worker in clock}


class _Clocks:
    """The operations that the host and each stream know to be done; `history` has the host's after each statement.

    Only waits that are statements of the sequence count: one inside of a loop or a guard may wait for something else.
    Requests are waited for by the last statement that waits for any of them; nothing runs beyond the end of a call.
    """

    def __init__(self, statements: Sequence[Node]) -> None:
        self.host: Clock = {}
        self.streams: dict[Worker, Clock] = {}
        self.events: dict[tuple[str, str], Clock] = {}
        self.history: list[Clock] = []
        waits: dict[Worker, int] = {}
        lasting = set[Worker]()
        for position, statement in enumerate(statements):
            for inner in walk(statement) if is_concurrent(statement) else ():
                if isinstance(inner, Complete):
                    waits[_messages(inner.requests)] = position
                if isinstance(inner, Post) and inner.persistent and inner.request is not None:
                    lasting.add(_messages(inner.request.requests))
        self.waits = {worker: at for worker, at in waits.items() if worker not in lasting}

    def of(self, worker: Worker | None) -> Clock:
        """The operations that a worker knows to be done where it begins one."""
        return _joined(self.streams[worker], self.host) if worker in self.streams else dict(self.host)

    def after(self, position: int, statement: Node) -> None:
        """Take what a statement does into account."""
        if is_concurrent(statement):
            for inner in walk(statement):
                if isinstance(inner, Launch | Copy):
                    stream = _stream(inner)
                    self.streams[stream] = {**self.of(stream), stream: position}
                if isinstance(inner, Record):
                    self.events = {key: clock for key, clock in self.events.items() if key[0] != inner.event}
            match statement:
                case Copy(asynchronous=False):
                    self.host = _joined(self.host, self.streams[_stream(statement)])
                case Record():
                    self.events[_event(statement)] = self.of(_stream(statement))
                case Await(stream=None):
                    self.host = _joined(self.host, self.events.get(_event(statement), {}))
                case Await(stream=int(number)):
                    stream = ("stream", statement.device, number)
                    self.streams[stream] = _joined(self.of(stream), self.events.get(_event(statement), {}))
            self.host |= {worker: position for worker, at in self.waits.items() if at == position}
        self.history.append(dict(self.host))


def is_concurrent(statement: Node) -> bool:
    """Whether a statement starts operations that go on beside the host, or waits for some."""
    return bool(CONCURRENT & contents(statement))


def _stream(node: Launch | Copy | Record) -> Worker:
    return ("stream", node.device, node.stream)


def _messages(requests: str) -> Worker:
    return (requests, 0, 0)


def _event(node: Record | Await) -> tuple[str, str]:
    return node.event, ", ".join(map(str, node.indices))


def _uses(statement: Node) -> Iterator[Use]:
    """The names that a statement uses, and by whom."""
    if not is_concurrent(statement):
        yield from ((name, None) for name in (*names(statement), *_in_loops(statement)))
        return
    for inner in walk(statement):
        yield from ((name, None) for e in expressions(inner) for name in names_in(e))
        worker: Worker | None = None
        if isinstance(inner, Launch | Copy):
            worker = _stream(inner)
        elif isinstance(inner, Post) and inner.request is not None:
            worker = _messages(inner.request.requests)
        yield from ((name, worker) for name in _own_names(inner))
    yield from ((name, None) for name in _in_loops(statement))


def _own_names(node: Node) -> Iterator[str]:
    for part in (*node.roles.names, *node.roles.reads):
        held = getattr(node, part)
        yield from (held,) if isinstance(held, str) else held


def _in_loops(statement: Node) -> Iterator[str]:
    """The arrays that loops mention: those that they combine, and the one by which their shares are cut."""
    for inner in walk(statement):
        if isinstance(inner, For):
            yield from (buffer for private in inner.reductions for buffer in private.buffers)
            if isinstance(inner.tag, Parallel) and inner.tag.balance is not None:
                yield inner.tag.balance

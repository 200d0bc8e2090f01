"""A certificate: what an algorithm reads, what a program executes, when and where, and the evidence of its proof.

It is plain data: dictionaries, lists, numbers, and sets and relations as isl writes them; `docs/certificates.md` has
the format. Programs on cores, GPUs and ranks are covered; what is not covered is refused by name.

The messages of a certificate: the halves of exchanges, which send meets which receive, and a ranking of waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, reduce
from typing import Any

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declare.soundness import ValueSets, box
from tiramisu_py.algorithm.spellings import fresh_name
from tiramisu_py.dependence.access import ENTRY, MemoryAccess
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import UnsupportedError
from tiramisu_py.program.initial import initial_program
from tiramisu_py.program.kernels import axis_name
from tiramisu_py.program.loops import GpuThread, LoopId, Parallel, Vector
from tiramisu_py.program.private_buffers import private_copies
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.told_ranks import told_ranks
from tiramisu_py.program.statement import FILES, Device, Role, Statement
from tiramisu_py.program.storage import Home, Memory, is_on_devices
from tiramisu_py.proof.certificates.coverage import check_covered, check_independent
from tiramisu_py.proof.certificates.evidence import Evidence
from tiramisu_py.proof.certificates.queued_operations import Operations
from tiramisu_py.proof.messages.exchanges import ExchangeHalves, exchanges
from tiramisu_py.proof.messages.halves import event_of, executed
from tiramisu_py.proof.messages.small_sizes import waits_for_peer
from tiramisu_py.proof.messages.wait_graph import Needs

FORMAT, VERSION = "tiramisu_py certificate", 3

#: The reads of a computation that each role has.
_PARTS = {Role.VALUE: "value", Role.INIT: "start", Role.UPDATE: "term"}


def certificate(program: Program, *, partial: bool = False) -> dict[str, Any]:
    """The certificate of a proven program. Raises `UnsupportedError` for what no certificate covers yet.

    `partial` writes what evidence there is, also where some read has none, as in a program that the proof refused:
    a checker rejects it.
    """
    return _Certificate(program, partial).document()


class _Certificate:
    def __init__(self, program: Program, partial: bool) -> None:
        self.program = program
        self.partial = partial
        self.values = ValueSets(program.algorithm)
        self.accesses = MemoryAccesses(program, self.values)
        self.flow = Flow(self.accesses)
        self.size = 1 + program.ranks.axes + max(state.time_size for state in program.history)
        self.operations = Operations(program, self.flow.happens, self.size)
        self.claims = Evidence(self.flow, self.operations)
        self.messages = ExchangedMessages(self.flow, self.operations)
        self._names: dict[tuple[str, int], str] = {}
        self._arrays: dict[Home, str] = {}

    def document(self) -> dict[str, Any]:
        program, algorithm = self.program, self.program.algorithm
        check_covered(program)
        actors = [self._statement(s) for s in program.acting]
        callers = [self._caller(each) for each in self._callers()]
        evidence = self._evidence()
        if not self.partial:
            check_independent(self.flow)
        return {
            "format": FORMAT,
            "version": VERSION,
            "function": algorithm.name,
            "parameters": str(program.context),
            "ranks": program.ranks.axes,
            "inputs": {name: str(self.values.domain(name)) for name, i in algorithm.inputs.items() if not i.scalar},
            "computations": self._computations(),
            "inlined": [name for name in algorithm.computations if not program.statements_of(name)],
            "outputs": list(algorithm.outputs),
            "statements": [*callers, *actors],
            "places": {self._array(home): self._places(home) for home in self.accesses.homes()},
            "barriers": list(self.operations.barriers()),
            "waits": list(self.operations.waits()),
            "evidence": evidence,
        }

    # -- the algorithm

    def _computations(self) -> dict[str, Any]:
        """The domain, the points and the reads of each computation."""
        declared = MemoryAccesses(initial_program(self.program.algorithm), self.values)
        found: dict[str, Any] = {}
        for name, c in self.program.algorithm.computations.items():
            points = sets.named(c.points, name) if c.is_reduction else None
            found[name] = {
                "domain": str(self.values.domain(name)),
                "points": None if points is None else str(points),
                "value": None if points is None else str(_value_of_point(points, len(c.iterators))),
                "reads": {},
            }
        for statement in declared.program.storing:
            reads = {source: _at_points(declared, statement, source) for source in declared.sources(statement)}
            kept = {source: str(relation) for source, relation in reads.items() if relation is not None}
            found[statement.source]["reads"][_PARTS[statement.role]] = kept
        return found

    # -- the program

    def _statement(self, statement: Statement) -> dict[str, Any]:
        program, accesses = self.program, self.accesses
        store = accesses.write(statement) if statement.stores else None
        if store is None and statement.stores:
            raise UnsupportedError(f"{statement.handle} stores outside of the loops that its buffer is for")
        tags = [program.loops[loop].tag for loop in statement.loops]
        concurrent = [k for k, tag in enumerate(tags) if isinstance(tag, Parallel | Vector)]
        merging = [k for k, tag in enumerate(tags) if getattr(tag, "combine", None) is not None]
        threads = {k: axis_name(tag.axis) for k, tag in enumerate(tags) if isinstance(tag, GpuThread)}
        reads = [r for source in accesses.sources(statement) if (r := accesses.read(statement, source)) is not None]
        return {
            "name": statement.name,
            "role": "receive" if statement.receives else statement.role.value,
            "source": statement.source,
            "instances": str(statement.instances.intersect_params(program.context.params())),
            "point": str(sets.graph(sets.renamed(statement.point, statement.source))),
            "time": str(self.operations.time(program, statement.name)),
            "thread": str(self.operations.thread(statement)),
            "queue": self.operations.queue(statement),
            "devices": self._devices(statement),
            "concurrent": self.operations.unordered(statement) or [self.operations.coordinate(k) for k in concurrent],
            "combined": [threads.get(k, self.operations.coordinate(k)) for k in merging],
            "private": [self.operations.coordinate(statement.depth(loop)) for loop in self._copying(statement)],
            "message": self.messages.half(statement),
            "store": None if store is None else str(self._elements(store)),
            "reads": {read.source: str(self._pairs(read).apply_range(self._elements(read))) for read in reads},
        }

    def _copying(self, statement: Statement) -> list[LoopId]:
        """The loops that keep copies of the partial results of a statement until their end."""
        return [loop for loop, _, updates in private_copies(self.program) if statement in updates]

    def _devices(self, statement: Statement) -> list[Device]:
        """Where it loads and where it stores; of half a message, the only one of these."""
        loads, stores = self.program.loads_at(statement), self.program.stores_at(statement)
        if statement.link.message is not None:
            return [stores if statement.receives else loads] * 2
        return [loads, stores]

    def _callers(self) -> Iterator[MemoryAccess]:
        """The values that the caller gives and finds."""
        for home in self.accesses.homes():
            for access in (*self.accesses.writers(home), *self.accesses.readers(home)):
                if access.actor.statement is None:
                    yield access

    def _caller(self, access: MemoryAccess) -> dict[str, Any]:
        name, moment = self._name(access), 0 if access.actor.moment == ENTRY else 2
        point = sets.domain_named(access.values, name)
        time = sets.graph(self._moment(point.domain(), moment))
        place = sets.domain_named(self._elements(access), name)
        reads = {} if access.is_write else {access.source: str(self._pairs(access).apply_range(self._elements(access)))}
        return {
            "name": name,
            "role": "entry" if access.is_write else "exit",
            "source": access.source,
            "instances": str(point.domain()),
            "point": str(point),
            "time": str(time),
            "thread": str(self.operations.no_thread(point.domain().get_space())),
            "queue": None,
            "devices": [access.home.device] * 2,
            "concurrent": [],
            "combined": [],
            "private": [],
            "message": None,
            "store": str(place) if access.is_write else None,
            "reads": reads,
        }

    def _moment(self, domain: isl.Set, moment: int) -> isl.MultiAff:
        """The time of what the caller gives or finds on a rank."""
        space, ranks = domain.get_space(), self.program.ranks.axes
        numbers = [sets.constant(space, n) for n in (moment, *[0] * (self.size - 1 - ranks))]
        return sets.function(space, None, [*sets.variables(space)[:ranks], *numbers])

    def _name(self, access: MemoryAccess) -> str:
        """The name of an actor: of a statement, or what the caller gives or finds."""
        if access.actor.statement is not None:
            return access.actor.name
        key = (access.source, access.actor.moment)
        if key not in self._names:
            taken = {*self.program.statements, *self._names.values()}
            end = "given" if access.actor.moment == ENTRY else "found"
            self._names[key] = fresh_name(f"{access.source}_{end}", taken)
        return self._names[key]

    def _reader(self, read: MemoryAccess) -> str:
        """Who reads, in words."""
        statement = read.actor.statement
        return "the caller" if statement is None else statement.handle

    def _places(self, home: Home) -> dict[str, Any]:
        """The elements of a buffer, where they are, and for what there are copies of it."""
        buffer, ranks = self.program.buffers[home.buffer], self.program.ranks.axes
        frame = sets.sized_frame(self.program.algorithm.param_space, None, len(buffer.extents))
        elements, registers = box(frame, buffer.extents), buffer.memory is Memory.REGISTER
        loops = self.operations.coordinate(len(buffer.scope)) - 1 if buffer.scope else ranks
        return {
            "elements": str(elements.set_tuple_name(self._array(home))),
            "held": self._held(home, elements),
            "device": home.device if is_on_devices(buffer) else FILES if buffer.memory is Memory.FILE else "any",
            "loops": loops,
            "thread": registers,
        }

    def _held(self, home: Home, elements: isl.Set) -> str | None:
        """The places that are in the arrays that callers pass on each rank, where these are parts of the array."""
        buffer = self.program.buffers[home.buffer]
        found = [
            s.source for s in self.program.storages_in(buffer.name) if s.source in self.program.ranks.distributions
        ]
        if not (buffer.argument and home.device == buffer.device and found):
            return None
        return str(told_ranks(self.program).places(found[0], elements, self._array(home)))

    def _elements(self, access: MemoryAccess) -> isl.Map:
        """The element of the buffer that an access uses, in the copy of its executor."""
        return sets.graph(sets.renamed(access.element, self._array(access.home)), access.domain)

    def _array(self, home: Home) -> str:
        """The name of an instance of a buffer, as isl can read it."""
        if home not in self._arrays:
            name = home.buffer if home.device is None else f"{home.buffer}_gpu{home.device}"
            self._arrays[home] = fresh_name(name, {*self.program.buffers, *self._arrays.values()} - {home.buffer})
        return self._arrays[home]

    def _pairs(self, read: MemoryAccess) -> isl.Map:
        """``[instance -> value] -> read``: a read as the pair that it is."""
        if read.actor.statement is None:
            found = sets.domain_named(read.values, self._name(read)).domain_map()
            return sets.range_named(found, sets.tuple_name(read.domain))
        relation = self.accesses.read_relation(read.actor.statement, read.source)
        assert relation is not None
        return sets.range_named(relation.wrap().flatten_map(), sets.tuple_name(read.domain))

    # -- the evidence

    def _evidence(self) -> dict[str, Any]:
        flow: dict[str, dict[str, dict[str, str]]] = {}
        terms: dict[str, dict[str, dict[str, isl.Map]]] = {}
        references: dict[str, dict[str, str]] = {}
        for home in self.accesses.homes():
            for read in self.accesses.readers(home):
                reader = self._name(read)
                pairs, found = self._pairs(read), flow.setdefault(reader, {}).setdefault(read.source, {})
                missing = read.domain
                for write, served in self.claims.serving(read):
                    missing = missing.subtract(served.domain())
                    renamed = sets.range_named(served, self._name(write))
                    found[self._name(write)] = str(pairs.apply_range(renamed).coalesce())
                    if write.role is Role.INIT:
                        added = terms.setdefault(reader, {}).setdefault(read.source, {})
                        for update, updated in self.claims.terms(read, write, served):
                            claim = self._by_term(update, pairs.apply_range(updated))
                            own = update.actor.name
                            added[own] = claim.union(added[own]) if own in added else claim
                if not (self.partial or missing.is_empty()):
                    raise UnsupportedError(
                        f"no certificate covers this yet: {self._reader(read)} finds a copy in place of {read.source}"
                    )
            reference = self.claims.reference(home)
            if reference is not None:
                references[self._array(home)] = {
                    name: str(self.operations.time(reference, name)) for name in reference.statements
                }
        claims: dict[str, Any] = {"references": references, "flow": flow, "terms": _as_text(terms)}
        claims["ends"] = list(self.operations.ends())
        if self.operations.halves:
            claims |= {"meetings": self.messages.meetings(), "ranking": self.messages.ranking()}
        return claims

    def _by_term(self, update: MemoryAccess, added: isl.Map) -> isl.Map:
        """``[read -> term] -> update``, from ``read -> update``."""
        statement = update.actor.statement
        assert statement is not None
        term = sets.graph(sets.renamed(statement.point, statement.source), statement.instances)
        one = added.domain_map().range_product(added.range_map().apply_range(term))
        return one.reverse().apply_range(added.range_map())


def _as_text(found: Any) -> Any:
    """Nested dictionaries of relations, with the relations as text."""
    return {k: _as_text(v) for k, v in found.items()} if isinstance(found, dict) else str(found)


def _at_points(accesses: MemoryAccesses, statement: Statement, source: str) -> isl.Map | None:
    """``point -> value of source`` that a statement of the program as declared reads at this point."""
    relation = accesses.read_relation(statement, source)
    if relation is None:
        return None
    return sets.graph(sets.renamed(statement.point, statement.source)).reverse().apply_range(relation)


def _value_of_point(points: isl.Set, count: int) -> isl.Map:
    """``point -> value``: the first `count` indices of a point."""
    variables = sets.variables(points.get_space())[:count]
    return sets.graph(sets.function(points.get_space(), sets.tuple_name(points), variables))


class ExchangedMessages:
    """The messages of a program, with times of issue as in its `Operations`."""

    def __init__(self, flow: Flow, operations: Operations) -> None:
        self.flow = flow
        self.operations = operations
        self.name = flow.accesses.program.algorithm.name

    def half(self, statement: Statement) -> dict[str, Any] | None:
        """The fields of a half: its exchange, the rank at the other end, and whether it may wait for it."""
        message = statement.link.message
        if message is None:
            return None
        peer = sets.graph(sets.renamed(message.peer, None), executed(self.flow.accesses.program, statement))
        return {"exchange": message.exchange, "peer": str(peer), "waits": waits_for_peer(statement)}

    def meetings(self) -> dict[str, str]:
        """``send -> receive`` of each exchange."""
        return {exchange.name: self._meeting(exchange) for exchange in exchanges(self.flow)}

    def _meeting(self, exchange: ExchangeHalves) -> str:
        if len(exchange.sends) != 1 or len(exchange.receives) != 1:
            what = f"exchange {exchange.name} of {self.name} has several sends or receives"
            raise UnsupportedError(f"no certificate covers this yet: {what}")
        return str((exchange.meeting or exchange.same_value)[exchange.sends[0].name, exchange.receives[0].name])

    def ranking(self) -> str:
        """``time -> vector`` that grows in the order of each rank, and nobody waits for what is later in it.

        It is the time itself, or what isl's scheduler has found.
        """
        if any(exchange.meeting is None for exchange in exchanges(self.flow)) or self._needs.is_local():
            return str(self._local())
        ranking = self._needs.ranking
        if ranking is None:
            what = f"that no rank of {self.name} waits for ever was found by running it"
            raise UnsupportedError(f"no certificate covers this yet: {what}")
        times = [isl.UnionMap.from_map(self._time_of_event(each)) for each in self._needs.acting]
        ranked = reduce(isl.UnionMap.union, times).apply_range(ranking)
        return str(isl.Map.from_union_map(ranked.coalesce()))

    def _time_of_event(self, statement: Statement) -> isl.Map:
        """``time -> event`` of a half or a wait."""
        program = self.flow.accesses.program
        event = sets.graph(event_of(program, statement), executed(program, statement))
        return self.operations.issued(statement).reverse().apply_range(event)

    @cached_property
    def _needs(self) -> Needs:
        return Needs(self.flow.accesses.program, exchanges(self.flow))

    def _local(self) -> isl.Map:
        space = sets.sized_frame(self.flow.accesses.program.algorithm.param_space, None, self.operations.size)
        return sets.graph(sets.function(space, None, sets.variables(space)[self.operations.ranks :]))

"""Reads and writes of a program, each with the value that it names and the place that it accesses.

A read is a *pair*, the instance and the value it reads, flattened into one tuple: several accesses of one source are
one relation, and over-approximated indices (a window, ``x[col[p]]``) need no special case.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.algorithm.declare.soundness import ValueSets
from tiramisu_py.algorithm.domains.reads import Reading
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.dependence.access import ENTRY, EXIT, Actor, MemoryAccess
from tiramisu_py.program.kernels import KernelNest, kernels
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.spread import local_time
from tiramisu_py.program.ranks.told_ranks import told_ranks
from tiramisu_py.program.statement import Device, Role, Statement
from tiramisu_py.program.storage import Home, Storage, home_of

#: Accesses by the objects that they are made from: the states of one program share most of them.
Memory = dict[tuple[int, str, int, int, Device, tuple[int, ...]], "MemoryAccess | None"]


class MemoryAccesses:
    """All reads and writes of a program, computed on demand, buffer by buffer.

    Programs that share statements may share `memory`, as long as all of them are alive.
    """

    def __init__(self, program: Program, values: ValueSets | None = None, memory: Memory | None = None) -> None:
        self.program = program
        self.values = values or ValueSets(program.algorithm)
        self._memory: Memory = {} if memory is None else memory
        self._of_buffer: dict[str, dict[Home, tuple[list[MemoryAccess], list[MemoryAccess]]]] = {}

    # -- by instance of a buffer

    def homes(self) -> list[Home]:
        """The instances of buffers that anyone accesses, by buffer."""
        return [home for buffer in self.program.buffers for home in self.homes_of(buffer)]

    def homes_of(self, buffer: str) -> list[Home]:
        """The instances of one buffer that anyone accesses."""
        return list(self._accessing(buffer))

    def writers(self, home: Home) -> list[MemoryAccess]:
        """Who writes an instance of a buffer: the caller at entry, then statements in their order of declaration."""
        return self._at(home)[0]

    def readers(self, home: Home) -> list[MemoryAccess]:
        """Who reads an instance of a buffer: statements in their order of declaration, then the caller at exit."""
        return self._at(home)[1]

    def of_buffer(self, buffer: str) -> list[MemoryAccess]:
        """The writes, then the reads, of any instance of a buffer."""
        found = self._accessing(buffer).values()
        return [w for writes, _ in found for w in writes] + [r for _, reads in found for r in reads]

    def _at(self, home: Home) -> tuple[list[MemoryAccess], list[MemoryAccess]]:
        return self._accessing(home.buffer).get(home, ([], []))

    def _accessing(self, buffer: str) -> dict[Home, tuple[list[MemoryAccess], list[MemoryAccess]]]:
        if buffer not in self._of_buffer:
            mine = [s.name for s in self.program.storages_in(buffer)]
            accesses = [self._entry(name) for name in mine]
            for name in mine:
                accesses += [self.write(statement) for statement in self._stored.get(name, ())]
            for name in mine:
                accesses += [self.read(statement, source) for statement, source in self._loaded.get(name, ())]
            accesses += [self._exit(name) for name in mine]
            found: dict[Home, tuple[list[MemoryAccess], list[MemoryAccess]]] = {}
            for access in accesses:
                if access is not None:
                    writes, reads = found.setdefault(access.home, ([], []))
                    (writes if access.is_write else reads).append(access)
            self._of_buffer[buffer] = found
        return self._of_buffer[buffer]

    @cached_property
    def _stored(self) -> dict[str, list[Statement]]:
        """The statements that store to each storage."""
        found: dict[str, list[Statement]] = {}
        for statement in self.program.storing:
            found.setdefault(statement.memory.target, []).append(statement)
        return found

    @cached_property
    def _loaded(self) -> dict[str, list[tuple[Statement, str]]]:
        """The statements that load from each storage, each with the source that it loads."""
        found: dict[str, list[tuple[Statement, str]]] = {}
        for statement in self.program.acting:
            for source in self.sources(statement):
                storage = self.program.storage_for(statement, source)
                found.setdefault(storage.name, []).append((statement, source))
        return found

    # -- statements

    def write(self, statement: Statement) -> MemoryAccess | None:
        """A statement's write; None if the statement is outside the scope of the buffer."""
        storage = self.program.storages[statement.memory.target]
        return self._remembered(statement, "", storage, lambda: self._write(statement))

    def read(self, statement: Statement, source: str) -> MemoryAccess | None:
        """A statement's read of one source; None if it reads none of it, or is outside the scope of the buffer."""
        storage = self.program.storage_for(statement, source)
        return self._remembered(statement, source, storage, lambda: self._read(statement, source))

    def _write(self, statement: Statement) -> MemoryAccess | None:
        storage = self.program.storages[statement.memory.target]
        value = sets.renamed(self.program.value_of(statement), statement.source)
        domain = statement.instances.intersect_params(self.program.context.params())
        return self._access(statement, storage, True, domain, sets.identity(statement.frame), value, statement.coords)

    def _read(self, statement: Statement, source: str) -> MemoryAccess | None:
        relation = self.read_relation(statement, source)
        return None if relation is None else self._of_pairs(statement, source, relation)

    def _remembered(
        self, statement: Statement, source: str, storage: Storage, make: Callable[[], MemoryAccess | None]
    ) -> MemoryAccess | None:
        device = self.program.loads_at(statement, source) if source else self.program.stores_at(statement)
        ranks = self.program.rank_depths(statement)
        key = (id(statement), source, id(storage), id(self.program.buffers[storage.buffer]), device, ranks)
        if key not in self._memory:
            self._memory[key] = make()
        return self._memory[key]

    def read_relation(self, statement: Statement, source: str) -> isl.Map | None:
        """``instance -> value of source that it reads``; None if it reads none."""
        instances = statement.instances.intersect_params(self.program.context.params())
        point = sets.graph(sets.renamed(statement.point, statement.source), instances)
        if statement.moves and source == statement.source:
            return None if statement.receives else point
        parts = list[isl.Map]()
        for expression in statement.guards if statement.moves else (statement.body, *statement.guards):
            for reading in self._readings(statement, expression):
                if reading.access.source == source:
                    parts.append(reading.relation)
        found = sets.united(parts)
        return None if found is None else point.apply_range(found).coalesce()

    def accumulator(self, statement: Statement) -> MemoryAccess | None:
        """An update's read of the partial result, at its own place."""
        write = self.write(statement)
        if write is None:
            return None
        return replace(write, is_write=False)

    def _readings(self, statement: Statement, expression: Expr) -> list[Reading]:
        computation = self.program.algorithm.source(statement.source)
        assert isinstance(computation, Computation)
        guards = statement.guards if expression is statement.body else ()
        return self.values.readings(expression, computation, sets.out_size(sets.graph(statement.point)), guards)

    def sources(self, statement: Statement) -> list[str]:
        """The sources that a statement reads, without scalar inputs."""
        read = [] if statement.receives else self.values.sources(statement.body)
        read = [statement.source] if statement.moves and not statement.receives else read
        return list(dict.fromkeys([*read, *(source for e in statement.guards for source in self.values.sources(e))]))

    def _of_pairs(self, statement: Statement, source: str, relation: isl.Map) -> MemoryAccess | None:
        domain = sets.flat_pairs(relation, f"{statement.name} reads {source}")
        space, count = domain.get_space(), sets.in_size(relation)
        variables = sets.variables(space)
        instance = sets.function(space, statement.name, variables[:count])
        value = sets.function(space, source, variables[count:])
        coords = sets.renamed(sets.compose(instance, statement.coords), None)
        storage = self.program.storage_for(statement, source)
        return self._access(statement, storage, False, domain, instance, value, coords)

    def _access(
        self,
        statement: Statement,
        storage: Storage,
        is_write: bool,
        domain: isl.Set,
        instance: isl.MultiAff,
        value: isl.MultiAff,
        coords: isl.MultiAff,
    ) -> MemoryAccess | None:
        buffer = self.program.buffers[storage.buffer]
        if not self.program.in_scope(statement, storage):
            return None
        device = self.program.stores_at(statement) if is_write else self.program.loads_at(statement, storage.source)
        frame = sets.prefix(coords, len(self.program.frame(storage)))
        index = sets.compose(sets.joined(frame, value), storage.index)
        memory = self.program.stores_on(statement) if is_write else self.program.rank_of(statement)
        rank = sets.compose(instance, memory)
        owner = sets.joined(rank, sets.prefix(frame, len(buffer.scope)))
        if buffer.per_thread:
            owner = sets.joined(owner, sets.compose(instance, self._kernel_of(statement).thread_of(statement)))
        place = sets.renamed(sets.joined(owner, index), str(home_of(buffer, device)))
        actor = Actor(statement.name, statement)
        source, count = sets.out_name(sets.graph(value)), self.program.ranks.axes
        when = sets.compose(instance, local_time(self.program, statement)) if count else coords
        return MemoryAccess(
            actor, source, storage, buffer, is_write, domain, instance, value, place, coords, device, count, when
        )

    @cached_property
    def partials(self) -> frozenset[str]:
        """The storages of partial results that are combined with others: what they hold has no name."""
        return frozenset(s.memory.target for s in self.program.storing if s.role is Role.COMBINE)

    def _kernel_of(self, statement: Statement) -> KernelNest:
        return next(nest for nest in self._kernels if any(s.name == statement.name for s in nest.statements))

    @cached_property
    def _kernels(self) -> tuple[KernelNest, ...]:
        return kernels(self.program)

    # -- the caller

    def _entry(self, name: str) -> MemoryAccess | None:
        storage = self.program.storages[name]
        if storage.name != storage.source or storage.source not in self.program.algorithm.inputs:
            return None
        return self._callers(storage, True, ENTRY)

    def _exit(self, name: str) -> MemoryAccess | None:
        storage = self.program.storages[name]
        if storage.name != storage.source:
            return None
        if storage.source in self.program.algorithm.outputs:
            return self._callers(storage, False, EXIT)
        protected = storage.source in self.program.algorithm.inputs and not self._holds_output(storage.buffer)
        return self._callers(storage, False, EXIT) if protected else None

    def _holds_output(self, buffer: str) -> bool:
        outputs = self.program.algorithm.outputs
        return any(s.name in outputs for s in self.program.storages_in(buffer))

    def _callers(self, storage: Storage, is_write: bool, moment: int) -> MemoryAccess | None:
        buffer = self.program.buffers[storage.buffer]
        if buffer.scope:
            return None
        domain = self._held(storage.source)
        same, count = sets.identity(domain.get_space()), self.program.ranks.axes
        value = sets.function(domain.get_space(), storage.source, sets.outputs(same)[count:])
        element = sets.compose(value, storage.index)
        place = sets.renamed(sets.joined(sets.prefix(same, count), element), str(home_of(buffer, buffer.device)))
        actor, device = Actor("the caller", None, moment), buffer.device
        return MemoryAccess(
            actor, storage.source, storage, buffer, is_write, domain, same, value, place, device=device, ranks=count
        )

    def _held(self, source: str) -> isl.Set:
        """The values of a source in the caller's arrays, prefixed by the coordinates of each rank that holds them."""
        values = self.values.domain(source).intersect_params(self.program.context.params())
        return told_ranks(self.program).held(source, values)

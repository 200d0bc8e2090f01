"""Programs over the part of the caller's arrays that one rank has.

If a rank touches more of an array than its block (such as a halo), or a message stores in an input, the array is kept
elsewhere while the function runs: in local memory that covers both, filled from the caller's array at entry, and copied
back at exit, by threads if the program has any. A rank whose own statements stay inside its block, and store in no
input, uses the caller's array directly.

This is done after the proof: a program has one array for all ranks, with the indices of the whole array. Distributions
say that a rank's array holds only its own block, from index 0, and here this becomes memory. It changes no value.
Elements only move within a rank, between the caller's array and the local one, which replaces it in all statements of
the rank. The entry copies, before all other statements, every element that the rank holds and that some statement reads
or may leave as it is; the exit copies, after all other statements, every element that the rank holds and that some
statement stores. An element that a rank does not hold is not in the caller's array; the proof has shown that it is
computed or received there before it is read. `tests/lower/ranks/test_blocks.py` checks the theorem again for one rank
with these copies, and finds it broken if a copy is left out or too small.
"""

from __future__ import annotations

from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import value_names
from tiramisu_py.algorithm.expressions import Access, Iter
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.lower.ranks.held_parts import Holding, holding_of, is_callers
from tiramisu_py.lower.ranks.local_boxes import accessed_of, elements_of
from tiramisu_py.lower.ranks.one_rank import Ranked
from tiramisu_py.lower.statements.loop_names import unique
from tiramisu_py.program.loops import Loop, Parallel
from tiramisu_py.program.machine.distribution import Distribution
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import MemoryUse, Role, Statement
from tiramisu_py.program.storage import Buffer, Storage


class Arrays:
    """This rank's parts of the caller's arrays."""

    def __init__(self, ranked: Ranked, accesses: MemoryAccesses) -> None:
        self.accesses = accesses
        self.whole = ranked
        self.holdings: dict[str, Holding] = {}
        for buffer in ranked.program.buffers.values():
            holding = holding_of(ranked, buffer) if buffer.argument else None
            if holding is None and self._is_changed_input(buffer):
                holding = Holding(ranked, buffer, Distribution(()))  # all of it
            if holding is not None:
                self.holdings[buffer.name] = holding

    def elements(self, buffer: Buffer) -> isl.Set | None:
        """The elements of a distributed array that this rank holds; None for other arrays."""
        holding = self.holdings.get(buffer.name)
        return None if holding is None else holding.elements()

    def in_blocks(self) -> Ranked:
        """The program over this rank's blocks, with indices from 0, and over local arrays if blocks do not suffice."""
        program = self.whole.program
        for name, holding in self.holdings.items():
            accessed = accessed_of(self.accesses, program.buffers[name])
            outside = accessed is not None and not accessed.is_subset(holding.elements())
            if outside or self._is_changed_input(program.buffers[name]):
                program = _Elsewhere(program, holding, self.accesses).program()
            program = _in_block(program, holding)
        begins = {name: value for holding in self.holdings.values() for name, value in holding.definitions().items()}
        return replace(self.whole, program=program, definitions={**self.whole.definitions, **begins})

    def _is_changed_input(self, buffer: Buffer) -> bool:
        """Whether a statement stores in a caller's array that must not change: a message of what is there already."""
        program = self.whole.program
        if not buffer.argument or buffer.device is not None or outputs_in(program, buffer):
            return False
        accesses = self.accesses.of_buffer(buffer.name)
        return any(a.is_write and a.actor.statement is not None and a.device is None for a in accesses)


def outputs_in(program: Program, buffer: Buffer) -> list[Storage]:
    """The storages of outputs in a caller's array."""
    callers = (s for s in program.storages_in(buffer.name) if is_callers(program, s))
    return [s for s in callers if s.source in program.algorithm.outputs]


def _in_block(program: Program, holding: Holding) -> Program:
    local = sets.function(holding.space, holding.buffer.name, holding.local())
    for storage in program.storages_in(holding.buffer.name):
        program = program.with_storage(replace(storage, index=sets.compose(storage.index, local)))
    return program.with_buffer(replace(holding.buffer, extents=holding.extents()))


class _Elsewhere:
    """An array of the caller that a local array replaces while the function runs."""

    def __init__(self, program: Program, holding: Holding, accesses: MemoryAccesses) -> None:
        self.before = program
        self.holding = holding
        self.accesses = accesses
        self.array = holding.buffer
        if self.array.device is not None:
            raise CompilerDefect(
                f"{self.array.name} is passed in GPU memory, but a rank uses elements outside its block: "
                "pass it in host memory"
            )
        taken = {*program.buffers, *program.storages, *program.statements, *program.algorithm.params}
        self.name = unique(f"{self.array.name}_local", taken)
        self.storages = {s.name: unique(f"{s.name}_local", taken) for s in program.storages_in(self.array.name)}
        self.ranks = self._ranks()

    def _ranks(self) -> isl.Set:
        """The ranks that touch elements outside their block; all ranks, if a statement runs on both kinds of ranks."""
        accessed, everyone = accessed_of(self.accesses, self.array), self.before.context
        assert accessed is not None
        coordinates = self.holding.ranked.coordinates
        short = accessed.subtract(self.holding.elements()).params().intersect(everyone)
        for access in () if outputs_in(self.before, self.array) else self.accesses.of_buffer(self.array.name):
            if access.is_write and access.actor.statement is not None and access.device == self.array.device:
                short = short.union(access.domain.params().intersect(everyone))  # an input must not change
        short = sets.without_params(short, [name for name in sets.params(short) if name not in coordinates])
        short = short.align_params(everyone.get_space()).intersect(everyone).coalesce()
        for access in self.accesses.of_buffer(self.array.name):
            on = None if access.actor.statement is None else access.domain.params().intersect(everyone)
            if on is not None and not on.is_subset(short) and not on.is_disjoint(short):
                return everyone
        return short

    def program(self) -> Program:
        """The program whose statements use the local array, with copies before and after them."""
        program = self.before.with_buffer(replace(self.array, name=self.name, argument=False, device=None))
        for old, new in self.storages.items():
            storage = program.storages[old]
            index = sets.renamed(storage.index, self.name)
            program = program.with_storage(replace(storage, name=new, buffer=self.name, index=index, chosen=True))
        changed = {s.name: self._moved(s) for s in self.before.statements.values()}
        entry, leave = self._entry(), self._exit()
        first = {} if entry is None else {entry.name: entry}
        last = {} if leave is None else {leave.name: leave}
        threads = Parallel() if any(isinstance(loop.tag, Parallel) for loop in program.loops.values()) else None
        for statement in (*first.values(), *last.values()):
            dims = zip(statement.loops, statement.dims, strict=True)
            several = len(statement.loops) > 1
            tags = [threads if several and depth == 0 else None for depth in range(len(statement.loops))]
            program = program.with_loop(*(Loop(n, name, tag) for (n, name), tag in zip(dims, tags, strict=True)))
        return program.with_(statements={**first, **changed, **last})

    def _moved(self, statement: Statement) -> Statement:
        if not statement.acts or statement.instances.params().intersect(self.before.context).is_disjoint(self.ranks):
            return statement
        sources = dict(statement.memory.sources)
        for source in self.accesses.sources(statement):
            used = self.before.storage_for(statement, source).name
            if used in self.storages:
                sources[source] = self.storages[used]
        return replace(
            statement,
            memory=replace(
                statement.memory,
                sources=sources,
                target=self.storages.get(statement.memory.target, statement.memory.target),
            ),
        )

    def _entry(self) -> Statement | None:
        """The copy of the elements that the rank holds and reads (or may leave as they are)."""
        read = accessed_of(self.accesses, self.array, {False: True})
        callers = [s for s in self.before.storages_in(self.array.name) if is_callers(self.before, s)]
        inputs = [s for s in callers if s.source in self.before.algorithm.inputs]
        needed = sets.united([*([read] if inputs and read is not None else []), *self._left()])
        storage = (inputs or callers)[0]
        return self._copy("entry", needed, storage.source, storage.name, self.storages[storage.name], 0)

    def _exit(self) -> Statement | None:
        """The copy of the elements that the rank holds and stores."""
        outputs = outputs_in(self.before, self.array)
        if not outputs:
            return None
        storage, stored = outputs[0], sets.united(self._stored())
        return self._copy(
            "exit", stored, storage.source, self.storages[storage.name], storage.name, len(self.array.extents)
        )

    def _left(self) -> list[isl.Set]:
        """The elements that statements may leave as they are: stored under guards, and by no statement without."""
        certain = sets.united(self._stored(guarded=False))
        maybe = self._stored(guarded=True)
        return maybe if certain is None else [each.subtract(certain) for each in maybe]

    def _stored(self, guarded: bool | None = None) -> list[isl.Set]:
        """The elements that each statement stores; of statements with guards alone, or of those without."""
        found = []
        for access in self.accesses.of_buffer(self.array.name):
            statement = access.actor.statement
            if access.is_write and statement is not None and guarded in (None, bool(statement.guards)):
                found.append(elements_of(self.before, access))
        return found

    def _copy(
        self, suffix: str, elements: isl.Set | None, source: str, of: str, to: str, extra: int
    ) -> Statement | None:
        """A statement that copies elements from one storage to another."""
        if elements is None:
            return None
        elements = elements.intersect(self.holding.elements()).intersect_params(self.ranks).coalesce()
        if elements.is_empty():
            return None
        program = self.before
        name = unique(f"{self.array.name}_{suffix}", {*program.statements, *program.storages, *program.buffers})
        declared = program.algorithm.source(source)
        dims = value_names(declared)
        instances = sets.with_dims(sets.named(elements, name), dims)
        space = instances.get_space()
        here = sets.from_frame(sets.function(self.holding.space, None, self.holding.scanned()), space)
        first = program.next_loop() + extra
        return Statement(
            name=name,
            source=source,
            role=Role.COPY,
            dims=tuple(dims),
            instances=instances,
            point=sets.renamed(sets.identity(space), source),
            loops=tuple(range(first, first + len(dims))),
            coords=here,
            body=Access(source, tuple(map(Iter, dims)), declared.dtype),
            memory=MemoryUse(target=to, sources={source: of}),
        )

"""Reductions over ranks: each rank collects its terms in a partial result, and the ranks combine these.

::

    for q in 0 .. 4:                          start:    partial[v] = identity
      for i in 0 .. n: total[v] += x[q, i]    on rank0: for i in 0 .. n: partial[v] += x[rank0, i]
                                         -->  combine:  partial[v] = sum of partial[v] over the ranks
                                              end:      total[v] += partial[v]

Start, combination and end do not depend on the rank, so every rank along the axis reaches the combination equally
often, even a rank without a term. A reduction that ranks cannot combine is left as it is: the proof says why
(`proof.reductions.rank_reductions`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation, value_names
from tiramisu_py.algorithm.expressions import Access, Expr, Iter
from tiramisu_py.algorithm.spellings import fresh_name, indexed
from tiramisu_py.dependence.footprints import local_index
from tiramisu_py.dependence.value_boxes import box_around
from tiramisu_py.errors import CommandError
from tiramisu_py.program.fresh_names import RESERVED, names_in
from tiramisu_py.program.loops import Bulk, Combine, Loop, LoopId, Rank, Tag
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.combined_reductions import combined_loops, groups, inner_ranks, outside_of, uncombinable
from tiramisu_py.program.statement import Combination, MemoryUse, Role, Statement
from tiramisu_py.program.storage import Buffer, Storage


def with_rank_reductions(program: Program) -> Program:
    """The program with the partial results of its reductions over ranks; unchanged if there are none."""
    for group in groups(program):
        if not uncombinable(program, group):
            try:
                program = _Reduction(program, group).program()
            except CommandError:  # no box around the partial results: the proof misses terms on each rank
                continue
    return program


class _Reduction:
    """The partial results of some updates."""

    def __init__(self, program: Program, updates: tuple[Statement, ...]) -> None:
        self.before = program
        self.updates = updates
        self.first = updates[0]
        combined = combined_loops(program, self.first)
        self.axes = tuple(sorted(combined))
        self.depth = self.first.depth(next(iter(combined.values())))
        self.outside = self.first.loops[: self.depth]
        self.source = cast(Computation, program.algorithm.source(self.first.source))
        self.partial = partial_name(program, self.first.source)
        self.scope = outside_of(program, self.first)
        self.inner = inner_ranks(program, self.first)

    def program(self) -> Program:
        """The program with these partial results."""
        values = self._values()
        around = box_around(values, self.depth + len(self.inner))
        program = self._stored(around)
        program, first = self._with_loops(program, None)
        program, at = self._with_loops(program, Bulk())
        program, last = self._with_loops(program, None)
        assert self.source.op is not None
        identity = self.source.op.identity(self.source.dtype)
        mine = {self.source.name: self.partial}
        start = self._statement("start", Role.INIT, around, first, identity, self.partial)
        combination = Combination(self.first.name, self.axes, tree=self._in_tree())
        met = self._statement("combine", Role.COMBINE, around, at, self._loaded(), self.partial)
        end = self._statement("end", Role.MERGE, values, last, self._loaded(), self.first.memory.target)
        start = replace(start, link=replace(start.link, combination=combination))
        met, end = (
            replace(s, memory=replace(s.memory, sources=mine), link=replace(s.link, combination=combination))
            for s in (met, end)
        )
        program = one_after_another(program, self.outside, self.first, start, met, end)
        return program.with_statement(
            *(replace(update, memory=replace(update.memory, target=self.partial)) for update in self.updates)
        )

    def _in_tree(self) -> bool:
        """Whether the ranks combine in a fixed order: one of the loops asks for it."""
        tags = (self.before.loops[loop].tag for loop in combined_loops(self.before, self.first).values())
        return any(isinstance(tag, Rank) and tag.combine is Combine.TREE for tag in tags)

    def _values(self) -> isl.Set:
        """``[loops outside, other axes of the grid, value]`` of all terms, on any rank of a line."""
        parts = list[isl.Set]()
        for update in self.updates:
            forms = sets.outputs(update.coords)
            inner = inner_ranks(self.before, update)
            kept = [*forms[: self.depth], *(forms[update.depth(loop)] for loop in inner)]
            whole = [*kept, *sets.outputs(self.before.value_of(update))]
            instances = update.instances.intersect_params(self.before.context)
            parts.append(instances.apply(sets.graph(sets.function(update.frame, None, whole))))
        return sets.union_of(parts).coalesce()

    def _stored(self, around: isl.Set) -> Program:
        """The program with a buffer for one partial result per value, in each iteration of the loops of its scope."""
        variables = sets.variables(around.get_space())
        scope = sets.function(around.get_space(), None, variables[: len(self.scope)])
        value = sets.function(around.get_space(), None, variables[self.depth + len(self.inner) :])
        footprint = sets.graph(scope, around).reverse().apply_range(sets.graph(value)).coalesce()
        extents, index = local_index(self.before, footprint, len(self.scope), self.source.name)
        dtype = self.before.buffers[self.before.storages[self.first.memory.target].buffer].dtype
        words = f"the rank's partial result of {self.source.name}"
        program = self.before.with_buffer(Buffer(self.partial, extents, dtype, scope=self.scope))
        return program.with_storage(Storage(self.partial, self.source.name, self.partial, index, words=words))

    def _with_loops(self, program: Program, tag: Tag | None) -> tuple[Program, tuple[LoopId, ...]]:
        """Loops for start, combination or end: those outside, new ones over other axes of the grid and over values."""
        first = program.next_loop()
        old = [self.before.loops[loop] for loop in self.inner]
        loops = [Loop(first + k, loop.name, Rank(cast(Rank, loop.tag).axis)) for k, loop in enumerate(old)]
        loops += [Loop(first + len(old) + k, name, tag) for k, name in enumerate(value_names(self.source))]
        return program.with_loop(*loops), (*self.outside, *(loop.id for loop in loops))

    def _loaded(self) -> Expr:
        return Access(self.source.name, tuple(map(Iter, value_names(self.source))), self.source.dtype)

    def _statement(
        self, what: str, role: Role, values: isl.Set, loops: tuple[LoopId, ...], body: Expr, target: str
    ) -> Statement:
        """Start, combination or end: for each value, in each iteration of the loops outside."""
        name = f"@{what} {self.first.name}"
        instances = sets.named(values, name)
        frame = instances.get_space()
        variables = sets.variables(frame)
        point = variables[self.depth + len(self.inner) :]
        return Statement(
            name=name,
            source=self.source.name,
            role=role,
            dims=tuple(f"i{k}" for k in range(len(variables))),
            instances=instances,
            point=sets.function(frame, self.source.name, point),
            loops=loops,
            coords=sets.function(frame, None, variables),
            body=body,
            memory=MemoryUse(target=target),
        )


def one_after_another(
    program: Program, around: tuple[LoopId, ...], terms: Statement, start: Statement, met: Statement, end: Statement
) -> Program:
    """The program with start, terms, combination and end in this order, in each iteration of the loops around.

    `terms` is a statement of those that collect them. What is beside them keeps its place, before the start or after
    the end.
    """
    depth, level = len(around), around[-1] if around else None
    beside = [s.name for s in program.statements.values() if s.loops[:depth] == around]
    here = program.positions[terms.name][depth]
    at = {name: program.positions[name][depth] for name in beside}
    program = program.with_statement_before(start, [name for name, place in at.items() if place == here])
    program = program.with_statement(met, end)
    orders = [Order(met.name, end.name, level)]
    for name, place in at.items():
        if place < here:
            orders.append(Order(name, start.name, level))
        elif place > here:
            orders.append(Order(end.name, name, level))
        else:
            orders += [Order(start.name, name, level), Order(name, met.name, level)]
    return program.with_(orders=(*program.orders, *orders))


def partial_name(program: Program, what: str) -> str:
    """A name for the array of partial results that is unused in the program and in C."""
    taken = {*RESERVED, program.algorithm.name, *names_in(program), *program.storages}
    return fresh_name(f"{what}_partial", taken, indexed)

"""Reductions over ranks: each rank collects its terms in a partial result, which all of them combine.

::

    for q in 0 .. 4:                          start:    partial[v] = identity
      for i in 0 .. n: total[v] += x[q, i]    on rank0: for i in 0 .. n: partial[v] += x[rank0, i]
                                         -->  all:      partial[v] = sum of partial[v] over the ranks
                                              end:      total[v] += partial[v]

Start, combination and end have nothing to do with which rank this is, so that every rank along the axis comes to the
combination as often as the others, also one that has no term.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import cast

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation, Operator, value_names
from tiramisu_py.algorithm.domains.from_isl import of_params
from tiramisu_py.algorithm.expressions import Access, Expr, Iter
from tiramisu_py.dependence.value_boxes import box_around
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import AllReduce
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.lower.operations.host import pieces_of_operation
from tiramisu_py.lower.ranks.one_rank import free_name, widened
from tiramisu_py.lower.statements.body import Body, body_of
from tiramisu_py.lower.statements.index_set_splitting import pieces_of
from tiramisu_py.lower.statements.loop_names import RESERVED, unique
from tiramisu_py.lower.statements.operation import Operation
from tiramisu_py.program.loops import Loop, LoopId, Rank
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.reductions import combined_loops, groups, inner_ranks, not_combined, outside_of
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Buffer, Storage


@dataclass(frozen=True, eq=False)
class Collected:
    """A program in which ranks keep partial results: for each combination of these, what it combines, by name.

    `definitions` are the values of parameters at which partial results begin.
    """

    program: Program
    combinations: dict[str, AllReduce] = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=dict)
    definitions: dict[str, Expr] = field(default_factory=dict)

    @property
    def names(self) -> frozenset[str]:
        """The statements that start, combine and end partial results."""
        return frozenset((*self.combinations, *self.comments))

    def bodies(self, program: Program, statement: Statement) -> list[Body | Operation]:
        """What the executions of one of these statements do."""
        node = self.combinations.get(statement.name)
        if node is not None:
            here = replace(statement, instances=statement.instances.intersect_params(program.context))
            return [Operation(piece, (), node, frozenset({node.array})) for piece in pieces_of_operation(here)]
        comment = self.comments[statement.name]
        return [replace(body_of(program, piece), comment=comment) for piece in pieces_of(program, statement)]


def collected(program: Program) -> Collected:
    """The program with the partial results of its reductions over ranks; itself where there are none."""
    done = Collected(program)
    for group in groups(program):
        done = _Reduction(done.program, group).added_to(done)
    return done


@dataclass(frozen=True, eq=False)
class _Side:
    """One dimension of the partial results: its first index, a form of the loops outside, and its extent."""

    origin: isl.Aff
    extent: object


class _Reduction:
    """The partial results of some updates."""

    def __init__(self, program: Program, updates: tuple[Statement, ...]) -> None:
        self.program = program
        self.updates = updates
        self.first = updates[0]
        combined = combined_loops(program, self.first)
        self.axes = tuple(sorted(combined))
        self.loop: LoopId = next(iter(combined.values()))
        self.depth = self.first.depth(self.loop)
        self.outside = self.first.loops[: self.depth]
        self.source = cast(Computation, program.algorithm.source(self.first.source))
        taken = {*RESERVED, program.algorithm.name, *program.algorithm.params, *program.algorithm.inputs}
        taken.update((*program.algorithm.computations, *program.buffers, *program.storages, *program.statements))
        self.partial = unique(f"{self.first.source}_partial", taken)
        self.definitions: dict[str, Expr] = {}
        self.scope = outside_of(program, self.first)
        self.inner = inner_ranks(program, self.first)
        self._check()

    def _check(self) -> None:
        """That the proof has seen to what is relied on here."""
        on_gpu = any(self.program.kernel_of(update) is not None for update in self.updates)
        if not_combined(self.source) or on_gpu or (self.scope and self.inner):
            raise CompilerDefect(f"ranks cannot combine the partial results of {self.first.handle}")

    # -- what is combined

    def _values(self) -> isl.Set:
        """``[loops outside, other axes of the grid, value]`` of all terms, on any rank of a line."""
        found: isl.Set | None = None
        for update in self.updates:
            forms = sets.outputs(update.coords)
            inner = inner_ranks(self.program, update)
            kept = [*forms[: self.depth], *(forms[update.depth(loop)] for loop in inner)]
            whole = [*kept, *sets.outputs(self.program.value_of(update))]
            instances = update.instances.intersect_params(self.program.context)
            part = instances.apply(sets.graph(sets.function(update.frame, None, whole)))
            found = part if found is None else found.union(part)
        assert found is not None
        return found.coalesce()

    def added_to(self, done: Collected) -> Collected:
        """The program with these partial results."""
        values = self._values()
        kept = self.depth + len(self.inner)
        around = box_around(values, kept)
        program = self._stored(self.program, around, kept)
        program, first = self._with_loops(program, sets.size(values) - self.depth)
        program, at = self._with_loops(program, len(self.inner))
        program, last = self._with_loops(program, sets.size(values) - self.depth)
        start = self._statement("start", Role.INIT, around, first, self.partial)
        end = self._statement("end", Role.UPDATE, values, last, self.first.target)
        met = self._meeting(values, kept, at)
        program = self._ordered(program, start, met, end)
        for update in self.updates:
            program = program.with_statement(replace(update, target=self.partial))
        node = AllReduce(self.partial, program.buffers[self.partial].dtype, self._operator, self.axes, self.first.name)
        along = "the ranks" if len(self.axes) > 1 else f"the ranks along axis {self.axes[0]}"
        comments = {start.name: f"partial results of {self.first.source}, on each rank",
                    end.name: f"those of all {along.removeprefix('the ')} go into {self.first.source}"}  # fmt: skip
        both = {**done.definitions, **self.definitions}
        return Collected(program, {**done.combinations, met.name: node}, {**done.comments, **comments}, both)

    @property
    def _operator(self) -> Operator:
        assert self.source.op is not None
        return self.source.op

    def _with_loops(self, program: Program, count: int) -> tuple[Program, tuple[LoopId, ...]]:
        """Loops for start, combination or end: those outside, and new ones over other axes of the grid, and values."""
        first = program.next_loop()
        loops = []
        names = value_names(self.source)
        for k in range(count):
            old = self.program.loops[self.inner[k]] if k < len(self.inner) else None
            name = names[k - len(self.inner)] if old is None else old.name
            loops.append(Loop(first + k, name, None if old is None else Rank(cast(Rank, old.tag).axis)))
        return program.with_loop(*loops), (*self.outside, *(loop.id for loop in loops))

    # -- where it is kept

    def _stored(self, program: Program, around: isl.Set, kept: int) -> Program:
        count = sets.size(around) - kept
        sides = [self._side(around, kept, axis) for axis in range(count)]
        program = widened(program, list(self.definitions))
        space = sets.sized_frame(program.algorithm.param_space, None, len(self.scope) + count)
        forms = sets.variables(space)
        outside = sets.function(space, None, forms[: len(self.scope)])
        moved = []
        for form, side in zip(forms[len(self.scope) :], sides, strict=True):
            begin = sets.function(side.origin.get_domain_space(), None, [side.origin])
            begin = sets.with_params_of(begin, program.algorithm.param_space)
            (origin,) = sets.outputs(sets.compose(outside, begin))
            moved.append(form.sub(origin))
        dtype = program.buffers[program.storages[self.first.target].buffer].dtype
        extents = tuple(arithmetic.number(e) if isinstance(e, int) else e for e in (side.extent for side in sides))
        buffer = Buffer(self.partial, extents, dtype, scope=self.scope)  # type: ignore[arg-type]
        index = sets.function(space, self.partial, moved)
        return program.with_buffer(buffer).with_storage(Storage(self.partial, self.first.source, self.partial, index))

    def _side(self, around: isl.Set, kept: int, axis: int) -> _Side:
        """The extent of one dimension: constant where it can be, in each iteration of the loops of the scope."""
        variables = sets.variables(around.get_space())
        scope = sets.function(around.get_space(), None, variables[: len(self.scope)])
        line = sets.function(around.get_space(), None, [variables[kept + axis]])
        relation = sets.graph(scope, around).reverse().apply_range(sets.graph(line)).coalesce()
        found = []
        for low in sets.lower_bounds(relation):
            span = sets.span_above(relation, low)
            if span is not None and span[0] >= 0 and not sets.has_floors(low):
                found.append((span[1] - span[0] + 1, sets.plus(low, span[0])))
        if found:
            extent, origin = min(found, key=lambda pair: pair[0])
            return _Side(origin, extent)
        points, context = relation.range().coalesce(), self.program.context
        least, most = sets.smallest_coordinate(points, 0).coalesce(), sets.largest(points, 0).coalesce()
        count = sets.zero_elsewhere(sets.extent_between(least, most)).gist(context).coalesce()
        return _Side(self._begin(least, axis, scope.get_space().range()), simplified(of_params(count, context)))

    def _begin(self, least: isl.PwAff, axis: int, outside: isl.Space) -> isl.Aff:
        """A first index of parameters alone: a parameter that the function defines, where it is no affine form."""
        single = sets.least(least.gist(least.domain()))
        if single is not None:
            return sets.on_frame(sets.on_params(single), outside)
        context = self.program.context
        begins = sets.zero_elsewhere(least).gist(context).coalesce()
        name = free_name(self.program, f"{self.partial}_from{axis}", self.definitions)
        self.definitions[name] = simplified(of_params(begins, context))
        return sets.parameter(sets.with_params(outside, [*sets.params(outside), name]), name)

    # -- when it is started and combined

    def _statement(self, what: str, role: Role, values: isl.Set, loops: tuple[LoopId, ...], target: str) -> Statement:
        """Start or end: for each value, in each iteration of the loops outside."""
        name = f"@{what} {self.first.name}"
        instances = sets.named(values, name)
        frame = instances.get_space()
        variables = sets.variables(frame)
        point = variables[self.depth + len(self.inner) :]
        assert self.source.op is not None
        body = self.source.op.identity(self.source.dtype)
        sources: dict[str, str] = {}
        if role is Role.UPDATE:
            point += [sets.constant(frame, 0)] * len(self.source.over)
            sources = {self.source.name: self.partial}
            names = value_names(self.source)
            body = Access(self.source.name, tuple(map(Iter, names)), self.source.dtype)  # type: ignore[assignment]
        return Statement(
            name=name, source=self.source.name, role=role, dims=tuple(f"i{k}" for k in range(len(variables))),
            instances=instances, point=sets.function(frame, self.source.name, point), loops=loops,
            coords=sets.function(frame, None, variables), body=body, target=target, sources=sources,
        )  # fmt: skip

    def _meeting(self, values: isl.Set, kept: int, loops: tuple[LoopId, ...]) -> Statement:
        """The combination: once in each iteration of the loops outside in which some rank of the line has a term."""
        name = f"@combine {self.first.name}"
        instances = sets.named(sets.project_prefix(values, kept).coalesce(), name)
        identity = sets.identity(instances.get_space())
        return Statement(
            name=name, source=self.source.name, role=Role.BARRIER, dims=tuple(f"i{k}" for k in range(kept)),
            instances=instances, point=identity, loops=loops, coords=sets.renamed(identity, None),
            body=self.first.body, target=self.first.target,
        )  # fmt: skip

    def _ordered(self, program: Program, start: Statement, met: Statement, end: Statement) -> Program:
        """Start, the loop, the combination and the end one after the other, with nothing else in between."""
        level = self.outside[-1] if self.outside else None
        beside = [s for s in program.statements.values() if s.loops[: self.depth] == self.outside]
        here = program.positions[self.first.name][self.depth]
        at = {s.name: program.positions[s.name][self.depth] for s in beside}
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

"""The arrays of partial results of reductions over ranks, and the calls that combine them.

The completion has made the statements that start, combine and end partial results, and the proof has checked them. Here
they get the array that is emitted: a box of the values for which the ranks of a line have terms, of constant size if
possible. As in the array of the proof, each value has an element of its own, so that the other layout changes no
value. The combination, with an instance for each value in the program, becomes one call for the whole array.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import cast

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.algorithm.domains.from_isl import of_params
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import AllReduce
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.lower.operations.host_part import pieces_of_operation
from tiramisu_py.lower.ranks.one_rank import widened
from tiramisu_py.lower.statements.body import Body, body_of
from tiramisu_py.lower.statements.index_set_splitting import pieces_of
from tiramisu_py.lower.statements.operation import LoweredOperation
from tiramisu_py.program.fresh_names import free_parameter
from tiramisu_py.program.loops import Bulk
from tiramisu_py.program.program import Program
from tiramisu_py.program.ranks.combined_reductions import groups
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Buffer, Storage
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class CollectedParts:
    """A program in which ranks keep partial results: the calls that combine them, and comments, by statement name.

    `definitions` are the values of the parameters at which the arrays of partial results begin.
    """

    program: Program
    combinations: dict[str, AllReduce] = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=dict)
    definitions: dict[str, Expr] = field(default_factory=dict)

    @property
    def names(self) -> frozenset[str]:
        """The statements that start, combine and end partial results."""
        return frozenset((*self.combinations, *self.comments))

    def bodies(self, program: Program, statement: Statement) -> list[Body | LoweredOperation]:
        """The code of one of these statements."""
        node = self.combinations.get(statement.name)
        if node is not None:
            here = replace(statement, instances=statement.instances.intersect_params(program.context))
            return [LoweredOperation(piece, (), node, frozenset(node.arrays)) for piece in pieces_of_operation(here)]
        comment = self.comments[statement.name]
        return [replace(body_of(program, piece), comment=comment) for piece in pieces_of(program, statement)]


def collected(program: Program) -> CollectedParts:
    """The program with arrays for the partial results that ranks combine; unchanged if there are none."""
    done = CollectedParts(program)
    for updates in groups(program):
        raise CompilerDefect(f"ranks cannot combine the partial results of {updates[0].handle}")
    for statement in program.statements.values():
        if statement.calls_ranks:
            done = _Combined(done.program, statement).added_to(done)
    return done


@dataclass(frozen=True, eq=False)
class _Side:
    """One dimension of the partial results: its first index, a form of the loops outside, and its extent."""

    origin: isl.Aff
    extent: Expr


class _Combined:
    """One combination of partial results."""

    def __init__(self, program: Program, met: Statement) -> None:
        self.program = program
        self.met = met
        assert met.link.combination is not None
        self.combination = met.link.combination
        self.partial = met.memory.target
        self.scope = program.buffers[self.partial].scope
        self.kept = sum(not isinstance(program.loops[loop].tag, Bulk) for loop in met.loops)
        self.source = cast(Computation, program.algorithm.source(met.source))
        self.definitions: dict[str, Expr] = {}

    def added_to(self, done: CollectedParts) -> CollectedParts:
        """The program with the array of these partial results, and with one call that combines them."""
        own = [s for s in self.program.storing if self.partial in (s.memory.target, *s.memory.sources.values())]
        (start,) = (s for s in own if s.role is Role.INIT)
        (end,) = (s for s in own if s.role is Role.MERGE)
        program = self._stored(sets.named(start.instances, None))
        program = program.with_statement(_as_update(program, program.statements[end.name]))
        assert self.source.op is not None
        dtype, axes = program.buffers[self.partial].dtype, self.combination.axes
        node = AllReduce((self.partial,), dtype, self.source.op, axes, self.combination.of, self.combination.tree)
        along = "the ranks" if len(axes) > 1 else f"the ranks along axis {axes[0]}"
        comments = {start.name: f"partial results of {self.source.name}, on each rank",
                    end.name: f"those of all {along.removeprefix('the ')} go into {self.source.name}"}  # fmt: skip
        both = {**done.definitions, **self.definitions}
        return CollectedParts(program, {**done.combinations, self.met.name: node}, {**done.comments, **comments}, both)

    # -- the array

    def _stored(self, around: isl.Set) -> Program:
        """The program with a buffer for the values ``[loops outside, other axes of the grid, value]``."""
        count = sets.size(around) - self.kept
        sides = [self._side(around, self.kept, axis) for axis in range(count)]
        program = widened(self.program, list(self.definitions))
        space = sets.sized_frame(program.algorithm.param_space, None, len(self.scope) + count)
        forms = sets.variables(space)
        outside = sets.function(space, None, forms[: len(self.scope)])
        moved = []
        for form, side in zip(forms[len(self.scope) :], sides, strict=True):
            begin = sets.function(side.origin.get_domain_space(), None, [side.origin])
            begin = sets.with_params_of(begin, program.algorithm.param_space)
            (origin,) = sets.outputs(sets.compose(outside, begin))
            moved.append(form.sub(origin))
        dtype = program.buffers[self.partial].dtype
        buffer = Buffer(self.partial, tuple(side.extent for side in sides), dtype, scope=self.scope)
        index = sets.function(space, self.partial, moved)
        return program.with_buffer(buffer).with_storage(Storage(self.partial, self.source.name, self.partial, index))

    def _side(self, around: isl.Set, kept: int, axis: int) -> _Side:
        """One dimension of the array, in each iteration of the loops of its scope; of constant extent if possible."""
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
            return _Side(origin, arithmetic.number(extent))
        points, context = relation.range().coalesce(), self.program.context
        least, most = sets.smallest_coordinate(points, 0).coalesce(), sets.largest(points, 0).coalesce()
        count = sets.zero_elsewhere(sets.extent_between(least, most)).gist(context).coalesce()
        return _Side(self._begin(least, axis, scope.get_space().range()), simplified(of_params(count, context)))

    def _begin(self, least: isl.PwAff, axis: int, outside: isl.Space) -> isl.Aff:
        """A first index of parameters only: an affine form, or else a new parameter that the function defines."""
        single = sets.least(least.gist(least.domain()))
        if single is not None:
            return sets.on_frame(sets.on_params(single), outside)
        context = self.program.context
        begins = sets.zero_elsewhere(least).gist(context).coalesce()
        name = free_parameter(self.program, f"{self.partial}_from{axis}", self.definitions)
        self.definitions[name] = simplified(of_params(begins, context))
        return sets.parameter(sets.with_params(outside, [*sets.params(outside), name]), name)


def _as_update(program: Program, end: Statement) -> Statement:
    """The merge of the result as an update by one term, so that the code of an update is emitted for it."""
    source = cast(Computation, program.algorithm.source(end.source))
    point = [*sets.outputs(end.point), *(sets.constant(end.frame, 0) for _ in source.over)]
    return replace(end, role=Role.UPDATE, point=sets.function(end.frame, end.source, point))

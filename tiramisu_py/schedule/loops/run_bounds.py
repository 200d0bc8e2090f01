"""Bounds of runs in any order of loops: what loops outside say of a position bounds its run, and the reverse.

::

    for p: for n: if start[n] <= p < start[n + 1]: S       -->  for p: n = of[p]: S
    for p0: for n: for p1: if start[n] <= .. : S           -->  for p0: for n in of[8*p0] .. of[8*p0 + 7] + 1: for p1: S
    for n0: for p: for n1: if start[n] <= .. : S           -->  for n0: for p in start[8*n0] .. start[8*n0 + 8]: ..

The bounds are conditions of the statement, which follow from those of its run (`domains.implied_bounds`): the proof
shows it of each, and lowering makes bounds of loops of them, as of others. Runs that have each position once
(`Function.segments`) have numbers by position, `of`, unless a search finds them; where a run begins, every monotone
array says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.declarations import Algorithm
from tiramisu_py.algorithm.declare.run_numbers import known_numbers, numbers_of_runs
from tiramisu_py.algorithm.domains.references import access
from tiramisu_py.algorithm.domains.runs import Run
from tiramisu_py.algorithm.expressions import Expr, Iter, Param, as_expr, binary
from tiramisu_py.algorithm.traversal import accesses
from tiramisu_py.errors import CommandError
from tiramisu_py.program.editing import Coordinates, Rewrite
from tiramisu_py.program.initial import with_group
from tiramisu_py.program.loops import Loop, LoopId
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.program.statement_runs import depths_of, run_bounds
from tiramisu_py.records import dataclass


def with_run_bounds(program: Program, before: Program) -> Program:
    """The program with the bounds that the order of loops asks for, in statements that a command changed."""
    known = before.statements
    for name in [name for name, each in program.statements.items() if each is not known.get(name)]:
        statement = program.statements[name]
        if not statement.guards or not statement.acts or statement.moves:
            continue
        bounds = run_bounds(program, statement)
        if not bounds.runs:
            continue
        own = tuple(guard for guard in statement.guards if not bounds.is_implied(guard))
        found = {guard.key(): guard for run in bounds.runs for guard in _Nest(program, statement, run).bounds()}
        kept = (*own, *found.values())
        if [guard.key() for guard in kept] != [guard.key() for guard in statement.guards]:
            program = _with_numbers(program, bounds.runs, kept)
            program = program.with_statement(replace(statement, guards=kept))
    return program


def is_run(program: Program, statement: Statement, loops: Sequence[LoopId]) -> bool:
    """Whether two loops are those over runs, and over the positions in them, of runs that have each position once."""
    if len(loops) != 2 or not statement.guards or statement.moves:
        return False
    outer, inner = (sets.outputs(statement.coords)[statement.depth(loop)] for loop in loops)
    points = statement.instances
    return any(
        _same(run.row, outer, points)
        and _same(run.position, inner, points)
        and program.algorithm.inputs[run.start].covers is not None
        for run in run_bounds(program, statement).runs
    )


def _same(one: isl.Aff, other: isl.Aff, points: isl.Set) -> bool:
    """Whether two forms are equal at all points."""
    return bool(sets.as_set(one.ne_set(other)).intersect(points).is_empty())


def joined_run(program: Program, statement: Statement, loops: tuple[LoopId, LoopId], into: str) -> Program:
    """The loops over runs and over their positions as one loop over all positions, and the run of each inside."""
    outer, inner = loops
    for other in program.with_this_loop(outer):
        if not set(loops) <= set(other.loops) or not is_run(program, other, loops):
            raise CommandError(
                f"{other.handle} shares the loop {program.loops[outer].name} with {statement.handle}, and has no run "
                f"of {program.loops[inner].name} there: give {statement.handle} a loop of its own"
            )

    def swapped(c: Coordinates) -> Coordinates:
        return [c[1], c[0]]

    whole = Loop(program.next_loop(), into)
    return Rewrite(loops, (whole, program.loops[outer]), swapped, swapped).applied(program)


def _with_numbers(program: Program, found: Sequence[Run], guards: Sequence[Expr]) -> Program:
    """The program with the numbers of runs that conditions read, computed before all else."""
    read = {each.source for guard in guards for each in accesses(guard)}
    for start in dict.fromkeys(run.start for run in found):
        algorithm = program.algorithm
        name = _numbers_name(algorithm, start)
        if name not in read or name in algorithm.inputs:
            continue
        if name not in algorithm.computations:
            program = with_group(program, [numbers_of_runs(algorithm, start, algorithm.owner, None)])
        first = {key: s for key, s in program.statements.items() if s.source == name}
        program = program.with_(statements={**first, **program.statements})
    return program


def _numbers_name(algorithm: Algorithm, start: str) -> str:
    known = known_numbers(algorithm, start)
    return f"{start}_of" if known is None else known.name


@dataclass(frozen=True, eq=False)
class _Block:
    """A form lies in ``first .. first + extent - 1``, whatever the loops further inside are."""

    first: Expr
    extent: int
    may_be_negative: bool

    @property
    def index(self) -> Expr:
        """The first element, of those that there are."""
        return binary("max", self.first, as_expr(0)) if self.may_be_negative else self.first


@dataclass(frozen=True, eq=False)
class _Nest:
    """The loops of a statement around one of its runs."""

    program: Program
    statement: Statement
    run: Run

    def bounds(self) -> Iterator[Expr]:
        """The conditions by which loops over positions are bounded outside of those over runs, and the reverse."""
        rows, positions = (depths_of(self.statement, form) for form in (self.run.row, self.run.position))
        for depth in positions:
            block = self._known(self.run.row, depth) if any(row > depth for row in rows) else None
            if block is not None:
                yield from self._of_starts(block)
        for depth in rows if self._has_numbers else ():
            block = self._known(self.run.position, depth)
            if block is not None:
                yield from self._of_numbers(block, alone=len(rows) == 1)

    @property
    def _has_numbers(self) -> bool:
        declared = self.program.algorithm.inputs[self.run.start]
        return declared.covers is not None and not declared.search

    def _known(self, form: isl.Aff, depth: int) -> _Block | None:
        """The block that a form is in, as the loops outside of one say; None if they do not say it."""
        instances = self.statement.instances.intersect_params(self.program.context.params())
        outer = sets.renamed(self.statement.prefix(depth), None)
        value = sets.function(self.statement.frame, None, [form])
        found = sets.interval_around(sets.graph(outer, instances).reverse().apply_range(sets.graph(value)))
        if found is None or not sets.axes_of(found.low):
            return None
        low = sets.compose(outer, sets.function(found.low.get_domain_space(), None, [found.low]))
        (begin,) = sets.outputs(low)
        first = self._expression(begin)
        negative = sets.as_set(begin.lt_set(sets.constant(begin.get_domain_space(), 0))).intersect(instances)
        return None if first is None else _Block(first, found.extent, not negative.is_empty())

    def _of_starts(self, rows: _Block) -> Iterator[Expr]:
        """``start[first] <= p < start[last + 1]``."""
        position = self._expression(self.run.position)
        (extent,) = self.program.algorithm.inputs[self.run.start].shape
        if position is not None:
            yield typed(self._start(rows.index) <= position)
            yield typed(position < self._start(binary("min", rows.first + rows.extent, extent - 1)))

    def _of_numbers(self, positions: _Block, alone: bool) -> Iterator[Expr]:
        """``of[first] <= n <= of[last]``, or ``n == of[p]``."""
        row, declared = self._expression(self.run.row), self.program.algorithm.inputs[self.run.start]
        assert declared.covers is not None
        if row is None:
            return
        first = positions.index
        if positions.extent == 1 and alone:
            yield typed(row == self._number(first))
            return
        last = first if positions.extent == 1 else positions.first + (positions.extent - 1)
        yield typed(self._number(first) <= row)
        yield typed(row <= self._number(last if positions.extent == 1 else binary("min", last, declared.covers - 1)))

    def _start(self, index: Expr) -> Expr:
        name, algorithm = self.run.start, self.program.algorithm
        return access(name, algorithm.inputs[name].dtype, 1, index, algorithm.owner)

    def _number(self, index: Expr) -> Expr:
        algorithm = self.program.algorithm
        known = known_numbers(algorithm, self.run.start)
        dtype = algorithm.inputs[self.run.start].dtype if known is None else known.dtype
        return access(_numbers_name(algorithm, self.run.start), dtype, 1, index, algorithm.owner)

    def _expression(self, form: isl.Aff) -> Expr | None:
        """A form of instances as an expression of the iterators of their points; None if these do not say it."""
        names = self.program.point_names(self.statement)
        value = sets.graph(sets.function(self.statement.frame, None, [form]), self.statement.instances)
        of_points = sets.graph(self.statement.point).reverse().apply_range(value)
        if not of_points.is_single_valued():
            return None
        pieces = sets.pieces(isl.PwMultiAff.from_map(of_points).get_at(0))
        return _expression(pieces[0], dict(enumerate(map(Iter, names)))) if len(pieces) == 1 else None


def _expression(form: isl.Aff, dims: dict[int, Expr]) -> Expr:
    taken = sets.terms(form)
    parts: list[tuple[int, Expr]] = [(factor, dims[axis]) for axis, factor in enumerate(taken.dims) if factor]
    parts += [(factor, Param(name)) for factor, name in taken.params]
    parts += [(factor, _expression(div, dims)) for factor, div in taken.divs]
    total: Expr | None = None
    for factor, each in parts:
        part = each if factor == 1 else each * factor
        total = part if total is None else total + part
    if total is None:
        total = as_expr(taken.constant)
    elif taken.constant:
        total = total + taken.constant
    return total if taken.denominator == 1 else total // taken.denominator

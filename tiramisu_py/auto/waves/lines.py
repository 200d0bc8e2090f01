"""Recurrences along lines that do not depend on each other: several lines side by side, in the lanes of vectors.

::

    for i:                                  for i0:
        for j: p[i, j] ... p[i, j - 1]          for j: for i1 in lanes: p[i0, i1, j]
        for j backwards: v[i, j]      -->       for j backwards: for i1 in lanes: v[i0, i1, j]

What only these lines read is kept for a block of them, with its lanes next to each other. Recurrences that follow one
another, and what reads them at its own place, are one nest in the same way::

    for i, j: p[i, j] ... p[i, j - 1]                  for i0:
    for i, j backwards: v[i, j] ... v[i, j + 1], p         for j: for i1 in lanes: p[j, i1]
    for i, j: out[i, j] = v[i, j]                -->       for j backwards: for i1 in lanes: v[j, i1]
                                                           for tiles of j: out[i0, i1, j]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from tiramisu_py import Expr, Function, Iter
from tiramisu_py.auto.groups.nests import members_of
from tiramisu_py.auto.model.cost import ValueWork
from tiramisu_py.auto.model.offers import Fresh, Offer, Problem
from tiramisu_py.auto.model.strides import read_cost, result_cost
from tiramisu_py.queries import (
    LoopDependences,
    LoopId,
    Role,
    Statement,
    loop_forms,
    loop_iterators,
    same_points,
    shared,
)
from tiramisu_py.records import dataclass

#: The vectors of lines in a block: while one waits for its division or sum, the next one begins.
VECTORS = 2
#: The share of values that come from memory.
MOVED = 0.5


def side_by_side(problem: Problem, name: str) -> Iterator[Offer]:
    """The offer of a group whose computations go along lines, there or back, in loops over lines that they share."""
    names = members_of(problem, name)
    program = problem.function.program
    statements = [each for source in names for each in program.statements_of(source)]
    if len(statements) < 2 or any(each.role is not Role.VALUE for each in statements):
        return
    ordered = sorted(statements, key=lambda each: program.positions[each.name])
    outer = min(shared(a, b) for a in ordered for b in ordered if a is not b)
    carrying = LoopDependences(program, tuple(ordered)).carrying
    found = [_Lines(problem, tuple(run), outer, carrying) for run in _runs(ordered, outer)]
    lined = [each for each in found if each.are_independent]
    if not lined or not all(each in lined or each.is_free for each in found):
        return

    def apply(function: Function) -> None:
        fresh = Fresh(function)
        block, lane = fresh("i0"), fresh("i1")
        for each in lined:
            each.arrange(function, block, lane)
        for before, after in pairwise(found) if outer else ():
            around = Iter(program.loop_names(before.statements[0])[outer - 1])
            function.order(function[before.sources[-1]], function[after.sources[0]], at=around)
        for each in found:
            each.finish(function, block, lane) if each in lined else each.vectorize(function)

    lines = ", ".join(dict.fromkeys(str(each.line) for each in lined))
    why = f"values depend on earlier ones along a line, and no line of {lines} on another one"
    lanes, first = problem.lanes(name), lined[0]
    yield Offer(
        name, f"lines of {lines} side by side, in vectors of {lanes}; what only they read is kept for a block of them",
        why, apply, names, first.work(),
    )  # fmt: skip


def _runs(ordered: Sequence[Statement], outer: int) -> list[list[Statement]]:
    """The statements that follow one another in a loop inside of those that all share."""
    runs = [[ordered[0]]]
    for before, after in pairwise(ordered):
        if shared(before, after) > outer:
            runs[-1].append(after)
        else:
            runs.append([after])
    return runs


@dataclass(frozen=True, eq=False)
class _Lines:
    """Statements in one loop over lines, at the depth `outer`."""

    problem: Problem
    statements: tuple[Statement, ...]
    outer: int
    carrying: frozenset[LoopId]

    @property
    def sources(self) -> list[str]:
        return [each.source for each in self.statements]

    @property
    def line(self) -> str | None:
        """The iterator of the lines."""
        return self._iterators(self.statements[0])[self.outer]

    def work(self) -> ValueWork:
        """The work of a value of the first statement."""
        name, line = self.sources[0], str(self.line)
        size, local = self.problem.computation(name).dtype.bytes, self._is_local(name)
        stored = 1.0 if local else result_cost(self.problem.computation(name), line)
        touched = self.problem.touches(name)
        read = sum(1.0 if self._is_local(each.access.source) else read_cost(each, line) for each in touched)
        return ValueWork(self.problem.operations(name), read + stored, MOVED * size, self.problem.lanes(name))

    def _iterators(self, statement: Statement) -> list[str | None]:
        return loop_iterators(statement, self.problem.computation(statement.source).point_iterators)

    @property
    def are_independent(self) -> bool:
        """Whether lines do not depend on each other, but values do along some of them."""
        deep = all(len(each.loops) == self.outer + 2 for each in self.statements)
        if not deep or any(None in self._iterators(each) for each in self.statements):
            return False
        return not self.is_free and self.statements[0].loops[self.outer] not in self.carrying

    @property
    def is_free(self) -> bool:
        """Whether values do not depend on each other along their last loops, as far as they have own ones."""
        return not any(each.loops[-1] in self.carrying for each in self._with_own_loops)

    @property
    def _with_own_loops(self) -> list[Statement]:
        return [each for each in self.statements if len(each.loops) > self.outer]

    def vectorize(self, function: Function) -> None:
        """Vectors along the last loops, which carry no dependence."""
        for each in self._with_own_loops:
            last = self.problem.function.program.loop_names(each)[-1]
            function[each.source].vectorize(Iter(last), self.problem.lanes(each.source), remainder="mask")

    def arrange(self, function: Function, block: Iter, lane: Iter) -> None:
        """Blocks of lines outside, lines innermost."""
        for each in self.statements:
            function[each.source].set_schedule(self._loops(each, block, lane))
        for before, after in pairwise(self.statements):
            depth = shared(before, after)
            inside = self._names(before)[depth - 1] if depth > self.outer + 1 else block
            function.order(function[before.source], function[after.source], at=inside)

    def _names(self, statement: Statement) -> list[Iter]:
        """Names of loops: another one for a loop whose iteration is not the iterator of the same name."""
        names, forms = self.problem.function.program.loop_names(statement), loop_forms(statement)
        return [
            Iter(f"{name}_" if name in statement.dims and not form.same_as(Iter(name)) else name)
            for name, form in zip(names, forms, strict=True)
        ]

    def _loops(self, statement: Statement, block: Iter, lane: Iter) -> dict[Iter, Expr]:
        """Its loops, with blocks of lines in the place of lines, and the lines of a block innermost."""
        names, forms = self._names(statement), loop_forms(statement)
        size, line = VECTORS * self.problem.lanes(statement.source), forms[self.outer]
        names[self.outer], forms[self.outer] = block, line // size
        return {**dict(zip(names, forms, strict=True)), lane: line % size}

    def finish(self, function: Function, block: Iter, lane: Iter) -> None:
        """Storage, vectors, and threads that share the blocks."""
        last = function[self.sources[-1]]
        for each in self.statements:
            if self._is_local(each.source):
                _, *inside = map(str, self._iterators(each)[self.outer :])
                function[each.source].store_in([*map(Iter, inside), Iter(str(self.line))])
                function[each.source].store_at(last, block)
        for each in self.statements:
            function[each.source].vectorize(lane, self.problem.lanes(each.source), remainder="mask")
        last.parallelize(block)

    def _is_local(self, name: str) -> bool:
        """Whether only these lines read a computation, apart from the last one of them."""
        if name not in self.sources[:-1] or name in self.problem.algorithm.outputs:
            return False
        readers = set(self.problem.readers[name])
        return bool(readers) and readers <= set(self.sources)


def in_lanes(problem: Problem, name: str) -> Iterator[Offer]:
    """The offer of a recurrence along its last loop, with others before it, and what alone reads them."""
    chain = _chain(problem, name)
    if chain is None:
        return
    members, reader = chain
    line, along = problem.computation(name).iterators[-2:]
    lanes = problem.lanes(name)

    def apply(function: Function) -> None:
        fresh = Fresh(function)
        lines, runs, lane, one = (fresh(f"{each}{level}") for level in (0, 1) for each in (line, along))
        end = function[reader]
        end.tile(Iter(line), Iter(along), lanes, lanes, lines, runs, lane, one)
        if problem.threads > 1:
            end.parallelize(lines)
        end.vectorize(one, lanes, remainder="mask")
        if problem.is_only_written(reader):
            end.store_nontemporal()
        for each in members:
            member = function[each]
            member.compute_at(end, lines)
            member.reorder(Iter(along), Iter(line))
            member.vectorize(Iter(line), lanes, remainder="mask")
            member.store_in([Iter(along), Iter(line)])
            member.store_at(end, lines)

    touched = problem.touches(name)
    read = sum(1.0 if each.access.source in members else read_cost(each, line) for each in touched)
    size = problem.computation(name).dtype.bytes
    yield Offer(
        name, f"{lanes} lines of {line} side by side, of {', '.join(reversed(members))}, and {reader} of these lines",
        f"values depend on earlier ones along {along} alone, and only {reader} reads the last ones", apply,
        (*members, reader), ValueWork(problem.operations(name), read + 1.0, MOVED * size, lanes),
    )  # fmt: skip


def _chain(problem: Problem, name: str) -> tuple[list[str], str] | None:
    """Recurrences along lines, those that read others first, that end in one, and the computation that reads that."""
    declared = problem.computation(name)
    readers = [each for each in problem.readers[name] if each != name]
    if len(readers) != 1 or len(declared.iterators) < 2 or not _is_along_lines(problem, name):
        return None
    (reader,) = readers
    own, end = problem.has_first_storage, problem.computation(reader)
    plain = not end.is_reduction and not end.group and end.stage is None and reader not in problem.given
    if not plain or not own(reader) or problem.is_recurrent(reader) or end.iterators != declared.iterators:
        return None
    if not same_points(end, end.iterators, declared, declared.iterators):
        return None
    if not problem.is_pointwise(reader, name):
        return None
    members = [name]
    for each in list(problem.algorithm.computations)[::-1]:
        used = {*problem.readers[each]} - {each}
        near = problem.computation(each).iterators == declared.iterators and used and used <= {*members, reader}
        if each not in members and near and _is_along_lines(problem, each):
            pointwise = reader not in used or problem.is_pointwise(reader, each)
            if pointwise and all(_is_of_its_line(problem, user, each) for user in used - {reader}):
                members.append(each)
    statements = tuple(each for member in members for each in problem.function.program.statements_of(member))
    carrying = LoopDependences(problem.function.program, statements).carrying
    alike = all(each.loops[-1] in carrying and each.loops[-2] not in carrying for each in statements)
    return (members, reader) if alike else None


def _is_along_lines(problem: Problem, name: str) -> bool:
    """Whether a computation is a recurrence of one statement that nothing outside reads, and whose storage is free."""
    declared, program = problem.computation(name), problem.function.program
    statements = program.statements_of(name)
    if declared.is_reduction or declared.group or name in problem.algorithm.outputs or name in problem.given:
        return False
    if not problem.is_recurrent(name) or not problem.has_first_storage(name) or len(statements) != 1:
        return False
    own = program.loop_names(statements[0]) == declared.iterators
    return statements[0].role is Role.VALUE and own and _is_of_its_line(problem, name, name)


def _is_of_its_line(problem: Problem, user: str, source: str) -> bool:
    """Whether a computation reads of another one, or of itself, values of its own line alone."""
    *others, _ = problem.computation(user).iterators
    reads = problem.reads_of(user, source)
    return all(each.offset(axis, other) == 0 for each in reads for axis, other in enumerate(others))

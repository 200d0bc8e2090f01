"""Commands that replace a run of loops by integer combinations of them: skew, and transform, the general form.

A matrix of integers maps the iterations of a run of loops one to one onto integers, without gaps, if and only if its
determinant is 1 or -1. Source: Banerjee, Unimodular Transformations of Double Loops; Wolf and Lam, A Loop
Transformation Theory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.errors import CommandError
from tiramisu_py.program.editing import Coordinates, Rewrite
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.program import Program, nest
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import find, listed, loop_name, loops_named, statements, unused, whole
from tiramisu_py.schedule.command_fields import OnStatements

Matrix = Sequence[Sequence[int]]

_PAIR = "skew takes two loops and a factor, skew(t, i, 1), or several: skew({t: 1, i: 1}, j), skew(t, {i: 1, j: 1})"


def skew(program: Program, names: Sequence[str], outer: str, inner: str, by: int, new: str) -> Program:
    """``inner`` --> ``inner + by * outer``, called `new`, in every statement that has the loop."""
    for statement, loop in loops_named(program, names, inner):
        current = program.statements[statement.name]
        around = find(program, current, outer)
        if around is None or current.depth(around) >= current.depth(loop):
            raise CommandError(f"{outer} must be a loop around {inner}: {nest(program, current)}")
        unused(program, program.with_this_loop(loop), [new], apart=[loop])
        program = _skewed(program, current.loops[current.depth(around) : current.depth(loop) + 1], by, new)
    return program


def _skewed(program: Program, run: tuple[LoopId, ...], by: int, new: str) -> Program:
    """The last loop of a run starts later by `by` for each iteration of the first, and is called `new`."""

    def moved(c: Coordinates, sign: int) -> Coordinates:
        return [*c[:-1], c[-1].add(sets.scaled(c[0], sign * by))]

    loops = [program.loops[loop] for loop in run]
    renamed = (*loops[:-1], replace(loops[-1], name=new))
    return Rewrite(run, renamed, lambda c: moved(c, 1), lambda c: moved(c, -1), kept=len(run) - 1).applied(program)


def transform(
    program: Program, names: Sequence[str], loops: Sequence[str], matrix: Matrix, new: Sequence[str]
) -> Program:
    """Replace loops by the combinations of them that the rows of a matrix give, at the positions that they occupy."""
    inverse = inverse_of(matrix)
    done: set[tuple[LoopId, ...]] = set()
    for statement in statements(program, names):
        current = program.statements[statement.name]
        found = [find(program, current, name) for name in loops]
        chosen = tuple(loop for loop in found if loop is not None)
        if len(chosen) == len(loops) and chosen not in done:
            program = _transformed(program, current.loops, chosen, (matrix, inverse), new)
            done.add(chosen)
    if not done:
        missing = "; ".join(nest(program, s) for s in statements(program, names))
        raise CommandError(f"no statement has all the loops {', '.join(loops)}: {missing}")
    return program


def _transformed(
    program: Program,
    around: tuple[LoopId, ...],
    chosen: tuple[LoopId, ...],
    matrices: tuple[Matrix, Matrix],
    new: Sequence[str],
) -> Program:
    for loop in (program.loops[number] for number in chosen):
        if loop.tag is not None:
            raise CommandError(f"loop {loop.name} is tagged by {loop.tagged_by}: transform it before tagging it")
    depths = sorted(around.index(loop) for loop in chosen)
    run = around[depths[0] : depths[-1] + 1]
    unused(program, program.with_this_loop(run[-1]), new, apart=chosen)
    places = [depth - depths[0] for depth in depths]
    taken = [run.index(loop) for loop in chosen]
    made = [program.loops[loop] for loop in run]
    for place, name in zip(places, new, strict=True):
        made[place] = replace(program.loops[run[place]], name=name)
    matrix, inverse = matrices
    return Rewrite(
        run, tuple(made), lambda c: _mapped(c, taken, places, matrix), lambda c: _mapped(c, places, taken, inverse)
    ).applied(program)


def _mapped(c: Coordinates, given: Sequence[int], made: Sequence[int], matrix: Matrix) -> Coordinates:
    """The coordinates at the positions `made` are the rows of the matrix, applied to those at the positions `given`."""
    result = list(c)
    for place, row in zip(made, matrix, strict=True):
        total = sets.scaled(c[given[0]], row[0])
        for position, factor in zip(given[1:], row[1:], strict=True):
            total = total.add(sets.scaled(c[position], factor))
        result[place] = total
    return result


# -- matrices


def checked_matrix(given: object, loops: Sequence[str]) -> list[list[int]]:
    """A square matrix of integers with a row and a column for each loop; raises `CommandError`."""
    rows = [listed(row, "a row of the matrix") for row in listed(given, "the matrix")]
    if len(rows) != len(loops) or any(len(row) != len(loops) for row in rows):
        raise CommandError(
            f"the matrix has rows with {', '.join(str(len(row)) for row in rows) or 'no'} numbers: {', '.join(loops)} "
            f"need {len(loops)} rows with {len(loops)} numbers each"
        )
    matrix = [[whole(factor, "a number of the matrix") for factor in row] for row in rows]
    by = determinant(matrix)
    if abs(by) != 1:
        what = "iterations would run at the same time" if by == 0 else f"only one point of {abs(by)} would be used"
        raise CommandError(
            f"the matrix {matrix} is not unimodular: its determinant is {by}, and has to be 1 or -1; {what}"
        )
    return matrix


def determinant(matrix: Matrix) -> int:
    """The determinant of a square matrix of integers."""
    rows = [[Fraction(each) for each in row] for row in matrix]
    found = Fraction(1)
    for at in range(len(rows)):
        pivot = next((row for row in range(at, len(rows)) if rows[row][at]), None)
        if pivot is None:
            return 0
        if pivot != at:
            rows[at], rows[pivot], found = rows[pivot], rows[at], -found
        found *= rows[at][at]
        for row in range(at + 1, len(rows)):
            _subtract(rows, row, at, at)
    return int(found)


def inverse_of(matrix: Matrix) -> list[list[int]]:
    """The inverse of a unimodular matrix, which has integers too."""
    size = len(matrix)
    rows = [[*map(Fraction, row), *(Fraction(k == at) for k in range(size))] for at, row in enumerate(matrix)]
    for at in range(size):
        pivot = next(row for row in range(at, size) if rows[row][at])
        rows[at], rows[pivot] = rows[pivot], rows[at]
        by = rows[at][at]
        rows[at] = [each / by for each in rows[at]]
        for row in range(size):
            if row != at:
                _subtract(rows, row, at, at)
    return [[int(each) for each in row[size:]] for row in rows]


def _subtract(rows: list[list[Fraction]], row: int, other: int, column: int) -> None:
    """Subtract a multiple of another row so that the number in this column becomes 0."""
    by = rows[row][column] / rows[other][column]
    rows[row] = [a - by * b for a, b in zip(rows[row], rows[other], strict=True)]


# -- the commands as values


@dataclass(frozen=True, eq=False)
class Skew(OnStatements):
    """Start the inner loop later by `factor` for each iteration of an outer one: ``inner' = inner + factor*outer``.

    ::

        for t in 0..T:          -->   for t in 0..T:
            for i in 0..N:                for i in t..N + t:
                S[t, i]                       S[t, i - t]             (skew(t, i, 1))

    Several factors are a dict: ``skew({t: 1, i: 1}, j)`` is ``j' = j + t + i``, and ``skew(t, {i: 1, j: 1})`` skews
    both i and j. `new` renames the loop. Makes wavefronts parallel and time loops tileable; `skew_for` finds the
    factors.
    """

    spelled_out = ("new",)

    outer: Iter | Mapping[Iter, int]
    inner: Iter | Mapping[Iter, int]
    factor: int | None = None
    new: Iter | None = None

    def applied(self, program: Program) -> Program:
        names, pairs = self.names(program), self._pairs()
        last = pairs[-1][1] if self.new is None else loop_name(self.new)
        if self.new is not None and isinstance(self.inner, Mapping):
            raise CommandError("new= is the name of one loop; skew each loop by a command of its own to rename it")
        for number, (outer, inner, by) in enumerate(pairs):
            program = skew(program, names, outer, inner, by, last if number == len(pairs) - 1 else inner)
        return program

    def _pairs(self) -> list[tuple[str, str, int]]:
        """The outer loop, the inner loop and the factor of each step."""
        several = [one for one in (self.outer, self.inner) if isinstance(one, Mapping)]
        if not several:
            outer, inner = loop_name(self.outer), loop_name(self.inner)
            return [(outer, inner, whole(self.factor, "the skewing factor"))]
        if len(several) > 1 or self.factor is not None or not several[0]:
            raise CommandError(_PAIR)
        factors = [(loop_name(loop), whole(by, f"the factor of {loop_name(loop)}")) for loop, by in several[0].items()]
        if isinstance(self.outer, Mapping):
            return [(loop, loop_name(self.inner), by) for loop, by in factors]
        return [(loop_name(self.outer), loop, by) for loop, by in factors]


@dataclass(frozen=True, eq=False)
class Transform(OnStatements):
    """Replace loops by integer combinations of them, a row of the matrix for each new loop.

    ::

        for i in 0..N:          -->   for w in 0..N + M - 1:
            for j in 0..M:                for j in max(0, w - N + 1)..min(M, w + 1):
                S[i, j]                       S[w - j, j]

                                (transform([i, j], [[1, 1], [0, 1]], [w, j]): w = i + j, a wavefront)

    Interchange, reversal and skewing, and any sequence of them, are such matrices: those whose determinant is 1 or
    -1. Others are refused, since several iterations would meet, or points between would be empty. The new loops
    take the positions of the old ones, outermost first; without `new` they keep the names at these positions.
    Raises `CommandError` for loops that are tagged or not perfectly nested.
    Source: Wolf and Lam, A Loop Transformation Theory; TIRAMISU, ``computation::skew`` with four factors.
    """

    lists = ("loops", "matrix", "new")

    loops: Sequence[Iter]
    matrix: Sequence[Sequence[int]] | np.ndarray[Any, Any]
    new: Sequence[Iter] | None = None

    def applied(self, program: Program) -> Program:
        loops = [loop_name(loop) for loop in listed(self.loops, "the loops")]
        if not loops or len(set(loops)) < len(loops):
            raise CommandError("transform needs different loops: transform([i, j], [[1, 1], [0, 1]], [w, j])")
        new = loops if self.new is None else [loop_name(name) for name in listed(self.new, "the new loops")]
        if len(new) != len(loops):
            raise CommandError(f"{len(loops)} loops become {len(loops)}, not {len(new)}: {', '.join(new)}")
        return transform(program, self.names(program), loops, checked_matrix(self.matrix, loops), new)

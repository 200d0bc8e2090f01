"""Messages of values in runs: of a box of values, those whose positions are in the runs of their rows.

Both halves of an exchange leave out the same values, by the same elements of an input, so that their elements meet in
the order of all others. The number of messages does not depend on values: one without elements is sent, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Binary, Expr
from tiramisu_py.algorithm.types import bool_
from tiramisu_py.ir import If, Node, Piece, Side
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.lower.operations.transfer_spans import runs_of, start_of
from tiramisu_py.lower.statements.instances import array_name
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class LongSide:
    """One side of a box, and the step of each form of the runs along it."""

    side: Side
    steps: tuple[int, ...]


class MessageRuns:
    """The runs of half of an exchange, each with two forms of its instances: the row, and the position."""

    def __init__(self, program: Program, statement: Statement) -> None:
        self.program = program
        self.runs = runs_of(program, statement)

    def beside(self, function: isl.MultiAff) -> isl.MultiAff:
        """A function of the instances, with the forms of the runs after its own."""
        forms = [form for run in self.runs for form in (run.row, run.position)]
        space = function.get_space().domain()
        return sets.joined(function, sets.function(space, None, forms)) if forms else function

    @cached_property
    def arrays(self) -> frozenset[str]:
        """The arrays that say where runs begin."""
        storages = (self.program.storages[run.start] for run in self.runs)
        return frozenset(array_name(self.program.buffers[storage.buffer], None) for storage in storages)

    def fit(self, sides: Sequence[tuple[int, ...]]) -> bool:
        """Whether one interval of a box is in the runs: rows are fixed, a position is along one side, by steps of 1."""
        for number in range(len(self.runs)):
            along = [side[2 * number + 1] for side in sides if side[2 * number + 1]]
            if any(side[2 * number] for side in sides) or along not in ([], [1]):
                return False
        return True

    def part(self, first: Sequence[Expr], sides: Sequence[LongSide], forms: Sequence[Expr], peer: Expr | None) -> Node:
        """The elements of a box that are in the runs; `forms` are the values of rows and positions at its first one."""
        first, sides, forms = list(first), list(sides), list(forms)
        conditions = list[Expr]()
        for number, run in enumerate(self.runs):
            row, position = forms[2 * number : 2 * number + 2]
            start, end = (start_of(self.program, run.start, arithmetic.plus(row, by)) for by in (0, 1))
            along = next((k for k, each in enumerate(sides) if each.steps[2 * number + 1]), None)
            if along is None:
                conditions += [Binary("<=", start, position, bool_), Binary("<", position, end, bool_)]
                continue
            whole, steps = sides[along].side, sides[along].steps
            zero = arithmetic.number(0)
            skipped = arithmetic.smaller(arithmetic.larger(arithmetic.subtracted(start, position), zero), whole.extent)
            last = arithmetic.smaller(arithmetic.subtracted(end, position), whole.extent)
            extent = arithmetic.larger(arithmetic.subtracted(last, skipped), zero)
            sides[along] = LongSide(Side(extent, whole.steps), steps)
            first = [_moved(form, step, skipped) for form, step in zip(first, whole.steps, strict=True)]
            forms = [_moved(form, step, skipped) for form, step in zip(forms, steps, strict=True)]
        piece = Piece(tuple(first), tuple(each.side for each in sides), peer)
        condition = arithmetic.conjunction(conditions)
        return piece if condition is None else If(condition, piece)


def _moved(form: Expr, step: int, by: Expr) -> Expr:
    return arithmetic.added(form, arithmetic.times(by, step)) if step else form

"""The code of rows that are aligned to cache lines: which value of its row an iteration computes.

::

    store g[i, j]      -->      j_turn = (x - j - row) % 32
                                j_by = j_turn if j + j_turn < 513 else j_turn - 513
                                store g[i, j + j_by]

`program.machine.line_alignment` has the permutation, `proof.kernels.aligned_lines` what it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tiramisu_py import sets
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.expressions import Binary, Expr, Iter, Select
from tiramisu_py.algorithm.spellings import fresh_name
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.ir import GpuIndex, If, Let, Node
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.lower.statements.index_set_splitting import point_forms
from tiramisu_py.lower.statements.store_places import Places
from tiramisu_py.lower.statements.templates import Forms, filled
from tiramisu_py.lower.statements.wide_indices import with_wide_indices
from tiramisu_py.program.fresh_names import names_in
from tiramisu_py.program.machine.line_alignment import LineAlignment
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class TurnedRow:
    """The turn of a row as templates: the iteration's own value, the place of the row, and the step of each form."""

    aligned: LineAlignment
    name: str
    own: Expr
    row: Expr
    steps: tuple[int, ...]

    def around(self, values: Sequence[Expr], code: Callable[[Sequence[Expr]], Node]) -> Node:
        """The code of an iteration with these values of the forms; `code` makes it for those of the value computed."""
        own, row = filled(self.own, values), filled(self.row, values)
        start = arithmetic.subtracted(GpuIndex("thread", 0), own)
        by: Expr = Iter(self.name, int64)
        moved = [
            arithmetic.added(v, arithmetic.times(by, k)) if k else v for v, k in zip(values, self.steps, strict=True)
        ]
        extent, lanes = arithmetic.number(self.aligned.extent), arithmetic.number(self.aligned.lanes)
        if self.aligned.by == "line":
            back = Binary("%", arithmetic.subtracted(row, start), lanes, int64)
            turn = arithmetic.subtracted(arithmetic.number(0), back)
            value = arithmetic.added(own, by)
            in_row = [Binary(">=", value, arithmetic.number(0), bool_), Binary("<", value, extent, bool_)]
            inside = arithmetic.conjunction(in_row)
            assert inside is not None
            return Let(self.name, turn, If(inside, code(moved)))
        first = f"{self.name}_on"
        on: Expr = Iter(first, int64)
        stays = Binary("<", arithmetic.added(own, on), extent, bool_)
        around = Select(stays, on, arithmetic.subtracted(on, extent), int64)
        shift = Binary("%", arithmetic.subtracted(start, row), lanes, int64)
        return Let(first, shift, Let(self.name, around, code(moved)))


def turned_row(program: Program, statement: Statement, forms: Forms, places: Places) -> TurnedRow | None:
    """The turn of a statement that is aligned to lines; the `forms` are all that its code needs."""
    aligned = statement.along.aligned
    if aligned is None:
        return None
    own = forms.wanted(point_forms(program, statement)[aligned.iterator])
    row = places.template(typed(with_wide_indices(aligned.row), int64))
    axis = statement.dims.index(aligned.iterator)
    steps = tuple(sets.stride(form, axis) for form in forms.forms)
    name = fresh_name(f"{aligned.iterator}_turn", {*names_in(program), *program.loop_names(statement)})
    assert None not in steps
    return TurnedRow(aligned, name, own, row, tuple(step or 0 for step in steps))

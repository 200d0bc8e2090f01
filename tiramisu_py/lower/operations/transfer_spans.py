"""Spans: the positions that a transfer of values in runs copies.

A transfer of the values ``a <= row < b`` in runs ``start[row] <= position < start[row + 1]``, at all positions of a
box, is one of the positions from ``start[a]`` on, before ``start[b]``: these runs follow one another. Where the rows
are themselves positions of runs, a and b are the ends of their span.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.affine import Affine
from tiramisu_py.algorithm.domains.runs import Run, runs, start_bounds
from tiramisu_py.algorithm.expressions import Expr, cast
from tiramisu_py.algorithm.types import int64
from tiramisu_py.ir import Load
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.lower.statements.index_set_splitting import point_forms
from tiramisu_py.lower.statements.instances import array_name
from tiramisu_py.lower.statements.templates import of_operands
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.records import dataclass

#: Placeholders for the values of forms.
Places = Callable[[Sequence[isl.PwAff]], tuple[Expr, ...]]


@dataclass(frozen=True, eq=False)
class FormEnds:
    """The first value of a form, and the last one."""

    first: isl.PwAff
    last: isl.PwAff


@dataclass(frozen=True, eq=False)
class RunSpan:
    """The positions of the runs of some rows: those that `start` says, within `positions`.

    Rows are between forms, or the positions of the span `of`, plus a form. Elements at `axis` are `apart` plus
    positions, or less positions if these are `mirrored`. A span without an axis only says which rows others have.
    """

    start: str
    positions: FormEnds
    rows: FormEnds | None
    of: tuple[int, isl.PwAff] | None
    axis: int | None
    apart: isl.PwAff | None
    mirrored: bool = False


def runs_of(program: Program, statement: Statement) -> list[Run]:
    """The runs that a transfer's values are in, those of rows before those whose rows are their positions."""
    reader = Affine(statement.frame, point_forms(program, statement))
    found = list(runs(list(start_bounds(program.algorithm.inputs, reader, statement.guards))))
    ordered: list[Run] = []
    while len(ordered) < len(found):
        left = [each for each in found if each not in ordered]
        ordered.append(next((each for each in left if _above(each, left) is None), left[0]))
    return ordered


def _above(run: Run, among: Sequence[Run]) -> int | None:
    """The run whose positions are the rows of a run, but for a number."""
    for number, other in enumerate(among):
        if other is not run and sets.is_constant(run.row.sub(other.position)):
            return number
    return None


def spans_of(
    found: Sequence[Run], elements: Sequence[isl.Aff], images: Callable[[Sequence[isl.Aff]], isl.Map]
) -> list[RunSpan] | None:
    """The spans that hold exactly the elements of all rows; None if these are not the elements of spans.

    `images` maps the iterations outside to the values of some forms.
    """
    if not found:
        return []
    tied = [_tied(run, elements, images) for run in found]
    above = [_above(run, found[:number]) for number, run in enumerate(found)]
    free = [run.row for run, over in zip(found, above, strict=True) if over is None]
    free += [run.position for run, tie in zip(found, tied, strict=True) if tie is None]
    whole = images([*elements, *free])
    lows, highs = sets.component_bounds(whole)
    domain = whole.domain()
    if not sets.box(lows, highs, domain.get_space()).intersect_domain(domain).is_subset(whole):
        return None
    spans = list[RunSpan]()
    for number, (run, tie, over) in enumerate(zip(found, tied, above, strict=True)):
        has_rows_inside = number in above
        if (tie is None) != has_rows_inside and not images([run.position]).is_single_valued():
            return None
        positions, row = _ends(images, run.position, domain), _ends(images, run.row, domain)
        of = None
        if over is not None:
            of = over, _ends(images, run.row.sub(found[over].position), domain).first
        axis, apart, mirrored = (None, None, False) if tie is None else tie
        distance = None if apart is None else _ends(images, apart, domain).first
        spans.append(RunSpan(run.start, positions, row if of is None else None, of, axis, distance, mirrored))
    return spans


def _tied(
    run: Run, elements: Sequence[isl.Aff], images: Callable[[Sequence[isl.Aff]], isl.Map]
) -> tuple[int, isl.Aff, bool] | None:
    """The index of elements that is a form of the iterations outside, plus or (True) less the positions of a run."""
    for axis, element in enumerate(elements):
        for apart, mirrored in ((element.sub(run.position), False), (element.add(run.position), True)):
            if images([apart]).is_single_valued():
                return axis, apart, mirrored
    return None


def _ends(images: Callable[[Sequence[isl.Aff]], isl.Map], form: isl.Aff, domain: isl.Set) -> FormEnds:
    (low,), (high,) = sets.component_bounds(images([form]))
    return FormEnds(low.gist(domain), high.gist(domain))


def narrowed(program: Program, spans: Sequence[RunSpan], places: Places) -> Mapping[int, tuple[Expr, Expr]]:
    """The first element of each index that spans say, and the number of elements; what is not there is not narrowed."""
    ends, found = list[tuple[Expr, Expr]](), dict[int, tuple[Expr, Expr]]()
    for span in spans:
        low, high = places([span.positions.first, sets.raised(span.positions.last, 1)])
        if span.of is None:
            assert span.rows is not None
            rows = places([span.rows.first, sets.raised(span.rows.last, 1)])
        else:
            (by,) = places([span.of[1]])
            rows = tuple(arithmetic.added(end, by) for end in ends[span.of[0]])
        first = arithmetic.smaller(arithmetic.larger(low, start_of(program, span.start, rows[0])), high)
        end = arithmetic.larger(arithmetic.smaller(start_of(program, span.start, rows[1]), high), first)
        ends.append((first, end))
        if span.axis is not None and span.apart is not None:
            (by,) = places([span.apart])
            if span.mirrored:
                after = arithmetic.plus(by, 1)
                first, end = arithmetic.subtracted(after, end), arithmetic.subtracted(after, first)
            else:
                first, end = arithmetic.added(first, by), arithmetic.added(end, by)
            if span.axis in found:
                others = found[span.axis]
                first, end = arithmetic.larger(first, others[0]), arithmetic.smaller(end, others[1])
            found[span.axis] = first, end
    zero = arithmetic.number(0)
    return {
        axis: (first, arithmetic.larger(arithmetic.subtracted(end, first), zero))
        for axis, (first, end) in found.items()
    }


def start_of(program: Program, name: str, index: Expr) -> Expr:
    """An element of an input in host memory."""
    storage = program.storages[name]
    buffer = program.buffers[storage.buffer]
    at = tuple(of_operands(form, [index]) for form in sets.outputs(storage.index))
    return cast(int64, Load(array_name(buffer, None), at, buffer.dtype))

"""align: the threads that read a row begin at a cache line of its array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, replace

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Input
from tiramisu_py.algorithm.expressions import Binary, Cast, Const, Expr, Iter
from tiramisu_py.algorithm.traversal import accesses, iterators
from tiramisu_py.algorithm.types import int64
from tiramisu_py.errors import CommandError
from tiramisu_py.program.machine.line_alignment import LineAlignment, with_width
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import loop_name, size, statements
from tiramisu_py.schedule.command_fields import Handle, OnStatements, source_given

#: How a row is aligned.
WAYS = ("shift", "line")


def align(program: Program, names: Sequence[str], loop: str, source: str, line: int, by: str) -> Program:
    """Align the loop over `loop` of each statement that reads rows of `source` to lines of so many bytes."""
    declared = program.algorithm.source(source)
    if not isinstance(declared, Input) or declared.scalar:
        raise CommandError(f"{source} is no array of the caller: align is for rows of inputs")
    if by not in WAYS:
        raise CommandError(
            f"by={by!r}: give 'shift', which turns each row around, or 'line', which leaves threads idle"
        )
    lanes, rest = divmod(line, declared.dtype.bytes)
    if rest or lanes < 2:
        raise CommandError(
            f"lines of {line} bytes do not hold several elements of {source} ({declared.dtype}): a GPU's have 128"
        )
    found = [each for each in statements(program, names) if any(a.source == source for a in accesses(each.body))]
    if not found:
        raise CommandError(f"{', '.join(names)} does not read {source}")
    for statement in found:
        wanted = LineAlignment(loop, source, line, by, Const(0, int64), lanes, 0)
        aligned = _aligned(program, statement, loop, declared, wanted)
        program = program.with_statement(replace(statement, along=replace(statement.along, aligned=aligned)))
    return program


def _aligned(program: Program, statement: Statement, loop: str, source: Input, wanted: LineAlignment) -> LineAlignment:
    if statement.role is not Role.VALUE:
        raise CommandError(f"{statement.handle} computes no values of its own: align is for a gather of rows")
    if loop not in statement.dims or loop not in program.point_names(statement):
        raise CommandError(f"{loop} is not an index of {statement.handle}: choose one of {', '.join(statement.dims)}")
    axis = statement.dims.index(loop)
    side = sets.smallest_value(statement.instances, axis), sets.largest_value(statement.instances, axis)
    if side[0] != 0 or side[1] is None:
        raise CommandError(
            f"{loop} of {statement.handle} does not run from 0 to a constant: aligned rows have as many values "
            f"as a constant says, such as {{{loop}: 513}}"
        )
    extent = side[1] + 1
    if with_width(statement.instances.intersect_params(program.context), axis, extent, extent) is None:
        raise CommandError(f"{statement.handle} has rows of different lengths along {loop}: align is for whole rows")
    row = _row(statement, loop, source)
    return replace(wanted, row=row, extent=extent)


def _row(statement: Statement, loop: str, source: Input) -> Expr:
    """The place of the first element that a row reads, counted in elements."""
    reads = [access for access in accesses(statement.body) if access.source == source.name]
    first = reads[0]
    rows = first.indices[:-1]
    last = first.indices[-1]
    moved = isinstance(last, Iter) and last.name == loop
    if len({read.key() for read in reads}) > 1 or not moved or any(loop in iterators(index) for index in rows):
        raise CommandError(
            f"{statement.handle} reads {', '.join(map(str, reads))}: align is for {source.name}[.., {loop}], whose "
            f"neighbours along {loop} are neighbours in memory"
        )
    if source.strides is not None:
        raise CommandError(f"{source.name} has strides: align is for arrays whose rows follow one another")
    return _linear([*rows, Const(0, int64)], source.shape)


def _linear(indices: Sequence[Expr], shape: Sequence[Expr]) -> Expr:
    place: Expr = Const(0, int64)
    for index, extent in zip(indices, shape, strict=True):
        place = Binary("*", place, Cast(extent, int64), int64)
        place = Binary("+", place, Cast(index, int64), int64)
    return place


# -- the command as a value


@dataclass(frozen=True, eq=False)
class AlignRows(OnStatements):
    """Let the threads that read a row of an array begin at a cache line of it.

    ::

        for i: for j: g[i, j] = rows[index[i], j]     -->    for i: for c:  j = (c + s(i)) % 513
                                                                 g[i, j] = rows[index[i], j]
                                                                              (g.align(j, rows, 128, by="shift"))

    Rows of 2052 bytes begin in the middle of a line of 128 bytes, so that a warp reads two lines where one would do.
    With ``by="shift"`` the values of each row are turned around by so many places that the threads of a warp read one
    line; with ``by="line"`` the loop has iterations for whole lines, and those before and after the row are idle: fewer
    requests, more threads. How far a row is turned depends on the values of its index. Which thread computes a value
    does not matter where each value is computed alone: the proof makes sure of that.

    `j` is the last index of `rows`, and runs over whole rows of a constant length; `bytes` are those of a line.
    Neighbours along `j` run on neighbouring threads: ``tag_gpu(.., threads=[j])``, or coalesced with the rows and split
    by whole lines.
    Raises `CommandError` for other reads. Source: Wu, PhD thesis, UIUC 2024, section 4.4.5; DGL, for lines.
    """

    verb = "align"

    loop: Iter
    source: Handle
    bytes: int = 128
    _: KW_ONLY
    by: str = "shift"

    def applied(self, program: Program) -> Program:
        source = source_given(program, self.source)
        line = size(self.bytes, "the bytes of a line", 2)
        return align(program, self.names(program), loop_name(self.loop), source, line, self.by)

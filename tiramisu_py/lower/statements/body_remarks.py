"""Remarks on a statement, with the commands that help, if any are known: vectors whose lanes are apart in memory, and
copies of a body around a point.
"""

from __future__ import annotations

from tiramisu_py.algorithm.expression_text import text_of
from tiramisu_py.dependence.strided_lanes import StridedLanes, carries, contiguous_loop, strided_lanes
from tiramisu_py.lower.statements.index_set_splitting import DomainPiece
from tiramisu_py.passes.vectors.remarks import COPIED, STRIDED
from tiramisu_py.program.loops import LoopId, Vector
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement

#: Copies of a body that are said.
FEWEST_COPIES = 4


def strided_remark(program: Program, statement: Statement) -> str:
    """``strided along i: a, b; b.interchange(j, i) and b.vectorize(j, 8) instead of ...``; "" for whole vectors.

    Commands are named if no two iterations of the other loop need an order, so that it may be the innermost one.
    """
    lanes = strided_lanes(program, statement)
    if lanes is None:
        return ""
    said = f"{STRIDED} {program.loops[lanes.loop].name}: {', '.join(lanes.arrays)}"
    if program.rank_axes or program.blocks is not None:
        return said
    usable = [each for each in statement.loops if program.loops[each].tag is None]
    loop = contiguous_loop(program, lanes, usable)
    if loop is None or carries(program, loop):
        return said
    return f"{said}; {_commands(program, lanes, loop)}"


def copies_remark(program: Program, piece: DomainPiece) -> str:
    """``copied 6 times around the point where (i == N // 2) & (j == 0); u.vectorize(j, 8) keeps one``; "" for one."""
    statement = piece.statement
    if (
        piece.around is None
        or piece.copies < FEWEST_COPIES
        or not statement.loops
        or program.kernel_of(statement) is not None
    ):
        return ""
    said = f"{COPIED} {piece.copies} times around the point where {text_of(piece.around)}"
    last = statement.loops[-1]
    if program.loops[last].tag is not None or program.rank_axes or program.blocks is not None or carries(program, last):
        return said
    return f"{said}; {statement.handle}.vectorize({program.loops[last].name}, 8) keeps one"


def _commands(program: Program, lanes: StridedLanes, loop: LoopId) -> str:
    statement, tag = lanes.statement, program.loops[lanes.loop].tag
    assert isinstance(tag, Vector)
    handle, names = statement.handle, program.loop_names(statement)
    before, after = statement.depth(loop), statement.depth(lanes.loop)
    moved = [*names[before + 1 : after + 1], names[before]]
    order = f"{handle}.{'interchange' if len(moved) == 2 else 'reorder'}({', '.join(moved)}) and "
    rest = "" if tag.remainder == "scalar" else f', remainder="{tag.remainder}"'
    new = f"{handle}.vectorize({names[before]}, {tag.width}{rest})"
    old = f"{handle}.vectorize({names[after]}, {tag.width}, ..)"
    return f"{order if before < after else ''}{new} instead of {old} make whole vectors"

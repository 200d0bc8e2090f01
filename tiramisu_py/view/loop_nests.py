"""The loops of a program as commands see them, before any code is generated."""

from __future__ import annotations

from collections.abc import Collection

from tiramisu_py.program.loops import (
    AXES,
    TENSOR_AXES,
    Bulk,
    GpuBlock,
    GpuThread,
    Loop,
    LoopId,
    Parallel,
    Rank,
    TensorLoop,
    Unroll,
    Vector,
)
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement

_PAD = "    "


def loop_nests(program: Program, names: Collection[str] | None = None) -> str:
    """The nests of a program as indented text, one line a loop or statement, in the order in which they run.

    ::

        for r0, parallel:
            for c0:
                down
                for c1, vector of 16:
                    by

    With the `names` of statements only the nests that have one of them. Loops have no bounds here: those follow from
    the sets of all statements inside.
    """
    positions = program.positions
    found = sorted(program.statements.values(), key=lambda s: positions[s.name])
    if names is not None:
        outer = {s.loops[0] for s in found if s.name in names and s.loops}
        found = [s for s in found if s.name in names or (s.loops and s.loops[0] in outer)]
    lines: list[str] = []
    around: tuple[LoopId, ...] = ()
    for statement in found:
        common = _shared(around, statement)
        for depth, loop in enumerate(statement.loops[common:], common):
            own = program.loops[loop]
            lines.append(f"{_PAD * depth}for {own.name}{_tag(own)}{_joined(own)}:")
        lines.append(f"{_PAD * len(statement.loops)}{statement.handle}")
        around = statement.loops
    return "\n".join(lines)


def _shared(around: tuple[LoopId, ...], statement: Statement) -> int:
    """The number of open loops that a statement is in, too."""
    pairs = zip(around, statement.loops, strict=False)
    return next((depth for depth, (a, b) in enumerate(pairs) if a != b), min(len(around), len(statement.loops)))


def _joined(loop: Loop) -> str:
    return "" if loop.bundle is None else f", of the bundle {', '.join(loop.bundle.names)}"


def _tag(loop: Loop) -> str:
    """The tag of a loop in words, after a comma."""
    match loop.tag:
        case Parallel(schedule=schedule, collapse=collapse, threads=threads):
            dealt = "" if schedule == "static" else f" ({schedule})"
            dealt += "" if threads is None else f" (at most {threads} threads)"
            return f", parallel{dealt}" if collapse else ", parallel with the loop around"
        case Vector(width=width, remainder=remainder):
            rest = "" if remainder == "scalar" else f" (rest: {remainder})"
            return f", vector of {width}{rest}"
        case Unroll(factor=factor):
            return ", unrolled" if factor is None else f", unrolled {factor} times"
        case TensorLoop(instruction=instruction, axis=axis):
            return f", {TENSOR_AXES[axis]} of {instruction}"
        case GpuBlock(axis=axis):
            return f", on block {AXES[axis]}"
        case GpuThread(axis=axis):
            return f", on thread {AXES[axis]}"
        case Rank(axis=axis):
            return f", on ranks (axis {axis})"
        case Bulk():
            return ", one operation"
        case None:
            return ""
        case other:
            return f", {other.name}"

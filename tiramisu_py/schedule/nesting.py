"""Rules of nesting: which tagged loops may be inside which others; checked as soon as a loop is tagged or shared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tiramisu_py.errors import CommandError
from tiramisu_py.program.kernels import axis_name, is_counted
from tiramisu_py.program.loops import (
    Bulk,
    GpuBlock,
    GpuThread,
    Loop,
    LoopId,
    Parallel,
    Rank,
    Tag,
    TensorLoop,
    Unroll,
    Vector,
)
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement


def check_nesting(program: Program, loop: LoopId) -> None:
    """Refuse nests, around the statements inside `loop`, whose tags cannot be nested in each other."""
    inside = program.with_this_loop(loop)
    if not any(program.loops[number].tag for number in {number for s in inside for number in s.loops}):
        return
    counts = Counter(number for s in program.statements.values() for number in s.loops)
    for statement in inside:
        around: list[LoopId] = []
        for inner in statement.loops:
            for outer in around:
                _check_pair(program, statement, outer, inner)
            around.append(inner)
        _check_operation(program, statement, counts)
        _check_adjacent(program, statement)
    _check_shared_blocks(program, inside)


def _check_pair(program: Program, statement: Statement, outer: LoopId, inner: LoopId) -> None:
    a, b = program.loops[outer], program.loops[inner]
    if a.tag is None or b.tag is None:
        return
    why = _contradiction(a, b)
    if why:
        raise CommandError(
            f"in {statement.handle}, the {b.tag.name} loop {b.name} ({b.tagged_by}) is inside the {a.tag.name} loop "
            f"{a.name} ({a.tagged_by}); {why}"
        )


def _contradiction(a: Loop, b: Loop) -> str:
    """Why a loop tagged as b cannot be inside one tagged as a; empty where it can."""
    outer, inner = a.tag, b.tag
    if isinstance(inner, Rank):
        return _rank_inside(outer, inner)
    if isinstance(outer, Parallel) and isinstance(inner, Parallel) and inner.collapse > 0:
        return "to run both on threads, name them in one parallelize"
    if isinstance(outer, TensorLoop) and not isinstance(inner, TensorLoop):
        return "an instruction on matrices runs its three loops at once: tag loops around them, or leave tensorize out"
    if isinstance(outer, Vector) and isinstance(inner, Parallel | Vector | TensorLoop):
        return "a vector loop contains only its lanes"
    if isinstance(outer, Parallel | Vector) and isinstance(inner, GpuBlock | GpuThread):
        return "kernels are started by the host, one after another"
    if isinstance(outer, GpuBlock | GpuThread) and isinstance(inner, Parallel):
        return "there are no threads of the host inside a kernel: run the loop on threads of the GPU, with tag_gpu"
    if isinstance(outer, GpuThread) and isinstance(inner, GpuBlock):
        return "threads are inside blocks: move the block loops outwards"
    same = isinstance(outer, GpuBlock | GpuThread) and type(outer) is type(inner)
    if same and outer.axis == inner.axis:  # type: ignore[union-attr]
        axis = axis_name(inner.axis)  # type: ignore[union-attr]
        return f"both are along axis {axis}: name them in one tag_gpu, which gives each its own axis"
    return ""


def _rank_inside(outer: Tag | None, inner: Rank) -> str:
    """Why a loop over ranks cannot be inside one that is tagged otherwise; empty where it can."""
    if isinstance(outer, Parallel | Vector | GpuBlock | GpuThread):
        return "a rank has threads and GPUs of its own, and is not inside of them: move the loop over ranks outwards"
    if isinstance(outer, Bulk):
        return "a message comes from one rank, and goes to one: move the loop over ranks outwards"
    if isinstance(outer, Rank) and outer.axis == inner.axis:
        return (
            f"both are along axis {inner.axis} of the process grid: name them in one tag_distribute, which gives each "
            "an axis of its own, or give one of them axis="
        )
    return ""


def _check_operation(program: Program, statement: Statement, counts: Mapping[LoopId, int]) -> None:
    """Refuse loops in which the host cannot issue transfers, messages and waits one after another.

    `counts` are the numbers of statements in each loop.
    """
    moves = statement.link.transfer is not None or statement.link.message is not None
    host = moves or statement.role is Role.WAIT
    what = "a wait" if not moves else "half of an exchange" if statement.link.message is not None else "a transfer"
    for number in statement.loops:
        loop = program.loops[number]
        if host and not isinstance(loop.tag, Unroll | Bulk | Rank | None):
            raise CommandError(
                f"{statement.handle} is {what}, which the host issues: it cannot be in the {loop.tag.name} loop "
                f"{loop.name} ({loop.tagged_by})"
            )
        shared = isinstance(loop.tag, Bulk) and counts[number] > 1
        if shared or (isinstance(loop.tag, Bulk) and not moves):
            raise CommandError(f"loop {loop.name} is one operation ({loop.tagged_by}): nothing else can be in it")


def _check_adjacent(program: Program, statement: Statement) -> None:
    blocks = [d for d, loop in enumerate(statement.loops) if isinstance(program.loops[loop].tag, GpuBlock)]
    for depth in range(blocks[0], blocks[-1]) if blocks else ():
        if depth not in blocks:
            loop, last = program.loops[statement.loops[depth]], program.loops[statement.loops[blocks[-1]]]
            raise CommandError(
                f"loop {loop.name} of {statement.name} is between its block loops: a loop of the host is outside of "
                f"all of them, and a loop of the kernel inside; move it, for example to just inside {last.name}"
            )


def _check_shared_blocks(program: Program, inside: tuple[Statement, ...]) -> None:
    """Refuse statements that share some block loop, but not all block loops of the kernel."""
    first: dict[LoopId, tuple[Statement, tuple[LoopId, ...]]] = {}
    for statement in inside:
        blocks = block_loops(program, statement)
        if not blocks:
            continue
        other, theirs = first.setdefault(blocks[0], (statement, blocks))
        few, many = sorted(((statement, blocks), (other, theirs)), key=lambda pair: len(pair[1]))
        counted = [is_counted(program, loop) for loop in many[1]]
        in_parts = many[1][: len(few[1])] == few[1] and all(counted[len(few[1]) :])
        if not in_parts:
            apart = next(x for x in many[1] if x not in few[1])
            raise CommandError(
                f"{few[0].name} and {many[0].name} share the block loop {program.loops[blocks[0]].name}, but not "
                f"{program.loops[apart].name}: the statements of a kernel share all of its block loops"
            )


def block_loops(program: Program, statement: Statement) -> tuple[LoopId, ...]:
    """The block loops around a statement, outermost first."""
    return tuple(loop for loop in statement.loops if isinstance(program.loops[loop].tag, GpuBlock))

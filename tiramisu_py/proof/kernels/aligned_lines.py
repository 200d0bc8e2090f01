"""Loops that are aligned to cache lines: which thread computes a value of a row depends on values, and must not matter.

In a program an iteration of such a loop computes the value of its own number; in code another one of the same row (see
`program.machine.line_alignment`). For each row this is a permutation of its values, if the row is whole and how far it
is turned depends on nothing but the row. Then the same executions take place in other threads. No order of two of them
is needed if no two access a place that one of them stores to: each stores to a place of its own, in an array that none
reads, and nothing else is in the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator

from tiramisu_py import sets
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.program.kernels import KernelNest
from tiramisu_py.program.machine.line_alignment import LineAlignment, with_width
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.proof.violations.condition import Sentence, Topic
from tiramisu_py.proof.violations.findings import Finding, Key, fault, wanted


def _aligned(program: Program) -> str:
    names = ", ".join(s.handle for s in program.statements.values() if s.along.aligned is not None)
    return f"the threads of {names} may take turns in each row: no two of its values meet" if names else ""


SENTENCES = (Sentence(Topic.LOOPS, _aligned),)


def findings(flow: Flow, sought: Key | None = None) -> Iterator[Finding]:
    """The aligned loops whose iterations are not free to take turns."""
    program = flow.accesses.program
    for statement in program.statements.values():
        if statement.along.aligned is None or not wanted(Key("aligned", (statement.name,)), sought):
            continue
        nest = next((nest for nest in flow.kernels if statement.name in {s.name for s in nest.statements}), None)
        why = _reason(program, statement, statement.along.aligned, nest)
        if why is not None:
            message = f"{statement.handle} is aligned to lines of {statement.along.aligned.source}, and {why[0]}"
            yield fault("race", "aligned", statement, message, why[1])


def _reason(
    program: Program, statement: Statement, aligned: LineAlignment, nest: KernelNest | None
) -> tuple[str, str] | None:
    """Why threads may not take turns, and what to do; None where they may."""
    if nest is None:
        return "runs in no kernel", f"{statement.handle}.tag_gpu(blocks=[..], threads=[{aligned.iterator}])"
    others = [s.handle for s in (*nest.statements, *nest.beside) if s.acts and s.name != statement.name]
    if others:
        return f"shares its kernel with {', '.join(others)}", "give it a kernel of its own"
    if statement.role is not Role.VALUE or statement.memory.prefetches:
        return "does not compute values alone", "align is for a gather of rows"
    storage = program.storages[statement.memory.target]
    reads = {program.storage_for(statement, source).buffer for source in statement.loads if source in program.storages}
    place = program.place(statement, storage, program.value_of(statement))
    if storage.buffer in reads or not sets.graph(place, statement.instances).is_injective():
        return (
            f"reads what it stores in {storage.buffer}, or stores twice to one place",
            "keep it in an array of its own",
        )
    return _unlike_rows(program, statement, aligned, nest)


def _unlike_rows(
    program: Program, statement: Statement, aligned: LineAlignment, nest: KernelNest
) -> tuple[str, str] | None:
    """Why the iterations of a row are not its values turned around; None where they are."""
    if aligned.iterator not in statement.dims:
        return f"has no loop over {aligned.iterator} any more", "give align after the commands that change its domain"
    axis = statement.dims.index(aligned.iterator)
    variable = sets.variables(statement.frame)[axis]
    names = program.point_names(statement)
    point = sets.outputs(statement.point)[names.index(aligned.iterator)]
    instances = statement.instances.intersect_params(program.context)
    wide = with_width(instances, axis, aligned.extent, aligned.width)
    if wide is None or not point.plain_is_equal(variable):
        return f"does not run over whole rows of {aligned.extent} values", "give align before it is cut into parts"
    thread = sets.outputs(nest.thread_of(statement))[0]
    start = sets.modulo(thread.sub(variable), aligned.lanes)
    others = [form for position, form in enumerate(sets.variables(statement.frame)) if position != axis]
    row = sets.function(statement.frame, None, others)
    if not sets.relating(row, sets.function(statement.frame, None, [start]), wide).is_single_valued():
        return (
            f"neighbours along {aligned.iterator} are not on neighbouring threads, line by line",
            f"run {aligned.iterator} on threads, or coalesce it with the rows and split by {4 * aligned.lanes}",
        )
    if not sets.graph(statement.coords, wide).is_injective():
        return (
            f"{aligned.width} iterations for each row of {aligned.extent} values are in the way of each other",
            f'by="shift" has as many iterations as values; for by="line" leave {aligned.iterator} a loop of its own',
        )
    return None

"""The scenes of a picture, from a program and the report of its check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.errors import ArgumentError
from tiramisu_py.program.program import Program
from tiramisu_py.program.storage import home_of
from tiramisu_py.proof import Report
from tiramisu_py.view.pictures.picture_instances import ordered_instances, pictured_statement
from tiramisu_py.view.pictures.picture_messages import messages
from tiramisu_py.view.pictures.picture_reads import PictureMemory
from tiramisu_py.view.pictures.picture_sizes import amount, chosen_sizes
from tiramisu_py.view.pictures.picture_values import picture_values
from tiramisu_py.view.pictures.picture_violations import pictured_violations
from tiramisu_py.view.pictures.scene import PicturedStatement, Scene

#: The most counterexamples at different sizes that one picture shows.
MOST_SCENES = 3


def pictured(
    program: Program, report: Report, sizes: Mapping[str, int], inputs: Mapping[str, Any] | None = None
) -> tuple[Scene, ...]:
    """The picture of a program as it is proven (completed, and spread over its ranks).

    Without `sizes`, a refused program is shown at the sizes of its counterexamples, then at sizes that are easy to
    see. Values are those of `inputs`, cut to these sizes; of an input that is not given, random ones. Raises
    `ArgumentError` for sizes at which it is not defined or cannot be drawn, for inputs that do not fit, and for blocks
    with bounds of their own.
    """
    if program.blocks is not None:
        raise ArgumentError(
            f"{program.algorithm.name} has blocks whose bounds are known only at run time: no picture of it is drawn"
        )
    accesses = MemoryAccesses(program)
    wanted = list[Mapping[str, int]]()
    for violation in report.violations if not sizes else ():
        params = violation.witness.params
        if set(params) == set(program.algorithm.params) and params and params not in wanted:
            wanted.append(params)
    wanted = [*wanted[:MOST_SCENES], chosen_sizes(accesses, sizes)]
    kept = [given for number, given in enumerate(wanted) if given not in wanted[:number]]
    return tuple(
        _scene(accesses, report, given, inputs) for given in kept if given is kept[-1] or amount(accesses, given)
    )


def _scene(
    accesses: MemoryAccesses, report: Report, sizes: Mapping[str, int], inputs: Mapping[str, Any] | None
) -> Scene:
    program = accesses.program
    ordered = ordered_instances(program, sizes)
    memory = PictureMemory(accesses, ordered, sizes)
    statements = _statements(program, memory)
    stored, reads = memory.stored(), memory.reads(not report.ok)
    values = picture_values(program, sizes, inputs)
    instances = values.of_instances(stored)
    return Scene(
        name=program.algorithm.name,
        verdict="proven" if report.ok else "refused",
        sizes={name: sizes[name] for name in program.algorithm.params},
        statements=statements,
        arrays=memory.arrays(),
        executors=ordered.executors,
        instances=instances,
        reads=reads,
        messages=messages(program, ordered, sizes),
        violations=pictured_violations(report, sizes, statements, instances, reads),
        commands=tuple(str(entry.command) for entry in program.log),
        values=values.named(statements, instances, reads),
        inputs=values.words,
    )


def _statements(program: Program, memory: PictureMemory) -> tuple[PicturedStatement, ...]:
    found = list[PicturedStatement]()
    for statement in program.statements.values():
        array = None
        if statement.stores and memory.accesses.write(statement) is not None:
            buffer = program.buffers[program.storages[statement.target].buffer]
            array = memory.number(home_of(buffer, program.stores_at(statement)))
        found.append(pictured_statement(program, statement, array))
    return tuple(found)

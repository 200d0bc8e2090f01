"""Operands that are kept between calls: the values of an input in a layout of their own, which the caller passes.

A program with kept operands is proven whole, with the statements that pack them before everything that reads them.
Lowering then cuts it in two functions, as `proof.memory.operands_between_calls` shows to be possible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.extents_from_arguments import params_of
from tiramisu_py.records import dataclass

if TYPE_CHECKING:
    from tiramisu_py.program.program import Program
    from tiramisu_py.program.statement import Statement


@dataclass(frozen=True)
class KeptOperand:
    """An operand that callers keep: `storage` holds the input `source`, packed by a function of its own."""

    storage: str
    source: str


def packing(program: Program, source: str) -> tuple[Statement, ...]:
    """The statements that pack the kept operands of an input."""
    kept = {operand.storage for operand in program.calls.kept if operand.source == source}
    return tuple(statement for statement in program.storing if statement.memory.target in kept)


def packed_from(program: Program) -> tuple[str, ...]:
    """The inputs of which operands are kept."""
    return tuple(dict.fromkeys(operand.source for operand in program.calls.kept))


def sizes_of(program: Program, source: str) -> tuple[str, ...]:
    """The parameters on which the kept operands of an input, its facts, and the statements that pack them depend."""
    buffers = [program.buffers[program.storages[o.storage].buffer] for o in program.calls.kept if o.source == source]
    declared = program.algorithm.inputs[source]
    extents = [*declared.shape, *(declared.values or ()), *(extent for each in buffers for extent in each.extents)]
    found = {name for extent in extents for name in params_of(extent)}
    for statement in packing(program, source):
        instances = statement.instances.gist_params(program.context.params())
        found.update(sets.involved_params(instances))
        for function in (statement.point, statement.coords):
            found.update(sets.involved_params(sets.graph(function)))
    return tuple(name for name in program.algorithm.params if name in found)

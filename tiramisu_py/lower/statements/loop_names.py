"""Names of loop variables: the user's, made unique within each nest."""

from __future__ import annotations

from collections.abc import Iterable

from tiramisu_py.algorithm.expressions import Call, Expr, Iter, Param
from tiramisu_py.algorithm.reserved import CUDA_WORDS
from tiramisu_py.algorithm.spellings import fresh_name, indexed
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.algorithm.types import int64
from tiramisu_py.program.fresh_names import RESERVED
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.program import Program


def unique(name: str, taken: Iterable[str]) -> str:
    """A name for generated code: the given one, with a number after it if it is taken."""
    return fresh_name(name, set(taken), indexed)


def reserved_names(program: Program) -> frozenset[str]:
    """The names that no loop variable of a program may have."""
    algorithm = program.algorithm
    calls = (
        node.function
        for statement in program.statements.values()
        for root in (statement.body, *statement.guards)
        for node in walk(root)
        if isinstance(node, Call)
    )
    declared = {algorithm.name, *algorithm.params, *algorithm.inputs, *program.buffers}
    words = RESERVED | CUDA_WORDS if any(loop.is_gpu for loop in program.loops.values()) else RESERVED
    return frozenset({*words, *declared, *calls})


def loop_value(program: Program, loop: LoopId, variable: str) -> Expr:
    """The value of a loop's variable; for a loop over ranks, the parameter of this rank's coordinate."""
    return Param(variable, int64) if program.loops[loop].is_rank else Iter(variable, int64)


def loop_variables(program: Program, reserved: frozenset[str]) -> dict[LoopId, str]:
    """The variable of each loop: the loop's name, made different from those around it and the reserved ones."""
    found: dict[LoopId, str] = {}
    for statement in program.statements.values():
        outer: list[str] = []
        for loop in statement.loops:
            if loop not in found:
                found[loop] = unique(program.loops[loop].name, reserved.union(outer))
            outer.append(found[loop])
    return found

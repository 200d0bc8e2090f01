"""Which partial results ranks can combine."""

from __future__ import annotations

from tiramisu_py.algorithm.declarations import Computation, logical_and, logical_or, max_, min_, product, sum_
from tiramisu_py.errors import CommandError
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement

#: The operators that MPI has.
NUMBERS, TRUTHS = (sum_, product, min_, max_), (logical_and, logical_or)


def check_operator(program: Program, statement: Statement) -> None:
    """Refuse a reduction whose partial results MPI cannot combine."""
    source = program.algorithm.source(statement.source)
    assert isinstance(source, Computation) and source.op is not None
    known = TRUTHS if source.dtype.is_bool else NUMBERS
    if not any(source.op is operator for operator in known):
        names = ", ".join(f"tm.{operator.name}" for operator in known)
        raise CommandError(
            f"combine=tm.PRIVATE: ranks combine {source.dtype} by {names}, and {source.name} is reduced by "
            f"{source.op.name}: distribute a loop of its values instead"
        )
    if source.dtype.name in ("float16", "bfloat16"):
        raise CommandError(
            f"combine=tm.PRIVATE: ranks do not combine partial results of type {source.dtype}: let {source.name} "
            "have dtype=tm.float32"
        )

"""Whether the proof and the judge agree about a GPU program."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tests.oracle.agreeing.agreement import Verdict, verdict
from tests.oracle.generators.script import Script
from tests.oracle.judges.gpu_judge import judge
from tests.oracle.judges.judge import Failure, sizes
from tests.oracle.judges.values import Values
from tiramisu_py.derive.barriers.barriers import with_barriers
from tiramisu_py.program.program import Program


def judged(script: Script, params: Mapping[str, int], given: Values | None = None) -> list[Failure]:
    """What the judge finds in the program with its barriers; it has its own idea of what a tree is."""
    return judge(_with_barriers(script.program), params, given)


@lru_cache(maxsize=4)
def _with_barriers(program: Program) -> Program:
    """The same program for all sizes at which it is judged."""
    return with_barriers(program)


def small(script: Script) -> list[dict[str, int]]:
    """Sizes from nothing to two full blocks and something left over, or in two dimensions less."""
    return sizes(script.program, 5 if len(script.program.algorithm.params) == 1 else 3)


def compared(script: Script) -> Verdict:
    """The proof's verdict beside the judge's, at all small sizes and at the proof's counterexamples."""
    return verdict(script, judged, small(script))


def uses_gpu(script: Script) -> bool:
    """Whether a kernel or a transfer is part of the program."""
    return any(script.program.queue_of(statement) is not None for statement in script.program.storing)

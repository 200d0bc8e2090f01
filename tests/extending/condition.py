"""A condition: vectors have no more than sixteen lanes."""

from __future__ import annotations

from collections.abc import Iterator

from tiramisu_py.dependence.flow import Flow
from tiramisu_py.program.loops import Vector
from tiramisu_py.program.program import Program
from tiramisu_py.proof.violations.condition import Condition, Sentence, Topic
from tiramisu_py.proof.violations.findings import Finding, Key, fault

MOST = 16  # lanes


def findings(flow: Flow, sought: Key | None = None) -> Iterator[Finding]:
    """Each vector loop that has more lanes."""
    program = flow.accesses.program
    for statement in program.acting:
        for loop in (program.loops[number] for number in statement.loops):
            if isinstance(loop.tag, Vector) and loop.tag.width > MOST:
                message = (
                    f"the vector loop {loop.name} of {statement.handle} has {loop.tag.width} lanes, more than {MOST}"
                )
                repair = f"{statement.handle}.vectorize({loop.name}, {MOST})"
                yield fault("reach", f"lanes of {loop.name}", statement, message, repair)


def _sentence(program: Program) -> str:
    vectors = any(isinstance(loop.tag, Vector) for loop in program.loops.values())
    return f"vectors have at most {MOST} lanes" if vectors else ""


CONDITION = Condition("condition", findings, (Sentence(Topic.LOOPS, _sentence),))

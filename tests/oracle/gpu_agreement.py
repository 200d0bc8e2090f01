"""Whether the proof and the judge agree about a GPU program, and whether its loops compute what the algorithm says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.oracle.agreement import Verdict, wrong_results
from tests.oracle.gpu_judge import judge
from tests.oracle.judge import Failure, sizes
from tests.oracle.script import Script
from tiramisu_py.errors import UnsupportedError, Violation
from tiramisu_py.lower import lower, optimise
from tiramisu_py.lower.ir import LoopFunction


def judged(script: Script, params: Mapping[str, int]) -> list[Failure]:
    """What the judge finds in the program with its barriers."""
    return judge(script.function.completed, params)


def small(script: Script) -> list[dict[str, int]]:
    """Sizes from nothing to two full blocks and something left over, or in two dimensions less."""
    return sizes(script.program, 5 if len(script.program.algorithm.params) == 1 else 3)


def compared(script: Script) -> Verdict:
    """The proof's verdict beside the judge's, at all small sizes and at the proof's counterexamples."""
    report = script.function.check()
    if report.ok:
        for params in small(script):
            failures = judged(script, params)
            if failures:
                return Verdict("unsound", f"accepted, but at {params}: {failures[0]}")
        return Verdict("accepted")
    known = [violation for violation in report.violations if violation.kind != "unknown"]
    if not known:
        return Verdict("unknown", str(report.violations[0]))
    for violation in known:
        if not _confirmed(script, violation, small(script)):
            return Verdict("strict", f"the judge finds nothing: {violation}")
    return Verdict("refused")


def _confirmed(script: Script, violation: Violation, all_sizes: Sequence[Mapping[str, int]]) -> bool:
    """Whether the judge finds something wrong at a counterexample.

    Memory that cannot be reached, and partial results that are kept apart, are properties of a program at all sizes.
    """
    if judged(script, {**all_sizes[0], **violation.witness.params}):
        return True
    return violation.kind in ("reach", "reduction") and any(judged(script, params) for params in all_sizes)


def uses_gpu(script: Script) -> bool:
    """Whether a kernel or a transfer is part of the program."""
    return any(script.program.queue_of(statement) is not None for statement in script.program.storing)


def loops_of(script: Script) -> dict[str, LoopFunction]:
    """The loops of a proven program, before and after the passes; none where it cannot be turned into loops."""
    try:
        plain = lower(script.function.completed)
        return {"plain": plain, "optimised": optimise(plain)}
    except UnsupportedError:
        return {}


def wrong_loops(script: Script, seed: int) -> str:
    """What is wrong with the loops of a proven program; empty where nothing is."""
    for number, params in enumerate(small(script)[::2]):
        for which, function in loops_of(script).items():
            wrong = wrong_results(script, function, params, seed + number)
            if wrong:
                return f"{which} loops, {wrong}"
    return ""

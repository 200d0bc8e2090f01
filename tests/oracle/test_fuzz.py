"""Random programs: the proof against the judge, and the loops and the compiled code against `evaluate()`.

Which seeds these are, `tests.oracle.seeds` says; ``scripts/fuzz`` tries programs for as long as one likes.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.oracle.agreement import Verdict, compare, compared, inputs, kind_agrees, wrong_results
from tests.oracle.judge import sizes
from tests.oracle.random_programs import random_script
from tests.oracle.script import Script, shrunk
from tests.oracle.seeds import FIRST, TIMES, seeds
from tiramisu_py.lower import lower
from tiramisu_py.passes import optimise

CHUNKS = range(5)
COMPARED = 160 * TIMES  # in each chunk
RUN = 30 * TIMES
COMPILED = 4 * TIMES


def small(script: Script, largest: int) -> list[dict[str, int]]:
    """Sizes from nothing to `largest`, or in two dimensions a little less."""
    return sizes(script.program, largest if len(script.program.algorithm.params) == 1 else largest - 2)


def larger(script: Script) -> list[dict[str, int]]:
    """Two sizes at which strips and tiles are full, and something is left over."""
    names = script.program.algorithm.params
    return [dict(zip(names, values, strict=False)) for values in ((9, 11), (17, 8))]


def said(script: Script, verdict: Verdict) -> str:
    """A disagreement with the shortest program that shows it."""
    shorter = shrunk(script, lambda s: compared(s).kind == verdict.kind)
    return f"{verdict.kind}: {compared(shorter).text}\n{shorter.text}"


@pytest.mark.parametrize("chunk", CHUNKS)
def test_the_proof_and_the_judge_agree(chunk: int) -> None:
    """No program is accepted that the judge finds wrong, none refused that it finds right.

    The counterexample is the smallest, but for a few with several failures at once, and few are undecided.
    """
    found: Counter[str] = Counter()
    for seed in seeds(chunk, COMPARED, 0):
        script = random_script(seed)
        verdict = compared(script)
        found[verdict.kind] += 1
        assert verdict.kind not in ("unsound", "strict"), f"seed {seed}, {said(script, verdict)}"
        if verdict.kind == "refused" and not kind_agrees(script):
            found["of another kind"] += 1
    assert found["accepted"] > COMPARED // 6 and found["refused"] > COMPARED // 6, found
    assert found["unknown"] + found["not smallest"] <= COMPARED // 20, found
    assert found["of another kind"] <= COMPARED // 10, found


@pytest.mark.parametrize("chunk", CHUNKS)
def test_loops_compute_what_the_algorithm_says(chunk: int) -> None:
    """The adversarial machine runs the loops before and after the passes, to the same bits as `evaluate()`."""
    done = 0
    for seed in seeds(chunk, RUN, 1):
        script = random_script(seed)
        if not script.function.check().ok:
            continue
        plain = lower(script.program)
        loops = {"plain": plain, "optimised": optimise(plain)}
        done += 1
        for params in [*small(script, 5)[::2], *larger(script)]:
            for which, function in loops.items():
                wrong = wrong_results(script, function, params, seed)
                assert not wrong, f"seed {seed}, {which} loops, {wrong}\n{script.text}"
    assert done > RUN // 10


@pytest.mark.parametrize("chunk", CHUNKS)
def test_compiled_code_computes_what_the_algorithm_says(chunk: int) -> None:
    accepted = (s for s in map(random_script, seeds(chunk, 100 * COMPILED, 2)) if s.function.check().ok)
    for _, script in zip(range(COMPILED), accepted, strict=False):
        kernel = script.function.compile()
        storages, outputs = script.program.storages, script.program.algorithm.outputs
        for params in [*small(script, 5), *larger(script)]:
            given = inputs(script, params, chunk)
            got = kernel(**{name: array.copy() for name, array in given.items()}, **params)
            results = zip(outputs, got if len(outputs) > 1 else (got,), strict=True)
            wrong = compare(script, params, given, {storages[name].buffer: array for name, array in results})
            assert not wrong, f"chunk {chunk} from seed {FIRST}, compiled, {wrong}\n{script.text}"

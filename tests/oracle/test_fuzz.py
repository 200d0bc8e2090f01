"""Random programs: the proof against the judge, and the loops against `evaluate()`.

`TIRAMISU_FUZZ` multiplies the number of programs, `TIRAMISU_FUZZ_SEED` moves them elsewhere.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.oracle.agreement import Verdict, compare, compared, inputs, wrong_results
from tests.oracle.judge import sizes
from tests.oracle.random_programs import random_script
from tests.oracle.script import Script, shrunk
from tiramisu_py.errors import UnsupportedError
from tiramisu_py.lower import lower, optimise

TIMES = int(os.environ.get("TIRAMISU_FUZZ", "1"))
FIRST = int(os.environ.get("TIRAMISU_FUZZ_SEED", "0"))
CHUNKS = range(20)
IN_A_CHUNK = 100 * TIMES
COMPILED = 30 * TIMES


def seeds(chunk: int, count: int) -> range:
    start = FIRST + chunk * count
    return range(start, start + count)


def said(script: Script, verdict: Verdict) -> str:
    """A disagreement with the shortest program that shows it."""
    shorter = shrunk(script, lambda s: compared(s).kind == verdict.kind)
    return f"{verdict.kind}: {compared(shorter).text}\n{shorter.text}"


@pytest.mark.parametrize("chunk", CHUNKS)
def test_the_proof_and_the_judge_agree(chunk: int) -> None:
    found: Counter[str] = Counter()
    for seed in seeds(chunk, IN_A_CHUNK):
        script = random_script(seed)
        verdict = compared(script)
        found[verdict.kind] += 1
        assert verdict.kind in ("accepted", "refused", "unknown"), f"seed {seed}, {said(script, verdict)}"
    assert found["accepted"] > IN_A_CHUNK // 10 and found["refused"] > IN_A_CHUNK // 10, found
    assert found["unknown"] <= IN_A_CHUNK // 50, found


@pytest.mark.parametrize("chunk", CHUNKS)
def test_loops_compute_what_the_algorithm_says(chunk: int) -> None:
    for seed in seeds(chunk, 30 * TIMES):
        script = random_script(seed)
        if not script.function.check().ok:
            continue
        try:
            loops = lower(script.program)
            faster = optimise(loops)
        except UnsupportedError:
            continue
        for params in sizes(script.program, 5 if len(script.program.algorithm.params) == 1 else 3)[::2]:
            for function in (loops, faster):
                wrong = wrong_results(script, function, params, seed)
                assert not wrong, (
                    f"seed {seed}, {'optimised' if function is faster else 'plain'} loops, {wrong}\n{script.text}"
                )


def test_compiled_code_computes_what_the_algorithm_says() -> None:
    done = 0
    for seed in range(FIRST + 10_000, FIRST + 20_000):
        script = random_script(seed)
        if done == COMPILED:
            break
        if not script.function.check().ok:
            continue
        kernel = script.function.compile()
        done += 1
        for params in sizes(script.program, 5 if len(script.program.algorithm.params) == 1 else 3):
            given = inputs(script, params, seed)
            got = kernel(**given, **params)
            outputs = script.program.algorithm.outputs
            arrays = dict(zip(outputs, got if len(outputs) > 1 else (got,), strict=True))
            storages = script.program.storages
            wrong = compare(script, params, given, {storages[name].buffer: array for name, array in arrays.items()})
            assert not wrong, f"seed {seed}, compiled, {wrong}\n{script.text}"

"""Random GPU programs: the proof against the judge, and the loops in adversarial order against `evaluate()`.

Which seeds these are, `tests.oracle.seeds` says; ``scripts/fuzz`` tries programs for as long as one likes.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.oracle.agreement import Verdict
from tests.oracle.gpu_agreement import compared, loops_of, uses_gpu, wrong_loops
from tests.oracle.gpu_random import random_gpu_script
from tests.oracle.script import Script, shrunk
from tests.oracle.seeds import TIMES, seeds

CHUNKS = range(2)
COMPARED = 60 * TIMES  # in each chunk
RUN = 25 * TIMES


def said(script: Script, verdict: Verdict) -> str:
    """A disagreement with the shortest program that shows it."""
    shorter = shrunk(script, lambda s: compared(s).kind == verdict.kind)
    return f"{verdict.kind}: {compared(shorter).text}\n{shorter.text}"


@pytest.mark.parametrize("chunk", CHUNKS)
def test_the_proof_and_the_judge_agree_on_gpu_programs(chunk: int) -> None:
    """No program is accepted that the judge finds wrong, none refused that it finds right; few are undecided."""
    found: Counter[str] = Counter()
    for seed in seeds(chunk, COMPARED, 3):
        script = random_gpu_script(seed)
        verdict = compared(script)
        found[verdict.kind] += 1
        assert verdict.kind not in ("unsound", "strict"), f"seed {seed}, {said(script, verdict)}"
    assert found["accepted"] > COMPARED // 20 and found["refused"] > COMPARED // 6, found
    assert found["unknown"] <= COMPARED // 10, found


@pytest.mark.parametrize("chunk", CHUNKS)
def test_loops_of_gpu_programs_compute_what_the_algorithm_says(chunk: int) -> None:
    """The adversarial machine runs kernels, copies and waits before and after the passes."""
    done = 0
    for seed in seeds(chunk, RUN, 4):
        script = random_gpu_script(seed)
        if uses_gpu(script) and script.function.check().ok:
            wrong = wrong_loops(script, seed)
            assert not wrong, f"seed {seed}, {wrong}\n{script.text}"
            done += bool(loops_of(script))
    assert done > RUN // 20

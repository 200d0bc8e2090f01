"""Random cooperative programs: the proof against the judge, and the loops, in one process and on ranks, against
`evaluate()`.

Which seeds these are, `tests.oracle.seeds` says; ``scripts/fuzz`` tries programs for as long as one likes.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.oracle.agreement import Verdict
from tests.oracle.cooperative_agreement import compared, copies, wrong_kernel, wrong_loops
from tests.oracle.cooperative_random import random_cooperative_script
from tests.oracle.cooperative_ranks import is_damaged, random_ranked_script, wrong_on_ranks
from tests.oracle.script import Script, shrunk
from tests.oracle.seeds import TIMES, seeds

CHUNKS = range(2)
COMPARED = 16 * TIMES  # in each chunk
COMPILED = 1 * TIMES
ON_RANKS = 2 * TIMES


def said(script: Script, verdict: Verdict, seed: int) -> str:
    """A disagreement with the shortest program that shows it."""
    shorter = shrunk(script, lambda s: compared(s, seed).kind == verdict.kind)
    return f"seed {seed}, {verdict.kind}: {compared(shorter, seed).text}\n{shorter.text}"


@pytest.mark.parametrize("chunk", CHUNKS)
def test_the_proof_and_the_judge_agree_on_cooperative_programs(chunk: int) -> None:
    """No program is accepted that the judge finds wrong, none refused that it finds right; and those run right."""
    found: Counter[str] = Counter()
    for seed in seeds(chunk, COMPARED, 8):
        script = random_cooperative_script(seed)
        verdict = compared(script, seed)
        found[verdict.kind] += 1
        assert verdict.kind not in ("unsound", "strict"), said(script, verdict, seed)
        if verdict.kind == "accepted" and copies(script):
            found["with copies"] += 1
            wrong = wrong_loops(script, seed)
            assert not wrong, f"seed {seed}, {wrong}\n{script.text}"
    assert found["with copies"] + found["refused"] > 0, found
    assert found["unknown"] <= COMPARED // 4, found


@pytest.mark.parametrize("chunk", CHUNKS)
def test_cooperative_programs_run_right_in_the_simulator(chunk: int) -> None:
    """Compiled, with its delayed copies and all its checks."""
    done = 0
    for seed in seeds(chunk, 40 * COMPILED, 9):
        script = random_cooperative_script(seed)
        if done < COMPILED and copies(script) and script.function.check().ok:
            done += 1
            wrong = wrong_kernel(script, seed)
            assert not wrong, f"seed {seed}, {wrong}\n{script.text}"
        if done == COMPILED:
            break
    assert done == COMPILED


@pytest.mark.parametrize("chunk", CHUNKS)
def test_cooperative_programs_on_ranks_run_right(chunk: int) -> None:
    """What is derived is proven; and what is proven, whole or damaged, computes what it should at any time."""
    found: Counter[str] = Counter()
    for seed in seeds(chunk, 10 * ON_RANKS, 10):
        if found.total() >= ON_RANKS and found["proven"]:
            break
        script = random_ranked_script(seed)
        report = script.function.check()
        found["proven" if report.ok else "refused"] += 1
        assert report.ok or is_damaged(script), f"seed {seed}, {report}\n{script.text}"
        if report.ok:
            wrong = wrong_on_ranks(script, seed, 2 * min(TIMES, 2), 4 if is_damaged(script) else 1)
            assert not wrong, f"seed {seed}, {wrong}\n{script.text}"
    assert found["proven"], found

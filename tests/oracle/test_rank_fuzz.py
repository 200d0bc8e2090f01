"""Random programs with ranks: the proof against the judge, and the loops on ranks, at the worst times, against
`evaluate()`; derived exchanges against what is missing.

Which seeds these are, `tests.oracle.seeds` says; ``scripts/fuzz`` tries programs for as long as one likes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.oracle.agreement import Verdict
from tests.oracle.rank_agreement import communicates, compared, loops_of, needed, small, wrong_loops
from tests.oracle.rank_patterns import random_pattern_script
from tests.oracle.rank_random import random_derived_script, random_rank_script
from tests.oracle.script import Script, shrunk
from tests.oracle.seeds import TIMES, seeds

CHUNKS = range(2)
COMPARED = 25 * TIMES  # in each chunk
RUN = 5 * TIMES
DERIVED = 5 * TIMES
KINDS = {"stencils": random_rank_script, "patterns": random_pattern_script}


def said(script: Script, verdict: Verdict) -> str:
    """A disagreement with the shortest program that shows it."""
    shorter = shrunk(script, lambda s: compared(s).kind == verdict.kind)
    return f"{verdict.kind}: {compared(shorter).text}\n{shorter.text}"


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_proof_and_the_judge_agree_on_programs_with_ranks(kind: str, chunk: int) -> None:
    """No program is accepted that the judge finds wrong, few are refused that it finds right, few are undecided."""
    found: Counter[str] = Counter()
    for seed in seeds(chunk, COMPARED, 5):
        script = KINDS[kind](seed)
        verdict = compared(script)
        found[verdict.kind] += 1
        found["with messages"] += verdict.kind == "accepted" and communicates(script)
        assert verdict.kind != "unsound", f"seed {seed}, {said(script, verdict)}"
        if found["strict"] > COMPARED // 12:
            assert verdict.kind != "strict", f"seed {seed}, {said(script, verdict)}"
    assert found["with messages"] and found["refused"] > COMPARED // 8, found
    assert found["unknown"] <= COMPARED // 8, found


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("kind", KINDS)
def test_ranks_compute_what_the_algorithm_says(kind: str, chunk: int) -> None:
    """Whatever the timing, before and after the passes; and they send what the program says."""
    assert _right(KINDS[kind], seeds(chunk, RUN, 6)) > 0


def _right(made: Callable[[int], Script], of: range) -> int:
    done = 0
    for seed in of:
        script = made(seed)
        if communicates(script) and script.function.check().ok:
            wrong = wrong_loops(script, seed)
            assert not wrong, f"seed {seed}, {wrong}\n{script.text}"
            done += bool(loops_of(script))
    return done


@pytest.mark.parametrize("chunk", CHUNKS)
def test_derived_exchanges_bring_what_is_missing_and_nothing_more(chunk: int) -> None:
    """They are proven, and as many elements as each rank reads and has not; more where ranks compute some twice."""
    done = 0
    for seed in seeds(chunk, DERIVED, 7):
        script = random_derived_script(seed)
        if not communicates(script):
            continue
        done += 1
        report = script.function.check()
        assert report.ok, f"seed {seed}, {report}\n{script.text}"
        for params in small(script) if "derive_transfers()" in script.text else ():
            sent, least = script.function.communication(**params).elements, needed(script, params)
            assert sent == least, f"seed {seed}, at {params}: {sent} elements are sent, {least} needed\n{script.text}"
    assert done
    assert _right(random_derived_script, seeds(chunk, DERIVED // 2, 7)) > 0

"""The proof against the judge on programs that no command would make: it accepts none that is wrong."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.oracle.agreeing.agreement import compared
from tests.oracle.generators.random_programs import random_script
from tests.programs.mutants import mutated

IN_A_CHUNK = 40


@pytest.mark.parametrize("chunk", range(6))
def test_no_program_that_is_wrong_is_accepted(chunk: int) -> None:
    found: Counter[str] = Counter()
    for seed in range(chunk * IN_A_CHUNK, (chunk + 1) * IN_A_CHUNK):
        script = random_script(seed)
        verdict = compared(mutated(script.program, random.Random(seed)))  # type: ignore[arg-type]
        found[verdict.kind] += 1
        assert verdict.kind != "unsound", f"seed {seed}: {verdict.text}\n{script.text}"
    assert found["strict"] <= IN_A_CHUNK // 10, found
    assert found["accepted"] and found["refused"], found

"""Random programs for cores: the proof against the judge, and the loops and the compiled code against `evaluate()`.

Which seeds these are, `tests.oracle.seeds` says; ``scripts/fuzz`` tries programs for as long as one likes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest

from tests.backends.compiled import Compiled
from tests.oracle.agreement import compare, inputs, verdict, wrong_results
from tests.oracle.cpu_judge import judged
from tests.oracle.cpu_random import random_cpu_script
from tests.oracle.judge import sizes
from tests.oracle.plain import integers
from tests.oracle.script import Script, shrunk
from tests.oracle.seeds import TIMES, seeds
from tiramisu_py.ir import ArrayArgument, LoopFunction
from tiramisu_py.lower import lower
from tiramisu_py.passes import optimise

CHUNKS = range(4)
COMPARED = 20 * TIMES  # in each chunk
RUN = 8 * TIMES
COMPILED = TIMES
#: Regions of seeds, beside those of the other fuzzers.
FIRST_REGION = 40
#: The bytes of a vector: of AVX-512, of AVX2, and of other processors.
REGISTERS = (64, 32, 16)


def small(script: Script) -> list[dict[str, int]]:
    """All sizes from nothing to a few."""
    return sizes(script.program, {1: 5, 2: 3, 3: 2}[len(script.program.algorithm.params)])


def larger(script: Script) -> list[dict[str, int]]:
    """Sizes at which vectors and windows are full, by one element too few or too many, or exactly."""
    names = script.program.algorithm.params
    return [dict(zip(names, values, strict=False)) for values in ((9, 11, 7), (17, 8, 5), (4, 16, 9))]


def loops(script: Script) -> LoopFunction | None:
    """The loops of a program that is proven, and can therefore be emitted."""
    return lower(script.function.completed) if script.function.check().ok else None


def padded(script: Script) -> bool:
    """Whether lanes past the end of a loop may load what nothing has written, and the machine would object."""
    return "remainder='pad'" in script.text


def wrong_compiled(script: Script, compiled: Compiled, params: Mapping[str, int], seed: int) -> str:
    """What is wrong with compiled code at one size; empty where nothing is."""
    given = inputs(script, params, seed)
    arrays = {}
    for declared in compiled.function.arguments:
        assert isinstance(declared, ArrayArgument)
        shape = tuple(max(0, n) for n in integers(declared.extents, params))
        empty = np.full(shape, 77, dtype=declared.dtype.numpy)
        arrays[declared.name] = given[declared.name].copy() if declared.is_input else empty
    compiled(params, **arrays)
    return compare(script, params, given, arrays)


@pytest.mark.parametrize("chunk", CHUNKS)
def test_the_proof_and_the_judge_agree(chunk: int) -> None:
    """No program is accepted that the judge finds wrong, none refused that it finds right."""
    found: Counter[str] = Counter()
    for seed in seeds(chunk, COMPARED, FIRST_REGION):
        script = random_cpu_script(seed)
        if padded(script):
            continue  # lanes past the end are no executions, of which the judge knows
        kind = verdict(script, judged, small(script)).kind
        found[kind] += 1
        if kind in ("unsound", "strict"):
            shorter = shrunk(script, lambda s, kind=kind: verdict(s, judged, small(s)).kind == kind)  # type: ignore[misc]
            pytest.fail(f"seed {seed}, {verdict(shorter, judged, small(shorter))}\n{shorter.text}")
    assert found["accepted"] > COMPARED // 10, found


@pytest.mark.parametrize("chunk", CHUNKS)
def test_loops_compute_what_the_algorithm_says(chunk: int) -> None:
    """The adversarial machine runs the loops before and after the passes, to the same bits as `evaluate()`."""
    done = 0
    for seed in seeds(chunk, RUN, FIRST_REGION + 1):
        script = random_cpu_script(seed)
        plain = None if padded(script) else loops(script)
        if plain is None:
            continue
        done += 1
        choice = random.Random(seed)
        few = small(script)
        both = {"plain": plain, "optimised": optimise(plain, choice.choice(REGISTERS))}
        for params in [*choice.sample(few, min(3, len(few))), choice.choice(larger(script))]:
            for which, function in both.items():
                wrong = wrong_results(script, function, params, seed)
                assert not wrong, f"seed {seed}, {which} loops, {wrong}\n{script.text}"
    assert done


@pytest.mark.parametrize("chunk", CHUNKS)
def test_compiled_code_computes_what_the_algorithm_says(chunk: int) -> None:
    """Compiled with warnings as errors, for the vectors of this processor, to the same bits as `evaluate()`."""
    programs = ((seed, random_cpu_script(seed)) for seed in seeds(chunk, 50 * COMPILED, FIRST_REGION + 2))
    accepted = ((seed, script, plain) for seed, script in programs if (plain := loops(script)) is not None)
    done = 0
    for (seed, script, plain), _ in zip(accepted, range(COMPILED), strict=False):
        done += 1
        compiled = Compiled(plain, "-O1", "-march=native")
        for params in [*small(script), *larger(script)]:
            wrong = wrong_compiled(script, compiled, params, seed)
            assert not wrong, f"seed {seed}, compiled, {wrong}\n{script.text}"
    assert done == COMPILED

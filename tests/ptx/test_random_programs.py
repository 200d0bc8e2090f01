"""The fuzzers' programs for GPUs on the machine: what is proven computes what `evaluate()` and the simulator say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice

import pytest

from tests.oracle.agreeing import ptx_agreement, whole_agreement
from tests.oracle.generators.cooperative_random import random_cooperative_script
from tests.oracle.generators.gpu_random import random_gpu_script
from tests.oracle.generators.script import Script
from tests.oracle.generators.whole.scripts import random_whole_script
from tests.ptx import running
from tests.selection import first

MADE: Mapping[str, Callable[[int], Script]] = {
    "gpu": random_gpu_script, "cooperative": random_cooperative_script, "whole": random_whole_script,
}  # fmt: skip
#: Programs that run, and seeds that are looked at for them.
EACH, SEEDS = 3, 240


def is_for_gpus(kind: str, script: Script) -> bool:
    """Whether a program is proven, and something of it runs on a GPU."""
    if kind == "whole" and whole_agreement.target_of(script) != "gpu":
        return False
    return script.function.check().ok and ptx_agreement.has_kernels(script)


@pytest.mark.parametrize("compiler", ptx_agreement.COMPILERS)
@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize("start", first(range(0, 20 * SEEDS, SEEDS), 1))
def test_programs_that_are_proven_are_right(kind: str, start: int, compiler: str) -> None:
    if compiler not in ptx_agreement.compilers():
        pytest.skip(running.missing() or f"{compiler} is not here")
    made = ((seed, MADE[kind](seed)) for seed in range(start, start + SEEDS))
    proven = dict(islice(((seed, script) for seed, script in made if is_for_gpus(kind, script)), EACH))
    assert len(proven) == EACH, f"{len(proven)} programs of {SEEDS} seeds have kernels"
    wrong = ptx_agreement.wrong_on_machine([*proven.values()], [*proven], compiler)
    found = [f"{kind} {seed}: {said}\n{proven[seed].text}" for seed, said in zip(proven, wrong, strict=True) if said]
    assert not found, "\n".join(found)

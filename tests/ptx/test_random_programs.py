"""The fuzzers' programs for GPUs on the machine: what is proven computes what `evaluate()` and the simulator say."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from tests.oracle.agreeing import gpu_agreement, whole_agreement
from tests.oracle.agreeing.agreement import inputs
from tests.oracle.agreeing.cooperative_agreement import splits
from tests.oracle.generators.cooperative_random import random_cooperative_script
from tests.oracle.generators.gpu_random import random_gpu_script
from tests.oracle.generators.script import Script
from tests.oracle.generators.whole.scripts import random_whole_script
from tests.ptx import running
from tests.selection import first
from tiramisu_py.proof.report import PRESERVED

MADE: Mapping[str, Callable[[int], Script]] = {
    "gpu": random_gpu_script, "cooperative": random_cooperative_script, "whole": random_whole_script,
}  # fmt: skip
#: Programs that are looked at, and those of them that are proven and have kernels, at least.
EACH, LEAST = 6, 1
RUNS = 3


def has_kernels(kind: str, script: Script) -> bool:
    """Whether a program is proven, and something of it runs on a GPU."""
    if not gpu_agreement.uses_gpu(script) or (kind == "whole" and whole_agreement.target_of(script) != "gpu"):
        return False
    return script.function.check().ok and any(name.endswith(".cu") for name in script.function.source())


def fault(script: Script, seed: int) -> str:
    """What is wrong with a program on the machine, at a few sizes; empty where nothing is."""
    f = script.function
    kernel, preserved = f.compile(device="gpu"), f.check().bits == PRESERVED
    simulator = f.compile(device="simulator")
    for params in splits(script, seed + 3, 3):
        given = inputs(script, params, seed)
        expected = f.evaluate(**{name: np.copy(array) for name, array in given.items()}, **params)
        simulated = simulator(**{name: np.copy(array) for name, array in given.items()}, **params)
        for number in range(RUNS):
            running.choose(f"seed={seed + number}")
            found = kernel(**{name: np.copy(array) for name, array in given.items()}, **params)
            for own, right, other in zip(_listed(found), _listed(expected), _listed(simulated), strict=True):
                alike = own.tobytes() == right.tobytes() if preserved else np.array_equal(own, right)
                if own.shape == right.shape and not alike:  # not where an output lies in a larger input
                    return f"at {dict(params)}, seed={seed + number}: {own}, not {right}"
                if not np.array_equal(own, other):
                    return f"at {dict(params)}, seed={seed + number}: {own}, but {other} in the simulator"
    return ""


def _listed(results: object) -> list[np.ndarray]:
    listed = results if isinstance(results, tuple) else (results,)
    return [result.get() if hasattr(result, "get") else np.asarray(result) for result in listed]


def faults(kind: str, seeds: range, least: int = 0) -> None:
    """Raises if a program of some seeds is wrong, or if fewer than `least` of them have kernels."""
    ran, wrong = 0, []
    for seed in seeds:
        script = MADE[kind](seed)
        if has_kernels(kind, script):
            ran += 1
            said = fault(script, seed)
            wrong += [f"{kind} {seed}: {said}\n{script.text}"] if said else []
    assert not wrong, "\n".join(wrong)
    assert ran >= least, f"{ran} programs of {len(seeds)} have kernels"
    print(f"{kind} {seeds}: {ran} programs ran")


@pytest.mark.ptx
@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize("start", first(range(0, 120, EACH), 1))
def test_programs_that_are_proven_are_right(kind: str, start: int) -> None:
    faults(kind, range(start, start + EACH))


if __name__ == "__main__":  # python -m tests.ptx python -m tests.ptx.test_random_programs gpu 0 100
    faults(sys.argv[1], range(int(sys.argv[2]), int(sys.argv[2]) + int(sys.argv[3])))

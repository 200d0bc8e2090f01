"""Whether the proof and the judge agree about a cooperative program, and whether it computes what it should."""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np

import tiramisu_py as tm
from tests.oracle.agreeing.agreement import Verdict, inputs, verdict
from tests.oracle.agreeing.gpu_agreement import judged
from tests.oracle.generators.script import Script
from tests.oracle.judges.judge import sizes
from tiramisu_py.proof.report import PRESERVED

#: Seeds and timings of the simulator's copies and kernels.
RUNS = ((0, "lazy"), (1, "shuffled"), (2, "shuffled"), (0, "eager"))


def splits(script: Script, seed: int, most: int) -> list[Mapping[str, int]]:
    """A few sizes and points for which the function is defined: parts are empty, whole, or neither."""
    found = sizes(script.program, 4 if len(script.program.algorithm.params) == 3 else 3)
    return random.Random(seed).sample(found, most) if len(found) > most else list(found)


def compared(script: Script, seed: int, most: int = 5) -> Verdict:
    """The proof's verdict beside the judge's, at a few splits and at the proof's counterexamples.

    Memory that cannot be reached is refused of a part too that is empty at all sizes, of which a judge sees nothing.
    """
    found = verdict(script, judged, splits(script, seed, most))
    if found.kind == "strict" and ": reach: " in found.text:
        return Verdict("refused", found.text)
    return found


def copies(script: Script) -> bool:
    """Whether something is copied from or to a GPU."""
    return any(statement.link.transfer is not None for statement in script.program.statements.values())


def wrong_kernel(script: Script, seed: int, most: int = 4) -> str:
    """What is wrong with a proven program in the simulator, with all checks; empty where nothing is."""
    f = script.function
    kernel = f.compile(device="simulator", sanitize=True)
    preserved = f.check().bits == PRESERVED
    for params in splits(script, seed + 2, most):
        given = inputs(script, params, seed)
        expected = f.evaluate(**{name: np.copy(array) for name, array in given.items()}, **params)
        for number, timing in RUNS:
            found = kernel.seeded(number, timing)(**{name: np.copy(array) for name, array in given.items()}, **params)
            pairs = zip(_listed(found), _listed(expected), strict=True)
            alike = [(a, b) for a, b in pairs if a.shape == b.shape]  # not where an output lies in a larger input
            if not all(a.tobytes() == b.tobytes() if preserved else np.array_equal(a, b) for a, b in alike):
                return f"at {dict(params)}, seed {number}, {timing}: {found}, not {expected}"
    return ""


def _listed(results: object) -> list[np.ndarray]:
    """The results, wherever they are, in host memory."""
    listed = results if isinstance(results, tuple) else (results,)
    return [result.get() if isinstance(result, tm.DeviceArray) else result for result in listed]

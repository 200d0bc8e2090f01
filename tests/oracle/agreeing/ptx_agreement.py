"""Whether what nvcc, or NVRTC, makes of a proven GPU program computes what it should: on the machine for PTX.

``python -m tests.oracle.agreeing.ptx_agreement`` runs in a process that has the machine: it takes programs as JSON, and
answers what is wrong with each.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np

import tiramisu_py as tm
from tests.oracle.agreeing import gpu_agreement
from tests.oracle.agreeing.agreement import inputs
from tests.oracle.agreeing.cooperative_agreement import splits
from tests.oracle.generators.cooperative_random import random_cooperative_script
from tests.oracle.generators.gpu_random import random_gpu_script
from tests.oracle.generators.script import Script, Seed, choices, replayed
from tests.ptx import running
from tiramisu_py.proof.report import PRESERVED
from tiramisu_py.toolchain.compilers import cuda_compiler
from tiramisu_py.toolchain.compilers.cache import open_cache
from tiramisu_py.toolchain.compilers.nvcc import find_nvcc
from tiramisu_py.toolchain.compilers.nvrtc import find_nvrtc

#: What makes PTX of kernels.
COMPILERS = ("nvcc", "NVRTC")
RUNS = 3
#: How long the programs of one process may take: nvcc may wait for processors, too.
TIMEOUT = 1800.0


def random_ptx_script(seed: Seed) -> Script:
    """A program with one GPU, or one that moves parts of its arrays between the host and GPUs."""
    random = choices(seed)
    made = random_cooperative_script if random.random() < 0.25 else random_gpu_script
    return made(seed if isinstance(seed, int) else random)


@cache
def compilers() -> tuple[str, ...]:
    """The compilers that are here, if the machine is."""
    if running.missing():
        return ()
    found = {"nvcc": find_nvcc(open_cache()), "NVRTC": find_nvrtc(open_cache())}
    return tuple(name for name in COMPILERS if not isinstance(found[name], str))


def has_kernels(script: Script) -> bool:
    """Whether a proven program has kernels, and something that runs them is here."""
    return (
        bool(compilers())
        and gpu_agreement.uses_gpu(script)
        and any(n.endswith(".cu") for n in script.function.source())
    )


def wrong_on_machine(scripts: Sequence[Script], seeds: Sequence[int], compiler: str = "") -> list[str]:
    """What is wrong with each of some proven programs; of a compiler, or of the one that the first seed chooses."""
    chosen = compiler or compilers()[seeds[0] % len(compilers())]
    programs = [
        {"lines": script.lines, "declarations": script.declarations, "seed": seed}
        for script, seed in zip(scripts, seeds, strict=True)
    ]
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder, "programs.json"), Path(folder, "wrong.json")
        asked.write_text(json.dumps({"compiler": chosen, "programs": programs}))
        told = running.run(["-m", __name__, asked, answered], timeout=TIMEOUT)
        if told.returncode:
            raise RuntimeError(
                f"the machine for PTX, {chosen}, has ended with {told.returncode}:\n{told.stdout}{told.stderr}"
            )
        found: list[str] = json.loads(answered.read_text())
    return [wrong and f"PTX of {chosen}: {wrong}" for wrong in found]


def fault(script: Script, seed: int) -> str:
    """What is wrong with a program at a few sizes, in a process that has the machine; empty where nothing is."""
    f = script.function
    kernel, preserved = f.compile(device="gpu"), f.check().bits == PRESERVED
    simulator = f.compile(device="simulator")
    for params in splits(script, seed + 3, 3):
        given = inputs(script, params, seed)
        expected = f.evaluate(**{name: np.copy(array) for name, array in given.items()}, **params)
        simulated = simulator(**{name: np.copy(array) for name, array in given.items()}, **params)
        for number in range(RUNS):
            running.choose(f"seed={seed + number}")
            try:
                found = kernel(**{name: np.copy(array) for name, array in given.items()}, **params)
            except tm.KernelError as refusal:
                return f"at {dict(params)}, seed={seed + number}: {refusal}"
            for own, right, other in zip(_listed(found), _listed(expected), _listed(simulated), strict=True):
                alike = _are_alike(own, right, preserved)
                if own.shape == right.shape and not alike:  # not where an output lies in a larger input
                    return f"at {dict(params)}, seed={seed + number}: {own}, not {right}"
                if not _are_alike(own, other, False):
                    return f"at {dict(params)}, seed={seed + number}: {own}, but {other} in the simulator"
    return ""


def _are_alike(own: np.ndarray, other: np.ndarray, bits: bool) -> bool:
    """Whether two results are equal, if need be bit for bit; what is not a number has any bits."""
    if own.shape != other.shape or own.dtype.kind in "?biu":
        return own.tobytes() == other.tobytes() if bits else np.array_equal(own, other)
    is_nan, numbers = own != own, [np.where(each != each, np.zeros_like(each), each) for each in (own, other)]
    if not np.array_equal(is_nan, other != other):
        return False
    return numbers[0].tobytes() == numbers[1].tobytes() if bits else np.array_equal(*numbers)


def _listed(results: object) -> list[np.ndarray]:
    listed = results if isinstance(results, tuple) else (results,)
    return [result.get() if hasattr(result, "get") else np.asarray(result) for result in listed]


def faults(programs: Sequence[Mapping[str, object]], compiler: str) -> list[str]:
    """What is wrong with each program, compiled by nvcc or NVRTC."""
    other = "find_nvrtc" if compiler == "nvcc" else "find_nvcc"
    with patch.object(cuda_compiler, other, lambda *_: "not asked"):
        return [fault(replayed(each["lines"], each["declarations"]), each["seed"]) for each in programs]  # type: ignore[arg-type]


def main(asked: str, answered: str) -> None:
    """Answers what is wrong with the programs in a file."""
    given = json.loads(Path(asked).read_text())
    Path(answered).write_text(json.dumps(faults(given["programs"], given["compiler"])))


if __name__ == "__main__":
    main(*sys.argv[1:])

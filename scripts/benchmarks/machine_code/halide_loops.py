"""The hot loops of Halide's schedules as machine code for processors that need not be here."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cpu import halide
from benchmarks.cpu.workloads import WORKLOADS

#: By the name of a processor's model in LLVM, what Halide calls it.
_AVX2 = "x86-64-linux-avx-avx2-f16c-fma-sse41"
_AVX512 = f"{_AVX2}-avx512-avx512_skylake"
TARGETS = {
    "icelake-server": f"{_AVX512}-avx512_cannonlake",
    "sapphirerapids": f"{_AVX512}-avx512_cannonlake-avx512_zen4-avx512_sapphirerapids",
    "znver3": f"{_AVX2}-tune_znver3",
    "znver4": f"{_AVX512}-avx512_cannonlake-avx512_zen4",
    "neoverse-n1": "arm-64-linux-arm_dot_prod",
}
#: Schedules whose whole work is in one loop; of others the stages have a loop each.
_ELSEWHERE = ("tiles", "sliding")
#: Enough for the widest vectors; the sizes are no part of the loops.
_SIZE = (24, 256)


def assemblies(workload: str, model: str) -> Iterator[tuple[str, str]]:
    """The schedules of a workload that have one hot loop, by name, with the assembly of each."""
    import halide as hl  # noqa: PLC0415 (an optional peer)

    made = WORKLOADS[workload]
    given = made.given(*_SIZE)
    out = {name: np.zeros(shape, dtype) for name, (shape, dtype) in made.outputs(*_SIZE).items()}
    target = hl.Target(f"{TARGETS[model]}-no_runtime-no_asserts-no_bounds_query")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "halide.s")

        def written(result: Any, _: Any) -> Callable[[], object]:
            result.compile_to_assembly(str(place), [], "halide", target)
            return place.read_text

        for name, make in halide.programs(workload, given, out, written).items():
            if not any(word in name for word in _ELSEWHERE):
                yield name, str(make()())

"""The hot loops of Halide's schedules as machine code for processors that need not be here."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cpu import halide
from benchmarks.cpu.workloads import WORKLOADS
from benchmarks.machine_code.assembly import Loop, all_loops, innermost_loops

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
#: How Halide names a loop in a comment at its label: `# %"3_for_first$2.s0.x.x"` is one of the stage `first`.
_NAMED = re.compile(r"([.\w$]+):\s*(?:#|//)\s*%\"?(?:\d+_)?for_(\w+?)(?:\$\d+)?\.s\d+\.", re.MULTILINE)
#: The rows and columns that the first of two stages has more than the second, by the workload.
_MORE = {"blur": 2, "gauss": 4, "edge": 1}
_TILE = 256
#: Enough for the widest vectors; the sizes are no part of the loops.
_SIZE = (24, 256)


def hot_loops(workload: str, name: str, text: str) -> list[tuple[float, Loop]]:
    """The loops of a schedule that take the time, each with how many of its iterations there are for a point.

    Stages in tiles and in rows have a loop each. A window that slides has loops inside of the loop of the last stage,
    which begin to fill it; in the long run each of them runs once.
    """
    stages = dict(_NAMED.findall(text))
    inner = {loop.label: loop for loop in innermost_loops(text) if loop.vector_bytes}
    lanes, rows = (int(found[1]) if (found := re.search(rf"(\d+) {word}", name)) else 1 for word in ("lanes", "rows"))
    if "along them" in name:
        last = _last_stage(text)
        around = [each for each in all_loops(text) if stages.get(each.label) == last and each.vector_bytes]
        return [(1 / (lanes * rows), max(around, key=lambda each: len(each.usual)))] if around else []
    if "tiles" not in name and "bands" not in name:
        return [(1 / (lanes * rows), max(inner.values(), key=lambda each: len(each.usual)))] if inner else []
    found: dict[str, Loop] = {}
    for label, loop in inner.items():
        stage = stages.get(label, "")
        found[stage] = max(found.get(stage, loop), loop, key=lambda each: len(each.usual))
    last = _last_stage(text)
    return [((1 if stage == last else repeated(workload, name, lanes)) / lanes, loop) for stage, loop in found.items()]


def _last_stage(text: str) -> str:
    """The stage that the parallel loop is of; its number is behind `__`, or behind `_` if that name is taken."""
    found = re.search(r"par_for_(\w+?)(?:__?\d+)?_s\d+_", text)
    return found[1] if found else ""


def repeated(workload: str, name: str, lanes: int) -> float:
    """How many values of the first stage a schedule computes for one of the second."""
    more = _MORE[workload]
    along, down = (0, more) if workload != "edge" and "down first" not in name else (more, more * (workload == "edge"))
    size = re.search(r"tiles of \d+ x (\d+)|bands of (\d+)", name)
    assert size is not None
    rows = int(size[1] or size[2])
    if size[2]:
        return (rows + down) / rows
    return (rows + down) / rows * -(-(_TILE + along) // lanes) * lanes / _TILE


def assemblies(workload: str, of: str) -> Iterator[tuple[str, str]]:
    """The schedules of a workload by name, with the assembly of each for a target of Halide."""
    import halide as hl  # noqa: PLC0415 (an optional peer)

    made = WORKLOADS[workload]
    given = made.given(*_SIZE)
    out = {name: np.zeros(shape, dtype) for name, (shape, dtype) in made.outputs(*_SIZE).items()}
    target = hl.Target(f"{of}-no_runtime-no_asserts-no_bounds_query")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "halide.s")

        def written(result: Any, _: Any) -> Callable[[], object]:
            result.compile_to_assembly(str(place), [], "halide", target)
            return place.read_text

        for name, make in halide.programs(workload, given, out, written).items():
            yield name, str(make()())

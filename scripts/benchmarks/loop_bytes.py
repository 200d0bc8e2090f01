"""Machine code of the parametrised products of examples/blocks/any_size.py: the bytes of their loops, and an estimate.

Nothing is run: nvcc compiles, nvdisasm reads.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product as combinations
from pathlib import Path
from typing import Any

from tiramisu_py.tuning.filters import INSTRUCTION

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples" / "blocks"
ARCHITECTURE, WARP = 80, 32


@dataclass(frozen=True)
class Loop:
    """The loop over the terms of one point: bytes, instructions, multiply-adds, wide loads, spills; estimates."""

    point: Mapping[str, Any]
    bytes: int
    instructions: int
    fused: int
    wide: int
    spills: int
    thesis: int
    ours: int


def points(count: int) -> Iterator[dict[str, Any]]:
    """Points whose thread has at most 64 results."""
    found = 0
    for rows, columns, terms, warps in combinations((16, 32, 64), (16, 32, 64), (4, 8, 16), (1, 2, 4)):
        results = rows * columns // (WARP * warps)
        if 4 <= results <= 64 and found < count:
            found += 1
            yield {"rows": rows, "columns": columns, "terms": terms, "warps": warps, "parts": 1, "way": "whole",
                   "stages": 1}  # fmt: skip


def tile(point: Mapping[str, Any]) -> tuple[int, int]:
    """The rows and columns of a thread's results: threads are along a row first."""
    along = min(point["columns"], WARP * point["warps"])
    columns = point["columns"] // along
    return point["rows"] * point["columns"] // (WARP * point["warps"]) // columns, columns


def loop_of(made: Any, point: Mapping[str, Any]) -> Loop:
    """The innermost loop with multiply-adds, or all loops where they are nested."""
    f = made(**point)
    kernel = f.compile(device="gpu", architectures=[f"sm_{ARCHITECTURE}"], fast=["contract"])
    code = max((facts.code[ARCHITECTURE] for facts in f.facts(kernel)), key=lambda each: each.fused)
    loops = [loop for loop in code.loops if loop.fused]
    rows, columns = tile(point)
    terms = point["terms"]
    return Loop(
        point, sum(each.bytes for each in loops), sum(each.instructions for each in loops),
        sum(each.fused for each in loops), sum(each.wide_loads for each in loops), code.spills,
        INSTRUCTION * terms * (rows + columns + rows * columns),
        0,
    )  # fmt: skip


def compiled(count: int) -> Iterator[Loop]:
    """The loops of some points."""
    sys.path.insert(0, str(EXAMPLES))
    from any_size import made  # noqa: PLC0415

    for point in points(count):
        yield loop_of(made, point)


if __name__ == "__main__":
    for each in compiled(int(sys.argv[1])):
        print(*each.point.values(), "tile", tile(each.point), each, flush=True)

"""From scheduled loops to the loops that are emitted: the passes over the loop IR, in order."""

from __future__ import annotations

from dataclasses import replace

from tiramisu_py.lower.full_tiles import full_tiles
from tiramisu_py.lower.ir import LoopFunction
from tiramisu_py.lower.registers import registers
from tiramisu_py.lower.simplify import simplify
from tiramisu_py.lower.transform import Names, names
from tiramisu_py.lower.unroll import unroll
from tiramisu_py.lower.vectorize import vectorize


def optimise(function: LoopFunction) -> LoopFunction:
    """The function with full tiles separated, loops unrolled and vectorised, and small buffers in registers.

    Afterwards only parallel loops are tagged. Raises `UnsupportedError` where unrolling would repeat too much.
    """
    taken = Names({*names(function.body), *function.params, *(argument.name for argument in function.arguments)})
    body = full_tiles(simplify(function.body))
    body = simplify(unroll(body, taken))
    body = simplify(vectorize(body, taken))
    body = simplify(registers(body, taken))
    return replace(function, body=body)

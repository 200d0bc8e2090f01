"""A chain of stencils in Halide, with the schedule for CPUs of its `apps/stencil_chain`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

STAGES, GROUP = 32, 11


def program(hl: Any, given: Mapping[str, Any], out: Any) -> Callable[[], object]:
    """Eleven stages at a time: rows slide through them in tiles, 4 x 4 of a picture."""
    x, y, xo, yo, xi, yi, t = (hl.Var(name) for name in ("x", "y", "xo", "yo", "xi", "yi", "t"))
    stages = [hl.BoundaryConditions.repeat_edge(hl.Buffer(given["image"]))]
    for s in range(STAGES):
        total = hl.u16(0)
        for i in range(-2, 3):
            for j in range(-2, 3):
                total = total + hl.u16((i + 3) * (j + 3)) * stages[-1][x + i, y + j]
        stages.append(hl.Func(f"stage_{s}"))
        stages[-1][x, y] = total
    output = hl.Func("output")
    output[x, y] = stages[-1][x, y]
    lanes = hl.get_jit_target_from_environment().natural_vector_size(hl.UInt(16))
    rows, columns = out.shape
    for j in range(STAGES, 0, -GROUP):
        last = output if j == STAGES else stages[j]
        beyond = 4 * (STAGES - j)
        last.compute_root().tile(x, y, xo, yo, xi, yi, (columns + beyond) // 4, (rows + beyond) // 4)
        last.fuse(xo, yo, t).parallel(t).vectorize(xi, lanes)
        for stage in stages[max(0, j - GROUP + 1) : j]:
            stage.store_at(last, t).compute_at(last, yi).vectorize(stage.args()[0], lanes)
    output.compile_jit()
    buffer = hl.Buffer(out)
    return lambda: output.realize(buffer)

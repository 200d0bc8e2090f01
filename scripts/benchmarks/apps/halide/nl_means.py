"""Non-local means in Halide, with the schedule for CPUs of its `apps/nl_means`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

CLOSE = 1e-4  # its fast exponential


def program(hl: Any, given: Mapping[str, Any], out: Any) -> Callable[[], object]:
    """Tiles of 16 x 8 pixels, each with the differences to all its neighbours; sums of patches for 8 pixels at once."""
    x, y, c, dx, dy, tx, ty = (hl.Var(name) for name in ("x", "y", "c", "dx", "dy", "tx", "ty"))
    near = hl.BoundaryConditions.repeat_edge(hl.Buffer(given["rgb"]))
    apart, unlike, down, across, weight, rgba, sums, result = (
        hl.Func(name) for name in ("apart", "unlike", "down", "across", "weight", "rgba", "sums", "result")
    )
    colours, patch, search = hl.RDom([(0, 3)]), hl.RDom([(-3, 7)]), hl.RDom([(-3, 7), (-3, 7)])
    difference = near[x, y, c] - near[x + dx, y + dy, c]
    apart[x, y, dx, dy, c] = difference * difference
    unlike[x, y, dx, dy] = hl.sum(apart[x, y, dx, dy, colours.x])
    down[x, y, dx, dy] = hl.sum(unlike[x, y + patch.x, dx, dy])
    across[x, y, dx, dy] = hl.sum(down[x + patch.x, y, dx, dy])
    weight[x, y, dx, dy] = hl.fast_exp(across[x, y, dx, dy] * hl.f32(-given["sharpness"]))
    rgba[x, y, c] = hl.select(c < 3, near[x, y, hl.min(c, 2)], hl.f32(1))
    sums[x, y, c] = hl.f32(0)
    sums[x, y, c] += weight[x, y, search.x, search.y] * rgba[x + search.x, y + search.y, c]
    result[x, y, c] = hl.clamp(sums[x, y, c] / sums[x, y, 3], hl.f32(0), hl.f32(1))

    result.output_buffer().dim(2).set_bounds(0, 3)
    result.compute_root().reorder(c, x, y).tile(x, y, tx, ty, x, y, 16, 8).parallel(ty).vectorize(x, 8)
    down.compute_at(result, tx).reorder(y, x).vectorize(x, 8)
    unlike.compute_at(result, tx).vectorize(x, 8)
    sums.compute_at(result, x).reorder(c, x, y).bound(c, 0, 4).unroll(c).vectorize(x, 8)
    sums.update(0).reorder(c, x, y, search.x, search.y).unroll(c).vectorize(x, 8)
    across.compute_at(sums, x).vectorize(x, 8)
    result.compile_jit()
    into = hl.Buffer(out)
    return lambda: result.realize(into)

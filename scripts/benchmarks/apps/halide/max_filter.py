"""A maximum over discs in Halide, with the schedule for CPUs of its `apps/max_filter`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

RADIUS = 26


def program(hl: Any, given: Mapping[str, Any], out: Any) -> Callable[[], object]:
    """Strips of 256 columns on threads; the maxima of 1, 2, 4, ... rows of a whole strip, then each row of discs."""
    x, y, c, t, tx = (hl.Var(name) for name in ("x", "y", "c", "t", "tx"))
    rgb = hl.Buffer(given["rgb"])
    _, rows, columns = given["rgb"].shape
    near = hl.BoundaryConditions.repeat_edge(rgb, [(0, columns), (0, rows)])
    slices = math.ceil(math.log2(RADIUS)) + 1
    logs, slice_of, vert, height, result = (hl.Func(n) for n in ("logs", "slice_of", "vert", "height", "result"))
    logs[x, y, c, t] = near[x, y, c]
    r = hl.RDom([(-RADIUS, rows + RADIUS), (1, slices - 1)])
    later = r.x + hl.clamp(hl.i32(1) << (r.y - 1), 0, 2 * RADIUS)
    logs[x, r.x, c, r.y] = hl.max(logs[x, r.x, c, r.y - 1], logs[x, later, c, r.y - 1])
    slice_of[t] = hl.i32(hl.floor(hl.log(hl.f32(2 * t + 1)) / hl.f32(math.log(2))))
    chosen = hl.clamp(slice_of[t], 0, slices)
    second = y + t + 1 - hl.clamp(hl.i32(1) << chosen, 0, 2 * RADIUS)
    vert[x, y, c, t] = hl.max(logs[x, y - t, c, chosen], logs[x, second, c, chosen])
    dy, dx = hl.RDom([(0, RADIUS + 1)]), hl.RDom([(-RADIUS, 2 * RADIUS + 1)])
    inside = hl.f32(x * x + dy.x * dy.x) < hl.f32((RADIUS + 0.25) ** 2)
    height[x] = hl.i32(0)
    height[x] += hl.select(inside, 1, 0)
    result[x, y, c] = hl.maximum(vert[x + dx.x, y, c, hl.clamp(height[dx.x], 0, RADIUS + 1)])

    slice_of.compute_root()
    height.compute_root()
    result.compute_root().split(x, tx, x, 256).reorder(x, y, c, tx).fuse(c, tx, t).parallel(t).vectorize(x, 8)
    logs.compute_at(result, t).vectorize(x, 8)
    logs.update().reorder(x, r.x, r.y, c).vectorize(x, 8)
    vert.compute_at(result, y).vectorize(x, 8)
    result.compile_jit()
    into = hl.Buffer(out)
    return lambda: result.realize(into)

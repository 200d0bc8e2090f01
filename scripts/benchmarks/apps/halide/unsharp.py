"""Unsharp mask in Halide, with the schedule for CPUs of its `apps/unsharp`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any


def program(hl: Any, given: Mapping[str, Any], out: Any) -> Callable[[], object]:
    """Strips of 32 rows on threads; brightness, sums of columns and ratio in rings of rows."""
    x, y, c, yo, yi = (hl.Var(name) for name in ("x", "y", "c", "yo", "yi"))
    rgb = hl.Buffer(given["rgb"])
    near = hl.BoundaryConditions.repeat_edge(rgb)
    grey, down, across, ratio, sharp = (hl.Func(name) for name in ("grey", "down", "across", "ratio", "sharp"))
    weights = [hl.f32(math.exp(-d * d / (2 * 1.5 * 1.5)) / (math.sqrt(2 * math.pi) * 1.5)) for d in range(4)]
    grey[x, y] = hl.f32(0.299) * near[x, y, 0] + hl.f32(0.587) * near[x, y, 1] + hl.f32(0.114) * near[x, y, 2]
    down[x, y] = weights[0] * grey[x, y] + sum_of(weights[d] * (grey[x, y - d] + grey[x, y + d]) for d in (1, 2, 3))
    across[x, y] = weights[0] * down[x, y] + sum_of(weights[d] * (down[x - d, y] + down[x + d, y]) for d in (1, 2, 3))
    ratio[x, y] = (2 * grey[x, y] - across[x, y]) / grey[x, y]
    sharp[x, y, c] = ratio[x, y] * rgb[x, y, c]
    lanes = hl.get_jit_target_from_environment().natural_vector_size(hl.Float(32))
    sharp.split(y, yo, yi, 32).vectorize(x, lanes).parallel(yo).reorder(x, c, yi, yo)
    for stage in (grey, down, ratio):
        stage.compute_at(sharp, yi).store_at(sharp, yo).vectorize(x, lanes)
    sharp.compile_jit()
    result = hl.Buffer(out)
    return lambda: sharp.realize(result)


def sum_of(terms: Any) -> Any:
    """The sum, from left to right."""
    first, *others = terms
    for term in others:
        first = first + term
    return first

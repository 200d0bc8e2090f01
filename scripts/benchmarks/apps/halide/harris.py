"""Harris corners in Halide, with the schedule for CPUs of its `apps/harris`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def program(hl: Any, given: Mapping[str, Any], out: Any) -> Callable[[], object]:
    """Strips of 32 rows on threads; both gradients are kept in rings of rows, and computed in the same loop."""
    x, y, inner = (hl.Var(name) for name in ("x", "y", "inner"))
    rgb = hl.Buffer(given["rgb"])
    lanes = hl.get_jit_target_from_environment().natural_vector_size(hl.Float(32))
    grey, ix, iy, result = (hl.Func(name) for name in ("grey", "ix", "iy", "result"))
    red, green, blue, kappa = (hl.f32(weight) for weight in (0.299, 0.587, 0.114, 0.04))
    grey[x, y] = red * rgb[x, y, 0] + green * rgb[x, y, 1] + blue * rgb[x, y, 2]

    def difference(step: tuple[int, int], along: tuple[int, int]) -> Any:
        """Sobel's difference along `step`, smoothed across it."""
        terms = []
        for side in (-1, 0, 1):
            weight = hl.f32((2 - abs(side)) / 12)
            after = grey[x + step[0] + side * along[0], y + step[1] + side * along[1]]
            before = grey[x - step[0] + side * along[0], y - step[1] + side * along[1]]
            terms += [after * weight, -(before * weight)]
        return summed(terms)

    def summed(terms: list[Any]) -> Any:
        total = terms[0]
        for term in terms[1:]:
            total += term
        return total

    ix[x, y] = difference((1, 0), (0, 1))
    iy[x, y] = difference((0, 1), (1, 0))
    around = [(x + 2 + dx, y + 2 + dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1)]
    xx, yy, xy = (summed([a[at] * b[at] for at in around]) for a, b in ((ix, ix), (iy, iy), (ix, iy)))
    result[x, y] = xx * yy - xy * xy - kappa * (xx + yy) * (xx + yy)

    result.split(y, y, inner, 32).parallel(y).vectorize(x, lanes)
    for gradient in (ix, iy):
        gradient.store_at(result, y).compute_at(result, inner).vectorize(x, lanes)
    ix.compute_with(iy, x)
    result.compile_jit()
    into = hl.Buffer(out)
    return lambda: result.realize(into)

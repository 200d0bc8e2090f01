"""A recursive blur in Halide, with the schedule for CPUs of its `apps/iir_blur`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def program(hl: Any, given: Mapping[str, Any], out: Any) -> Callable[[], object]:
    """Twice: strips of columns on threads, blurred down and up and then transposed."""
    _, rows, columns = out.shape
    alpha = hl.f32(float(given["alpha"]))
    once = transposed_blur(hl, hl.Buffer(given["rgb"]), rows, alpha)
    twice = transposed_blur(hl, once, columns, alpha)
    twice.compile_jit()
    into = hl.Buffer(out)
    return lambda: twice.realize(into)


def transposed_blur(hl: Any, source: Any, height: int, alpha: Any) -> Any:
    """The columns of `source` blurred, and the result transposed."""
    x, y, c, xo, yo, xi, yi = (hl.Var(name) for name in ("x", "y", "c", "xo", "yo", "xi", "yi"))
    lanes = hl.get_jit_target_from_environment().natural_vector_size(hl.Float(32))
    blur, transpose = hl.Func("blur"), hl.Func("transpose")
    blur[x, y, c] = hl.undef(hl.Float(32))
    blur[x, 0, c] = source[x, 0, c]
    ry = hl.RDom([(1, height - 1)])
    blur[x, ry.x, c] = (1 - alpha) * blur[x, ry.x - 1, c] + alpha * source[x, ry.x, c]
    back = height - ry.x - 1
    blur[x, back, c] = (1 - alpha) * blur[x, back + 1, c] + alpha * blur[x, back, c]
    transpose[x, y, c] = blur[y, x, c]

    transpose.compute_root().tile(x, y, xo, yo, xi, yi, lanes, 4 * lanes).vectorize(xi).parallel(yo).parallel(c)
    blur.compute_at(transpose, yo)
    for number in (1, 2):
        blur.update(number).reorder(x, ry.x).vectorize(x, lanes)
    return transpose

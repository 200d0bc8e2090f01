"""A convolution layer in Halide, with the schedule for CPUs with 32 vector registers of its `apps/conv_layer`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def program(hl: Any, given: Mapping[str, Any], out: Any) -> Callable[[], object]:
    """Tiles of 5 pixels by 4 vectors of channels in registers, compiled for the sizes at hand."""
    c, x, y, n, co, ci, xo, xi = (hl.Var(name) for name in ("c", "x", "y", "n", "co", "ci", "xo", "xi"))
    picture, weights, bias = (fixed(hl, given[name]) for name in ("picture", "weights", "bias"))
    pictures, rows, columns, filters = out.shape
    channels = given["picture"].shape[-1]
    over = hl.RDom([(0, channels), (0, 3), (0, 3)])
    sums, layer = hl.Func("sums"), hl.Func("layer")
    sums[c, x, y, n] = bias[c]
    sums[c, x, y, n] += weights[c, over.y, over.z, over.x] * picture[over.x, x + over.y, y + over.z, n]
    layer[c, x, y, n] = hl.max(hl.f32(0), sums[c, x, y, n])

    lanes, wide, pixels = hl.get_jit_target_from_environment().natural_vector_size(hl.Float(32)), 4, 5
    for var, extent in zip((c, x, y, n), (filters, columns, rows, pictures), strict=True):
        layer.bound(var, 0, extent)
    layer.split(c, co, ci, lanes * wide).split(x, xo, xi, pixels).reorder(ci, xi, xo, y, n, co)
    layer.vectorize(ci, lanes).unroll(ci).unroll(xi).parallel(y).parallel(n).parallel(co)
    sums.compute_at(layer, xo).vectorize(c, lanes).unroll(c).unroll(x).unroll(y)
    update = sums.update().reorder(c, x, y, over.x, over.y, over.z, n)
    update.vectorize(c, lanes).unroll(c).unroll(x).unroll(y).unroll(over.x, 2)
    copied = weights.in_()
    copied.compute_at(sums, over.x).vectorize(copied.args()[0], lanes)
    copied.unroll(copied.args()[0]).unroll(copied.args()[3])
    pixel = picture.in_()
    pixel.compute_at(sums, x).unroll(pixel.args()[0])
    bounded(layer.output_buffer(), out)
    layer.compile_jit()
    into = hl.Buffer(out)
    return lambda: layer.realize(into)


def fixed(hl: Any, array: Any) -> Any:
    """An input whose size is known when the program is compiled."""
    image = hl.ImageParam(hl.Float(32), array.ndim)
    image.set(hl.Buffer(array))
    bounded(image, array)
    return image


def bounded(image: Any, array: Any) -> None:
    """State the extents and strides of an array, whose last axis is Halide's first."""
    for number, (extent, stride) in enumerate(zip(array.shape[::-1], array.strides[::-1], strict=True)):
        image.dim(number).set_bounds(0, extent).set_stride(stride // array.itemsize)

"""Programs of the benchmark in Halide, with gradients by `propagate_adjoints`, scheduled by one of its autoschedulers.

Dimensions are in Halide's order, the innermost first. Left out are heat and wave, each step of which would be a `Func`;
softmax_loss, since Halide has no adjoint of a running maximum; csr, whose bounds are values; and bilateral_grid.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gradients.peers import given

#: The scheduler of each program: the faster of two that come with Halide. Adams2019 takes minutes.
SCHEDULERS = {"unsharp": "Adams2019"}
USUAL = "Mullapudi2016"
Values = Mapping[str, Any]


def unsharp(hl: Any, v: Values, n: Values) -> Any:
    x, y, c = (hl.Var(name) for name in "xyc")
    image = v["image"]
    grey, down, blur, ratio, out = (hl.Func(name) for name in ("grey", "down", "blur", "ratio", "out"))
    red, green, blue = (hl.f32(each) for each in (0.299, 0.587, 0.114))
    grey[x, y] = red * image[x, y, 0] + green * image[x, y, 1] + blue * image[x, y, 2]
    quarter, half = hl.f32(0.25), hl.f32(0.5)
    down[x, y] = quarter * grey[x, y] + half * grey[x, y + 1] + quarter * grey[x, y + 2]
    blur[x, y] = quarter * down[x, y] + half * down[x + 1, y] + quarter * down[x + 2, y]
    ratio[x, y] = (2 * grey[x + 1, y + 1] - blur[x, y]) / grey[x + 1, y + 1]
    out[x, y, c] = ratio[x, y] * image[x + 1, y + 1, c]
    return out


def harris(hl: Any, v: Values, n: Values) -> Any:
    x, y = hl.Var("x"), hl.Var("y")
    a = v["a"]
    dx, dy, out = (hl.Func(name) for name in ("dx", "dy", "out"))
    dx[x, y] = a[x + 2, y] - a[x, y] + 2 * (a[x + 2, y + 1] - a[x, y + 1]) + a[x + 2, y + 2] - a[x, y + 2]
    dy[x, y] = a[x, y + 2] - a[x, y] + 2 * (a[x + 1, y + 2] - a[x + 1, y]) + a[x + 2, y + 2] - a[x + 2, y]
    sums = []
    for name, one, other in (("sxx", dx, dx), ("syy", dy, dy), ("sxy", dx, dy)):
        product, total = hl.Func(f"{name}_terms"), hl.Func(name)
        product[x, y] = one[x, y] * other[x, y]
        near = [product[x + right, y + down] for down in range(3) for right in range(3)]
        total[x, y] = sum(near[1:], start=near[0])
        sums.append(total[x, y])
    sxx, syy, sxy = sums
    out[x, y] = sxx * syy - sxy * sxy - hl.f32(0.04) * (sxx + syy) * (sxx + syy)
    return out


def conv2d(hl: Any, v: Values, n: Values) -> Any:
    j, i, o, b = (hl.Var(name) for name in "jiob")
    r, out = hl.RDom([(0, 3), (0, 3), (0, n["C"])]), hl.Func("out")
    out[j, i, o, b] = hl.f32(0)
    out[j, i, o, b] += v["image"][j + r.x, i + r.y, r.z, b] * v["weight"][r.x, r.y, r.z, o]
    return out


def layer_norm(hl: Any, v: Values, n: Values) -> Any:
    k, i = hl.Var("k"), hl.Var("i")
    a, r, whole = v["a"], hl.RDom([(0, n["K"])]), hl.f32(n["K"])
    mean, var, out = (hl.Func(name) for name in ("mean", "var", "out"))
    mean[i] = hl.f32(0)
    mean[i] += a[r, i] / whole
    var[i] = hl.f32(0)
    var[i] += (a[r, i] - mean[i]) * (a[r, i] - mean[i]) / whole
    out[k, i] = (a[k, i] - mean[i]) / hl.sqrt(var[i] + hl.f32(1e-5)) * v["scale"][k] + v["shift"][k]
    return out


def perceptron(hl: Any, v: Values, n: Values) -> Any:
    k, i = hl.Var("k"), hl.Var("i")
    made = v["a"]
    for number, (weight, extent) in enumerate((("w1", n["M"]), ("w2", n["K"]), ("w3", n["K"]))):
        r, product, positive = hl.RDom([(0, extent)]), hl.Func(f"h{number}"), hl.Func(f"r{number}")
        product[k, i] = hl.f32(0)
        product[k, i] += made[r, i] * v[weight][k, r]
        positive[k, i] = hl.max(product[k, i], hl.f32(0))
        made = product if weight == "w3" else positive
    return made


PROGRAMS = {each.__name__: each for each in (unsharp, harris, conv2d, layer_norm, perceptron)}


def halide_step(
    name: str, arguments: Values, wrt: Sequence[str], weight: Any, threads: int, scheduler: str = ""
) -> Callable[[], list[Any]]:
    """Value and gradients by one pipeline, which is compiled here."""
    hl = importlib.import_module("halide")
    scheduler = scheduler or SCHEDULERS.get(name, USUAL)
    hl.load_plugin(str(Path(hl.__file__).parent / "lib64" / f"libautoschedule_{scheduler.lower()}.so"))
    every = {key: each for key, each in given(arguments).items() if key != "start"}
    arrays = {key: each for key, each in every.items() if isinstance(each, np.ndarray)}
    values = {key: _inside(hl, key, each) for key, each in arrays.items()}
    value = PROGRAMS[name](hl, values, every)
    ranges = [hl.Range(0, extent) for extent in reversed(weight.shape)]
    derivative = hl.propagate_adjoints(value, _inside(hl, "weight", weight, outside=0.0), ranges)
    made = [value, *(derivative[values[key]] for key in wrt)]
    into = [np.zeros_like(weight), *(np.zeros_like(arrays[key]) for key in wrt)]
    for func, array in zip(made, into, strict=True):
        func.set_estimates([(0, extent) for extent in reversed(array.shape)])
    pipeline = hl.Pipeline(made)
    target = hl.get_jit_target_from_environment()
    pipeline.apply_autoscheduler(target, hl.AutoschedulerParams(scheduler, {"parallelism": str(threads)}))
    pipeline.compile_jit(target)
    buffers = [hl.Buffer(each) for each in into]

    def run() -> list[Any]:
        pipeline.realize(buffers)
        return into

    return run


def _inside(hl: Any, name: str, array: Any, outside: float | None = None) -> Any:
    """An array as a function that is defined everywhere: its last elements go on, or `outside`."""
    variables = [hl.Var(f"{name}_{axis}") for axis in range(array.ndim)]
    buffer, func = hl.Buffer(array), hl.Func(name)
    extents = list(reversed(array.shape))
    places = [hl.clamp(x, 0, extent - 1) for x, extent in zip(variables, extents, strict=True)]
    element = buffer[tuple(places) if len(places) > 1 else places[0]]
    if outside is not None:
        within = [(x >= 0) & (x < extent) for x, extent in zip(variables, extents, strict=True)]
        inside = within[0]
        for each in within[1:]:
            inside = inside & each
        element = hl.select(inside, element, hl.f32(outside))
    func[tuple(variables) if len(variables) > 1 else variables[0]] = element
    return func

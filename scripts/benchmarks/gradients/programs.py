"""The ten programs whose gradients are measured: stencils, recurrences, products, reductions and rows of a matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import tiramisu_py as tm

N, M, K, T, B, C, F, E = tm.params("N M K T B C F E")
i, j, k, t, b, c, o, y, x, e, n = tm.iters("i j k t b c o y x e n")
c0, c1, j0, j1 = tm.iters("c0 c1 j0 j1")
D = tm.float32
Arrays = dict[str, Any]


@dataclass(frozen=True)
class Differentiated:
    """A function, the inputs by which it is differentiated, and sizes: small ones, and those that are measured."""

    name: str
    make: Callable[..., tm.Function]
    wrt: tuple[str, ...]
    small: Mapping[str, int]
    large: Mapping[str, int]
    #: Sums that are made in tiles by hand, before `auto_schedule()` does the rest: their name, the channel they are
    #: for, and the loops of their terms.
    tiles: tuple[tuple[str, tm.Iter, tuple[tm.Iter, ...]], ...] = ()
    #: A recurrence whose step computes a few levels again at a time, while they are in the cache: the sum over time
    #: beside its adjoint, and of how many levels one is kept.
    segments: tuple[str, str, int] | None = None
    #: The least and the greatest of the numbers it is called with.
    numbers: tuple[float, float] = (0.1, 0.25)

    def schedule(self, function: tm.Function, threads: int) -> None:
        """Schedule the function or its step: tiles and segments of time by hand, the rest automatically."""
        for name, channel, terms in self.tiles:
            if name in function.algorithm.computations:
                in_tiles(function, name, channel, terms)
        if self.segments is not None and self.segments[1] in function.algorithm.computations:
            in_segments(function, *self.segments, threads)
        function.auto_schedule(threads=threads)

    def arguments(self, sizes: Mapping[str, int], seed: int = 0) -> Arrays:
        """Inputs of these sizes, without weights of outputs, and the sizes themselves."""
        f, numbers = self.make(), np.random.default_rng(seed)
        found: Arrays = {name: sizes[name] for name in f.algorithm.params}
        for name, declared in f.algorithm.inputs.items():
            shape = tuple(_value(extent, sizes) for extent in declared.passed_shape)
            if declared.dtype.is_float:
                least, greatest = self.numbers
                found[name] = (least + (greatest - least) * numbers.random(shape)).astype(declared.dtype.numpy)
            elif declared.monotone:
                ends = np.linspace(0, sizes["E"], shape[0])
                found[name] = ends.astype(declared.dtype.numpy)
            else:
                assert declared.values is not None
                low, high = (_value(end, sizes) for end in declared.values)
                found[name] = numbers.integers(low, high, shape).astype(declared.dtype.numpy)
        return found

    def weights(self, outputs: Mapping[str, np.ndarray[Any, Any]], seed: int = 1) -> Arrays:
        """A weight for each element of the outputs."""
        numbers = np.random.default_rng(seed)
        made = {f"d_{name}": numbers.standard_normal(each.shape) for name, each in outputs.items()}
        return {name: each.astype(np.float32) for name, each in made.items()}


def in_tiles(step: tm.Function, name: str, channel: tm.Iter, terms: tuple[tm.Iter, ...]) -> None:
    """Eight channels by two vectors of a convolution's sums in registers: a picture is loaded once for eight."""
    whole = step[name]
    sums = whole.accumulate(f"{name}_sums")
    whole.split(channel, 8, c0, c1).split(j, 32, j0, j1).reorder(b, c0, i, j0, c1, j1)
    sums.compute_at(whole, j0)
    sums.update.reorder(*terms, channel, j)
    sums.unroll(channel).vectorize(j, 16, remainder="mask", partial="specialize")
    whole.unroll(c1).vectorize(j1, 16, remainder="mask", partial="specialize")
    whole.parallelize(b)


def in_segments(step: tm.Function, name: str, total: str, every: int, threads: int) -> None:
    """Each k-th level of a recurrence is kept, and those between are computed again before its adjoint reads them."""
    adjoint = step[f"d_{name}"]
    step[total].update.reorder(t, i, j)
    step[total].update.after(adjoint, t)
    adjoint.fold(t, 2)
    if "heard" in step.algorithm.computations:
        step["heard"].after(step[name], t)
    step[name].recompute(t, every=every)
    for each in (step[total].update, adjoint):
        each.vectorize(j, 16, remainder="mask")
        if threads > 1:
            each.parallelize(i)


def _value(extent: tm.Expr, sizes: Mapping[str, int]) -> int:
    return int(eval(str(extent), {}, dict(sizes)))


def conv2d(memory: tm.Memory = tm.HOST) -> tm.Function:
    f = tm.Function("conv2d", params=[B, C, F, N, M], assume="B >= 1 and C >= 1 and F >= 1 and N >= 3 and M >= 3")
    image, weight = (
        f.input("image", D, [B, C, N + 2, M + 2], memory=memory),
        f.input("weight", D, [F, C, 3, 3], memory=memory),
    )
    f.outputs(f.reduction("out", {b: B, o: F, i: N, j: M}, {c: C, y: 3, x: 3}, tm.sum,
                          image[b, c, i + y, j + x] * weight[o, c, y, x]))  # fmt: skip
    return f


def unsharp() -> tm.Function:
    f = tm.Function("unsharp", params=[N, M], assume="N >= 3 and M >= 3")
    image = f.input("image", D, [3, N + 2, M + 2])
    grey = f.computation("grey", {i: N + 2, j: M + 2},
                         0.299 * image[0, i, j] + 0.587 * image[1, i, j] + 0.114 * image[2, i, j])  # fmt: skip
    down = f.computation("down", {i: N, j: M + 2}, 0.25 * grey[i, j] + 0.5 * grey[i + 1, j] + 0.25 * grey[i + 2, j])
    blur = f.computation("blur", {i: N, j: M}, 0.25 * down[i, j] + 0.5 * down[i, j + 1] + 0.25 * down[i, j + 2])
    own = grey[i + 1, j + 1]
    ratio = f.computation("ratio", {i: N, j: M}, (2 * own - blur[i, j]) / own)
    f.outputs(f.computation("out", {c: 3, i: N, j: M}, ratio[i, j] * image[c, i + 1, j + 1]))
    return f


def harris() -> tm.Function:
    f = tm.Function("harris", params=[N, M], assume="N >= 3 and M >= 3")
    a = f.input("a", D, [N + 4, M + 4])
    wide = {i: N + 2, j: M + 2}
    dx = f.computation("dx", wide, a[i, j + 2] - a[i, j] + 2 * (a[i + 1, j + 2] - a[i + 1, j])
                       + a[i + 2, j + 2] - a[i + 2, j])  # fmt: skip
    dy = f.computation("dy", wide, a[i + 2, j] - a[i, j] + 2 * (a[i + 2, j + 1] - a[i, j + 1])
                       + a[i + 2, j + 2] - a[i, j + 2])  # fmt: skip
    xx = f.computation("xx", wide, dx[i, j] * dx[i, j])
    yy = f.computation("yy", wide, dy[i, j] * dy[i, j])
    xy = f.computation("xy", wide, dx[i, j] * dy[i, j])
    sums = []
    for name, of in (("sxx", xx), ("syy", yy), ("sxy", xy)):
        near = [of[i + down, j + right] for down in range(3) for right in range(3)]
        sums.append(f.computation(name, {i: N, j: M}, sum(near[1:], start=near[0])))
    sxx, syy, sxy = sums
    trace = sxx[i, j] + syy[i, j]
    f.outputs(f.computation("out", {i: N, j: M}, sxx[i, j] * syy[i, j] - sxy[i, j] * sxy[i, j] - 0.04 * trace * trace))
    return f


def bilateral_grid() -> tm.Function:
    """Sums and counts of 8 x 8 cells by level, smoothed along levels; each pixel takes that of its cell and level."""
    f = tm.Function("bilateral_grid", params=[N, M], assume="N >= 1 and M >= 1")
    a, level = f.input("a", D, [8 * N, 8 * M]), f.input("level", tm.int32, [8 * N, 8 * M], values=(1, 9))
    cell, inside = {i: N, j: M, k: 10}, {y: 8, x: 8}
    row, column = 8 * i + y, 8 * j + x
    chosen = level[row, column] == k
    g = f.reduction("g", cell, inside, tm.sum, a[row, column], where=chosen)
    count = f.reduction("count", cell, inside, tm.sum, tm.cast(D, 1), where=chosen)
    r = {i: N, j: M, k: (1, 9)}
    smooth = f.computation("smooth", r, (g[i, j, k - 1] + 2 * g[i, j, k] + g[i, j, k + 1])
                           / (count[i, j, k - 1] + 2 * count[i, j, k] + count[i, j, k + 1] + 1e-3))  # fmt: skip
    f.outputs(f.computation("out", {i: 8 * N, j: 8 * M}, a[i, j] * smooth[i // 8, j // 8, level[i, j]]))
    return f


def heat(memory: tm.Memory = tm.HOST) -> tm.Function:
    f = tm.Function("heat", params=[T, N, M], assume="T >= 1 and N >= 3 and M >= 3")
    u0, rate = f.input("u0", D, [N, M], memory=memory), f.input("rate", D, [N, M], memory=memory)
    inside = (i >= 1) & (i < N - 1) & (j >= 1) & (j < M - 1)

    def step(u: Any) -> tm.Expr:
        near = u[t - 1, i - 1, j] + u[t - 1, i + 1, j] + u[t - 1, i, j - 1] + u[t - 1, i, j + 1]
        moved = u[t - 1, i, j] + rate[i, j] * (near - 4 * u[t - 1, i, j])
        return tm.select(t == 0, u0[i, j], tm.select(inside, moved, u[t - 1, i, j]))

    u = f.computation("u", {t: T + 1, i: N, j: M}, step)
    f.outputs(f.computation("last", {i: N, j: M}, u[T, i, j]))
    return f


def wave() -> tm.Function:
    f = tm.Function("wave", params=[T, N, M], assume="T >= 2 and N >= 5 and M >= 5")
    speed, pulse = f.input("speed", D, [N, M]), f.input("pulse", D, [T + 1])
    inside = (i >= 1) & (i < N - 1) & (j >= 1) & (j < M - 1)

    def step(u: Any) -> tm.Expr:
        near = u[t - 1, i - 1, j] + u[t - 1, i + 1, j] + u[t - 1, i, j - 1] + u[t - 1, i, j + 1] - 4 * u[t - 1, i, j]
        source = tm.select((i == 2) & (j == 2), pulse[t], 0.0)
        moved = 2 * u[t - 1, i, j] - u[t - 2, i, j] + speed[i, j] * near + source
        return tm.select((t >= 2) & inside, moved, 0.0)

    u = f.computation("u", {t: T + 1, i: N, j: M}, step, dtype=D)
    f.outputs(f.computation("heard", {t: T + 1, j: M}, u[t, 2, j]))
    return f


def softmax_loss(memory: tm.Memory = tm.HOST) -> tm.Function:
    f = tm.Function("softmax_loss", params=[N, K], assume="N >= 1 and K >= 1")
    a, label = f.input("a", D, [N, K], memory=memory), f.input("label", tm.int32, [N], values=(0, K), memory=memory)
    top = f.reduction("top", {i: N}, {k: K}, tm.max, tm.stop_gradient(a[i, k]))
    power = f.computation("power", {i: N, k: K}, tm.exp(a[i, k] - top[i]))
    whole = f.reduction("whole", {i: N}, {k: K}, tm.sum, power[i, k])
    f.outputs(f.computation("loss", {i: N}, tm.log(whole[i]) + top[i] - a[i, label[i]]))
    return f


def layer_norm(memory: tm.Memory = tm.HOST) -> tm.Function:
    f = tm.Function("layer_norm", params=[N, K], assume="N >= 1 and K >= 1")
    a, scale, shift = (
        f.input("a", D, [N, K], memory=memory),
        f.input("scale", D, [K], memory=memory),
        f.input("shift", D, [K], memory=memory),
    )
    mean = f.reduction("mean", {i: N}, {k: K}, tm.mean, a[i, k])
    var = f.reduction("var", {i: N}, {k: K}, tm.var, a[i, k])
    ready = (a[i, k] - mean[i]) / tm.sqrt(var[i] + 1e-5)
    f.outputs(f.computation("out", {i: N, k: K}, ready * scale[k] + shift[k]))
    return f


def perceptron() -> tm.Function:
    f = tm.Function("perceptron", params=[N, M, K], assume="N >= 1 and M >= 1 and K >= 1")
    a, w1 = f.input("a", D, [N, M]), f.input("w1", D, [M, K])
    w2, w3 = f.input("w2", D, [K, K]), f.input("w3", D, [K, M])
    h1 = f.reduction("h1", {i: N, k: K}, {j: M}, tm.sum, a[i, j] * w1[j, k])
    r1 = f.computation("r1", {i: N, k: K}, tm.maximum(h1[i, k], 0.0))
    h2 = f.reduction("h2", {i: N, k: K}, {o: K}, tm.sum, r1[i, o] * w2[o, k])
    r2 = f.computation("r2", {i: N, k: K}, tm.maximum(h2[i, k], 0.0))
    f.outputs(f.reduction("out", {i: N, j: M}, {k: K}, tm.sum, r2[i, k] * w3[k, j]))
    return f


def csr() -> tm.Function:
    f = tm.Function("csr", params=[N, M, E], assume="N >= 1 and M >= 1")
    start = f.input("start", tm.int32, [N + 1], values=(0, E + 1), monotone=True)
    column = f.input("column", tm.int32, [E], values=(0, M))
    value, a = f.input("value", D, [E]), f.input("a", D, [M])
    f.outputs(f.reduction("out", {i: N}, {e: (start[i], start[i + 1])}, tm.sum, value[e] * a[column[e]]))
    return f


PROGRAMS = {
    each.name: each
    for each in (
        Differentiated("conv2d", conv2d, ("image", "weight"), {"B": 1, "C": 2, "F": 3, "N": 5, "M": 6},
                       {"B": 4, "C": 16, "F": 16, "N": 64, "M": 64},
                       (("out", o, (c, y, x)), ("d_image", c, (o, y, x)))),
        Differentiated("unsharp", unsharp, ("image",), {"N": 5, "M": 6}, {"N": 512, "M": 512}),
        Differentiated("harris", harris, ("a",), {"N": 5, "M": 6}, {"N": 512, "M": 512}),
        Differentiated("bilateral_grid", bilateral_grid, ("a",), {"N": 2, "M": 2}, {"N": 64, "M": 64}),
        Differentiated("heat", heat, ("u0", "rate"), {"T": 3, "N": 6, "M": 7}, {"T": 50, "N": 256, "M": 256},
                       segments=("u", "d_rate", 7)),
        Differentiated("wave", wave, ("speed",), {"T": 5, "N": 6, "M": 7}, {"T": 200, "N": 128, "M": 128},
                       segments=("u", "d_speed", 14),
                       numbers=(0.4, 0.49)),  # with small numbers a field that spreads has many denormal ones
        Differentiated("softmax_loss", softmax_loss, ("a",), {"N": 3, "K": 5}, {"N": 1024, "K": 512}),
        Differentiated("layer_norm", layer_norm, ("a", "scale", "shift"), {"N": 3, "K": 6}, {"N": 1024, "K": 512}),
        Differentiated("perceptron", perceptron, ("a", "w1", "w2", "w3"), {"N": 3, "M": 4, "K": 5},
                       {"N": 256, "M": 256, "K": 256}),
        Differentiated("csr", csr, ("value", "a"), {"N": 4, "M": 5, "E": 9}, {"N": 20000, "M": 20000, "E": 200000}),
    )
}  # fmt: skip

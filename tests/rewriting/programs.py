"""Programs that are differentiated: stencils, products, reductions, recurrences, gathers, scatters, words.

Each is a function of no argument that declares one. `SIZES` are those at which it is tried: parts that are empty, of
one point, and full. `EXACT` are polynomials whose derivatives are exact with small integers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import tiramisu_py as tm

N, M, K, T, E, B = tm.params("N M K T E B")
i, j, k, t, e, n, p, q, b = tm.iters("i j k t e n p q b")
D = tm.float64

PROGRAMS: dict[str, Callable[[], tm.Function]] = {}
SIZES: dict[str, list[dict[str, int]]] = {}
EXACT: set[str] = set()


def program(*sizes: Mapping[str, int], exact: bool = True) -> Callable[[Callable[[], tm.Function]], Any]:
    def kept(make: Callable[[], tm.Function]) -> Any:
        PROGRAMS[make.__name__] = make
        SIZES[make.__name__] = [dict(each) for each in sizes]
        if exact:
            EXACT.add(make.__name__)
        return make

    return kept


# -- stencils and boundaries


@program({"T": 1, "N": 4}, {"T": 3, "N": 5}, {"T": 2, "N": 9})
def rod() -> tm.Function:
    f = tm.Function("rod", params=[T, N], assume="T >= 1 and N >= 4")
    u0, c = f.input("u0", D, [N]), f.input("c", D, [N])
    inside = (i >= 1) & (i < N - 1)
    u = f.computation("u", {t: T + 1, i: N}, lambda u: tm.select(
        t == 0, u0[i], tm.select(inside, u[t - 1, i] + c[i] * (u[t - 1, i - 1] - 2 * u[t - 1, i] + u[t - 1, i + 1]),
                                 u[t - 1, i])))  # fmt: skip
    f.outputs(f.computation("last", {i: N}, u[T, i] * u[T, i]))
    return f


@program({"T": 2, "N": 3, "M": 3}, {"T": 2, "N": 5, "M": 6})
def heat() -> tm.Function:
    f = tm.Function("heat", params=[T, N, M], assume="T >= 1 and N >= 3 and M >= 3")
    u0 = f.input("u0", D, [N, M])
    inside = (i >= 1) & (i < N - 1) & (j >= 1) & (j < M - 1)

    def step(u: Any) -> tm.Expr:
        near = u[t - 1, i - 1, j] + u[t - 1, i + 1, j] + u[t - 1, i, j - 1] + u[t - 1, i, j + 1]
        return tm.select(t == 0, u0[i, j], tm.select(inside, near - 3 * u[t - 1, i, j], u[t - 1, i, j]))

    u = f.computation("u", {t: T + 1, i: N, j: M}, step)
    f.outputs(f.computation("last", {i: N, j: M}, u[T, i, j]))
    return f


@program({"T": 2, "N": 3}, {"T": 4, "N": 6})
def wave() -> tm.Function:
    f = tm.Function("wave", params=[T, N], assume="T >= 2 and N >= 3")
    start, speed = f.input("start", D, [N]), f.input("speed", D, [N])
    source = f.input("source", D, [T + 1])

    def step(u: Any) -> tm.Expr:
        near = u[t - 1, i - 1] - 2 * u[t - 1, i] + u[t - 1, i + 1]
        moved = 2 * u[t - 1, i] - u[t - 2, i] + speed[i] * speed[i] * near + tm.select(i == 1, source[t], 0.0)
        return tm.select(t < 2, start[i], tm.select((i >= 1) & (i < N - 1), moved, 0.0))

    u = f.computation("u", {t: T + 1, i: N}, step)
    f.outputs(f.computation("heard", {t: T + 1}, u[t, N - 2]))
    return f


def _near(name: str, **options: Any) -> tm.Function:
    f = tm.Function(name, params=[N, M], assume="N >= 3 and M >= 3")
    a = f.input("a", D, [N, M])
    make = getattr(tm.boundary, name)
    near = make(a, 2.0, **options) if name == "constant" else make(a, **options)
    terms = [near[i + y, j + x] * float(1 + y + 3 * x) for y in (-1, 0, 2) for x in (-1, 0, 1)]
    f.outputs(f.computation("out", {i: N, j: M}, sum(terms[1:], start=terms[0])))
    return f


@program({"N": 3, "M": 3}, {"N": 5, "M": 4})
def repeat_edge() -> tm.Function:
    return _near("repeat_edge")


@program({"N": 3, "M": 3}, {"N": 5, "M": 4})
def repeat_image() -> tm.Function:
    return _near("repeat_image")


@program({"N": 3, "M": 3}, {"N": 5, "M": 4})
def mirror_image() -> tm.Function:
    return _near("mirror_image")


@program({"N": 3, "M": 3}, {"N": 5, "M": 4})
def mirror_interior() -> tm.Function:
    return _near("mirror_interior")


@program({"N": 3, "M": 3}, {"N": 5, "M": 4})
def constant() -> tm.Function:
    return _near("constant")


@program({"N": 3}, {"N": 4})
def three_dimensions() -> tm.Function:
    f = tm.Function("cube", params=[N], assume="N >= 3")
    a, w = f.input("a", D, [N, N, N]), f.scalar("w", D)
    near = tm.boundary.repeat_edge(a)
    sides = near[i - 1, j, k] + near[i + 1, j, k] + near[i, j - 1, k] + near[i, j + 1, k] + near[i, j, k - 1]
    f.outputs(f.computation("out", {i: N, j: N, k: N}, w * sides + a[i, j, k] * a[i, j, k]))
    return f


@program({"N": 4, "M": 4}, {"N": 7, "M": 5})
def harris() -> tm.Function:
    f = tm.Function("harris", params=[N, M], assume="N >= 4 and M >= 4")
    a = f.input("a", D, [N, M])
    near = f.computation("near", [i, j], a[tm.clip(i, 0, N - 1), tm.clip(j, 0, M - 1)])
    dx = f.computation("dx", [i, j], near[i, j + 1] - near[i, j - 1])
    dy = f.computation("dy", [i, j], near[i + 1, j] - near[i - 1, j])
    xx = f.computation("xx", [i, j], dx[i, j] * dx[i, j])
    xy = f.computation("xy", [i, j], dx[i, j] * dy[i, j])
    sxx = f.computation("sxx", [i, j], xx[i - 1, j] + xx[i, j] + xx[i + 1, j])
    f.outputs(f.computation("out", {i: N, j: M}, sxx[i, j] * xy[i, j] - xy[i, j - 1]))
    return f


# -- strides, triangles, views, slices


@program({"N": 1}, {"N": 4})
def downsampled() -> tm.Function:
    f = tm.Function("down", params=[N], assume="N >= 1")
    a = f.input("a", D, [3 * N + 1])
    f.outputs(f.computation("out", {i: N}, a[3 * i] * a[3 * i] + 2 * a[3 * i + 2]))
    return f


@program({"N": 1}, {"N": 2}, {"N": 5})
def upsampled() -> tm.Function:
    f = tm.Function("up", params=[N], assume="N >= 1")
    a = f.input("a", D, [N])
    f.outputs(f.computation("out", {i: 2 * N - 1}, a[i // 2] * (1.0 + i % 2) + a[(i + 1) // 2]))
    return f


@program({"N": 1}, {"N": 4})
def triangle() -> tm.Function:
    f = tm.Function("triangle", params=[N])
    a = f.input("a", D, [N, N])
    upper = f.computation("upper", {i: N, j: (i, N)}, a[i, j] * a[j, i], shape=[N, N])
    f.outputs(f.reduction("rows", {i: N}, {j: (i, N)}, tm.sum, upper[i, j] * a[i, i]), upper)
    return f


@program({"N": 1}, {"N": 3})
def viewed() -> tm.Function:
    f = tm.Function("viewed", params=[N])
    a = f.input("a", D, [N, 6])
    whole = a.reshape([N, 2, 3])
    f.outputs(f.computation("out", {i: N, j: 2}, whole[i, j, 0] * whole[i, 1 - j, 2] + whole[i, j, 1]))
    return f


@program({"N": 1, "M": 1}, {"N": 2, "M": 3})
def product_of_sizes() -> tm.Function:
    f = tm.Function("flat", params=[N, M])
    a = f.input("a", D, [N * M])
    f.outputs(f.computation("out", {i: N, j: M}, a[i * M + j] * a[i * M + j]))
    return f


@program({"T": 1, "N": 1}, {"T": 3, "N": 4})
def sliced() -> tm.Function:
    f = tm.Function("sliced", params=[T, N], assume="T >= 1 and N >= 1")
    a = f.input("a", D, [N])
    u = f.computation("u", {t: T + 1, i: N}, lambda u: tm.select(t == 0, a[i], u[t - 1, i] * a[i]))
    f.outputs(u[T, i], u[0, i])
    return f


@program({"N": 1}, {"N": 3})
def negative_indices() -> tm.Function:
    f = tm.Function("wide", params=[N], assume="N >= 1")
    a = f.input("a", D, [N])
    w = f.computation("w", {i: (-2, N + 1)}, a[tm.clip(i, 0, N - 1)] * a[0])
    f.outputs(w, f.computation("out", {i: N}, w[i - 2] * w[i + 1 - 1]))
    return f


@program({"N": 3}, {"N": 6})
def ring() -> tm.Function:
    f = tm.Function("ring", params=[N], assume="N >= 1")
    a = f.input("a", D, [N])
    f.outputs(f.computation("out", {i: N}, a[(i - 1) % N] * a[(i + 1) % N] + 3 * a[N - 1 - i]))
    return f


@program({"N": 2}, {"N": 5})
def anti_diagonals() -> tm.Function:
    f = tm.Function("anti", params=[N], assume="N >= 1")
    a = f.input("a", D, [2 * N])
    f.outputs(f.computation("out", {i: N, j: N}, a[i + j] * a[j] + a[2 * i]))
    return f


# -- products and convolutions


@program({"N": 1, "M": 2, "K": 0}, {"N": 2, "M": 3, "K": 4})
def matmul() -> tm.Function:
    f = tm.Function("matmul", params=[N, M, K])
    a, b = f.input("a", D, [N, K]), f.input("b", D, [K, M])
    f.outputs(f.reduction("c", {i: N, j: M}, {k: K}, tm.sum, a[i, k] * b[k, j]))
    return f


@program({"N": 1}, {"N": 4})
def matvec_of_itself() -> tm.Function:
    f = tm.Function("quadratic", params=[N])
    a, x = f.input("a", D, [N, N]), f.input("x", D, [N])
    y = f.reduction("y", {i: N}, {j: N}, tm.sum, a[i, j] * x[j] * x[i])
    f.outputs(f.reduction("loss", {}, {i: N}, tm.sum, y[i] * x[i]))
    return f


@program({"N": 3, "K": 3}, {"N": 7, "K": 2})
def conv1d() -> tm.Function:
    f = tm.Function("conv", params=[N, K], assume="K >= 1 and N >= K")
    x, w = f.input("x", D, [N]), f.input("w", D, [K])
    f.outputs(f.reduction("y", {i: N - K + 1}, {k: K}, tm.sum, x[i + k] * w[k]))
    return f


@program({"N": 2, "B": 1}, {"N": 4, "B": 2})
def conv2d() -> tm.Function:
    ky, kx, c, o = tm.iters("ky kx c o")
    f = tm.Function("conv2d", params=[B, N], assume="N >= 1")
    x, w, bias = f.input("x", D, [B, 2, N, N]), f.input("w", D, [3, 2, 3, 3]), f.input("bias", D, [3])
    near = tm.boundary.constant(x, 0.0, dims=[2, 3])
    y = f.reduction("y", {b: B, o: 3, i: N, j: N}, {c: 2, ky: 3, kx: 3}, tm.sum,
                    near[b, c, i + ky - 1, j + kx - 1] * w[o, c, ky, kx])  # fmt: skip
    f.outputs(f.computation("out", {b: B, o: 3, i: N, j: N}, y[b, o, i, j] * y[b, o, i, j] + bias[o]))
    return f


@program({"N": 2, "K": 2}, {"N": 3, "K": 4})
def strided_convolution() -> tm.Function:
    f = tm.Function("strided", params=[N, K], assume="N >= 1 and K >= 1")
    x, w = f.input("x", D, [2 * N + K]), f.input("w", D, [K])
    f.outputs(f.reduction("y", {i: N}, {k: K}, tm.sum, x[2 * i + k] * w[K - 1 - k]))
    return f


@program({"N": 2, "M": 2, "K": 2}, {"N": 3, "M": 4, "K": 2}, exact=False)
def perceptron() -> tm.Function:
    f = tm.Function("perceptron", params=[N, M, K])
    x, w1, w2 = f.input("x", D, [N, M]), f.input("w1", D, [M, K]), f.input("w2", D, [K, M])
    h = f.reduction("h", {i: N, k: K}, {j: M}, tm.sum, x[i, j] * w1[j, k])
    r = f.computation("r", {i: N, k: K}, tm.tanh(h[i, k]))
    o = f.reduction("o", {i: N, j: M}, {k: K}, tm.sum, r[i, k] * w2[k, j])
    f.outputs(f.computation("s", {i: N, j: M}, 1 / (1 + tm.exp(-o[i, j]))))
    return f


# -- reductions


@program({"N": 1, "K": 1}, {"N": 3, "K": 5}, exact=False)
def softmax() -> tm.Function:
    f = tm.Function("softmax", params=[N, K], assume="K >= 1")
    x = f.input("x", D, [N, K])
    top = f.reduction("top", {i: N}, {k: K}, tm.max, x[i, k])
    power = f.computation("power", {i: N, k: K}, tm.exp(x[i, k] - top[i]))
    whole = f.reduction("whole", {i: N}, {k: K}, tm.sum, power[i, k])
    f.outputs(f.computation("y", {i: N, k: K}, power[i, k] / whole[i]))
    return f


@program({"N": 1, "K": 2}, {"N": 3, "K": 5}, exact=False)
def layer_norm() -> tm.Function:
    f = tm.Function("layer_norm", params=[N, K], assume="K >= 1")
    x, scale, shift = f.input("x", D, [N, K]), f.input("scale", D, [K]), f.input("shift", D, [K])
    m = f.reduction("m", {i: N}, {k: K}, tm.mean, x[i, k])
    v = f.reduction("v", {i: N}, {k: K}, tm.var, x[i, k])
    y = (x[i, k] - m[i]) / tm.sqrt(v[i] + 1e-2)
    f.outputs(f.computation("y", {i: N, k: K}, y * scale[k] + shift[k]))
    return f


@program({"N": 1, "K": 2}, {"N": 3, "K": 4}, exact=False)
def norms() -> tm.Function:
    f = tm.Function("norms", params=[N, K], assume="K >= 1")
    x = f.input("x", D, [N, K])
    f.outputs(
        f.reduction("length", {i: N}, {k: K}, tm.norm, x[i, k]),
        f.reduction("soft", {i: N}, {k: K}, tm.logsumexp, 2 * x[i, k]),
    )
    return f


@program({"N": 2, "K": 1}, {"N": 3, "K": 4})
def products_with_zeros() -> tm.Function:
    f = tm.Function("products", params=[N, K])
    x = f.input("x", D, [N, K])
    f.outputs(f.reduction("y", {i: N}, {k: K}, tm.product, x[i, k] - x[i, 0]),
              f.reduction("z", {i: N}, {k: K}, tm.product, x[i, k]))  # fmt: skip
    return f


@program({"N": 1}, {"N": 3})
def products_of_pairs() -> tm.Function:
    f = tm.Function("pairs", params=[N])
    x, keep = f.input("x", D, [N, 3]), f.input("keep", tm.int32, [N], values=(0, 2))
    f.outputs(
        f.reduction("y", {}, {i: N, j: 2}, tm.product, x[i, j] * x[i, j] + 1),
        f.reduction("z", {j: 3}, {i: N}, tm.product, x[i, j], where=keep[i] == 1),
        f.reduction("w", {i: N}, {j: (i, N)}, tm.product, x[j, 0]),
    )
    return f


@program({"N": 1, "K": 2}, {"N": 3, "K": 6}, exact=False)
def places() -> tm.Function:
    f = tm.Function("places", params=[N, K], assume="K >= 1")
    x, w = f.input("x", D, [N, K]), f.input("w", D, [N])
    most = f.reduction("most", {i: N}, {k: K}, tm.argmax, x[i, k] * w[i])
    least = f.reduction("least", {i: N}, {k: K}, tm.min, x[i, k])
    f.outputs(f.computation("y", {i: N}, most[i]["value"] * least[i]), most)
    return f


@program({"N": 2, "M": 2}, {"N": 3, "M": 4})
def some_terms() -> tm.Function:
    f = tm.Function("some", params=[N, M])
    x, keep = f.input("x", D, [N, M]), f.input("keep", tm.int32, [N, M], values=(0, 2))
    f.outputs(f.reduction("y", {i: N}, {j: M}, tm.sum, x[i, j] * x[i, j], where=(keep[i, j] == 1) & (j >= i)))
    return f


@program({"N": 2, "M": 2}, {"N": 4, "M": 3})
def lower_sums() -> tm.Function:
    f = tm.Function("lower", params=[N, M])
    x = f.input("x", D, [N, M])
    s = f.reduction("s", {i: N, k: M}, {j: k + 1}, tm.sum, x[i, j])
    f.outputs(f.reduction("y", {}, {i: N, k: M}, tm.sum, s[i, k] * x[i, k]))
    return f


@program({"N": 3}, {"N": 5})
def pair() -> tm.Function:
    f = tm.Function("pair", params=[N], assume="N >= 1")
    x = f.input("x", D, [N])
    two = f.computation("two", {i: N}, (x[i] * x[i], x[N - 1 - i] + 1.0, tm.cast(tm.int32, i)))
    f.outputs(f.computation("y", {i: N}, two[i][0] * two[N - 1 - i][1]), two)
    return f


# -- recurrences


@program({"N": 1}, {"N": 2}, {"N": 5})
def scan() -> tm.Function:
    f = tm.Function("scanned", params=[N], assume="N >= 1")
    x = f.input("x", D, [N])
    s = f.scan("s", {i: N}, x[i] * x[i], tm.sum)
    f.outputs(f.computation("y", {i: N}, s[i] * x[i]))
    return f


@program({"N": 3}, {"N": 9})
def scan_in_chunks() -> tm.Function:
    f = tm.Function("chunks", params=[N], assume="N >= 1")
    x = f.input("x", D, [N])
    f.outputs(f.scan("s", {i: N}, x[i], tm.sum, chunks={b: 4}))
    return f


@program({"N": 1}, {"N": 4})
def scan_of_products() -> tm.Function:
    f = tm.Function("cumprod", params=[N], assume="N >= 1")
    x = f.input("x", D, [N])
    f.outputs(f.scan("s", {i: N}, x[i], tm.product))
    return f


@program({"N": 2}, {"N": 4})
def forward_substitution() -> tm.Function:
    f = tm.Function("solve", params=[N])
    a, r = f.input("a", D, [N, N]), f.input("r", D, [N])
    with f.together() as g:
        s = g.reduction("s", {i: N}, {j: i}, tm.sum, lambda: a[i, j] * x[j], dtype=D)
        x = g.computation("x", {i: N}, lambda: r[i] - s[i], dtype=D)
    f.outputs(x)
    return f


@program({"T": 1}, {"T": 3}, exact=False)
def lstm() -> tm.Function:
    f = tm.Function("lstm", params=[T], assume="T >= 1")
    x, w, v = f.input("x", D, [T, 2]), f.input("w", D, [2, 2]), f.input("v", D, [2, 2])

    def gate(z: tm.Expr) -> tm.Expr:
        return 1 / (1 + tm.exp(-z))

    with f.together() as g:
        z = g.reduction("z", {t: T, i: 2}, {j: 2}, tm.sum,
                        lambda: w[i, j] * x[t, j] + tm.select(t == 0, 0.0, v[i, j] * h[t - 1, j]), dtype=D)  # fmt: skip
        c = g.computation("c", {t: T, i: 2}, lambda: tm.select(t == 0, 0.0, c[t - 1, i]) * gate(z[t, i])
                          + gate(-z[t, i]) * tm.tanh(z[t, 1 - i]), dtype=D)  # fmt: skip
        h = g.computation("h", {t: T, i: 2}, lambda: gate(z[t, i]) * tm.tanh(c[t, i]), dtype=D)
    f.outputs(h)
    return f


@program({"N": 2, "M": 3}, {"N": 4, "M": 4})
def dynamic_programming() -> tm.Function:
    f = tm.Function("paths", params=[N, M], assume="N >= 1 and M >= 1")
    x = f.input("x", D, [N, M])
    s = f.computation("s", {i: N, j: M}, lambda s: tm.select(
        (i == 0) | (j == 0), x[i, j], s[i - 1, j] * x[i, j] + s[i, j - 1] - s[i - 1, j - 1]))  # fmt: skip
    f.outputs(s[N - 1, j])
    return f


@program({"N": 2}, {"N": 4})
def from_the_end() -> tm.Function:
    f = tm.Function("backwards", params=[N], assume="N >= 1")
    x = f.input("x", D, [N])
    s = f.computation("s", {i: N}, lambda s: tm.select(i == N - 1, x[i], s[i + 1] * x[i]))
    f.outputs(s)
    return f


# -- places that are values


@program({"N": 2, "E": 0}, {"N": 3, "E": 7})
def edges() -> tm.Function:
    f = tm.Function("edges", params=[N, E], assume="N >= 1")
    src, dst = (f.input(name, tm.int32, [E], values=(0, N)) for name in ("src", "dst"))
    weight, x = f.input("weight", D, [E]), f.input("x", D, [N])
    f.outputs(f.scatter("y", {n: N}, over={e: E}, at=[dst[e]], op=tm.sum, expr=weight[e] * x[src[e]]))
    return f


@program({"N": 2, "M": 3, "E": 0}, {"N": 3, "M": 2, "E": 6})
def csr() -> tm.Function:
    f = tm.Function("csr", params=[N, M, E], assume="M >= 1")
    start = f.input("start", tm.int32, [N + 1], values=(0, E + 1), monotone=True)
    column = f.input("column", tm.int32, [E], values=(0, M))
    value, x = f.input("value", D, [E]), f.input("x", D, [M])
    f.outputs(f.reduction("y", {i: N}, {p: (start[i], start[i + 1])}, tm.sum, value[p] * x[column[p]]))
    return f


@program({"N": 2, "K": 2}, {"N": 4, "K": 3})
def embedding() -> tm.Function:
    f = tm.Function("embedding", params=[N, M, K], assume="M = 5")
    table, word = f.input("table", D, [M, K]), f.input("word", tm.int64, [N], values=(0, M))
    f.outputs(f.computation("y", {i: N, k: K}, table[word[i], k] * table[word[i], 0]))
    return f


@program({"N": 3}, {"N": 5})
def histogram() -> tm.Function:
    f = tm.Function("histogram", params=[N])
    level, weight = f.input("level", tm.int32, [N], values=(-1, 5)), f.input("weight", D, [N])
    h = f.reduction("h", {b: 4}, {i: N}, tm.sum, weight[i] * weight[i], where=level[i] == b)
    f.outputs(f.computation("y", {b: 4}, h[b] * h[3 - b]))
    return f


@program({"N": 3}, {"N": 6})
def permuted() -> tm.Function:
    f = tm.Function("permuted", params=[N])
    order, x = f.input("order", tm.int32, [N], permutation=True), f.input("x", D, [N])
    f.outputs(f.computation("y", {i: N}, x[order[i]] * x[i]))
    return f


@program({"N": 2, "M": 2}, {"N": 3, "M": 6})
def placed() -> tm.Function:
    f = tm.Function("placed", params=[N, M])
    at = f.input("at", tm.int32, [N], values=(0, M), distinct=True)
    x, w = f.input("x", D, [M]), f.input("w", D, [N])
    f.outputs(f.computation("y", {i: N}, x[at[i]] * x[at[i]] * w[i]))
    return f


@program({"N": 2}, {"N": 4})
def guarded_values() -> tm.Function:
    f = tm.Function("guarded", params=[N])
    keep, x = f.input("keep", tm.int32, [N], values=(0, 3)), f.input("x", D, [N])
    z = f.computation("z", {i: N}, x[i] * x[i], where=keep[i] < 2)
    f.outputs(f.computation("y", {i: N}, z[i] * x[N - 1 - i], where=keep[i] < 2))
    return f


@program({"N": 2, "M": 4}, {"N": 4, "M": 5}, exact=False)
def bilateral_grid() -> tm.Function:
    f = tm.Function("grid", params=[N], assume="N >= 1")
    a, r = f.input("a", tm.float32, [N]), f.input("level", tm.int32, [N], values=(0, 4))
    g = f.reduction("g", {b: 4}, {i: N}, tm.sum, tm.cast(D, a[i]), where=r[i] == b)
    c = f.reduction("c", {b: 4}, {i: N}, tm.sum, tm.cast(D, 1), where=r[i] == b)
    f.outputs(f.computation("y", {i: N}, tm.cast(D, a[i]) * g[r[i]] / c[r[i]]))
    return f


# -- words


@program({"N": 6}, exact=False)
def elementary() -> tm.Function:
    f = tm.Function("elementary", params=[N])
    x, y = f.input("x", D, [N]), f.input("y", D, [N])
    a, c = x[i], y[i]
    words = [
        tm.sqrt(a), tm.cbrt(a), tm.exp(a), tm.exp2(a), tm.expm1(a), tm.log(a), tm.log2(a), tm.log10(a), tm.log1p(a),
        tm.sin(a), tm.cos(a), tm.tan(a), tm.arcsin(a), tm.arccos(a), tm.arctan(a), tm.sinh(a), tm.cosh(a), tm.tanh(a),
        tm.arcsinh(a), tm.arccosh(a + 2), tm.arctanh(a), tm.floor(a * 3), tm.rint(a), tm.erf(a), tm.arctan2(a, c),
        tm.hypot(a, c), tm.fmod(a, c * 0.3), tm.copysign(a, -c), abs(a - 0.4), tm.lerp(a, c, 0.3), -a, a / c, a**3,
        a**c, 2.0**a, a % (c * 0.3), tm.minimum(a, c), tm.maximum(a, c), tm.clip(a, 0.3, c), tm.absd(a, c),
        tm.select(a > c, a * a, c), a**0.5, a**0, a**1, a**2, tm.mux(i % 2, [a * c, c]),
    ]  # fmt: skip
    outputs = [f.computation(f"w{k}", {i: N}, word) for k, word in enumerate(words)]
    f.outputs(*outputs)
    return f


@program({"N": 4}, exact=False)
def narrow_types() -> tm.Function:
    f = tm.Function("narrow", params=[N])
    x, w = f.input("x", tm.float32, [N]), f.input("w", D, [N])
    h = f.computation("h", {i: N}, tm.cast(D, x[i]) * w[i] * 3 + i)
    f.outputs(f.computation("y", {i: N}, h[i] * x[i]))
    return f


@program({"N": 3})
def integers_beside() -> tm.Function:
    f = tm.Function("beside", params=[N])
    x, m = f.input("x", D, [N]), f.input("m", tm.int32, [N], values=(-3, 4))
    whole = f.computation("whole", {i: N}, tm.cast(tm.int32, x[i] * 2.5))
    f.outputs(whole, f.computation("y", {i: N}, x[i] * m[i] * whole[i] + tm.floor(x[i])))
    return f


def arguments(f: tm.Function, sizes: Mapping[str, int], seed: int, exact: bool) -> dict[str, Any]:
    """Arguments of a program: small whole numbers, or numbers between 0.2 and 0.9."""
    numbers = np.random.default_rng(seed)
    params = {**dict.fromkeys(f.algorithm.params, 5), **sizes}
    given: dict[str, Any] = {name: params[name] for name in f.algorithm.params}
    for name, declared in f.algorithm.inputs.items():
        shape = tuple(_value(extent, params) for extent in declared.passed_shape)
        if declared.dtype.is_float:
            made = numbers.integers(-3, 4, shape) if exact else numbers.uniform(0.2, 0.9, shape)
            given[name] = float(made) if declared.scalar else np.asarray(made, declared.dtype.numpy)
        elif declared.permutation:
            given[name] = numbers.permutation(shape[0]).astype(declared.dtype.numpy)
        else:
            assert declared.values is not None
            low, high = (_value(end, params) for end in declared.values)
            made = numbers.integers(low, max(high, low + 1), shape)
            if declared.distinct:
                made = numbers.choice(np.arange(low, high), shape, replace=False)
            given[name] = (np.sort(made) if declared.monotone else made).astype(declared.dtype.numpy)
    return given


def _value(extent: tm.Expr, params: Mapping[str, int]) -> int:
    return int(eval(str(extent).replace("max(", "max(0,"), {"max": max}, dict(params)))

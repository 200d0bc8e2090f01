"""Small algorithms of each form that automatic schedules know, by name."""

from __future__ import annotations

from collections.abc import Callable

import tiramisu_py as tm

N, M, K, T = tm.params("N M K T")
i, j, k, t, p = tm.iters("i j k t p")
D = tm.float64


def pointwise() -> tm.Function:
    f = tm.Function("pointwise", params=[N, M])
    a = f.input("a", tm.float32, [N, M])
    twice = f.computation("twice", {i: N, j: M}, 2 * a[i, j])
    f.outputs(f.computation("out", {i: N, j: M}, tm.sqrt(tm.absolute(twice[i, j]) + a[i, j] * a[i, j])))
    return f


def transposed() -> tm.Function:
    f = tm.Function("transposed", params=[N, M])
    a, b = f.input("a", D, [M, N]), f.input("b", D, [M, N])
    f.outputs(f.computation("c", {i: N, j: M}, a[j, i] + b[j, i], shape=[N, M]))
    return f


def line() -> tm.Function:
    f = tm.Function("line", params=[N])
    a = f.input("a", tm.int32, [N])
    f.outputs(f.computation("b", {i: N}, a[i] * 3 + i))
    return f


def product() -> tm.Function:
    f = tm.Function("product", params=[N, M, K])
    a, b, c = f.input("a", D, [N, K]), f.input("b", D, [K, M]), f.input("c", D, [N, M])
    s = f.reduction("s", {i: N, j: M}, {k: K}, tm.sum, a[i, k] * b[k, j])
    f.outputs(f.computation("out", {i: N, j: M}, 1.5 * s[i, j] + c[i, j]))
    return f


def both_sides() -> tm.Function:
    """A matrix and its transpose times vectors, one after the other."""
    f = tm.Function("both_sides", params=[N, M])
    a, x = f.input("a", D, [N, M]), f.input("x", D, [M])
    s = f.reduction("s", {i: N}, {j: M}, tm.sum, a[i, j] * x[j])
    f.outputs(f.reduction("y", {j: M}, {i: N}, tm.sum, a[i, j] * s[i]))
    return f


def triangle() -> tm.Function:
    f = tm.Function("triangle", params=[N, M])
    a = f.input("a", D, [N, M])
    f.outputs(f.reduction("s", {i: N, j: i + 1}, {k: M}, tm.sum, a[i, k] * a[j, k], shape=[N, N]))
    return f


def rank_two() -> tm.Function:
    """Two products in one term, each of both arrays, above the diagonal."""
    f = tm.Function("rank_two", params=[N, M])
    a, b = f.input("a", D, [M, N]), f.input("b", D, [M, N])
    term = a[k, i] * b[k, j] + b[k, i] * a[k, j]
    f.outputs(f.reduction("s", {i: N, j: (i, N)}, {k: M}, tm.sum, term, shape=[N, N]))
    return f


def pairs() -> tm.Function:
    """The best way to put parentheses: a recurrence that runs from the last row to the first."""
    f = tm.Function("pairs", params=[N])
    a = f.input("a", tm.int32, [N])
    with f.together() as g:
        best = g.reduction("best", {i: N, j: (i + 1, N)}, {k: (i, j)}, tm.max, lambda: c[i, k] + c[k + 1, j])
        c = g.computation("c", {i: N, j: (i, N)}, lambda: tm.select(i == j, a[i], best[i, j] % 7), shape=[N, N])
    f.outputs(c)
    return f


def reverse_prefix() -> tm.Function:
    """Sums from both ends of each row."""
    f = tm.Function("reverse_prefix", params=[N, M], assume="M >= 1")
    a = f.input("a", tm.float32, [N, M])
    right = f.computation("right", {i: N, j: M}, lambda r: tm.select(j == 0, a[i, j], 0.5 * r[i, j - 1] + a[i, j]))
    left = f.computation("left", {i: N, j: M}, lambda r: tm.select(j == M - 1, a[i, j], 0.5 * r[i, j + 1] + a[i, j]))
    f.outputs(f.computation("both", {i: N, j: M}, right[i, j] + left[i, j]))
    return f


def paths() -> tm.Function:
    """Shortest paths over more and more nodes: every level reads rows and columns of the last one."""
    f = tm.Function("paths", params=[N])
    a = f.input("a", tm.int32, [N, N])
    d = f.computation(
        "d", {k: N + 1, i: N, j: N},
        lambda d: tm.select(k == 0, a[i, j], tm.min(d[k - 1, i, j], d[k - 1, i, k - 1] + d[k - 1, k - 1, j])),
    )  # fmt: skip
    f.outputs(d[N, i, j])
    return f


def softmax() -> tm.Function:
    f = tm.Function("softmax", params=[N, M], assume="M >= 1")
    x = f.input("x", tm.float32, [N, M])
    top = f.reduction("top", {i: N}, {j: M}, tm.max, x[i, j])
    power = f.computation("power", {i: N, j: M}, tm.exp(x[i, j] - top[i]))
    total = f.reduction("total", {i: N}, {j: M}, tm.sum, power[i, j])
    f.outputs(f.computation("y", {i: N, j: M}, power[i, j] / total[i]))
    return f


def blur() -> tm.Function:
    f = tm.Function("blur", params=[N, M])
    a = f.input("a", tm.float32, [N + 2, M + 2])
    across = f.computation("across", {i: N + 2, j: M}, (a[i, j] + a[i, j + 1] + a[i, j + 2]) / 3)
    f.outputs(f.computation("down", {i: N, j: M}, (across[i, j] + across[i + 1, j] + across[i + 2, j]) / 3))
    return f


def heat() -> tm.Function:
    """A time loop that keeps all its levels, as declared."""
    f = tm.Function("heat", params=[T, N, M], assume="N >= 1 and M >= 1")
    a = f.input("a", D, [N, M])
    border = (t == 0) | (i == 0) | (i == N - 1) | (j == 0) | (j == M - 1)

    def level(u: tm.Computation) -> tm.Expr:
        around = u[t - 1, i - 1, j] + u[t - 1, i + 1, j] + u[t - 1, i, j - 1] + u[t - 1, i, j + 1]
        return tm.select(border, a[i, j], 0.25 * around)

    u = f.computation("u", {t: T + 1, i: N, j: M}, level)
    f.outputs(u[T, i, j])
    return f


def prefix() -> tm.Function:
    f = tm.Function("prefix", params=[N, M])
    a = f.input("a", tm.int64, [N, M])
    f.outputs(f.computation("s", {i: N, j: M}, lambda s: tm.select(j == 0, a[i, j], s[i, j - 1] + a[i, j])))
    return f


def factors() -> tm.Function:
    """The LU factors of a matrix: sums and quotients that read each other."""
    f = tm.Function("factors", params=[N])
    a = f.input("a", D, [N, N])
    with f.together() as g:
        s = g.reduction("s", {i: N, j: N}, {k: tm.min(i, j)}, tm.sum, lambda: u[i, k] * u[k, j])
        u = g.computation("u", {i: N, j: N}, lambda: tm.select(j < i, (a[i, j] - s[i, j]) / u[j, j], a[i, j] - s[i, j]))
    f.outputs(u)
    return f


def waves() -> tm.Function:
    """Two fields that follow each other in each step: the second one reads the next row of the first."""
    f = tm.Function("waves", params=[T, N, M], assume="N >= 1 and M >= 1")
    a, b = f.input("a", D, [N, M]), f.input("b", D, [N, M])
    with f.together() as g:
        e = g.computation(
            "e", {t: T + 1, i: N, j: M},
            lambda: tm.select(t == 0, a[i, j], tm.select(i == 0, 0.5, e[t - 1, i, j] - 0.5 * h[t - 1, i - 1, j])),
        )  # fmt: skip
        h = g.computation(
            "h", {t: T + 1, i: N, j: M},
            lambda: tm.select(t == 0, b[i, j], tm.select(i == N - 1, 0.5, h[t - 1, i, j] + 0.25 * e[t, i + 1, j])),
        )  # fmt: skip
    f.outputs(h[T, i, j])
    return f


def sweeps() -> tm.Function:
    """Sweeps in the caller's array, each value from those around it, of which those before it are new."""
    f = tm.Function("sweeps", params=[T, N], assume="N >= 1")
    a = f.input("a", D, [N, N])
    edge = (i == 0) | (i == N - 1) | (j == 0) | (j == N - 1)

    def inside(u: tm.Computation) -> tm.Expr:
        return (u[t, i - 1, j + 1] + u[t, i, j - 1] + u[t - 1, i, j + 1] + u[t - 1, i + 1, j]) / 4

    u = f.computation(
        "u", {t: T + 1, i: N, j: N},
        lambda u: tm.select(t == 0, a[i, j], tm.select(edge, u[t - 1, i, j], inside(u))),
    )  # fmt: skip
    f.outputs(u[T, i, j])
    for field in ("u", "u_out"):
        f[field].store_in(a, [i, j])
    return f


def alike() -> tm.Function:
    """How much two rows have in common, in order."""
    f = tm.Function("alike", params=[N, M], assume="N >= 1 and M >= 1")
    a, b = f.input("a", tm.int32, [N]), f.input("b", tm.int32, [M])
    same = tm.cast(tm.int32, a[i] == b[j])
    most = f.computation(
        "most", {i: N, j: M},
        lambda most: tm.select(
            (i == 0) | (j == 0), same, tm.max(most[i - 1, j - 1] + same, tm.max(most[i - 1, j], most[i, j - 1]))
        ),
    )  # fmt: skip
    f.outputs(f.computation("found", {k: 1}, most[N - 1, M - 1 + k]))
    return f


def shortest(assume: str = "1 <= N <= 1024") -> tm.Function:
    """The lengths of shortest paths, in place: step k allows ways over node k - 1."""
    f = tm.Function("shortest", params=[N], assume=assume)
    a = f.input("a", tm.int32, [N, N])
    with f.together() as g:
        to = g.computation("to", {k: (1, N + 1), i: N}, lambda: d[k - 1, i, k - 1])
        on = g.computation("on", {k: (1, N + 1), j: N}, lambda: d[k - 1, k - 1, j])
        d = g.computation(
            "d", {k: N + 1, i: N, j: N},
            lambda: tm.select(k == 0, tm.absolute(a[i, j]), tm.min(d[k - 1, i, j], to[k, i] + on[k, j])),
        )  # fmt: skip
    f.outputs(d[N, i, j])
    for level in (d, f["d_out"]):
        level.store_in(a, [i, j])
    return f


def two_ways() -> tm.Function:
    """A recurrence along each row, and one back; then the same along columns, in each of T steps."""
    f = tm.Function("two_ways", params=[T, N, M], assume="N >= 1 and M >= 1")
    a = f.input("a", D, [N, M])
    steps = {t: (1, T + 1)}
    with f.together() as g:
        p = g.computation("p", {**steps, i: N, j: M}, lambda: tm.select(j == 0, 0, p[t, i, j - 1] / 2) + u[t - 1, i, j])
        v = g.computation("v", {**steps, i: N, j: M}, lambda: tm.select(j == M - 1, 0, v[t, i, j + 1] / 2) + p[t, i, j])
        q = g.computation("q", {**steps, j: M, i: N}, lambda: tm.select(i == 0, 0, q[t, j, i - 1] / 4) + v[t, i, j])
        u = g.computation("u", {t: T + 1, i: N, j: M}, lambda: tm.select(t == 0, a[i, j], q[t, j, i] / 8))
    f.outputs(u[T, i, j])
    f.order(p, v, at=i)
    return f


def there_and_back() -> tm.Function:
    """A recurrence along each row of the caller's array, and one back."""
    f = tm.Function("there_and_back", params=[N, M], assume="M >= 1")
    a = f.input("a", tm.float32, [N, M])
    with f.together() as g:
        there = g.computation(
            "there", {i: N, j: M}, lambda: tm.select(j == 0, a[i, j], there[i, j - 1] / 2 + a[i, j] - a[i, j - 1])
        )
        back = g.computation("back", {i: N, j: M}, lambda: tm.select(j == M - 1, 0, back[i, j + 1] / 2) + there[i, j])
    f.outputs(back)
    return f


def sparse() -> tm.Function:
    """Sums whose bounds are values."""
    f = tm.Function("sparse", params=[N, M, K])
    start = f.input("start", tm.int32, [N + 1], values=(0, K + 1), monotone=True)
    column = f.input("column", tm.int32, [K], values=(0, M))
    value, x = f.input("value", D, [K]), f.input("x", D, [M])
    f.outputs(f.reduction("y", {i: N}, {p: (start[i], start[i + 1])}, tm.sum, value[p] * x[column[p]]))
    return f


def total() -> tm.Function:
    f = tm.Function("total", params=[N, M])
    a = f.input("a", tm.int64, [N, M])
    f.outputs(f.reduction("s", {}, {i: N, j: M}, tm.sum, a[i, j]))
    return f


ALL: tuple[Callable[[], tm.Function], ...] = (
    pointwise, transposed, line, product, both_sides, triangle, rank_two, pairs, reverse_prefix, paths, softmax, blur,
    heat, prefix, factors, waves, sweeps, alike, there_and_back, sparse, total,
)  # fmt: skip

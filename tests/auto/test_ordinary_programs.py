"""Programs of other people's codes beside PolyBench's: each form of a nest that automatic schedules know has several.

A form that one benchmark alone has belongs into that benchmark's schedule (docs/results/house.md counts them).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.auto.programs import D, M, N, T, i, j, k, t

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Ordinary:
    """A program, words of the offer that is chosen for it, sizes, and its values by NumPy."""

    make: Callable[[], tm.Function]
    chosen: str
    sizes: dict[str, int]
    exact: Callable[..., Array | tuple[Array, ...]]


def warped() -> tm.Function:
    """Dynamic time warping: how far two series are from each other."""
    f = tm.Function("warped", params=[N, M], assume="N >= 1 and M >= 1")
    a, b = f.input("a", D, [N]), f.input("b", D, [M])

    def least(d: tm.Computation) -> tm.Expr:
        inside = tm.min(d[i - 1, j - 1], tm.min(d[i - 1, j], d[i, j - 1]))
        return tm.select(
            (i == 0) & (j == 0), 0.0, tm.select(i == 0, d[i, j - 1], tm.select(j == 0, d[i - 1, j], inside))
        )

    d = f.computation("d", {i: N, j: M}, lambda d: tm.absolute(a[i] - b[j]) + least(d))
    f.outputs(f.computation("cost", {k: 1}, d[N - 1, M - 1 + k]))
    return f


def warped_exactly(a: Array, b: Array, **_: Any) -> Array:
    d = np.full((len(a) + 1, len(b) + 1), np.inf)
    d[0, 0] = 0
    for row in range(len(a)):
        for column in range(len(b)):
            near = min(d[row, column], d[row, column + 1], d[row + 1, column])
            d[row + 1, column + 1] = abs(a[row] - b[column]) + near
    return d[-1:, -1]


def relaxed() -> tm.Function:
    """Successive over-relaxation of Laplace's equation."""
    f = tm.Function("relaxed", params=[T, N], assume="T >= 1 and N >= 3")
    a, w = f.input("a", D, [N, N]), f.scalar("w", D)
    edge = (i == 0) | (i == N - 1) | (j == 0) | (j == N - 1)

    def inside(u: tm.Computation) -> tm.Expr:
        around = u[t, i - 1, j] + u[t, i, j - 1] + u[t - 1, i + 1, j] + u[t - 1, i, j + 1]
        return (1 - w) * u[t - 1, i, j] + w / 4 * around

    u = f.computation(
        "u",
        {t: T + 1, i: N, j: N},
        lambda u: tm.select(t == 0, a[i, j], tm.select(edge, u[t - 1, i, j], inside(u))),
    )
    f.outputs(u[T, i, j])
    return f


def relaxed_exactly(a: Array, w: float, T: int, **_: Any) -> Array:
    u = a.copy()
    for _step in range(T):
        for r in range(1, len(u) - 1):
            for c in range(1, len(u) - 1):
                u[r, c] = (1 - w) * u[r, c] + w / 4 * (u[r - 1, c] + u[r, c - 1] + u[r + 1, c] + u[r, c + 1])
    return u


def dithered() -> tm.Function:
    """The errors of grey values spread to later pixels, as Floyd and Steinberg weight them."""
    f = tm.Function("dithered", params=[N], assume="N >= 2")
    a = f.input("a", D, [N, N])

    def spread(e: tm.Computation) -> tm.Expr:
        return a[i, j] + (7 * e[i, j - 1] + e[i - 1, j - 1] + 5 * e[i - 1, j] + 3 * e[i - 1, j + 1]) / 16

    edge = (i == 0) | (j == 0) | (j == N - 1)
    e = f.computation("e", {i: N, j: N}, lambda e: tm.select(edge, a[i, j], spread(e)))
    f.outputs(f.computation("out", {i: N, j: N}, 2 * e[i, j]))
    return f


def dithered_exactly(a: Array, **_: Any) -> Array:
    e = a.copy()
    for r in range(1, len(e)):
        for c in range(1, len(e) - 1):
            e[r, c] += (7 * e[r, c - 1] + e[r - 1, c - 1] + 5 * e[r - 1, c] + 3 * e[r - 1, c + 1]) / 16
    return 2 * e


def tridiagonal() -> tm.Function:
    """Thomas's algorithm for many tridiagonal systems."""
    f = tm.Function("tridiagonal", params=[N, M], assume="M >= 2")
    low, main, up, d = (f.input(name, D, [N, M]) for name in ("low", "main", "up", "d"))

    def pivot() -> tm.Expr:
        return main[i, j] - low[i, j] * c[i, j - 1]

    def further() -> tm.Expr:
        return d[i, j] - low[i, j] * e[i, j - 1]

    with f.together() as g:
        c = g.computation("c", {i: N, j: M}, lambda: up[i, j] / tm.select(j == 0, main[i, j], pivot()))
        e = g.computation("e", {i: N, j: M}, lambda: tm.select(j == 0, d[i, j] / main[i, j], further() / pivot()))
        x = g.computation("x", {i: N, j: M}, lambda: tm.select(j == M - 1, e[i, j], e[i, j] - c[i, j] * x[i, j + 1]))

    f.outputs(x)
    return f


def tridiagonal_exactly(low: Array, main: Array, up: Array, d: Array, **_: Any) -> Array:
    parts = zip(low, main, up, d, strict=True)
    return np.array([np.linalg.solve(np.diag(m) + np.diag(a[1:], -1) + np.diag(u[:-1], 1), r) for a, m, u, r in parts])


def advantages() -> tm.Function:
    """Generalised advantage estimation: a discounted sum from the end of each episode, and returns."""
    f = tm.Function("advantages", params=[N, M], assume="M >= 2")
    reward, v = f.input("reward", D, [N, M]), f.input("v", D, [N, M])

    def step(g: tm.Computation) -> tm.Expr:
        return reward[i, j] + 0.9 * v[i, j + 1] - v[i, j] + 0.8 * g[i, j + 1]

    g = f.computation("g", {i: N, j: M}, lambda g: tm.select(j == M - 1, reward[i, j] - v[i, j], step(g)))
    f.outputs(f.computation("returns", {i: N, j: M}, g[i, j] + v[i, j]))
    return f


def advantages_exactly(reward: Array, v: Array, **_: Any) -> Array:
    g = reward - v
    for c in range(v.shape[1] - 2, -1, -1):
        g[:, c] += 0.9 * v[:, c + 1] + 0.8 * g[:, c + 1]
    return g + v


def eliminated() -> tm.Function:
    """Gauss's elimination: step k takes the row of the pivot from the rows that are left."""
    f = tm.Function("eliminated", params=[N], assume="N >= 1")
    A = f.input("A", D, [N, N])
    with f.together() as g:
        a = g.computation(
            "a",
            {k: N, i: (k, N), j: (k, N)},
            lambda: tm.select(k == 0, A[i, j], a[k - 1, i, j] - lower[k - 1, i] * upper[k - 1, j]),
        )
        upper = g.computation("upper", {k: N, j: (k, N)}, lambda: a[k, k, j], shape=[N, N])
        lower = g.computation("lower", {k: N, i: (k, N)}, lambda: a[k, i, k] / upper[k, k], shape=[N, N])
    f.outputs(lower, upper)
    return f


def eliminated_exactly(A: Array, **_: Any) -> tuple[Array, Array]:
    a, lower, upper = A.copy(), np.zeros_like(A), np.zeros_like(A)
    for step in range(len(a)):
        upper[step, step:] = a[step, step:]
        lower[step, step:] = a[step:, step] / a[step, step]
        a[step:, step:] -= np.outer(lower[step, step:], upper[step, step:])
    return lower, upper


def substituted() -> tm.Function:
    """A triangular system with many right-hand sides: step k takes a row from those that are left."""
    f = tm.Function("substituted", params=[N, M], assume="N >= 1")
    L, B = f.input("L", D, [N, N]), f.input("B", D, [N, M])
    with f.together() as g:
        b = g.computation(
            "b",
            {k: N, i: (k, N), j: M},
            lambda: tm.select(k == 0, B[i, j], b[k - 1, i, j] - L[i, k - 1] * x[k - 1, j]),
        )
        x = g.computation("x", {k: N, j: M}, lambda: b[k, k, j] / L[k, k])
    f.outputs(x)
    return f


def search_tree() -> tm.Function:
    """The cost of the best tree over each range of keys."""
    f = tm.Function("search_tree", params=[N], assume="N >= 1")
    w = f.input("w", D, [N, N])
    with f.together() as g:
        best = g.reduction("best", {i: N, j: (i + 1, N)}, {k: (i, j)}, tm.min, lambda: e[i, k] + e[k + 1, j])
        e = g.computation(
            "e", {i: N, j: (i, N)}, lambda: w[i, j] + tm.select(i == j, 0.0, best[i, j]), shape=[N, N]
        )  # fmt: skip
    f.outputs(e)
    return f


def search_tree_exactly(w: Array, **_: Any) -> Array:
    e = np.zeros_like(w)
    for width in range(len(w)):
        for first in range(len(w) - width):
            last = first + width
            parts = [e[first, r] + e[r + 1, last] for r in range(first, last)]
            e[first, last] = w[first, last] + min(parts, default=0)
    return e


def closed(
    over: Callable[[tm.Expr, tm.Expr], tm.Expr],
    best: Callable[[tm.Expr, tm.Expr], tm.Expr],
    dtype: tm.DType = D,
    sizes: str = "1 <= N <= 65536",
) -> tm.Function:
    """Paths over more and more nodes: step k has the best ones over the first k nodes."""
    f = tm.Function("closed", params=[N], assume=sizes)
    A = f.input("edges", dtype, [N, N])
    with f.together() as g:
        to = g.computation("to", {k: (1, N + 1), i: N}, lambda: d[k - 1, i, k - 1])
        on = g.computation("on", {k: (1, N + 1), j: N}, lambda: d[k - 1, k - 1, j])
        d = g.computation(
            "d",
            {k: N + 1, i: N, j: N},
            lambda: tm.select(k == 0, A[i, j], best(d[k - 1, i, j], over(to[k, i], on[k, j]))),
        )
    f.outputs(f.computation("paths", {i: N, j: N}, d[N, i, j]))
    return f


def closed_exactly(edges: Array, over: Callable[..., Array], best: Callable[..., Array]) -> Array:
    d = edges.copy()
    for node in range(len(d)):
        d = best(d, over(d[:, node, None], d[None, node]))
    return d


def inverted() -> tm.Function:
    """An inverse by Gauss and Jordan: step k clears column k of all rows; column k of the inverse takes its place."""
    f = tm.Function("inverted", params=[N], assume="1 <= N <= 65536")
    A = f.input("A", D, [N, N])

    def cleared() -> tm.Expr:
        below = tm.select(j == k - 1, 0.0, a[k - 1, i, j]) - column[k, i] * row[k, j] / pivot[k]
        return tm.select(i == k - 1, row[k, j] / pivot[k], below)

    with f.together() as g:
        pivot = g.computation("pivot", {k: (1, N + 1)}, lambda: a[k - 1, k - 1, k - 1])
        column = g.computation("column", {k: (1, N + 1), i: N}, lambda: a[k - 1, i, k - 1])
        row = g.computation(
            "row", {k: (1, N + 1), j: N}, lambda: tm.select(j == k - 1, 1.0, a[k - 1, k - 1, j])
        )  # fmt: skip
        a = g.computation("a", {k: N + 1, i: N, j: N}, lambda: tm.select(k == 0, A[i, j], cleared()))
    f.outputs(f.computation("inverse", {i: N, j: N}, a[N, i, j]))
    return f


def reduced() -> tm.Function:
    """Systems with several right-hand sides by Gauss and Jordan: of [A B] the columns of A become the unit matrix."""
    f = tm.Function("reduced", params=[N, M], assume="1 <= N <= 65536 and 1 <= M <= 65536")
    A, B = f.input("A", D, [N, N]), f.input("B", D, [N, M])

    def cleared() -> tm.Expr:
        scaled = row[k, j] / pivot[k]
        return tm.select(i == k - 1, scaled, a[k - 1, i, j] - column[k, i] * scaled)

    with f.together() as g:
        pivot = g.computation("pivot", {k: (1, N + 1)}, lambda: a[k - 1, k - 1, k - 1])
        column = g.computation("column", {k: (1, N + 1), i: N}, lambda: a[k - 1, i, k - 1])
        row = g.computation("row", {k: (1, N + 1), j: N + M}, lambda: a[k - 1, k - 1, j])
        a = g.computation(
            "a",
            {k: N + 1, i: N, j: N + M},
            lambda: tm.select(k == 0, tm.select(j < N, A[i, tm.min(j, N - 1)], B[i, tm.max(j - N, 0)]), cleared()),
        )
    f.outputs(f.computation("x", {i: N, j: M}, a[N, i, j + N]))
    return f


def shuffled() -> tm.Function:
    """Four planes of half the size as the pixels of one picture, as networks for super-resolution end."""
    f = tm.Function("shuffled", params=[N, M], assume="N >= 1 and M >= 1")
    planes = f.input("planes", D, [4, N, M])
    f.outputs(f.computation("out", {i: 2 * N, j: 2 * M}, planes[i % 2 * 2 + j % 2, i // 2, j // 2]))
    return f


def shuffled_exactly(planes: Array, **_: Any) -> Array:
    _four, rows, columns = planes.shape
    return planes.reshape(2, 2, rows, columns).transpose(2, 0, 3, 1).reshape(2 * rows, 2 * columns)


def interleaved() -> tm.Function:
    """Two channels of sound as pairs."""
    f = tm.Function("interleaved", params=[M], assume="M >= 1")
    channels = f.input("channels", tm.int16, [2, M])
    f.outputs(f.computation("out", {j: 2 * M}, channels[j % 2, j // 2]))
    return f


def resampled() -> tm.Function:
    """Three samples for one, by a filter with weights for each of the three phases."""
    f = tm.Function("resampled", params=[M], assume="M >= 1")
    x, weights = f.input("x", D, [M + 4]), f.input("weights", D, [3, 4])
    terms = [weights[j % 3, tap] * x[j // 3 + tap] for tap in range(4)]
    f.outputs(f.computation("out", {j: 3 * M}, (terms[0] + terms[1]) + (terms[2] + terms[3])))
    return f


def resampled_exactly(x: Array, weights: Array, M: int, **_: Any) -> Array:
    places = np.arange(3 * M)
    return np.einsum("jt,jt->j", weights[places % 3], x[places[:, None] // 3 + np.arange(4)])


def developed() -> tm.Function:
    """Means of neighbours of a sensor whose four kinds of sites are planes, and their differences across."""
    f = tm.Function("developed", params=[N, M], assume="N >= 1 and M >= 1")
    cells = f.input("cells", D, [2, 2, N + 1, M + 1])

    def site(row: int, column: int) -> tm.Expr:
        return cells[(i + row) % 2, (j + column) % 2, (i + row) // 2, (j + column) // 2]

    mean = f.computation("mean", {i: 2 * N, j: 2 * M + 1}, (site(0, 0) * 2 + site(1, 0)) / 3)
    f.outputs(f.computation("out", {i: 2 * N, j: 2 * M}, mean[i, j + 1] - mean[i, j]))
    return f


def developed_exactly(cells: Array, N: int, M: int, **_: Any) -> Array:
    sites = cells.transpose(2, 0, 3, 1).reshape(2 * N + 2, 2 * M + 2)
    mean = (sites[: 2 * N, : 2 * M + 1] * 2 + sites[1 : 2 * N + 1, : 2 * M + 1]) / 3
    return np.diff(mean)


def yuv() -> tm.Function:
    """Brightness and two differences of colours, each a plane of its own."""
    f = tm.Function("yuv", params=[N], assume="N >= 1")
    r, g, b = (f.input(name, D, [N]) for name in "rgb")
    f.outputs(
        f.computation("y", {i: N}, r[i] * 0.3 + g[i] * 0.6 + b[i] * 0.1),
        f.computation("u", {i: N}, b[i] * 0.5 - r[i] * 0.2 - g[i] * 0.3),
        f.computation("v", {i: N}, r[i] * 0.6 - g[i] * 0.5 - b[i] * 0.1),
    )
    return f


def yuv_exactly(r: Array, g: Array, b: Array, **_: Any) -> tuple[Array, ...]:
    return r * 0.3 + g * 0.6 + b * 0.1, b * 0.5 - r * 0.2 - g * 0.3, r * 0.6 - g * 0.5 - b * 0.1


def multiplied() -> tm.Function:
    """Products of complex numbers whose parts are arrays."""
    f = tm.Function("multiplied", params=[N], assume="N >= 1")
    a, b, c, d = (f.input(name, D, [N]) for name in "abcd")
    real = f.computation("real", {i: N}, a[i] * c[i] - b[i] * d[i])
    f.outputs(real, f.computation("imaginary", {i: N}, a[i] * d[i] + b[i] * c[i]))
    return f


def divided() -> tm.Function:
    """Quotients and remainders of indices."""
    f = tm.Function("divided", params=[N], assume="N >= 1")
    a = f.input("a", tm.int16, [N])
    f.outputs(f.computation("quotient", {i: N}, a[i] >> 2), f.computation("rest", {i: N}, a[i] & 3))
    return f


PROGRAMS = {
    "dynamic time warping": Ordinary(warped, "diagonals i + j", {"N": 9, "M": 11}, warped_exactly),
    "over-relaxation": Ordinary(relaxed, "diagonals i + j", {"T": 3, "N": 7}, relaxed_exactly),
    "error diffusion": Ordinary(dithered, "diagonals 2 i + j", {"N": 9}, dithered_exactly),
    "tridiagonal systems": Ordinary(tridiagonal, "lines of i side by side", {"N": 9, "M": 5}, tridiagonal_exactly),
    "advantages": Ordinary(advantages, "lines of i side by side", {"N": 5, "M": 7}, advantages_exactly),
    "elimination": Ordinary(eliminated, "outside of all steps", {"N": 18}, eliminated_exactly),
    "triangular systems": Ordinary(
        substituted, "outside of all steps", {"N": 5, "M": 18}, lambda L, B, **_: np.linalg.solve(np.tril(L), B)
    ),
    "shortest paths": Ordinary(
        lambda: closed(lambda a, b: a + b, tm.min),
        "from those of their pivots on",
        {"N": 40},
        lambda edges, **_: closed_exactly(edges, np.add, np.minimum),
    ),
    "widest paths": Ordinary(
        lambda: closed(tm.min, tm.max),
        "from those of their pivots on",
        {"N": 35},
        lambda edges, **_: closed_exactly(edges, np.minimum, np.maximum),
    ),
    "reachability": Ordinary(
        lambda: closed(lambda a, b: a & b, lambda a, b: a | b, tm.uint8),
        "from those of their pivots on",
        {"N": 37},
        lambda edges, **_: closed_exactly(edges, np.bitwise_and, np.bitwise_or),
    ),
    "inverses": Ordinary(inverted, "from those of their pivots on", {"N": 36}, lambda A, **_: np.linalg.inv(A)),
    "systems with several right-hand sides": Ordinary(
        reduced, "from those of their pivots on", {"N": 34, "M": 5}, lambda A, B, **_: np.linalg.solve(A, B)
    ),
    "pixel shuffle": Ordinary(shuffled, "each of its 2 phases by itself", {"N": 3, "M": 11}, shuffled_exactly),
    "channels in pairs": Ordinary(
        interleaved, "each of its 2 phases by itself", {"M": 37}, lambda channels, **_: channels.T.reshape(-1)
    ),
    "three samples for one": Ordinary(resampled, "each of its 3 phases by itself", {"M": 13}, resampled_exactly),
    "sites of a sensor": Ordinary(developed, "j_phase", {"N": 3, "M": 13}, developed_exactly),
    "planes of colours": Ordinary(yuv, "a cache line of each in turn", {"N": 29}, yuv_exactly),
    "complex numbers in parts": Ordinary(
        multiplied,
        "a cache line of each in turn",
        {"N": 19},
        lambda a, b, c, d, **_: (a * c - b * d, a * d + b * c),
    ),
    "quotients and remainders": Ordinary(
        divided, "a cache line of each in turn", {"N": 75}, lambda a, **_: (a >> 2, a & 3)
    ),
    "search trees": Ordinary(search_tree, "k outside of j", {"N": 9}, search_tree_exactly),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_ordinary_programs_have_the_schedule_of_their_form_and_are_right(name: str) -> None:
    each = PROGRAMS[name]
    f = each.make()
    assert each.chosen in f.auto_schedule(target="x86-64-v3", threads=1).explain()
    drawn, given = np.random.default_rng(0), dict[str, Any](each.sizes)
    for source, declared in f.algorithm.inputs.items():
        shape = tuple(int(eval(str(extent), {}, each.sizes)) for extent in declared.shape)
        if declared.dtype is not D:
            few = drawn.random(shape) < (0.05 if source == "edges" else 1.0)
            given[source] = (few * drawn.integers(1, 100, shape)).astype(declared.dtype.name)
            continue
        given[source] = 1 + drawn.random(shape) + (9 * np.eye(*shape) if source in "AL" else 8.0 * (source == "main"))
    found = f.evaluate(**given, as_scheduled=True)
    right = each.exact(**{name: each.copy() if isinstance(each, np.ndarray) else each for name, each in given.items()})
    for got, expected in zip(_several(found), _several(right), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-9)


def test_tiles_from_pivots_on_ask_for_a_bound_of_the_sizes() -> None:
    found = closed(lambda a, b: a + b, tm.min, sizes="N >= 1").auto_schedule(target="x86-64-v3", threads=1)
    assert "not 32 steps at a time in tiles" in found.explain()
    assert "a bound of N: assume one, such as 2**20" in found.explain()


def _several(results: Any) -> tuple[Array, ...]:
    return results if isinstance(results, tuple) else (results,)

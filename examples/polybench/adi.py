"""adi: heat in a plate by alternating directions, each half step implicit: systems with three diagonals."""

from __future__ import annotations

import numpy as np
from kernel_story import Arguments, Array, Sizes, tell

import tiramisu_py as tm

T, N = tm.params("T N")
t, i, j, i0, i1, x, y = tm.iters("t i j i0 i1 x y")
CLOSE = 1e-11
SIZES: dict[str, Sizes] = {
    "ONE": {"T": 1, "N": 3},
    "ODD": {"T": 3, "N": 67},
    "MINI": {"T": 20, "N": 20},
    "SMALL": {"T": 40, "N": 60},
    "LARGE": {"T": 500, "N": 1000},
}


def algorithm() -> tm.Function:
    """A sweep over columns from u to v, then one over rows from v to u: elimination forwards, substitution back."""
    f = tm.Function("adi", params=[T, N], assume="T >= 1 and N >= 3")
    start = f.input("start", tm.float64, [N, N])
    a, b, d, e = (f.scalar(name, tm.float64) for name in ("a", "b", "d", "e"))
    steps, inner = {t: (1, T + 1)}, (1, N - 1)
    with f.together() as g:
        p = g.computation(
            "p", {**steps, i: inner, j: N - 1}, lambda: tm.select(j == 0, 0.0, -a / (a * p[t, i, j - 1] + b))
        )
        q = g.computation(
            "q",
            {**steps, i: inner, j: N - 1},
            lambda: tm.select(
                j == 0,
                1.0,
                (-d * u[t - 1, j, i - 1] + (1 + 2 * d) * u[t - 1, j, i] - d * u[t - 1, j, i + 1] - a * q[t, i, j - 1])
                / (a * p[t, i, j - 1] + b),
            ),
        )
        v = g.computation(
            "v",
            {**steps, i: inner, j: N},
            lambda: tm.select((j == 0) | (j == N - 1), 1.0, p[t, i, j] * v[t, i, j + 1] + q[t, i, j]),
        )
        r = g.computation(
            "r", {**steps, i: inner, j: N - 1}, lambda: tm.select(j == 0, 0.0, -d / (d * r[t, i, j - 1] + e))
        )
        s = g.computation(
            "s",
            {**steps, i: inner, j: N - 1},
            lambda: tm.select(
                j == 0,
                1.0,
                (-a * v[t, j, i - 1] + (1 + 2 * a) * v[t, j, i] - a * v[t, j, i + 1] - d * s[t, i, j - 1])
                / (d * r[t, i, j - 1] + e),
            ),
        )
        u = g.computation(
            "u",
            {t: T + 1, i: N, j: N},
            lambda: tm.select(
                (t == 0) | (i == 0) | (i == N - 1),
                start[i, j],
                tm.select((j == 0) | (j == N - 1), 1.0, r[t, i, j] * u[t, i, j + 1] + s[t, i, j]),
            ),
        )
    f.outputs(u[T, i, j])
    for first, second, sweep in ((p, q, v), (r, s, u)):
        f.order(first, second, at=j)
        f.order(second, sweep, at=i)
    for line in (p, q, r, s, u):
        line.store_in([i, j])
    v.store_in([j, i])
    return f


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """Blocks of lines in vectors across them, there and back while a block is in the cache; threads share blocks."""
    lanes = (cpu or tm.target()).lanes(tm.float64)
    f = algorithm()
    p, q, v, r, s, u = (f[name] for name in ("p", "q", "v", "r", "s", "u"))
    block, line = f"i0 = floor(i / {2 * lanes})", f"i1 = i mod {2 * lanes}"
    for part in (p, q, r, s):
        part.set_schedule(f"{{ [t, i, j] -> [t, {block}, j, {line}] }}")
        part.store_in([j, i])
    v.set_schedule(f"{{ [t, i, j] -> [t, {block}, back = -j, {line}] }}")
    u.set_schedule(f"{{ [t, i, j] -> [t, {block}, back = -j, {line}] }}")
    for first, second, sweep in ((p, q, v), (r, s, u)):
        f.order(first, second, at=j)
        f.order(second, sweep, at=i0)
        for part in (first, second):
            part.store_at(second, i0)
    f.order(v, r, at=t)
    for part in (p, q, v, r, s, u):
        part.vectorize(i1, lanes, remainder="mask")
    v.parallelize(i0)
    u.parallelize(i0)
    return f


def sample(sizes: Sizes) -> Arguments:
    """PolyBench's values, and its constants from the numbers of steps and points."""
    steps, n = sizes["T"], sizes["N"]
    across, down = 2 * n * n / steps, n * n / steps
    start = np.fromfunction(lambda r, c: (r + n - c) / n, (n, n))
    return {"start": start, "T": steps, "a": -across / 2, "b": 1 + across, "d": -down / 2, "e": 1 + down}


def exact(given: Arguments) -> tuple[Array, ...]:
    """Each half step as one system of equations for all rows or columns, solved by LAPACK."""
    u, a, b, d, e = given["start"].copy(), *(given[name] for name in ("a", "b", "d", "e"))
    for _ in range(given["T"]):
        v = half(u.T, a, b, d).T
        u = half(v, d, e, a)
        u[[0, -1]] = given["start"][[0, -1]]
    return (u,)


def half(u: Array, a: float, b: float, d: float) -> Array:
    """The next half step: a x[j - 1] + b x[j] + a x[j + 1] in each row are differences across rows; x ends with 1."""
    n = len(u)
    system = np.eye(n)
    for j in range(1, n - 1):
        system[j, j - 1 : j + 2] = a, b, a
    sides = np.ones((n, n))
    sides[1:-1] = -d * u[:-2] + (1 + 2 * d) * u[1:-1] - d * u[2:]
    sides[:, [0, -1]] = 1
    return np.linalg.solve(system, sides.T).T


if __name__ == "__main__":
    tell(algorithm, scheduled, SIZES, sample, exact, CLOSE)

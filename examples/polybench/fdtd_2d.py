"""fdtd_2d: electric and magnetic fields in the plane, by finite differences in time."""

from __future__ import annotations

import numpy as np
from kernel_story import Arguments, Array, Sizes, tell

import tiramisu_py as tm

T, NX, NY = tm.params("T NX NY")
t, i, j, t0, y = tm.iters("t i j t0 y")
CLOSE = 1e-12
SIZES: dict[str, Sizes] = {
    "ONE": {"T": 1, "NX": 2, "NY": 2},
    "ODD": {"T": 13, "NX": 35, "NY": 67},
    "MINI": {"T": 20, "NX": 20, "NY": 30},
    "SMALL": {"T": 40, "NX": 60, "NY": 80},
    "LARGE": {"T": 500, "NX": 1000, "NY": 1200},
}


def algorithm() -> tm.Function:
    """The electric field from the magnetic one of the last step, then the magnetic one from it; in place."""
    f = tm.Function("fdtd_2d", params=[T, NX, NY], assume="T >= 1 and NX >= 2 and NY >= 2")
    EX, EY, HZ = (f.input(name, tm.float64, [NX, NY]) for name in ("EX", "EY", "HZ"))
    edge = f.input("edge", tm.float64, [T])
    grid = {t: T + 1, i: NX, j: NY}
    with f.together() as g:
        ey = g.computation(
            "ey",
            grid,
            lambda: tm.select(
                t == 0,
                EY[i, j],
                tm.select(i == 0, edge[t - 1], ey[t - 1, i, j] - 0.5 * (hz[t - 1, i, j] - hz[t - 1, i - 1, j])),
            ),
        )
        ex = g.computation(
            "ex",
            grid,
            lambda: tm.select(
                t == 0,
                EX[i, j],
                tm.select(j == 0, ex[t - 1, i, j], ex[t - 1, i, j] - 0.5 * (hz[t - 1, i, j] - hz[t - 1, i, j - 1])),
            ),
        )
        hz = g.computation(
            "hz",
            grid,
            lambda: tm.select(
                t == 0,
                HZ[i, j],
                tm.select(
                    (i == NX - 1) | (j == NY - 1),
                    hz[t - 1, i, j],
                    hz[t - 1, i, j] - 0.7 * (ex[t, i, j + 1] - ex[t, i, j] + ey[t, i + 1, j] - ey[t, i, j]),
                ),
            ),
        )
    f.outputs(ex[T, i, j], ey[T, i, j], hz[T, i, j])
    for name, place in (("ex", EX), ("ey", EY), ("hz", HZ)):
        for field in (name, f"{name}_out"):
            f[field].store_in(place, [i, j])
    return f


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """Sixteen steps follow one another through the rows, a row apart, while these are in the cache."""
    lanes = (cpu or tm.target()).lanes(tm.float64)
    f = algorithm()
    ey, ex, hz = f["ey"], f["ex"], f["hz"]
    for part, later in ((ey, 0), (ex, 0), (hz, 1)):
        part.set_schedule(f"{{ [t, i, j] -> [t0 = floor(t / 16), y = i + t + {later}, t, j] }}")
        part.vectorize(j, lanes, remainder="mask")
    f.order(ey, ex, hz, at=t)
    return f


def sample(sizes: Sizes) -> Arguments:
    """PolyBench's values."""
    steps, nx, ny = sizes["T"], sizes["NX"], sizes["NY"]
    r, c = np.indices((nx, ny)).astype(np.float64)
    fields = {"EX": r * (c + 1) / nx, "EY": r * (c + 2) / ny, "HZ": r * (c + 3) / nx}
    return {**fields, "edge": np.arange(steps, dtype=np.float64)}


def exact(given: Arguments) -> tuple[Array, ...]:
    """A step after the other."""
    ex, ey, hz = (given[name].copy() for name in ("EX", "EY", "HZ"))
    for value in given["edge"]:
        ey[1:] -= 0.5 * np.diff(hz, axis=0)
        ey[0] = value
        ex[:, 1:] -= 0.5 * np.diff(hz, axis=1)
        hz[:-1, :-1] -= 0.7 * (np.diff(ex, axis=1)[:-1] + np.diff(ey, axis=0)[:, :-1])
    return ex, ey, hz


if __name__ == "__main__":
    tell(algorithm, scheduled, SIZES, sample, exact, CLOSE)

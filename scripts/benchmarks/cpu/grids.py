"""Heat in a plate in numba and in Devito, which are made for such loops."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.cpu.workloads import STEPS, Array

Run = Callable[[], object]
Programs = dict[str, Callable[[], Run]]


def in_numba(name: str, given: Mapping[str, Any], out: Mapping[str, Array]) -> Programs:
    """Two compiled loops from one array into another, rows in parallel."""
    if name != "heat":
        return {}
    import numba  # noqa: PLC0415 (an optional peer)

    def step(a: Array, b: Array) -> None:
        stay, move = np.float32(0.6), np.float32(0.1)
        for i in numba.prange(1, a.shape[0] - 1):
            for j in range(1, a.shape[1] - 1):
                b[i, j] = a[i, j] * stay + ((a[i, j - 1] + a[i, j + 1]) + (a[i - 1, j] + a[i + 1, j])) * move

    def made() -> Run:
        start, last = given["start"], out["heat_out"]
        other = np.array(start)
        last[:] = start
        parallel = int(os.environ["OMP_NUM_THREADS"]) > 1
        compiled = numba.njit(fastmath=True, parallel=parallel)(step)

        def run() -> None:
            compiled(start, other)
            for t in range(1, STEPS):
                compiled(*((other, last) if t % 2 else (last, other)))

        return run

    return {"two loops, fastmath": made}


def in_devito(name: str, given: Mapping[str, Any], out: Mapping[str, Array]) -> Programs:
    """An equation of Devito, with and without blocking; the arrays are Devito's own."""
    if name != "heat":
        return {}
    threads = int(os.environ["OMP_NUM_THREADS"])
    os.environ |= {
        "DEVITO_LOGGING": "ERROR", "DEVITO_LANGUAGE": "openmp" if threads > 1 else "C",
        "DEVITO_ARCH": os.environ.get("DEVITO_ARCH", "gcc"),
    }  # fmt: skip
    import devito  # noqa: PLC0415 (an optional peer; reads its environment when it is imported)

    start, last = given["start"], out["heat_out"]

    def maker(options: dict[str, Any]) -> Callable[[], Run]:
        def made() -> Run:
            rows, columns = start.shape
            grid = devito.Grid(shape=start.shape, extent=(rows - 1.0, columns - 1.0), dtype=np.float32)
            u = devito.TimeFunction(name="u", grid=grid, space_order=2, time_order=1)
            u.data[:] = start
            x, y = grid.dimensions
            around = sum(u.subs({d: d + side * d.spacing}) for d in (x, y) for side in (-1, 1))
            inside = devito.Eq(u.forward, u * 0.6 + around * 0.1, subdomain=grid.interior)
            operator = devito.Operator([inside], opt=("advanced", options))

            def run() -> None:
                operator.apply(time_m=0, time_M=STEPS - 1)

            run()
            last[:] = u.data[STEPS % 2]
            return run

        return made

    return {"blocks": maker({}), "no blocks": maker({"blocklevels": 0})}

"""floyd_warshall: the lengths of the shortest paths between all nodes of a graph."""

from __future__ import annotations

import numpy as np
from kernel_story import Arguments, Array, Sizes, tell

import tiramisu_py as tm

(N,) = tm.params("N")
i, j, k = tm.iters("i j k")
CLOSE = 0
SIZES: dict[str, Sizes] = {
    "ONE": {"N": 1},
    "ODD": {"N": 67},
    "MINI": {"N": 60},
    "SMALL": {"N": 180},
    "LARGE": {"N": 2800},
}


def algorithm() -> tm.Function:
    """Level k has the shortest paths over the first k nodes; two levels are kept."""
    f = tm.Function("floyd_warshall", params=[N], assume="N >= 1")
    paths = f.input("paths", tm.int32, [N, N])
    d = f.computation(
        "d",
        {k: N + 1, i: N, j: N},
        lambda d: tm.select(k == 0, paths[i, j], tm.min(d[k - 1, i, j], d[k - 1, i, k - 1] + d[k - 1, k - 1, j])),
    )
    f.outputs(d[N, i, j])
    d.fold(k, 2)
    return f


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """As declared."""
    return algorithm()


def sample(sizes: Sizes) -> Arguments:
    """PolyBench's graph: short edges, and 999 where there is none."""
    n = sizes["N"]
    r, c = np.indices((n, n))
    paths = r * c % 7 + 1
    paths[((r + c) % 13 == 0) | ((r + c) % 7 == 0) | ((r + c) % 11 == 0)] = 999
    return {"paths": paths.astype(np.int32)}


def exact(given: Arguments) -> tuple[Array, ...]:
    """Paths of one edge more in each round, until none is shorter."""
    d = np.minimum(given["paths"], 999).astype(np.int64)
    while True:
        longer = np.minimum(d, np.array([(row[:, None] + d).min(0) for row in d]))
        if (longer == d).all():
            return (d,)
        d = longer


if __name__ == "__main__":
    tell(algorithm, scheduled, SIZES, sample, exact, CLOSE)

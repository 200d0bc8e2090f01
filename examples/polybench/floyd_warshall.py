"""floyd_warshall: the lengths of the shortest paths between all nodes of a graph."""

from __future__ import annotations

import numpy as np
from kernel_story import Arguments, Array, Sizes, tell

import tiramisu_py as tm

(N,) = tm.params("N")
i, j, k = tm.iters("i j k")
NODES, COLUMNS = 32, 256
CLOSE, MOST = 0, 2**20  # nodes
SIZES: dict[str, Sizes] = {
    "ONE": {"N": 1},
    "ODD": {"N": 67},
    "MINI": {"N": 60},
    "SMALL": {"N": 180},
    "LARGE": {"N": 2800},
}


def algorithm() -> tm.Function:
    """Level k has the shortest paths over the first k nodes: to node k - 1 and on from it, or not over it. In place."""
    f = tm.Function("floyd_warshall", params=[N], assume=f"1 <= N <= {MOST}")
    paths = f.input("paths", tm.int32, [N, N])
    with f.together() as g:
        to = g.computation("to", {k: (1, N + 1), i: N}, lambda: d[k - 1, i, k - 1])
        on = g.computation("on", {k: (1, N + 1), j: N}, lambda: d[k - 1, k - 1, j])
        d = g.computation(
            "d",
            {k: N + 1, i: N, j: N},
            lambda: tm.select(k == 0, paths[i, j], tm.min(d[k - 1, i, j], to[k, i] + on[k, j])),
        )
    f.outputs(d[N, i, j])
    for level in (d, f["d_out"]):
        level.store_in(paths, [i, j])
    return f


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """Levels of `NODES` nodes at a time, in tiles: first those of the nodes themselves, from which all others read.

    So tiles are counted from that of the nodes; those before it have negative numbers, and come after all others.
    """
    lanes = (cpu or tm.target()).lanes(tm.int32)
    f = algorithm()
    to, on, d = f["to"], f["on"], f["d"]
    nodes = f"floor((k - 1) / {NODES})"
    row, column = (f"({index} - {NODES} * {nodes})" for index in "ij")
    rows = f"before_i = -floor({row} / {MOST}), ib = floor({row} / {NODES})"
    columns = f"before_j = -floor({column} / {MOST}), jb = floor({column} / {COLUMNS})"
    d.set_schedule(f"{{ [k, i, j] -> [k0 = {nodes}, {rows}, {columns}, k, i, j] }}")
    to.set_schedule(f"{{ [k, i] -> [k0 = {nodes}, {rows}, before_j = 0, jb = 0, k, i] }}")
    on.set_schedule(f"{{ [k, j] -> [k0 = {nodes}, before_i = 0, ib = 0, {columns}, k, j] }}")
    f.order(to, on, d, at=k)
    for part in (on, d):
        part.vectorize(j, lanes, remainder="mask")
    return f


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

"""nussinov: the largest number of matching pairs in a folded strand of RNA, by dynamic programming."""

from __future__ import annotations

import numpy as np
from kernel_story import Arguments, Array, Sizes, tell

import tiramisu_py as tm

(N,) = tm.params("N")
i, j, k, up, j0, j1 = tm.iters("i j k up j0 j1")
CLOSE = 0
SIZES: dict[str, Sizes] = {
    "ONE": {"N": 1},
    "ODD": {"N": 67},
    "MINI": {"N": 60},
    "SMALL": {"N": 180},
    "LARGE": {"N": 2500},
}


def algorithm() -> tm.Function:
    """Pairs in the part from i to j: those of two parts, or of the part between, and its ends if they match."""
    f = tm.Function("nussinov", params=[N], assume="N >= 1")
    seq = f.input("seq", tm.int32, [N], values=(0, 4))
    with f.together() as g:
        parts = g.reduction("parts", {i: N, j: (i + 1, N)}, {k: (i, j)}, tm.max, lambda: pairs[i, k] + pairs[k + 1, j])
        pairs = g.computation(
            "pairs",
            {i: N, j: (i, N)},
            lambda: tm.select(
                i < j - 1,
                tm.max(parts[i, j], pairs[i + 1, j - 1] + tm.cast(tm.int32, seq[i] + seq[j] == 3)),
                tm.select(i < j, tm.max(parts[i, j], 0), 0),
            ),
            shape=[N, N],
        )
    f.outputs(pairs)
    return f


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """Columns of a few registers, from the last row up: each row is kept in registers over all of its parts.

    A step k makes its own pair of the row, if k is one of these columns, before the others take it as their left part.
    """
    lanes = (cpu or tm.target()).lanes(tm.int32)
    width = 4 * lanes
    f = algorithm()
    parts, pairs = f["parts"], f["pairs"]
    outer, column = f"j0 = floor(j / {width}), up = -i", f"j1 = j mod {width}"
    parts.init.set_schedule(f"{{ [i, j] -> [{outer}, {column}] }}")
    parts.update.set_schedule(f"{{ [i, j, k] -> [{outer}, k, {column}] }}")
    pairs.set_schedule(f"{{ [i, j] -> [{outer}, k = j] }}")
    f.order(parts.init, pairs, at=up)
    f.order(pairs, parts.update, at=k)
    parts.store_at(parts.update, up)
    for part in (parts.init, parts.update):
        part.vectorize(j1, lanes, remainder="mask")
    return f


def sample(sizes: Sizes) -> Arguments:
    """PolyBench's strand: the bases in turn."""
    return {"seq": ((np.arange(sizes["N"]) + 1) % 4).astype(np.int32)}


def exact(given: Arguments) -> tuple[Array, ...]:
    """One diagonal after another."""
    seq = given["seq"]
    n = len(seq)
    pairs = np.zeros((n, n), np.int32)
    for length in range(1, n):
        for first in range(n - length):
            last = first + length
            best = (pairs[first, first:last] + pairs[first + 1 : last + 1, last]).max()
            if length > 1:
                best = max(best, pairs[first + 1, last - 1] + (seq[first] + seq[last] == 3))
            pairs[first, last] = best
    return (pairs,)


if __name__ == "__main__":
    tell(algorithm, scheduled, SIZES, sample, exact, CLOSE)

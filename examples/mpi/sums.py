"""A global sum on ranks: each adds up its part; the parts go to one rank, or to all, or MPI combines them."""

from __future__ import annotations

import numpy as np
from story import Arguments, blocks, tell

import tiramisu_py as tm

i, q, i1, z, k = tm.iters("i q i1 z k")


def algorithm(ranks: int, length: int) -> tuple[tm.Function, tm.Reduction, int]:
    """The partial sum of each block."""
    size = blocks(length, ranks)
    count = blocks(length, size)
    f = tm.Function("total", params=[])
    x = f.input("x", tm.float64, [length])
    partial = f.reduction("partial", {q: count}, {i: length}, tm.sum, x[i], where=i // size == q)
    x.distribute_array([i], rank=i // size)
    partial.tag_distribute(q)
    return f, partial, count


def on_all_ranks(ranks: int, length: int) -> tm.Function:
    """Every rank gets the sum, from the partial sums of all others."""
    f, partial, count = algorithm(ranks, length)
    total = f.reduction("total_of_all", {z: 1}, {k: count}, tm.sum, partial[k])
    f.outputs(total)
    f.derive_transfers()
    return f


def on_one_rank(ranks: int, length: int) -> tm.Function:
    """Rank 0 gets the sum: the others send it their partial sums."""
    f, partial, count = algorithm(ranks, length)
    total = f.reduction("total_of_all", {z: 1}, {k: count}, tm.sum, partial[k])
    f.outputs(total)
    total.distribute_array([z], rank=0)
    total.tag_distribute(z)
    f.derive_transfers()
    return f


def reduced(ranks: int, length: int) -> tm.Function:
    """Every rank gets the sum: the terms are distributed over the ranks, and MPI combines the partial sums."""
    size = blocks(length, ranks)
    f = tm.Function("total", params=[])
    x = f.input("x", tm.float64, [length])
    total = f.reduction("total_of_all", {z: 1}, {i: length}, tm.sum, x[i])
    f.outputs(total)
    x.distribute_array([i], rank=i // size)
    total.update.split(i, size, q, i1)
    total.update.tag_distribute(q, combine=tm.PRIVATE)
    return f


def in_one_call(ranks: int, length: int) -> tm.Function:
    """Every rank gets the sum: one collective call sends every partial sum to every rank."""
    f, partial, count = algorithm(ranks, length)
    total = f.reduction("total_of_all", {z: 1}, {k: count}, tm.sum, partial[k])
    f.outputs(total)
    f.derive_transfers(collectives=True)
    return f


def shares(ranks: int, length: int) -> tm.Function:
    """Each rank gets its share of the sum: rank 0 gathers the partial sums in one call, and broadcasts in another."""
    f, partial, count = algorithm(ranks, length)
    total = f.reduction("total_of_all", {z: 1}, {k: count}, tm.sum, partial[k])
    share = f.computation("share", {q: count}, partial[q] / total[0])
    f.outputs(share)
    share.distribute_array([q], rank=q)
    share.tag_distribute(q)
    total.tag_distribute(z)
    f.derive_transfers(collectives=True)
    return f


VARIANTS = {
    "on all ranks": on_all_ranks, "on one rank": on_one_rank, "reduced": reduced, "in one call": in_one_call,
    "shares": shares,
}  # fmt: skip


def sample(variant: str, size: int, seed: int) -> Arguments:
    """Random numbers; whole numbers if ranks combine them in any order, so that no sum is rounded."""
    numbers = np.random.default_rng(seed).random(size)
    return {"x": np.floor(1000 * numbers) if variant == "reduced" else numbers}


if __name__ == "__main__":
    tell(VARIANTS, sample, (1000, 11))

"""Pipelines whose arrays live for two or three stages: on the host, on GPUs, on ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tiramisu_py as tm

N, M = tm.params("N M")
i, j, q = tm.iters("i j q")
i0, j0, i1, j1 = tm.iters("i0 j0 i1 j1")


def chain(stages: int, on: str = "", streams: Sequence[int] = (0,)) -> tm.Function:
    """Each stage adds the neighbour on the right to the stage before; `on` is "threads", "gpu", or "" for one thread.

    Stages on a GPU are on `streams` in turn; with "both", those of the second third of the chain are on a GPU.
    """
    f = tm.Function("chain", params=[N, M], assume=f"N >= 1 and M >= {stages + 1}")
    value: Any = f.input("a", tm.float32, [N, M])
    for k in range(stages):
        value = f.computation(f"s{k}", {i: N, j: M - k - 1}, value[i, j] + 2 * value[i, j + 1])
        if on == "threads":
            value.parallelize(i)
        if on == "gpu" or (on == "both" and stages // 3 <= k < 2 * stages // 3):
            value.tile(i, j, 2, 4, i0, j0, i1, j1).tag_gpu([i0, j0], [i1, j1], stream=streams[k % len(streams)])
    f.outputs(value)
    if on in ("gpu", "both"):
        f.derive_transfers()
    return f


def growing(stages: int) -> tm.Function:
    """Each stage has a column more than the stage before, and twice its values."""
    f = tm.Function("chain", params=[N, M], assume="N >= 1 and M >= 1")
    value: Any = f.input("a", tm.float32, [N, M])
    for k in range(stages):
        value = f.computation(f"s{k}", {i: N, j: M + k + 1}, 2 * value[i, tm.max(j - 1, 0)])
    f.outputs(value)
    return f


def on_ranks(stages: int, overlap: bool = False, ranks: int = 3, rows: int = 2) -> tm.Function:
    """Each stage adds the row below to the stage before, in blocks of rows on ranks: a message between any two."""
    f = tm.Function("chain", params=[M], assume="M >= 1")
    a = f.input("a", tm.float32, [ranks * rows, M])
    value: Any = a
    for k in range(stages):
        extent = ranks * rows - k - 1
        value = f.computation(f"s{k}", {i: extent, j: M}, value[i, j] + 2 * value[i + 1, j], shape=[ranks * rows, M])
        value.split(i, rows, q, i1)
        value.tag_distribute(q)
    f.outputs(value)
    for array in (a, value):
        array.distribute_array([i, j], rank=i // rows)
    f.derive_transfers(overlap=overlap)
    return f


def rows_of_iterations() -> tm.Function:
    """Two rows beside each other in each iteration of a loop, ``out[i, j] = a[i, j] + a[i, M - 1 - j]``."""
    f = tm.Function("rows", params=[N, M], assume="N >= 1 and M >= 1")
    a = f.input("a", tm.float32, [N, M])
    first = f.computation("first", {i: N, j: M}, a[i, j] + 0)
    second = f.computation("second", {i: N, j: M}, a[i, M - 1 - j] + 0)
    out = f.computation("out", {i: N, j: M}, first[i, j] + second[i, j])
    f.outputs(out)
    first.compute_at(out, i)
    second.compute_at(out, i)
    return f

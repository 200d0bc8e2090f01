"""Distributed programs for tests of lowering, and what a lowered one says and computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tiramisu_py as tm
from tests.oracle.judges.rank_arrays import run_on_ranks
from tiramisu_py.ir import LoopFunction, Node
from tiramisu_py.ir.rewriting import walk
from tiramisu_py.lower import lower
from tiramisu_py.passes.pipeline import optimise
from tiramisu_py.view.pseudocode import pseudocode

(C,) = tm.params("C")
r, c, q, r1, t, k = tm.iters("r c q r1 t k")
NONBLOCKING = {"send_props": [tm.ASYNC, tm.NONBLOCK], "recv_props": [tm.ASYNC, tm.NONBLOCK]}


def text(f: tm.Function) -> str:
    """The lowered function as pseudocode."""
    return pseudocode(lower(f.completed))


def lines(f: tm.Function) -> list[str]:
    """The lines of a function's pseudocode, without indentation and comments."""
    found = (line.strip() for line in text(f).splitlines())
    return [line for line in found if not line.startswith("#")]


def all_of(function: LoopFunction, kind: type[Node]) -> list[Any]:
    """The nodes of one kind, in order."""
    return [node for node in walk(function.body) if isinstance(node, kind)]


def agrees(f: tm.Function, seeds: int = 3, **given: Any) -> None:
    """Ranks compute what `evaluate()` says, before and after the passes, whatever the order of messages."""
    arrays = {name: value for name, value in given.items() if name not in f.algorithm.params or not f.algorithm.inputs}
    expected = f.evaluate(**{**arrays, **{p: given[p] for p in f.algorithm.params if p in given}})
    listed = expected if isinstance(expected, tuple) else (expected,)
    lowered = lower(f.completed)
    for function in (lowered, optimise(lowered)):
        for seed in range(seeds):
            found = run_on_ranks(f, None, seed, function=function, **given)
            for right, mine in zip(listed, found if isinstance(found, tuple) else (found,), strict=True):
                known = _stored(f, right, mine)
                np.testing.assert_array_equal(mine[known], right[known])


def _stored(f: tm.Function, right: np.ndarray, mine: np.ndarray) -> np.ndarray:
    """The elements that the program computes: others are 0 for `evaluate`, and garbage on ranks."""
    known = ~((right == 0) & (mine == 77))
    assert known.any()
    return known


def blur(ranks: int = 4, rows: int = 5, extent: Any = None) -> tuple[tm.Function, tm.Computation, tm.Computation]:
    """The blur, `rows` rows on each of some ranks."""
    extent = ranks * rows if extent is None else extent
    f = tm.Function("blur", params=[C], assume="C >= 1")
    image = f.input("image", tm.float32, [extent, C + 2])
    bx = f.computation("bx", {r: extent, c: C}, (image[r, c] + image[r, c + 1] + image[r, c + 2]) / 3)
    by = f.computation(
        "by", {r: (1, extent - 1), c: C}, (bx[r - 1, c] + bx[r, c] + bx[r + 1, c]) / 3, shape=[extent, C]
    )
    f.outputs(by)
    for array in (image, by):
        array.distribute_array([r, c], rank=r // rows)
    for computation in (bx, by):
        computation.split(r, rows, q, r1)
        computation.tag_distribute(q)
    return f, bx, by


def exchanged(ranks: int = 4, rows: int = 5, whole: bool = True, **props: Any) -> tm.Function:
    """The blur with an exchange of rows in both directions; with `whole` rows are messages."""
    f, bx, by = blur(ranks, rows)
    down = f.create_exchange(
        bx[r, c], send={q: (0, ranks - 1), r: (q * rows + rows - 1, q * rows + rows), c: C}, to=q + 1,
        recv={q: (1, ranks), r: (q * rows - 1, q * rows), c: C}, source=q - 1, name="down", **props,
    )  # fmt: skip
    up = f.create_exchange(
        bx[r, c], send={q: (1, ranks), r: (q * rows, q * rows + 1), c: C}, to=q - 1,
        recv={q: (0, ranks - 1), r: (q * rows + rows, q * rows + rows + 1), c: C}, source=q + 1, name="up", **props,
    )  # fmt: skip
    halves = [down.send, up.send, down.recv, up.recv]
    if whole:
        for half in halves:
            half.collapse_many(c)
    waits = [half.wait() for half in halves] if props else []
    f.order(bx, *halves, *waits, by, at=tm.root)
    return f


def random(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Some numbers, none of them 0."""
    return (np.random.default_rng(0).random(shape) + 1).astype(dtype)


Build = Callable[[], tm.Function]

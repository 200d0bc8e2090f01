"""The speed of this machine's cores, measured with two small kernels: a multiply-add loop, and a copy."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from tiramisu_py import Expr, Function, float32, iters, params

#: Multiply-adds for each element of a loop that stays in the cache of a core.
DEPTH, ELEMENTS = 32, 2**14
#: Bytes that are copied: more than caches hold.
COPIED = 2**27
ROUNDS = 5


def multiplied_and_added() -> float:
    """Operations a second of one core: a polynomial of degree 32 in vectors, two operations for each coefficient."""
    (N,), (i,) = params("N"), iters("i")
    f = Function("polynomial", params=[N])
    x = f.input("x", float32, [N])
    value: Expr = x[i] * 0.5 + 0.25
    for _ in range(DEPTH - 1):
        value = value * x[i] + 0.25
    y = f.computation("y", {i: N}, value)
    f.outputs(y)
    y.vectorize(i, 32)
    kernel = f.compile(threads=1, fast=("contract",))
    given = np.linspace(0, 0.5, ELEMENTS, dtype=np.float32)
    out = np.empty_like(given)
    return 2 * DEPTH * ELEMENTS / _best(lambda: kernel(given, y=out), 40 * ROUNDS)


def copied_bytes(threads: int) -> float:
    """Bytes a second that all threads together read and write, in a copy larger than the caches."""
    (N,), (i, j) = params("N"), iters("i j")
    f = Function("copy", params=[N])
    x = f.input("x", float32, [N, 1024])
    y = f.computation("y", {i: N, j: 1024}, x[i, j])
    f.outputs(y)
    y.parallelize(i)
    y.vectorize(j, 16)
    kernel = f.compile(threads=threads)
    given = np.ones((COPIED // 8 // 1024, 1024), dtype=np.float32)
    out = np.zeros_like(given)
    return COPIED / _best(lambda: kernel(given, y=out), ROUNDS)


def _best(run: Callable[[], object], rounds: int) -> float:
    """The minimum time of some calls, in seconds, after a warm-up call."""
    run()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)

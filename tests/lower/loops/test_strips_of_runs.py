"""Vectors and unrolled strips begin where a run begins; blocks of `split` are those of all positions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

N, E = tm.params("N E")
n, p, p0, p1 = tm.iters("n p p0 p1")
ROWS = np.array([0, 3, 3, 4, 14, 14, 25], np.int32)


def scaled() -> tuple[tm.Function, Any]:
    f = tm.Function("scaled", params=[N, E])
    rows = f.segments("rows", N, of=E)
    a, s = f.input("a", tm.float32, [E]), f.input("s", tm.float32, [N])
    y = f.computation("y", {n: N, p: rows[n]}, a[p] * s[n])
    f.outputs(y)
    return f, y


def strips(f: tm.Function) -> str:
    """The first position of the loop over strips, in C."""
    found = re.search(r"const int64_t (\w+) = \(int64_t\)rows\[n\];", f.source()["scaled.c"])
    assert found is not None
    loop = re.search(r"for \(int64_t p0? = ([^;]*); [^;]*; (p \+= 4|p0\+\+)\)", f.source()["scaled.c"])
    assert loop is not None
    return loop[1].replace(found[1], "start")


@pytest.mark.parametrize(
    ("command", "first"),
    [
        (lambda y: y.vectorize(p, 4), "start"),
        (lambda y: y.unroll(p, 4), "start"),
        (lambda y: y.split(p, 4, p0, p1), "start >> 2"),
    ],
    ids=["vectorize", "unroll", "split"],
)
def test_the_first_strip_of_a_run(command: Callable[[Any], Any], first: str) -> None:
    f, y = scaled()
    command(y)
    assert f.check().ok
    assert strips(f) == first
    given = {"rows": ROWS, "a": np.arange(25, dtype=np.float32), "s": np.arange(1, 7, dtype=np.float32)}
    expected = given["a"] * np.repeat(given["s"], np.diff(ROWS))
    np.testing.assert_array_equal(f.evaluate(**given, as_scheduled=True), expected)


def test_threads_of_a_block_are_of_one_run() -> None:
    f, y = scaled()
    y.split(p, 4, p0, p1)
    y.tag_gpu(blocks=[n, p0], threads=[p1])
    f.derive_transfers()
    assert f.check().ok
    kernel = f.source()["scaled.cu"]
    assert re.search(r"rows\[(n|blockIdx\.\w|\(int64_t\)blockIdx\.\w)\]", kernel), kernel

"""Neighbours beyond an edge, by select in an index or around a read: the inside has plain loads, and tests nothing."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tiramisu_py as tm

N, M = tm.params("N M")
i, j, i0, j0, i1, j1 = tm.iters("i j i0 j0 i1 j1")
SIZES = [(1, 1), (1, 5), (2, 3), (5, 17), (19, 70)]
AROUND = [(y, x) for y in (-1, 0, 1) for x in (-1, 0, 1)]


def scheduled(f: tm.Function, b: tm.Computation, tiles: bool) -> tm.Function:
    """Rows on threads and columns in vectors, in tiles or not."""
    f.outputs(b)
    if tiles:
        b.tile(i, j, 4, 32, i0, j0, i1, j1)
    b.parallelize(i0 if tiles else i)
    b.vectorize(j1 if tiles else j, 16)
    return f


def wrapped(tiles: bool = False) -> tm.Function:
    """The sum over 3 x 3 neighbours of a torus."""
    f = tm.Function("torus", params=[N, M], assume="N >= 1 and M >= 1")
    a = f.input("a", tm.float32, [N, M])
    rows = {-1: tm.select(i == 0, N - 1, i - 1), 0: i, 1: tm.select(i == N - 1, 0, i + 1)}
    columns = {-1: tm.select(j == 0, M - 1, j - 1), 0: j, 1: tm.select(j == M - 1, 0, j + 1)}
    total: tm.Expr = sum((a[rows[y], columns[x]] for y, x in AROUND[1:]), a[rows[-1], columns[-1]])
    return scheduled(f, f.computation("b", {i: N, j: M}, total), tiles)


def guarded(tiles: bool = False, reads: int = 8) -> tm.Function:
    """Neighbours, each under the same four nested guards, with a fallback of its own."""
    f = tm.Function("guarded", params=[N, M], assume="N >= 1 and M >= 1")
    a = f.input("a", tm.float32, [N, M])
    total: tm.Expr = a[i, j]
    for number, (y, x) in enumerate([at for at in AROUND if at != (0, 0)][:reads]):
        value: tm.Expr = a[i + y, j + x]
        for inside in (j < M - 1, j >= 1, i < N - 1, i >= 1):
            value = tm.select(inside, value, a[i, j] * number)
        total = total + value
    return scheduled(f, f.computation("b", {i: N, j: M}, total), tiles)


@pytest.mark.parametrize("tiles", [False, True])
@pytest.mark.parametrize("program", [wrapped, guarded])
def test_neighbours_beyond_an_edge_are_right_at_any_size(program: object, tiles: bool) -> None:
    assert callable(program)
    f = program(tiles)
    kernel = f.compile()
    for shape in SIZES:
        a = np.random.default_rng(0).random(shape, dtype=np.float32)
        np.testing.assert_array_equal(kernel(a), f.evaluate(a=a))


@pytest.mark.parametrize("tiles", [False, True])
@pytest.mark.parametrize("program", [wrapped, guarded])
def test_vectors_load_neighbours_and_choose_nothing(program: object, tiles: bool) -> None:
    assert callable(program)
    text = program(tiles).source()
    code = "\n".join(part for name, part in text.items() if name.endswith(".c") and "TM_STORE" in part)
    stores = re.findall(r"TM_STORE\(.*?\);\n", code, re.DOTALL)
    assert stores
    for store in stores:
        assert "TM_GATHER" not in store
        assert "TM_CHOOSE" not in store


def test_identical_guards_are_tested_once_whatever_they_guard() -> None:
    """The pieces of the loops are those of one guard: the text grows with the reads, not with their products."""
    lengths = []
    for reads in (2, 4, 8):
        code = "".join(part for name, part in guarded(reads=reads).source().items() if name == "guarded.c")
        lengths.append((code.count("for ("), code.count("b[")))
    assert lengths[0] == lengths[1] == lengths[2]


def test_comments_have_indices_as_the_algorithm_writes_them() -> None:
    (N,), (i,) = tm.params("N"), tm.iters("i")
    f = tm.Function("ring", params=[N], assume="N >= 2")
    a = f.input("a", tm.float32, [N])
    f.outputs(f.computation("b", {i: N}, a[(i - 1) % N] + a[i]))
    text = f.show("pseudocode")
    assert text.count("# b[i] = a[(i - 1) % N] + a[i]") == text.count("# ") == 2
    assert "b[0] = a[N - 1] + a[0]" in text

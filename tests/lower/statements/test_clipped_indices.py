"""Indices that are clipped, mirrored or wrapped: the inside of a loop has plain loads, and computes no index."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import tiramisu_py as tm

N, M = tm.params("N M")
i, j, i0, i1, j0, j1 = tm.iters("i j i0 i1 j0 j1")
SIZES = [(1, 1), (1, 5), (2, 3), (3, 2), (5, 17), (19, 70)]
Index = Callable[[tm.Expr, tm.Expr], tm.Expr]

FORMS: dict[str, tuple[Index, str]] = {
    "clip": (lambda at, size: tm.clip(at, 0, size - 1), "edge"),
    "minimum": (lambda at, size: tm.minimum(tm.maximum(at, 0), size - 1), "edge"),
    "select": (lambda at, size: tm.select(at < 0, 0, tm.select(at >= size, size - 1, at)), "edge"),
    "wrapped": (lambda at, size: at % size, "wrap"),
}


def neighbours(form: str, tiles: bool = False, reach: int = 1) -> tm.Function:
    """The sum over neighbours, beyond the edges as a form says."""
    index, _ = FORMS[form]
    f = tm.Function("neighbours", params=[N, M], assume="N >= 1 and M >= 1")
    a = f.input("a", tm.int32, [N, M])
    around = range(-reach, reach + 1)
    total = sum((a[index(i + y, N), index(j + x, M)] for y in around for x in around), start=np.int32(0))
    b = f.computation("b", {i: N, j: M}, total)
    f.outputs(b)
    if tiles:
        b.tile(i, j, 4, 32, i0, j0, i1, j1)
    b.parallelize(i0 if tiles else i)
    b.vectorize(j1 if tiles else j, 16)
    return f


@pytest.mark.parametrize("tiles", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_neighbours_are_those_of_a_padded_array(form: str, tiles: bool) -> None:
    kernel = neighbours(form, tiles).compile()
    for rows, columns in SIZES:
        a = np.random.default_rng(0).integers(-9, 9, (rows, columns), np.int32)
        wide = np.pad(a, 1, mode=FORMS[form][1])  # type: ignore[call-overload]
        wanted = sum(wide[y : y + rows, x : x + columns] for y in range(3) for x in range(3))
        np.testing.assert_array_equal(kernel(a), wanted)


@pytest.mark.parametrize("reach", [1, 2])
@pytest.mark.parametrize("tiles", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_vectors_inside_load_neighbours_where_they_are(form: str, tiles: bool, reach: int) -> None:
    if form == "wrapped" and reach == 2:
        pytest.skip("two steps are more than one turn of a ring of one element")
    stores = vector_stores(neighbours(form, tiles, reach))
    plain = [store for store in stores if "GATHER" not in store and "_int64x" not in store]
    assert any(store.count("load_int32x16") == (2 * reach + 1) ** 2 for store in plain)
    if reach == 1 and not tiles:  # a tile at an edge keeps a minimum
        assert plain == stores


def vector_stores(f: tm.Function) -> list[str]:
    code = "\n".join(text for name, text in f.source().items() if name.endswith(".c"))
    return re.findall(r"TM_STORE\(.*?\);\n", code, re.DOTALL)


def test_a_ring_that_is_turned_further_keeps_its_remainder() -> None:
    f = tm.Function("ring", params=[N], assume="N >= 1")
    a = f.input("a", tm.int32, [N])
    f.outputs(f.computation("b", {i: N}, a[(i + 2) % N]))
    kernel = f.compile()
    for size in (1, 2, 3, 7):
        np.testing.assert_array_equal(kernel(np.arange(size, dtype=np.int32)), np.roll(np.arange(size), -2))


def test_the_text_of_a_chain_grows_with_its_stages() -> None:
    """Not with the products of their edges."""
    lengths = []
    for stages in (2, 4, 8):
        f = tm.Function("chain", params=[N, M], assume="N >= 1 and M >= 1")
        made: list[tm.Input | tm.Computation] = [f.input("a", tm.float32, [N, M])]
        for stage in range(stages):
            reads = [made[-1][tm.clip(i + y, 0, N - 1), tm.clip(j + y, 0, M - 1)] for y in (-1, 0, 1)]
            made.append(f.computation(f"p{stage}", {i: N, j: M}, reads[0] + reads[1] + reads[2]))
        last = made[-1]
        assert isinstance(last, tm.Computation)
        f.outputs(last)
        last.split(i, 16, i0, i1)
        for each in made[-2:0:-1]:
            assert isinstance(each, tm.Computation)
            each.compute_at(last, i0)
        lengths.append(len(f.source()["chain.c"]))
    assert lengths[2] - lengths[1] < 3 * (lengths[1] - lengths[0])


def test_threads_of_a_gpu_clip_their_index() -> None:
    """A thread executes one instance: there is no loop to cut."""
    f = neighbours("clip")
    g = tm.Function.of(f.algorithm)
    g["b"].tile(i, j, 8, 8, i0, j0, i1, j1)
    g["b"].tag_gpu((i0, j0), (i1, j1))
    g.derive_transfers()
    kernel = g.compile(device="simulator")
    a = np.random.default_rng(1).integers(-9, 9, (9, 13), np.int32)
    np.testing.assert_array_equal(kernel(a), f.evaluate(a=a))

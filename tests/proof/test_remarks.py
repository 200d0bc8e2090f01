"""What the report says of right programs that may not be what was meant."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm

N = tm.params("N")[0]
i, j, i0, i1 = tm.iters("i j i0 i1")


def twice(sizes: tuple[int, int]) -> tuple[tm.Function, tm.Report]:
    f = tm.Function("twice", params=[N])
    a = f.input("a", tm.int32, [N])
    p = f.computation("p", {i: N}, a[i] + 1)
    q = f.computation("q", {i: N}, a[i] * 2)
    f.outputs(p, q)
    p.split(i, sizes[0], i0, i1)
    q.split(i, sizes[1], i0, i1)
    q.fuse(p, i0)
    return f, f.check()


@pytest.mark.parametrize("sizes", [(4, 8), (8, 4), (8, 8)])
def test_loops_that_were_split_unlike_are_said_to_be_shared_by_position(sizes: tuple[int, int]) -> None:
    f, report = twice(sizes)
    words = f"loop i0 is shared by its position, and was split by {sizes[0]} in p, and by {sizes[1]} in q"
    assert (words in report.proven) == (sizes[0] != sizes[1])
    for size in (0, 1, 13):
        a = np.arange(size, dtype=np.int32)
        for found, wanted in zip(f.compile()(a), (a + 1, a * 2), strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("turned", [False, True])
def test_loops_over_different_iterators_are_said_to_be_shared_by_position(turned: bool) -> None:
    f = tm.Function("turned", params=[N])
    a = f.input("a", tm.int32, [N, N])
    p = f.computation("p", {i: N, j: N}, a[i, j] + 1)
    q = f.computation("q", {i: N, j: N}, a[i, j] * 2)
    f.outputs(p, q)
    if turned:
        p.interchange(i, j)
    q.fuse(p, i)
    said = [words for words in f.check().proven if "by its position" in words]
    assert said == (["loop i is shared by its position, and runs over the j of q"] if turned else [])


def wraps(f: tm.Function) -> list[str]:
    return [words for words in f.check().proven if "wraps around" in words]


@pytest.mark.parametrize(("extent", "said"), [(256, False), (257, True), (N, True)])
def test_an_iterator_that_wraps_around_is_said_to(extent: object, said: bool) -> None:
    f = tm.Function("bytes", params=[N])
    a = f.input("a", tm.uint8, [1])
    f.outputs(f.computation("o", {i: extent}, a[0] + i))
    words = "i wraps around in a[0] + i of o, since it is taken as uint8: tm.cast(tm.int32, ...) of the other operand"
    assert wraps(f) == ([f"{words} keeps it"] if said else [])
    size = extent if isinstance(extent, int) else 300
    found = f.compile()(np.array([7], np.uint8), N=size)
    np.testing.assert_array_equal(found, (7 + np.arange(size)).astype(np.uint8))


def test_wide_types_comparisons_and_casts_keep_their_iterators() -> None:
    f = tm.Function("kept", params=[N])
    a = f.input("a", tm.uint8, [N])
    b = f.input("b", tm.int32, [N])
    o = f.computation("o", {i: N}, tm.cast(tm.int32, a[i]) + i)
    p = f.computation("p", {i: N}, b[i] + i)
    q = f.computation("q", {i: N}, tm.select(a[i] == i, 1, 0))
    f.outputs(o, p, q)
    assert wraps(f) == []


def test_terms_of_reductions_are_looked_at() -> None:
    f = tm.Function("sum", params=[N])
    a = f.input("a", tm.int8, [N])
    f.outputs(f.reduction("s", {}, over={i: N}, op=tm.sum, expr=a[i] * (i - 3)))
    assert [words.split(",")[0] for words in wraps(f)] == ["i - 3 wraps around in a[i] * (i - 3) of s"]

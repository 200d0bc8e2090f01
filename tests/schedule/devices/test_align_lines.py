"""align: gathered rows have their bits, and as many requests as counted warp by warp; what may not take turns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

N, M = tm.params("N M")
i, j, k, q, q0, q1 = tm.iters("i j k q q0 q1")
LINE = 128


def gather(width: int, by: str | None, split: int = 128, dtype: tm.DType = tm.float32) -> tm.Function:
    """Rows of a unified array, picked by an index: each on a block, or all of them numbered through."""
    f = tm.Function("gather", params=[N, M])
    rows = f.input("rows", dtype, [M, width], memory=tm.HOST_MAPPED)
    index = f.input("index", tm.int32, [N], values=(0, M))
    g = f.computation("g", {i: N, j: width}, rows[index[i], j])
    f.outputs(g)
    if by is not None:
        g.align(j, rows, LINE, by=by)
    if by == "line":
        g.tag_gpu(blocks=[i], threads=[j])
    else:
        g.coalesce(i, j, into=q).split(q, split, q0, q1).tag_gpu(blocks=[q0], threads=[q1])
    f.derive_transfers()
    return f


def picked(width: int, dtype: Any = np.float32, count: int = 40) -> tuple[Any, Any]:
    """An array with rows of distinct values, and the rows that are picked of it, some twice."""
    rng = np.random.default_rng(width)
    rows = tm.pinned_empty((97, width), dtype, device="simulator")
    rows[...] = np.arange(97 * width).reshape(97, width) % 251
    return rows, rng.integers(0, 97, count).astype(np.int32)


def requests(index: Any, width: int, by: str | None, item: int = 4) -> int:
    """Lines that each warp reads: counted thread by thread, from the description of each way alone."""
    lanes, found = LINE // item, set()
    for row, r in enumerate(index):
        for c in range(width + lanes if by == "line" else width):
            first = int(r) * width
            if by == "line":  # threads begin at the line in which the row begins
                thread, column = (row, c // 32), c - first % lanes
                if not 0 <= column < width:
                    continue
            else:
                number = row * width + c
                thread = (number // 128, number % 128 // 32)
                column = c if by is None else (c + (number % 128 - c - first) % lanes) % width
            found.add((thread, (first + column) * item // LINE))
    return len(found)


@pytest.mark.parametrize("by", [None, "shift", "line"])
@pytest.mark.parametrize("width", [33, 64, 513])
def test_rows_have_their_bits_and_the_requests_of_their_warps(width: int, by: str | None) -> None:
    f = gather(width, by)
    assert f.check().ok, f.check()
    kernel = f.compile(device="simulator", sanitize=True)
    rows, index = picked(width)
    np.testing.assert_array_equal(kernel(rows, index), rows[index])
    assert kernel.traffic["rows"].requests == requests(index, width, by)
    assert kernel.traffic["rows"].read == len(index) * width * 4


def test_a_row_of_the_thesis_has_five_requests_for_seven() -> None:
    # Figures 4.4 and 4.5: lines and warps of 4 elements, rows of 11, 0, 2 and 4 are read; here eight times that.
    rows, _ = picked(88)
    for by, expected in ((None, 7), ("shift", 5)):
        kernel = gather(88, by).compile(device="simulator", sanitize=True)
        counted = []
        for index in ([0], [0, 2], [0, 2, 4]):
            kernel(rows, np.array(index, np.int32))
            counted.append(kernel.traffic["rows"].requests)
            assert counted[-1] == requests(index, 88, by)
        assert counted[1] - counted[0] == expected, counted


@pytest.mark.slow
@pytest.mark.parametrize("width", range(512, 520))
@pytest.mark.parametrize("by", ["shift", "line"])
def test_rows_of_2048_to_2076_bytes_have_about_17_requests(width: int, by: str) -> None:
    kernel = gather(width, by).compile(device="simulator", sanitize=True)
    rows, index = picked(width)
    np.testing.assert_array_equal(kernel(rows, index), rows[index])
    assert kernel.traffic["rows"].requests == requests(index, width, by) <= (19 if by == "shift" else 17.5) * len(index)


def test_other_types_have_as_many_elements_in_a_line_as_fit() -> None:
    kernel = gather(70, "shift", dtype=tm.float64).compile(device="simulator", sanitize=True)
    rows, index = picked(70, np.float64)
    np.testing.assert_array_equal(kernel(rows, index), rows[index])
    assert kernel.traffic["rows"].requests == requests(index, 70, "shift", 8)


def test_every_order_of_threads_has_the_same_bits() -> None:
    f = gather(37, "shift")
    rows, index = picked(37, count=9)
    kernel = f.compile(device="simulator")
    for seed in range(4):
        np.testing.assert_array_equal(kernel.seeded(seed)(rows, index), rows[index])
    np.testing.assert_array_equal(f.evaluate(rows, index, as_scheduled=True), rows[index])


def test_no_rows_and_one_row() -> None:
    kernel = gather(33, "line").compile(device="simulator")
    rows, index = picked(33)
    assert kernel(rows, index[:0]).shape == (0, 33)
    np.testing.assert_array_equal(kernel(rows, index[:1]), rows[index[:1]])


def test_the_report_says_that_threads_take_turns() -> None:
    assert "the threads of g may take turns in each row: no two of its values meet" in str(gather(33, "shift").check())


# -- what is refused


def plain(width: int = 33) -> tuple[tm.Function, Any, Any, Any]:
    f = tm.Function("plain", params=[N, M])
    rows = f.input("rows", tm.float32, [M, width], memory=tm.HOST_MAPPED)
    index = f.input("index", tm.int32, [N], values=(0, M))
    g = f.computation("g", {i: N, j: width}, rows[index[i], j] * 2)
    f.outputs(g)
    return f, g, rows, index


def test_rows_that_are_not_whole_are_refused() -> None:
    f, g, rows, _ = plain()
    g.align(j, rows, LINE)
    for part in g.reorder(j, i).separate_at(j, [8]):
        part.reorder(i, j).tag_gpu(blocks=[i], threads=[j])
    f.derive_transfers()
    report = f.check()
    assert not report.ok and "does not run over whole rows of 33 values" in str(report)


def test_a_kernel_with_others_is_refused() -> None:
    f, g, rows, index = plain()
    h = f.computation("h", {i: N, j: 33}, g[i, j] + rows[index[i], j])
    f.outputs(g, h, replace=True)
    g.align(j, rows, LINE)
    h.tag_gpu(blocks=[i], threads=[j])
    g.compute_at(h, j)
    f.derive_transfers()
    report = f.check()
    assert not report.ok and "g is aligned to lines of rows, and shares its kernel with h" in str(report)


@pytest.mark.parametrize("split", [48, 100])
def test_neighbours_that_are_not_side_by_side_are_refused(split: int) -> None:
    report = gather(33, "shift", split).check()
    assert not report.ok and "neighbours along j are not on neighbouring threads, line by line" in str(report)
    assert "split by 128" in str(report)


def test_lines_of_rows_that_are_numbered_through_are_refused() -> None:
    f, g, rows, _ = plain()
    g.align(j, rows, LINE, by="line")
    g.coalesce(i, j, into=q).split(q, 128, q0, q1).tag_gpu(blocks=[q0], threads=[q1])
    f.derive_transfers()
    report = f.check()
    assert not report.ok and "64 iterations for each row of 33 values are in the way of each other" in str(report)


def test_cores_are_refused() -> None:
    f, g, rows, _ = plain()
    g.align(j, rows, LINE)
    assert "g is aligned to lines of rows, and runs in no kernel" in str(f.check())


def test_rows_that_are_stored_where_they_are_read_are_refused() -> None:
    f = tm.Function("own", params=[N])
    a = f.input("a", tm.float32, [N, 64], memory=tm.HOST_MAPPED)
    b = f.computation("b", {i: N, j: 64}, a[i, j] * 2)
    f.outputs(b)
    b.align(j, a, LINE)
    b.store_in(a)
    b.tag_gpu(blocks=[i], threads=[j])
    assert "b is aligned to lines of a, and reads what it stores in a" in str(f.check())


WRONG = [
    (lambda f, g, rows, index: g.align(j, rows, 128, by="row"), "by='row': give 'shift'.* or 'line'"),
    (lambda f, g, rows, index: g.align(j, rows, 4), r"lines of 4 bytes do not hold several elements of rows"),
    (lambda f, g, rows, index: g.align(j, rows, 130), r"lines of 130 bytes do not hold several elements of rows"),
    (lambda f, g, rows, index: g.align(i, rows, 128), "i of g does not run from 0 to a constant"),
    (lambda f, g, rows, index: g.align(k, rows, 128), "k is not an index of g: choose one of i, j"),
    (lambda f, g, rows, index: g.align(j, g, 128), "g is no array of the caller: align is for rows of inputs"),
    (lambda f, g, rows, index: g.align(j, index, 128), r"g reads index\[i\]: align is for index\[.., j\]"),
]


@pytest.mark.parametrize(("wrong", "words"), WRONG)
def test_other_reads_are_refused(wrong: Any, words: str) -> None:
    with pytest.raises(tm.CommandError, match=words):
        wrong(*plain())


@pytest.mark.parametrize("by", [None, "shift", "line"])
def test_the_facts_say_the_requests_of_a_row(by: str | None) -> None:
    (facts,) = gather(513, by).cost("kernels")
    loads = next(each for each in facts.accesses if each.buffer == "rows")
    _, index = picked(513, count=97)
    assert not loads.known and loads.requests == pytest.approx(requests(index, 513, by) / 97, rel=0.02)
    assert f"it depends on values; about {loads.requests:.1f} requests of 128 bytes a row" in str(facts)

"""Bounds and indices that are values: gathers, guards, and loops whose bounds are loaded."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import tiramisu_py as tm
from tests.programs.by_hand import Author, computed, every, iters, part, text
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.algorithm.operators import sum_
from tiramisu_py.ir import For, If
from tiramisu_py.lower.lowering import lower
from tiramisu_py.program.loops import Parallel
from tiramisu_py.program.program import Program
from tiramisu_py.schedule.loops import tags
from tiramisu_py.schedule.loops import transforms as loops


def spmv(strict: bool = True) -> Program:
    author = Author("spmv", "N M NNZ", "N >= 1 and M >= 1")
    N, M, NNZ = author.params()
    i, p = iters("i p")
    start, column = author.input("start", ty.int32, [N + 1]), author.input("column", ty.int32, [NNZ])
    value, x = author.input("value", ty.float32, [NNZ]), author.input("x", ty.float32, [M])
    guards = (start[i] <= p, p < start[i + 1]) if strict else (p > start[i] - 1, start[i + 1] - 1 >= p)
    points = "0 <= i < N and 0 <= p < NNZ"
    term = value[p] * x[column[p]]
    author.reduction("y", "i", "0 <= i < N", "p", points, sum_, term, guards=guards)
    return author.program("y")


def times(program: Program, matrix: scipy.sparse.csr_matrix, vector: np.ndarray) -> np.ndarray:
    sizes = {"N": matrix.shape[0], "M": matrix.shape[1], "NNZ": matrix.nnz}
    arrays = {
        "start": matrix.indptr.astype(np.int32), "column": matrix.indices.astype(np.int32),
        "value": matrix.data, "x": vector,
    }  # fmt: skip
    return computed(lower(program), sizes, arrays)["y"]


@pytest.mark.parametrize("shape", [(1, 1), (7, 9), (20, 3)])
@pytest.mark.parametrize("density", [0.0, 0.3])
@pytest.mark.parametrize("strict", [True, False])
def test_a_sparse_product_equals_scipy(shape, density, strict):
    matrix = scipy.sparse.random(*shape, density=density, format="csr", dtype=np.float32, random_state=2)
    vector = np.random.default_rng(0).random(shape[1], dtype=np.float32)
    program = tags.parallelize(spmv(strict), ["y_update"], ["i"], Parallel(), "")
    np.testing.assert_allclose(times(program, matrix, vector), matrix @ vector, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("strict", [True, False])
def test_a_loop_runs_over_the_entries_of_its_row_alone(strict):
    function = lower(spmv(strict))
    inner = [loop for loop in every(function.body, For) if loop.variable == "p"]
    assert [(str(loop.lower), str(loop.upper)) for loop in inner] == [("max(0, p_low)", "min(NNZ, p_high)")]
    assert not every(inner[0].body, If)


def test_the_row_is_only_loaded_where_there_is_an_entry():
    body = text(lower(spmv()).body)
    assert body.index("if 0 < NNZ") < body.index("p_low =")


def test_a_split_loop_over_a_row_keeps_its_conditions_where_they_are_no_bounds():
    program = loops.split(spmv(), ["y_update"], "p", 4, "p0", "p1")
    matrix = scipy.sparse.random(6, 5, density=0.5, format="csr", dtype=np.float32, random_state=3)
    vector = np.arange(5, dtype=np.float32)
    np.testing.assert_allclose(times(program, matrix, vector), matrix @ vector, rtol=1e-5)


def test_conditions_on_values_guard_the_store():
    author = Author("masked", "N")
    (N,) = author.params()
    (i,) = iters("i")
    x, mask = author.input("x", ty.float32, [N]), author.input("mask", ty.bool_, [N])
    author.computation("y", "i", "0 <= i < N", x[i] * 2, guards=(mask[i],))
    function = lower(author.program("y"))
    assert not function.arguments[-1].covered
    x, mask = np.arange(4, dtype=np.float32), np.array([True, False, False, True])
    got = computed(function, {"N": 4}, {"x": x, "mask": mask})["y"]
    np.testing.assert_array_equal(got, np.where(mask, 2 * x, 0))


def test_a_histogram_reads_and_writes_where_values_say():
    author = Author("table", "N M")
    N, M = author.params()
    (i,) = iters("i")
    x, which = author.input("x", ty.float64, [M, 2]), author.input("which", ty.int16, [N, 2])
    author.computation("y", "i", "0 <= i < N", x[which[i, 0] + 1, 1 - which[i, 1]], dtype=ty.float64)
    program = loops.split(author.program("y"), ["y"], "i", 3, "i0", "i1")
    table, pick = np.arange(10.0).reshape(5, 2), np.array([[0, 1], [3, 0], [2, 1], [1, 1]], np.int16)
    got = computed(lower(program), {"N": 4, "M": 5}, {"x": table, "which": pick})["y"]
    np.testing.assert_array_equal(got, table[pick[:, 0] + 1, 1 - pick[:, 1]])


def scatter(dtype=ty.int32, offset=0, above=None) -> Program:
    author = Author("scatter", "N M")
    N, M = author.params()
    i, v = iters("i v")
    index = author.input("index", dtype, [N], values=None if above is None else (0, M + above if above else M))
    points = "0 <= i < N and 0 <= v < M"
    term = i + 1
    guards = (v + offset == index[i],)
    author.reduction("y", "v", "0 <= v < M", "i", points, sum_, term, guards=guards, dtype=ty.int64)
    return author.program("y")


def gathered(index: np.ndarray, size: int, offset: int) -> np.ndarray:
    wanted = np.zeros(size, np.int64)
    for number, place in enumerate(index.tolist()):
        if 0 <= place - offset < size:
            wanted[place - offset] += number + 1
    return wanted


@pytest.mark.parametrize("offset", [0, 3])
@pytest.mark.parametrize("index", [[], [2], [0, 5, 5, 1, 40, -1, 7], [3, 3, 3]])
def test_a_loop_whose_variable_is_a_value_is_this_one_iteration(offset, index):
    function = lower(scatter(offset=offset))
    assert [loop.variable for loop in every(function.body, For)] == ["v", "i"]
    index = np.array(index, np.int32)
    got = computed(function, {"N": len(index), "M": 6}, {"index": index})["y"]
    np.testing.assert_array_equal(got, gathered(index, 6, offset))


def test_a_value_of_64_bits_is_not_moved_where_that_may_wrap():
    function = lower(scatter(ty.int64, offset=3))
    assert [loop.variable for loop in every(function.body, For)] == ["v", "i", "v"]
    index = np.array([3, np.iinfo(np.int64).min, 8], np.int64)
    got = computed(function, {"N": 3, "M": 6}, {"index": index})["y"]
    np.testing.assert_array_equal(got, gathered(index, 6, 3))


def test_a_value_that_is_declared_to_lie_in_the_loop_needs_no_test():
    assert "v < M" in text(lower(scatter()).body)
    assert "v < M" in text(lower(scatter(above=1)).body)
    assert "v < M" not in text(lower(scatter(above=0)).body)


def test_a_loop_with_a_tag_keeps_its_iterations():
    program = tags.parallelize(scatter(), ["y_update"], ["v"], Parallel(), "")
    assert [loop.variable for loop in every(lower(program).body, For)] == ["v", "i", "v"]


@pytest.mark.parametrize("length", [[], [0], [3, 0, 9, 1, 2]])
def test_a_loop_ends_where_a_value_says(length):
    author = Author("prefixes", "N W")
    N, W = author.params()
    i, w = iters("i w")
    x, end = author.input("x", ty.int64, [N, W]), author.input("end", ty.int16, [N])
    points = "0 <= i < N and 0 <= w < W"
    author.reduction("y", "i", "0 <= i < N", "w", points, sum_, x[i, w], guards=(w < end[i], x[i, w] != 2))
    function = lower(author.program("y"))
    inner = [loop for loop in every(function.body, For) if loop.variable == "w"]
    assert [str(loop.upper) for loop in inner] == ["min(W, w_high)"]
    values = np.arange(4 * len(length), dtype=np.int64).reshape(len(length), 4) % 5
    got = computed(function, {"N": len(length), "W": 4}, {"x": values, "end": np.array(length, np.int16)})["y"]
    wanted = [sum(v for v in row[:end] if v != 2) for row, end in zip(values.tolist(), length, strict=True)]
    np.testing.assert_array_equal(got, np.array(wanted, np.int64))


def suffixes(widens: bool) -> Program:
    """Sums over w < end[i] of rows of a table, w outside of j; the range of j depends on w if it `widens`."""
    author = Author("suffixes", "N M W")
    N, M, W = author.params()
    i, j, w = iters("i j w")
    x, end = author.input("x", ty.int64, [W, M]), author.input("end", ty.int32, [N], values=(0, W + 1))
    inside = "0 <= i < N and 0 <= j < M"
    points = f"{inside} and 0 <= w < W" + (" and j <= w" if widens else "")
    author.reduction("y", "i j", inside, "w", points, sum_, x[w, j], guards=(w < end[i],))
    return loops.Interchange(part("y_update"), Iter("j"), Iter("w")).applied(author.program("y"))


@pytest.mark.parametrize("columns", [0, 1, 3])
@pytest.mark.parametrize("widens", [False, True])
@pytest.mark.parametrize("end", [[], [0], [3, 0, 4, 1, 2]])
def test_a_loop_around_others_ends_where_a_value_says(end, widens, columns):
    function = lower(suffixes(widens))
    (outer,) = (loop for loop in every(function.body, For) if loop.variable == "w")
    assert str(outer.upper) == "w_high"  # declared to be at most W
    values = np.arange(4 * columns, dtype=np.int64).reshape(4, columns) + 1
    arrays = {"x": values, "end": np.array(end, np.int32)}
    got = computed(function, {"N": len(end), "M": columns, "W": 4}, arrays)["y"]
    taken = np.tril(np.ones((4, columns), np.int64)) if widens else np.ones((4, columns), np.int64)
    wanted = np.array([(values * taken)[:last].sum(0) for last in end], np.int64).reshape(len(end), columns)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("width", [2, 3])
def test_a_loop_around_tiles_keeps_its_condition_where_these_end_at_the_last_one(width):
    N, (i, v, i0, i1) = tm.params("N")[0], tm.iters("i v i0 i1")
    f = tm.Function("below", params=[N])
    most, a = f.input("most", tm.int32, [N], values=(0, N)), f.input("a", tm.int32, [N])
    m = f.reduction("m", {v: N}, {i: N}, tm.sum, a[i], where=v <= most[0 * i])
    f.outputs(m)
    m.update.split(i, width, i0, i1)
    kernel = f.compile()
    for size in (0, 1, 5, 6, 7):
        largest = np.full(size, size // 2, np.int32)
        values = np.arange(size, dtype=np.int32) - 2
        wanted = np.where(np.arange(size) <= size // 2, values.sum(), 0)
        np.testing.assert_array_equal(kernel(largest, values), wanted)

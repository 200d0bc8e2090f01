"""Products on slices of rows: SciPy's values for awkward matrices, other operators, facts that do not hold, C."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import tiramisu_py as tm
from tests.programs.sparse import LENGTHS, csr
from tiramisu_py.interpret import run

Matrix = scipy.sparse.csr_matrix
N, M, P = tm.params("N M P")
i, p = tm.iters("i p")


def product(op: tm.Operator = tm.sum, of: tm.DType = tm.float64, index: tm.DType = tm.int32) -> tm.sparse.Sell:
    """The programs of a product with a factor; names of the declared function are some of those that are made."""
    f = tm.Function("product", params=[N, M, P], assume="N <= 1000000")
    begin = f.input("begin", index, [N + 1], values=(0, P + 1), monotone=True)
    place = f.input("place", index, [P], values=(0, M))
    factor = f.scalar("factor", of)
    value, x = f.input("value", of, [P]), f.input("x", of, [M])
    term = value[p] * x[place[p]] if op is tm.sum else value[p] + x[place[p]]
    y = f.reduction("total", {i: N}, over={p: (begin[i], begin[i + 1])}, op=op, expr=factor * term)
    f.outputs(y)
    return tm.sparse.sell(y)


def matrix_of(lengths: list[int], columns: int, seed: int = 0) -> Matrix:
    """Rows of these lengths, of integers; some entries are in one place."""
    rng = np.random.default_rng(seed)
    start = np.cumsum([0, *lengths]).astype(np.int32)
    column = rng.integers(0, columns, start[-1]).astype(np.int32)
    return scipy.sparse.csr_matrix(
        (rng.integers(-9, 10, start[-1]).astype(np.float64), column, start), (len(lengths), columns)
    )


def matrices() -> Iterator[Matrix]:
    """Few rows, one long row among many, rows of all lengths, more rows than a window."""
    for seed, lengths in enumerate(LENGTHS):
        yield matrix_of(lengths, 7, seed)
    yield matrix_of([1] * 20 + [900] + [0, 2] * 10, 60)
    yield matrix_of([*range(33)][::-1], 40)
    yield matrix_of(np.random.default_rng(5).integers(0, 9, 803).tolist(), 90)


@pytest.fixture(scope="module", params=[1, 3], ids=["one thread", "three threads"])
def kernels(request: pytest.FixtureRequest) -> Any:
    return product().compile(threads=request.param)


def test_it_is_proven() -> None:
    for report in product().check():
        assert report.ok, report
        assert report.bits == "bits preserved"


def test_products_are_those_of_scipy(kernels: Any) -> None:
    for matrix in matrices():
        sliced = kernels.inspect(matrix.indptr, matrix.indices, matrix.data, M=matrix.shape[1])
        x = np.arange(1.0, matrix.shape[1] + 1)
        np.testing.assert_array_equal(sliced(2.0, x), 2.0 * (matrix @ x))
        out = np.full(matrix.shape[0], np.nan)
        assert sliced(1.0, x, total=out) is out
        np.testing.assert_array_equal(out, matrix @ x)


def test_no_place_beyond_the_end_of_a_row_touches_a_sum(kernels: Any) -> None:
    """Whatever a column holds, rows without it stay finite, also beside longer rows of their slice."""
    lengths = [0, 9, 1, 0, 3, 2, 0, 5, 1, 0, 0]
    matrix = matrix_of(lengths, 12)
    sliced = kernels.inspect(matrix.indptr, matrix.indices, matrix.data, M=12)
    for special in (np.nan, np.inf, -np.inf):
        for column in range(12):
            x = np.ones(12)
            x[column] = special
            with np.errstate(invalid="ignore"):
                wanted = np.array([row.data @ x[row.indices] for row in (matrix[k] for k in range(len(lengths)))])
            np.testing.assert_array_equal(sliced(1.0, x), wanted)


def test_rows_are_sorted_by_length_within_windows() -> None:
    lengths = [1, 5, 3, 5, 0] * 7
    f, y = csr()
    f.outputs(y, replace=True)
    made = tm.sparse.sell(y, lanes=4, window=16)
    matrix = matrix_of(lengths, 9)
    order, length, begin = made.rows.compile()(matrix.indptr, P=matrix.nnz, S=9)
    wanted = np.lexsort((-np.array(lengths), np.arange(35) // 16))
    np.testing.assert_array_equal(order, wanted)
    np.testing.assert_array_equal(length, np.array(lengths)[wanted])
    widest = [max(length[s : s + 4]) for s in range(0, 35, 4)]
    np.testing.assert_array_equal(begin, np.cumsum([0, *widest]))


def test_other_values_in_the_same_places(kernels: Any) -> None:
    matrix, x = matrix_of([3, 0, 11, 2], 8), np.arange(8.0)
    first = kernels.inspect(matrix.indptr, matrix.indices, matrix.data, M=8)
    second = first.replace(value=matrix.data + 1)
    np.testing.assert_array_equal(first(1.0, x), matrix @ x)
    matrix.data += 1
    np.testing.assert_array_equal(second(1.0, x), matrix @ x)
    assert second.entries["place"] is first.entries["place"]


def test_a_matrix_keeps_no_array_of_the_caller(kernels: Any) -> None:
    matrix, x = matrix_of([3, 0, 11, 2], 8), np.arange(8.0)
    wanted = matrix @ x
    sliced = kernels.inspect(matrix.indptr, matrix.indices, matrix.data, M=8)
    for array in (matrix.indptr, matrix.indices, matrix.data):
        array[:] = -1
    np.testing.assert_array_equal(sliced(1.0, x), wanted)
    with pytest.raises(ValueError, match="read-only"):
        sliced.entries["value"][0] = 1


@pytest.mark.parametrize(
    ("op", "of", "index"), [(tm.min, tm.float32, tm.int64), (tm.max, tm.int32, tm.int32), (tm.sum, tm.int64, tm.int64)]
)
def test_operators_and_types(op: tm.Operator, of: tm.DType, index: tm.DType) -> None:
    made = product(op, of, index)
    kernels = made.compile()
    for matrix in matrices():
        start, column = matrix.indptr.astype(index.numpy), matrix.indices.astype(index.numpy)
        value, x = matrix.data.astype(of.numpy), np.arange(matrix.shape[1]).astype(of.numpy)
        found = kernels.inspect(start, column, value, M=matrix.shape[1])(3, x)
        term = value * x[column] if op is tm.sum else value + x[column]
        combine = {tm.sum: np.sum, tm.min: np.min, tm.max: np.max}[op]
        empty = op.identity(of).value
        rows = [term[low:high] for low, high in itertools.pairwise(start)]
        wanted = [combine(3 * row) if row.size else empty for row in rows]
        np.testing.assert_array_equal(found, np.array(wanted, of.numpy))


def test_the_algorithm_of_the_executor_is_the_product() -> None:
    """Its oracle, which knows no schedule, gives the sums of rows."""
    matrix, x = matrix_of([2, 0, 3, 1], 5), np.arange(5.0)
    made = product()
    sliced = made.compile().inspect(matrix.indptr, matrix.indices, matrix.data, M=5)
    found = made.multiply.evaluate(**sliced.layout, **sliced.entries, factor=1.0, x=x, P=6)
    of_row = {int(v): row for row, v in enumerate(sliced.layout[list(sliced.layout)[1]])}
    np.testing.assert_array_equal([found[of_row[v], v] for v in range(4)], matrix @ x)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"place": np.array([0, 5], np.int32)}, r"place\[1\] = 5"),
        ({"place": np.array([0, -1], np.int32)}, r"place\[1\] = -1"),
        ({"begin": np.array([0, 2, 1, 2], np.int32)}, r"begin\[2\] = 1, which is less"),
        ({"begin": np.array([0, 1, 2, 3], np.int32)}, r"begin\[3\] = 3"),
        ({"value": np.ones(3)}, "value"),
        ({"M": None}, "give M="),
        ({"K": 3}, "no argument K"),
        ({"value": None}, "value is missing"),
    ],
)
def test_what_is_no_matrix_is_refused(kernels: Any, change: dict[str, Any], words: str) -> None:
    given = {"begin": np.array([0, 1, 1, 2], np.int32), "place": np.zeros(2, np.int32), "value": np.ones(2), "M": 5}
    given = {name: value for name, value in {**given, **change}.items() if value is not None}
    with pytest.raises(tm.ArgumentError, match=words):
        kernels.inspect(**given)


def test_calls_with_wrong_arguments_are_refused(kernels: Any) -> None:
    matrix = matrix_of([1, 2], 4)
    sliced = kernels.inspect(matrix.indptr, matrix.indices, matrix.data, M=4)
    for arguments, named, words in (
        ((1.0, np.ones(5)), {}, "M"),
        ((1.0, np.ones(4)), {"value": matrix.data}, "belongs to the matrix"),
        ((1.0, np.ones(4), 3), {}, "by position"),
        ((1.0, np.ones(4)), {"x": np.ones(4)}, "twice"),
    ):
        with pytest.raises(tm.ArgumentError, match=words):
            sliced(*arguments, **named)
    with pytest.raises(tm.ArgumentError, match="no argument weights: it takes place, value"):
        sliced.replace(weights=matrix.data)


@pytest.mark.parametrize(("lanes", "window"), [(2, 16), (4, 48), (16, 16), (32, 64)])
def test_slices_and_windows_of_other_sizes(lanes: int, window: int) -> None:
    _, y = csr()
    made = tm.sparse.sell(y, lanes=lanes, window=window)
    assert all(report.ok for report in made.check())
    kernels = made.compile(threads=2)
    for matrix in matrices():
        x = np.arange(matrix.shape[1], dtype=np.float32)
        sliced = kernels.inspect(matrix.indptr, matrix.indices, matrix.data.astype(np.float32), M=len(x))
        np.testing.assert_array_equal(sliced(x), matrix @ x)


def test_facts_hold_in_slices_and_others_are_verified_at_each_call() -> None:
    """Entries from 1 on, and an input at places that they say, which has facts of its own."""
    f = tm.Function("chosen", params=[N, M, P])
    start = f.input("start", tm.int32, [N + 1], values=(0, P + 1), monotone=True)
    kind = f.input("kind", tm.int32, [P], values=(1, 4))
    level = f.input("level", tm.int32, [4], values=(0, M))
    x = f.input("x", tm.int64, [M])
    y = f.reduction("y", {i: N}, over={p: (start[i], start[i + 1])}, op=tm.sum, expr=x[level[kind[p]]])
    f.outputs(y)
    kernels = tm.sparse.sell(y).compile()
    kinds = np.array([1, 3, 2, 1, 1], np.int32)
    matrix = kernels.inspect(np.array([0, 2, 2, 5], np.int32), kinds)
    level, x = np.array([0, 2, 1, 0], np.int32), np.array([1, 10, 100])
    np.testing.assert_array_equal(matrix(level, x), [101, 0, 210])
    with pytest.raises(tm.ArgumentError, match=r"level\[3\] = 3"):
        matrix(np.array([0, 2, 1, 3], np.int32), x)
    with pytest.raises(tm.ArgumentError, match=r"kind\[4\] = 0"):
        matrix.replace(kind=np.array([1, 3, 2, 1, 0], np.int32))


def test_the_machine_agrees_in_any_order() -> None:
    made = product()
    kernels, function = made.compile(), made.multiply.show("lowered")
    for seed, lengths in enumerate(LENGTHS):
        matrix = matrix_of(lengths, 7, seed)
        x = np.arange(1.0, 8.0)
        sliced = kernels.inspect(matrix.indptr, matrix.indices, matrix.data, M=7)
        (output,) = function.outputs
        arrays = {name: np.copy(array) for name, array in {**sliced.layout, **sliced.entries, "x": x}.items()}
        arrays[output] = np.zeros(len(lengths))
        sizes = {name: sliced.sizes[name] for name in function.params}
        run(function, {**arrays, "factor": np.float64(1)}, sizes, seed)
        np.testing.assert_array_equal(arrays[output], matrix @ x)


def test_slices_are_vectors_to_the_end_of_their_longest_row() -> None:
    """No loop over lanes, gathers by indices of 32 bits, prefetches, and a loop from the first place to the last."""
    _, y = csr()
    text = tm.sparse.sell(y).multiply.source()["csr_sell.c"]
    assert "for (int64_t lane" not in text
    for part in ("TM_GATHER_32x8(", "TM_PREFETCH(value", "place = place_low; place < place_high; place++", "TM_SHARE("):
        assert part in text


def declared(kind: str) -> Any:
    """A reduction that is no product over the rows of a matrix."""
    f = tm.Function("other", params=[N, M, P])
    monotone = kind != "not monotone"
    start = f.input("start", tm.int32, [N + 1], values=(0, P + 1), monotone=monotone)
    v, x = f.input("v", tm.float64, [P]), f.input("x", tm.float64, [N])
    over: dict[Any, Any] = {p: (start[i], start[i + 1])}
    rows, term, where = N, v[p], None
    if kind == "row":
        term = v[p] * x[i]
    elif kind == "entry":
        term = v[p] * tm.cast(tm.float64, p)
    elif kind == "part":
        rows = N - 1
    elif kind == "where":
        where = v[p] > 0
    elif kind == "bounds":
        over = {p: (start[i], P)}
    elif kind == "no matrix":
        term = tm.cast(tm.float64, 1)
    elif kind == "computed":
        doubled = f.computation("doubled", {p: P}, 2 * v[p])
        term = doubled[p]
    y = f.reduction("y", {i: rows}, over=over, op=tm.sum, expr=term, where=where, ordered=kind == "ordered")
    f.outputs(y)
    return f.computation("z", {i: rows}, y[i]) if kind == "computation" else y


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("not monotone", "not declared to be monotone"),
        ("row", "depend on i itself"),
        ("entry", "depend on p itself"),
        ("part", "not over all rows"),
        ("where", "without further conditions"),
        ("bounds", "not those from start"),
        ("no matrix", "no matrix"),
        ("computed", "made of inputs"),
        ("ordered", "order is free"),
        ("computation", "no reduction"),
    ],
)
def test_other_reductions_are_refused(kind: str, words: str) -> None:
    with pytest.raises(tm.ArgumentError, match=words):
        tm.sparse.sell(declared(kind))


def test_sizes_are_checked() -> None:
    _, y = csr()
    for sizes, words in (({"lanes": 3}, "lanes=3"), ({"window": 40}, "window=40"), ({"lanes": 32, "window": 16}, "32")):
        with pytest.raises(tm.ArgumentError, match=words):
            tm.sparse.sell(y, **sizes)
    with pytest.raises(tm.ArgumentError, match="'y' is none"):
        tm.sparse.sell("y")


_MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "csr_rows.h"
#include "csr_pack_column.h"
#include "csr_pack_value.h"
#include "csr_sell.h"
int main(void) {
  const int32_t start[] = {0, 2, 2, 3}, column[] = {1, 0, 2};
  const float value[] = {2, 3, 4}, x[] = {1, 10, 100};
  int32_t order[3], length[3], begin[2];
  if (csr_rows(3, 3, 1, start, order, length, begin)) return puts(csr_rows_last_error());
  const int64_t places = begin[1];
  int32_t *const columns = calloc(places, 8 * sizeof *columns);
  float *const values = calloc(places, 8 * sizeof *values), y[3];
  if (csr_pack_column(3, 3, 3, 1, places, start, column, order, begin, columns)) return 1;
  if (csr_pack_value(3, 3, 1, places, start, value, order, begin, values)) return 1;
  if (csr_sell(3, 3, 1, places, begin, order, length, columns, values, x, y)) return 1;
  printf("%g %g %g\\n", y[0], y[1], y[2]);
  free(columns), free(values);
  return 0;
}
"""


def test_a_program_in_c_uses_the_libraries(tmp_path: Path) -> None:
    _, y = csr()
    tm.sparse.sell(y).compile().export(tmp_path)
    names = ("csr_rows", "csr_pack_column", "csr_pack_value", "csr_sell")
    (tmp_path / "main.c").write_text(_MAIN)
    folders = [f"-I{tmp_path / name}" for name in names]
    libraries = [str(tmp_path / name / f"lib{name}.a") for name in names]
    command = ["gcc", "main.c", *folders, *libraries, "-fopenmp", "-lm", "-o", "main"]
    built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    ran = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "23 0 400\n"), ran.stdout

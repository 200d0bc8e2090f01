"""The recipe of matrix products: what it commands, that it is proven and right at any size, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.sanitizers import check_clean
from tests.selection import covering
from tiramisu_py.errors import ArgumentError
from tiramisu_py.recipes import Cpu
from tiramisu_py.recipes.matmul import Sizes

WIDE = Cpu(vector_bytes=64, registers=32, first=48 << 10, second=2 << 20)
NARROW = Cpu(vector_bytes=16, registers=16, first=32 << 10, second=256 << 10)
TINY = Cpu(vector_bytes=32, registers=16, first=1 << 10, second=4 << 10)
SIZES = [(1, 1, 0), (1, 1, 1), (7, 65, 33), (31, 37, 391), (13, 129, 2)]
N, M, K, Q = tm.params("N M K Q")
i, j, k, b, h = tm.iters("i j k b h")
Made = tuple[tm.Function, Any, Callable[..., Any]]


def plain(left: str = "ik", right: str = "kj", dtype: tm.DType = tm.float64, of: tm.DType | None = None) -> Made:
    """A product whose operands may be transposed, batched or narrower, and the same in NumPy."""
    extents, iterators = {"i": N, "j": M, "k": K, "b": Q, "h": 2}, {"i": i, "j": j, "k": k, "b": b, "h": h}
    f = tm.Function("mm", params=[N, M, K, *([Q] if "b" in left + right else [])])
    A = f.input("A", of or dtype, [extents[name] for name in left])
    B = f.input("B", of or dtype, [extents[name] for name in right])
    result = "".join(name for name in "bhij" if name in left + right)
    reads = [source[tuple(iterators[name] for name in named)] for source, named in ((A, left), (B, right))]
    first, second = (tm.cast(dtype, read) if of else read for read in reads)
    C = f.reduction("C", {iterators[name]: extents[name] for name in result}, {k: K}, tm.sum, first * second)
    f.outputs(C)
    return f, C, lambda A, B: np.einsum(f"{left},{right}->{result}", A.astype(dtype.numpy), B.astype(dtype.numpy))


def given(f: tm.Function, left: str, right: str, size: tuple[int, int, int]) -> dict[str, Any]:
    """Small integers, whose sums are exact in each type."""
    extents = dict(zip("ijk", size, strict=True)) | {"b": 3, "h": 2}
    rng = np.random.default_rng(sum(size))
    return {
        name: rng.integers(0, 4, [extents[each] for each in named]).astype(f.algorithm.inputs[name].dtype.numpy)
        for name, named in (("A", left), ("B", right))
    }


OPERANDS = [
    ("ik", "kj", tm.float32, None),
    ("ki", "kj", tm.float64, None),
    ("ik", "jk", tm.float32, None),
    ("ki", "jk", tm.float32, None),
    ("bik", "bkj", tm.float32, None),
    ("bik", "kj", tm.float32, None),
    ("bhik", "jk", tm.float32, None),
    ("bhik", "hkj", tm.float32, None),
    ("ik", "bkj", tm.float32, None),
    ("ik", "kj", tm.int32, tm.uint8),
    ("kj", "ik", tm.int16, None),
]


@pytest.mark.parametrize(("left", "right", "dtype", "of", "cpu"), covering(OPERANDS, [WIDE, NARROW, TINY]))
def test_a_product_is_right_at_any_size(cpu: Cpu, left: str, right: str, dtype: tm.DType, of: tm.DType | None) -> None:
    f, C, expected = plain(left, right, dtype, of)
    tm.recipes.matmul(C, cpu=cpu)
    kernel = f.compile(threads=2)
    for size in SIZES:
        arrays = given(f, left, right, size)
        np.testing.assert_array_equal(kernel(**arrays), expected(**arrays))


@pytest.mark.parametrize(("first", "parts"), [(2, 1), (Q, 2)])
def test_a_sum_over_several_iterators_is_in_blocks_of_the_longest(first: Any, parts: int) -> None:
    f = tm.Function("heads", params=[N, M, K, *([Q] if first is Q else [])])
    A, B = f.input("A", tm.float32, [N, K, first]), f.input("B", tm.float32, [first, K, M])
    C = f.reduction("C", {i: N, j: M}, {b: first, k: K}, tm.sum, A[i, k, b] * B[b, k, j])
    f.outputs(C)
    text = tm.recipes.matmul(C, cpu=WIDE, sizes={"parts": parts, "threads": 2})
    assert "C.update.split(k, 384, k0, k1)\nC.update.rfactor(b, k0)" in text
    kernel = f.compile(threads=2)
    for rows, columns, terms in [(1, 1, 0), (7, 65, 33), (3, 70, 391)]:
        rng, several = np.random.default_rng(rows), first if isinstance(first, int) else 3
        a, w = (rng.integers(0, 4, x).astype(np.float32) for x in ((rows, terms, several), (several, terms, columns)))
        np.testing.assert_array_equal(kernel(a, w), np.einsum("ikb,bkj->ij", a, w))


def test_partial_results_share_the_loop_with_the_most_iterations() -> None:
    """Two heads outside of all blocks of terms would be partial results of two threads, however many there are."""
    for extents, loop in (((2, 4000), "k0"), ((100, 64), "k"), ((2, K), "k0")):
        heads, depth = extents
        f = tm.Function("heads", params=[N, M, K])
        A, B = f.input("A", tm.float32, [heads, N, depth]), f.input("B", tm.float32, [heads, depth, M])
        C = f.reduction("C", {i: N, j: M}, {b: heads, k: depth}, tm.sum, A[b, i, k] * B[b, k, j])
        f.outputs(C)
        text = tm.recipes.matmul(C, cpu=WIDE, sizes={"parts": 4})
        assert f"C.update.parallelize({loop}, combine=tm.PRIVATE, threads=4)" in text, text
        block = 100 if loop == "k" else 384
        assert f"allocate B_packed[(M + 63) // 64, {block}, 64]" in f.show("pseudocode"), "one block of one head"


#: The columns of one tile and a vector of the next: each number of vectors, full or with one lane more or less.
COLUMNS = [n for whole in range(0, 81, 16) for n in (whole - 1, whole, whole + 1) if n > 0]


def test_each_version_of_a_partial_tile_is_right() -> None:
    f, C, expected = plain(dtype=tm.float32)
    tm.recipes.matmul(C, cpu=WIDE)
    kernel = f.compile(threads=1)
    for rows in range(1, 8):
        for columns in COLUMNS:
            arrays = given(f, "ik", "kj", (rows, columns, 5))
            np.testing.assert_array_equal(kernel(**arrays), expected(**arrays))


def test_partial_tiles_are_clean_under_the_sanitizers() -> None:
    check_clean("tests.recipes.products_under_sanitizers")


def with_bias(left: str = "ik", right: str = "kj", dtype: tm.DType = tm.float32, into: tm.DType | None = None) -> Made:
    """A product, and max(product + bias, 0) of it, perhaps in another type."""
    f, C, expected = plain(left, right, dtype)
    batch = [b] if "b" in left else []
    bias = f.input("bias", dtype, [M])
    value = tm.maximum(C[(*batch, i, j)] + bias[j], 0)
    extents = {b: Q, i: N, j: M} if batch else {i: N, j: M}
    out = f.computation("out", extents, tm.cast(into, value) if into else value)
    f.outputs(out, replace=True)
    numpy = (into or dtype).numpy
    return f, out, lambda A, B, bias: np.maximum(expected(A, B) + bias, 0).astype(numpy)


@pytest.mark.parametrize(
    ("left", "right", "into", "cpu"),
    covering([("ik", "kj", None), ("ki", "jk", tm.float64), ("bik", "bkj", None), ("bik", "kj", None)], [TINY, WIDE]),
)
def test_what_reads_a_product_is_computed_in_its_tiles(cpu: Cpu, left: str, right: str, into: tm.DType | None) -> None:
    f, out, expected = with_bias(left, right, into=into)
    tm.recipes.matmul(out, cpu=cpu)
    kernel = f.compile(threads=2)
    for size in SIZES:
        arrays = given(f, left, right, size)
        arrays["bias"] = np.arange(size[1], dtype=np.float32) - 40
        np.testing.assert_array_equal(kernel(**arrays), expected(**arrays))


def test_a_product_is_added_in_place_to_what_an_array_held() -> None:
    f, C, expected = plain(dtype=tm.float32)
    held = f.input("held", tm.float32, [N, M])
    out = f.computation("out", {i: N, j: M}, 2 * held[i, j] + C[i, j])
    f.outputs(out, replace=True)
    out.store_in(held, [i, j])
    tm.recipes.matmul(out, cpu=TINY)
    kernel = f.compile(threads=2)
    for size in SIZES:
        arrays = given(f, "ik", "kj", size)
        before = np.ones(size[:2], np.float32)
        arrays["held"] = before.copy()
        kernel(**arrays)
        np.testing.assert_array_equal(arrays["held"], 2 * before + expected(arrays["A"], arrays["B"]))


@pytest.mark.parametrize("transposed", [False, True], ids=["rows", "columns"])
def test_panels_of_one_array_are_both_operands_of_a_product_of_its_rows_or_columns(transposed: bool) -> None:
    f = tm.Function("mm", params=[N, K])
    A = f.input("A", tm.float32, [K, N] if transposed else [N, K])
    left, right = (A[k, i], A[k, j]) if transposed else (A[i, k], A[j, k])
    block = {i: N, j: tm.min(i // 16 * 16 + 16, N)}  # whole tiles along the diagonal
    C = f.reduction("C", block, {k: K}, tm.sum, left * right)
    f.outputs(f.computation("lower", {i: N, j: i + 1}, C[i, j], shape=[N, N]))
    text = tm.recipes.matmul(C, cpu=TINY, sizes={"rows": 4, "columns": 16})
    assert "C_partial.update.cache" not in text
    kernel = f.compile(threads=2)
    for rows, terms in ((1, 1), (25, 3), (37, 400)):
        a = (
            np.random.default_rng(rows)
            .integers(0, 4, (terms, rows) if transposed else (rows, terms))
            .astype(np.float32)
        )
        found, expected = kernel(a), a.T @ a if transposed else a @ a.T
        np.testing.assert_array_equal(np.tril(found), np.tril(expected))


def test_its_text_makes_the_same_schedule_again() -> None:
    f, C, _ = plain()
    text = tm.recipes.matmul(C, cpu=WIDE)
    g, *_ = plain()
    exec(text, {"tm": tm, "f": g})
    assert list(map(str, g.commands)) == list(map(str, f.commands))
    assert len(f.commands) <= 20
    assert f.check().ok


def test_sizes_fit_registers_and_caches() -> None:
    _, C, _ = plain(dtype=tm.float32)
    assert Sizes.of(C, WIDE) == Sizes(terms=384, rows=6, columns=64, tiles=24, lanes=16)
    for cpu in (WIDE, NARROW):
        for dtype in (tm.float32, tm.float64, tm.int8):
            _, C, _ = plain(dtype=dtype)
            found, size = Sizes.of(C, cpu), dtype.bytes
            vectors = found.columns // found.lanes
            assert found.rows * vectors + vectors + 1 <= cpu.registers
            assert found.terms * found.columns * size <= cpu.second // 8
            assert found.terms * found.rows * found.tiles * size <= cpu.second // 4


@pytest.mark.parametrize(
    ("rows", "cores", "tiles"), [(1024, 1, 22), (1024, 2, 22), (1060, 2, 23), (144, 2, 12), (144, 8, 3), (1, 8, 1)]
)
def test_blocks_of_a_constant_number_of_rows_are_alike_for_all_cores(rows: int, cores: int, tiles: int) -> None:
    f = tm.Function("constant", params=[K])
    A, B = f.input("A", tm.float32, [rows, K]), f.input("B", tm.float32, [K, 17])
    C = f.reduction("C", {i: rows, j: 17}, {k: K}, tm.sum, A[i, k] * B[k, j])
    f.outputs(C)
    text = tm.recipes.matmul(C, cpu=replace(WIDE, cores=cores))
    assert f"C.split(i0, {tiles}, i2, i0)" in text
    blocks = -(-rows // (6 * tiles))
    assert blocks % cores == 0 or blocks == -(-rows // 6)
    assert f.check().ok


@pytest.mark.parametrize("columns", [2, 17, 64])
def test_columns_may_be_constants(columns: int) -> None:
    f = tm.Function("narrow", params=[N, K])
    A, B = f.input("A", tm.float32, [N, K]), f.input("B", tm.float32, [K, columns])
    C = f.reduction("C", {i: N, j: columns}, {k: K}, tm.sum, A[i, k] * B[k, j])
    f.outputs(C)
    tm.recipes.matmul(C, cpu=NARROW)
    kernel = f.compile(threads=1)
    for rows, terms in [(1, 0), (1, 1), (13, 130)]:
        a, b = (
            np.random.default_rng(1).integers(0, 4, s).astype(np.float32) for s in ((rows, terms), (terms, columns))
        )
        np.testing.assert_array_equal(kernel(a, b), a @ b)


@pytest.mark.parametrize(
    ("left", "columns", "copied"), [("ik", 17, False), ("ik", 64, False), ("ik", 65, True), ("ki", 17, True)]
)
def test_rows_that_one_tile_reads_are_not_copied(left: str, columns: int, copied: bool) -> None:
    f = tm.Function("narrow", params=[N, K])
    extents, iterators = {"i": N, "k": K}, {"i": i, "k": k}
    A = f.input("A", tm.float32, [extents[each] for each in left])
    B = f.input("B", tm.float32, [K, columns])
    C = f.reduction("C", {i: N, j: columns}, {k: K}, tm.sum, A[tuple(iterators[each] for each in left)] * B[k, j])
    f.outputs(C)
    text = tm.recipes.matmul(C, cpu=WIDE)
    assert "copy(B," in text and ("copy(A," in text) == copied


def test_sizes_that_are_given_are_not_made_alike() -> None:
    f = tm.Function("constant", params=[])
    A, B = f.input("A", tm.float32, [100, 9]), f.input("B", tm.float32, [9, 17])
    C = f.reduction("C", {i: 100, j: 17}, {k: 9}, tm.sum, A[i, k] * B[k, j])
    f.outputs(C)
    assert "C.split(i0, 5, i2, i0)" in tm.recipes.matmul(C, cpu=replace(WIDE, cores=2), sizes={"tiles": 5})
    a, b = (np.random.default_rng(0).integers(0, 4, shape).astype(np.float32) for shape in ((100, 9), (9, 17)))
    np.testing.assert_array_equal(f.compile(threads=2)(a, b), a @ b)


def refused(product: Any) -> str:
    with pytest.raises(ArgumentError) as error:
        tm.recipes.matmul(product)
    return str(error.value)


def test_what_is_no_matrix_product_is_refused_with_the_reason() -> None:
    f = tm.Function("other", params=[N, M, K])
    A, B = f.input("A", tm.float32, [N, K]), f.input("B", tm.float32, [K, M])
    v = f.input("v", tm.float32, [K])
    added = f.reduction("added", {i: N, j: M}, {k: K}, tm.sum, A[i, k] + B[k, j])
    assert "products of two reads" in refused(added)
    most = f.reduction("most", {i: N, j: M}, {k: K}, tm.max, A[i, k] * B[k, j])
    assert "not a sum" in refused(most)
    assert "reads 0 sums" in refused(f.computation("one", {i: N, k: K}, A[i, k] * 2))
    assert "no matrix product" in refused(f.reduction("vector", {i: N}, {k: K}, tm.sum, A[i, k] * v[k]))
    assert "different iterators" in refused(
        f.reduction("next", {i: N, j: M}, {k: K - 1}, tm.sum, A[i, k + 1] * B[k, j])
    )
    twice = refused(f.reduction("two", {i: N, j: M}, {k: K, b: 2}, tm.sum, A[i, k] * B[k, j]))
    assert "over k, b: it takes sums whose iterators are indices of both operands, and b is not one of" in twice
    square = f.input("square", tm.float32, [N, N])
    power = f.reduction("power", {i: N, j: N}, {k: N}, tm.sum, square[i, k] * square[k, j])
    assert "reads square as square[i, k] and as square[k, j]" in refused(power)
    two = f.computation("two_of", {i: N, j: M}, added[i, j] + most[i, j])
    assert "reads 2 sums" in refused(two)
    assert f.commands == ()


def test_what_the_batch_does_not_change_is_packed_once_for_all_of_it() -> None:
    f, C, _ = plain("bik", "kj")
    text = tm.recipes.matmul(C, cpu=TINY)
    assert "C.update.reorder(k0, b, i2, j0, i0, i1, j1)" in text
    assert "C.parallelize(b, i2)" in text
    packed = f.show("loops").splitlines()
    panel = next(n for n, line in enumerate(packed) if "B_packed" in line)
    assert not any("for b" in line for line in packed[next(n for n, x in enumerate(packed) if "for k0" in x) : panel])


def test_a_product_that_has_been_scheduled_is_refused() -> None:
    f, C, _ = plain()
    C.update.reorder(k, i, j)
    assert "scheduled already" in refused(C)
    assert len(f.commands) == 1


def test_a_refused_command_takes_all_back() -> None:
    f, C, _ = plain()
    C.init.vectorize(i, 4)
    with pytest.raises(tm.errors.TiramisuError):
        tm.recipes.matmul(C)
    assert len(f.commands) == 1

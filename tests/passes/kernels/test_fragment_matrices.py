"""Factors of tensor cores that a warp loads as matrices of shared memory: which ones, where, and beside NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tiramisu_py as tm
from tests.language.kernels import numbers, tensor_product
from tests.programs.gpu import tensor_products as tp
from tests.selection import some
from tiramisu_py import interpret
from tiramisu_py.algorithm.expressions import Binary, Expr, Iter
from tiramisu_py.algorithm.types import DType, float16, float32, int64
from tiramisu_py.interpret.devices.kernel_run import elements_of_matrix
from tiramisu_py.ir import Allocate, For, GpuIndex, Load, LoadMatrices, LoopFunction, Mma, Node, Ramp
from tiramisu_py.ir.arithmetic.linear import number
from tiramisu_py.ir.rewriting import Names, of_kind, walk
from tiramisu_py.ir.verify import verify
from tiramisu_py.passes.base import About
from tiramisu_py.passes.kernels.fragment_matrices import FragmentMatrices
from tiramisu_py.program.loops import Unroll
from tiramisu_py.program.storage import Memory

X, Y, C = GpuIndex("thread", 0), GpuIndex("thread", 1), Iter("c", int64)


def by(op: str, a: Expr, b: int) -> Expr:
    return Binary(op, a, number(b), int64)


def loads(function: LoopFunction) -> list[tuple[int, bool]]:
    """Of each instruction that loads matrices: how many, and whether they are transposed."""
    found = [node for kernel in function.gpus.kernels for node in of_kind(kernel.body, LoadMatrices)]
    return sorted((node.count, node.transposed) for node in found)


# -- schedules by hand


@pytest.mark.parametrize(
    ("kind", "expected"),
    some(
        [
            ("float16", [(4, False), (4, True)]),  # rows y and y + 8 of two groups of terms; two tiles of 8 columns
            ("bfloat16", [(4, False), (4, True)]),
            ("float16 in 8", [(2, False), (2, True)]),
            ("tf32", [(4, False)]),  # elements of 4 bytes cannot be transposed
        ],
        lambda each: each[0] in ("float16", "tf32"),
    ),
)
def test_factors_in_shared_memory_are_loaded_as_matrices(kind: str, expected: list[tuple[int, bool]]) -> None:
    function = tp.product(kind)[0].show("lowered")
    assert not list(verify(function))
    assert loads(function) == expected
    a, b = tp.numbers(kind, 16, 16, 32, seed=2)
    result = np.zeros((16, 16), np.float32)
    interpret.run(function, {"A": a.copy(), "B": b.copy(), "C": result}, {"M": 16, "N": 16, "K": 32})
    np.testing.assert_array_equal(result, tp.exact(a, b))


def test_factors_in_the_memory_of_the_gpu_are_loaded_one_by_one() -> None:
    assert loads(tp.product(shared=False)[0].show("lowered")) == []


def test_a_kernel_is_shown_with_its_matrices() -> None:
    assert "matrices with rows B_shared[" in str(tp.product()[0].show("lowered"))


# -- block programs


def test_rows_of_both_factors_of_a_block_program_are_swizzled_matrices() -> None:
    f, run = tensor_product()
    tm.recipes.blocks(run, on=tm.gpu(), num_warps=2)
    f.derive_transfers()
    text = next(text for name, text in f.source().items() if name.endswith(".cu"))
    assert text.count("TM_LOAD_MATRICES(false") == 2
    a, b = numbers(64, 20, dtype=np.float16), numbers(17, 20, dtype=np.float16)
    kernel = f.compile(device="simulator", sanitize=True)
    np.testing.assert_array_equal(kernel(a, b), a.astype(np.float32) @ b.astype(np.float32).T)


# -- one product


def product(
    left: Callable[[int], Expr], row: Expr = Y, *, columns: int = 16, swizzle: tuple[int, int] | None = None,
    dtype: DType = float16,
) -> Node:  # fmt: skip
    """Two tiles of one product: of `left` in shared memory thread (x, y) loads pairs at ``[row, left(k)]``."""
    parts = tuple(Load("a", (row, Ramp(left(k), 2)), dtype) for k in (0, 0, 8, 8))
    right = tuple(Load("g", (C, Ramp(by("*", X, 2), 2)), float16) for _ in range(2))
    sums = tuple(by("+", C, k) for k in range(4))
    loop = For("c", number(0), number(2), Mma("sums", sums, parts, right, "m16n8k16", "s"), tag=Unroll())
    return Allocate("a", (number(8), number(columns)), dtype, loop, memory=Memory.SHARED, swizzle=swizzle)


def passed(node: Node) -> list[LoadMatrices]:
    return [*of_kind(FragmentMatrices().apply(node, About(Names({"a", "g", "sums"}), threads=(4, 8, 1))), LoadMatrices)]


def pairs(k: int) -> Expr:
    return by("+", by("*", X, 2), k)


def test_matrices_are_loaded_before_a_loop_that_needs_the_same_ones_each_time() -> None:
    changed = FragmentMatrices().apply(product(pairs), About(Names(set()), threads=(4, 8, 1)))
    assert [type(node).__name__ for node in walk(changed)].count("For") == 1
    (loop,) = of_kind(changed, For)
    assert not [*of_kind(loop, LoadMatrices)]
    (load,) = of_kind(changed, LoadMatrices)
    assert str(load.row) == "a[4 * (threadIdx.y % 2) + threadIdx.x, threadIdx.y // 4 * 8 : threadIdx.y // 4 * 8 + 8]"


@pytest.mark.parametrize(
    "node",
    [
        product(pairs, columns=20),  # rows that begin at 40 bytes
        product(lambda k: by("+", pairs(k), 4)),  # matrices that begin in the middle of 16 bytes
        product(pairs, swizzle=(4, 4)),  # 8 bytes change places with others
        product(lambda k: by("+", X, k)),  # pairs that overlap
        product(lambda k: by("+", by("*", X, 4), k)),  # every second pair
        product(lambda k: pairs(k) + Y * 2),  # another column in each row
        product(pairs, row=X),  # a row for each x
        product(lambda k: pairs(k) if k == 0 else C * 8 + X * 2),  # a distance that differs between iterations
    ],
)
def test_what_is_no_matrix_is_loaded_one_by_one(node: Node) -> None:
    assert passed(node) == []


def test_groups_of_sixteen_bytes_may_change_places() -> None:
    assert len(passed(product(pairs, swizzle=(2, 8)))) == 1


@pytest.mark.parametrize(("dtype", "transposed"), [(float16, False), (float16, True), (float32, False)])
def test_a_thread_has_four_bytes_of_a_matrix(dtype: DType, transposed: bool) -> None:
    columns = 16 // dtype.bytes
    rows = np.arange(8 * columns).reshape(8, columns)
    for thread in range(32):
        y, x = divmod(thread, 4)
        of = rows.T if transposed else rows
        expected = of[y, 2 * x : 2 * x + 2] if dtype == float16 else of[y, x : x + 1]
        np.testing.assert_array_equal(elements_of_matrix(rows, thread, transposed=transposed), expected)

"""Products on tensor cores, run by the interpreter beside NumPy: what a warp multiplies, and what stays loops."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tests.programs.gpu import tensor_products as tp
from tests.selection import some
from tiramisu_py import interpret
from tiramisu_py.ir import For, If, LoopFunction, Mma
from tiramisu_py.ir.rewriting import walk
from tiramisu_py.ir.verify import verify


@functools.cache
def loops(kind: str = "float16", warps: int = 1) -> LoopFunction:
    """The loops that are emitted; they keep the rules of loops."""
    found = tp.product(kind, warps, shared=False)[0].show("lowered")
    assert not list(verify(found))
    return found


def run(function: LoopFunction, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product as the interpreter computes it."""
    result = np.zeros((a.shape[0], b.shape[1]), np.float32)
    sizes = {"M": a.shape[0], "N": b.shape[1], "K": a.shape[1]}
    interpret.run(function, {"A": a.copy(), "B": b.copy(), "C": result}, sizes)
    return result


@pytest.mark.parametrize("kind", some(tp.KINDS, lambda each: each == "bfloat16"))
def test_sums_of_whole_numbers_are_exact(kind):
    a, b = tp.numbers(kind, 16, 16, 16)
    np.testing.assert_array_equal(run(loops(kind), a, b), tp.exact(a, b), strict=True)


def test_blocks_that_are_not_full_are_loops():
    a, b = tp.numbers("float16", 3, 17, 2)
    np.testing.assert_array_equal(run(loops(), a, b), tp.exact(a, b), strict=True)


@pytest.mark.slow
def test_each_warp_multiplies_its_own_rows():
    a, b = tp.numbers("float16", 32, 16, 16, seed=1)
    np.testing.assert_array_equal(run(loops(warps=2), a, b), tp.exact(a, b), strict=True)


def test_the_product_is_where_no_thread_is_left_out():
    (kernel,) = loops().gpus.kernels
    tests = [each for each in walk(kernel.body) if isinstance(each, If) and any(map(is_product, walk(each.then)))]
    assert len(tests) == 1
    assert str(tests[0].condition).count("<=") == 3  # rows, columns and terms of the block
    assert tests[0].otherwise is not None
    assert not any(map(is_product, walk(tests[0].otherwise)))
    assert any(isinstance(each, For) for each in walk(tests[0].otherwise))


def is_product(node: object) -> bool:
    return isinstance(node, Mma)


def test_tf32_leaves_out_bits_of_factors():
    a, b = np.zeros((16, 16), np.float32), np.zeros((16, 16), np.float32)
    a[:, 0], b[0] = 1 + 2.0**-10 + 2.0**-11, 1
    assert (run(loops("tf32"), a, b) == np.float32(1 + 2.0**-10)).all()


@pytest.mark.parametrize(
    ("kind", "lost"), [("float16", "terms are added"), ("tf32", "factors keep 10 of their 23 bits")]
)
def test_the_report_names_the_bits_that_are_given_up(kind, lost):
    report = tp.product(kind, shared=False)[0].check()
    assert report.ok
    assert str(report.determinism["total"]) == "run_to_run"
    assert report.bits.startswith("bits given up by total.update.tensorize(h, p, k2, ")
    assert lost in report.bits


def test_a_kernel_is_shown_with_its_products():
    assert "m16n8k16 of A[" in str(loops())


@pytest.mark.slow
def test_products_of_factors_in_shared_memory_are_right():
    function = tp.product()[0].show("lowered")
    assert any(map(is_product, walk(function.gpus.kernels[0].body)))
    a, b = tp.numbers("float16", 16, 16, 32, seed=2)
    np.testing.assert_array_equal(run(function, a, b), tp.exact(a, b))

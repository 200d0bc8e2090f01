"""Conditions around statements at which threads meet: those of a block, and those of a warp."""

from __future__ import annotations

import pytest

from tiramisu_py.algorithm.expressions import Binary, Const, Expr
from tiramisu_py.algorithm.types import bool_, float16, float32, int64
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import Barrier, GpuIndex, If, Let, Load, LoadMatrices, Mma, Node
from tiramisu_py.ir.uniform_control import check_uniform


def product() -> Mma:
    zero = Const(0, int64)
    part = Load("a", (zero,), float16)
    return Mma("sums", (zero,) * 4, (part,) * 4, (part,) * 2, "m16n8k16", "s")


def under(number: Expr, node: Node) -> If:
    return If(Binary("<", number, Const(1, int64), bool_), node)


def thread(axis: int) -> GpuIndex:
    return GpuIndex("thread", axis)


@pytest.mark.parametrize("number", [thread(2), GpuIndex("block", 0)], ids=["warp", "block"])
def test_a_warp_multiplies_where_all_of_its_threads_do(number: Expr) -> None:
    check_uniform(under(number, product()), "k")
    check_uniform(Let("w", number, under(number, product())), "k")


def test_threads_of_a_warp_are_not_left_out_of_its_loads() -> None:
    zero = Const(0, int64)
    load = LoadMatrices("parts", zero, Load("a", (zero,), float16), 1, False, "s")
    check_uniform(under(thread(2), load), "k")
    with pytest.raises(CompilerDefect, match="a condition that differs between threads of a warp"):
        check_uniform(under(thread(0), load), "k")


@pytest.mark.parametrize("number", [thread(0), thread(1), Load("a", (thread(2),), float32)], ids=["x", "y", "loaded"])
def test_threads_of_a_warp_are_not_left_out_of_its_product(number: Expr) -> None:
    with pytest.raises(CompilerDefect, match="a condition that differs between threads of a warp"):
        check_uniform(under(number, product()), "k")


def test_a_barrier_is_for_all_warps() -> None:
    with pytest.raises(CompilerDefect, match="a condition that differs between threads of a block"):
        check_uniform(under(thread(2), Barrier("s")), "k")

"""Stores past the caches: whole cache lines, and parts of one at a time; parts of several in turn are as usual."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.algorithm.expressions import constant
from tiramisu_py.algorithm.traversal import iterators
from tiramisu_py.ir import For, Ramp, Store
from tiramisu_py.ir.arithmetic.linear import linear
from tiramisu_py.ir.rewriting import walk

(R, C), (p, r, c, c0, c1) = tm.params("R C"), tm.iters("p r c c0 c1")


def planes(lanes: int, count: int = 3, along: str = "planes inside") -> tm.Function:
    """Planes of a picture, doubled, past the caches: all planes for each vector, or one plane after another."""
    f = tm.Function("doubled", params=[R, C])
    x = f.input("x", tm.float32, [count, R, C])
    y = f.computation("y", {p: count, r: R, c: C}, 2 * x[p, r, c])
    f.outputs(y)
    y.split(c, lanes, c0, c1)
    if along == "planes inside":
        y.reorder(r, c0, p, c1)
        y.unroll(p)
    if along == "rows inside":
        y.reorder(p, c0, r, c1)
    y.vectorize(c1, lanes)
    y.store_nontemporal(above=0)
    return f


def streams(f: tm.Function, vector_bytes: int) -> bool:
    """Whether stores of vectors go past the caches, but in tiles that are not full."""
    stores = (node for node in walk(f.show("lowered", vector_bytes).body) if isinstance(node, Store))
    return any(
        node.nontemporal and isinstance(node.indices[-1], Ramp) and "c1" not in iterators(node.indices[-1])
        for node in stores
    )


@pytest.mark.parametrize(
    ("lanes", "count", "along", "past"),
    [
        (8, 3, "planes inside", True),
        (8, 5, "planes inside", False),
        (16, 3, "planes inside", True),
        (32, 3, "planes inside", True),
        (8, 1, "planes inside", True),
        (8, 3, "rows last", True),
        (8, 3, "rows inside", False),
        (16, 3, "rows inside", True),
        (4, 1, "planes inside", True),
        (4, 2, "planes inside", False),
    ],
)
def test_parts_of_several_cache_lines_in_turn_are_stored_as_usual(
    lanes: int, count: int, along: str, past: bool
) -> None:
    f = planes(lanes, count, along)
    text = str(f.show("lowered", 32))
    assert streams(f, 32) is past
    assert ("stored as usual, not past the caches" in text) is not past


def test_the_remark_says_which_parts_and_what_stores_whole_lines() -> None:
    assert planes(8).show("remarks") == planes(16).show("remarks") == ()
    assert planes(8, 5).show("remarks") == (
        "y: stored as usual, not past the caches: parts of 32 bytes of 5 cache lines in turn; vectors of 16 are lines",
    )
    (said,) = planes(8, along="rows inside").show("remarks")
    assert said.endswith("parts of 32 bytes of a cache line of each row in turn; vectors of 16 are lines")


def test_vectors_that_are_two_registers_are_one_place() -> None:
    assert streams(planes(16), 32)
    assert streams(planes(16), 16)


def test_iterations_that_fill_lines_are_taken_together_and_store_line_by_line() -> None:
    f = planes(8)
    (pairs,) = (node for node in walk(f.show("lowered", 32).body) if isinstance(node, For) and node.step == 2)
    stores = [node for node in walk(pairs) if isinstance(node, Store) and node.nontemporal]
    assert [str(constant(store.indices[0])) for store in stores] == ["0", "0", "1", "1", "2", "2"]
    starts = [linear(store.indices[-1].base).constant for store in stores]
    assert starts == [0, 8] * 3


@pytest.mark.parametrize("columns", [1, 7, 8, 15, 16, 23, 24, 31, 32, 48, 61, 64])
@pytest.mark.parametrize("offset", [0, 4, 16, 32])
def test_rows_may_begin_and_end_in_the_midst_of_lines(columns: int, offset: int, kernel: tm.Kernel) -> None:
    x = np.random.default_rng(columns).random((3, 5, columns), dtype=np.float32)
    memory = np.full(x.nbytes + 256, 0xAB, np.uint8)
    first = -memory.ctypes.data % 64 + 64 + offset
    y = memory[first : first + x.nbytes].view(np.float32).reshape(x.shape)
    kernel(x, y=y)
    assert np.array_equal(y, 2 * x)
    assert (memory[:first] == 0xAB).all() and (memory[first + x.nbytes :] == 0xAB).all()


@pytest.fixture(scope="module")
def kernel() -> tm.Kernel:
    return planes(8).compile()


def test_what_an_iteration_hands_to_the_next_one_stays_in_registers() -> None:
    """A window has the registers in which results would wait, and results that are read again are stored at once."""
    f = tm.Function("smoothed", params=[R, C])
    x = f.input("x", tm.float32, [R, C + 2])
    half = f.computation("half", {r: R, c: C + 2}, x[r, c] / 2)
    y = f.computation("y", {r: R, c: C}, half[r, c] + half[r, c + 2])
    f.outputs(y)
    r0, r1 = tm.iters("r0 r1")
    y.tile(r, c, 2, 8, r0, c0, r1, c1)
    y.unroll(r1)
    y.vectorize(c1, 8, remainder="mask")
    y.store_nontemporal(above=0)
    half.compute_at(y, c0)
    half.slide(c0, c, 8)
    half.store_in(tm.REGISTER)
    half.unroll(r)
    half.vectorize(c, 8, remainder="mask")
    assert any("parts of 32 bytes of 2 cache lines in turn" in remark for remark in f.show("remarks"))
    given = np.random.default_rng(0).random((5, 43), dtype=np.float32)
    assert np.array_equal(f.compile()(given), given[:, :-2] / 2 + given[:, 2:] / 2)


@pytest.mark.parametrize("along", ["planes inside", "rows inside"])
@pytest.mark.parametrize("lanes", [8, 16])
def test_values_are_those_of_the_algorithm_however_they_are_stored(lanes: int, along: str) -> None:
    x = np.random.default_rng(lanes).random((3, 5, 48), dtype=np.float32)
    f = planes(lanes, 3, along)
    assert np.array_equal(f.compile()(x), 2 * x)

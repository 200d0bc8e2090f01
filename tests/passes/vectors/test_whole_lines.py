"""Stores past the caches: whole cache lines, and parts of one at a time; parts of several in turn are as usual."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.algorithm.traversal import iterators
from tiramisu_py.ir import Ramp, Store
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
        (8, 3, "planes inside", False),
        (16, 3, "planes inside", True),
        (32, 3, "planes inside", True),
        (8, 1, "planes inside", True),
        (8, 3, "rows last", True),
        (8, 3, "rows inside", False),
        (16, 3, "rows inside", True),
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
    assert planes(8).show("remarks") == (
        "y: stored as usual, not past the caches: parts of 32 bytes of 3 cache lines in turn; vectors of 16 are lines",
    )
    assert planes(16).show("remarks") == ()
    (said,) = planes(8, along="rows inside").show("remarks")
    assert said.endswith("parts of 32 bytes of a cache line of each row in turn; vectors of 16 are lines")


def test_vectors_that_are_two_registers_are_one_place() -> None:
    assert streams(planes(16), 32)
    assert streams(planes(16), 16)


@pytest.mark.parametrize("along", ["planes inside", "rows inside"])
@pytest.mark.parametrize("lanes", [8, 16])
def test_values_are_those_of_the_algorithm_however_they_are_stored(lanes: int, along: str) -> None:
    x = np.random.default_rng(lanes).random((3, 5, 48), dtype=np.float32)
    f = planes(lanes, 3, along)
    assert np.array_equal(f.compile()(x), 2 * x)

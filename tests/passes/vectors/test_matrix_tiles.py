"""Products in tiles of cores: run by the interpreter, beside NumPy; what stays in registers, and what stays loops."""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs import matrix_tiles as mt
from tests.programs.matrix_tiles import i0, k0
from tiramisu_py import interpret
from tiramisu_py.ir import For, LoadTile, LoopFunction, MultiplyTiles, Node, StoreTile, Tiles
from tiramisu_py.ir.rewriting import walk, with_children
from tiramisu_py.ir.verify import verify

BYTES = list(itertools.product((tm.uint8, tm.int8), repeat=2))


def optimised(f: tm.Function) -> LoopFunction:
    """The loops that are emitted; they keep the rules of loops."""
    found = f.show("lowered", until="share_memory")
    assert not list(verify(found))
    return found


@functools.cache
def loops(first: tm.DType = tm.uint8, second: tm.DType = tm.int8, across: int = 2) -> LoopFunction:
    """The loops of a product."""
    total = tm.float32 if first.is_float else tm.int32
    return optimised(mt.product(first, second, total, across=across)[0])


def run(function: LoopFunction, a: mt.Array, b: mt.Array, dtype: tm.DType) -> mt.Array:
    """The product as the interpreter computes it."""
    result = np.zeros((a.shape[0], b.shape[1]), dtype.numpy)
    sizes = {"N": a.shape[0], "M": b.shape[1], "K": a.shape[1]}
    interpret.run(function, {"A": a.copy(), "B": b.copy(), "C": result}, sizes)
    return result


def of_kind(node: Node, kind: type) -> list[Node]:
    return [each for each in walk(node) if isinstance(each, kind)]


@pytest.mark.parametrize(("first", "second"), BYTES, ids=str)
def test_products_of_bytes_are_exact(first, second):
    a, b = mt.drawn(first, (32, 64), 1), mt.drawn(second, (64, 16), 2)
    np.testing.assert_array_equal(run(loops(first, second, 1), a, b, tm.int32), mt.multiplied(a, b), strict=True)


@pytest.mark.parametrize("size", [(1, 1, 1), (16, 17, 66), (17, 16, 3)], ids=str)
def test_what_fills_no_tile_stays_loops(size):
    n, m, terms = size
    a, b = mt.drawn(tm.uint8, (n, terms), 3), mt.drawn(tm.int8, (terms, m), 4)
    np.testing.assert_array_equal(run(loops(across=1), a, b, tm.int32), mt.multiplied(a, b), strict=True)


def test_sums_stay_in_registers_around_the_loop_over_terms_and_factors_are_loaded_once():
    around = [each for each in walk(loops().body) if isinstance(each, For) and of_kind(each.body, MultiplyTiles)]
    full = [loop for loop in around if loop.variable == "k0" and not of_kind(loop, StoreTile)]
    assert full
    for loop in full:
        assert len(of_kind(loop, MultiplyTiles)) == 4
        assert len(of_kind(loop, LoadTile)) == 4  # two tiles of A, two of B
        assert {each.buffer for each in of_kind(loop, LoadTile)} == {"A", "panels"}


def test_more_sums_than_registers_are_loaded_for_each_product():
    nine = [
        each for each in walk(loops(across=3).body) if isinstance(each, For) and len(of_kind(each, MultiplyTiles)) == 9
    ]
    assert nine
    assert all(of_kind(loop, StoreTile) for loop in nine)


def test_each_thread_has_tiles_of_its_own():
    f, C = mt.product()
    C.update.parallelize(i0)
    function = optimised(f)
    (loop,) = [each for each in walk(function.body) if isinstance(each, For) and each.tag is not None]
    assert isinstance(loop.body, Tiles)
    a, b = mt.drawn(tm.uint8, (64, 64), 5), mt.drawn(tm.int8, (64, 32), 6)
    np.testing.assert_array_equal(run(function, a, b, tm.int32), mt.multiplied(a, b))


def test_private_sums_of_threads_are_in_tiles():
    f, C = mt.product()
    C.update.reorder(k0, i0).parallelize(k0, combine=tm.PRIVATE)
    assert f.check().ok
    function = optimised(f)
    assert of_kind(function.body, MultiplyTiles)
    a, b = mt.drawn(tm.uint8, (32, 128), 5), mt.drawn(tm.int8, (128, 32), 6)
    np.testing.assert_array_equal(run(function, a, b, tm.int32), mt.multiplied(a, b))


def test_products_of_bfloat16_give_up_bits_and_say_which():
    f, _ = mt.product(tm.bfloat16, tm.bfloat16, tm.float32)
    report = f.check()
    assert report.bits == (
        "bits given up by C.update.tensorize(i3, j3, k1, 'amx'): it changes the order in which the terms of C are "
        "combined (run_to_run: amx: even and odd terms are added apart, and numbers below 2**-126 count as zero)"
    )
    a, b = mt.drawn(tm.bfloat16, (32, 64), 7), mt.drawn(tm.bfloat16, (64, 32), 8)
    found = run(loops(tm.bfloat16, tm.bfloat16), a, b, tm.float32)
    np.testing.assert_allclose(found, mt.multiplied(a, b), rtol=1e-4, atol=1e-4)
    with pytest.raises(tm.ArgumentError, match="adds the terms of C in its own way, even and odd"):
        f.evaluate(a, b, as_scheduled=True)


def test_even_and_odd_terms_are_added_apart():
    """16777216 + 1 is 16777216 in float32: where the ones are among the other terms, they are not lost."""
    function = loops(tm.bfloat16, tm.bfloat16, 1)
    a, b = np.zeros((16, 32), tm.bfloat16.numpy), np.ones((32, 16), tm.bfloat16.numpy)
    a[:, 0], a[:, 1:4:2] = 2.0**24, 1
    assert (run(function, a, b, tm.float32) == 2.0**24 + 2).all()
    a[:, 1:4:2], a[:, 2:6:2] = 0, 1
    assert (run(function, a, b, tm.float32) == 2.0**24).all()


def test_numbers_near_zero_are_zero_in_tiles():
    function = loops(tm.bfloat16, tm.bfloat16, 1)
    a = np.full((16, 32), 2.0**-70, tm.bfloat16.numpy)
    b = np.full((32, 16), 2.0**-60, tm.bfloat16.numpy)
    assert (run(function, a, b, tm.float32) == 0).all()
    assert (mt.multiplied(a, b) > 0).all()


def test_the_loops_are_shown_as_rows_columns_and_terms():
    f, _ = mt.product(across=1)
    assert "rows of amx" in f.show("pseudocode")
    text = str(f.show("lowered", until="matrix_tiles"))
    assert "with tiles:" in text
    assert "tile 0 += tile 1 * tile 2" in text


def test_tiles_are_those_of_a_thread():
    bare = replace(loops(across=1), body=without_tiles(loops(across=1).body))
    a, b = mt.drawn(tm.uint8, (16, 64), 1), mt.drawn(tm.int8, (64, 16), 2)
    with pytest.raises(interpret.InterpretError, match="uses tile 0, and its thread has none there"):
        run(bare, a, b, tm.int32)


def without_tiles(node: Node) -> Node:
    """A statement in which no thread has tiles."""
    return node.body if isinstance(node, Tiles) else with_children(node, without_tiles)

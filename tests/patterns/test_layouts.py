"""Layouts beside NumPy: tables, packed blocks, known patterns, and a proven program that uses the tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tiramisu_py as tm
from tiramisu_py.patterns import BlockLayout, causal, fixed, local, longformer, strided

RANDOM = np.random.default_rng(0)


def drawn(*shape: int) -> npt.NDArray[Any]:
    return RANDOM.random(shape) < 0.3


@pytest.mark.parametrize("shape", [(1, 1), (5, 9), (3, 7, 4), (2, 0, 3)])
def test_tables_say_where_each_block_is(shape: tuple[int, ...]) -> None:
    mask = drawn(*shape)
    layout = BlockLayout(mask, block=2)
    tables = layout.tables()
    layers = mask if mask.ndim == 3 else mask[None]
    heads, rows, columns = layers.shape
    listed = [(h, i, j) for h in range(heads) for i in range(rows) for j in range(columns) if layers[h, i, j]]
    assert list(zip(*(tables[name].tolist() for name in ("head", "row", "column")), strict=True)) == listed
    assert (layout.count, layout.heads) == (len(listed), heads)
    for number in range(heads * rows):
        begin, end = tables["start"][number : number + 2]
        assert [(h, i) for h, i, _ in listed[begin:end]] == [divmod(number, rows)] * (end - begin)
    turned = [listed[k] for k in tables["order"]]
    assert turned == sorted(listed, key=lambda block: (block[0], block[2], block[1]))
    for number in range(heads * columns):
        begin, end = tables["start_of_column"][number : number + 2]
        assert [(h, j) for h, _, j in turned[begin:end]] == [divmod(number, columns)] * (end - begin)
    assert all(array.dtype == np.int32 for array in tables.values())


@pytest.mark.parametrize("shape", [(4, 6), (3, 2, 5)])
def test_packed_blocks_are_those_of_the_matrix(shape: tuple[int, ...]) -> None:
    layout = BlockLayout(drawn(*shape).astype(int), block=3)
    matrix = RANDOM.random((*shape[:-2], shape[-2] * 3, shape[-1] * 3))
    packed = layout.pack(matrix)
    assert packed.shape == (layout.count, 3, 3)
    np.testing.assert_array_equal(layout.unpack(packed), np.where(layout.elements(), matrix, 0))
    assert layout.elements().sum() == layout.count * 9
    assert np.isinf(layout.unpack(packed, fill=-np.inf)).sum() == layout.elements().size - layout.count * 9


def by_hand(kind: str, i: int, j: int) -> bool:
    match kind:
        case "causal":
            return j <= i
        case "local":
            return i // 3 == j // 3
        case "strided":
            return j <= i and (i - j < 4 or (i - j) % 4 == 0)
        case "fixed":
            return j <= i and (i // 4 == j // 4 or j % 4 in (2, 3))
        case _:
            return abs(i - j) <= 2 or i in (0, 5) or j in (0, 5)


@pytest.mark.parametrize(
    ("kind", "made"),
    [
        ("causal", causal(13)),
        ("local", local(13, 3)),
        ("strided", strided(13, 4)),
        ("fixed", fixed(13, 4, last=2)),
        ("longformer", longformer(13, 2, [0, 5])),
    ],
)
def test_known_patterns_are_what_their_papers_say(kind: str, made: BlockLayout) -> None:
    expected = [[by_hand(kind, i, j) for j in range(13)] for i in range(13)]
    np.testing.assert_array_equal(made.mask, expected)
    assert made.block == 16 and made.density == np.mean(expected)


def test_layouts_are_combined_like_sets() -> None:
    both = local(8, 4) & causal(8)
    np.testing.assert_array_equal(both.mask, local(8, 4).mask & causal(8).mask)
    assert (local(8, 4) | causal(8)) == (causal(8) | local(8, 4)) and hash(both) == hash(causal(8) & local(8, 4))
    assert "36 blocks of 16 x 16" in repr(causal(8))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: BlockLayout([[0, 1], [2, 0]]), r"mask\[1, 0\] is 2: give zeros and ones"),
        (lambda: BlockLayout([[0.5]]), r"mask\[0, 0\] is 0.5"),
        (lambda: BlockLayout([["a"]]), "elements of type <U1"),
        (lambda: BlockLayout([1, 0]), "mask has 1 dimensions"),
        (lambda: BlockLayout([[1]], block=0), "block=0"),
        (lambda: causal(4).segments(0), "most=0"),
        (lambda: causal(4).superblocks((2, 4, 1)), r"sizes=\(2, 4, 1\): give decreasing"),
        (lambda: causal(4).superblocks((4, 2)), "end with 1"),
        (lambda: causal(4).pack(np.zeros((3, 3))), r"matrix has the shape \(3, 3\): this layout is of \(64, 64\)"),
        (lambda: causal(4).unpack(np.zeros((3, 3))), "values has the shape"),
        (lambda: causal(4) & causal(5), "differ in their form"),
        (lambda: causal(4) | [[1]], r"\[\[1\]\] is no layout"),
        (lambda: causal(0), "blocks=0"),
        (lambda: fixed(8, 2, last=3), "last=3: a group has 2 columns"),
        (lambda: longformer(8, 1, [8]), "globals has 8: give rows from 0 to 7"),
        (lambda: longformer(8, -1), "window=-1"),
    ],
)
def test_what_is_no_pattern_is_refused_with_its_name(call: Callable[[], object], words: str) -> None:
    with pytest.raises(tm.ArgumentError, match=words):
        call()


def test_a_product_with_the_blocks_is_proven_from_the_facts_and_right() -> None:
    R, C, B = tm.params("R C B")
    r, i, j, k, p = tm.iters("r i j k p")
    f = tm.Function("dsd", params=[R, C, B])
    start = f.input("start", tm.int32, [R + 1], values=(0, B + 1), monotone=True)
    column = f.input("column", tm.int32, [B], values=(0, C))
    value, v = f.input("value", tm.int32, [B, 4, 4]), f.input("v", tm.int32, [C, 4, 8])
    out = f.reduction(
        "out", {r: R, i: 4, j: 8}, over={p: (start[r], start[r + 1]), k: 4}, op=tm.sum,
        expr=value[p, i, k] * v[column[p], k, j],
    )  # fmt: skip
    f.outputs(out)
    out.parallelize(r)
    assert f.check().ok
    layout = causal(6, block=4) & longformer(6, 1, [0], block=4)
    matrix, dense = RANDOM.integers(-9, 9, (24, 24)).astype(np.int32), RANDOM.integers(-9, 9, (24, 8)).astype(np.int32)
    tables = layout.tables()
    found = f.compile()(tables["start"], tables["column"], layout.pack(matrix), dense.reshape(6, 4, 8))
    expected = np.where(layout.elements(), matrix, 0) @ dense
    np.testing.assert_array_equal(np.asarray(found).reshape(24, 8), expected)

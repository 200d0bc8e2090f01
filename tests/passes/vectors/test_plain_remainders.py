"""What unrolled vector loops leave: many short loops, which compilers take as they are; fewer copies of whole loops."""

from __future__ import annotations

from functools import cache

import numpy as np

import tiramisu_py as tm
from tiramisu_py.ir import For
from tiramisu_py.ir.rewriting import walk
from tiramisu_py.passes.loops.unroll import MOST_LOOPS

B, H, W = tm.params("B H W")
b, i, b0, b1, y, x, m, n, y0, y1, x0, x1 = tm.iters("b i b0 b1 y x m n y0 y1 x0 x1")


@cache
def network(count: int) -> tm.Function:
    """Columns of values sorted by exchanges (Batcher's bitonic network), eight columns in a vector."""
    f = tm.Function("network", params=[B])
    values: tm.Input | tm.Computation = f.input("x", tm.float32, [count, B])
    stages: list[tm.Computation] = []
    for run in (2**k for k in range(1, count.bit_length())):
        for apart in (2**k for k in range(run.bit_length() - 2, -1, -1)):
            source, grows = values, (i // run) % 2 == 0
            least, most = tm.minimum(source[i, b], source[i + apart, b]), tm.maximum(source[i, b], source[i + apart, b])
            less, more = tm.minimum(source[i - apart, b], source[i, b]), tm.maximum(source[i - apart, b], source[i, b])
            exchanged = tm.select((i // apart) % 2 == 0, tm.select(grows, least, most), tm.select(grows, more, less))
            values = f.computation(f"s{run}_{apart}", {i: count, b: B}, exchanged)
            stages.append(values)
    f.outputs(stages[-1])
    for stage in stages:
        stage.split(b, 8, b0, b1)
        stage.reorder(b0, i, b1)
        stage.vectorize(b1, 8)
        stage.unroll(i)
    for stage in stages[:-1]:
        stage.compute_at(stages[-1], b0)
    return f


def windows() -> tm.Function:
    """The largest of 3 x 3 values, in tiles of 4 rows."""
    f = tm.Function("windows", params=[H, W])
    a = f.input("a", tm.float32, [H + 2, W + 2])
    o = f.reduction("o", {y: H, x: W}, {m: 3, n: 3}, tm.max, a[y + m, x + n])
    f.outputs(o)
    o.update.tile(y, x, 4, 32, y0, x0, y1, x1)
    o.update.reorder(y0, x0, m, n, y1, x1)
    o.update.vectorize(x1, 8)
    for loop in (m, n, y1):
        o.update.unroll(loop)
    return f


def remainders(f: tm.Function) -> list[For]:
    return [node for node in walk(f.show("lowered").body) if isinstance(node, For) and node.left]


def test_a_network_sorts_in_full_vectors_and_what_they_leave() -> None:
    kernel = network(8).compile()
    for columns in (1, 7, 8, 9, 20):
        values = np.random.default_rng(columns).random((8, columns), dtype=np.float32)
        np.testing.assert_array_equal(kernel(values), np.sort(values, axis=0))


def test_many_remainders_are_loops_of_few_iterations() -> None:
    f = network(8)
    left = remainders(f)
    assert len(left) > 16 and all(loop.few for loop in left)
    assert f.source()["network.c"].count("TM_IN_TURN;") == len(left)


def test_few_remainders_are_left_to_the_compiler() -> None:
    f = tm.Function("twice", params=[W])
    a = f.input("a", tm.float32, [W])
    o = f.computation("o", {x: W}, a[x] * 2)
    f.outputs(o)
    o.vectorize(x, 8)
    (left,) = remainders(f)
    assert not left.few and "TM_IN_TURN" not in f.source()["twice.c"].partition("int twice(")[2]


def test_partial_tiles_repeat_few_loops() -> None:
    assert 0 < len(remainders(windows())) <= MOST_LOOPS < 3 * 3 * 4


def test_windows_are_those_of_numpy() -> None:
    kernel = windows().compile()
    for h, w in ((1, 1), (4, 32), (5, 37), (3, 31), (9, 65)):
        a = np.random.default_rng(w).random((h + 2, w + 2), dtype=np.float32)
        expected = np.lib.stride_tricks.sliding_window_view(a, (3, 3)).max(axis=(2, 3))
        np.testing.assert_array_equal(kernel(a), expected)

"""Which dimensions of an array on a GPU are cut, and to what."""

from __future__ import annotations

import pytest

import tiramisu_py as tm
from tiramisu_py.ir import Allocate, LoopFunction
from tiramisu_py.ir.rewriting import walk

N, M, G, K = tm.params("N M G K")
i, j, i0, i1 = tm.iters("i j i0 i1")


def _extents(function: LoopFunction) -> dict[str, list[str]]:
    """The extents of the arrays on GPUs."""
    nodes = (node for node in walk(function.body) if isinstance(node, Allocate) and node.device is not None)
    return {node.buffer: [str(extent) for extent in node.extents] for node in nodes}


def _rows(
    low: tm.Expr | int, high: tm.Expr | int, whole: tm.Expr | int, shift: int = 0, assume: str = "", **memory: object
) -> tm.Function:
    """A GPU doubles the rows from `low` to `high` of an array of `whole` rows."""
    f = tm.Function("rows", params=[N, M, G, K], assume=assume or None)
    a = f.input("a", tm.int32, [whole, M], **memory)
    o = f.computation("o", {i: (low, high), j: M}, 2 * a[i + shift, j], shape=[whole, M])
    f.outputs(o)
    o.split(j, 32, i0, i1)
    o.tag_gpu(blocks=[i, i0], threads=[i1])
    f.derive_transfers()
    return f


@pytest.mark.parametrize(
    ("low", "high", "whole", "rows"),
    [
        (0, N, N, "N"),
        (1, N - 1, N, "N"),  # a border is not worth an index
        (0, G, N, "G"),
        (G, N, N, "N - G"),
        (G, K, N, "K - G"),
        (16 * G, 16 * G + 16, N, "16"),
        (500, 600, 1000, "100"),
        (0, 990, 1000, "1000"),
        (0, 3 * G // 4, N, "3 * G // 4"),
    ],
)
def test_rows_are_cut_where_that_saves_more_than_a_border(low, high, whole, rows):
    assume = "2 <= N and G <= K and K <= N and 16*G + 16 <= N"
    assert _extents(_rows(low, high, whole, assume=assume).show("lowered")) == {
        n: [rows, "M"] for n in ("o@gpu0", "a@gpu0")
    }


def test_a_short_last_dimension_that_is_used_in_full_has_no_wider_rows():
    f = tm.Function("narrow", params=[N])
    a = f.input("a", tm.int32, [N, 5])
    o = f.computation("o", {i: N, j: 5}, 2 * a[i, j])
    f.outputs(o)
    o.tag_gpu(blocks=[i], threads=[j])
    f.derive_transfers()
    assert _extents(f.show("lowered")) == {name: ["N", "5"] for name in ("o@gpu0", "a@gpu0")}


def test_an_extent_is_at_least_0_where_conditions_do_not_say_that_it_is():
    assert _extents(_rows(G, K, N, assume="K <= N").show("lowered"))["o@gpu0"] == ["max(K - G, 0)", "M"]


def test_what_the_caller_keeps_on_the_gpu_stays_whole():
    function = _rows(G, N, N, assume="G <= N", memory=tm.GPU_MEMORY).show("lowered")
    (kernel,) = function.gpus.kernels
    extents = {array.name: [str(extent) for extent in array.extents] for array in kernel.arrays}
    assert extents == {"a": ["N", "M"], "o": ["N - G", "M"]}


def test_launches_pass_what_the_first_element_depends_on():
    function = _rows(G, K, N, assume="G <= K and K <= N").show("lowered")
    (kernel,) = function.gpus.kernels
    assert kernel.params == ("M", "G", "K")  # and not N, which nothing there depends on any more
    assert {"a is held from [G, 0] on", "o is held from [G, 0] on"} <= set(kernel.documentation)


def test_an_element_that_lanes_add_to_stays_where_it_is():
    f = tm.Function("sums", params=[N, G], assume="G <= N")
    a = f.input("a", tm.int32, [N, 64])
    s = f.reduction("s", {i: (G, N)}, {j: 64}, tm.sum, a[i, j], shape=[N])
    f.outputs(s)
    s.split(i, 32, i0, i1)
    s.tag_gpu(blocks=[i0], threads=[i1])
    s.update.vectorize(j, 4, combine=tm.PRIVATE)
    f.derive_transfers()
    assert _extents(f.show("lowered"))["s@gpu0"] == ["N"]


def test_a_window_that_cannot_be_seen_through_holds_everything():
    f = tm.Function("gathered", params=[N, M, G], assume="G <= N")
    at = f.input("at", tm.int32, [N], values=(0, M))
    a = f.input("a", tm.int32, [M])
    o = f.computation("o", {i: (0, G)}, a[at[i]], shape=[N])
    f.outputs(o)
    o.split(i, 32, i0, i1)
    o.tag_gpu(blocks=[i0], threads=[i1])
    f.derive_transfers()
    assert _extents(f.show("lowered")) == {"a@gpu0": ["M"], "at@gpu0": ["G"], "o@gpu0": ["G"]}

"""Functions with kernels as a lowered schedule gives them."""

from __future__ import annotations

from tests.programs.loop_ir.gpu_files import (
    below,
    block,
    both,
    kernel,
    launch,
    let,
    moved,
    on_gpu,
    parameter,
    shared,
    thread,
)
from tests.programs.loop_ir.short_names import (
    function,
    given,
    load,
    loop,
    number,
    result,
    size,
    store,
    temporary,
    updated,
    var,
)
from tiramisu_py.algorithm.expressions import Binary, Expr
from tiramisu_py.algorithm.operators import sum_
from tiramisu_py.algorithm.types import int64
from tiramisu_py.ir import Barrier, Block, Comment, Deferred, If, LoopFunction, OnGpus, Store
from tiramisu_py.program.loops import Unroll

N, M, K, R, C = (size(name) for name in "NMKRC")
i0, j0, i1, j1, k0, k1 = (var(name) for name in ("i0", "j0", "i1", "j1", "k0", "k1"))


def tiles(extent: Expr, tile: int) -> Expr:
    """How many tiles cover an extent."""
    return number((extent + (tile - 1)) // tile)


def blur() -> LoopFunction:
    """A box blur, one thread an element, blocks of 16 x 16."""
    i, j = 16 * i0 + i1, 16 * j0 + j1
    total = load("image", i, j)
    for di in range(3):
        for dj in range(3):
            total = total if di == dj == 0 else total + load("image", i + di, j + dj)
    body = let(
        "i0", block(1), let("j0", block(0), let("i1", thread(1), let("j1", thread(0),
        If(both(below(i, R), below(j, C)),
           Block((Comment("by[i, j] = (image[i, j] + ... + image[i + 2, j + 2]) / 9"),
                  store("by", (i, j), total / 9.0))))))),
    )  # fmt: skip
    arrays = [parameter("image", R + 2, C + 2), parameter("by", R, C, constant=False)]
    by = kernel("by", "R C", arrays, (16, 16, 1), body, documentation=("by[i, j], on blocks (i0, j0)",))
    return function(
        "blur", "R C", [given("image", R + 2, C + 2), result("by", R, C)],
        on_gpu("image@gpu0", (R + 2, C + 2), on_gpu("by@gpu0", (R, C),
            moved("image", (R + 2, C + 2), up=True), launch(by, (tiles(C, 16), tiles(R, 16))),
            moved("by", (R, C), up=False),
        )),
        kernels=(by,), devices=1, documentation=("A box blur.",),
    )  # fmt: skip


def matmul(deferred: bool = False, pad: int = 1) -> LoopFunction:
    """A product through tiles in shared memory; sizes are multiples of 16."""
    i, j = 16 * i0 + i1, 16 * j0 + j1

    def fill(tile: str, source: str, row: Expr, column: Expr) -> Deferred | Store:
        one = store(tile, (i1, j1), load(source, row, column))
        return Deferred(one) if deferred else one

    inner = loop(
        "k0", K // 16,
        Comment("copies of A and B"),
        fill("ta", "A", i, 16 * k0 + j1),
        fill("tb", "B", 16 * k0 + i1, j),
        Barrier("ta"),
        loop("k1", 16, updated("sum", (), sum_, load("ta", i1, k1) * load("tb", k1, j1)), tag=Unroll()),
        Barrier("C"),
    )  # fmt: skip
    last = (Comment("C[i, j]"), store("C", (i, j), load("sum")))
    summed = temporary("sum", (), store("sum", (), 0.0), inner, *last, register=True)
    nest = shared("ta", (16, 16 + pad), shared("tb", (16, 16 + pad), summed))
    body = let("i0", block(1), let("j0", block(0), let("i1", thread(1), let("j1", thread(0), nest))))
    arrays = [parameter("A", N, K), parameter("B", K, M), parameter("C", N, M, constant=False)]
    product = kernel("product", "N M K", arrays, (16, 16, 1), body, minimum_blocks=2)
    f = function(
        "matmul", "N M K", [given("A", N, K), given("B", K, M), result("C", N, M)],
        on_gpu("A@gpu0", (N, K), on_gpu("B@gpu0", (K, M), on_gpu("C@gpu0", (N, M),
            moved("A", (N, K), up=True), moved("B", (K, M), up=True), launch(product, (M // 16, N // 16)),
            moved("C", (N, M), up=False),
        ))),
        kernels=(product,), devices=1,
    )  # fmt: skip
    multiples = tuple((Binary("==", number(s % 16), number(0), int64), f"{s} % 16 == 0") for s in (N, M, K))
    return LoopFunction(
        f.name, f.params, f.arguments, multiples, f.body, gpus=OnGpus(kernels=f.gpus.kernels, devices=1)
    )

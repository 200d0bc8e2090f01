"""Kernels as a lowered schedule gives them: tiles with partial ends, temporaries inside, tags still on the loops."""

from __future__ import annotations

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
from tiramisu_py.ir import Comment, LoopFunction
from tiramisu_py.program.loops import Parallel, Unroll, Vector


def least(a: Expr | int, b: Expr) -> Expr:
    """``min(a, b)``."""
    return Binary("min", number(a), number(b), int64)


def tiles(extent: Expr, tile: int) -> Expr:
    """How many tiles cover an extent."""
    return (extent + (tile - 1)) // tile


def blur(rows: int = 8, width: int = 16) -> LoopFunction:
    """A 3x3 box blur: blocks of rows in parallel, vectors of columns, the first stage in registers."""
    R, C, r0, r, q, c = size("R"), size("C"), var("r0"), var("r1"), var("r"), var("c")
    row, out = rows * r0 + q, rows * r0 + r
    first = (load("image", row, c) + load("image", row, c + 1) + load("image", row, c + 2)) / 3.0
    second = (load("bx", r) + load("bx", r + 1) + load("bx", r + 2)) / 3.0
    body = temporary(
        "bx",
        (rows + 2,),
        loop("r", least(rows + 2, R - rows * r0 + 2), Comment("bx[r, c]"), store("bx", q, first), tag=Unroll()),
        loop("r1", least(rows, R - rows * r0), Comment("by[r, c]"), store("by", (out, c), second), tag=Unroll()),
        register=True,
    )
    return function(
        "blur",
        "R C",
        [given("image", R + 2, C + 2), result("by", R, C)],
        loop("r0", tiles(R, rows), loop("c", C, body, tag=Vector(width)), tag=Parallel()),
    )


def matmul(rows: int = 4, columns: int = 16, width: int = 8) -> LoopFunction:
    """C = A B by tiles whose partial sums are in registers over the loop on k."""
    N, M, K = size("N"), size("M"), size("K")
    i0, j0, i1, j1, k = (var(name) for name in ("i0", "j0", "i1", "j1", "k"))
    i, j = rows * i0 + i1, columns * j0 + j1
    term = load("A", i, k) * load("B", k, j)

    def each(*body: object) -> object:
        inner = loop("j1", least(columns, M - columns * j0), *body, tag=Vector(width))  # type: ignore[arg-type]
        return loop("i1", least(rows, N - rows * i0), inner, tag=Unroll())

    tile = temporary(
        "sums",
        (rows, columns),
        each(store("sums", (i1, j1), 0.0)),  # type: ignore[arg-type]
        loop("k", K, each(updated("sums", (i1, j1), sum_, term))),  # type: ignore[arg-type]
        each(store("C", (i, j), load("sums", i1, j1))),  # type: ignore[arg-type]
        register=True,
    )
    return function(
        "matmul",
        "N M K",
        [given("A", N, K), given("B", K, M), result("C", N, M)],
        loop(
            "i0",
            tiles(N, rows),
            loop("j0", tiles(M, columns), tile, tag=Parallel(collapse=0)),
            tag=Parallel(collapse=2),
        ),
    )

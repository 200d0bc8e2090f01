"""Distributed functions for tests: each rank of a ring passes elements on to the next."""

from __future__ import annotations

from tests.programs.loop_ir.messages import Q, box, on_ranks, post, requests, wait
from tests.programs.loop_ir.short_names import given, load, loop, result, size, store, temporary, var
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.expressions import Param
from tiramisu_py.algorithm.types import DType, float32, int64
from tiramisu_py.ir import For, If, LoopFunction, Node
from tiramisu_py.program.loops import Parallel
from tiramisu_py.program.statement import SendMode

C = size("C")
RANKS = 4
NEXT, BEFORE = (Q + 1) % RANKS, (Q + (RANKS - 1)) % RANKS
#: The elements of a message: those of row 1, of column 1, every other one of both, and what a loop names.
ROWS = 5


def elements() -> dict[str, Node]:
    """Messages of a 5 by C array, by name."""
    each = loop("i", ROWS, loop("j", C, If(typed((var("i") + var("j")) % 2 == 0), box(var("i"), var("j")))))
    return {
        "one": box(2, 1),
        "row": box(1, 0, sides=((C, (0, 1)),)),
        "column": box(0, 1, sides=((ROWS, (1, 0)),)),
        "all": box(0, 0, sides=((ROWS, (1, 0)), (C, (0, 1)))),
        "across": box(0, 0, sides=((C, (0, 1)), (ROWS, (1, 0)))),
        "spread": box(0, 0, sides=((3, (2, 0)), ((C + 1) // 2, (0, 2)))),
        "backwards": box(4, 0, sides=((ROWS, (-1, 0)), (C, (0, 1)))),
        "none": box(0, 0, sides=((ROWS, (1, 0)), (C - C, (0, 1)))),
        "chequered": each,
        "triangle": loop("i", ROWS, box(var("i"), 0, sides=((C - var("i"), (0, 1)),))),
        "columns": loop("j", 2, box(0, 2 * var("j"), sides=((ROWS, (1, 0)),))),
    }


def ring(
    sent: Node, received: Node, *, mode: SendMode = SendMode.STANDARD, dtype: DType = float32, name: str = "ring",
    parallel: bool = False,
) -> LoopFunction:  # fmt: skip
    """Every rank sends elements of its input to the next, and stores what it receives in its output."""
    tag = Parallel() if parallel else None
    clear = loop("i", ROWS, loop("j", C, store("by", (var("i"), var("j")), 0, dtype)), tag=tag)
    return on_ranks(
        name, "C", (RANKS,), [given("image", ROWS, C, dtype=dtype), result("by", ROWS, C, dtype=dtype)],
        clear,
        requests(
            "pending", 1,
            post(False, "by", received, BEFORE, 3, request=("pending", 0), dtype=dtype),
            post(True, "image", sent, NEXT, 3, mode=mode, dtype=dtype),
            wait("pending", 0, 1),
        ),
    )  # fmt: skip


def steps(persistent: bool, mode: SendMode = SendMode.STANDARD) -> LoopFunction:
    """T times, every rank adds what the rank before it holds to its own row; the halo is a temporary."""
    ways = {"persistent": persistent}
    row = (C, (0, 1))
    return on_ranks(
        "steps", "C T", (RANKS,), [given("image", C), result("by", C)],
        temporary(
            "halo", (2, C),
            requests(
                "pending", 2,
                loop("j", C, store("by", var("j"), load("image", var("j")))),
                loop(
                    "t", size("T"),
                    loop("j", C, store("halo", (0, var("j")), load("by", var("j")))),
                    post(True, "halo", box(0, 0, sides=(row,)), NEXT, 0, request=("pending", 0), mode=mode, **ways),
                    post(False, "halo", box(1, 0, sides=(row,)), BEFORE, 0, request=("pending", 1), **ways),
                    wait("pending", 0, 2),
                    loop("j", C, store("by", var("j"), load("by", var("j")) + load("halo", 1, var("j")))),
                ),
            ),
        ),
    )  # fmt: skip


def buffered_burst(count: int) -> LoopFunction:
    """Every rank sends `count` rows to the next before anyone receives: more than MPI would put aside itself."""
    row = (C, (0, 1))
    every: list[For] = [
        loop("n", count, post(True, "image", box(var("n"), 0, sides=(row,)), NEXT, 1, mode=SendMode.BUFFERED)),
        loop("n", count, post(False, "by", box(var("n"), 0, sides=(row,)), BEFORE, 1)),
    ]
    return on_ranks("burst", "C", (RANKS,), [given("image", count, C), result("by", count, C)], *every)


def on_grid() -> LoopFunction:
    """On a P by 2 grid: each rank sends its coordinates' array to the other rank of its row."""
    first, second = Param("rank0", int64), Param("rank1", int64)
    other = first * 2 + (1 - second)
    extent = C + first
    return on_ranks(
        "on_grid", "C P", (size("P"), 2), [given("image", extent), result("by", extent)],
        requests(
            "pending", 1,
            post(False, "by", box(0, sides=((extent, (1,)),)), other, 0, request=("pending", 0)),
            post(True, "image", box(0, sides=((extent, (1,)),)), other, 0, mode=SendMode.SYNCHRONOUS),
            wait("pending", 0, 1),
        ),
    )  # fmt: skip

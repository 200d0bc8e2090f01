"""Vector loops over rows of a temporary: cut where vectors begin."""

from __future__ import annotations

import pytest

from tests.programs.loop_ir.short_names import load, loop, size, store, temporary, var
from tiramisu_py.ir import Allocate, For, Let, Node
from tiramisu_py.ir.rewriting import Names, names, walk
from tiramisu_py.passes.vectors.align import aligned
from tiramisu_py.program.loops import Vector

N, j, j0 = size("N"), var("j"), var("j0")
MASK = Vector(16, remainder="mask")


def cut(row: int, *body: Node, lower: object = 1, tag: Vector = MASK, upper: object = N) -> Allocate:
    made = temporary("row", (2, row), loop("j", upper, *body, lower=lower, tag=tag))  # type: ignore[arg-type]
    found = aligned(made, Names(names(made)))
    assert isinstance(found, Allocate)
    return found


def loops(node: Node) -> list[For]:
    return [inner for inner in walk(node) if isinstance(inner, For)]


def values(node: Node) -> dict[str, str]:
    return {inner.variable: str(inner.value) for inner in walk(node) if isinstance(inner, Let)}


def stencil(shift: int = 0) -> Node:
    return store("row", (0, j - 512 * j0 + 16 + shift), load("row", 1, j) + load("row", 1, j + 1))


def test_a_loop_begins_with_less_than_a_vector() -> None:
    found = cut(544, stencil())
    first, rest = loops(found)
    assert values(found) == {"j_begin": "1", "j_stop": "N", "j_aligned": "min((j_begin + 15) // 16 * 16, j_stop)"}
    assert (str(first.lower), str(first.upper)) == ("j_begin", "min(j_aligned, j_begin + 15)")
    assert (str(rest.lower), str(rest.upper)) == ("j_aligned", "j_stop")
    assert first.tag == rest.tag == MASK


@pytest.mark.parametrize("shift", [-20, 3, 16])
def test_vectors_begin_where_the_row_says(shift: int) -> None:
    start = values(cut(544, stencil(shift)))["j_aligned"]
    for begin in range(-40, 40):
        found = eval(start, {"min": min, "j_begin": begin, "j_stop": 1000})
        assert found >= begin
        assert found - begin < 16
        assert (found + shift) % 16 == 0


def test_a_loop_that_ends_before_a_vector_begins() -> None:
    start = values(cut(544, stencil()))["j_aligned"]
    assert eval(start, {"min": min, "j_begin": 3, "j_stop": 7}) == 7


@pytest.mark.parametrize(
    ("row", "body", "options"),
    [
        (540, stencil(), {}),  # rows that begin anywhere
        (544, stencil(), {"lower": 0}),  # aligned as it is
        (544, stencil(), {"lower": 512 * j0}),
        (544, stencil(), {"tag": Vector(16)}),
        (544, stencil(), {"upper": 100}),  # a few vectors
        (544, store("row", (0, j), load("row", 1, j)), {}),  # a copy
        (544, store("row", (0, 2 * j), load("row", 1, j) + load("row", 1, j + 1)), {}),
        (544, store("row", (0, j + j0), load("row", 1, j) + load("row", 1, j + 1)), {}),
        (544, store("out", (0, j), load("row", 1, j) + load("row", 1, j + 1)), {}),
    ],
)
def test_other_loops_stay_whole(row: int, body: Node, options: dict[str, object]) -> None:
    (found,) = loops(cut(row, body, **options))  # type: ignore[arg-type]
    assert found.variable == "j"


def test_stores_that_begin_elsewhere() -> None:
    assert len(loops(cut(544, stencil(), stencil(16)))) == 2
    assert len(loops(cut(544, stencil(), stencil(1)))) == 1

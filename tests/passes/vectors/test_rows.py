"""Vector loops inside unrolled ones are handled once, however many copies and versions there are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs.every_pass import example
from tiramisu_py.ir import For, LoopFunction, Node, Ramp
from tiramisu_py.ir.rewriting import all_expressions, contents, walk
from tiramisu_py.lower import lower
from tiramisu_py.passes.pipeline import PIPELINE, optimise
from tiramisu_py.passes.vectors import vectorize as vectors
from tiramisu_py.program.loops import Unroll, Vector

N, M = tm.params("N M")
i, j, i0, j0, i1, j1 = tm.iters("i j i0 j0 i1 j1")


def rows(count: int, expr: Callable[[tm.Input], tm.Expr] | None = None, extent: int = 32) -> tm.Function:
    """`count` unrolled rows of a vector loop."""
    f = tm.Function("rows", params=[N], assume="N >= 1")
    x = f.input("x", tm.float32, [N + 8, 64])
    y = f.computation("y", {i: N, j: extent}, 2 * x[i, j] + x[i + 1, j + 1] if expr is None else expr(x))
    f.outputs(y)
    y.split(i, count, i0, i1)
    y.unroll(i1)
    y.vectorize(j, 16)
    return f


def until(f: tm.Function, name: str) -> LoopFunction:
    """The loops after the pass of a name."""
    pipeline = PIPELINE.until(name)
    assert f.check().ok
    return optimise(lower(f.completed, pipeline), 64, pipeline)


def handled(f: tm.Function, monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of loops that are turned into vectors on the way to the source."""
    found = []
    work = vectors.VectorLoop.strips_and_rest

    def counted(loop: vectors.VectorLoop) -> Node:
        found.append(loop)
        return work(loop)

    with monkeypatch.context() as patch:
        patch.setattr(vectors.VectorLoop, "strips_and_rest", counted)
        f.source()
    return len(found)


def loops(function: LoopFunction, tag: type) -> list[For]:
    """The loops with a tag."""
    return [node for node in walk(function.body) if isinstance(node, For) and isinstance(node.tag, tag)]


def in_unrolled(function: LoopFunction) -> set[type]:
    """Whether unrolled loops have vector loops or vectors inside."""
    found: set[type] = set()
    for loop in loops(function, Unroll):
        found |= {kind for kind in (Vector, Ramp) if kind in contents(loop.body)}
    return found


def test_more_rows_are_no_more_work(monkeypatch: pytest.MonkeyPatch) -> None:
    assert handled(rows(3), monkeypatch) == handled(rows(9), monkeypatch)


def test_versions_for_other_numbers_of_rows_are_little_more_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def product(count: int) -> tm.Function:
        f = tm.Function("product", params=[N, M], assume="N >= 1 and M >= 1")
        a, b = f.input("a", tm.float32, [N]), f.input("b", tm.float32, [M])
        c = f.computation("c", {i: N, j: M}, a[i] * b[j])
        f.outputs(c)
        c.tile(i, j, count, 32, i0, j0, i1, j1)
        c.unroll(i1, remainder="specialize")
        c.vectorize(j1, 16, remainder="mask", partial="specialize")
        return f

    # one loop a version: that of rows whose columns do not fill a tile either
    assert handled(product(8), monkeypatch) - handled(product(4), monkeypatch) <= 8 - 4


def test_the_matrix_product_has_one_for_each_loop_and_width(monkeypatch: pytest.MonkeyPatch) -> None:
    story = example("linear", "matmul")()
    bodies = len(loops(until(story, "unroll_registers"), Vector))
    assert bodies == 6  # starts of values with terms and without, terms of whole tiles, copies
    strips, masks = 4, 2  # versions by the strips of a row; with one row, the loop is not unrolled
    assert handled(story, monkeypatch) <= bodies * strips * (1 + masks)


def test_rows_are_vectors_before_they_are_copied() -> None:
    assert in_unrolled(until(rows(4), "full_tiles")) == {Vector}
    assert in_unrolled(until(rows(4), "vectorize_rows")) == {Vector, Ramp}


@pytest.mark.parametrize(
    "expr",
    [
        lambda x: tm.select(i % 2 == 0, x[i, j], x[i + 1, j]),
        lambda x: x[i, j] + tm.cast(tm.float32, i % 4),
        lambda x: x[(i % 4), j] + x[i // 2, j],
        lambda x: tm.select(j < i, x[i, j], 0),
    ],
)
@pytest.mark.parametrize("extent", [1, 16, 17, 33])
def test_rows_that_differ_by_more_than_a_place_are_right(expr: Callable[[tm.Input], tm.Expr], extent: int) -> None:
    f = rows(4, expr, extent)
    kernel = f.compile()
    for size in (1, 4, 7):
        given = {"x": np.random.default_rng(size).random((size + 8, 64), dtype=np.float32)}
        np.testing.assert_array_equal(kernel(**given), f.evaluate(**given))


def test_equal_expressions_are_one_object_after_unrolling() -> None:
    whole = until(rows(8), "share_expressions")
    found = list(all_expressions(whole.body))
    exact = {id(e): (type(e), e.dtype.name, e.key()) for e in found}
    assert len(set(exact.values())) == len(exact)

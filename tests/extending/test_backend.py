"""A backend of a hundred lines computes what `evaluate()` says, and refuses what it does not know."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tests.extending import python_backend

N, M = tm.params("N M")
i, j, k, i0, i1, j0, j1 = tm.iters("i j k i0 i1 j0 j1")


def blur() -> tm.Function:
    f = tm.Function("blur", params=[N, M])
    a = f.input("a", tm.float32, [N + 2, M])
    b = f.computation("b", {i: N + 2, j: M}, a[i, j] * 2)
    c = f.computation("c", {i: N, j: M}, (b[i, j] + b[i + 1, j] + b[i + 2, j]) / 3)
    f.outputs(c)
    c.tile(i, j, 4, 8, i0, j0, i1, j1)
    b.compute_at(c, i0)
    return f


def wrapping() -> tm.Function:
    f = tm.Function("wrapping", params=[N, M])
    a = f.input("a", tm.int32, [N, M])
    s = f.reduction("s", {i: N}, {j: M}, tm.sum, tm.select(a[i, j] > 0, a[i, j] * a[i, j], -a[i, j]))
    f.outputs(s)
    s.update.split(j, 5, j0, j1)
    return f


@pytest.mark.parametrize("build", [blur, wrapping])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (7, 19), (8, 16)])
def test_a_program_in_python_computes_what_evaluate_says(build, rows: int, columns: int) -> None:
    f = build()
    more = 2 if build is blur else 0
    a = np.random.default_rng(0).integers(-(2**20), 2**20, (rows + more, columns))
    given = {"a": a.astype(np.float32 if build is blur else np.int32), "N": rows, "M": columns}
    (found,) = python_backend.called(f, **given)
    np.testing.assert_array_equal(found, f.evaluate(**given))


def test_a_loop_that_it_has_no_text_for_is_refused() -> None:
    g = tm.Function("g", params=[N])
    a = g.input("a", tm.float32, [N])
    b = g.computation("b", {i: N}, a[i] + 1)
    g.outputs(b)
    b.parallelize(i)
    with pytest.raises(tm.UnsupportedError, match="the Python backend has no For"):
        python_backend.emit(g.show("lowered"))

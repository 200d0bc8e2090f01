"""Gradients of stencils of many reads: zeros around an adjoint in the place of a condition for each term."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.rewriting import programs
from tests.rewriting.judging import differences, directions, forwards, listed, pairing, weighed, weights
from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Select
from tiramisu_py.algorithm.traversal import kinds
from tiramisu_py.rewriting.zero_borders import reads_of_linear

(N, M), (i, j, t) = tm.params("N M"), tm.iters("i j t")
D = tm.float64


def box(of: Any, down: int = 3, right: int = 3) -> tm.Expr:
    return sum((of[i + a, j + b] for a in range(down) for b in range(right)), start=tm.cast(D, 0))


def nine_points(read: Callable[[Any, Any], tm.Expr], height: Any = N) -> tm.Function:
    """Squares of the input, and what is read of nine of them."""
    f = tm.Function("f", params=[N, M], assume="N >= 12 and M >= 3")
    x, s = f.input("x", D, [N + 2, M + 2]), f.scalar("s", D)
    square = f.computation("square", {i: N + 2, j: M + 2}, x[i, j] * x[i, j])
    f.outputs(f.computation("y", {i: height, j: M}, read(square, s)))
    return f


def has_conditions(step: tm.Function, name: str) -> bool:
    return Select in kinds(step.algorithm.computations[name].expr)


def agrees(f: tm.Function, sizes: dict[str, int], compiled: bool = True) -> None:
    """Both modes agree exactly, and with differences; the step computes what `evaluate` does."""
    g, numbers = tm.vjp(f, wrt=["x"]), np.random.default_rng(1)
    assert g.step.check().ok
    given = programs.arguments(f, sizes, 3, True)
    v, w = directions(f, given, numbers, True), weights(f, given, numbers, True)
    v["s"] = 0.0
    tangent = forwards(tm.jvp(f), f, given, v)
    found = listed(g.step.evaluate(**weighed(f, given, w)))[-1]
    assert sum(pairing(a, b) for a, b in zip(tangent, w, strict=True)) == pairing(v["x"], found)
    for one, other in zip(tangent, differences(f, given, v), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    if not compiled:  # many conditions take gcc long
        return
    g.step.auto_schedule(target="x86-64-v3", threads=1)
    np.testing.assert_array_equal(listed(g.step.compile()(**weighed(f, given, w)))[-1], found)


def test_the_terms_of_a_stencil_have_no_conditions_and_the_array_of_the_caller_is_copied() -> None:
    f = nine_points(lambda square, s: box(square))
    step = tm.vjp(f, wrt=["x"]).step
    assert has_conditions(step, "d_y_with_zeros") and not has_conditions(step, "d_square")
    agrees(f, {"N": 12, "M": 5})


def test_an_adjoint_has_zeros_itself() -> None:
    f = nine_points(lambda square, s: box(square))
    y = f["y"]
    f.outputs(f.computation("z", {i: N, j: M}, y[i, j] * y[i, j]), replace=True)
    step = tm.vjp(f, wrt=["x"]).step
    assert has_conditions(step, "d_y") and not has_conditions(step, "d_square")
    agrees(f, {"N": 13, "M": 3})


@pytest.mark.parametrize(
    "read",
    [
        lambda square, s: s * box(square),  # s may be infinite, and 0 times it is no 0
        lambda square, s: box(square) * square[i, j],  # a factor that exists at some elements only
    ],
)
def test_terms_that_may_be_other_than_0_keep_their_conditions(read: Callable[[Any, Any], tm.Expr]) -> None:
    f = nine_points(read)
    assert has_conditions(tm.vjp(f, wrt=["x"]).step, "d_square")
    agrees(f, {"N": 12, "M": 4}, compiled=False)


def test_a_sum_with_a_number_is_not_linear() -> None:
    f = nine_points(lambda square, s: box(square))
    x = f["x"]
    assert reads_of_linear(-(x[0, 0] * 2.0) + x[i, j] / 4.0) is not None
    for other in (x[0, 0] + 1.0, x[0, 0] * math.inf, x[0, 0] * x[0, 0], tm.exp(x[0, 0]), x[0, 0] / x[0, 0]):
        assert reads_of_linear(other) is None


def test_an_array_that_would_grow_keeps_its_size() -> None:
    f = nine_points(lambda square, s: box(square), height=2)  # two rows of many
    step = tm.vjp(f, wrt=["x"]).step
    assert "d_y_with_zeros" not in step.algorithm.computations and has_conditions(step, "d_square")
    agrees(f, {"N": 12, "M": 5})


def test_zeros_are_there_for_sizes_at_which_nothing_is_read() -> None:
    f = tm.Function("f", params=[N], assume="N >= 0")
    x = f.input("x", D, [N + 1])
    square = f.computation("square", {i: N + 1}, x[i] * x[i])
    q = f.computation("q", {i: (1, N)}, square[i + 1] - square[i] * 3 - square[i - 1])
    f.outputs(f.computation("y", {i: (1, N)}, q[i] * q[i]))
    g = tm.vjp(f)
    assert not has_conditions(g.step, "d_square") and g.step.check().ok
    for size in (0, 1, 2, 5):
        assert tm.check_gradient(g, x=np.random.default_rng(0).random(size + 1)).ok


def test_sizes_that_are_numbers_have_zeros_too() -> None:
    f = tm.Function("f")
    x = f.input("x", D, [34, 34])
    f.outputs(f.computation("y", {i: 32, j: 32}, box(x)))
    assert not has_conditions(tm.vjp(f).step, "d_x")


def test_a_recurrence_keeps_its_domain() -> None:
    f = tm.Function("f", params=[N], assume="N >= 20")
    x = f.input("x", D, [N])
    u = f.computation(
        "u", {t: 3, i: (t, N - t)}, lambda u: tm.select(t == 0, x[i], u[t - 1, i - 1] + u[t - 1, i] + u[t - 1, i + 1])
    )
    f.outputs(f.computation("y", {i: (2, N - 2)}, u[2, i]))
    g = tm.vjp(f)
    assert has_conditions(g.step, "d_u") and g.step.check().ok
    own, original = (g.step.algorithm.computations[name].domain for name in ("d_u", "u"))
    assert sets.named(own, None).is_equal(sets.named(original, None))
    assert tm.check_gradient(g, x=np.random.default_rng(0).random(21)).ok


def factor_of_the_place() -> tm.Function:
    """A factor at each result, which exists at some only."""
    f = tm.Function("f", params=[N, M], assume="N >= 8 and M >= 3")
    x, w, (k, m) = f.input("x", D, [N + 2, M + 2]), f.input("w", D, [N, M]), tm.iters("k m")
    f.outputs(f.reduction("y", {i: N, j: M}, {k: 3, m: 3}, tm.sum, x[i + k, j + m] * w[i, j]))
    return f


def convolution(rows: Any = N) -> tm.Function:
    f = tm.Function("f", params=[N, M], assume="N >= 8 and M >= 3")
    x, w = f.input("x", D, [N + 2, M + 2]), f.input("w", D, [3, 3])
    k, m = tm.iters("k m")
    f.outputs(f.reduction("y", {i: rows, j: M}, {k: 3, m: 3}, tm.sum, x[i + k, j + m] * w[k, m]))
    return f


def test_the_sums_of_a_convolution_read_zeros_around_the_weights_of_its_results() -> None:
    step = tm.vjp(convolution(), wrt=["x"]).step
    points = step.algorithm.computations["d_x"].points
    assert "d_y_with_zeros" in step.algorithm.computations and points.n_basic_set() == 1
    at_8_by_3 = sets.at_params(points, {"N": 8, "M": 3})
    assert sets.count(at_8_by_3) == 10 * 5 * 9  # all nine terms at each element
    agrees_for_all(convolution())


def agrees_for_all(f: tm.Function, **sizes: int) -> None:
    """Both modes agree exactly by all inputs, and the compiled step is `evaluate`, for small integers."""
    g, numbers = tm.vjp(f), np.random.default_rng(2)
    assert g.step.check().ok
    given = programs.arguments(f, {"N": 9, "M": 6, **sizes}, 3, True)
    v, w = directions(f, given, numbers, True), weights(f, given, numbers, True)
    tangent = forwards(tm.jvp(f), f, given, v)
    found = listed(g.step.evaluate(**weighed(f, given, w)))[-len(g.wrt) :]
    back = sum(pairing(v[name], each) for name, each in zip(g.wrt, found, strict=True))
    assert sum(pairing(a, b) for a, b in zip(tangent, w, strict=True)) == back
    g.step.auto_schedule(target="x86-64-v3", threads=1)
    for mine, right in zip(listed(g.step.compile()(**weighed(f, given, w)))[-len(g.wrt) :], found, strict=True):
        np.testing.assert_array_equal(mine, right)


@pytest.mark.parametrize(
    "f",
    [
        lambda: convolution(rows=2),  # an array that would grow by its size
        factor_of_the_place,
    ],
)
def test_sums_of_other_kinds_keep_their_conditions(f: Callable[[], tm.Function]) -> None:
    assert not any("with_zeros" in name for name in tm.vjp(f(), wrt=["x"]).step.algorithm.computations)
    agrees_for_all(f())


@pytest.mark.slow
def test_the_step_of_a_pipeline_of_stencils_is_a_few_times_as_long_as_the_pipeline() -> None:
    f, step = programs.PROGRAMS["harris"](), tm.vjp(programs.PROGRAMS["harris"]()).step
    lengths = []
    for each in (f, step):
        each.auto_schedule(target="x86-64-v3", threads=1)
        lengths.append(sum(len(text) for file, text in each.source().items() if file.startswith(each.name)))
    assert lengths[1] < 8 * lengths[0]

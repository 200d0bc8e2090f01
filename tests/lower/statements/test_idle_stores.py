"""Elements that are loaded and stored where they were: loops leave them out, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.interpret import run
from tiramisu_py.ir import Load, Store
from tiramisu_py.ir.rewriting import of_kind
from tiramisu_py.lower import lower

T, N = tm.params("T N")
t, i, j, t0, i0, j0, t1, i1, j1 = tm.iters("t i j t0 i0 j0 t1 i1 j1")
RNG = np.random.default_rng(0)


def seidel() -> tm.Function:
    """In the caller's array: the first level is there, the border stays, and the last level is the result."""
    f = tm.Function("seidel", params=[T, N], assume="T >= 1 and N >= 2")
    a, edge = f.input("a", tm.float64, [N, N]), (i == 0) | (i == N - 1) | (j == 0) | (j == N - 1)
    h = f.computation(
        "h",
        {t: T + 1, i: N, j: N},
        lambda h: tm.select(
            t == 0,
            a[i, j],
            tm.select(
                edge, h[t - 1, i, j], (h[t, i - 1, j] + h[t, i, j - 1] + h[t - 1, i + 1, j] + h[t - 1, i, j + 1]) * 0.25
            ),
        ),
    )
    f.outputs(h[T, i, j])
    h.store_in(a, [i, j])
    f["h_out"].store_in(a, [i, j])
    return f  # fmt: skip


def jacobi() -> tm.Function:
    """Two arrays of the caller, as PolyBench has it."""
    f = tm.Function("jacobi", params=[T, N], assume="T >= 1 and N >= 2")
    a, b, edge = f.input("a", tm.float64, [N]), f.input("b", tm.float64, [N]), (i == 0) | (i == N - 1)
    with f.together() as g:
        A = g.computation(
            "A",
            {t: T + 1, i: N},
            lambda: tm.select(t == 0, a[i], tm.select(edge, A[t - 1, i], (B[t, i - 1] + B[t, i] + B[t, i + 1]) / 3)),
        )
        B = g.computation(
            "B",
            {t: T + 1, i: N},
            lambda: tm.select(
                t == 0, b[i], tm.select(edge, B[t - 1, i], (A[t - 1, i - 1] + A[t - 1, i] + A[t - 1, i + 1]) / 3)
            ),
        )
    f.outputs(A[T, i], B[T, i])
    for made, array in ((A, a), (B, b), (f["A_out"], a), (f["B_out"], b)):
        made.store_in(array, [i])
    return f  # fmt: skip


def tiled(f: tm.Function, names: tuple[str, ...], tiles: dict[Any, int]) -> tm.Function:
    f.schedule(*(f[name] for name in names)).skew_for(tm.PARALLEL, tiles=tiles)
    return f


MADE: dict[str, Callable[[], tm.Function]] = {
    "seidel": seidel,
    "jacobi": jacobi,
    "seidel in wavefronts": lambda: tiled(seidel(), ("h",), {t: 2, i: 4, j: 8}),
    "jacobi in wavefronts": lambda: tiled(jacobi(), ("A", "B"), {t: 4, i: 8}),
}


@pytest.mark.parametrize("name", MADE)
def test_borders_first_and_last_levels_in_place_are_not_stored(name: str) -> None:
    f = MADE[name]()
    report = f.check()
    assert report.ok, report
    found = list(of_kind(lower(f.program).body, Store))
    assert found
    assert not any(isinstance(each.value, Load) for each in found)


@pytest.mark.parametrize("n", [2, 3, 5, 8, 17])
@pytest.mark.parametrize("name", MADE)
def test_what_is_left_computes_what_the_algorithm_says(name: str, n: int) -> None:
    f = MADE[name]()
    kernel = f.compile()
    for steps in (1, 3, 7):
        arrays = {each: RNG.standard_normal((n,) * len(f.algorithm.inputs[each].shape)) for each in f.algorithm.inputs}
        given = {each: array.copy() for each, array in arrays.items()}
        got = kernel(**given, T=steps, N=n)
        np.testing.assert_array_equal(got, f.evaluate(**arrays, T=steps, N=n))
        sizes, place = {"T": steps, "N": n}, {each: array.copy() for each, array in arrays.items()}
        run(lower(f.program), place, sizes, seed=1)
        for each, array in given.items():
            np.testing.assert_array_equal(place[each], array)


def moved(made: Callable[[Any, Any], Any], place: Callable[[], list[Any]]) -> tm.Function:
    """``b[i]`` of the array a, stored in a."""
    f = tm.Function("moved", params=[N], assume="N >= 1")
    a = f.input("a", tm.int32, [N + 1])
    b = f.computation("b", {i: N}, made(a, i))
    f.outputs(b)
    b.store_in(a, place())
    return f


@pytest.mark.parametrize(
    ("made", "place", "count"),
    [
        (lambda a, i: a[i + 1], lambda: [i], 1),
        (lambda a, i: a[i], lambda: [i], 0),
        (lambda a, i: tm.select(i == 3, a[i], 2 * a[i]), lambda: [i], 2),
        (lambda a, i: tm.select(a[i] > 3, a[i], 2 * a[i]), lambda: [i], 1),
        (lambda a, i: 2 * a[i] - a[i], lambda: [i], 1),
    ],
    ids=["moved", "kept", "in a case", "by value", "computed"],
)
def test_only_what_is_stored_where_it_was_is_left_out(made: Any, place: Callable[[], list[Any]], count: int) -> None:
    f = moved(made, place)
    assert f.check().ok
    assert len(list(of_kind(lower(f.program).body, Store))) == count
    a = np.arange(12, dtype=np.int32)
    np.testing.assert_array_equal(f.compile()(a.copy())[:11], f.evaluate(a=a))


def test_a_padded_loop_keeps_the_stores_that_come_after_its_last_vector() -> None:
    """The vector past the end of the inside overwrites the border, which is stored again."""
    f = tm.Function("padded", params=[T, N], assume="T >= 1 and N >= 2")
    a, edge = f.input("a", tm.float32, [N + 7]), (i == 0) | (i == N - 1)
    h = f.computation("h", {t: T + 1, i: N}, lambda h: tm.select(
        t == 0, a[i], tm.select(edge, h[t - 1, i], h[t - 1, i] * 0.5)))  # fmt: skip
    f.outputs(h[T, i])
    h.fold(t, 1)
    h.vectorize(i, 8, remainder="pad")
    report = f.check()
    assert report.ok, report
    for n in (2, 9, 16, 17):
        drawn = RNG.standard_normal(n + 7).astype(np.float32)
        np.testing.assert_array_equal(f.compile()(drawn, T=3), f.evaluate(a=drawn, T=3))


def test_registers_keep_what_loops_carry() -> None:
    f = tm.Function("carried", params=[N], assume="N >= 1")
    a = f.input("a", tm.int32, [N])
    s = f.computation("s", {i: N}, lambda s: tm.select(i == 0, a[i], tm.select(i == 2, s[i - 1], s[i - 1] + a[i])))
    f.outputs(f.computation("o", {i: N}, 2 * s[i]))
    f["o"].fuse(s, i)
    s.store_in(tm.REGISTER)
    assert f.check().ok
    drawn = np.arange(1, 9, dtype=np.int32)
    np.testing.assert_array_equal(f.compile()(drawn), f.evaluate(a=drawn))

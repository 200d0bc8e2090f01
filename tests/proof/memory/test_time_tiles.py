"""Tiles of time with folded or in-place storage: proven by their dependences, refused by a small run.

None of these comes near the end of a tenth of isl's usual budget.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.oracle.judges.judge import judge
from tiramisu_py.program.ranks.spread import spread
from tiramisu_py.proof import Report, check
from tiramisu_py.proof.budget import OPERATIONS

T, N = tm.params("T N")
t, i, j, k = tm.iters("t i j k")
t0, i0, j0, k0, t1, i1, j1, k1 = tm.iters("t0 i0 j0 k0 t1 i1 j1 k1")
ENOUGH = OPERATIONS // 10

Stencil = tuple[tm.Function, Any]


def stencil(name: str, dims: tuple[Any, ...], reads: list[tuple[int, ...]], place: Callable[..., list[Any]]) -> Stencil:
    """A recurrence in time over a grid with a fixed border, stored at ``place(t, *dims)``."""
    f = tm.Function(name, params=[T, N], assume="T >= 1 and N >= 3")
    a = f.input("a", tm.float64, [N] * len(dims))
    border = t == 0
    for dim in dims:
        border = border | (dim == 0) | (dim == N - 1)

    def expression(h: Any) -> Any:
        terms = [h[tuple(d + o for d, o in zip((t, *dims), offset, strict=True))] for offset in reads]
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return tm.select(border, a[dims], total * 0.125)

    h = f.computation("h", {t: T + 1, **dict.fromkeys(dims, N)}, expression)
    f.outputs(h[(T, *dims)])
    h.store_in(place(t, *dims))
    return f, h


def jacobi() -> Stencil:
    reads = [(-1, 0, 0), (-1, -1, 0), (-1, 1, 0), (-1, 0, -1), (-1, 0, 1)]
    return stencil("jacobi", (i, j), reads, lambda t, i, j: [t % 2, i, j])


def seidel() -> Stencil:
    around = list(product((-1, 0, 1), repeat=2))
    reads = [(0, *o) for o in around if o < (0, 0)] + [(-1, *o) for o in around if o >= (0, 0)]
    return stencil("seidel", (i, j), reads, lambda t, i, j: [i, j])


def heat() -> Stencil:
    axes = [(0, 0, 0), (1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1)]
    return stencil("heat", (i, j, k), [(-1, *o) for o in axes], lambda t, i, j, k: [t % 2, i, j, k])


def tiled(h: Any, *sizes: int) -> None:
    loops = [(t, t0, t1), (i, i0, i1), (j, j0, j1), (k, k0, k1)][: len(sizes)]
    for (loop, outer, inner), size in zip(loops, sizes, strict=True):
        h.split(loop, size, outer, inner)
    h.reorder(*(outer for _, outer, _ in loops), *(inner for *_, inner in loops))


def skewed_jacobi() -> tm.Function:
    f, h = jacobi()
    h.skew(t, i, 1)
    h.skew(t, j, 1)
    tiled(h, 8, 32, 32)
    return f


def skewed_seidel() -> tm.Function:
    f, h = seidel()
    h.skew(t, i, 1)
    h.skew(t, j, 2)
    h.skew(i, j, 1)
    tiled(h, 8, 32, 32)
    return f


def skewed_heat() -> tm.Function:
    f, h = heat()
    for dim in (i, j, k):
        h.skew(t, dim, 1)
    tiled(h, 4, 16, 16, 16)
    return f


def wavefronts() -> tm.Function:
    f, h = jacobi()
    h.skew(t, i, 1)
    h.split(t, 8, t0, t1)
    h.split(i, 32, i0, i1)
    h.reorder(t0, i0, t1, i1, j)
    h.skew(t0, i0, 1)
    h.interchange(t0, i0)
    h.parallelize(t0)
    return f


def checked(f: tm.Function) -> Report:
    return check(spread(f.completed), operations=ENOUGH)


@pytest.mark.parametrize("made", [skewed_jacobi, skewed_seidel, skewed_heat, wavefronts])
def test_skewed_tiles_of_time_are_proven(made: Callable[[], tm.Function]) -> None:
    report = checked(made())
    assert report.ok, report


@pytest.mark.parametrize(("made", "n"), [(skewed_jacobi, 37), (skewed_seidel, 35), (wavefronts, 37)])
def test_what_is_proven_computes_what_the_algorithm_says(made: Callable[[], tm.Function], n: int) -> None:
    f = made()
    a = np.random.default_rng(0).standard_normal((n, n))
    assert np.array_equal(f.compile()(a=a.copy(), T=9, N=n), f.evaluate(a=a, T=9, N=n))


def jacobi_not_skewed() -> tm.Function:
    f, h = jacobi()
    tiled(h, 8, 32, 32)
    return f


def seidel_skewed_too_little() -> tm.Function:
    f, h = seidel()
    h.skew(t, i, 1)
    h.skew(t, j, 2)
    tiled(h, 8, 32, 32)
    return f


def jacobi_with_small_tiles() -> tm.Function:
    f, h = jacobi()
    h.skew(t, i, 1)
    tiled(h, 2, 3, 2)
    return f


def wavefronts_not_skewed() -> tm.Function:
    f, h = jacobi()
    h.split(t, 2, t0, t1)
    h.split(i, 4, i0, i1)
    h.reorder(t0, i0, t1, i1, j)
    return f


@pytest.mark.parametrize(
    ("made", "params", "blamed"),
    [
        (jacobi_not_skewed, {"T": 1, "N": 33}, "h.reorder(t0, i0, j0, t1, i1, j1)"),
        (seidel_skewed_too_little, {"T": 15, "N": 4}, "h.reorder(t0, i0, j0, t1, i1, j1)"),
        (jacobi_with_small_tiles, {"T": 1, "N": 3}, "h.reorder(t0, i0, j0, t1, i1, j1)"),
        (wavefronts_not_skewed, {"T": 1, "N": 5}, "h.reorder(t0, i0, t1, i1, j)"),
    ],
)
def test_tiles_that_break_a_dependence_are_refused_with_a_counterexample(
    made: Callable[[], tm.Function], params: dict[str, int], blamed: str
) -> None:
    report = checked(made())
    assert [v.kind for v in report.violations][:1] == ["order"], report
    violation = report.violations[0]
    assert dict(violation.witness.params) == params
    assert violation.command == blamed


@pytest.mark.parametrize("made", [jacobi_with_small_tiles, wavefronts_not_skewed])
def test_the_counterexample_is_the_smallest_that_an_independent_judge_finds(made: Callable[[], tm.Function]) -> None:
    f = made()
    witness = dict(checked(f).violations[0].witness.params)
    program = f.program
    assert judge(program, witness)
    smaller = [{"T": a, "N": b} for a in range(1, 6) for b in range(3, 9) if a + b < sum(witness.values())]
    assert not any(judge(program, params) for params in smaller)


def overlaid(columns: int) -> tm.Function:
    """Values in one element, of which the caller asks for the last: 0, 4, 1, 5, ..."""
    f = tm.Function("f")
    a = f.input("a", tm.int64, [columns])
    p = f.computation("p", {i: columns}, a[i] * 2)
    f.outputs(p[columns - 1])
    p.store_in([i - i])
    p.split(i, 4, i0, i1)
    p.interchange(i0, i1)
    return f


def test_conflicts_in_another_order_are_no_fault_where_the_values_are_right() -> None:
    """The test of dependences is sufficient, not necessary."""
    report = overlaid(8).check()
    assert report.ok, report
    assert not judge(overlaid(8).program, {})


def test_conflicts_in_another_order_are_a_fault_where_a_value_is_lost() -> None:
    f = overlaid(7)
    violation = f.check().violations[0]
    assert violation.kind == "overwritten"
    assert (violation.witness.writer, violation.witness.reader) == (("p", (3,)), ("p_out", ()))
    assert judge(f.program, {})

"""skew_for and bands: the least skews and shifts, beside a search by brute force; and what they make of recurrences."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.oracle.judges.judge import judge
from tests.programs import pipelines as pl
from tests.programs.drafts import texts

T, N, M = tm.params("T N M")
t, i, j, k = tm.iters("t i j k")
t0, i0, t1, i1 = tm.iters("t0 i0 t1 i1")
Handles = tuple[tm.Function, list[Any]]
RNG = np.random.default_rng(0)


def stencil(dims: tuple[Any, ...], reads: Sequence[tuple[int, ...]], place: Callable[..., list[Any]]) -> Handles:
    """A recurrence in time over a grid with a fixed border, stored at ``place(t, *dims)``."""
    f = tm.Function("stencil", params=[T, N], assume="T >= 1 and N >= 3")
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
    return f, [h]


def jacobi() -> Handles:
    reads = [(-1, 0, 0), (-1, -1, 0), (-1, 1, 0), (-1, 0, -1), (-1, 0, 1)]
    return stencil((i, j), reads, lambda t, i, j: [t % 2, i, j])


def seidel() -> Handles:
    around = list(product((-1, 0, 1), repeat=2))
    reads = [(0, *o) for o in around if o < (0, 0)] + [(-1, *o) for o in around if o >= (0, 0)]
    return stencil((i, j), reads, lambda t, i, j: [i, j])


def heat() -> Handles:
    axes = [(0, 0, 0), (1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1)]
    return stencil((i, j, k), [(-1, *o) for o in axes], lambda t, i, j, k: [t % 2, i, j, k])


def two_arrays() -> Handles:
    """Jacobi as PolyBench has it: two statements, each reads the array of the other, and both arrays are in place."""
    f = tm.Function("two_arrays", params=[T, N], assume="T >= 1 and N >= 3")
    a, edge = f.input("a", tm.float64, [N]), (i == 0) | (i == N - 1)
    with f.together() as g:
        A = g.computation(
            "A",
            {t: T + 1, i: N},
            lambda: tm.select(
                t == 0, a[i], tm.select(edge, A[t - 1, i], (B[t - 1, i - 1] + B[t - 1, i] + B[t - 1, i + 1]) / 3)
            ),
        )
        B = g.computation(
            "B", {t: T, i: N}, lambda: tm.select(edge, A[t, i], (A[t, i - 1] + A[t, i] + A[t, i + 1]) / 3)
        )
    f.outputs(f.computation("out", {i: N}, A[T, i]))
    A.fold(t, 1)
    B.fold(t, 1)
    return f, [A, B]  # fmt: skip


def fdtd() -> Handles:
    """Three fields that read each other, each of them in place."""
    f = tm.Function("fdtd", params=[T, N, M], assume="T >= 1 and N >= 2 and M >= 2")
    x, y, z = (f.input(name, tm.float64, [N, M]) for name in "xyz")
    with f.together() as g:
        ey = g.computation(
            "ey",
            {t: T + 1, i: N, j: M},
            lambda: tm.select(
                t == 0, y[i, j], tm.select(i == 0, 0.5, ey[t - 1, i, j] - 0.5 * (hz[t - 1, i, j] - hz[t - 1, i - 1, j]))
            ),
        )
        ex = g.computation(
            "ex",
            {t: T + 1, i: N, j: M},
            lambda: tm.select(
                t == 0,
                x[i, j],
                tm.select(j == 0, ex[t - 1, i, j], ex[t - 1, i, j] - 0.5 * (hz[t - 1, i, j] - hz[t - 1, i, j - 1])),
            ),
        )
        hz = g.computation(
            "hz",
            {t: T + 1, i: N, j: M},
            lambda: tm.select(
                t == 0,
                z[i, j],
                tm.select(
                    (i == N - 1) | (j == M - 1),
                    hz[t - 1, i, j],
                    hz[t - 1, i, j] - 0.7 * (ex[t, i, j + 1] - ex[t, i, j] + ey[t, i + 1, j] - ey[t, i, j]),
                ),
            ),
        )
    f.outputs(*(f.computation(f"o{n}", {i: N, j: M}, v[T, i, j]) for n, v in (("x", ex), ("y", ey), ("z", hz))))
    for field in (ey, ex, hz):
        field.fold(t, 1)
    return f, [ey, ex, hz]  # fmt: skip


def alignment() -> Handles:
    """Smith and Waterman's alignment of two sequences."""
    f = tm.Function("alignment", params=[N, M])
    a, b = f.input("a", tm.int32, [N]), f.input("b", tm.int32, [M])
    h = f.computation(
        "h",
        {i: N + 1, j: M + 1},
        lambda h: tm.select(
            (i == 0) | (j == 0),
            0,
            tm.maximum(
                tm.maximum(0, h[i - 1, j - 1] + tm.select(a[i - 1] == b[j - 1], 2, -1)),
                tm.maximum(h[i - 1, j] - 1, h[i, j - 1] - 1),
            ),
        ),
    )
    f.outputs(h)
    return f, [h]  # fmt: skip


def pairs() -> Handles:
    """Nussinov's folding of a sequence: both the values and the reduction run over a triangle, rows backwards."""
    f = tm.Function("pairs", params=[N])
    s = f.input("s", tm.int32, [N])
    with f.together() as g:
        m = g.reduction("m", {i: N, j: (i, N)}, {k: (i, j)}, tm.max, lambda: v[i, k] + v[k + 1, j])
        v = g.computation(
            "v",
            {i: N, j: (i, N)},
            lambda: tm.select(
                i == j,
                0,
                tm.maximum(
                    m[i, j],
                    tm.maximum(
                        v[i + 1, j], tm.select(i < j - 1, v[i + 1, j - 1] + tm.cast(tm.int32, s[i] + s[j] == 3), 0)
                    ),
                ),
            ),
        )
    f.outputs(v)
    return f, [m, v]  # fmt: skip


GRID = [{"T": steps, "N": n} for steps in (1, 4, 9) for n in (3, 5, 17)]
STORIES: dict[str, tuple[Callable[[], Handles], list[Any], tuple[str, ...], list[dict[str, int]]]] = {
    "jacobi": (jacobi, [t, i, j], ("h.skew(t, i, 1)", "h.skew(t, j, 1)"), GRID),
    "seidel": (seidel, [t, i, j], ("h.skew(t, i, 1)", "h.skew({t: 1, i: 1}, j)"), GRID),
    "heat": (heat, [t, i, j, k], ("h.skew(t, i, 1)", "h.skew(t, j, 1)", "h.skew(t, k, 1)"), GRID[:5]),
    "two arrays": (two_arrays, [t, i], ("B.fuse(A, i)", "B.shift(i, 1)", "A.skew(t, i, 2)"), GRID),
    "fdtd": (fdtd, [t, i, j], (
        "ex.fuse(ey, j)", "hz.fuse(ey, j)", "hz.shift(i, 1)", "ey.skew(t, i, 1)", "hz.shift(j, 1)", "ey.skew(t, j, 1)",
    ), [{"T": 1, "N": 2, "M": 2}, {"T": 5, "N": 7, "M": 3}, {"T": 9, "N": 17, "M": 5}]),
    "alignment": (alignment, [i, j], (), [{"N": n, "M": m} for n in (0, 1, 5, 17) for m in (0, 1, 7, 16)]),
    "pairs": (pairs, [i, j], (), [{"N": n} for n in (0, 1, 2, 7, 17)]),
}  # fmt: skip


def agrees(f: tm.Function, sizes: dict[str, int]) -> None:
    arrays: dict[str, Any] = {}
    for declared in f.algorithm.inputs.values():
        shape = [eval(str(extent), {}, sizes) for extent in declared.shape]
        drawn = RNG.integers(0, 4, shape) if declared.dtype is tm.int32 else RNG.standard_normal(shape)
        arrays[declared.name] = drawn.astype(declared.dtype.numpy)
    got = f.compile()(**{name: array.copy() for name, array in arrays.items()}, **sizes)
    np.testing.assert_array_equal(got, f.evaluate(**arrays, **sizes), err_msg=str(sizes))


@pytest.mark.parametrize("name", STORIES)
def test_a_recurrence_is_skewed_as_little_as_its_dependences_need_and_tiled(name: str) -> None:
    made, loops, wanted, sizes = STORIES[name]
    f, handles = made()
    before = len(f.commands)
    band = f.schedule(*handles).skew_for(tm.LOCALITY)
    assert tuple(map(str, band.commands)) == wanted == texts(f)[before:]
    assert band.loops == tuple(loop.name for loop in loops)
    handles[-1].tile(dict.fromkeys(loops, 4))
    report = f.check()
    assert report.ok, report
    for each in sizes:
        agrees(f, each)


@pytest.mark.parametrize("name", STORIES)
def test_a_wavefront_of_tiles_runs_on_threads(name: str) -> None:
    made, loops, wanted, sizes = STORIES[name]
    f, handles = made()
    band = f.schedule(*handles).skew_for(tm.PARALLEL, tiles=dict.fromkeys(loops, 4) if name != "pairs" else None)
    first, second = (f"{loop}{'0' if name != 'pairs' else ''}" for loop in loops[:2])
    assert str(band.commands[-2]).endswith(f".transform([{first}, {second}], [[1, 1], [0, 1]], [wave, {second}])")
    assert str(band.commands[-1]).endswith(f".parallelize({second})")
    assert band.threads == second
    assert len(band.commands) == len(wanted) + (3 if name != "pairs" else 2)
    report = f.check()
    assert report.ok, report
    for each in sizes[-2:]:
        agrees(f, each)


def test_a_function_takes_skew_for_for_all_computations_that_have_the_loops() -> None:
    (f, handles), (g, others) = fdtd(), fdtd()
    band = f.skew_for(tm.LOCALITY, t, i, tiles={t: 4, i: 8})
    assert str(band) == str(g.schedule(*others).skew_for(tm.LOCALITY, t, i, tiles={t: 4, i: 8}))
    assert f.check().ok and len(handles) > 1
    before = f.program
    with pytest.raises(tm.CommandError, match="no computation has the loops k, q"):
        f.skew_for(tm.LOCALITY, k, tm.iters("q")[0])
    with pytest.raises(tm.CommandError, match="share no loop: name the loops of the band"):
        f.skew_for(tm.LOCALITY)
    assert f.program is before


def test_a_group_that_shares_its_steps_is_fused_and_shifted_inside_of_them() -> None:
    f, (ey, ex, hz) = fdtd()
    ex.fuse(ey, i)
    hz.fuse(ex, i, shift=True)
    assert "hz.shift(i, 1)" in texts(f)
    assert f.check().ok


def test_a_loop_that_is_parallel_as_it_stands_needs_no_skew() -> None:
    f, (h,) = jacobi()
    assert str(h.skew_for(tm.PARALLEL)) == "h.parallelize(i)"
    assert f.check().ok


def test_a_loop_without_dependences_is_moved_outside_of_the_tiles_that_have_some() -> None:
    f = tm.Function("columns", params=[N, M])
    a = f.input("a", tm.int32, [N, M])
    s = f.computation("s", {i: N, j: M}, lambda s: tm.select(i == 0, a[i, j], s[i - 1, j] + a[i, j]))
    f.outputs(s)
    band = s.skew_for(tm.PARALLEL, tiles={i: 4, j: 8})
    assert band.independent == (False, True)
    assert str(band) == "s.tile({i: 4, j: 8})\ns.reorder(j0, i0)\ns.parallelize(j0)"
    assert f.check().ok
    agrees(f, {"N": 9, "M": 17})


def test_terms_of_a_sum_are_tiled_and_do_not_run_on_threads() -> None:
    s = pl.matmul()
    band = s.C.update.band()
    assert band.loops == ("i", "j", "k")
    assert band.commands == ()
    assert band.independent == band.parallel == (True, True, False)
    assert str(s.C.update.skew_for(tm.PARALLEL)) == "C.update.parallelize(i)"


def test_rows_that_read_the_next_column_of_the_row_above_are_reversed() -> None:
    """x reads ``x[i - 1, j + 1]`` and ``x[i, j + 1]``: no skew of j helps, its direction does."""
    f = tm.Function("back", params=[N, M])
    a = f.input("a", tm.int32, [N, M])
    x = f.computation("x", {i: N, j: M}, lambda x: tm.select(
        (i == 0) | (j == M - 1), a[i, j], x[i - 1, j + 1] + x[i, j + 1]))  # fmt: skip
    f.outputs(x)
    assert f.program.origin.turned
    x.reverse(j)
    band = x.skew_for(tm.LOCALITY, tiles={i: 3, j: 4})
    assert band.turned == ("j",)
    assert f.check().ok
    agrees(f, {"N": 7, "M": 9})


# -- beside a search by brute force


def drawn(seed: int) -> tuple[int, list[tuple[int, ...]]]:
    """A number of loops and distances of dependences, each of them lexicographically positive."""
    choice = random.Random(seed)
    count = choice.choice((2, 3))
    found: set[tuple[int, ...]] = set()
    while len(found) < choice.randint(1, 4):
        distance = tuple(choice.randint(-2, 2) for _ in range(count))
        if distance > (0,) * count:
            found.add(distance)
    return count, sorted(found)


def least_factors(count: int, distances: list[tuple[int, ...]]) -> list[tuple[int, ...]] | None:
    """The least factors of each loop by trying them all; None if some loop needs another direction."""
    moved, chosen = [list(d) for d in distances], list[tuple[int, ...]]()
    for at in range(count):
        fits = [
            by
            for by in product(range(9), repeat=at)
            if all(d[at] + sum(f * x for f, x in zip(by, d, strict=False)) >= 0 for d in moved)
        ]
        if not fits:
            return None
        chosen.append(min(fits, key=lambda by: (sum(by[1:]), by)))
        for d in moved:
            d[at] += sum(f * x for f, x in zip(chosen[-1], d, strict=False))
    return chosen


@pytest.mark.parametrize("seed", range(40))
def test_factors_are_the_least_that_brute_force_finds(seed: int) -> None:
    count, distances = drawn(seed)
    dims = (i, j, k)[:count]
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [N] * count)

    def value(x: Any) -> Any:
        total = a[dims]
        for distance in distances:
            at = [dim - by for dim, by in zip(dims, distance, strict=True)]
            inside = at[0] >= 0
            for each in at:
                inside = inside & (each >= 0) & (each < N)
            total = tm.select(inside, total + x[tuple(at)], total)
        return total

    x = f.computation("x", dict.fromkeys(dims, N), value)
    f.outputs(x)
    wanted = least_factors(count, distances)
    band = x.band()
    if wanted is not None and not f.program.origin.turned:
        assert list(band.factors) == wanted
    x.skew_for(tm.LOCALITY, tiles=dict.fromkeys(dims[: len(band.loops)], 2))
    assert f.check().ok, (distances, f.commands)
    assert not judge(f.program, {"N": 5})


# -- what is refused


def test_what_is_no_band_is_refused_with_two_iterations() -> None:
    f = tm.Function("paths", params=[N])
    a = f.input("a", tm.int32, [N, N])
    d = f.computation("d", {k: N + 1, i: N, j: N}, lambda d: tm.select(
        k == 0, a[i, j], tm.minimum(d[k - 1, i, j], d[k - 1, i, k - 1] + d[k - 1, k - 1, j])))  # fmt: skip
    f.outputs(f.computation("o", {i: N, j: N}, d[N, i, j]))
    assert d.band().loops == ("k",)
    before = f.program
    words = (
        "k, i, j are no band: d in iteration 2, 0, 0 needs d of iteration 1, 1, 0, N = 2, and no constant skew or "
        "shift of i keeps all such pairs in order; name fewer loops, k"
    )
    with pytest.raises(tm.CommandError, match=words):
        d.skew_for(tm.LOCALITY, k, i, j)
    assert f.program is before


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (lambda h: h.skew_for("parallel"), r"'parallel' is no goal: choose tm\.LOCALITY or tm\.PARALLEL"),
        (lambda h: h.skew_for(tm.LOCALITY, t, k), "and no loop k"),
        (lambda h: h.skew_for(tm.LOCALITY, t, j), "name loops that follow one another, not t, j"),
        (lambda h: h.skew_for(tm.LOCALITY, tiles={k: 4}), "k is not in the band of t, i, j"),
        (lambda h: h.skew_for(tm.LOCALITY, tiles={t: 0}), "the block size of t is 0"),
        (lambda h: h.skew_for(tm.PARALLEL, tiles={t: 0}), "the block size of t is 0"),
        (lambda h: h.skew_for(tm.LOCALITY, tiles=4), "tiles=4: give a dict"),
        (lambda h: h.transform([t, i], [[1, 1]]), "the matrix has rows with 2 numbers: t, i need 2 rows with 2"),
        (
            lambda h: h.skew_for(tm.PARALLEL, tiles={t: 4}),
            "needs two loops of the band of t, i, j: tile two",
        ),
    ],
)
def test_a_wrong_use_says_what_is_wrong_and_changes_nothing(command: Callable[[Any], Any], words: str) -> None:
    f, (h,) = seidel()
    before = f.program
    with pytest.raises(tm.CommandError, match=words):
        command(h)
    assert f.program is before


def too_little_skewed() -> tm.Function:
    f, (A, B) = two_arrays()
    B.fuse(A, i).shift(i, 1)
    A.skew(t, i, 1)
    A.tile({t: 2, i: 3})
    return f


def not_shifted() -> tm.Function:
    f, (A, B) = two_arrays()
    B.fuse(A, i)
    return f


def interchanged() -> tm.Function:
    f, (h,) = alignment()
    h.transform([i, j], [[0, 1], [-1, 0]])
    return f


def parallel_in_tiles() -> tm.Function:
    f, (h,) = alignment()
    h.tile({i: 2, j: 2}).parallelize(i0)
    return f


def carried() -> tm.Function:
    f, (h,) = seidel()
    h.parallelize(j)
    return f


def small_fold() -> tm.Function:
    f, (h,) = stencil((i,), [(-1, -1), (-1, 0), (-1, 1)], lambda t, i: [t % 2, i])
    h.store_in([i])
    return f


@pytest.mark.parametrize(
    ("made", "kind", "sizes"),
    [
        (too_little_skewed, "order", {"T": 1, "N": 3}),
        (not_shifted, "order", {"T": 1, "N": 3}),
        (interchanged, "order", {"N": 1, "M": 1}),
        (parallel_in_tiles, "race", {"N": 2, "M": 1}),
        (carried, "race", {"T": 1, "N": 3}),
        (small_fold, "overwritten", {"T": 1, "N": 4}),
    ],
)
def test_other_skews_shifts_folds_and_parallel_loops_are_refused_at_the_least_sizes(
    made: Callable[[], tm.Function], kind: str, sizes: dict[str, int]
) -> None:
    f = made()
    violation = f.check().violations[0]
    assert violation.kind == kind
    assert dict(violation.witness.params) == sizes
    assert judge(f.program, sizes)


def test_a_matrix_may_be_an_array() -> None:
    (f, (h,)), (g, (other,)) = seidel(), seidel()
    h.transform([t, i], np.array([[1, 0], [1, 1]]))
    other.transform([t, i], [[1, 0], [1, 1]])
    assert str(f.show("pseudocode")) == str(g.show("pseudocode"))

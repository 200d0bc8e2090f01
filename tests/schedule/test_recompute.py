"""recompute: the bits of the program that keeps all levels, the memory of the levels kept, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.disks import on_disk
from tiramisu_py.proof.theorem import check

N, T = tm.params("N T")
i, t, s, r = tm.iters("i t s r")


def rod() -> tm.Function:
    """The gradient of the last level of a nonlinear rod, by its coefficients and its first level."""
    f = tm.Function("rod", params=[T, N], assume="T >= 0 and N >= 4")
    u0, c = f.input("u0", tm.float64, [N]), f.input("c", tm.float64, [N])
    inside = (i >= 1) & (i < N - 1)

    def level(u: Any) -> Any:
        step = u[t - 1, i] + c[i] * u[t - 1, i] * (u[t - 1, i - 1] - 2 * u[t - 1, i] + u[t - 1, i + 1])
        return tm.select(t == 0, u0[i], tm.select(inside, step, u[t - 1, i]))

    u = f.computation("u", {t: T + 1, i: N}, level)
    f.outputs(f.computation("last", {i: N}, u[T, i]))
    return tm.vjp(f).step


def wave() -> tm.Function:
    """The gradient of the energy of a wave, whose levels read two levels before."""
    f = tm.Function("wave", params=[T, N], assume="T >= 0 and N >= 4")
    first, c = f.input("first", tm.float64, [N]), f.input("c", tm.float64, [N])
    inside = (i >= 1) & (i < N - 1)

    def level(u: Any) -> Any:
        step = 2 * u[t - 1, i] - u[t - 2, i] + c[i] * (u[t - 1, i - 1] - 2 * u[t - 1, i] + u[t - 1, i + 1])
        return tm.select(t <= 1, first[i], tm.select(inside, step, 0))

    u = f.computation("u", {t: T + 2, i: N}, level)
    f.outputs(f.reduction("energy", {t: T + 2}, {i: N}, tm.sum, u[t, i] * u[t, i]))
    return tm.vjp(f, wrt=["c"]).step


def rescaled() -> tm.Function:
    """Levels that are read again in their own order, two at a time, once the last one is known."""
    f = tm.Function("rescaled", params=[T, N], assume="T >= 0 and N >= 1")
    first = f.input("first", tm.float64, [N])
    u = f.computation("u", {t: T + 2, i: N}, lambda u: tm.select(t == 0, first[i], u[t - 1, i] * 1.25 + i))
    top = f.computation("top", {i: N}, u[T + 1, i])
    f.outputs(f.computation("y", {t: T + 1, i: N}, (u[t + 1, i] - u[t, i]) / top[i]))
    return f


PROGRAMS = {"rod": rod, "wave": wave, "rescaled": rescaled}


def arguments(f: tm.Function, size: int, steps: int) -> dict[str, Any]:
    rng = np.random.default_rng(size + steps)
    shapes = {"d_energy": (steps + 2,)}
    arrays = {one: 0.1 * rng.random(shapes.get(one, (size,))) for one in f.algorithm.inputs}
    return {**arrays, "T": steps}


def same(f: tm.Function, g: tm.Function, sizes: Sequence[tuple[int, int]]) -> None:
    """Both functions have the same bits, compiled, and those of evaluate() of the schedule."""
    a, b = f.compile(), g.compile()
    for size, steps in sizes:
        given = arguments(f, size, steps)
        expected, found = a(**given), b(**given)
        expected, found = (each if isinstance(each, tuple) else (each,) for each in (expected, found))
        for one, other in zip(expected, found, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("every", [3, pytest.param(7, marks=pytest.mark.slow)])
def test_the_bits_are_those_of_all_levels_kept(name: str, every: int) -> None:
    kept, again = PROGRAMS[name](), PROGRAMS[name]()
    again["u"].recompute(t, every=every)
    assert again.check().ok, again.check()
    assert "bits preserved" in str(again.check())
    same(kept, again, [(4, 0), (5, 1), (4, every - 1), (9, every), (6, 2 * every + 1)])


@pytest.mark.parametrize(
    ("name", "every"),
    [
        ("rod", (6, 3)),
        pytest.param("wave", (6, 3), marks=pytest.mark.slow),
        pytest.param("rescaled", (4, 2), marks=pytest.mark.slow),
        pytest.param("rod", (12, 6, 2), marks=pytest.mark.slow),
        pytest.param("wave", (24, 6, 3), marks=pytest.mark.slow),
    ],
)
def test_segments_in_segments_have_the_same_bits(name: str, every: tuple[int, ...]) -> None:
    kept, again = PROGRAMS[name](), PROGRAMS[name]()
    again["u"].recompute(t, every=every)
    assert again.check().ok, again.check()
    assert "bits preserved" in str(again.check())
    outer = every[0]
    same(kept, again, [(4, 0), (5, 1), (4, every[-1]), (9, outer - 1), (6, outer), (5, 2 * outer + every[-1])])


def test_segments_in_segments_hold_the_levels_of_each_depth() -> None:
    again = rod()
    again["u"].recompute(t, every=(100, 10))
    again["d_u"].fold(t, 11)
    level = 8 * 50
    held = 10 + 10 + 10 + 2  # each 100th of a thousand, each 10th of a hundred, and ten; two to find these
    assert again.cost("memory", T=999, N=50).peak == (held + 11) * level  # d_u has 11
    counted = {one.name: one.instances for one in again.cost(T=999, N=50).statements}
    assert counted["u"] == 1000 * 50 and counted["u_kept"] == 10 * 50 and counted["u_kept2"] == 10 * 9 * 50
    assert counted["u_between"] == 10 * 90 * 50  # to the last level that is kept in a segment
    assert counted["u_again"] == (10 * 10 * 9 - 1) * 50  # nothing reads the last level but what it is computed for


def test_a_segment_in_a_segment_that_is_folded_too_far_is_refused() -> None:
    f = rod()
    f["u"].recompute(t, every=(12, 4))
    f["d_u"].fold(t, 4)
    report = f.check()
    assert not report.ok and report.violations[0].kind == "overwritten"


def test_few_levels_are_held() -> None:
    kept, again = rod(), rod()
    again["u"].recompute(t, every=10)
    level, sizes = 8 * 1000, {"T": 99, "N": 1000}
    adjoint = 100 * level  # d_u, which takes the turn of u
    assert kept.cost("memory", **sizes).peak == 100 * level + adjoint
    assert again.cost("memory", **sizes).peak == (10 + 10) * level + adjoint
    again["d_u"].fold(t, 11)
    assert again.check().ok and again.cost("memory", **sizes).peak == (10 + 10 + 11) * level
    same(kept, again, [(4, 3), (6, 23)])


def test_each_level_is_computed_twice() -> None:
    again = wave()
    again["u"].recompute(t, every=10)
    counted = {one.name: one.instances for one in again.cost(T=98, N=50).statements}
    assert counted["u"] == 100 * 50
    assert counted["u_kept"] == 2 * 10 * 50  # two levels of each ten
    assert counted["u_kept"] + counted["u_again"] in range(98 * 50, 100 * 50 + 1)


@pytest.mark.slow
def test_later_commands_are_for_both() -> None:
    kept, again = rod(), rod()
    again["u"].recompute(t, every=4).parallelize(i)
    assert str(again.show("lowered")).count("parallel") >= 2
    same(kept, again, [(5, 9)])


@pytest.mark.slow
def test_parts_of_a_recurrence_are_computed_again_by_their_parts() -> None:
    kept, again = rod(), rod()
    again["u"].separate_at(t, [1])
    again["u"].recompute(t, every=4)
    assert again.check().ok, again.check()
    same(kept, again, [(5, 0), (5, 9)])


def pair() -> tm.Function:
    """The gradient of two recurrences, of which one sum reads both."""
    f = tm.Function("pair", params=[T, N], assume="T >= 1 and N >= 2")
    c = f.input("c", tm.float64, [N])
    u = f.computation("u", {t: T + 1, i: N}, lambda u: tm.select(t == 0, c[i], u[t - 1, i] * (1 - c[i] * u[t - 1, i])))
    v = f.computation("v", {t: T + 1, i: N}, lambda v: tm.select(t == 0, 1, v[t - 1, i] * (c[i] + v[t - 1, i])))
    f.outputs(f.computation("last", {i: N}, u[T, i] + v[T, i]))
    return tm.vjp(f, wrt=["c"]).step


def test_recurrences_that_one_loop_reads_share_their_segments() -> None:
    kept, again = pair(), pair()
    again["u"].recompute(t, every=3)
    with pytest.raises(tm.CommandError, match="computed again in the same segments, every= alike"):
        again["v"].recompute(t, every=4)
    again["v"].recompute(t, every=3)
    again["d_u"].fold(t, 4)
    again["d_v"].fold(t, 4)
    assert again.check().ok and str(again.show("lowered")).count("for t_segment") == 1
    same(kept, again, [(2, 1), (5, 10)])


@pytest.mark.slow
def test_recurrences_share_segments_in_segments() -> None:
    kept, again = pair(), pair()
    again["u"].recompute(t, every=(6, 3))
    again["v"].recompute(t, every=(6, 3))
    again["d_u"].fold(t, 4)
    again["d_v"].fold(t, 4)
    assert again.check().ok and str(again.show("lowered")).count("for t_segment2") == 1
    same(kept, again, [(2, 1), (5, 10), (3, 20)])


@pytest.mark.slow
def test_a_nest_that_reads_later_has_segments_of_its_own() -> None:
    f = tm.Function("two", params=[T, N], assume="T >= 0 and N >= 1")
    first = f.input("first", tm.float64, [N])
    u = f.computation("u", {t: T + 1, i: N}, lambda u: tm.select(t == 0, first[i], u[t - 1, i] * 1.25 + i))
    top = f.computation("top", {i: N}, u[T, i])
    y = f.computation("y", {t: T + 1, i: N}, u[t, i] - top[i])
    total = f.reduction("total", {i: N}, {t: T + 1}, tm.sum, y[t, i])
    f.outputs(f.computation("z", {t: T + 1, i: N}, u[t, i] / total[i]))
    kept = f.copy()
    u.recompute(t, every=5)
    assert f.check().ok, f.check()
    assert {"u_again", "u_again2"} <= {one.name for one in f.cost(T=9, N=4).statements}
    same(kept, f, [(4, 0), (3, 13)])


@pytest.mark.slow
@pytest.mark.parametrize("every", [6, (6, 2), [6, 2]])
def test_files_hold_the_command(tmp_path: Any, every: Any) -> None:
    f = rod()
    f["u"].recompute(t, every=every)
    f.save(tmp_path / "rod.json")
    assert str(tm.load(tmp_path / "rod.json").show("lowered")) == str(f.show("lowered"))


# -- what is refused


def scaled() -> tm.Function:
    """No recurrence, and a recurrence that is returned."""
    f = tm.Function("scaled", params=[T, N])
    a = f.input("a", tm.float64, [T, N])
    f.computation("p", {t: T, i: N}, a[t, i] * 2)
    q = f.computation("q", {t: T, i: N}, lambda q: tm.select(t == 0, a[t, i], q[t - 1, i] * 2))
    f.outputs(q, f.computation("y", {t: T, i: N}, f["p"][T - 1 - t, i] + q[T - 1 - t, i]))
    return f


def soon() -> tm.Function:
    """A recurrence that is read as it goes along."""
    f = tm.Function("soon", params=[T, N])
    a = f.input("a", tm.float64, [N])
    u = f.computation("u", {t: T + 1, i: N}, lambda u: tm.select(t == 0, a[i], u[t - 1, i] * 2))
    f.outputs(f.computation("y", {i: N}, u[T, i]))
    return f


def backwards() -> tm.Function:
    f = tm.Function("back", params=[T, N])
    a = f.input("a", tm.float64, [N])
    u = f.computation("u", {t: T + 1, i: N}, lambda u: tm.select(t == T, a[i], u[t + 1, i] * 2))
    f.outputs(f.computation("y", {t: T + 1, i: N}, u[T - t, i]))
    return f


def anywhere() -> tm.Function:
    f = tm.Function("any", params=[T, N])
    a, at = f.input("a", tm.float64, [N]), f.input("at", tm.int64, [N], values=(0, T + 1))
    u = f.computation("u", {t: T + 1, i: N}, lambda u: tm.select(t == 0, a[i], u[t - 1, i] * 2))
    f.outputs(f.computation("y", {i: N}, u[at[i], i]))
    return f


def mirrored() -> tm.Function:
    f = tm.Function("mirrored", params=[T, N], assume="T >= 0 and N >= 1")
    a = f.input("a", tm.float64, [N])
    u = f.computation("u", {t: T + 1, i: N}, lambda u: tm.select(t == 0, a[i], u[t - 1, i] * 2))
    f.outputs(f.computation("y", {t: T + 1, i: N}, u[T - t, i] * 3))
    return f


def together(is_one: bool = False) -> tm.Function:
    """Two values that read each other's last level, as a group or as one recurrence; all are read again, last first."""
    f = tm.Function("both", params=[T, N], assume="T >= 0 and N >= 1")
    a = f.input("a", tm.float64, [N])

    def first(v: tm.Expr) -> tm.Expr:
        return tm.select(t == 0, a[i], v * 2)

    def second(u: tm.Expr) -> tm.Expr:
        return tm.select(t == 0, a[i], u + 1)

    if is_one:
        pair = f.computation("u", {t: T + 1, i: N}, lambda u: (first(u[t - 1, i][1]), second(u[t - 1, i][0])))
        read = pair[t, i][0]
    else:
        with f.together() as g:
            u = g.computation("u", {t: T + 1, i: N}, lambda: first(v[t - 1, i]), dtype=tm.float64)
            v = g.computation("v", {t: T + 1, i: N}, lambda: second(u[t - 1, i]), dtype=tm.float64)
        read = u[t, i]
    f.outputs(f.computation("y", {t: T + 1, i: N}, read * 3))
    f["y"].reverse(t)
    return f


REFUSED = [
    (scaled, "p", t, 4, "p is no recurrence along t: no value reads another level of p"),
    (scaled, "q", t, 4, "q is in the caller's array q, which keeps all its levels"),
    (rod, "u", t, 1, "every is 1: give an integer of at least 2"),
    (wave, "u", t, 2, "a value of u reads 2 levels, so that 2 of each 2 would be kept; give every=3 or more"),
    (wave, "u", t, (6, 2), "every=2: a value of u reads 2 levels, so that 2 of each 2 would be kept"),
    (rod, "u", t, (10, 4), r"every=\(10, 4\): segments of 4 levels do not divide one of 10; .* every=\(16, 4\)"),
    (rod, "u", t, (4, 4), "segments of 4 levels do not divide one of 4"),
    (rod, "u", t, (8, 1), "every is 1: give an integer of at least 2"),
    (rod, "u", t, (), r"every=\(\) has no number of levels: give every=20"),
    (rod, "u", i, 4, "u does not recur along i alone"),
    (rod, "u", r, 4, "r is not an index of u: choose one of t, i"),
    (rod, "d_c", i, 4, "d_c is a reduction"),
    (soon, "u", t, 4, r"nothing reads levels of u long after they are computed: u.fold\(t, 2\) keeps all"),
    (backwards, "u", t, 4, r"u does not recur along t alone: a value reads level t \+ 1"),
    (anywhere, "u", t, 4, "y reads levels of u that no loop of it walks through"),
    (mirrored, "u", t, 4, r"at constant distances from its index: give it the level .* and reverse\(...\) that loop"),
    (together, "u", t, 4, r"u is computed together with v, .* one recurrence: .* several values, .* u.offload\(t\)"),
    (
        together,
        "v",
        t,
        (8, 4),
        r"v is computed together with u, .* f.computation\('v', ..., lambda v: .* v.offload\(t\)",
    ),
]


@pytest.mark.parametrize(("program", "name", "level", "every", "words"), REFUSED)
def test_what_cannot_be_computed_again_is_refused(
    program: Any, name: str, level: tm.Iter, every: Any, words: str
) -> None:
    f = program()
    with pytest.raises(tm.CommandError, match=words):
        f[name].recompute(level, every=every)
    assert f.check().ok


def test_a_group_is_one_recurrence_of_several_values_or_has_its_levels_in_files() -> None:
    again, stored = together(is_one=True), together()
    again["u"].recompute(t, every=4)
    stored["u"].offload(t)
    a = np.arange(1.0, 4.0)
    one, other = again.compile(), stored.compile(storage="simulator")
    for last in (0, 3, 9):
        u, v = [a], [a]
        for _ in range(last):
            u, v = [*u, v[-1] * 2], [*v, u[-1] + 1]
        for kernel in (one, other):
            np.testing.assert_array_equal(kernel(a=a, T=last), 3 * np.array(u))


def test_a_tiled_recurrence_is_refused_with_the_order_of_commands() -> None:
    f = rod()
    a, b = tm.iters("a b")
    f["u"].split(t, 4, a, b)
    with pytest.raises(tm.CommandError, match=r"no loop of u runs through its levels t.*give recompute before"):
        f["u"].recompute(t, every=4)


def test_levels_that_are_put_in_files_are_not_computed_again() -> None:
    f = rod()
    f["u"].offload(t, ahead=2)
    with pytest.raises(tm.CommandError, match=r"levels of u are copied by u_stored: choose one"):
        f["u"].recompute(t, every=4)
    assert f.check().ok


def test_a_segment_that_is_folded_too_far_is_refused() -> None:
    f = rod()
    f["u"].recompute(t, every=10)
    f["d_u"].fold(t, 10)
    report = f.check()
    assert not report.ok and report.violations[0].kind == "overwritten"


# -- two storages: levels of the whole call in a file, those of a segment in memory


def in_file(every: Any) -> tm.Function:
    f = rod()
    f["u"].recompute(t, every=every, kept=tm.FILE)
    return f


@pytest.mark.parametrize("every", [3, (6, 3)])
def test_levels_kept_in_a_file_have_the_same_bits(tmp_path: Any, every: Any) -> None:
    kept, again = rod(), in_file(every)
    assert again.check().ok, again.check()
    assert "bits preserved" in str(again.check())
    again["d_u"].fold(t, 4)
    outer = every if isinstance(every, int) else every[0]
    a = kept.compile()
    for storage, seed in (("simulator", 1), (on_disk(tmp_path), None)):
        b = again.compile(storage=storage, **({} if seed is None else {"seed": seed}))
        for size, steps in [(4, 0), (5, outer), (6, 2 * outer + 1)]:
            given = arguments(kept, size, steps)
            for one, other in zip(a(**given), b(**given), strict=True):
                np.testing.assert_array_equal(one, other)
    stored = (2 * outer + 1) // outer + 1
    assert b.traffic["u"].stored == stored * 6 * 8
    assert not list(tmp_path.iterdir())


def test_memory_has_the_levels_of_a_segment_alone() -> None:
    again = in_file(10)
    again["d_u"].fold(t, 11)
    level = 8 * 1000
    peaks = again.cost("memory", T=99, N=1000).peaks
    assert peaks["memory"] == (2 + 10 + 11) * level and peaks["files"] == 10 * level
    moved = again.cost("communication", T=99, N=1000)
    assert "u_kept" in str(moved) and "host -> file" in str(moved) and "file -> host" in str(moved)


@pytest.mark.parametrize("name", ["u_kept", "u_again_start"])
@pytest.mark.parametrize("is_there", [False, True])
def test_copies_to_the_file_and_from_it_are_needed_and_waited_for(name: str, is_there: bool) -> None:
    f = in_file(3)
    program = f.completed
    copy = program.statements[name]
    assert copy.link.transfer is not None
    unwaited = replace(copy, link=replace(copy.link, transfer=replace(copy.link.transfer, asynchronous=True)))
    others = {n: s for n, s in program.statements.items() if n != name}
    assert not check(program.with_(statements={**others, name: unwaited} if is_there else others)).ok


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"every": 4, "kept": tm.GPU_MEMORY}, "kept=.*of recompute: levels are kept where the recurrence has its own"),
        (
            {"every": "binomial", "levels": 4, "kept": tm.FILE},
            r"has them in memory: give every=\(100, 10\), kept=tm.FILE",
        ),
    ],
)
def test_other_places_of_kept_levels_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(tm.CommandError, match=words):
        rod()["u"].recompute(t, **given)

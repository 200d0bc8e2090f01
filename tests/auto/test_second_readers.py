"""Recurrences over time that something else reads level by level: few levels are kept, and `explain` says so."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm

T, N, K = tm.params("T N K")
t, z, x, k = tm.iters("t z x k")


def shot(*, energy: bool = False, last: bool = False, levels: int = 2) -> tm.Function:
    """A wave with receivers, which record it at places that the caller chooses."""
    f = tm.Function("shot", params=[T, N, K], assume="N >= 5 and K >= 1")
    a, m = f.input("a", tm.float32, [N, N]), f.input("m", tm.float32, [N, N])
    places = [f.input(name, tm.int32, [K], values=(0, N)) for name in ("rz", "rx")]
    inside = (t >= 2) & (z >= 1) & (z < N - 1) & (x >= 1) & (x < N - 1)

    def wave(u: tm.Computation) -> tm.Expr:
        near = u[t - 1, z - 1, x] + u[t - 1, z + 1, x] + u[t - 1, z, x - 1] + u[t - 1, z, x + 1] - 4 * u[t - 1, z, x]
        before = u[t - 2, z, x] if levels == 2 else u[t - 2, z, x - 1]
        return tm.select(inside, 2 * u[t - 1, z, x] - before + m[z, x] * near, a[z, x])

    u = f.computation("u", {t: T + 2, z: N, x: N}, wave, dtype=tm.float32)
    read = u[T + 1 - t if last else t, places[0][k], places[1][k]]
    results = [f.computation("rec", {t: T + 2, k: K}, read)]
    if energy:
        results.append(f.reduction("energy", {t: T + 2}, {z: N, x: N}, tm.sum, u[t, z, x] * u[t, z, x]))
    f.outputs(*results)
    return f


def arguments() -> dict[str, object]:
    draw = np.random.default_rng(3)
    return {
        "a": draw.random((7, 7), dtype=np.float32), "m": draw.random((7, 7), dtype=np.float32) * np.float32(0.1),
        "rz": draw.integers(0, 7, 5).astype(np.int32), "rx": draw.integers(0, 7, 5).astype(np.int32), "T": 6,
    }  # fmt: skip


def kept(f: tm.Function, of: str) -> int:
    """The bytes of an array at 20 levels of 9 by 9 points."""
    return next(each.bytes for each in f.cost(T=18, N=9, K=4).arrays if each.name == of)


@pytest.mark.parametrize(("energy", "threads"), [(False, 1), (True, 2)])
def test_a_reader_of_each_level_follows_the_recurrence_and_two_levels_are_kept(energy: bool, threads: int) -> None:
    f = shot(energy=energy)
    schedule = f.auto_schedule(target="x86-64-v3", threads=threads)
    texts = [each.text for each in f.commands]
    assert "rec.after(u, t)" in texts and "u.fold(t, 2)" in texts
    assert ("energy.after(u, t)" in texts) is energy
    assert schedule.explain().splitlines()[-1] == "allocates u[2, N, N] of float32"
    assert kept(f, "u") == 2 * 9 * 9 * 4
    given = arguments()
    expected, found = f.evaluate(**given), f.compile(threads=threads)(**given)
    pairs = zip(found, expected, strict=True) if energy else [(found, expected)]
    for mine, right in pairs:
        np.testing.assert_allclose(mine, right, rtol=1e-5)


def test_a_level_that_is_read_beside_its_place_is_kept_apart() -> None:
    f = shot(levels=3)
    assert "u.fold(t, 3)" in str(f.auto_schedule(target="x86-64-v3", threads=1))
    assert kept(f, "u") == 3 * 9 * 9 * 4
    np.testing.assert_allclose(f.compile()(**arguments()), f.evaluate(**arguments()), rtol=1e-5)


def test_what_reads_levels_from_the_last_one_back_needs_all_and_explain_says_so() -> None:
    f = shot(last=True)
    schedule = f.auto_schedule(target="x86-64-v3", threads=1)
    assert "fold" not in str(schedule)
    said = "not few levels of u along t: rec reads u at other levels than its own ones: all levels of u are kept"
    assert said in schedule.explain()
    assert schedule.explain().splitlines()[-1] == "allocates u[T + 2, N, N] of float32"
    assert kept(f, "u") == 20 * 9 * 9 * 4


def test_steps_in_three_dimensions_follow_one_another_only_where_their_planes_fit_the_cache() -> None:
    def made(second: int) -> str:
        f = tm.Function("heat", params=[T, N], assume="N >= 3")
        a = f.input("a", tm.float32, [N, N, N])
        edge = (t == 0) | (z == 0) | (z == N - 1) | (x == 0) | (k == 0)

        def heat(u: tm.Computation) -> tm.Expr:
            return tm.select(
                edge, a[z, x, k], (u[t - 1, z - 1, x, k] + u[t - 1, z + 1, x, k] + u[t - 1, z, x - 1, k]) / 3
            )

        u = f.computation("u", {t: T + 1, z: N, x: N, k: N}, heat, dtype=tm.float32)
        f.outputs(u[T, z, x, k])
        cpu = tm.recipes.Cpu(vector_bytes=32, registers=16, first=32 << 10, second=second, cores=1)
        return str(f.auto_schedule(target=cpu, threads=1))

    assert "u.fold(t, 2)" in made(512 << 10) and "skew" not in made(512 << 10)
    assert "skew" in made(16 << 20)


@pytest.mark.parametrize("energy", [False, True])
def test_a_refused_fold_names_the_commands_that_let_its_readers_follow(energy: bool) -> None:
    f = shot(energy=energy)
    f["u"].fold(t, 3)
    report = f.check()
    assert not report.ok
    wanted = "rec.after(u, t) and energy.after(u, t)" if energy else "rec.after(u, t)"
    assert {each.repair for each in report.violations} == {wanted}
    for command in wanted.split(" and "):
        eval(command, {name: f[name] for name in f.algorithm.computations} | {"t": t})
    assert f.check().ok
    np.testing.assert_allclose(np.asarray(f.compile()(**arguments())[0]), np.asarray(f.evaluate(**arguments())[0]))


def test_no_repair_is_named_where_readers_cannot_follow() -> None:
    f = shot(last=True)
    f["u"].fold(t, 3)
    (violation,) = f.check().violations
    assert "after(" not in violation.repair

"""offload: levels of a recurrence that are read late are in a file meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm
from tests.disks import on_disk
from tests.sanitizers import check_clean
from tiramisu_py import backends, lower, passes, toolchain
from tiramisu_py.algorithm.declarations import Algorithm
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import FILES
from tiramisu_py.proof import check

N, T = tm.params("N T")
i, t, s, i0, i1 = tm.iters("i t s i0 i1")
NUMBERS = np.random.default_rng(0)


def rod(**options: object) -> tm.Function:
    """The gradient of some steps of a nonlinear rod: it reads all levels of u again, backwards, twice."""
    f = tm.Function("rod", params=[T, N], assume="T >= 1 and N >= 4")
    u0, c = f.input("u0", tm.float64, [N]), f.input("c", tm.float64, [N])
    u = f.computation(
        "u", {t: T + 1, i: N},
        lambda u: tm.select(
            t == 0, u0[i],
            tm.select(
                (i >= 1) & (i < N - 1),
                u[t - 1, i] + c[i] * u[t - 1, i] * (u[t - 1, i - 1] - 2 * u[t - 1, i] + u[t - 1, i + 1]),
                u[t - 1, i],
            ),
        ),
    )  # fmt: skip
    f.outputs(f.computation("last", {i: N}, u[T, i]))
    return tm.vjp(f, wrt=["c"]).step


def given(n: int) -> dict[str, np.ndarray]:
    return {"u0": NUMBERS.random(n), "c": 0.1 * NUMBERS.random(n), "d_last": NUMBERS.random(n)}


def backwards(early: int = 1, late: int = 0) -> tm.Function:
    """u looks `early` levels back, and is read backwards, with `late` levels at a time."""
    f = tm.Function("backwards", params=[T, N], assume=f"T >= {early + late + 1} and N >= 1")
    a = f.input("a", tm.float64, [T, N])
    u = f.computation("u", {t: T, i: N}, lambda u: tm.select(t < early, a[t, i], a[t, i] + 0.5 * u[t - early, i]))
    v = f.computation("v", {s: T - late, i: N}, u[T - 1 - s, i] - 0.25 * u[T - 1 - s - late, i])
    f.outputs(v)
    return f


@pytest.mark.parametrize("ahead", [1, 2])
def test_gradients_have_the_bits_of_those_with_all_levels_kept(ahead: int, tmp_path: Path) -> None:
    kept, f = rod(), rod()
    f["u"].offload(t, ahead=ahead)
    assert f.check().ok, f.check()
    folder = on_disk(tmp_path)
    kernel, right = f.compile(storage=folder), kept.compile()
    for steps, n in ((1, 4), (2, 5), (7, 9), (30, 3000)):
        arrays = given(n)
        for one, other in zip(kernel(**arrays, T=steps), right(**arrays, T=steps), strict=True):
            np.testing.assert_array_equal(one, other)
        moved = kernel.traffic["u"]
        assert moved.stored + moved.loaded == f.cost("communication", T=steps, N=n).bytes
        assert moved.stored == steps * n * 8
    assert not os.listdir(folder)


def test_the_ring_in_memory_has_the_levels_that_live() -> None:
    for ahead in (2,):
        f = rod()
        f["u"].offload(t, ahead=ahead)
        kernel = f.compile()
        # all of d_u, and the ring; all levels
        assert kernel.temporary_bytes(T=50, N=1000) == {"memory": (51 + 2 + ahead) * 8000, "files": 51 * 8000}


def test_nests_that_are_fused_share_what_is_fetched() -> None:
    f, arrays = rod(), given(6)
    f["d_c"].update.interchange(i, t)
    f["d_c"].init.before(f["d_u"], tm.root)
    f["d_c"].update.after(f["d_u"], t)
    f["u"].offload(t)
    assert f.check().ok, f.check()
    assert len([name for name in f.program.statements if name.startswith("u_loaded") and "wait" not in name]) == 1
    right = rod().compile()(**arrays, T=9)
    for one, other in zip(f.compile(storage="simulator", seed=0)(**arrays, T=9), right, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("early", "late"), [(1, 0), (2, 0), (1, 3), (3, 1)])
def test_recurrences_that_look_farther_have_longer_rings(early: int, late: int) -> None:
    f = backwards(early, late)
    f["u"].offload(t)
    assert f.check().ok, f.check()
    a = NUMBERS.random((early + late + 4, 5))
    for timing in ("lazy", "shuffled", "eager"):
        kernel = f.compile(storage="simulator", seed=1, timing=timing)
        np.testing.assert_array_equal(kernel(a), f.evaluate(a))
    f.validate(a)


@pytest.mark.parametrize("together", [False, True])
def test_a_loop_that_runs_forwards_reads_levels_forwards(together: bool) -> None:
    f = tm.Function("forwards", params=[T, N], assume="T >= 2 and N >= 1")
    a = f.input("a", tm.float64, [N])
    u = f.computation("u", {t: T, i: N}, lambda u: tm.select(t == 0, a[i], 0.5 * u[t - 1, i] + a[i]))
    f.outputs(f.computation("v", {t: T, i: N}, u[t, i] * (u[T - 1, i] if together else 2)))
    if together:
        with pytest.raises(tm.CommandError, match="needs them in memory together"):
            u.offload(t)
        return
    u.offload(t, ahead=1)
    given = NUMBERS.random(3)
    np.testing.assert_array_equal(f.compile(storage="simulator", seed=0)(given, T=6), f.evaluate(given, T=6))


def test_a_program_may_use_a_gpu_too() -> None:
    f = tm.Function("both", params=[T, N], assume="T >= 3 and N >= 2")
    a = f.input("a", tm.float64, [T, N])
    w = f.computation("w", {i: N}, a[0, i] * 3)
    u = f.computation("u", {t: T, i: N}, lambda u: tm.select(t == 0, w[i], a[t, i] + 0.5 * u[t - 1, i]))
    f.outputs(f.computation("v", {s: T, i: N}, u[T - 1 - s, i] + 1))
    w.split(i, 32, i0, i1)
    w.tag_gpu(blocks=[i0], threads=[i1])
    u.offload(t)
    f.derive_transfers()
    assert f.check().ok, f.check()
    given = NUMBERS.random((6, 50))
    kernel = f.compile(device="simulator", storage="simulator", seed=0)
    np.testing.assert_array_equal(kernel(given), f.evaluate(given))
    assert kernel.traffic["u"].stored == given.nbytes
    assert kernel.traffic["w"].copied == 400


def test_it_is_saved_undone_and_blamed() -> None:
    f = rod()
    before = f.program
    f["u"].offload(t, ahead=3)
    assert f.program.log[-1].text == "u.offload(t, ahead=3)"
    f["u"].fold(t, 3)
    report = f.check()
    assert not report.ok
    assert "u.fold(t, 3)" in str(report)
    assert "u_stored" in str(report)
    f.undo()
    f.undo()
    assert f.program is before


def test_a_certificate_covers_files() -> None:
    found = backwards()
    found["u"].offload(t)
    places = found.certificate()["places"]
    assert places["u_file"]["device"] == FILES


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: rod()["u"].offload(t, ahead=0), "ahead is 0: give an integer of at least 1"),
        (lambda: rod()["u"].offload(s), "s is not an index of u: choose one of t, i"),
        (lambda: rod()["u"].offload(i), "loop t of u does not compute one level i of u after another"),
        (lambda: rod()["last"].offload(i), "nothing reads the levels i of last late"),
        (lambda: rod()["d_c"].update.offload(i), "d_c has one buffer for all of its statements"),
        (lambda: twice_offloaded(), "u is in a file already"),
        (lambda: read_together(), "needs them in memory together"),
        (lambda: as_output(), "u is in the caller's array u"),
        (
            lambda: on_a_gpu(),
            "u runs on GPU 0, and v on the host: levels in a file are computed and read by one of them",
        ),
    ],
)
def test_what_cannot_be_offloaded_is_refused(wrong, words: str) -> None:
    with pytest.raises(tm.CommandError) as refused:
        wrong()
    assert words in str(refused.value)


def twice_offloaded() -> None:
    f = rod()
    f["u"].offload(t)
    f["u"].offload(t)


def read_together() -> None:
    f = tm.Function("f", params=[T, N], assume="T >= 2 and N >= 1")
    u = f.computation("u", {t: T, i: N}, 1.0 * t + i)
    f.outputs(f.computation("v", {i: N}, u[0, i] + u[T - 1, i]))
    u.offload(t)


def as_output() -> None:
    f = backwards()
    f.outputs(f["u"], f["v"], replace=True)
    f["u"].offload(t)


def on_a_gpu() -> None:
    f = backwards()
    b, c = tm.iters("b c")
    f["u"].split(i, 32, b, c)
    f["u"].tag_gpu(blocks=[b], threads=[c])
    f["u"].offload(t)


# -- what is left out is found


def unproven(program: Program, algorithm: Algorithm) -> toolchain.Kernel:
    """A kernel of a program that the proof refuses, on the simulated disk."""
    function = passes.optimise(lower.lower(program, passes.PIPELINE), 16, passes.PIPELINE)
    return toolchain.compile_function(function, backends.emit(function), algorithm, storage="simulator")


@pytest.mark.parametrize("name", ["u_stored", "u_stored_wait", "u_stored_wait2", "u_loaded", "u_loaded_wait"])
def test_each_copy_and_each_wait_is_needed(name: str) -> None:
    f = backwards(late=1)
    f["u"].offload(t)
    program = f.completed
    program = program.with_(statements={n: s for n, s in program.statements.items() if n != name})
    assert not check(program).ok
    a = NUMBERS.random((12, 3))
    right = f.evaluate(a)
    kernel = unproven(program, f.algorithm)
    found = 0
    for seed in range(20):
        try:
            found += not np.array_equal(kernel.seeded(seed)(a), right)
        except tm.KernelError:  # nothing has waited for it in the end
            found += 1
    assert found > 0


def test_no_sanitizer_has_anything_to_say(tmp_path: Path) -> None:
    check_clean("tests.schedule.storage.offload_under_sanitizers", on_disk(tmp_path))

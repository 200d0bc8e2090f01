"""Files of values that a GPU computes and reads: copied by way of page-locked memory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tiramisu_py as tm
from tests.disks import on_disk
from tiramisu_py import backends, lower, passes, toolchain
from tiramisu_py.backends.cuda.kernel_text import signatures
from tiramisu_py.proof import check

N, T = tm.params("N T")
i, t, i0, i1 = tm.iters("i t i0 i1")
NUMBERS = np.random.default_rng(0)


def levels() -> SimpleNamespace:
    """A GPU computes u level by level in the room of one, and reads the levels again, last first."""
    f = tm.Function("levels", params=[T, N], assume="T >= 1 and N >= 1")
    a = f.input("a", tm.float64, [T, N])
    u = f.computation("u", {t: T, i: N}, a[t, i] * 2)
    v = f.computation("v", {t: T, i: N}, u[T - 1 - t, i] + 1)
    f.outputs(v)
    u.fold(t, 1)
    for each in (u, v):
        each.split(i, 32, i0, i1).tag_gpu(blocks=[i0], threads=[i1])
    stored = f.create_xfer({t: T, i: N}, u[t, i], tm.GPU2FILE, tm.ASYNC).collapse_many(i)
    loaded = f.create_xfer({t: T, i: N}, u[T - 1 - t, i], tm.FILE2GPU, tm.ASYNC).collapse_many(i)
    stored.after(u, t)
    v.after(loaded, t)
    return SimpleNamespace(f=f, u=u, v=v, stored=stored, loaded=loaded)


def waiting() -> SimpleNamespace:
    s = levels()
    computed, written, arrived, used = s.u.wait({t: T}), s.stored.wait({t: T}), s.loaded.wait({t: T}), s.v.wait({t: T})
    for before, after in ((s.u, computed), (computed, s.stored), (s.stored, written), (s.loaded, arrived),
                          (arrived, s.v), (s.v, used)):  # fmt: skip
        after.after(before, t)
    s.f.derive_transfers()
    return s


def test_levels_go_from_the_gpu_to_a_file_and_back(tmp_path: Path) -> None:
    s = waiting()
    assert s.f.check().ok, s.f.check()
    folder = on_disk(tmp_path)
    kernel = s.f.compile(device="simulator", storage=folder)
    for shape in ((1, 1), (3, 40), (2, 3000), (2, 140_000)):
        a = NUMBERS.random(shape)
        np.testing.assert_array_equal(kernel(a), s.f.evaluate(a))
        moved = kernel.traffic["u"]
        assert (moved.stored, moved.loaded, moved.copied) == (a.nbytes, a.nbytes, 0)
    assert not os.listdir(folder)
    kept = s.f.cost("communication", T=3, N=4)
    assert {each.direction for each in kept.transfers} >= {"gpu 0 -> file", "file -> gpu 0"}


@pytest.mark.parametrize("timing", ["lazy", "shuffled", "eager"])
def test_the_disk_and_the_gpu_are_simulated(timing: str) -> None:
    s, a = waiting(), NUMBERS.random((5, 70))
    kernel = s.f.compile(device="simulator", storage="simulator", seed=3, timing=timing)
    np.testing.assert_array_equal(kernel(a), s.f.evaluate(a))


def test_they_are_saved_as_commands() -> None:
    log = [command.text for command in waiting().f.program.log]
    assert any("tm.GPU2FILE" in text for text in log), log


@pytest.mark.parametrize("name", ["u_stored", "u_loaded", "u_wait", "u_stored_wait", "u_loaded_wait", "v_wait"])
def test_each_copy_and_each_wait_is_needed(name: str) -> None:
    s = waiting()
    program = s.f.completed
    program = program.with_(statements={n: each for n, each in program.statements.items() if n != name})
    assert not check(program).ok
    a = NUMBERS.random((6, 40))
    right = s.f.evaluate(a)
    function = passes.optimise(lower.lower(program, passes.PIPELINE), 16, passes.PIPELINE)
    kernel = toolchain.compile_function(
        function, backends.emit(function), s.f.algorithm, device="simulator", storage="simulator",
        kernels=signatures(function),
    )  # fmt: skip
    found = 0
    for seed in range(20):
        try:
            found += not np.array_equal(kernel.seeded(seed)(a), right)
        except tm.KernelError:
            found += 1
    assert found > 0


def test_waits_of_queues_and_kernels_for_each_other_are_derived() -> None:
    s = levels()
    assert not s.f.check().ok
    s.f.derive_transfers()
    assert s.f.check().ok, s.f.check()
    a = NUMBERS.random((4, 50))
    for seed in range(6):
        kernel = s.f.compile(device="simulator", storage="simulator", seed=seed)
        np.testing.assert_array_equal(kernel(a), s.f.evaluate(a))


def recurrence() -> tm.Function:
    """A GPU computes levels that look back, and reads them again, last level first."""
    f = tm.Function("recurrence", params=[T, N], assume="T >= 4 and N >= 1")
    a = f.input("a", tm.float64, [T, N])
    u = f.computation("u", {t: T, i: N}, lambda u: tm.select(t < 1, a[t, i], a[t, i] + 0.5 * u[t - 1, i]))
    v = f.computation("v", {t: T, i: N}, u[T - 1 - t, i] + 1)
    f.outputs(v)
    for each in (u, v):
        each.split(i, 32, i0, i1).tag_gpu(blocks=[i0], threads=[i1])
    return f


def test_offload_keeps_a_ring_on_the_gpu(tmp_path: Path) -> None:
    f = recurrence()
    f["u"].offload(t, ahead=1)
    f.derive_transfers()
    assert f.check().ok, f.check()
    a = NUMBERS.random((7, 500))
    for storage in (on_disk(tmp_path), "simulator"):
        kernel = f.compile(device="simulator", storage=storage, seed=1)
        np.testing.assert_array_equal(kernel(a), f.evaluate(a))
        assert kernel.traffic["u"].stored == kernel.traffic["u"].loaded == a.nbytes
    assert kernel.temporary_bytes(T=100, N=1000)["files"] == 800_000
    whole = recurrence()
    whole.derive_transfers()
    kept = whole.compile(device="simulator").temporary_bytes(T=100, N=1000)
    rings = kernel.temporary_bytes(T=100, N=1000)
    assert sum(kept.values()) - sum(rings.values()) + 800_000 >= 97 * 8000, (kept, rings)


def test_files_go_along_with_a_pipeline_of_other_copies() -> None:
    """Inputs come level by level ahead of their kernel, results go, and levels in between are in a file."""
    f = recurrence()
    f["u"].offload(t, ahead=2)
    f.derive_transfers(pipeline=t)
    assert f.check().ok, f.check()
    a = NUMBERS.random((7, 50))
    for seed in range(3):
        kernel = f.compile(device="simulator", storage="simulator", seed=seed)
        np.testing.assert_array_equal(kernel(a), f.evaluate(a))
    moved = kernel.traffic
    assert (moved["a"].copied, moved["v"].copied, moved["u"].stored, moved["u"].loaded) == (a.nbytes,) * 4


def test_the_device_of_a_file_is_that_of_its_kernel() -> None:
    f = tm.Function("f", params=[N])
    u = f.computation("u", {i: N}, 1.0 * i)
    f.outputs(f.computation("v", {i: N}, u[i]))
    f.create_xfer({i: N}, u[i], tm.GPU2FILE, device=1)
    report = f.check()
    assert not report.ok
    assert "u_stored" in str(report), report


@pytest.mark.parametrize(
    "refuses", ["", "move", *(pytest.param(each, marks=pytest.mark.slow) for each in ("start", "open"))]
)
def test_the_gpu_reads_and_writes_files_itself_where_cufile_loads(refuses: str, tmp_path: Path) -> None:
    """By a stand-in of its library, that moves a part of the bytes at a time, or refuses; what it refuses is copied."""
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc")
    tests = Path(__file__).resolve().parents[2]
    source, notes = tests / "backends" / "storage" / "stand_in_cufile.c", tmp_path / "notes"
    made = ["gcc", "-shared", "-fPIC", "-Wall", "-Werror", str(source), "-o", str(tmp_path / "libcufile.so.0")]
    subprocess.run(made, check=True)
    folder = tmp_path / "scratch"
    folder.mkdir()
    notes.touch()
    paths = os.pathsep.join([str(tmp_path), os.environ.get("LD_LIBRARY_PATH", "")])
    around = {**os.environ, "LD_LIBRARY_PATH": paths, "TM_NOTES": str(notes), "TM_REFUSES": refuses}
    program = "tests.schedule.devices.gpu_files_by_cufile"
    subprocess.run([sys.executable, "-m", program, on_disk(folder)], check=True, env=around, cwd=tests.parent)
    assert not os.listdir(folder)
    found = Counter[str]()
    for line in notes.read_text().splitlines():
        found[line.split()[0]] += int(line.split()[1])
    moved = 8 * (2 * 40 + 3 * 3000)
    assert found["read"] == found["write"] == ({"": moved}.get(refuses, 0))
    assert found["open"] == found["close"] == ({"": 2, "move": 2}.get(refuses, 0))  # a file a call
    assert (found["lock"] > 0) == (refuses != "start") == (found["unlock"] > 0)

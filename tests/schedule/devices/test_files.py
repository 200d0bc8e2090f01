"""Files as a memory: transfers to and from them, by hand."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tiramisu_py as tm
from tests.disks import on_disk

N, T = tm.params("N T")
i, t = tm.iters("i t")
NUMBERS = np.random.default_rng(0)


def twice(folded: bool = True) -> SimpleNamespace:
    """u is computed level by level, and read in the opposite order; between the two it is in a file."""
    f = tm.Function("twice", params=[T, N], assume="T >= 1 and N >= 1")
    a = f.input("a", tm.float64, [T, N])
    u = f.computation("u", {t: T, i: N}, a[t, i] * 2)
    v = f.computation("v", {t: T, i: N}, u[T - 1 - t, i] + 1)
    f.outputs(v)
    if folded:
        u.fold(t, 1)
    stored = f.create_xfer({t: T, i: N}, u[t, i], tm.CPU2FILE, tm.ASYNC).collapse_many(i)
    loaded = f.create_xfer({t: T, i: N}, u[T - 1 - t, i], tm.FILE2CPU, tm.ASYNC).collapse_many(i)
    stored.after(u, t)
    v.after(loaded, t)
    return SimpleNamespace(f=f, u=u, v=v, stored=stored, loaded=loaded)


def waiting() -> SimpleNamespace:
    s = twice()
    s.written, s.arrived = s.stored.wait({t: T}), s.loaded.wait({t: T})
    s.written.after(s.stored, t)
    s.arrived.after(s.loaded, t)
    s.arrived.before(s.v, t)
    return s


def test_values_go_to_a_file_and_come_back(tmp_path: Path) -> None:
    s = waiting()
    assert s.f.check().ok, s.f.check()
    folder = on_disk(tmp_path)
    kernel = s.f.compile(storage=folder)
    for shape in ((1, 1), (4, 3), (7, 512), (5, 5000)):
        a = NUMBERS.random(shape)
        np.testing.assert_array_equal(kernel(a), s.f.evaluate(a))
        moved = kernel.traffic["u"]
        assert (moved.stored, moved.loaded, moved.copied) == (a.nbytes, a.nbytes, 0)
        assert moved.stored + moved.loaded == s.f.cost("communication", T=shape[0], N=shape[1]).bytes
    assert not os.listdir(folder)


def test_the_report_and_the_pseudocode_say_what_is_in_files() -> None:
    s = waiting()
    assert "on the queue of stores, the queue of loads and on the host" in str(s.f.check())
    text = s.f.show("pseudocode")
    assert "allocate u_file[T, N] in a file" in text
    assert "start to copy u[0, 0 .. N] to u_file[t, 0 .. N]  (the queue of stores)" in text
    assert "host -> file" in str(s.f.cost("communication", T=2, N=3))


def test_the_interpreter_runs_files_late_and_early() -> None:
    s, a = waiting(), NUMBERS.random((4, 3))
    s.f.validate(a)
    np.testing.assert_array_equal(s.f.evaluate(a, as_scheduled=True), s.f.evaluate(a))


@pytest.mark.parametrize("timing", ["lazy", "shuffled", "eager", None])
def test_a_simulated_disk_copies_when_it_likes(timing: str | None) -> None:
    s, a = waiting(), NUMBERS.random((6, 5))
    kernel = s.f.compile(storage="simulator", seed=4, timing=timing)
    np.testing.assert_array_equal(kernel(a), s.f.evaluate(a))
    np.testing.assert_array_equal(kernel.seeded(5)(a), s.f.evaluate(a))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: None, "the transfer u_loaded of u[0, 0] on the queue of loads"),
        (lambda s: s.stored.wait(), "nothing waits for the transfer u_loaded"),
        (lambda s: s.loaded.wait(), "nothing waits for the transfer u_stored"),
    ],
)
def test_missing_waits_are_refused(change, words: str) -> None:
    s = twice()
    change(s)
    report = s.f.check()
    assert not report.ok
    assert words in str(report), report
    assert "wait(" in str(report)


def test_a_fetch_before_its_store_is_refused() -> None:
    s = waiting()
    s.loaded.before(s.u, tm.root)
    report = s.f.check()
    assert not report.ok
    assert "u_loaded" in str(report)


def test_a_fetch_of_what_nothing_stores_is_refused() -> None:
    f = tm.Function("f", params=[N])
    u = f.computation("u", {i: N}, 1.0 * i)
    f.outputs(f.computation("v", {i: N}, u[i]))
    with pytest.raises(tm.CommandError, match=r"no transfer stores u to a file.*CPU2FILE"):
        f.create_xfer({i: N}, u[i], tm.FILE2CPU)


def test_computations_touch_no_file() -> None:
    f = tm.Function("f", params=[N])
    u = f.computation("u", {i: N}, 1.0 * i)
    f.outputs(f.computation("v", {i: N}, u[i]))
    u.store_in(tm.FILE)
    (first, second) = f.check().violations
    assert "u stores to u, which is in a file: only transfers touch files" in first.message
    assert "v reads u, which is in a file" in second.message
    assert first.repair.startswith("u.store_in(tm.HOST), then f.create_xfer(..., u[...], tm.CPU2FILE)")


def test_functions_of_ranks_have_no_files() -> None:
    s = waiting()
    b = s.f.computation("b", {i: N}, 1.0 * i)
    s.f.outputs(s.v, b, replace=True)
    b.tag_distribute(i)
    report = s.f.check()
    assert "which is in a file, in a function of ranks" in str(report), report


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda f, u, x: f.create_xfer({i: N}, u[i], tm.CPU2FILE, stream=1), "stream= is for GPUs"),
        (lambda f, u, x: f.create_xfer({i: N}, u[i], tm.CPU2FILE, device=1), "device= is for GPUs"),
        (lambda f, u, x: f.create_xfer({i: N}, x[i], tm.CPU2FILE), "x is an input, which the caller keeps"),
        (lambda f, u, x: f["v"].store_in(tm.FILE), "the caller's array v, which cannot be a file"),
        (lambda f, u, x: f.create_xfer({i: N}, u[i], "file"), "tm.CPU2FILE"),
    ],
)
def test_commands_that_make_no_sense_are_refused(wrong, words: str) -> None:
    f = tm.Function("f", params=[N])
    x = f.input("x", tm.float64, [N])
    u = f.computation("u", {i: N}, 2 * x[i])
    f.outputs(f.computation("v", {i: N}, u[i]))
    with pytest.raises(tm.TiramisuError) as refused:
        wrong(f, u, x)
    assert words in str(refused.value)


# -- folders


@pytest.mark.parametrize(
    ("folder", "words"),
    [
        ("{}/gone", "No such file or directory; give the name of a folder on a disk"),
        ("{}/file", "is no folder"),
        ("/proc", "no file can be made in the folder /proc"),
        ("/dev/shm", "is itself in memory (tmpfs)"),
    ],
)
def test_folders_without_room_for_files_are_refused(folder: str, words: str, tmp_path: Path) -> None:
    if not Path(folder.format(tmp_path)).parent.is_dir() or (folder.startswith("/") and not Path(folder).is_dir()):
        pytest.skip(f"this system has no {folder}")
    (tmp_path / "file").write_text("")
    with pytest.raises(tm.ArgumentError) as refused:
        waiting().f.compile(storage=folder.format(tmp_path))
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("storage", "words"),
    [(5, 'give a folder on a disk, "simulator", or a tm.SimulatedDisk'), ("", "give a folder on a disk")],
)
def test_what_is_no_storage_is_refused(storage: object, words: str) -> None:
    with pytest.raises(tm.ArgumentError) as refused:
        waiting().f.compile(storage=storage)
    assert words in str(refused.value)


def test_a_call_needs_a_folder_and_a_function_without_files_takes_none() -> None:
    with pytest.raises(tm.KernelError, match=r"was given no folder.*compile\(storage=folder\)"):
        waiting().f.compile()(np.ones((2, 2)))
    f = tm.Function("f", params=[N])
    f.outputs(f.computation("u", {i: N}, 1.0 * i))
    with pytest.raises(tm.ArgumentError, match="is for values in files, and f has none"):
        f.compile(storage=".")
    with pytest.raises(tm.ArgumentError, match="give a number from 0 on"):
        tm.SimulatedDisk(write=-1)


def test_a_disk_that_fails_ends_the_call_and_names_the_copy() -> None:
    f = waiting().f
    for number, words in ((1, "u_stored cannot store 24 bytes of u_file"), (5, "u_loaded cannot load 24 bytes")):
        kernel = f.compile(storage=tm.SimulatedDisk(fails=number))
        with pytest.raises(tm.KernelError) as failed:
            kernel(np.ones((4, 3)))
        assert words in str(failed.value)
        assert "Input/output error" in str(failed.value)


FULL = """
import resource, sys, numpy as np
from tests.schedule.devices.test_files import waiting
kernel = waiting().f.compile(storage=sys.argv[1])
kernel(np.ones((4, 300)))
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
try:
    kernel(np.ones((4, 300)))
except Exception as error:
    print(error)
"""


def test_room_is_reserved_before_anything_is_computed(tmp_path: Path) -> None:
    folder = on_disk(tmp_path)
    done = subprocess.run([sys.executable, "-c", FULL, folder], capture_output=True, text=True, check=True)
    assert f"the folder {folder} has no room for u_file, 9.6 kB: File too large; give a folder" in done.stdout
    assert not os.listdir(folder)


def test_a_trace_has_the_copies_of_both_queues(tmp_path: Path) -> None:
    kernel = waiting().f.compile(storage=on_disk(tmp_path), trace=True)
    kernel(NUMBERS.random((6, 50)))
    trace = kernel.trace
    assert [row for _, row in trace.rows()] == ["host", "files, store", "files, load"]
    for kind, name, waits in (("store", "u_stored", "u_stored_wait"), ("load", "u_loaded", "u_loaded_wait")):
        copies, waited = trace.of(kind), trace.of("wait", waits)
        assert [(each.name, each.bytes) for each in copies] == [(name, 400)] * 6
        assert all(copy.end <= wait.end for copy, wait in zip(copies, waited, strict=True))


def test_a_kernel_with_files_goes_to_other_processes(tmp_path: Path) -> None:
    kernel = waiting().f.compile(storage=on_disk(tmp_path))
    a = NUMBERS.random((3, 4))
    other = pickle.loads(pickle.dumps(kernel))
    np.testing.assert_array_equal(other(a), kernel(a))
    assert other.traffic["u"].stored == a.nbytes


def test_a_bound_call_uses_the_folder(tmp_path: Path) -> None:
    s = waiting()
    a = NUMBERS.random((3, 4))
    call = s.f.compile(storage=on_disk(tmp_path)).bound(a)
    np.testing.assert_array_equal(call(), s.f.evaluate(a))


PROGRAM = r"""
#include <stdio.h>
#include "twice.h"

int main(int count, char **given) {
  double a[6] = {1, 2, 3, 4, 5, 6}, v[6];
  if (twice(2, 3, a, v) != 121) return 1;
  printf("%s\n", twice_last_error());
  twice_use_storage(given[1]);
  if (twice(2, 3, a, v) != 0) return 2;
  for (int k = 0; k < 6; k++) printf("%g ", v[k]);
  return 0;
}
"""


def test_an_exported_library_is_told_its_folder(tmp_path: Path) -> None:
    folder = waiting().f.compile().export(tmp_path / "twice")
    (folder / "main.c").write_text(PROGRAM)
    command = ["gcc", "main.c", "libtwice.a", "-lm", "-lpthread", "-o", "main"]
    subprocess.run(command, cwd=folder, check=True)
    done = subprocess.run([folder / "main", on_disk(tmp_path)], capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first.startswith("twice keeps values in files, and was given no folder: call twice_use_storage")
    assert second.split() == ["9", "11", "13", "3", "5", "7"]
    assert "lpthread" in (folder / "Makefile").read_text()

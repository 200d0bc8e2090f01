"""Twenty-five programs, folders and arguments of values beyond memory that are refused, each with what to do."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.disks import on_disk
from tests.lacking import CXX, without_cxx
from tiramisu_py.torch import offload, register_unified_device
from tiramisu_py.torch.placement import TensorKind, placement

N, T = tm.params("N T")
i, t, s = tm.iters("i t s")
Action = Callable[[Path], object]


def backwards() -> tm.Function:
    """A recurrence whose levels are read again, last level first."""
    f = tm.Function("backwards", params=[T, N], assume="T >= 2 and N >= 1")
    a = f.input("a", tm.float64, [T, N])
    u = f.computation("u", {t: T, i: N}, lambda u: tm.select(t == 0, a[t, i], a[t, i] + 0.5 * u[t - 1, i]))
    f.outputs(f.computation("v", {s: T, i: N}, u[T - 1 - s, i] + 1))
    return f


def offloaded(ahead: int = 2) -> tm.Function:
    """Its levels are in a file."""
    f = backwards()
    f["u"].offload(t, ahead=ahead)
    return f


def by_hand(waits: bool = True) -> SimpleNamespace:
    """Transfers to a file and from it, one level at a time."""
    f = tm.Function("twice", params=[T, N], assume="T >= 1 and N >= 1")
    a = f.input("a", tm.float64, [T, N])
    u = f.computation("u", {t: T, i: N}, a[t, i] * 2)
    v = f.computation("v", {t: T, i: N}, u[T - 1 - t, i] + 1)
    f.outputs(v)
    u.fold(t, 1)
    stored = f.create_xfer({t: T, i: N}, u[t, i], tm.CPU2FILE, tm.ASYNC).collapse_many(i)
    loaded = f.create_xfer({t: T, i: N}, u[T - 1 - t, i], tm.FILE2CPU, tm.ASYNC).collapse_many(i)
    stored.after(u, t)
    v.after(loaded, t)
    stored.wait({t: T}).after(stored, t)
    if waits:
        arrived = loaded.wait({t: T})
        arrived.after(loaded, t)
        arrived.before(v, t)
    return SimpleNamespace(f=f, u=u, v=v, loaded=loaded)


def doubled() -> tm.Function:
    """Twice an array, without files."""
    f = tm.Function("doubled", params=[N])
    x = f.input("x", tm.float64, [N])
    u = f.computation("u", {i: N}, 2 * x[i])
    f.outputs(f.computation("v", {i: N}, u[i]))
    return f


def proven(f: tm.Function) -> None:
    """Refuses what the proof refuses."""
    f.compile(storage="simulator")


def read_by_a_computation(_: Path) -> None:
    f = doubled()
    f["u"].store_in(tm.FILE)
    proven(f)


def fetched_before_its_store(_: Path) -> None:
    program = by_hand()
    program.loaded.before(program.u, tm.root)
    proven(program.f)


def fetched_from_nothing(_: Path) -> None:
    f = doubled()
    f.create_xfer({i: N}, f["u"][i], tm.FILE2CPU)


def short_ring(_: Path) -> None:
    f = offloaded()
    f["u"].fold(t, 2)
    proven(f)


def full(folder: Path) -> None:
    kernel = offloaded().compile(storage=on_disk(folder))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))  # a disk with room for no more than that
    try:
        kernel(np.ones((8, 1 << 16)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def in_folder(name: str) -> Action:
    def action(folder: Path) -> None:
        place = Path(name.format(folder))
        if name.startswith("/") and not place.is_dir():
            pytest.skip(f"this system has no {place}")
        offloaded().compile(storage=place)

    return action


def ordinary_as_unified(_: Path) -> None:
    if without_cxx():
        pytest.skip(CXX)
    f = tm.Function("unified", params=[N])
    a = f.input("a", tm.float32, [N], memory=tm.HOST_MAPPED)
    o = f.computation("o", {i: N}, a[i] + 1)
    f.outputs(o)
    o.tag_gpu(blocks=[i], threads=[])
    f.derive_transfers()
    f.compile(device="simulator")(np.ones(4, np.float32))


def dying_disk(_: Path) -> None:
    offloaded().compile(storage=tm.SimulatedDisk(fails=3))(np.ones((4, 3)))


def too_small_a_budget(_: Path) -> None:
    machine = tm.Machine(core_flops=10e9, cores=1, host_bandwidth=10e9)
    tm.plan(backwards(), {"T": 5, "N": 10}, budget=10, machine=machine)


def second_cache(folder: Path) -> None:
    torch = installed()
    model = torch.nn.Linear(2, 2)
    with offload(model, on_disk(folder)), offload(model, folder):
        pass


def forked(folder: Path) -> None:
    torch = installed()
    model = torch.nn.Linear(64, 64)
    with offload(model, on_disk(folder), least=1) as cache:
        cache._process = os.getpid() + 1  # as the cache of a parent is, in its child
        model(torch.ones(64, 64, requires_grad=True)).square()


def place_taken(_: Path) -> None:
    torch = installed()
    named = torch._C._get_privateuse1_backend_name
    torch._C._get_privateuse1_backend_name = lambda: "npu"
    try:
        register_unified_device(device="simulator")
    finally:
        torch._C._get_privateuse1_backend_name = named


def installed() -> Any:
    """PyTorch; skips the test without it."""
    return pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'tiramisu_py[interop]'")


def levels_together(_: Path) -> None:
    f = tm.Function("f", params=[T, N], assume="T >= 2 and N >= 1")
    u = f.computation("u", {t: T, i: N}, 1.0 * t + i)
    f.outputs(f.computation("v", {i: N}, u[0, i] + u[T - 1, i]))
    u.offload(t)


def of_the_caller(_: Path) -> None:
    f = backwards()
    f.outputs(f["u"], f["v"], replace=True)
    f["u"].offload(t)


def of_ranks(_: Path) -> None:
    program = by_hand()
    f = program.f
    f.outputs(program.v, f.computation("b", {i: N}, 1.0 * i), replace=True)
    f["b"].tag_distribute(i)
    proven(f)


REFUSED: list[tuple[str, Action, type[tm.TiramisuError], str]] = [
    ("a computation reads a file", read_by_a_computation, tm.LegalityError,
     "v reads u, which is in a file: only transfers touch files"),
    ("a fetch before its store", fetched_before_its_store, tm.LegalityError, "the transfer u_loaded"),
    ("a ring too short", short_ring, tm.LegalityError, "u.fold(t, 2)"),
    ("ahead below 1", lambda _: offloaded(ahead=0), tm.CommandError, "ahead is 0: give an integer of at least 1"),
    ("a missing folder", in_folder("{}/gone"), tm.ArgumentError,
     "No such file or directory; give the name of a folder on a disk"),
    ("a full folder", full, tm.KernelError, "has no room for u_file, 4.19 MB: File too large; give a folder"),
    ("a folder where none can write", in_folder("/proc"), tm.ArgumentError, "no file can be made in the folder /proc"),
    ("a folder in memory", in_folder("/dev/shm"), tm.ArgumentError, "is itself in memory (tmpfs)"),
    ("an ordinary array as unified", ordinary_as_unified, tm.ArgumentError, "tm.to_unified(a, device="),
    ("a CUDA tensor beside a CPU tensor", lambda _: placement([TensorKind.CUDA, TensorKind.CPU]), tm.ArgumentError,
     'give that to the GPU by .to("cuda"), or make it unified by tiramisu_py.torch.unified(..)'),
    ("PrivateUse1 taken", place_taken, tm.ArgumentError, "'npu' has it"),
    ("a second cache", second_cache, tm.CallError, "second cache: one is open for Linear: leave that first"),
    ("a disk that dies in mid-step", dying_disk, tm.KernelError, "Input/output error"),
    ("recompute of what is no recurrence", lambda _: doubled()["u"].recompute(i, every=4), tm.CommandError,
     "u is no recurrence along i: no value reads another level of u"),
    ("a budget below what a single level needs", too_small_a_budget, tm.ArgumentError,
     "budget=10: the least that any choice needs are"),
    ("a fork with open queues", forked, tm.KernelError, "open one in the process that trains"),
    ("a fetch without a wait", lambda _: proven(by_hand(waits=False).f), tm.LegalityError, "u_loaded"),
    ("a fetch of what nothing stores", fetched_from_nothing, tm.CommandError,
     "no transfer stores u to a file"),
    ("levels that are read together", levels_together, tm.CommandError, "needs them in memory together"),
    ("levels in the caller's array", of_the_caller, tm.CommandError, "u is in the caller's array u"),
    ("levels that are in a file already", lambda _: offloaded()["u"].offload(t), tm.CommandError,
     "u is in a file already"),
    ("levels in a file computed again", lambda _: offloaded()["u"].recompute(t, every=4), tm.CommandError,
     "levels of u are copied by u_stored: choose one"),
    ("files in a function of ranks", of_ranks, tm.LegalityError, "which is in a file, in a function of ranks"),
    ("no folder", lambda _: offloaded().compile()(np.ones((4, 3))), tm.KernelError, "compile(storage=folder)"),
    ("a folder for a function without files", lambda folder: doubled().compile(storage=folder), tm.ArgumentError,
     "is for values in files, and doubled has none: see offload, and tm.CPU2FILE"),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=[f"{number}: {case[0]}" for number, case in enumerate(REFUSED, 1)])
def test_what_is_wrong_is_refused_with_what_to_do(
    case: tuple[str, Action, type[Exception], str], tmp_path: Path
) -> None:
    _, action, kind, words = case
    with pytest.raises(kind) as refused:
        action(tmp_path)
    assert words in str(refused.value)


def test_there_are_twenty_five() -> None:
    assert len({name for name, *_ in REFUSED}) == 25

"""Ranks that each drive a (simulated) GPU."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.lacking import CXX, without_cxx
from tests.programs.ranks.gpu_ranks import blur_on_gpus, heat_on_gpus
from tests.programs.ranks.uneven_pieces import SIZES, on_gpu_and_cores, pictures
from tiramisu_py.errors import KernelError
from tiramisu_py.toolchain.compilers.mpi import mpi4py


@pytest.mark.mpi(2)
@pytest.mark.skipif(without_cxx(), reason=CXX)
def test_ranks_compute_on_gpus() -> None:
    comm = mpi4py().COMM_WORLD
    random = np.random.default_rng(0)
    for f, given in (
        (blur_on_gpus(2, 8), {"image": random.random((16, 22), dtype=np.float32), "C": 20}),
        (heat_on_gpus(2, 4), {"u0": random.random((8, 5), dtype=np.float32), "T": 3, "C": 5}),
    ):
        f.derive_transfers()
        mine = {name: f.part(name, x, comm.rank) if isinstance(x, np.ndarray) else x for name, x in given.items()}
        found = f.compile(device="simulator", sanitize=True)(**mine, comm=comm)
        (name,) = f.algorithm.outputs
        np.testing.assert_array_equal(found, f.part(name, f.evaluate(**given), comm.rank))


@pytest.mark.mpi(3)
@pytest.mark.skipif(without_cxx(), reason=CXX)
def test_some_ranks_use_gpus_and_others_none() -> None:
    comm = mpi4py().COMM_WORLD
    for f in (on_gpu_and_cores((0, 1), (2,)), on_gpu_and_cores((1,), (0,), pinned=True)):
        kernel = f.compile(device="simulator", sanitize=True)
        for seed, given in enumerate(pictures(SIZES)):
            points = {name: given[name] for name in "RGH"}
            mine = f.part("image", given["image"], comm.rank, **points)
            found = kernel.seeded(seed)(mine, C=given["image"].shape[1] - 2, comm=comm, **points)
            np.testing.assert_array_equal(found, f.part("by", f.evaluate(**given), comm.rank, **points))


@pytest.mark.mpi(2)
@pytest.mark.skipif(without_cxx(), reason=CXX)
def test_a_gpu_that_is_missing_is_missed_on_all_ranks_where_one_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    comm = mpi4py().COMM_WORLD
    monkeypatch.setenv("TM_SIMULATOR", "devices=1")
    f = on_gpu_and_cores()
    (given,) = pictures([(9, 4, 3, 9)])
    image, whole = given["image"], f.evaluate(**given)
    kernel = f.compile(device="simulator:1")
    with pytest.raises(KernelError, match=r"GPU 1 is asked for, and there is 1, numbered from 0 \(on rank 0\)"):
        kernel(f.part("image", image, comm.rank, G=3), R=9, C=4, G=3, H=9, comm=comm)
    found = kernel(f.part("image", image, comm.rank, G=0), R=9, C=4, G=0, H=9, comm=comm)
    np.testing.assert_array_equal(found, f.part("by", whole, comm.rank, G=0))


@pytest.mark.skipif(without_cxx(), reason=CXX)
def test_ranks_of_a_machine_go_round_its_gpus() -> None:
    kernel = on_gpu_and_cores().compile(device="simulator")
    assert kernel.gpu is not None and kernel.gpu.simulator is not None and kernel.shared is not None
    program = ctypes.c_char.in_dll(kernel.shared.loaded, "uneven_program")

    def chosen(devices: int, first: int = -1, of: int = 3) -> list[int | None]:
        kernel.gpu.simulator.configure(f"devices={of}")
        found = [ctypes.c_int(-7) for _ in range(4)]
        choose = kernel.shared.loaded.tm_gpu_choose
        codes = [
            choose(ctypes.byref(program), first, local, devices, ctypes.byref(one)) for local, one in enumerate(found)
        ]
        return [one.value if code == 0 else None for code, one in zip(codes, found, strict=True)]

    assert chosen(1) == [0, 1, 2, 0]
    assert chosen(2) == [0, 0, 0, 0]
    assert chosen(2, of=5) == [0, 2, 0, 2]
    assert chosen(4) == [None] * 4
    assert chosen(1, first=2) == [2, 2, 2, 2]
    assert chosen(1, first=3) == [None] * 4

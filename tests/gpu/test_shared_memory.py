"""Shared memory beyond 48 KiB, which launches ask for: right on the simulator, and refused where a GPU has less."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tiramisu_py as tm
from tests.lacking import CXX, without_cxx
from tests.programs import pipelines as pl

pytestmark = pytest.mark.skipif(without_cxx(), reason=CXX)
(N,) = tm.params("N")
i, j, k = tm.iters("i j k")
IMAGE = np.random.default_rng(36).random((41, 67), np.float32)


def blur(columns: int = 16) -> tm.Function:
    """A blur whose blocks keep 32 x (32 * columns) elements of bx."""
    s = pl.blur()
    r, c, r0, c0, r1, c1, u, w = tm.iters("r c r0 c0 r1 c1 u w")
    s.by.gpu_tile(r, c, 30, 32, r0, c0, r1, c1)
    s.by.coarsen(r1, 3, u)
    s.by.coarsen(c0, columns, w)
    s.bx.compute_at(s.by, c0)
    s.bx.split(c, 32, *tm.iters("cs ct"))
    s.bx.store_in(tm.SHARED)
    s.bx.tag_gpu(threads=[r, tm.iters("ct")[0]])
    s.f.derive_transfers()
    return s.f


def test_a_block_has_more_than_48_kib_if_its_launch_asks_for_it() -> None:
    f = blur()
    assert f.check().ok
    text = "".join(f.source().values())
    assert "TM_SHARED_AT(float, bx, [32][512], 0)" in text and "TM_SHARED(float, bx" not in text
    assert 'tm_gpu_shared(gpu, 0, blur_by_kernel, 65536, "bx 65,536")' in text
    assert re.search(r"tm_gpu_launch\(gpu, 0, blur_by_kernel,[^;]*, 65536, \d, ", " ".join(text.split()))
    kernel = f.compile(device="simulator", sanitize=True)
    for seed in range(3):
        np.testing.assert_array_equal(kernel.seeded(seed)(IMAGE), f.evaluate(IMAGE))
    small = "".join(blur(2).source().values())
    assert "TM_SHARED(float, bx, [32][64])" in small and "TM_SHARED_AT(float" not in small


def test_facts_and_occupancy_count_what_a_launch_asks_for() -> None:
    (facts,) = blur(32).cost("kernels")
    assert facts.shared_bytes == 131072
    assert "131072 bytes of shared memory, which not every GPU has: each has 49152" in str(facts)
    assert "which not every GPU has" not in str(blur(2).cost("kernels")[0])
    assert facts.occupancy("H200").blocks == 1 and facts.occupancy("H200").limit == "shared memory"
    assert facts.occupancy("L40").blocks == 0


def test_a_gpu_with_less_shared_memory_refuses_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TM_SIMULATOR", "shared=65535")
    kernel, by = blur().compile(device="simulator"), np.full(IMAGE.shape, 7, np.float32)
    with pytest.raises(tm.KernelError) as refused:
        kernel(IMAGE)
    assert (
        "blur: kernel blur_by_kernel needs 65536 bytes of shared memory in each block (bx 65,536), and GPU 0, tiramisu "
        "simulated GPU, has 65535: make the tiles smaller, or use a GPU that has more" in str(refused.value)
    )
    assert np.all(by == 7)
    monkeypatch.setenv("TM_SIMULATOR", "shared=65536")
    np.testing.assert_array_equal(kernel(IMAGE), blur().evaluate(IMAGE))


def test_more_than_any_gpu_has_is_refused_by_the_proof() -> None:
    with pytest.raises(tm.CommandError, match=r"needs 262144 bytes of shared memory .* CUDA allows 232448"):
        blur(64)


def test_two_arrays_of_a_launch_lie_one_after_another() -> None:
    f = two()
    text = f.source()["two.cu"]
    first = {name: int(at) for name, at in re.findall(r"TM_SHARED_AT\(\w+, (\w+), [^,]*, (\d+)\)", text)}
    assert first == {"p": 0, "q": 4 * 96 * 96}
    a = np.random.default_rng(1).integers(0, 9, (5, 96, 96)).astype(np.int32)
    kernel = f.compile(device="simulator", sanitize=True)
    for seed in range(2):
        np.testing.assert_array_equal(kernel.seeded(seed)(a), a[:, ::-1] + a[:, :, ::-1])


def two() -> tm.Function:
    """Planes turned around in both directions, through two tables of a block."""
    f = tm.Function("two", params=[N])
    a = f.input("a", tm.int32, [N, 96, 96])
    p = f.computation("p", {i: N, j: 96, k: 96}, a[i, j, k])
    q = f.computation("q", {i: N, j: 96, k: 96}, a[i, j, k])
    o = f.computation("o", {i: N, j: 96, k: 96}, p[i, 95 - j, k] + q[i, j, 95 - k])
    f.outputs(o)
    for each in (p, q):
        each.compute_at(o, i).store_in(tm.SHARED)
    o.tag_gpu(blocks=[i], threads=[k])
    for each in (p, q):
        each.tag_gpu(threads=[k])
    f.derive_transfers()
    return f

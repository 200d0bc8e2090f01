"""Programs that were right in the simulator and wrong on GPUs: what a compiler made of their kernels is executed."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tests.gpu.test_stories import listed
from tests.ptx import running
from tests.ptx.pointer_choices import chosen_loads
from tiramisu_py.toolchain.compilers.cache import open_cache
from tiramisu_py.toolchain.compilers.cuda_compiler import compile_kernels, find_cuda_compiler
from tiramisu_py.toolchain.compilers.images import Architecture

N, K = tm.params("N K")
i, k, i0, i1 = tm.iters("i k i0 i1")
TYPES = (tm.float32, tm.float64, tm.int8, tm.int16, tm.int64, tm.float16)


def choice(dtype: tm.DType, mapped: bool = False) -> tm.Function:
    """A value of an input or of what the kernel has just stored, also in memory of the host."""
    f = tm.Function("g", params=[N])
    a = f.input("a", dtype, [N])
    b = f.computation("b", {i: N}, a[i] + a[i])
    o = f.computation("o", {i: N}, tm.where(a[i] > 4, a[i], b[i]))
    f.outputs(o) if mapped else f.outputs(o, b)
    if mapped:
        b.store_in(tm.HOST_MAPPED)
    for each in (b, o):
        each.split(i, 32, i0, i1)
        each.tag_gpu(blocks=[i0], threads=[i1])
    f.order(b, o, at=i1)
    f.derive_transfers()
    return f


def least(dtype: tm.DType) -> tm.Function:
    """The least value of a row and its place: one thread a row."""
    f = tm.Function("least", params=[N, K], assume="K >= 1")
    a = f.input("a", dtype, [N, K])
    m = f.reduction("m", {i: N}, {k: K}, tm.argmin, a[i, k])
    f.outputs(m)
    m.split(i, 32, i0, i1)
    m.tag_gpu(blocks=[i0], threads=[i1])
    f.derive_transfers()
    return f


def choice_of_mapped(dtype: tm.DType) -> tm.Function:
    return choice(dtype, mapped=True)


MADE = {"choice": choice, "mapped": choice_of_mapped, "least": least}


@pytest.mark.parametrize(
    "architecture", [75, pytest.param(90, marks=pytest.mark.slow), pytest.param(100, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize(
    "dtype", [TYPES[0], *(pytest.param(each, marks=pytest.mark.slow) for each in TYPES[1:])], ids=str
)
def test_no_load_through_the_read_only_cache_is_of_what_the_kernel_writes(
    name: str, dtype: tm.DType, architecture: int
) -> None:
    if running.missing():
        pytest.skip(running.missing())
    f = MADE[name](dtype)
    compiler = find_cuda_compiler(open_cache())
    compiled = compile_kernels(
        open_cache(), compiler, f"{f.name}.cu", f.source(), [Architecture(architecture, virtual=True)]
    )
    assert chosen_loads(compiled.images[0].content.decode()) == []


@pytest.mark.ptx
@pytest.mark.parametrize("name", MADE)
def test_what_was_stored_is_read(name: str) -> None:
    f = MADE[name](tm.float32)
    assert f.check().ok
    given = np.random.default_rng(1).integers(0, 9, (5, 7) if name == "least" else 40).astype(np.float32)
    expected, kernel = f.evaluate(given), f.compile(device="gpu")
    for seed in range(6):
        running.choose(f"seed={seed}")
        for found, right in zip(listed(kernel(given)), listed(expected), strict=True):
            np.testing.assert_array_equal(found, right)

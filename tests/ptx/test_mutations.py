"""What is taken out of a kernel's PTX, of host code, or changed in it, is found: by wrong values, or by a refusal."""

from __future__ import annotations

import ctypes
import re
from dataclasses import replace

import numpy as np
import pytest

import tiramisu_py as tm
from tests.gpu.test_stories import is_right, listed, module, mutants, samples
from tests.ptx import running
from tests.ptx.entry_points import Refused, gpu
from tiramisu_py.backends import emit
from tiramisu_py.backends.cuda.kernel_text import signatures
from tiramisu_py.toolchain import compile_function
from tiramisu_py.toolchain.compilers.cache import open_cache
from tiramisu_py.toolchain.compilers.cuda_compiler import compile_kernels, find_cuda_compiler
from tiramisu_py.toolchain.compilers.images import Architecture

ROWS, COLUMNS = 7, 2500
SEEDS = range(40)
SYNCHRONISES = re.compile(r"membar\.gl;|bar\.sync\s+0;|atom\.global\.exch\.b32\s[^;]*;")
CHANGES = {
    "membar.gl": "membar.cta",
    "shfl.sync.down": "shfl.sync.up",
    "mul.rn.f32": "add.rn.f32",
    "sqrt.rn.f32": "abs.f32",
    "st.shared.u8": "st.local.u8",
    "atom.global.add.u32": "atom.global.max.u32",
    "ld.global.f32": "ld.global.nc.f32",
}


@pytest.fixture(scope="module")
def text() -> str:
    """The PTX of norms of rows: a tree in each block; the last block combines them, and takes roots."""
    if running.missing():
        pytest.skip(running.missing())
    R, C = tm.params("R C")
    r, rows, k, k0, r1, t, b = tm.iters("r rows k k0 r1 t b")
    f = tm.Function("norms", params=[R, C])
    x = f.input("x", tm.float32, [R, C])
    squares = f.reduction("squares", {r: R}, {k: C}, tm.sum, x[r, k] * x[r, k])
    norm = f.computation("norm", {r: R}, tm.sqrt(squares[r]))
    f.outputs(norm)
    for stage in (squares, norm):
        stage.split(r, 4, rows, r1)
    squares.update.split(k, 1024, b, k)
    squares.update.split(k, 32, k0, t)
    squares.update.reorder(rows, b, r1, k0, t)
    squares.update.tag_gpu(blocks=[rows, b], threads=[r1, t], combine=tm.TREE, across=tm.LAST_BLOCK)
    norm.after(squares.update, rows)
    norm.tag_gpu(threads=[r1])
    f.derive_transfers()
    cache = open_cache()
    compiled = compile_kernels(
        cache, find_cuda_compiler(cache), "norms.cu", f.source(), [Architecture(75, virtual=True)]
    )
    return compiled.images[0].content.decode().rstrip("\0")


def fault(text: str, seed: int) -> str:
    """What is wrong with two launches of the kernel, one after the other; empty where nothing is."""
    blocks = -(-COLUMNS // 1024)
    values = np.random.default_rng(3).standard_normal((ROWS, COLUMNS), dtype=np.float32)
    expected = np.sqrt((values.astype(np.float64) ** 2).sum(1))
    device = gpu(f"seed={seed} steps=3000000")
    sizes = (values.nbytes, 4 * ROWS, 4 * ROWS, 4 * ROWS * blocks, 4 * 2)
    places = [device.allocate(size) for size in sizes]
    try:
        device.upload(places[0], values)
        device.upload(places[4], np.zeros(2, np.uint32))
        arguments = [ctypes.c_int64(ROWS), ctypes.c_int64(COLUMNS), *map(ctypes.c_uint64, places)]
        for _ in range(2):
            device.upload(places[2], np.zeros(ROWS, np.float32))
            device.launch(text, arguments, grid=(blocks, 2), block=(32, 4), name="norms_squares_blocks_update_kernel")
            found = np.empty(ROWS, np.float32)
            device.download(places[2], found)
            if not np.allclose(found, expected, 1e-5):
                return f"{found}, not {expected}"
    except Refused as refused:
        return str(refused)
    finally:
        for place in places:
            device.free(place)
    return ""


def is_caught(text: str) -> bool:
    return any(fault(text, seed) for seed in SEEDS)


def test_the_kernel_itself_is_right_under_all_seeds(text: str) -> None:
    assert [fault(text, seed) for seed in SEEDS] == [""] * len(SEEDS)


def test_without_any_one_fence_or_barrier_some_seed_fails(text: str) -> None:
    found = list(SYNCHRONISES.finditer(text))
    assert [one[0].split(".")[0] for one in found].count("membar") == 2 and len(found) == 6
    kept = [one[0] for one in found if not is_caught(text[: one.start()] + text[one.end() :])]
    assert kept == []


@pytest.mark.parametrize("old", CHANGES)
def test_instructions_that_are_changed_are_caught(text: str, old: str) -> None:
    assert text.count(old) > 0
    assert is_caught(text.replace(old, CHANGES[old]))


@pytest.mark.ptx
@pytest.mark.parametrize(
    ("name", "variant"),
    [("gpu/blur", "asynchronous"), pytest.param("cooperative/blur", "pipelined", marks=pytest.mark.slow),
     pytest.param("gpu/two_gpus", "halves", marks=pytest.mark.slow)],
)  # fmt: skip
def test_without_any_one_wait_in_the_code_of_the_host_some_seed_fails(name: str, variant: str) -> None:
    story = module(name)
    f = story.VARIANTS[variant]()
    tries = [(given, listed(f.evaluate(**given))) for given in samples(story, variant, 60, 7)]
    function = f.show("lowered")
    emitted = emit(function)
    for described, files in mutants(emitted):
        if "tm_gpu_wait_stream" not in described:  # the host waits at the end of a call for all that is left
            continue
        kernel = compile_function(
            function, replace(emitted, files=files), f.algorithm, kernels=signatures(function), device="gpu"
        )

        def survives(seed: int, kernel: tm.Kernel = kernel) -> bool:
            running.choose(f"seed={seed}")
            return all(is_right(kernel, *one) for one in tries)

        assert not all(survives(seed) for seed in SEEDS), described

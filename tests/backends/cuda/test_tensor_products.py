"""Products on tensor cores in CUDA: simulated, with checks, under several seeds; compiled by nvcc; old GPUs refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs.gpu import tensor_products as tp
from tests.selection import some
from tiramisu_py.toolchain.compilers.cache import open_cache
from tiramisu_py.toolchain.compilers.cuda_compiler import find_cuda_compiler, find_nvcc
from tiramisu_py.toolchain.compilers.images import Architecture

#: Instructions, and the oldest GPUs that have them.
LEAST = {"float16": 80, "bfloat16": 80, "float16 in 8": 75, "tf32": 80}


@pytest.mark.parametrize("kind", some(tp.KINDS, lambda each: each == "float16"))
def test_the_simulator_multiplies_as_numpy_does(kind):
    kernel = tp.product(kind, 2)[0].compile(device="simulator", sanitize=True)
    for seed, size in enumerate([(32, 16, 16), (64, 32, 48), (33, 17, 19), (1, 1, 1)]):
        a, b = tp.numbers(kind, *size, seed)
        np.testing.assert_array_equal(kernel(a, b), tp.exact(a, b), strict=True)


@pytest.mark.slow
def test_a_product_without_barriers_is_a_race():
    report = tp.product(warps=2, barriers=False)[0].check()
    assert {violation.kind for violation in report.violations} == {"race"}


@pytest.mark.parametrize(
    ("kind", "architecture"),
    some(
        [(kind, each) for kind, least in LEAST.items() for each in (75, 80, 90) if each >= least],
        lambda each: each == ("float16", 80),
    ),
)
def test_nvcc_compiles_it_without_warnings_and_spills(kind, architecture):
    compiler = find_nvcc(open_cache())
    if isinstance(compiler, str):
        pytest.skip(compiler)
    f, _ = tp.product(kind)
    flags = ("-std=c++17", "-Werror", "all-warnings", "-Xptxas", "-v")
    _, words = compiler.compile("product.cu", f.source(), Architecture(architecture), flags)
    frames = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", words)
    assert set(frames) == {("0", "0", "0")}


def test_a_gpu_that_is_too_old_is_refused():
    try:
        find_cuda_compiler(open_cache())
    except tm.ToolchainError as error:
        pytest.skip(str(error))
    f, _ = tp.product()
    with pytest.raises(tm.ToolchainError) as error:
        f.compile(device="gpu", architectures=("sm_75", "sm_80"))
    assert 'total_update is tensorized with "m16n8k16", which GPUs have from sm_80 on' in str(error.value)
    assert "it is compiled for sm_75" in str(error.value)

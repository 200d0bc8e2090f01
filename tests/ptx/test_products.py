"""Products on tensor cores, as PTX: what the compiler of kernels makes of them is right on the machine."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tiramisu_py as tm
from tests.language.kernels import numbers, tensor_product
from tests.programs.gpu import tensor_products as tp
from tests.programs.gpu import thread_registers
from tests.ptx import running
from tests.schedule.devices.test_pipeline import MASKED
from tests.selection import some


@pytest.mark.ptx
@pytest.mark.parametrize("kind", some(tp.KINDS, lambda each: each == "float16"))
def test_products_of_warps_are_those_of_numpy(kind: str) -> None:
    running.choose("arch=81")
    f, _ = tp.product(kind, 2)
    kernel = f.compile(device="gpu", architectures=("compute_80",))
    for seed, size in enumerate([(32, 16, 16), (33, 17, 19)]):
        running.choose(f"seed={seed} arch=81")
        a, b = tp.numbers(kind, *size, seed)
        np.testing.assert_array_equal(kernel(a, b), tp.exact(a, b))


@pytest.mark.ptx
@pytest.mark.slow
def test_sums_that_stay_in_registers_between_loops_are_those_of_numpy() -> None:
    running.choose("arch=81")
    kernel = thread_registers.product().compile(device="gpu", architectures=("compute_80",))
    a, b = tp.numbers("float16", 33, 17, 19)
    np.testing.assert_array_equal(kernel(a, b), tp.exact(a, b))


@pytest.mark.ptx
@pytest.mark.slow
def test_block_programs_of_halves_are_those_of_numpy() -> None:
    running.choose("arch=81")
    f, run = tensor_product()
    tm.recipes.blocks(run, on=tm.gpu(), num_warps=4, num_stages=2)
    f.derive_transfers()
    kernel = f.compile(device="gpu", architectures=("compute_80",))
    a, b = numbers(64, 20, dtype=np.float16), numbers(17, 20, dtype=np.float16)
    np.testing.assert_array_equal(kernel(a, b), a.astype(np.float32) @ b.astype(np.float32).T)


@pytest.mark.ptx
@pytest.mark.slow
@pytest.mark.parametrize("name", ["four elements", "eight halves"])
def test_copies_that_are_filled_with_zeros_are_those_of_numpy(name: str) -> None:
    s = MASKED[name][0]()
    s.f.derive_transfers()
    running.choose("arch=81")
    kernel = s.f.compile(device="gpu", architectures=("compute_80",))
    A = np.arange(5 * 16).reshape(5, 16).astype(s.A.dtype.numpy)
    B = np.arange(11 * 6).reshape(11, 6).astype(np.float32)
    for seed in range(2):
        running.choose(f"seed={seed} arch=81")
        np.testing.assert_array_equal(kernel(A=A, B=B), A[:, :11].astype(np.float32) @ B)


@pytest.mark.ptx
@pytest.mark.slow
def test_a_block_program_whose_loads_are_filled_is_the_product_of_numpy() -> None:
    running.choose("arch=81")
    f, run = tensor_product(assume="K mod 8 = 0", TM=32, TN=32, TK=32)
    tm.recipes.blocks(run, on=tm.gpu(), num_warps=4, num_stages=3)
    f.derive_transfers()
    assert {"TM_ASYNC_FILL", "TM_ASYNC_COPY"} <= set(re.findall(r"TM_ASYNC_[A-Z]+", f.source()["half.cu"]))
    kernel = f.compile(device="gpu", architectures=("compute_80",))
    a, b = numbers(33, 40, dtype=np.float16), numbers(17, 40, dtype=np.float16)
    np.testing.assert_array_equal(kernel(a, b), a.astype(np.float32) @ b.astype(np.float32).T)

"""Products on tensor cores, as PTX: what the compiler of kernels makes of them is right on the machine."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tests.language.kernels import numbers, tensor_product
from tests.programs.gpu import tensor_products as tp
from tests.programs.gpu import thread_registers
from tests.ptx import running
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

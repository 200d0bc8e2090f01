"""Whole kernels with tiles, registers and threads: right on awkward sizes, and of the shape that was asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.backends.compiled import SANITISERS, Compiled
from tests.programs.loop_ir.kernels import blur, matmul

SIZES = [(0, 0), (1, 1), (7, 15), (8, 16), (9, 17), (16, 0), (25, 33), (31, 64)]


def blurred(image: Any) -> Any:
    """The blur in NumPy, operation by operation."""
    bx = (image[:, :-2] + image[:, 1:-1] + image[:, 2:]) / np.float32(3)
    return (bx[:-2] + bx[1:-1] + bx[2:]) / np.float32(3)


def multiplied(a: Any, b: Any) -> Any:
    """The product, summed in the order of k."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        total += a[:, k : k + 1] * b[k : k + 1]
    return total


def images() -> Any:
    return [np.random.default_rng(r).random((r + 2, c + 2), dtype=np.float32) for r, c in SIZES]


def test_a_blur_with_rows_in_registers_is_exact_on_every_size() -> None:
    compiled = Compiled(blur())
    for image in images():
        rows, columns = image.shape[0] - 2, image.shape[1] - 2
        found = np.full((rows, columns), 7, np.float32)
        compiled({"R": rows, "C": columns}, image=image, by=found)
        np.testing.assert_array_equal(found, blurred(image))


def test_the_full_tiles_of_the_blur_are_vectors_in_named_registers() -> None:
    source = Compiled(blur()).source
    assert source.count("if (R - 8*r0 >= 8)") == 1
    full = source[source.index("if (R - 8*r0 >= 8)") : source.index("} else {")]
    strip = full[full.index("c += 16") : full.index("c++")]
    assert all(f"const float32x16 bx_{k} =" in strip for k in range(10))
    assert strip.count("TM_STORE(float32x16, &by[") == 8
    assert strip.count("load_float32x16(&image[") == 30
    assert "bx[" not in strip.replace("// bx[", "")


@pytest.mark.parametrize("shape", [(4, 16, 8), (6, 32, 16), (2, 8, 8), (3, 12, 4), (4, 20, 8)])
def test_a_product_with_its_tile_in_registers_is_exact_on_every_size(shape: tuple[int, int, int]) -> None:
    compiled = Compiled(matmul(*shape), "-O1", "-march=native")
    rng = np.random.default_rng(0)
    for n, m in SIZES:
        for depth in (0, 1, 5):
            a, b = rng.random((n, depth), dtype=np.float32), rng.random((depth, m), dtype=np.float32)
            found = np.full((n, m), 7, np.float32)
            compiled({"N": n, "M": m, "K": depth}, A=a, B=b, C=found)
            np.testing.assert_array_equal(found, multiplied(a, b))


def test_the_full_tiles_of_the_product_accumulate_in_named_registers() -> None:
    source = Compiled(matmul(4, 16, 8)).source
    assert source.count("if (M - 16*j0 >= 16 && N - 4*i0 >= 4)") == 1
    assert "#pragma omp parallel for schedule(static) collapse(2)" in source
    full = source[source.index("if (M - 16*j0 >= 16") : source.index("} else {")]
    assert full.count("float32x8 sums_") == 8
    assert "sums[" not in full
    assert full.count("for (") == 1


def test_kernels_are_free_of_undefined_behaviour() -> None:
    compiled = Compiled(blur(), "-O0", "-march=native", *SANITISERS)
    for image in images()[2:6]:
        rows, columns = image.shape[0] - 2, image.shape[1] - 2
        found = compiled.sanitised({"R": rows, "C": columns}, image=image, by=np.zeros((rows, columns), np.float32))
        np.testing.assert_array_equal(found["by"], blurred(image))
    compiled = Compiled(matmul(), "-O0", "-march=native", *SANITISERS)
    a, b = np.ones((9, 5), np.float32), np.ones((5, 37), np.float32)
    found = compiled.sanitised({"N": 9, "M": 37, "K": 5}, A=a, B=b, C=np.zeros((9, 37), np.float32))
    np.testing.assert_array_equal(found["C"], multiplied(a, b))

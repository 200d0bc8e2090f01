"""The parametrised products and convolutions of examples/blocks/any_size.py are right in the simulator."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
import tiramisu_py.language as tl
from tests.programs import cpu_stories
from tests.selection import covering, some

BLOCKS = Path(__file__).resolve().parents[2] / "examples" / "blocks"
TRANSPOSED = [(False, False), (True, False), (False, True), (True, True)]
IN_PROGRAM, IN_MEMORY = ["registers", "shared memory"], ["atomic", "lock", "in turn", "two passes", "last block"]
WAYS = [(1, "whole"), *zip((2, 4, 2, 3, 3, 2, 2), IN_PROGRAM + IN_MEMORY, strict=True)]
ANY_ORDER = ("atomic", "lock")


@pytest.fixture(scope="module")
def example() -> Any:
    """The example as a module, as it is."""
    return cpu_stories.module("any_size", BLOCKS)


def integers(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).integers(0, 5, shape).astype(np.float32)


@pytest.mark.parametrize("parts, way, first, second", covering(WAYS, TRANSPOSED))
def test_a_product_is_right_whoever_shares_its_terms(
    example: Any, parts: int, way: str, first: bool, second: bool
) -> None:
    f = example.made(16, 16, 8, parts, way, 2, 1, first, second)
    report = f.check()
    assert report.ok, report
    assert ("bits given up" in str(report.bits)) == (way in ANY_ORDER)
    kernel = f.compile(device="simulator", sanitize=True)
    for m, n, k in ((1, 1, 1), (21, 18, 33)):
        a, b = integers(m, k), integers(k, n)
        given = a.T.copy() if first else a, b.T.copy() if second else b
        for each in (kernel, kernel.seeded(1, "lazy")):
            np.testing.assert_array_equal(each(*given), a @ b)


def in_order(a: Any, b: Any, parts: int, way: str, terms: int = 8) -> Any:
    """The product in float32, each part's terms one by one, or the sum of a block of them; then part by part."""
    sums = np.zeros((parts, len(a), b.shape[1]), np.float32)
    for block, start in enumerate(range(0, a.shape[1], terms)):
        of_block = np.zeros_like(sums[0]) if way in IN_PROGRAM else sums[block % parts]
        for k in range(start, min(start + terms, a.shape[1])):
            of_block = of_block + a[:, k, None] * b[k]
        sums[block % parts] = sums[block % parts] + of_block if way in IN_PROGRAM else of_block
    return np.add.accumulate(sums)[-1]


@pytest.mark.parametrize("way", ["whole", *IN_PROGRAM, "in turn", "two passes", "last block"])
def test_the_bits_are_those_of_the_parts_in_their_order(example: Any, way: str) -> None:
    parts, numbers = 1 if way == "whole" else 3, np.random.default_rng(7)
    kernel = example.made(16, 16, 8, parts, way, 2, 1).compile(device="simulator", sanitize=True)
    a, b = (numbers.standard_normal(shape).astype(np.float32) for shape in ((18, 61), (61, 17)))
    wanted = in_order(a, b, parts, way)
    for each in (kernel, *(kernel.seeded(seed, "shuffled") for seed in range(3))):
        np.testing.assert_array_equal(each(a, b), wanted)
    assert way == "whole" or (wanted != in_order(a, b, 1, "whole")).any()


def test_parts_of_a_program_are_where_the_point_says(example: Any) -> None:
    bytes_of = {}
    for way in IN_PROGRAM:
        f = example.made(32, 64, 8, 8, way, 8, 1)
        (kernel,) = f.cost("kernels")
        bytes_of[way] = kernel.shared_bytes
        assert kernel.shared_bytes == example.bytes_of_a_block(32, 64, 8, 8, way, 1)
    assert bytes_of["shared memory"] - bytes_of["registers"] == 4 * 8 * 32 * 64
    assert bytes_of["shared memory"] > 48 * 1024  # more than a block has unasked
    a, b = integers(5, 67), integers(67, 3)
    np.testing.assert_array_equal(f.compile(device="simulator", sanitize=True)(a, b), a @ b)


def test_sums_in_registers_that_another_thread_reads_are_refused(example: Any) -> None:
    f = tm.Function("product", params=[example.M, example.N, example.K])
    a, b = f.input("A", tm.float32, [example.M, example.K]), f.input("B", tm.float32, [example.K, example.N])
    c = f.array("C", tm.float32, [example.M, example.N])
    run = example.product_in_parts[tl.cdiv(example.M, 16), tl.cdiv(example.N, 16)](
        a, b, c, ML=16, NL=16, U=8, KG=4, AXIS=example.IN_PROGRAM["shared memory"], TA=False, TB=False
    )
    f.outputs(c)
    f["acc"].store_in(tm.REGISTER)
    tm.recipes.blocks(run, on=tm.gpu(), num_warps=2)
    f.derive_transfers()
    report = f.check()
    assert not report.ok
    assert re.search(
        r"summed\w*\[.*\] reads acc\[.*\] in thread .* of a block, and thread .* has it in its registers", str(report)
    )
    assert "or acc.store_in(tm.SHARED)" in str(report)


def test_blocks_are_loaded_early(example: Any) -> None:
    f = example.made(16, 16, 8, 1, "whole", 1, 3)
    a, b = integers(17, 35), integers(35, 16)
    assert f.check().ok
    np.testing.assert_array_equal(f.compile(device="simulator", sanitize=True)(a, b), a @ b)


@pytest.mark.parametrize("steps", [True, False])
@pytest.mark.parametrize("size, filter", [((3, 3), 3), ((6, 7), 2)])
def test_a_convolution_is_the_product_of_pixels_and_weights(
    example: Any, size: tuple[int, int], filter: int, steps: bool
) -> None:
    f = example.convolved(16, 16, 8, 2, size, filter, steps)
    report = f.check()
    assert report.ok, report
    x, w = integers(2, *size, 9), integers(9, filter, filter, 5)
    np.testing.assert_array_equal(f.compile(device="simulator", sanitize=True)(x, w), example.pixels(x, w))


CHANNELS = [(parts, way, steps) for (parts, way) in WAYS if way in IN_MEMORY for steps in (True, False)]


@pytest.mark.parametrize(
    "parts, way, steps", some(CHANNELS, lambda each: each in ((2, "in turn", True), (3, "atomic", False)))
)
def test_channels_of_a_convolution_are_shared_by_programs(example: Any, parts: int, way: str, steps: bool) -> None:
    f = example.convolved(16, 16, 8, 2, (4, 5), 2, steps, parts, way)
    report = f.check()
    assert report.ok, report
    assert ("bits given up" in str(report.bits)) == (way in ANY_ORDER)
    kernel = f.compile(device="simulator", sanitize=True)
    for images, channels, filters in ((1, 1, 1), (2, 19, 5)):  # fewer channels than parts, and blocks that are not full
        x, w = integers(images, 4, 5, channels), integers(channels, 2, 2, filters)
        for each in (kernel, kernel.seeded(1, "lazy")):
            np.testing.assert_array_equal(each(x, w), example.pixels(x, w))


def test_channels_that_two_programs_store_are_refused(example: Any) -> None:
    with pytest.raises(tm.TiramisuError, match="y"):
        example.convolved(16, 16, 8, 2, (3, 3), 2, True, 2, "whole").compile(device="simulator")


def test_a_forgotten_mask_of_a_point_is_refused(example: Any) -> None:
    with pytest.raises(tm.TiramisuError):
        example.made(16, 16, 8, 2, "whole", 2, 1).compile(device="simulator")  # two programs store each block


@pytest.mark.slow
def test_few_results_are_shared_by_programs(example: Any, tmp_path: Path) -> None:
    product = example.chooser(tmp_path)
    assert product.collect(M=(16, 1024), N=(16, 1024), K=(64, 8192), samples=2000).points == 2 * len(WAYS)
    product.fit(epochs=60)
    assert product.best(M=16, N=16, K=8000)[0].parameters["way"] in IN_MEMORY
    assert product.best(M=1000, N=1000, K=64)[0].parameters["way"] in ("whole", *IN_PROGRAM)

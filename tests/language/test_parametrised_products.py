"""The parametrised products and convolutions of examples/blocks/any_size.py are right in the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs import cpu_stories

BLOCKS = Path(__file__).resolve().parents[2] / "examples" / "blocks"
TRANSPOSED = [(False, False), (True, False), (False, True), (True, True)]
WAYS = [(1, "whole"), (2, "atomic"), (3, "in turn")]


@pytest.fixture(scope="module")
def example() -> Any:
    """The example as a module, as it is."""
    return cpu_stories.module("any_size", BLOCKS)


def integers(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).integers(0, 5, shape).astype(np.float32)


@pytest.mark.parametrize("first, second", TRANSPOSED)
@pytest.mark.parametrize("parts, way", WAYS)
def test_a_product_is_right_whoever_shares_its_terms(
    example: Any, parts: int, way: str, first: bool, second: bool
) -> None:
    f = example.made(16, 16, 8, parts, way, 2, 1, first, second)
    report = f.check()
    assert report.ok, report
    assert ("bits given up" in str(report.bits)) == (way == "atomic")
    kernel = f.compile(device="simulator", sanitize=True)
    for m, n, k in ((1, 1, 1), (21, 18, 33)):
        a, b = integers(m, k), integers(k, n)
        given = a.T.copy() if first else a, b.T.copy() if second else b
        for each in (kernel, kernel.seeded(1, "lazy")):
            np.testing.assert_array_equal(each(*given), a @ b)


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


def test_a_forgotten_mask_of_a_point_is_refused(example: Any) -> None:
    with pytest.raises(tm.TiramisuError):
        example.made(16, 16, 8, 2, "whole", 2, 1).compile(device="simulator")  # two programs store each block


@pytest.mark.slow
def test_few_results_are_shared_by_programs(example: Any, tmp_path: Path) -> None:
    product = example.chooser(tmp_path)
    assert product.collect(M=(16, 1024), N=(16, 1024), K=(64, 8192), samples=400).points == 4
    product.fit(epochs=20)
    assert product.best(M=16, N=16, K=8000)[0].parameters["way"] == "atomic"
    assert product.best(M=1000, N=1000, K=64)[0].parameters["way"] == "whole"

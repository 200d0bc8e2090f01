"""e ** x of float32: within a unit in the last place, and the same bits in scalars and vectors of every width."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.selection import some
from tests.targets.machines import PLAIN, TARGETS
from tests.targets.programs import Call, Program, printed
from tiramisu_py.lower import lower
from tiramisu_py.passes.pipeline import optimise

(N,) = tm.params("N")
(i,) = tm.iters("i")
KINDS = ("gcc-avx512", "gcc-avx2", "gcc-generic", "gcc-sanitised", "clang-avx512", "clang-generic", "gcc-neon")
WIDTHS = (0, 2, 4, 8, 16, 32, 64)
Array = np.ndarray[Any, Any]


def powers(lanes: int, dtype: tm.DType = tm.float32) -> tm.Function:
    """The powers of an array, in vectors or one by one."""
    f = tm.Function("f", params=[N])
    x = f.input("x", dtype, [N])
    y = f.computation("y", {i: N}, tm.exp(x[i]))
    f.outputs(y)
    if lanes:
        y.vectorize(i, lanes, remainder="mask")
    return f


def sample(step: int) -> Array:
    """Numbers of all magnitudes, and those next to the ends of the results."""
    ends = [
        0.0,
        -0.0,
        88.72283,
        88.72284,
        89.0,
        1e30,
        -87.33,
        -87.4,
        -103.97,
        -103.9721,
        -104.0,
        -1e30,
        np.inf,
        -np.inf,
    ]
    largest = int(np.float32(92).view(np.uint32)) | 1 << 23
    bits = np.arange(0, largest, step, dtype=np.uint32)
    return np.concatenate([np.array(ends, np.float32), bits.view(np.float32), -bits.view(np.float32), [np.nan]]).astype(
        np.float32
    )


def check(x: Array, y: Array) -> None:
    """Infinities and NaN are those of NumPy; all others are within a unit in the last place."""
    with np.errstate(all="ignore"):
        exact = np.exp(x.astype(np.float64))
        nearest = exact.astype(np.float32)
    finite = np.isfinite(nearest)
    np.testing.assert_array_equal(y[~finite], nearest[~finite])
    unit = np.spacing(nearest[finite]).astype(np.float64)
    assert (np.abs(y[finite] - exact[finite]) < unit).all()


@pytest.mark.parametrize("kind", some(KINDS, PLAIN.__contains__))
def test_scalars_and_vectors_have_the_same_bits_on_every_processor(kind: str, tmp_path: Path) -> None:
    target = next(each for each in TARGETS if each.name == kind)
    if target.missing:
        pytest.skip(target.missing)
    x = sample(999_983)
    functions = [optimise(lower(powers(lanes).program), target.register) for lanes in WIDTHS]
    program = Program(target, printed(functions), tmp_path)
    calls = [Call(k, {"N": len(x)}, {"x": x, "y": np.zeros_like(x)}) for k in range(len(WIDTHS))]
    found = [result["y"] for result in program(calls)]
    check(x, found[0])
    for each in found[1:]:
        np.testing.assert_array_equal(each, found[0])


def test_many_numbers_are_within_a_unit_in_the_last_place() -> None:
    x = sample(4999)
    check(x, powers(16).compile()(x))


def test_reordered_steps_still_give_the_power() -> None:
    x = np.linspace(-80, 80, 9973).astype(np.float32)
    found = powers(16).compile(fast=("contract", "reassociate", "reciprocal"))(x)
    np.testing.assert_allclose(found, np.exp(x.astype(np.float64)), rtol=2.0**-15)


@pytest.mark.parametrize("dtype", [tm.float16, tm.bfloat16], ids=str)
def test_floats_of_16_bits_are_computed_in_float32(dtype: tm.DType) -> None:
    x = np.linspace(-8, 8, 997).astype(dtype.numpy)
    wanted = np.exp(x.astype(np.float64)).astype(np.float32).astype(dtype.numpy).astype(np.float64)
    for lanes in (0, 8):
        found = powers(lanes, dtype).compile()(x).astype(np.float64)
        np.testing.assert_allclose(found, wanted, rtol=2.0**-7)

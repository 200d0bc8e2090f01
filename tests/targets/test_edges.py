"""Values at the ends of types, on every kind of processor: what vectors make of them is what `evaluate()` says.

Conversions of floats that no integer holds, integers that no float holds, shifts and divisions by constants.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.selection import some
from tests.targets.machines import TARGETS, Target
from tests.targets.programs import Call, Program, printed
from tiramisu_py.algorithm.types import bool_
from tiramisu_py.lower import lower
from tiramisu_py.passes.pipeline import optimise

(N,) = tm.params("N")
(i,) = tm.iters("i")
INTEGERS = (tm.int8, tm.int16, tm.int32, tm.int64, tm.uint8, tm.uint16, tm.uint32, tm.uint64)
FLOATS = (tm.float16, tm.bfloat16, tm.float32, tm.float64)
#: A compiler and a width of vectors of each kind.
KINDS = ("gcc-avx512", "gcc-avx2", "gcc-sse2", "clang-avx512", "gcc-neon")


def edges(dtype: tm.DType) -> Any:
    """The powers of two with their neighbours on both sides, and what is no number."""
    if dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        near = {s * 2**k + d for k in range(65) for d in (-1, 0, 1) for s in (1, -1)} | {0}
        return np.array(sorted(v for v in near if info.min <= v <= info.max), dtype.numpy)
    powers = [s * 2.0**k for k in (-30, -24, -15, -14, -1, 0, 7, 8, 15, 16, 23, 24, 31, 32, 52, 53, 62, 63, 64, 127)
              for s in (1, -1)]  # fmt: skip
    whole = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 0.5, -0.5, 1.5, 2.5, 254.5, 255.5, 65504, 65520, 65519.9])
    exact = np.array(powers)
    up = exact.astype(np.float32)
    near32 = np.concatenate([np.nextafter(up, np.float32(np.inf)), np.nextafter(up, np.float32(-np.inf))])
    near64 = np.concatenate([np.nextafter(exact, np.inf), np.nextafter(exact, -np.inf)])
    with np.errstate(all="ignore"):
        return np.concatenate([whole, exact, near32, near64, exact + 1, exact - 1]).astype(dtype.numpy)


def conversions(source: tm.DType) -> tm.Function:
    """Each conversion, in vectors of 8 and of 16 lanes by turns."""
    f = tm.Function("f", params=[N])
    x = f.input("x", source, [N])
    outputs = []
    for k, target in enumerate((*INTEGERS, *FLOATS, bool_)):
        o = f.computation(f"o{k}", {i: N}, tm.cast(target, x[i]))
        o.vectorize(i, 16 if k % 2 else 8, remainder="mask")
        outputs.append(o)
    f.outputs(*outputs)
    return f


def by_constants(dtype: tm.DType) -> tm.Function:
    """Shifts and divisions by constants: those that are one instruction, and those next to them."""
    f = tm.Function("f", params=[N])
    x = f.input("x", dtype, [N])
    most = int(np.iinfo(dtype.numpy).max)
    values = [x[i] << k for k in (1, dtype.bits - 1, dtype.bits)] + [x[i] >> k for k in (1, dtype.bits - 1, dtype.bits)]
    divisors = [1, 2, 3, 2 ** (dtype.bits - 2), most - 1, most, *([-1, -2, -3, -most - 1] if dtype.kind == "i" else [])]
    values += [value for d in divisors for value in (x[i] // d, x[i] % d)]
    outputs = []
    for k, value in enumerate(values):
        o = f.computation(f"o{k}", {i: N}, value)
        o.vectorize(i, 8, remainder="mask")
        outputs.append(o)
    f.outputs(*outputs)
    return f


def agree(target: Target, sources: list[tm.DType], functions: list[tm.Function], folder: Path) -> None:
    """Every output, bit for bit; of NaNs, that they are NaN."""
    program = Program(target, printed([optimise(lower(f.program), target.register) for f in functions]), folder)
    calls, wanted = [], []
    for k, (source, f) in enumerate(zip(sources, functions, strict=True)):
        x = edges(source)
        with np.errstate(all="ignore"):
            found = f.evaluate(x)
        wanted.append(found)
        none = {f"o{n}": np.zeros_like(values) for n, values in enumerate(found)}
        calls.append(Call(k, {"N": len(x)}, {"x": x, **none}))
    for source, results, values in zip(sources, program(calls), wanted, strict=True):
        for n, value in enumerate(values):
            got = results[f"o{n}"]
            same = (got == value) | ((got != got) & (value != value))
            signs = np.signbit(got.astype(np.float64)) == np.signbit(value.astype(np.float64))
            same &= signs | (value != value)
            bad = [(edges(source)[k], got[k], value[k]) for k in np.flatnonzero(~same)[:4]]
            assert not bad, f"{source} -> o{n} ({value.dtype}): {bad}"


def known(name: str) -> Target:
    return next(target for target in TARGETS if target.name == name)


@pytest.mark.parametrize("kind", some(KINDS, lambda kind: kind != "gcc-avx2"))
def test_conversions_of_awkward_values(kind: str, tmp_path: Path) -> None:
    if known(kind).missing:
        pytest.skip(known(kind).missing)
    sources = [*INTEGERS, *FLOATS]
    agree(known(kind), sources, [conversions(source) for source in sources], tmp_path)


@pytest.mark.parametrize("kind", some(KINDS, lambda kind: kind != "gcc-avx2"))
def test_shifts_and_divisions_by_constants(kind: str, tmp_path: Path) -> None:
    if known(kind).missing:
        pytest.skip(known(kind).missing)
    agree(known(kind), list(INTEGERS), [by_constants(dtype) for dtype in INTEGERS], tmp_path)


@pytest.mark.parametrize("dtype", [tm.float16, tm.bfloat16], ids=str)
def test_every_value_of_16_bits_and_every_tie_between_two_is_rounded_as_numpy_does(dtype: tm.DType) -> None:
    every_value_is_rounded(dtype, 0)


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("dtype", [tm.float16, tm.bfloat16], ids=str)
def test_every_value_of_16_bits_and_every_tie_is_rounded_so_in_vectors(dtype: tm.DType, lanes: int) -> None:
    every_value_is_rounded(dtype, lanes)


def every_value_is_rounded(dtype: tm.DType, lanes: int) -> None:
    """Raise unless all values of 16 bits, and the middles of neighbours, are converted as NumPy does."""
    f = tm.Function("f", params=[N])
    x, y = f.input("x", dtype, [N]), f.input("y", tm.float32, [N])
    z = f.input("z", tm.float64, [N])
    there = f.computation("there", {i: N}, tm.cast(tm.float32, x[i]))
    back = f.computation("back", {i: N}, tm.cast(dtype, y[i]))
    wide = f.computation("wide", {i: N}, tm.cast(dtype, z[i]))
    f.outputs(there, back, wide)
    for result in (there, back, wide) if lanes else ():
        result.vectorize(i, lanes, remainder="mask")
    every = np.arange(2**16, dtype=np.uint16).view(dtype.numpy)
    exact = every.astype(np.float32)
    kernel = f.compile()
    with np.errstate(all="ignore"):
        following = np.roll(exact, -1)
        middle = (exact.astype(np.float64) + following) / 2
        for ties in (middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)):
            single = ties.astype(np.float32)
            found = kernel(every, single, ties)
            want = (exact, single.astype(dtype.numpy), f.evaluate(every, single, ties)[2])
            for got, expected in zip(found, want, strict=True):
                number = expected == expected
                assert ((got != got) == ~number).all()
                np.testing.assert_array_equal(got[number].view(np.uint8), expected[number].view(np.uint8))

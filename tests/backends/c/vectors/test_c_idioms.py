"""Operations that processors have instructions for: right for all operands, with every instruction set and compiler."""

from __future__ import annotations

import ctypes
import mmap
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tiramisu_py as tm
from tests.backends.compiled import STRICT
from tests.processors import require_target
from tests.selection import some
from tiramisu_py.backends.c import REQUIRED

Array = npt.NDArray[Any]
N = tm.params("N")[0]
i = tm.iters("i")[0]

#: Compilers, and processors whose instructions this machine may have.
LEVELS = ["x86-64", "x86-64-v3", "x86-64-v4", None]
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
EVERYWHERE = [(compiler, level) for compiler in COMPILERS for level in LEVELS]


@dataclass(frozen=True)
class Case:
    """A value of x[i] and y[i] in the language, and in NumPy."""

    name: str
    value: Callable[[Any, Any], Any]
    want: Callable[[Array, Array], Array]


def converted(dtype: Any) -> Callable[[Any, Any], Any]:
    return lambda x, y: tm.cast(dtype, x)


def cast_to(t: str) -> Callable[[Array, Array], Array]:
    return lambda x, y: x.astype(t)


def each(dtype: Any) -> list[Case]:
    """What there is for every type."""
    return [
        Case("least", tm.minimum, np.minimum),
        Case("most", tm.maximum, np.maximum),
        Case("chosen", lambda x, y: tm.select(x > y, y, x), lambda x, y: np.where(x > y, y, x)),
        Case("unlike", lambda x, y: tm.select(x != y, x, y), lambda x, y: np.where(x != y, x, y)),
        Case("below", lambda x, y: x < y, lambda x, y: x < y),
        Case("size", lambda x, y: tm.absolute(x), lambda x, y: np.abs(x)),
        *(Case(f"to_{other}", converted(getattr(tm, other)), cast_to(other)) for other in OTHERS[dtype]),
    ]


INTEGERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")
OTHERS = {
    **{t: [other for other in (*INTEGERS, "float32", "float64") if other != t] for t in INTEGERS},
    "float32": ["float64", "int32", "uint8", "int16"],
    "float64": ["float32", "int32", "int64", "int8", "uint16"],
}


def of_small(t: str) -> list[Case]:
    """Sums that stop, distances and means of integers of 8 and 16 bits."""
    low, high = int(np.iinfo(t).min), int(np.iinfo(t).max)

    def wide(x: Any) -> Any:
        return tm.cast(tm.int32, x)

    def clamped(x: Any) -> Any:
        return tm.cast(getattr(tm, t), tm.minimum(tm.maximum(x, low), high))

    def clipped(x: Array) -> Array:
        return np.clip(x, low, high).astype(t)

    return [
        Case("more", lambda x, y: clamped(wide(x) + wide(y)), lambda x, y: clipped(x.astype("i8") + y)),
        Case("less", lambda x, y: clamped(wide(x) - wide(y)), lambda x, y: clipped(x.astype("i8") - y)),
        Case("apart", lambda x, y: tm.maximum(x, y) - tm.minimum(x, y),
             lambda x, y: np.maximum(x, y) - np.minimum(x, y)),
        Case("far", lambda x, y: tm.cast(getattr(tm, t), tm.absolute(wide(x) - wide(y))),
             lambda x, y: np.abs(x.astype("i8") - y).astype(t)),
        Case("mean", lambda x, y: tm.cast(getattr(tm, t), (wide(x) + wide(y) + 1) >> 1),
             lambda x, y: ((x.astype("i8") + y + 1) >> 1).astype(t)),
        Case("third", lambda x, y: tm.cast(getattr(tm, t), (wide(x) * 2 + wide(y)) // 3),
             lambda x, y: ((x.astype("i8") * 2 + y) // 3).astype(t)),
        Case("scaled", lambda x, y: tm.cast(getattr(tm, t), tm.cast(tm.float32, x) * 0.5),
             lambda x, y: (x.astype("f4") * np.float32(0.5)).astype("i4").astype(t)),
    ]  # fmt: skip


def of_numbers(t: str) -> list[Case]:
    """Minima and maxima of floats with numbers: a NaN stays, and of equal zeros the second counts."""

    def most(x: Array, y: Array) -> Array:
        return np.where((x > y) | np.isnan(x), x, y).astype(t)

    def least(x: Array, y: Array) -> Array:
        return np.where((x < y) | np.isnan(x), x, y).astype(t)

    dtype = np.dtype(t).type
    return [
        case
        for number in map(dtype, (0.0, -0.0, 2.5))
        for case in (
            Case(f"at least {number}", lambda x, y, n=number: tm.maximum(x, n), lambda x, y, n=number: most(x, n)),
            Case(f"at most {number}", lambda x, y, n=number: tm.minimum(x, n), lambda x, y, n=number: least(x, n)),
            Case(f"or more {number}", lambda x, y, n=number: tm.maximum(n, x), lambda x, y, n=number: most(n, x)),
            Case(f"or less {number}", lambda x, y, n=number: tm.minimum(n, x), lambda x, y, n=number: least(n, x)),
        )
    ]


def of_low_bits() -> list[Case]:
    """Integers of 32 bits that are made narrower, and as wide as before."""
    return [
        Case(f"low_{narrow}_{wide}",
             lambda x, y, n=narrow, w=wide: tm.cast(getattr(tm, w), tm.cast(getattr(tm, n), x + y)),
             lambda x, y, n=narrow, w=wide: (x + y).astype(n).astype(w))
        for narrow in INTEGERS[:4] for wide in ("int32", "uint32")
    ]  # fmt: skip


def samples(t: str) -> tuple[Array, Array]:
    """All pairs of bytes; random and extreme pairs of other types."""
    if t.endswith("int8"):
        pairs = np.arange(2**16)
        return (pairs & 255).astype(t), (pairs >> 8).astype(t)
    random = np.random.default_rng(0)
    if t.startswith("float"):
        limit = np.finfo(t)
        ends = np.array([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, -np.nan, limit.max, limit.tiny, 2.5, 1e10], t)
        more = (random.standard_normal(50) * 1e3).astype(t)
    else:
        info = np.iinfo(t)
        ends = np.array([info.min, info.min + 1, 0, 1, 2, info.max // 2, info.max - 1, info.max], t)
        more = random.integers(info.min, info.max, 60, t, endpoint=True)
    values = np.concatenate([ends, more])
    return np.repeat(values, len(values)), np.tile(values, len(values))


def program(t: str, width: int) -> tuple[tm.Function, list[Case]]:
    """A function with an output for each case."""
    f = tm.Function(f"idioms_{t}", params=[N])
    x, y = f.input("x", getattr(tm, t), [N]), f.input("y", getattr(tm, t), [N])
    more = of_small(t) if t in INTEGERS[:4] else of_low_bits() if t in INTEGERS[4:6] else []
    cases = [*each(t), *more, *(of_numbers(t) if t.startswith("float") else [])]
    results = [f.computation(re.sub(r"\W", "_", case.name), {i: N}, case.value(x[i], y[i])) for case in cases]
    f.outputs(*results)
    for result in results:
        result.vectorize(i, width)
    return f, cases


def outside(t: str, case: Case, x: Array) -> Array:
    """Where a float is out of the range of an integer, what comes out depends on the processor."""
    if not t.startswith("float") or not case.name.startswith(("to_int", "to_uint")):
        return np.zeros(x.shape, bool)
    with np.errstate(invalid="ignore"):
        return ~(np.abs(x) < 100) | ((x < 0) & case.name.startswith("to_uint"))


def check(t: str, compiler: str, level: str | None, size: int = 64) -> None:
    """All cases of a type, in vectors of so many bytes, compiled for a processor."""
    if level:
        require_target(level, compiler)
    f, cases = program(t, size // np.dtype(t).itemsize)
    x, y = samples(t)
    results: Any = f.compile(compiler=compiler, target=level)(x, y)
    for case, found in zip(cases, results, strict=True):
        with np.errstate(all="ignore"):
            want = case.want(x, y)
        known = ~outside(t, case, x)
        np.testing.assert_array_equal(found[known].view(np.uint8), want[known].view(np.uint8), err_msg=case.name)


@pytest.mark.parametrize("t", ["uint8", "int16", "float32"])
def test_operations_are_those_of_numpy_for_all_operands(t: str) -> None:
    check(t, COMPILERS[0], None)


@pytest.mark.parametrize("level", LEVELS[:2])
@pytest.mark.parametrize("t", INTEGERS[:6])
def test_operations_on_half_vectors_are_those_of_numpy(t: str, level: str) -> None:
    check(t, COMPILERS[0], level, size=8)


#: Each type with two of them, so that each of them has two types or more.
TYPES = [*INTEGERS, "float32", "float64"]
PAIRS = [[(t, *EVERYWHERE[(3 * k + j) % len(EVERYWHERE)]) for k, t in enumerate(TYPES)] for j in (0, 5)]
SOME = some([*PAIRS[0], *PAIRS[1]], lambda pair: pair in PAIRS[0])


@pytest.mark.parametrize(("t", "compiler", "level"), SOME, ids=str)
def test_operations_are_right_with_every_compiler_and_instruction_set(t: str, compiler: str, level: str | None) -> None:
    check(t, compiler, level)


R, C = tm.params("R C")
r, c = tm.iters("r c")


def grey(channels: int, width: int, weights: tuple[int, ...] = (4899, 9617, 1868), shift: int = 14) -> tm.Function:
    """Weighted channels of a picture, in bytes."""
    f = tm.Function("grey", params=[R, C])
    picture = f.input("picture", tm.uint8, [R, C, channels])
    parts = [weight * tm.cast(tm.int32, picture[r, c, k]) for k, weight in enumerate(weights)]
    total = sum(parts[1:], parts[0]) + (1 << (shift - 1))
    result = f.computation("result", {r: R, c: C}, tm.cast(tm.uint8, total >> shift))
    f.outputs(result)
    result.vectorize(c, width)
    return f


def check_grey(kernel: Any, channels: int, weights: tuple[int, ...], shift: int) -> None:
    """The rows of pictures of several widths, each of which ends where its memory does."""
    for columns in (0, 5, 16, 64, 67, 130):
        picture = np.random.default_rng(columns).integers(0, 256, (3, columns, channels), np.uint8)
        wide = picture[:, :, : len(weights)].astype(np.int32) @ np.array(weights, np.int32)
        np.testing.assert_array_equal(kernel(picture), ((wide + (1 << (shift - 1))) >> shift).astype(np.uint8))


@pytest.mark.parametrize("level", [None, "x86-64-v3"])
@pytest.mark.parametrize(
    ("channels", "weights"),
    [(3, (4899, 9617, 1868)), (4, (4899, 9617, 1868)), (4, (1, -32768, 32767, 5)), (2, (300, -7)), (3, (1, 2, 40000))],
    ids=str,
)
def test_channels_are_weighted_exactly(channels: int, weights: tuple[int, ...], level: str | None) -> None:
    if level:
        require_target(level)
    width = 16 if channels == 2 else 64
    check_grey(grey(channels, width, weights, 3).compile(target=level), channels, weights, 3)


def guarded(values: Array) -> Array:
    """The values in memory that ends where a page that cannot be read begins."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    room = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    start = np.frombuffer(room, np.uint8).ctypes.data
    assert libc.mprotect(start + mmap.PAGESIZE, mmap.PAGESIZE, 0) == 0
    array = np.ndarray(values.shape, values.dtype, buffer=room, offset=mmap.PAGESIZE - values.nbytes)
    array[...] = values
    return array


def test_nothing_outside_a_picture_is_read() -> None:
    f = tm.Function("planes", params=[N])
    pixels = f.input("pixels", tm.uint8, [3 * N])
    halves = f.input("halves", tm.uint16, [2 * N])
    results = [f.computation(f"p{k}", {i: N}, tm.cast(tm.float32, pixels[3 * i + k])) for k in range(3)]
    results += [f.computation("wide", {i: N}, tm.cast(tm.uint16, pixels[3 * i + 1]))]
    results += [f.computation("half", {i: N}, tm.cast(tm.int32, halves[2 * i + 1]))]
    f.outputs(*results)
    for result in results:
        result.vectorize(i, 32)
    kernel = f.compile()
    for n in (32, 67, 160):
        given = guarded(np.random.default_rng(n).integers(0, 256, 3 * n, np.uint8))
        given16 = guarded(np.random.default_rng(n).integers(0, 2**16, 2 * n, np.uint16))
        found = kernel(given, given16)
        for k in range(3):
            np.testing.assert_array_equal(found[k], given[k::3].astype(np.float32))
        np.testing.assert_array_equal(found[3], given[1::3].astype(np.uint16))
        np.testing.assert_array_equal(found[4], given16[1::2].astype(np.int32))


@pytest.mark.parametrize("level", [None, "x86-64-v3"])
def test_nothing_outside_a_picture_is_weighted(level: str | None) -> None:
    if level:
        require_target(level)
    weighted: Any = grey(3, 16).compile(target=level)
    for n in (16, 48):
        picture = guarded(np.random.default_rng(n).integers(0, 256, (1, n, 3), np.uint8))
        np.testing.assert_array_equal(weighted(picture), weighted(picture.copy()))


def assembly(f: tm.Function, march: str, tmp_path: Path) -> str:
    """The assembly of a function's source for a processor, by gcc, every warning an error."""
    for name, text in f.source().items():
        (tmp_path / name).write_text(text)
    flags = [*REQUIRED, *STRICT, "-O3", f"-march={march}", "-S", "-o", "-"]
    done = subprocess.run(["gcc", *flags, f"{f.name}.c"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def simple(dtype: Any, value: Callable[[Any, Any], Any], lanes: int = 64) -> tm.Function:
    """One value of two inputs, in vectors of so many lanes."""
    f = tm.Function("simple", params=[N])
    x, y = f.input("x", dtype, [N]), f.input("y", dtype, [N])
    result = f.computation("result", {i: N}, value(x[i], y[i]))
    f.outputs(result)
    result.vectorize(i, lanes)
    return f


def test_half_vectors_are_not_taken_apart(tmp_path: Path) -> None:
    text = assembly(simple(tm.uint8, tm.absd, 8), "x86-64-v3", tmp_path)
    assert "pmaxub" in text and "pminub" in text
    assert "pinsrb" not in text


def sum_within(x: Any, y: Any) -> Any:
    return tm.cast(tm.uint8, tm.minimum(tm.cast(tm.uint16, x) + tm.cast(tm.uint16, y), 255))


def apart(x: Any, y: Any) -> Any:
    return tm.maximum(x, y) - tm.minimum(x, y)


def both(x: Any, y: Any) -> Any:
    return tm.select((x > y) & (y > 0.0), x, y)


def halved(x: Any, y: Any) -> Any:
    return tm.cast(tm.uint8, (tm.cast(tm.uint16, x) + tm.cast(tm.uint16, y)) >> 1)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
@pytest.mark.parametrize(
    ("f", "text", "instructions"),
    [
        (simple(tm.uint8, sum_within), "add_saturated_uint8x64(load_uint8x64(&x[i]), load_", ["vpaddusb"]),
        (simple(tm.uint8, apart), "distance_uint8x64(", ["vpmaxub", "vpminub"]),
        (simple(tm.float32, tm.minimum), "min_float32x16(", ["vminps"]),
        (simple(tm.float64, both), "TM_COMPARE(int64x8, ", ["vcmppd"]),
        (simple(tm.uint8, halved), "const uint8x64 tm_pairs_1 = load_uint8x64(&x[i]);", ["vpsrlw", "vpsllw"]),
        (grey(3, 64), "dot_3_of_3_int32x16_from_uint8x16(", ["vpermb", "vpmaddwd", "vpermt2b|vpermi2b"]),
    ],
    ids=["sum", "distance", "least", "both", "halved", "grey"],
)  # fmt: skip
def test_operations_are_called_by_name_and_become_their_instructions(
    f: tm.Function, text: str, instructions: list[str], tmp_path: Path
) -> None:
    code = assembly(f, "icelake-server", tmp_path)
    assert text in " ".join(f.source()[f"{f.name}.c"].split())
    assert [name for name in instructions if not re.search(rf"\b({name})\b", code)] == []

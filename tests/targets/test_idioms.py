"""Every operation of the tables of idioms, on every type and width, is what NumPy says; bytes in all pairs."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.backends.compiled import STRICT
from tests.compiling import compiled
from tests.selection import some
from tests.targets.headers import included
from tests.targets.machines import TARGETS, Target, is_plain
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.types import DType
from tiramisu_py.backends.c import REQUIRED
from tiramisu_py.backends.c.vectors.vector_types import VectorTypes

UNSIGNED = (ty.uint8, ty.uint16, ty.uint32, ty.uint64)
INTEGERS = (*UNSIGNED, ty.int8, ty.int16, ty.int32, ty.int64)
FLOATS = (ty.float32, ty.float64)
#: Loads that convert, or weight and add up: the shapes have them.
LOADS = re.compile("strided_|dot_|quads_|SCALED_")
#: Conversions of 16-bit floats: `test_edges` has all of their values, in vectors of 4, 8 and 16 lanes.
HALVES = re.compile("b?float16_to_float32x|float32_to_float16x")
WIDEST = 64
C = "tiramisu_py.backends.c"
FEW = 2048
Array = Any


@dataclass(frozen=True)
class Operation:
    """A function of vectors: of one or two operands of a type, and what NumPy computes for them."""

    function: str
    source: DType
    target: DType
    lanes: int
    operands: int
    want: Callable[[Array, Array], Array]
    #: Vectors that it makes one of.
    joins: int = 1


def least(a: Array, b: Array) -> Array:
    return np.where((a < b) | (a != a), a, b)


def most(a: Array, b: Array) -> Array:
    return np.where((a > b) | (a != a), a, b)


def distance(a: Array, b: Array) -> Array:
    return np.maximum(a, b) - np.minimum(a, b)


def limited(a: Array, exact: Array) -> Array:
    info = np.iinfo(a.dtype)
    return np.array([min(max(value, info.min), info.max) for value in exact.tolist()], a.dtype)


def added(a: Array, b: Array) -> Array:
    return limited(a, a.astype(object) + b)


def subtracted(a: Array, b: Array) -> Array:
    return limited(a, a.astype(object) - b)


def average(a: Array, b: Array) -> Array:
    return ((a.astype(object) + b + 1) >> 1).astype(a.dtype)


def shifted_left(a: Array, b: Array) -> Array:
    return np.left_shift(a, b)


def shifted_right(a: Array, b: Array) -> Array:
    return np.right_shift(a, b)


def ones(a: Array, b: Array) -> Array:
    mask = (1 << 8 * a.itemsize) - 1
    return np.array([(value & mask).bit_count() for value in a.tolist()], a.dtype)


def first_if_less(a: Array, b: Array) -> Array:
    return np.where(a < b, a, b)


def first_if_more(a: Array, b: Array) -> Array:
    return np.where(a > b, a, b)


def low_and_high(a: Array, b: Array) -> Array:
    return (a & 0xFFFF) | (b >> 16 << 16)


def of_pairs(a: Array, b: Array) -> Array:
    return (a << 16 >> 16) * (b << 16 >> 16) + (a >> 16) * (b >> 16)


BINARY: dict[str, tuple[tuple[DType, ...], Callable[[Array, Array], Array]]] = {
    "min": ((*INTEGERS, *FLOATS), least),
    "max": ((*INTEGERS, *FLOATS), most),
    "less": (FLOATS, first_if_less),
    "more": (FLOATS, first_if_more),
    "distance": (INTEGERS, distance),
    "add_saturated": (INTEGERS, added),
    "subtract_saturated": (INTEGERS, subtracted),
    "average": (UNSIGNED, average),
    "shift_left": (INTEGERS, shifted_left),
    "shift_right": (INTEGERS, shifted_right),
    "halves": ((ty.uint32,), low_and_high),
    "products_of_pairs": ((ty.int32,), of_pairs),
}
NARROWER = [(a, b) for a in INTEGERS for b in INTEGERS if b.bits < a.bits]
CONVERSIONS = [
    *((a, b) for a in INTEGERS for b in INTEGERS if a.bits != b.bits),
    *((a, ty.float64) for a in (ty.int32, ty.uint32, ty.float32)),
]


def operations(types: VectorTypes) -> list[Operation]:
    """All that there are, declared in `types`."""
    found = []
    for lanes in (2, 4, 8, 16, 32, 64):
        for name, (kinds, want) in BINARY.items():
            for kind in kinds:
                if 8 <= lanes * kind.bytes <= WIDEST:
                    function = types.idioms.operation(name, kind, lanes)
                    found.append(Operation(function, kind, kind, lanes, 2, want))
        for kind in INTEGERS:
            if 8 <= lanes * kind.bytes <= WIDEST:
                found.append(Operation(types.idioms.operation("popcount", kind, lanes, 1), kind, kind, lanes, 1, ones))
        for source, target in NARROWER:
            if source.bytes * lanes <= WIDEST:
                function = types.idioms.saturated(source, target, lanes)
                found.append(Operation(function, source, target, lanes, 1, _saturated(target)))
        for source, target in CONVERSIONS:
            if max(source.bytes, target.bytes) * lanes <= WIDEST:
                function = types.idioms.conversion(source, target, lanes)
                found.append(Operation(function, source, target, lanes, 1, _converted(target)))
        for source in INTEGERS:
            if source.bits > 8 and source.bytes * lanes <= WIDEST:
                target = next(t for t in INTEGERS if t.kind == source.kind and 2 * t.bits == source.bits)
                function = types.idioms.joined(source, target, lanes)
                found.append(Operation(function, source, target, lanes, 1, _converted(target), 2))
    return found


def _converted(target: DType) -> Callable[[Array, Array], Array]:
    return lambda a, b: a.astype(target.numpy)


def _saturated(target: DType) -> Callable[[Array, Array], Array]:
    def saturated(a: Array, b: Array) -> Array:
        return limited(np.zeros(0, target.numpy), a)

    return saturated


def pairs(dtype: DType) -> tuple[Array, Array]:
    """All pairs of bytes; of wider types, random pairs and all pairs of awkward values."""
    if dtype.bits == 8:
        every = np.arange(256, dtype=np.uint8).astype(dtype.numpy)
        return np.repeat(every, 256), np.tile(every, 256)
    rng = np.random.default_rng(dtype.bits)
    if dtype.is_float:
        awkward = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-30, 3], dtype.numpy)
        return _filled(awkward, rng.normal(size=2 * FEW).astype(dtype.numpy))
    info = np.iinfo(dtype.numpy)
    near = [0, 1, 2, 127, 128, 255, 256, 32767, 32768, info.max - 1, info.max, info.min, info.min + 1]
    awkward = np.array(near if dtype.kind == "u" else [*near, -1, -2, -128, -129], dtype=object)
    awkward = awkward[[info.min <= value <= info.max for value in awkward]].astype(dtype.numpy)
    return _filled(awkward, rng.integers(info.min, info.max, 2 * FEW, dtype.numpy, endpoint=True))


def _filled(awkward: Array, rest: Array) -> tuple[Array, Array]:
    a, b = rest[:FEW].copy(), rest[FEW:].copy()
    count = len(awkward) ** 2
    a[:count], b[:count] = np.repeat(awkward, len(awkward)), np.tile(awkward, len(awkward))
    return a, b


def program(types: VectorTypes, every: list[Operation]) -> str:
    """It reads two arrays for each type, and writes what each operation makes of them."""
    lines = ["#include <stdio.h>", "#include <stdlib.h>", "#include <stdint.h>"]
    lines += [f'#include "{header}"' for header in included(types)]
    lines += types.declarations()
    kinds = [*INTEGERS, *FLOATS]
    for dtype in kinds:
        count = len(pairs(dtype)[0])
        lines.append(f"static {dtype.c_name} a_{dtype}[{count}], b_{dtype}[{count}];")
    lines += ["static char results[8 * 65536];"]
    for k, op in enumerate(every):
        taken = f"{op.source}x{op.lanes}"
        load = f"load_{taken}(&{{}}_{op.source}[i{{}}])"
        second = [load.format("a", f" + {op.lanes}")] if op.joins > 1 else []
        operands = [load.format("a", ""), *([load.format("b", "")] if op.operands > 1 else []), *second]
        made = f"{op.target}x{op.lanes * op.joins}"
        lines += [
            f"static size_t run_{k}(void) {{",
            f"  const int n = sizeof a_{op.source} / sizeof a_{op.source}[0];",
            f"  for (int i = 0; i < n; i += {op.lanes * op.joins})",
            f"    TM_STORE({made}, ({op.target.c_name} *)results + i, {op.function}({', '.join(operands)}));",
            f"  return n * sizeof({op.target.c_name});",
            "}",
        ]
    lines.append("int main(void) {")
    for name in (f"{x}_{dtype}" for dtype in kinds for x in "ab"):
        lines.append(f"  if (fread({name}, sizeof {name}, 1, stdin) != 1) abort();")
    lines.append("  static size_t (*const all[])(void) = {" + ", ".join(f"run_{k}" for k in range(len(every))) + "};")
    lines.append(f"  for (int k = 0; k < {len(every)}; k++) fwrite(results, all[k](), 1, stdout);")
    return "\n".join([*lines, "  return 0;", "}", ""])


@pytest.mark.parametrize("target", some([t for t in TARGETS if "sanitised" not in t.name], is_plain), ids=str)
def test_every_operation_is_what_numpy_says(target: Target, tmp_path: Path) -> None:
    if target.missing:
        pytest.skip(target.missing)
    types = VectorTypes()
    every = operations(types)
    (tmp_path / "all.c").write_text(program(types, every))
    for name in (*(file.name for file in types.runtime()), "tm_runtime.h"):
        (tmp_path / name).write_text(resources.files(C).joinpath(name).read_text())
    command = [*target.compiler, *REQUIRED, *STRICT, *target.options, "all.c", "-o", "all", "-lm"]
    compiled(command, tmp_path, "all")
    given = b"".join(array.tobytes() for dtype in (*INTEGERS, *FLOATS) for array in pairs(dtype))
    ran = subprocess.run([*target.runner, tmp_path / "all"], input=given, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr.decode()
    place = 0
    wanted: dict[tuple[Any, ...], Array] = {}
    for op in every:
        a, b = pairs(op.source)
        key = (op.want.__name__, op.source, op.target)
        if key not in wanted:
            with np.errstate(all="ignore"):
                wanted[key] = op.want(a, b).astype(op.target.numpy)
        found = np.frombuffer(ran.stdout, op.target.numpy, len(a), place)
        np.testing.assert_array_equal(_bits(found), _bits(wanted[key]), err_msg=op.function)
        place += found.nbytes
    assert place == len(ran.stdout)


@pytest.mark.parametrize("table", ["tm_x86.h", "tm_neon.h"])
def test_every_entry_of_a_table_is_tried(table: str) -> None:
    types = VectorTypes()
    operations(types)
    text = "\n".join(types.declarations())
    tried = {f"{name}_{vector}" for name, vector in re.findall(r"TM_OPERATION_2\((\w+), (\w+)\)", text)}
    tried |= {f"popcount_{vector}" for vector in re.findall(r"TM_OPERATION_1\(popcount, (\w+)\)", text)}
    tried |= {f"saturated_{entry}" for entry in re.findall(r"TM_SATURATED\(.*, (\w+)\)", text)}
    tried |= set(re.findall(r"TM_CONVERSION\(\w+, \w+, \w+, (\w+)\)", text))
    text = resources.files(C).joinpath(table).read_text()
    entries = [name for name in re.findall(r"^#define TM_OWN_(\w+)", text, re.MULTILINE) if not LOADS.match(name)]
    assert len(entries) > 50 and {name for name in entries if not HALVES.match(name)} <= tried


def _bits(values: Array) -> Array:
    """The bits; of all NaNs the same."""
    if values.dtype.kind != "f":
        return values
    return np.where(values != values, np.nan, values).view(f"u{values.dtype.itemsize}")

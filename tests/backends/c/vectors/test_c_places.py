"""Places at computed indices: an address that all lanes share, and the rest in lanes; values bit for bit."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tiramisu_py as tm
from tests.backends.compiled import SANITISERS, Compiled
from tiramisu_py.backends import emit
from tiramisu_py.lower import lower

H, W = tm.params("H W")
y, x = tm.iters("y x")
#: What to compile for, and the size of its vectors in bytes.
TARGETS = {"avx512": (("-march=native",), 64), "avx2": (("-march=x86-64-v3",), 32), "sse2": (("-march=x86-64",), 16)}
SIZES = ((2, 1), (3, 16), (5, 37), (9, 64))


def lookup(lanes: int = 16) -> tm.Function:
    """Levels of a table with a cell for each eight columns; the last term begins one column before its array."""
    f = tm.Function("lookup", params=[H, W], assume="H >= 2 and W >= 1 and H <= 4096 and W <= 4096")
    light = f.input("light", tm.float32, [H, W])
    table = f.input("table", tm.float32, [H, 3, W // 8 + 3])
    line = f.input("line", tm.float32, [W + 4])
    low = tm.clip(tm.cast(tm.int32, light[y, x]), 0, H - 2)
    near = tm.clip(tm.cast(tm.int32, light[y, x]), 1, W + 1)
    cells = table[low, 1, x // 8] + 2 * table[low + 1, 2, x // 8 + 1] - table[low + 1, 0, x // 8 + 2]
    out = f.computation("out", {y: H, x: W}, cells * line[tm.cast(tm.int64, near) - 1] + line[near + 2])
    f.outputs(out)
    out.vectorize(x, lanes, remainder="mask")
    return f


def given(size: tuple[int, int]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(size[1])
    rows, columns = size
    shapes = {"light": size, "table": (rows, 3, columns // 8 + 3), "line": (columns + 4,)}
    return {name: (rng.random(shape, np.float32) * 12 - 1).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize("target", TARGETS)
def test_no_processor_reads_outside_the_arrays(target):
    flags, register = TARGETS[target]
    f = lookup()
    compiled = Compiled(lower(f.program), "-O0", *flags, *SANITISERS, register=register)
    for size in SIZES:
        arrays = given(size)
        found = compiled.sanitised({"H": size[0], "W": size[1]}, **arrays, out=np.empty(size, np.float32))
        np.testing.assert_array_equal(found["out"], f.evaluate(**arrays))


@pytest.mark.parametrize("lanes", [4, 8])
def test_values_are_those_of_the_evaluation(lanes):
    f = lookup(lanes)
    kernel = f.compile()
    for size in SIZES:
        arrays = given(size)
        np.testing.assert_array_equal(kernel(**arrays), f.evaluate(**arrays))


def test_loads_of_one_table_have_the_same_lanes_at_other_addresses():
    text = emit(lookup().show("lowered", 64))["lookup.c"]
    strip = " ".join(text[text.index("x += 16") : text.index("x_left = ")].split())
    assert re.findall(r"TM_GATHER\w+\(float32x16, (table[^,]*|line[^,]*),", strip) == [
        "table + (W/8 + 3)",
        "table + (W/8*5 + 16)",
        "table + (W/8*3 + 11)",
        "line",
        "line + 2",
    ], "the part that lanes share, and no address before an array"
    assert strip.count("+ (int64x16){TM_RAMP_16}) >> 3") == 3
    assert strip.count("+ 8 +") == strip.count("+ 16 +") == 0, "cells further on are at another address"

"""Gathers wait for no earlier one: the register of each is set anew before it, in the text that the compiler makes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm

N, M = tm.params("N M")
(i,) = tm.iters("i")
#: Processors that gather by an instruction: elements, indices, lanes, and the processors.
FORMS = [
    (tm.float32, tm.int32, 4, ("skylake",)),
    (tm.float32, tm.int32, 8, ("skylake", "alderlake", "skylake-avx512")),
    (tm.float32, tm.int32, 16, ("skylake-avx512",)),
    (tm.float64, tm.int32, 4, ("skylake",)),
    (tm.float64, tm.int32, 8, ("skylake-avx512",)),
    (tm.float32, tm.int64, 4, ("skylake",)),
    (tm.float32, tm.int64, 8, ("skylake", "skylake-avx512")),
    (tm.float32, tm.int64, 16, ("skylake-avx512",)),
    (tm.float64, tm.int64, 4, ("skylake",)),
    (tm.float64, tm.int64, 8, ("skylake-avx512",)),
]
CASES = [pytest.param(*form, cpu, id=f"{form[0]}-{form[1]}-{form[2]}-{cpu}") for *form, cpus in FORMS for cpu in cpus]
X86 = pytest.mark.skipif("sse2" not in tm.target().features, reason="the compiler here is not for x86-64")


def sums(dtype: tm.DType, index: tm.DType, lanes: int) -> tm.Function:
    """One sum of elements at given places, in lanes."""
    f = tm.Function("sums", params=[N, M])
    at = f.input("at", index, [N], values=(0, M))
    table = f.input("table", dtype, [M])
    total = f.reduction("total", {}, {i: N}, tm.sum, table[at[i]])
    f.outputs(total)
    total.update.vectorize(i, lanes, combine=tm.PRIVATE)
    return f


@X86
@pytest.mark.parametrize(("dtype", "index", "lanes", "cpu"), CASES)
def test_the_register_of_a_gather_is_set_before_it(
    dtype: tm.DType, index: tm.DType, lanes: int, cpu: str, tmp_path: Path
) -> None:
    for name, text in sums(dtype, index, lanes).source(target=cpu).items():
        (tmp_path / name).write_text(text)
    flags = ["-O3", "-fwrapv", "-ffp-contract=off", "-w", f"-march={cpu}", "-S", "-o", "-"]
    made = subprocess.run(["gcc", *flags, "sums.c"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    fresh, gathers = set[str](), 0
    for line in made.splitlines():
        parts = re.match(r"\t(\w+)\t.*%[xyz]mm(\d+)(?:\{%k\d\})?(?:\{z\})?$", line)
        if line.startswith(".L"):
            fresh = set()
        elif parts and parts[1].startswith("vpgather"):  # a compiler's own ones, in loops of its own, are vgatherdps
            assert parts[2] in fresh, f"{line.strip()} waits for what was in its register"
            fresh.discard(parts[2])
            gathers += 1
        elif parts:
            fresh.add(parts[2])
    assert gathers > 0


@pytest.mark.parametrize(("dtype", "index", "lanes"), [form[:3] for form in FORMS])
def test_values_are_those_of_numpy(dtype: tm.DType, index: tm.DType, lanes: int) -> None:
    kernel = sums(dtype, index, lanes).compile(threads=1)
    rng = np.random.default_rng(lanes)
    table = rng.integers(-9, 9, 100).astype(dtype.numpy)
    for count in (0, 1, lanes, 5 * lanes + 3):
        at = rng.integers(0, 100, count).astype(index.numpy)
        np.testing.assert_array_equal(kernel(at=at, table=table), table[at].sum(dtype=dtype.numpy))

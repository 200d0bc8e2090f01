"""Functions of many nests and many temporaries: looked at once, in parts, and as long as what they do."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

N, M = tm.params("N M")
i, j = tm.iters("i j")

#: A program that calls the function with an allocation that fails, and counts what is freed.
CALLER = """
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int asked, fails, held;
static void *counted(size_t alignment, size_t size) {
  if (++asked == fails) return NULL;
  held++;
  return aligned_alloc(alignment, size);
}
static void freed(void *memory) {
  held -= memory != NULL;
  free(memory);
}
#define aligned_alloc counted
#define free freed
#include "f.c"
int main(void) {
  float a[5] = {0, 1, 2, 3, 4}, result[5];
  for (fails = 1; fails <= NUMBER + 1; fails++) {
    asked = 0;
    memset(result, 0, sizeof result);
    const int code = f(5, a, result);
    printf("%d %d %d %g %s\\n", code, asked, held, result[4], f_last_error());
  }
  return 0;
}
"""


def _chain(length: int) -> tm.Function:

    f = tm.Function("f", params=[N], assume="N >= 1")
    p: Any = f.input("a", tm.float32, [N])
    for k in range(length):
        p = f.computation(f"c{k}", {i: N}, p[i] + 1)
    f.outputs(p)
    return f


@pytest.mark.parametrize("length", [8, 9, 10, 11, 48, 49, 50, 66, 300])
def test_a_chain_is_right_however_long_it_is(length: int) -> None:
    values = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(_chain(length).compile()(values), values + length)


def _together(length: int) -> tm.Function:
    """A chain whose last value is the sum of all others, so that all of these live until then."""
    f = tm.Function("f", params=[N], assume="N >= 1")
    p: Any = f.input("a", tm.float32, [N])
    values = []
    for k in range(length - 1):
        p = f.computation(f"c{k}", {i: N}, p[i] + 1)
        values.append(p)
    f.outputs(f.computation("sum", {i: N}, sum((each[i] for each in values[1:]), values[0][i])))
    return f


def test_few_temporaries_are_looked_at_one_by_one_and_many_at_once() -> None:
    few, many = _together(9).source()["f.c"], _together(10).source()["f.c"]
    assert few.count("TM_TEMPORARY ") == 8 == few.count("== NULL) {")
    assert many.count("tm_temporary(") == 9 and "TM_TEMPORARY " not in many and many.count("TM_MEMORY") == 1


def _called_without_memory(f: tm.Function, arrays: int, folder: Path) -> list[str]:
    """What calls say of which the first, the second and so on allocation fails; those of each array really happen."""
    for name, text in f.source().items():
        (folder / name).write_text(text)
    (folder / "caller.c").write_text(CALLER.replace("NUMBER", str(arrays)))
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-fsanitize=address,undefined"]
    subprocess.run(["gcc", *flags, "caller.c", "-o", "caller", "-lm"], cwd=folder, check=True)
    return subprocess.run([folder / "caller"], check=True, capture_output=True, text=True).stdout.splitlines()


@pytest.mark.parametrize("length", [8, 12, 60])
def test_where_memory_is_missing_all_that_was_had_is_freed_and_the_array_named(length: int, tmp_path: Path) -> None:
    *failed, last = _called_without_memory(_together(length), length - 1, tmp_path)
    assert len(failed) == length - 1 and last.split()[:3] == ["0", str(length - 1), "0"]
    for number, line in enumerate(failed):
        assert line == f"5 {number + 1} 0 0 f: there is no memory for the temporary array c{length - 2 - number}"


@pytest.mark.parametrize("length", [4, 60])
def test_arrays_in_turns_are_named_and_freed_where_memory_is_missing(length: int, tmp_path: Path) -> None:
    *failed, last = _called_without_memory(_chain(length), length - 1, tmp_path)
    assert len(failed) == length - 1 and last.strip() == f"0 {length - 1} 0 {4 + length}"
    later = {4: {0: ", whose memory c2 has later"}, 60: {k: f", whose memory c{k + 2} and {28 - k} others have later"
             for k in range(2)}}[length]  # fmt: skip
    for number, line in enumerate(failed):
        missing = f"f: there is no memory for the temporary array c{number}{later.get(number, '')}"
        assert line == f"5 {number + 1} 0 0 {missing}"


def test_parts_take_scalars_constant_arrays_inputs_and_temporaries_of_their_own() -> None:
    f = tm.Function("f", params=[N], assume="N >= 1")
    a, b, s = f.input("a", tm.float64, [N, 4]), f.input("b", tm.int32, [N]), f.scalar("s", tm.float64)
    p = f.computation("p0", {i: N, j: 4}, a[i, j] * s)
    for k in range(1, 60):
        if k % 3 == 0:
            q = f.computation(f"q{k}", {j: 4}, tm.cast(tm.float64, k) + s)
            p = f.computation(f"p{k}", {i: N, j: 4}, p[i, j] * 0.5 + q[j])
        else:
            p = f.computation(f"p{k}", {i: N, j: 4}, p[i, j] + a[i, 3 - j] * tm.cast(tm.float64, b[i]))
        if k % 5 == 0:
            p.parallelize(i)
    f.outputs(p)
    values, counts = np.random.default_rng(1).random((7, 4)), np.arange(7, dtype=np.int32)
    text = f.source()["f.c"]
    assert "tm_f_part_2(" in text and "const double *restrict a" in text and "double s" in text
    np.testing.assert_array_equal(f.compile()(values, counts, 1.5), f.evaluate(values, counts, 1.5))


def test_parts_that_may_lack_memory_say_so() -> None:
    f = tm.Function("f", params=[N, M], assume="N >= 1 and M >= 1")
    p: Any = f.input("a", tm.float32, [N, M])
    for k in range(50):
        row = f.computation(f"r{k}", {i: N, j: M}, p[i, j] + 1)
        p = f.computation(f"p{k}", {i: N, j: M}, row[i, M - 1 - j] * 0.5)
        p.after(row, i)
        row.store_at(p, i)
    f.outputs(p)
    text = f.source()["f.c"]
    assert "const int tm_code = tm_f_part_1(" in text
    values = np.arange(15, dtype=np.float32).reshape(3, 5)
    np.testing.assert_array_equal(f.compile()(values), f.evaluate(values))


def test_the_text_is_as_long_as_the_chain_and_each_function_of_it_short() -> None:
    sizes = [len(_chain(length).source()["f.c"]) for length in (100, 200, 400)]
    assert sizes[1] < 2.1 * sizes[0] and sizes[2] < 2.1 * sizes[1]
    bodies = _chain(200).source()["f.c"].split("__attribute__((noinline))")[1:]
    assert len(bodies) == 200 and all(body.split("\n}\n")[0].count("for (") == 1 for body in bodies)
    bodies = _together(200).source()["f.c"].split("__attribute__((noinline))")[1:]
    assert len(bodies) == 13 and all(body.split("\n}\n")[0].count("for (") <= 16 for body in bodies)

"""Temporaries that have memory in turns, in compiled code: bytes that are asked for, values, what was given away."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs.chains import chain, growing
from tiramisu_py.passes import temporary_bytes

#: A program that calls the chain on rows of ones, and prints the most bytes that were allocated at a time.
CALLER = """
#define _GNU_SOURCE
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
static size_t now, most;
static void *counted(size_t alignment, size_t size) {
  void *const memory = aligned_alloc(alignment, size + alignment);
  *(size_t *)memory = size;
  now += size;
  if (now > most) most = now;
  return (char *)memory + alignment;
}
static void freed(void *memory) {
  if (memory == NULL) return;
  char *const whole = (char *)memory - 64;
  now -= *(size_t *)whole;
  free(whole);
}
#define aligned_alloc counted
#define free freed
#include "chain.c"
enum { N = 16, M = 40, COLUMNS = M + MORE };
int main(void) {
  static float a[N * M], result[N * COLUMNS];
  for (int k = 0; k < N * M; k++) a[k] = 1;
  const int code = chain(N, M, a, result);
  printf("%d %zu %zu %g\\n", code, now, most, result[N * COLUMNS - 1]);
  return 0;
}
"""


def called(text: dict[str, str], folder: Path, *flags: str, more: int = -6) -> subprocess.CompletedProcess[str]:
    """What the caller prints, compiled with these flags; the result has so many columns `more`."""
    for name, source in {**text, "caller.c": CALLER}.items():
        (folder / name).write_text(source)
    strict = ["-std=gnu11", "-O2", "-Wall", "-Werror", f"-DMORE={more}", *flags]
    command = ["gcc", *strict, "caller.c", "-o", "caller", "-lm"]
    if subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).returncode != 0:
        pytest.skip("gcc lacks these flags")
    return subprocess.run([folder / "caller"], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("make", "columns", "more", "value"),
    [pytest.param(chain, 39 + 38, -6, 3**6, id="chain"), pytest.param(growing, 44 + 45, 6, 2**6, id="growing")],
)
def test_a_call_asks_for_the_bytes_that_are_said_and_frees_them(
    make: Callable[[int], tm.Function], columns: int, more: int, value: int, tmp_path: Path
) -> None:
    f = make(6)
    said = temporary_bytes(f.show("lowered"), {"N": 16, "M": 40})["memory"]
    assert said == 4 * 16 * columns and said % 64 == 0
    assert called(f.source(), tmp_path, more=more).stdout == f"0 0 {said} {value}\n"


def test_the_address_sanitizer_sees_what_was_given_away(tmp_path: Path) -> None:
    text = chain(6).source()
    assert called(text, tmp_path, "-fsanitize=address,undefined").stdout.split()[::3] == ["0", f"{3**6}"]
    wrong = {**text, "chain.c": text["chain.c"].replace("= s4[", "= s0[")}
    assert wrong["chain.c"] != text["chain.c"]
    assert "heap-use-after-free" in called(wrong, tmp_path, "-fsanitize=address").stderr


def test_values_of_several_types_follow_one_another_in_one_block() -> None:
    """A compiler that thinks that a float and an integer are never at one place must not exchange their accesses."""
    (N,), (i,) = tm.params("N"), tm.iters("i")
    f = tm.Function("types", params=[N], assume="N >= 1")
    value = f.input("a", tm.float64, [N])
    for k, dtype in enumerate([tm.int64, tm.float64, tm.int32, tm.float32, tm.int64, tm.float64]):
        value = f.computation(f"s{k}", {i: N}, tm.cast(dtype, value[N - 1 - i]) + tm.cast(dtype, k))
    f.outputs(value)
    given = np.arange(5001, dtype=np.float64)
    np.testing.assert_array_equal(f.compile()(given), f.evaluate(given))


def test_calls_at_once_have_memory_of_their_own() -> None:
    kernel, rng = chain(8).compile(threads=1), np.random.default_rng(0)
    given = [rng.random((700, columns), dtype=np.float32) for columns in (800, 800, 801, 700)]
    with ThreadPoolExecutor(2) as pool:
        for a, found in zip(given, pool.map(kernel, given), strict=True):
            value = a
            for _ in range(8):
                value = value[:, :-1] + np.float32(2) * value[:, 1:]
            np.testing.assert_array_equal(found, value)

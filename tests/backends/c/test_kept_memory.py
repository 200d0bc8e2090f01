"""Large temporaries: their memory is kept for the next call, belongs to one call at a time, and is freed."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm

HEADER = Path(tm.__file__).parent / "backends" / "c"
MAIN = """
#include <assert.h>
#include "tm_runtime.h"
enum { LARGE = 40 << 20 };
int main(void) {
  char *const first = tm_allocate(LARGE);
  memset(first, 1, LARGE);
  char *const beside = tm_allocate(LARGE);
  assert(beside != first);
  memset(beside, 2, LARGE);
  tm_free(first);
  assert(tm_allocate(LARGE + (8 << 20)) != NULL); /* another size, never freed: it takes an entry of its own */
  char *const again = tm_allocate(LARGE);
  assert(again == first && beside[0] == 2 && beside[LARGE - 1] == 2);
  tm_free(again);
  tm_free(beside);
  for (int64_t size = LARGE; size < 8 * (int64_t)LARGE; size += LARGE) { /* more sizes than entries */
    char *const memory = tm_allocate(size);
    memory[0] = memory[size - 1] = 3;
    tm_free(memory);
  }
  unsigned char *const few = tm_allocate(100000);
  for (int at = 0; at < 100000; at++) assert(few[at] == 0); /* at first: no bits of others */
  few[99999] = 1;
  tm_free(few);
  assert(tm_allocate(100001) == few && few[99999] == 1); /* as many pages */
  tm_free(few);
  tm_free(tm_allocate(100));
  tm_free(NULL);
  for (int size = 64; size < 20000; size += 1000) { /* for lanes past the end: no bits of others, either */
    unsigned char *const small = tm_allocate(size), *const left = memset(tm_allocate(size), 1, size);
    memset(small, 1, size);
    tm_free(small);
    unsigned char *const padded = tm_allocate_padded(size);
    for (int at = 0; at < size; at++) assert(padded[at] == 0 || size >= TM_KEPT_FROM);
    tm_free(padded);
    tm_free(left);
  }
  #pragma omp parallel for num_threads(4)
  for (int k = 0; k < 64; k++) {
    int *const memory = tm_allocate(LARGE);
    for (int at = 0; at < LARGE / 4; at += 1 << 18) memory[at] = k;
    for (int at = 0; at < LARGE / 4; at += 1 << 18)
      if (memory[at] != k) abort(); /* two threads have the same */
    tm_free(memory);
  }
  puts("right");
  return 0;
}
"""
only_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="madvise is of Linux")


@only_linux
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_large_memory_is_used_again_and_never_by_two_at_once(compiler: str, tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text(MAIN)
    flags = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", f"-I{HEADER}"]
    threads = ["-fopenmp"] if compiler == "gcc" else []
    try:
        made = subprocess.run([compiler, *flags, *threads, "main.c", "-o", "main", "-lm"], cwd=tmp_path, check=False)
    except FileNotFoundError:
        pytest.skip(f"no {compiler}")
    assert made.returncode == 0
    assert subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout == "right\n"


@only_linux
def test_the_address_sanitizer_sees_accesses_to_what_was_freed(tmp_path: Path) -> None:
    text = '#include "tm_runtime.h"\nint main(void) { char *a = tm_allocate(40 << 20); tm_free(a); return a[7]; }\n'
    (tmp_path / "main.c").write_text(text)
    command = ["gcc", "-std=gnu11", "-fsanitize=address", f"-I{HEADER}", "main.c", "-o", "main", "-lm"]
    if subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode != 0:
        pytest.skip("no address sanitizer")
    ran = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "heap-use-after-free" in ran.stderr


def two_stages() -> tm.Function:
    """Neighbours of a temporary as large as its input, whose memory later calls use again."""
    N, M = tm.params("N M")
    i, j = tm.iters("i j")
    f = tm.Function("stages", params=[N, M], assume="N >= 1 and M >= 2")
    a = f.input("a", tm.float32, [N, M])
    twice = f.computation("twice", {i: N, j: M}, 2 * a[i, j])
    f.outputs(f.computation("differences", {i: N, j: M - 1}, twice[i, j + 1] - twice[i, j]))
    return f


def test_calls_one_after_another_and_at_once_compute_their_own_values() -> None:
    kernel, rng = two_stages().compile(threads=1), np.random.default_rng(0)
    given = [rng.random((3000, columns), dtype=np.float32) for columns in (3000, 3000, 3001, 3000)]
    with ThreadPoolExecutor(2) as pool:
        for a, found in zip(given, pool.map(kernel, given), strict=True):
            np.testing.assert_array_equal(found, 2 * a[:, 1:] - 2 * a[:, :-1])


DIRTY = """
#include <assert.h>
#include <fenv.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
static void *dirty(size_t alignment, size_t bytes) {
  uint32_t *const memory = aligned_alloc(alignment, bytes);
  for (size_t at = 0; at < bytes / 4; at++) memory[at] = 0xfff; /* denormal as float32 */
  return memory;
}
#define aligned_alloc dirty
#include "padded.c"
int main(void) {
  enum { N = 100, M = 5 };
  static float x[N * M], y[N * M];
  for (int at = 0; at < N * M; at++) x[at] = 1 + (float)at;
  feclearexcept(FE_ALL_EXCEPT);
  assert(padded(N, M, x, y) == 0);
  assert(!fetestexcept(FE_UNDERFLOW));
  for (int at = 0; at < N * M; at++) assert(y[at] == x[at] * 2 * 0.3f + 1);
  return 0;
}
"""


@only_linux
def test_lanes_past_the_end_compute_with_no_denormal_numbers_that_others_left(tmp_path: Path) -> None:
    N, M = tm.params("N M")
    i, j = tm.iters("i j")
    f = tm.Function("padded", params=[N, M], assume="N >= 1 and M >= 1")
    x = f.input("x", tm.float32, [N, M])
    twice = f.computation("twice", {i: N, j: M}, 2 * x[i, j])
    parts = f.computation("parts", {i: N, j: M}, twice[i, j] * np.float32(0.3))
    f.outputs(f.computation("y", {i: N, j: M}, parts[i, j] + 1))
    twice.vectorize(j, 8, remainder="mask")
    parts.vectorize(j, 8, remainder="pad")
    for path, text in f.source().items():
        (tmp_path / Path(path).name).write_text(text)
    (tmp_path / "main.c").write_text(DIRTY)
    command = ["gcc", "-std=gnu11", "-O1", "-ffp-contract=off", "-fopenmp", "main.c", "-o", "main", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    subprocess.run(["./main"], cwd=tmp_path, check=True)

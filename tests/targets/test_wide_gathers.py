"""Neighbours in arrays of any size: rows of 2^31 and of 2^32 elements, indices at their ends, near and far.

The arrays are reserved and never filled: a few pages of them exist.
"""

from __future__ import annotations

import subprocess
from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm
from tests.backends.compiled import STRICT
from tests.compiling import compiled
from tests.processors import NATIVE
from tests.targets.headers import included
from tests.targets.machines import TARGETS, Target
from tiramisu_py.algorithm import types as ty
from tiramisu_py.backends.c import REQUIRED
from tiramisu_py.backends.c.vectors.vector_types import VectorTypes

C = "tiramisu_py.backends.c"
VECTORS = [
    *((dtype, lanes) for dtype in (ty.float32, ty.uint8) for lanes in (4, 8, 16)),
    (ty.int16, 8),
    (ty.float64, 8),
]
#: Rows and columns, the top row that is read and the leftmost column, what lanes are apart down and across.
CASES = (
    (6, 64, 1, 3, 0, 1),  # a window
    (6, 64, 2, 31, 0, 1),  # a window that would end behind the array
    (64, 70, 0, 0, 3, 3),
    (4, 2**31 - 64, 0, 2**31 - 70, 0, 0),
    (4, 2**31 - 64, 2, 2**31 - 96, 0, 1),
    (4, 2**31 - 64, 2, 5, 0, 2**26),
    (4, 2**31 + 64, 2, 2**31 - 18, 0, 1),
    (4, 2**31 + 64, 2, 5, 0, 2**26),
    (20, 2**31 + 64, 0, 5, 1, 2**26),
    (5, 2**32 - 1, 3, 2**31 - 18, 0, 1),
    (20, 2**32 + 64, 0, 5, 1, 2**26),
    (20, 2**32 + 64, 0, 2**31 - 18, 1, 1),
    (6, 2**33 + 5, 1, 7, 0, 1),
    (2**31 - 1, 2, 2**31 - 20, 0, 1, 0),
    (2**31 - 1, 2, 3, 0, 2**26, 0),
    (2**31 - 1, 70, 2**31 - 20, 60, 1, 0),
)

_PROGRAM = """
#include <stdio.h>
#include <sys/mman.h>
@INCLUDES@
@DECLARATIONS@

typedef struct { int64_t rows, columns, top, left, down, right; } tm_case;
static const tm_case cases[] = {
@CASES@};

/* A value for each place, small enough for every type. */
static int expected(int64_t row, int64_t column) { return (int)((row * 31 + column * 7 + column / 65536) % 113) + 1; }

#define TRY(T, V)                                                                                        \\
  static int try_##V(const tm_case *c) {                                                                 \\
    enum { lanes = sizeof(V) / sizeof(T) };                                                              \\
    const size_t bytes = (size_t)c->rows * (size_t)c->columns * sizeof(T);                               \\
    T *const place = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0); \\
    if (place == MAP_FAILED) return 2;                                                                   \\
    I_##V row, column;                                                                                   \\
    for (int k = 0; k < lanes; k++) {                                                                    \\
      row[k] = (int)(c->top + k * c->down), column[k] = (int)(c->left + k * c->right);                   \\
      for (int64_t y = row[k]; y < (int64_t)row[k] + 2; y++)                                             \\
        for (int64_t x = column[k]; x < (int64_t)column[k] + 2; x++) place[y * c->columns + x] = (T)expected(y, x); \\
    }                                                                                                    \\
    O_##V tap[4];                                                                                        \\
    TM_NEIGHBOURS(V, place, c->rows, c->columns, row, column, &tap[0], &tap[1], &tap[2], &tap[3]);       \\
    int wrong = 0;                                                                                       \\
    for (int k = 0; k < lanes; k++)                                                                      \\
      for (int t = 0; t < 4; t++)                                                                        \\
        wrong |= tap[t][k] != (T)expected((int64_t)row[k] + t / 2, (int64_t)column[k] + t % 2);          \\
    munmap(place, bytes);                                                                                \\
    return wrong;                                                                                        \\
  }
@TRIED@
int main(int count, char **given) {
  (void)given;
  for (int k = 0; k < (int)(sizeof cases / sizeof cases[0]); k++) {
    if (count > 1 && cases[k].rows * cases[k].columns > 1 << 20) continue; /* an emulator keeps a table of all pages */
@CALLS@  }
  return 0;
}
"""


def program() -> tuple[str, VectorTypes]:
    """It tries each vector in each case, and prints what is wrong."""
    types = VectorTypes()
    names = [(types.neighbours(dtype, lanes), dtype, lanes) for dtype, lanes in VECTORS]
    tried = [
        f"typedef int32x{lanes} I_{name};\ntypedef {types.name(types.neighbour(dtype, lanes), lanes)} O_{name};\n"
        f"TRY({dtype.c_name}, {name})\n"
        for name, dtype, lanes in names
    ]
    calls = [
        f'    if (try_{name}(&cases[k]) != 0) printf("{name} %d: %d\\n", k, try_{name}(&cases[k]));\n'
        for name, _, _ in names
    ]
    parts = {
        "@INCLUDES@": "".join(f'#include "{header}"\n' for header in included(types)),
        "@DECLARATIONS@": "\n".join(types.declarations()),
        "@CASES@": "".join("  {" + ", ".join(f"INT64_C({v})" for v in case) + "},\n" for case in CASES),
        "@TRIED@": "".join(tried),
        "@CALLS@": "".join(calls),
    }
    text = _PROGRAM
    for mark, part in parts.items():
        text = text.replace(mark, part)
    return text, types


@pytest.mark.parametrize("target", [t for t in TARGETS if "sanitised" not in t.name], ids=str)
def test_neighbours_are_found_in_rows_of_any_length(target: Target, tmp_path: Path) -> None:
    if target.missing:
        pytest.skip(target.missing)
    text, types = program()
    (tmp_path / "all.c").write_text(text)
    for name in (*(file.name for file in types.runtime()), "tm_runtime.h"):
        (tmp_path / name).write_text(resources.files(C).joinpath(name).read_text())
    flags = [NATIVE if flag == "-march=x86-64-v4" else flag for flag in target.flags]  # VBMI, where it exists
    options = replace(target, flags=tuple(flags)).options
    command = [*target.compiler, *REQUIRED, *STRICT, *options, "all.c", "-o", "all", "-lm"]
    compiled(command, tmp_path, "all")
    emulated = ["small"] if target.runner else []
    ran = subprocess.run([*target.runner, tmp_path / "all", *emulated], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stderr


def test_squares_of_an_image_with_long_rows_are_right(tmp_path: Path) -> None:
    R, W, N = tm.params("R W N")
    (i,) = tm.iters("i")
    f = tm.Function("f", params=[R, W, N], assume="R >= 2 and W >= 2147483650")
    image = f.input("image", tm.uint8, [R, W])
    row = f.input("row", tm.int32, [N], values=(0, R - 1))
    column = f.input("column", tm.int32, [N], values=(0, 2**31 - 2))

    def near(p: int, q: int) -> tm.Expr:
        return tm.cast(tm.int32, image[row[i] + p, column[i] + q])

    o = f.computation("o", {i: N}, near(0, 0) + 2 * near(0, 1) + 4 * near(1, 0) + 8 * near(1, 1))
    f.outputs(o)
    o.vectorize(i, 16)
    assert f.check().ok
    pixels = np.memmap(tmp_path / "sparse", np.uint8, "w+", shape=(3, 2**32 + 64))
    for place in ((0, 5), (1, 5), (2, 6), (0, 100)):
        pixels[place] = 1
    rows, columns = np.array([0, 1] * 16, np.int32), np.array([5, 100, 5, 5] * 8, np.int32)
    want = sum(
        w * pixels[rows + p, columns + q].astype(np.int32)
        for (p, q), w in {(0, 0): 1, (0, 1): 2, (1, 0): 4, (1, 1): 8}.items()
    )
    np.testing.assert_array_equal(f.compile()(pixels, rows, columns), want)

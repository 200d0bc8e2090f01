"""Macros take vectors that are written with commas: an argument that a macro hands on is in parentheses.

``(int32x8){TM_RAMP_8}`` is one argument of a macro, and eight of the macro that this one calls with it as it is.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm
from tests.backends.compiled import STRICT
from tests.compiling import compiled
from tests.targets.machines import TARGETS, Target
from tiramisu_py.algorithm import types as ty
from tiramisu_py.backends.c import REQUIRED
from tiramisu_py.backends.c.vectors.vector_types import VectorTypes

C = resources.files("tiramisu_py.backends.c")
HEADERS = ("tm_vectors.h", "tm_gathers.h", "tm_masks.h", "tm_stores.h")
#: Parameters that are no values: types, names, functions, numbers of bits and lanes, pieces of text.
WORDS = {
    "I", "M", "O", "R", "S", "T", "U", "V", "X", "bits", "bytes", "by", "call", "choose", "converted", "entry",
    "function", "kernels", "kind", "lanes", "load", "mpi", "n", "name", "own", "generic", "scaled", "set", "size",
    "statement", "wide", "As", "Order", "Plain", "x", "y", "z", "d00", "d01", "d10", "d11",
}  # fmt: skip
#: Parameters of the vector headers that vectors are given for.
VECTORS = {"a", "b", "yes", "no", "mask", "value", "index", "low", "high", "row", "column"}

A, B = "(int32x8){TM_RAMP_8}", "(int32x8){BACK_8}"
#: A call of each macro that takes vectors, and the elements of ``out`` after it, or of its value.
CALLS: dict[str, tuple[str, list[int]]] = {
    "TM_STORE": (f"TM_STORE(int32x8, out, {A});", [0, 1, 2, 3, 4, 5, 6, 7]),
    "TM_MAP": (f"SAVE(TM_MAP(int32x8, negated, {A}))", [0, -1, -2, -3, -4, -5, -6, -7]),
    "TM_MAP_2": (f"SAVE(TM_MAP_2(int32x8, weighted, {A}, {B}))", [70, 61, 52, 43, 34, 25, 16, 7]),
    "TM_HOLDS": (f"SAVE(TM_HOLDS(int32x8, is_odd, {A}))", [0, -1] * 4),
    "TM_COMPARE": (f"SAVE(TM_COMPARE(int32x8, {A}, <, {B}))", [-1] * 4 + [0] * 4),
    "TM_BELOW": ("SAVE(TM_BELOW(int32x8, 8, 3))", [-1] * 3 + [0] * 5),
    "TM_CHOOSE": (f"SAVE(TM_CHOOSE(int32x8, {A}, >, {B}, {A}, {B}))", [7, 6, 5, 4, 4, 5, 6, 7]),
    "TM_SELECT": (f"SAVE(TM_SELECT(int32x8, (int32x8){{ODD_8}}, {A}, {B}))", [7, 1, 5, 3, 3, 5, 1, 7]),
    "TM_TRUNCATED": ("SAVE(TM_TRUNCATED(int32x8, tm_to_int32, (float32x8){TM_RAMP_8}))", [*range(8)]),
    "TM_GATHER": (f"SAVE(TM_GATHER(int32x8, table, {B}))", [70, 60, 50, 40, 30, 20, 10, 0]),
    "TM_GATHER_STORED": (f"SAVE(TM_GATHER_STORED(int32x8, table, {B}))", [70, 60, 50, 40, 30, 20, 10, 0]),
    "TM_STORE_STRIDED": (f"TM_STORE_STRIDED(int32x8, out, 2, {B});", [7, 9, 6, 9, 5, 9, 4, 9]),
    "TM_SCATTER": (f"TM_SCATTER(int32x8, out, {B}, {A});", [7, 6, 5, 4, 3, 2, 1, 0]),
    "TM_SHIFTED": (f"SAVE(TM_SHIFTED(8, {A}, {B}, 3))", [3, 4, 5, 6, 7, 7, 6, 5]),
    "TM_SHIFTED_4": (
        "SAVE(TM_SHIFTED_4(int32x16, (int32x16){TM_RAMP_16}, (int32x16){TM_RAMP_16}, 11))",
        [11, 12, 13, 14, 15, 0, 1, 2],
    ),
    "TM_SHIFTED_8": (
        "SAVE(TM_SHIFTED_8(int64x8, (int64x8){TM_RAMP_8}, (int64x8){BACK_8}, 5))",
        [5, 0, 6, 0, 7, 0, 7, 0],
    ),
    "TM_PART": (f"SAVE(TM_PART(4, {A}, 1))", [4, 5, 6, 7, 9, 9, 9, 9]),
    "TM_NEIGHBOURS": (
        f"int32x8 a, b, c, d; TM_NEIGHBOURS(int32x8, table, 9, 2, {A}, (int32x8){{ODD_8}} + 1, &a, &b, &c, &d); "
        "SAVE(a)",
        [10, 20, 50, 60, 90, 100, 130, 140],
    ),
    "TM_GATHER_FIRST": (f"SAVE(TM_GATHER_FIRST(int32x8, table, {B}, 3))", [70, 60, 50, 0, 0, 0, 0, 0]),
    "TM_GATHER_FIRST_OF": (
        f"SAVE(TM_GATHER_FIRST_OF(int32x8, int32x8, int32x8, 8, table, {B}, 3))",
        [70, 60, 50, 0, 0, 0, 0, 0],
    ),
    "TM_STORE_STRIDED_FIRST": (f"TM_STORE_STRIDED_FIRST(int32x8, out, 2, {B}, 3);", [7, 9, 6, 9, 5, 9, 9, 9]),
    "TM_SCATTER_FIRST": (f"TM_SCATTER_FIRST(int32x8, out, {B}, {A}, 3);", [9, 9, 9, 9, 9, 2, 1, 0]),
    "TM_STREAM_WHOLE": (f"int32x8 *const to = (int32x8 *)out; TM_STREAM_WHOLE(int32x8, to, {B})", [*range(7, -1, -1)]),
    "TM_STREAM": (f"TM_STREAM(int32x8, out[0] == 9, out, {B});", [*range(7, -1, -1)]),
    "TM_STREAM_PARTS": (f"TM_STREAM_PARTS(int32x8, out[0] == 9, out, {B});", [*range(7, -1, -1)]),
    "TM_STREAM_ALIGNED": (f"TM_STREAM_ALIGNED(int32x8, out[0] == 9, out, {B});", [*range(7, -1, -1)]),
}  # fmt: skip
for _bits, _lanes in ((32, 4), (32, 8), (32, 16), (64, 4), (64, 8)):
    for _name, _index in ((f"TM_GATHER_{_bits}x{_lanes}", 32), (f"TM_GATHER_AT_{_bits}x{_lanes}", 64)):
        _from = "table" if _bits == 32 else "wide"
        _found = [10 * k if _bits == 32 else (k // 2) * (1 - k % 2) for k in range(8)]
        CALLS[_name] = (
            f"SAVE({_name}(int{_bits}x{_lanes}, {_from}, (int{_index}x{_lanes}){{TM_RAMP_{_lanes}}}))",
            _found[: _bits * _lanes // 32] + [9] * (8 - _bits * _lanes // 32),
        )
        _first = _name.replace("GATHER", "GATHER_FIRST")
        _active = [e if k < 3 * _bits // 32 else 0 for k, e in enumerate(_found)]
        CALLS[_first] = (
            f"SAVE({_first}(int{_bits}x{_lanes}, {_from}, (int{_index}x{_lanes}){{TM_RAMP_{_lanes}}}, 3))",
            _active[: _bits * _lanes // 32] + [9] * (8 - _bits * _lanes // 32),
        )

PROGRAM = """
#define BACK_8 7, 6, 5, 4, 3, 2, 1, 0
#define ODD_8 0, -1, 0, -1, 0, -1, 0, -1
#define SAVE(found)                                                          \\
  {                                                                          \\
    const __auto_type saved = (found);                                       \\
    memcpy(out, &saved, sizeof saved < sizeof out ? sizeof saved : sizeof out); \\
  }
TM_INLINE int32_t negated(int32_t a) { return -a; }
TM_INLINE int32_t weighted(int32_t a, int32_t b) { return a + 10 * b; }
TM_INLINE int is_odd(int32_t a) { return a % 2; }
static int32_t table[64] __attribute__((unused));
static int64_t wide[64] __attribute__((unused));
static int32_t out[16] __attribute__((aligned(64)));
static void check(const char *name, const int32_t *wanted) {
  if (memcmp(out, wanted, 8 * sizeof(int32_t)) != 0) puts(name);
  for (int k = 0; k < 16; k++) out[k] = 9;
}
int main(void) {
  for (int k = 0; k < 64; k++) table[k] = 10 * k, wide[k] = k;
  for (int k = 0; k < 16; k++) out[k] = 9;
  CALLS
  puts("all tried");
  return 0;
}
"""


def defined(text: str) -> Iterator[tuple[str, list[str], str]]:
    """The macros with parameters of a header: name, parameters, body."""
    lines = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text.replace("\\\n", " "), flags=re.DOTALL)
    for name, parameters, body in re.findall(r"^\s*#\s*define\s+(\w+)\(([^)]*)\)(.*)$", lines, re.MULTILINE):
        yield name, [each.strip() for each in parameters.split(",")], body


def calls(body: str) -> Iterator[tuple[str, list[str]]]:
    """What a text calls, with the arguments."""
    for found in re.finditer(r"\b(\w+)\s*\(", body):
        arguments, depth, begin, at = list[str](), 1, found.end(), found.end()
        while at < len(body) and depth:
            depth += (body[at] in "([{") - (body[at] in ")]}")
            if depth == 0 or (depth == 1 and body[at] == ","):
                arguments.append(body[begin:at].strip())
                begin = at + 1
            at += 1
        yield found[1], arguments


def test_no_macro_hands_a_value_on_as_it_is() -> None:
    folder = Path(__file__).resolve().parents[2] / "tiramisu_py" / "backends"
    found = [(path.name, *each) for path in sorted(folder.rglob("*.h")) for each in defined(path.read_text())]
    known = {name for _, name, *_ in found}
    handed = [
        f"{file}: {name} calls {callee} with {argument}"
        for file, name, parameters, body in found
        for callee, arguments in calls(body)
        if callee in known
        for argument in arguments
        if argument in parameters and argument not in WORDS
    ]
    assert len(known) > 150
    assert handed == []


def test_a_call_of_each_macro_that_takes_vectors_is_tried() -> None:
    taken = {
        name for file in HEADERS for name, parameters, _ in defined((C / file).read_text()) if VECTORS & {*parameters}
    }
    internal = {"TM_EACH_LANE", "TM_LIMIT", "TM_TOGETHER", "TM_UP_TO"}
    assert taken - internal <= {*CALLS}


@pytest.mark.parametrize("target", [t for t in TARGETS if "sanitised" not in t.name], ids=str)
def test_vectors_with_commas_are_arguments_of_every_macro(target: Target, tmp_path: Path) -> None:
    if target.missing:
        pytest.skip(target.missing)
    types = VectorTypes()
    for dtype, lanes in ((ty.int32, 4), (ty.int32, 8), (ty.int32, 16), (ty.int64, 4), (ty.int64, 8), (ty.float32, 8)):
        types.name(dtype, lanes)
    types.name(ty.int64, 16)
    types.neighbours(ty.int32, 8)
    lines = [f"#include <{name}.h>" for name in ("stdint", "stdio", "string")]
    lines += [f'#include "{name}"' for name in HEADERS]
    checks = [
        f'{{ {call} check("{name}", (const int32_t[]){{{", ".join(map(str, wanted))}}}); }}'
        for name, (call, wanted) in CALLS.items()
    ]
    lines += [*types.declarations(), PROGRAM.replace("CALLS", "\n".join(checks))]
    (tmp_path / "all.c").write_text("\n".join(lines))
    for name in (*HEADERS, "tm_runtime.h"):
        (tmp_path / name).write_text((C / name).read_text())
    command = [*target.compiler, *REQUIRED, *STRICT, *target.options, "all.c", "-o", "all", "-lm"]
    compiled(command, tmp_path, "all")
    ran = subprocess.run([*target.runner, tmp_path / "all"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "all tried\n"), ran.stderr


def test_the_numbers_of_a_loop_are_stored_past_the_caches() -> None:
    N, M = tm.params("N M")
    i, j = tm.iters("i j")
    f = tm.Function("ramp", params=[N, M])
    o = f.computation("o", {i: N, j: M}, tm.cast(tm.int32, j) + 2)
    f.outputs(o)
    o.vectorize(j, 8, remainder="overlap").store_nontemporal(above=0)
    assert re.search(r"TM_STREAM_ALIGNED\([^;]*\{TM_RAMP_8\}[^;]*;", f.source()["ramp_body.h"])
    kernel = f.compile(threads=1)
    for n, m in ((0, 0), (1, 1), (3, 37)):
        np.testing.assert_array_equal(kernel(N=n, M=m), np.tile(np.arange(2, m + 2, dtype=np.int32), (n, 1)))

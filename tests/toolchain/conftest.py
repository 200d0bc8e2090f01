"""Functions written by hand, in C and as loop functions without a body: what the compiler would hand over."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import islpy as isl
import pytest

from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.declarations import Algorithm, Input
from tiramisu_py.algorithm.expressions import Const, Expr, Param, binary
from tiramisu_py.backends.c import Emitted
from tiramisu_py.ir import ArrayArgument, Block, LoopFunction, ScalarArgument
from tiramisu_py.toolchain import Kernel, compile_function, open_cache

R, C, N, M = (Param(name) for name in "RCNM")

MIX_H = """#ifndef MIX_H
#define MIX_H
#include <stdint.h>
int mix(int64_t R, int64_t C, float a, int8_t k, const float *image, const int32_t *column, uint8_t *state, float *by,
        double *total);
const char *mix_last_error(void);
#endif
"""

MIX_C = """#include "mix.h"
static _Thread_local const char *message = "";
const char *mix_last_error(void) { return message; }
int mix(int64_t R, int64_t C, float a, int8_t k, const float *image, const int32_t *column, uint8_t *state, float *by,
        double *total) {
    if (a == 13.0f) { message = "a is unlucky"; return 7; }
    for (int64_t r = 0; r < R; r++) {
        for (int64_t c = 0; c < C; c++) by[r * C + c] = a * image[(r + 1) * (C + 2) + c + 1] + k;
        state[r]++;
        if (r % 2 == 0) total[r] = image[r * (C + 2) + column[r]];
    }
    return 0;
}
"""

SAXPY_H = """#ifndef SAXPY_H
#define SAXPY_H
#include <stdint.h>
int saxpy(int64_t N, float a, const float *x, const float *y, float *z);
const char *saxpy_last_error(void);
#endif
"""

SAXPY_C = """#include "saxpy.h"
#include <stddef.h>
static _Thread_local const char *message = "";
const char *saxpy_last_error(void) { return message; }
int saxpy(int64_t N, float a, const float *x, const float *y, float *z) {
    if (N < 0) { message = "saxpy needs N >= 0"; return 1; }
    if (N > 0 && (x == NULL || y == NULL || z == NULL)) { message = "saxpy: an array is NULL"; return 2; }
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < N; i++) z[i] = a * x[i] + y[i];
    return 0;
}
"""


@dataclass(frozen=True)
class Written:
    """A function written by hand: all that `compile_function` takes."""

    function: LoopFunction
    sources: dict[str, str]
    algorithm: Algorithm

    def compile(self, **options: Any) -> Kernel:
        return compile_function(self.function, self.emitted, self.algorithm, **options)

    @property
    def emitted(self) -> Emitted:
        return Emitted(self.sources, prototype(self.function.name, self.sources))


def prototype(name: str, sources: Mapping[str, str]) -> str:
    """The prototype that the header of a function written by hand has."""
    found = re.search(rf"^int {name}\([^;{{]*\);", sources.get(f"{name}.h", ""), re.MULTILINE)
    return " ".join(found.group().split()) if found else f"int {name}();"


def array(name: str, dtype: ty.DType, *extents: Expr | int, out: bool = False, **more: Any) -> ArrayArgument:
    shape = tuple(Const(e, ty.int64) if isinstance(e, int) else e for e in extents)
    return ArrayArgument(name, dtype, shape, is_input=more.pop("inout", not out), is_output=out, **more)


def algorithm_of(name: str, params: tuple[str, ...], inputs: Iterable[Input], outputs: tuple[str, ...]) -> Algorithm:
    context = isl.Context()
    space = isl.Space.create_from_names(context, set=[], params=list(params)).params()
    return Algorithm(name, context, params, isl.Set.universe(space), {i.name: i for i in inputs}, {}, outputs)


def written(function: LoopFunction, sources: dict[str, str], facts: dict[str, dict[str, Any]]) -> Written:
    inputs = [
        Input(a.name, a.dtype, getattr(a, "extents", ()), scalar=isinstance(a, ScalarArgument), **facts.get(a.name, {}))
        for a in function.arguments
        if isinstance(a, ScalarArgument) or a.is_input
    ]
    return Written(function, sources, algorithm_of(function.name, function.params, inputs, function.outputs))


def plain(body: str, *arguments: ArrayArgument | ScalarArgument, name: str = "f", facts: Any = None) -> Written:
    """A function of N from its C body alone; its outputs are the arrays that it writes."""
    outputs = tuple(a.name for a in arguments if isinstance(a, ArrayArgument) and a.is_output)
    function = LoopFunction(name, ("N",), arguments, (), Block(()), outputs=outputs)
    declared = [
        f"{a.dtype.c_name} {a.name}"
        if isinstance(a, ScalarArgument)
        else f"{'' if a.is_output else 'const '}{a.dtype.c_name} *{a.name}"
        for a in arguments
    ]
    text = (
        "#include <stdint.h>\n#include <stdbool.h>\ntypedef uint16_t tm_float16;\ntypedef uint16_t tm_bfloat16;\n"
        f'const char *{name}_last_error(void);\nconst char *{name}_last_error(void) {{ return ""; }}\n'
        f"int {name}({', '.join(['int64_t N', *declared])});\n"
        f"int {name}({', '.join(['int64_t N', *declared])}) {{\n{body}\nreturn 0;\n}}\n"
    )
    return written(function, {f"{name}.c": text}, facts or {})


@pytest.fixture(scope="session")
def shared_cache() -> Path:
    """The cache of all other tests; on ranks, it is known already."""
    return open_cache().base or open_cache().root


@pytest.fixture(scope="session")
def cache_folder(shared_cache: Path) -> Path:
    """The cache of this room, which is kept, too."""
    folder = shared_cache.with_name(f"{shared_cache.name}-build")
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@pytest.fixture(autouse=True)
def own_cache(cache_folder: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of the cache only read that of other tests, and no compiler is of the user's choice."""
    monkeypatch.setenv("TIRAMISU_CACHE_DIR", str(cache_folder))
    monkeypatch.setenv("TIRAMISU_CACHE_BASE", str(shared_cache))
    monkeypatch.delenv("CC", raising=False)


@pytest.fixture
def make() -> Callable[..., Written]:
    return plain


@pytest.fixture
def mix() -> Written:
    two = Const(2, ty.int64)
    arguments = (
        ScalarArgument("a", ty.float32),
        ScalarArgument("k", ty.int8),
        array("image", ty.float32, binary("+", R, two), binary("+", C, two)),
        array("column", ty.int32, R),
        array("state", ty.uint8, R, out=True, inout=True),
        array("by", ty.float32, R, C, out=True),
        array("total", ty.float64, R, out=True, covered=False),
    )
    needs = (binary(">=", R, 1), "R >= 1")
    outputs = ("by", "total", "state")
    function = LoopFunction("mix", ("R", "C"), arguments, (needs,), Block(()), outputs=outputs)
    facts = {"column": {"values": (Const(0, ty.int64), C)}}
    return written(function, {"mix.c": MIX_C, "mix.h": MIX_H}, facts)


@pytest.fixture
def saxpy() -> Written:
    x, y, z = array("x", ty.float32, N), array("y", ty.float32, N), array("z", ty.float32, N, out=True)
    function = LoopFunction("saxpy", ("N",), (ScalarArgument("a", ty.float32), x, y, z), (), Block(()), outputs=("z",))
    return written(function, {"saxpy.c": SAXPY_C, "saxpy.h": SAXPY_H}, {})

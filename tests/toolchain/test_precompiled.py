"""System headers that are compiled once: kernels are the same with them and without, and nothing depends on them."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.errors import ToolchainError
from tiramisu_py.toolchain import Kernel, open_cache
from tiramisu_py.toolchain.compilers import library
from tiramisu_py.toolchain.compilers.c_compiler import Toolchain, find_toolchain

N = tm.params("N")[0]
i = tm.iters("i")[0]

Compile = Callable[..., Kernel]


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What gcc is called with for kernels; the cache is empty."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("TIRAMISU_CACHE_DIR", str(folder))
    monkeypatch.delenv("TIRAMISU_CACHE_BASE")
    toolchain = find_toolchain(open_cache())
    if toolchain.family != "gcc" or not toolchain.is_x86:
        pytest.skip("gcc for x86 alone has such headers")
    seen: list[list[str]] = []
    run = Toolchain.run

    def seeing(self: Toolchain, arguments: Any, folder: Path) -> None:
        seen.append(list(arguments))
        run(self, arguments, folder)

    monkeypatch.setattr(Toolchain, "run", seeing)
    return seen


def kernel(factor: int, **options: Any) -> Kernel:
    """A kernel with vectors, that includes <immintrin.h>."""
    f = tm.Function("scaled", params=[N])
    x = f.input("x", tm.float32, [N])
    y = f.computation("y", {i: N}, tm.maximum(x[i] * factor, 0.0))
    f.outputs(y)
    y.vectorize(i, 8)
    assert '#include "tm_idioms.h"' in f.source()["scaled.c"]
    made = f.compile(**options)
    given = np.arange(-20, 21, dtype=np.float32)
    np.testing.assert_array_equal(made(given), np.maximum(given * factor, 0))
    return made


def quick(calls: list[list[str]]) -> list[bool]:
    """Which of the kernels were compiled with precompiled headers."""
    return ["-include" in call for call in calls if any(word.endswith(".c") for word in call)]


def precompiled() -> list[Path]:
    """The precompiled headers in the cache."""
    return sorted(open_cache().root.glob("entries/*/*.gch"))


def test_from_the_second_kernel_on_headers_are_precompiled(calls: list[list[str]]) -> None:
    first = kernel(2)
    assert not precompiled()
    second, third = kernel(3), kernel(4)
    assert quick(calls) == [False, True, True]
    assert len(precompiled()) == 1
    assert first.library != second.library != third.library


def test_other_flags_are_another_header(calls: list[list[str]]) -> None:
    for factor in (2, 3):
        kernel(factor), kernel(factor, target="x86-64")
    assert quick(calls) == [False, False, True, True]
    assert len(precompiled()) == 2


def test_the_library_is_the_same_as_without(calls: list[list[str]], tmp_path: Path) -> None:
    for factor in (2, 3):
        made = kernel(factor)
    recipe = made.recipe
    recipe.build(tmp_path)  # without a cache
    assert quick(calls) == [False, True, False]
    assert (tmp_path / recipe.file_name).read_bytes() == made.library.read_bytes()


def test_a_kernel_does_not_depend_on_the_precompiled_header(calls: list[list[str]]) -> None:
    for factor in (2, 3):
        made = kernel(factor)
    precompiled()[0].write_bytes(b"damaged")
    assert kernel(3).library == made.library
    assert quick(calls) == [False, True]


@pytest.mark.parametrize("known", [False, True], ids=["an entry that is damaged", "a header that gcc does not take"])
def test_a_broken_header_costs_time_alone(calls: list[list[str]], known: bool) -> None:
    for factor in (2, 3):
        kernel(factor)
    path = precompiled()[0]
    damaged = path.read_bytes()[:1000]
    path.write_bytes(damaged)
    if known:
        manifest = json.loads((path.parent / "manifest.json").read_text())
        manifest["files"][path.name] = sha256(damaged).hexdigest()
        (path.parent / "manifest.json").write_text(json.dumps(manifest))
    kernel(4)
    assert quick(calls)[:3] == [False, True, True]
    assert (precompiled()[0].stat().st_size == len(damaged)) == known


def test_a_gcc_that_cannot_make_one_compiles_as_before(
    calls: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = tmp_path / "gcc"
    without.write_text('#!/bin/sh\ncase " $* " in *" c-header "*) exit 1;; esac\nexec gcc "$@"\n')
    without.chmod(0o755)
    monkeypatch.setenv("CC", str(without))
    for factor in (2, 3, 4):
        kernel(factor)
    assert quick(calls) == [False] * 3
    assert not precompiled()


def test_where_compilation_with_it_fails_it_is_left_out(
    calls: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = ("-include", str(tmp_path / "missing.h"))
    monkeypatch.setattr(library, "precompiled_intrinsics", lambda *given: missing)
    kernel(2)
    assert quick(calls) == [True, False]


def test_the_message_about_a_source_does_not_mention_it(calls: list[list[str]]) -> None:
    for factor in (2, 3):
        kernel(factor)
    broken = tm.extern("broken", [tm.float32], tm.float32, abs, source="static float broken(float x) { return y; }")
    f = tm.Function("scaled", params=[N])
    x = f.input("x", tm.float32, [N])
    y = f.computation("y", {i: N}, tm.maximum(broken(x[i]), 0.0))
    f.outputs(y)
    y.vectorize(i, 8)
    with pytest.raises(ToolchainError) as raised:
        f.compile()
    assert quick(calls)[2:] == [True, False]
    assert "-include" not in str(raised.value)


def test_sources_that_choose_what_headers_declare_do_without(calls: list[list[str]]) -> None:
    source = "#define _GNU_SOURCE\n#include <math.h>\nstatic float own(float x) { return x + (float)(exp10(0) - 1); }"
    own = tm.extern("own", [tm.float32], tm.float32, lambda x: x, source=source)
    for factor in (1, 2, 3):
        f = tm.Function("scaled", params=[N])
        x = f.input("x", tm.float32, [N])
        y = f.computation("y", {i: N}, tm.maximum(own(x[i]) * factor, 0.0))
        f.outputs(y)
        y.vectorize(i, 8)
        f.compile()
    assert quick(calls) == [False] * 3

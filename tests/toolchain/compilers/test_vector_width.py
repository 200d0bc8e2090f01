"""The compiler is told how wide the vectors of the sources are, where it would prefer others."""

from __future__ import annotations

import platform
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import tiramisu_py as tm
from tests.backends.c.vectors.test_c_idioms import COMPILERS
from tests.toolchain.compilers.test_cross import cross
from tests.toolchain.compilers.test_toolchain import script
from tiramisu_py.toolchain import find_toolchain, open_cache, processor_for
from tiramisu_py.toolchain.compilers.processor import resolve_processor

x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="names processors of x86-64")
WIDTH = re.compile(r"-mprefer-vector-width=\S+")


@x86
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(
    ("target", "flags"),
    [
        ("icelake-server", ["-mprefer-vector-width=512"]),
        ("skylake-avx512", ["-mprefer-vector-width=512"]),
        ("x86-64-v4", ["-mprefer-vector-width=512"]),
        ("znver3", ["-mprefer-vector-width=256"]),
        ("znver1", ["-mprefer-vector-width=256"]),
        ("x86-64", []),
    ],
)
def test_a_kernel_is_compiled_for_whole_vectors_of_its_target(saxpy, compiler, target, flags):
    assert WIDTH.findall(" ".join(saxpy.compile(target=target, compiler=compiler).recipe.flags)) == flags


@x86
def test_this_machine_is_a_target_like_others(saxpy):
    size = processor_for().vector_bytes
    said = WIDTH.findall(" ".join(saxpy.compile().recipe.flags))
    assert said == ([f"-mprefer-vector-width={8 * size}"] if size > 16 else [])


@cross
def test_another_kind_of_machine_has_no_such_flag(saxpy):
    recipe = saxpy.compile(compiler="aarch64-linux-gnu-gcc", target="neoverse-n1").recipe
    assert WIDTH.findall(" ".join(recipe.flags)) == []


@x86
def test_a_compiler_that_does_not_know_the_flag_is_not_given_it(saxpy, tmp_path):
    refuses = (
        'for a in "$@"; do case "$a" in -mprefer*) echo "unknown option $a" >&2; exit 1;; esac; done; exec gcc "$@"'
    )
    old = script(tmp_path / "old-gcc", refuses)
    kernel = saxpy.compile(compiler=old, target="x86-64-v3")
    assert WIDTH.findall(" ".join(kernel.recipe.flags)) == [] and kernel.recipe.processor.vector_bytes == 32


@x86
def test_libraries_of_another_width_are_others_in_the_cache(saxpy):
    recipe = saxpy.compile(target="x86-64-v3").recipe
    narrow = replace(recipe, processor=replace(recipe.processor, width=()))
    assert recipe.processor.width and narrow.key != recipe.key


@x86
def test_a_processor_is_recalled_with_its_width():
    cache = open_cache()
    toolchain = find_toolchain(cache)
    found = [resolve_processor(cache, toolchain, "x86-64-v3") for _ in range(2)]
    assert found[0] == found[1] and found[1].width == ("-mprefer-vector-width=256",)


@x86
@pytest.mark.parametrize("variables", ["", " ARCH=-march=x86-64-v2", " CC=clang", " CFLAGS=-O1"])
def test_an_exported_makefile_says_the_width_of_its_sources(saxpy, tmp_path, variables):
    if "clang" in variables and "clang" not in COMPILERS:
        pytest.skip("no clang")
    folder = saxpy.compile(target="x86-64-v3").export(tmp_path)
    assert set(WIDTH.findall(made(folder, variables))) == {"-mprefer-vector-width=256"}


@x86
def test_a_makefile_leaves_out_a_flag_that_its_compiler_does_not_know(saxpy, tmp_path):
    folder = saxpy.compile(target="x86-64-v3").export(tmp_path / "out")
    refuses = 'for a in "$@"; do case "$a" in -mprefer*) exit 1;; esac; done; exec cc "$@"'
    assert WIDTH.findall(made(folder, f" CC={script(tmp_path / 'old-cc', refuses)}")) == []


def made(folder: Path, variables: str) -> str:
    command = f"make clean all{variables}"
    return subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, check=True).stdout


@x86
def test_versions_of_a_function_are_compiled_with_it():
    (n,), (i,) = tm.params("n"), tm.iters("i")
    f = tm.Function("twice", params=[n])
    b = f.computation("b", {i: n}, 2 * f.input("a", tm.float32, [n])[i])
    f.outputs(b)
    b.vectorize(i, 16)
    f.specialize(n=64)
    assert "-mprefer-vector-width=256" in f.compile(target="x86-64-v3").recipe.flags

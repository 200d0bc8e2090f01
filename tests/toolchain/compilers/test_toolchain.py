"""Compilers are found, explained when missing, and told exactly what they may do."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import Const, Param
from tiramisu_py.errors import KernelError, ToolchainError
from tiramisu_py.ir import ArrayArgument
from tiramisu_py.toolchain import Toolchain, compile_function, find_toolchain, open_cache, processor_for
from tiramisu_py.toolchain.compilers import tools
from tiramisu_py.toolchain.compilers.processor import VARIABLE, resolve_processor
from tiramisu_py.toolchain.files import tool_files

N = Param("N")
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_without_a_compiler_the_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainError, match=r"(?s)no C compiler.*apt-get install gcc.*dnf install.*xcode-select"):
        find_toolchain(open_cache())


def test_the_compiler_of_the_environment_comes_first_and_may_have_arguments(monkeypatch):
    monkeypatch.setenv("CC", "gcc -DEXTRA=1")
    found = find_toolchain(open_cache())
    assert found.command == (shutil.which("gcc"), "-DEXTRA=1") and found.family == "gcc"


@pytest.mark.parametrize("named", ["no-such-compiler", "'", "true"])
def test_a_named_compiler_that_does_not_work_is_not_silently_replaced(monkeypatch, named):
    monkeypatch.setenv("CC", named)
    with pytest.raises(ToolchainError, match=f"CC={named} is not a usable C compiler"):
        find_toolchain(open_cache())
    with pytest.raises(ToolchainError, match="compiler=nothing"):
        find_toolchain(open_cache(), "nothing")


def test_a_broken_compiler_is_passed_over_for_the_next(monkeypatch, tmp_path):
    real = shutil.which("gcc")
    script(tmp_path / "gcc", "echo 'xcrun: error' >&2; exit 1")
    script(tmp_path / "cc", f'exec {real} "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert find_toolchain(open_cache()).command[0] != str(tmp_path / "gcc")


def test_a_compiler_without_openmp_still_compiles_parallel_loops(saxpy, monkeypatch, tmp_path, caplog):
    gcc = shutil.which("gcc")
    no = f'for a in "$@"; do [ "$a" = -fopenmp ] && {{ echo no openmp >&2; exit 1; }}; done; exec {gcc} "$@"'
    kernel = saxpy.compile(compiler=script(tmp_path / "small-gcc", no))
    assert kernel.recipe.openmp == () and "run on one thread" in caplog.text
    x = np.arange(9, dtype=np.float32)
    np.testing.assert_array_equal(kernel(1, x, x), 2 * x)


def test_what_the_compiler_can_do_is_asked_once(monkeypatch, tmp_path):
    calls = tmp_path / "calls"
    gcc = script(tmp_path / "counting", f'echo x >> {calls}; exec {shutil.which("gcc")} "$@"')
    find_toolchain(open_cache(), gcc)
    first = len(calls.read_text())
    find_toolchain(open_cache(), gcc)
    assert len(calls.read_text()) == first
    command = "import sys; from tiramisu_py.toolchain import *; print(find_toolchain(open_cache(), sys.argv[1]).family)"
    said = subprocess.run([sys.executable, "-c", command, gcc], capture_output=True, text=True, check=True).stdout
    assert said == "gcc\n"
    assert len(calls.read_text()) == first + len("x\n"), "another process asks a script for its version again"


def test_a_script_that_stands_for_another_compiler_is_noticed(monkeypatch, tmp_path):
    """As far as its own file or its answer tells."""
    gcc = script(tmp_path / "gcc", f'exec {shutil.which("gcc")} "$@"')
    before = find_toolchain(open_cache(), gcc)
    script(tmp_path / "gcc", '[ "$1" = --version ] && echo "gcc 99, Free Software Foundation" && exit; exec gcc "$@"')
    after = find_toolchain(open_cache(), gcc)
    assert after.identity != before.identity and after.version.startswith("gcc 99")


def test_a_link_to_another_compiler_is_noticed(tmp_path):
    if len(COMPILERS) < 2:
        pytest.skip("one compiler")
    link = tmp_path / "cc"
    link.symlink_to(shutil.which("gcc"))
    assert find_toolchain(open_cache(), str(link)).family == "gcc"
    link.unlink()
    link.symlink_to(shutil.which("clang"))
    assert find_toolchain(open_cache(), str(link)).family == "clang"


@pytest.mark.parametrize("variable", ["CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH"])
def test_where_a_compiler_looks_for_headers_and_libraries_is_part_of_the_key(saxpy, monkeypatch, tmp_path, variable):
    before = saxpy.compile().recipe.key
    monkeypatch.setenv(variable, str(tmp_path))
    assert saxpy.compile().recipe.key != before


@pytest.mark.parametrize(
    ("path", "its_own"),
    [
        ("x86_64-linux-gnu-gcc-12", True), ("gcc", True), ("clang", True), ("clang++-14", True), ("g++", True),
        ("ccache", False), ("distcc", False), ("icecc", False), ("zig", False), ("gcc-wrapper", False),
    ],
)  # fmt: skip
def test_only_a_compiler_answers_for_its_own_file(tmp_path, path, its_own):
    (tmp_path / path).write_bytes(b"\x7fELF")
    state = tool_files.file_state(str(tmp_path / path))
    if its_own:
        assert tools.answer_behind([str(tmp_path / path)], state) == ""
    else:
        with pytest.raises(subprocess.CalledProcessError):  # it is asked, and cannot be run
            tools.answer_behind([str(tmp_path / path)], state)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_one_call_compiles_and_links_and_tells_the_headers(saxpy, tmp_path, monkeypatch, compiler):
    header = tmp_path / "my weights.h"
    header.write_text(f"#define WEIGHT {os.getpid()}\n")
    source = f'#include "{header}"\n{saxpy.sources["saxpy.c"]}'
    calls, run = [], Toolchain.run
    monkeypatch.setattr(Toolchain, "run", lambda self, *given: (calls.append(given[0]), run(self, *given))[1])
    made = replace(saxpy, sources={**saxpy.sources, "saxpy.c": source}).compile(compiler=compiler).library
    assert [word for word in calls[0] if word in ("-shared", "-c", "saxpy.c")] == ["-shared", "saxpy.c"]
    assert len(calls) == 1
    outside = json.loads((made.parent / "manifest.json").read_text())["outside"]
    assert list(outside) == [str(header)]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_each_compiler_gives_the_same_values(mix, compiler):
    image, column = np.random.default_rng(1).random((9, 8), dtype=np.float32), np.arange(7, dtype=np.int32) % 6
    got = mix.compile(compiler=compiler)(0.1, 3, image, column, np.zeros(7, np.uint8))
    np.testing.assert_array_equal(got[0], np.float32(0.1) * image[1:-1, 1:-1] + np.float32(3))


def test_what_the_compiler_refuses_is_reported_with_command_and_words(saxpy):
    broken = {**saxpy.sources, "saxpy.c": saxpy.sources["saxpy.c"].replace("z[i] =", "zz[i] =")}
    with pytest.raises(ToolchainError, match=r"(?s)gcc failed.*-ffp-contract=off.*saxpy\.c:\d+.*zz.*undeclared"):
        replace(saxpy, sources=broken).compile(compiler="gcc")


def test_a_warning_of_the_compiler_fails_no_kernel():
    (n,), (i,) = tm.params("n"), tm.iters("i")
    f = tm.Function("f", params=[n])
    a = f.input("a", tm.int32, [n])
    f.outputs(f.computation("b", {i: n}, tm.select(a[i] > a[i], a[i], 0)))  # "always evaluates to false"
    np.testing.assert_array_equal(f.compile()(np.arange(3, dtype=np.int32)), [0, 0, 0])


@pytest.mark.parametrize("name", ["../x.c", "/x.c", "-x.c", ".x.c", "a b.c", ""])
def test_a_source_cannot_be_written_elsewhere(saxpy, name):
    with pytest.raises(ToolchainError, match="name of a source file"):
        replace(saxpy, sources={name: ""}).compile()


# -- processors


def test_this_processor_is_resolved_to_explicit_flags(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    cache = open_cache()
    found = resolve_processor(cache, find_toolchain(cache))
    assert found.is_local and found.missing == () and found.name
    assert not any("native" in flag for flag in found.flags)
    assert found == resolve_processor(cache, find_toolchain(cache), "native")


@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_explicit_flags_mean_the_same_as_native(compiler, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    cache = open_cache()
    toolchain = find_toolchain(cache, compiler)

    def macros(*flags: str) -> set[str]:
        command = [*toolchain.command, *flags, "-O3", "-dM", "-E", "-x", "c", "/dev/null"]
        return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines())

    assert macros(*resolve_processor(cache, toolchain).flags) == macros("-march=native")


@pytest.mark.parametrize("target", ["pentium-of-doom", "", "x86-64 -O0", "-O0", "$(id)", 5, "x;y"])
def test_a_processor_that_the_compiler_does_not_know_is_refused_by_name(saxpy, target):
    with pytest.raises(ToolchainError, match="target="):
        saxpy.compile(target=target)


def test_code_for_an_older_processor_runs_here(saxpy):
    if not saxpy.compile().recipe.toolchain.is_x86:
        pytest.skip("a processor of another kind")
    kernel = saxpy.compile(target="x86-64")
    x = np.arange(9, dtype=np.float32)
    np.testing.assert_array_equal(kernel(1, x, x), 2 * x)
    assert "-march=x86-64" in kernel.recipe.flags and "x86-64" in repr(kernel)


def test_code_for_a_processor_with_other_instructions_is_exported_but_never_called(saxpy, tmp_path):
    if not saxpy.compile().recipe.toolchain.is_x86:
        pytest.skip("a processor of another kind")
    kernel = saxpy.compile(target="knl")  # AVX512ER and AVX512PF: in no later processor
    x = np.arange(9, dtype=np.float32)
    with pytest.raises(KernelError, match=r"saxpy is compiled for knl; this machine lacks .*AVX512ER"):
        kernel(1, x, x)
    assert (kernel.export(tmp_path) / "libsaxpy.so").exists()


# -- strictness

FLOAT = ArrayArgument("x", ty.float64, (N,), True, False)
OUT = ArrayArgument("z", ty.float64, (N,), False, True)


@pytest.mark.optimised
def test_a_product_and_a_sum_are_rounded_apart_unless_contraction_is_named(make):
    written = make("for (int64_t i = 0; i < N; i++) z[i] = x[i] * x[i] - 1.0;", FLOAT, OUT)
    x = 1 + np.random.default_rng(0).random(1000) * 1e-8
    kernel = written.compile()
    np.testing.assert_array_equal(kernel(x), x * x - 1.0)
    fused = written.compile(fast=("contract",))
    if any(flag == "-mfma" for flag in fused.recipe.flags):
        assert (fused(x) != x * x - 1.0).any()


def test_sums_keep_their_order_unless_reassociation_is_named(make):
    out = ArrayArgument("z", ty.float64, (Const(1, ty.int64),), False, True)
    written = make("double s = 0; for (int64_t i = 0; i < N; i++) s += x[i]; z[0] = s;", FLOAT, out)
    x = np.random.default_rng(0).random(1001) * 10.0 ** np.arange(1001) ** 0.3
    in_order = 0.0
    for value in x.tolist():
        in_order += value
    assert written.compile()(x)[0] == in_order
    np.testing.assert_allclose(written.compile(fast=("reassociate",))(x), in_order)


def test_a_division_is_a_division_unless_reciprocals_are_named(make):
    written = make("for (int64_t i = 0; i < N; i++) z[i] = x[i] / 3.0;", FLOAT, OUT)
    x = np.random.default_rng(0).random(1000)
    np.testing.assert_array_equal(written.compile()(x), x / 3.0)
    fast = written.compile(fast=("reciprocal", "contract"))
    np.testing.assert_allclose(fast(x), x / 3.0, rtol=1e-15)
    assert "-freciprocal-math" in fast.recipe.flags


@pytest.mark.parametrize("options", [{"fast": ("math",)}, {"fast": "contract"}, {"sanitize": ("thread",)}], ids=repr)
def test_options_that_do_not_exist_are_refused_with_those_that_do(saxpy, options):
    with pytest.raises(ToolchainError, match=r"contract|address"):
        saxpy.compile(**options)


def test_the_address_sanitizer_needs_a_process_that_was_started_with_it(saxpy):
    with pytest.raises(ToolchainError, match=r"LD_PRELOAD=.*libasan"):
        saxpy.compile(sanitize=("address",), compiler="gcc")


@pytest.mark.skipif(shutil.which("clang") is None, reason="no clang")
def test_sanitizers_are_those_of_gcc(saxpy):
    with pytest.raises(ToolchainError, match=r"sanitize= needs gcc.*clang"):
        saxpy.compile(sanitize=("undefined",), compiler="clang")


SANITIZED = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from tests_of_build import plain, ty, N
from tiramisu_py.ir import ArrayArgument
x = ArrayArgument("x", ty.int32, (N,), True, False)
z = ArrayArgument("z", ty.int32, (N,), False, True)
kernel = plain(f"for (int64_t i = 0; i < N + {sys.argv[2]}; i++) z[i] = x[i];", x, z).compile(
    sanitize=("address", "undefined"))
print(kernel(np.arange(1000, dtype=np.int32)).sum())
"""


@pytest.mark.parametrize("beyond", [0, 100])
def test_the_address_sanitizer_finds_what_lies_beyond_an_array(tmp_path, root, beyond):
    gcc = shutil.which("gcc")
    runtime = subprocess.run([gcc, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    if not os.path.isabs(runtime.stdout.strip()):
        pytest.skip("no address sanitizer here")
    (tmp_path / "tests_of_build.py").write_text((root / "tests" / "toolchain" / "conftest.py").read_text())
    environment = {
        **os.environ, "LD_PRELOAD": runtime.stdout.strip(), "ASAN_OPTIONS": "detect_leaks=0", "PYTHONPATH": str(root),
        "CC": "gcc",
    }  # fmt: skip
    command = [sys.executable, "-c", SANITIZED, str(tmp_path), str(beyond)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if beyond:
        assert ran.returncode != 0 and "heap-buffer-overflow" in ran.stderr, ran.stderr
    else:
        assert ran.returncode == 0 and ran.stdout.strip() == "499500", ran.stderr


def test_the_undefined_behaviour_sanitizer_needs_nothing(saxpy):
    kernel = saxpy.compile(sanitize=("undefined",), compiler="gcc")
    x = np.arange(9, dtype=np.float32)
    np.testing.assert_array_equal(kernel(1, x, x), 2 * x)


def test_compile_function_is_the_front_of_the_room(saxpy):
    kernel = compile_function(saxpy.function, saxpy.emitted, saxpy.algorithm)
    assert kernel.name == "saxpy"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names processors of x86-64")
@pytest.mark.parametrize(("target", "size"), [("x86-64", 16), ("x86-64-v3", 32), ("x86-64-v4", 64)])
def test_a_kernel_is_made_for_the_vectors_of_its_processor(target, size):
    assert processor_for(target).vector_bytes == size

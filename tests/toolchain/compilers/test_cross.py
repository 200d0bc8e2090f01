"""Libraries for machines of another kind: compiled, exported and run there, and never loaded here."""

from __future__ import annotations

import platform
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs.gpu.sources import flip
from tests.targets.machines import TARGETS
from tests.toolchain.compilers.test_toolchain import script
from tests.toolchain.test_export import MAIN
from tiramisu_py.errors import KernelError, ToolchainError
from tiramisu_py.toolchain import find_toolchain, open_cache, processor_for

GCC = "aarch64-linux-gnu-gcc"
CLANG = "clang --target=aarch64-linux-gnu"
MISSING = {
    compiler: next(t.missing for t in TARGETS if t.name == name)
    for compiler, name in [(GCC, "gcc-neon"), (CLANG, "clang-neon")]
}
COMPILERS = [pytest.param(c, marks=pytest.mark.skipif(bool(why), reason=why)) for c, why in MISSING.items()]
cross = pytest.mark.skipif(bool(MISSING[GCC]), reason=MISSING[GCC])


@pytest.fixture
def other(tmp_path: Path) -> str:
    """A compiler that says it is for another kind of machine, and makes nothing that runs there."""
    kind = "sparc64-linux-gnu"
    return script(tmp_path / f"{kind}-gcc", f'[ "$1" = -dumpmachine ] && echo {kind} && exit 0; exec gcc "$@"')


@pytest.mark.parametrize("compiler", COMPILERS)
def test_an_export_for_another_machine_runs_there(saxpy, tmp_path, compiler):
    folder = saxpy.compile(compiler=compiler, target="armv8.2-a").export(tmp_path / "out")
    (tmp_path / "main.c").write_text(MAIN)
    openmp = ["-fopenmp"] if compiler == GCC else []
    static = [*compiler.split(), "-static", "main.c", "-Iout", "out/libsaxpy.a", *openmp, "-lm", "-o", "main"]
    subprocess.run(static, cwd=tmp_path, check=True)
    ran = subprocess.run(["qemu-aarch64", "main"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout == "right\n"
    header = (folder / "libsaxpy.so").read_bytes()[:20]
    assert header[18] == 183, "the machine of an ELF file: 183 is AArch64"


@cross
def test_the_exported_makefile_builds_it_again_with_the_same_compiler(saxpy, tmp_path):
    folder = saxpy.compile(compiler=GCC, target="armv8.2-a").export(tmp_path)
    command = next(line for line in (folder / "README.md").read_text().splitlines() if f"CC={GCC}" in line)
    said = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, check=True).stdout
    assert re.findall(r" (-m\S+)", said) == ["-march=armv8.2-a"] * 2, "and nothing of this machine"
    assert (folder / "libsaxpy.so").read_bytes()[18] == 183


@cross
def test_vectors_are_those_of_the_other_machine(tmp_path):
    found = processor_for("armv8.2-a", GCC)
    assert (found.vector_bytes, found.flags, found.missing) == (16, ("-march=armv8.2-a",), ())
    (n,), (i,) = tm.params("n"), tm.iters("i")
    f = tm.Function("twice", params=[n])
    a = f.input("a", tm.float32, [n])
    b = f.computation("b", {i: n}, 2 * a[i])
    f.outputs(b)
    b.vectorize(i, 16)
    text = f.compile(compiler=GCC).source["twice.c"]
    assert "float32x4" in text and "float32x16" not in text
    assert (f.compile(compiler=GCC).export(tmp_path) / "libtwice.so").exists()


# -- what needs no such compiler to be known


def test_nothing_of_this_processor_is_passed_to_a_compiler_for_another(saxpy, other):
    recipe = saxpy.compile(compiler=other).recipe
    assert recipe.processor.flags == () and not recipe.processor.is_local
    assert recipe.processor.name == recipe.processor.machine == "sparc64-linux-gnu"


def test_a_call_of_what_is_for_another_machine_says_to_export_it(saxpy, other):
    kernel, x = saxpy.compile(compiler=other), np.arange(9, dtype=np.float32)
    wanted = (
        rf"saxpy is compiled for sparc64-linux-gnu; this machine is {platform.machine()}.*can be exported, not called"
    )
    for use in (lambda: kernel(1, x, x), lambda: kernel.library, lambda: kernel.empty("x", N=3), kernel.placement):
        with pytest.raises(KernelError, match=wanted):
            use()


def test_native_is_this_machine_and_no_other(saxpy, other):
    with pytest.raises(ToolchainError, match=r"target='native' is this machine's processor.*compiles for sparc64"):
        saxpy.compile(compiler=other, target="native")


def test_a_processor_of_another_kind_needs_a_compiler_for_it(saxpy):
    with pytest.raises(ToolchainError, match=r"does not know it; it compiles for .*needs its own compiler"):
        saxpy.compile(compiler="gcc", target="z80")


def test_the_simulator_is_of_this_machine(other):
    with pytest.raises(ToolchainError, match="the simulator runs on this machine"):
        flip().compile(compiler=other, device="simulator")


@pytest.mark.parametrize(
    ("machine", "own", "system", "foreign"),
    [
        ("x86_64-linux-gnu", "x86_64", "linux", False),
        ("x86_64-pc-linux-gnu", "AMD64", "linux", False),
        ("x86_64-alpine-linux-musl", "x86_64", "linux", False),
        ("x86_64-w64-mingw32", "x86_64", "linux", True),
        ("aarch64-linux-gnu", "x86_64", "linux", True),
        ("aarch64-linux-gnu", "aarch64", "linux", False),
        ("arm64-apple-darwin23.1.0", "arm64", "darwin", False),
        ("aarch64-apple-darwin22", "arm64", "darwin", False),
        ("x86_64-apple-darwin22", "arm64", "darwin", True),
        ("powerpc64le-linux-gnu", "ppc64le", "linux", False),
        ("riscv64-linux-gnu", "riscv64", "linux", False),
        ("i686-linux-gnu", "x86_64", "linux", True),
    ],
)
def test_machines_of_the_same_kind_are_known_by_their_names(monkeypatch, machine, own, system, foreign):
    toolchain = replace(find_toolchain(open_cache()), machine=machine)
    monkeypatch.setattr("platform.machine", lambda: own)
    monkeypatch.setattr("sys.platform", system)
    assert toolchain.is_foreign == foreign

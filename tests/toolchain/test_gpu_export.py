"""Exported libraries that use GPUs: built and called from C."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lacking import CXX, without_cxx
from tests.programs.gpu.sources import flip
from tests.toolchain.test_export import sh
from tiramisu_py.toolchain import gpu_count, open_cache
from tiramisu_py.toolchain.compilers.nvcc import find_nvcc

MAIN = r"""
#include <stdio.h>
#include "flip.h"
int main(void) {
    float x[100], y[100];
    for (int i = 0; i < 100; i++) x[i] = i;
    flip_use_device(0);
    const int code = flip(100, 2.0f, x, y);
    if (code != 0) {
        printf("%d %s\n", code, flip_last_error());
        return 0;
    }
    for (int i = 0; i < 100; i++) if (y[i] != 2 * (i < 64 ? 63 - i : 163 - i)) return 2;
    puts("right");
    return 0;
}
"""
with_gxx = pytest.mark.skipif(without_cxx(), reason=CXX)


def needs_nvcc() -> None:
    found = find_nvcc(open_cache())
    if isinstance(found, str):
        pytest.skip(f"no nvcc: {found}")


def exported(folder: Path, **options: object) -> Path:
    (folder / "main.c").write_text(MAIN)
    return flip().compile(**options).export(folder / "made")


@with_gxx
@pytest.mark.parametrize(
    "library", ["-L. -lflip -Wl,-rpath,.", "libflip.a -lm -ldl -lpthread"], ids=["shared", "static"]
)
def test_a_c_program_runs_an_exported_library_on_the_simulator(tmp_path, library):
    folder = exported(tmp_path, device="simulator")
    sh(f"cc -Wall -Werror -I. ../main.c {library} -o main", folder)
    assert sh("./main", folder) == "right\n"
    assert sh("TM_SIMULATOR='seed=5 timing=lazy' ./main", folder) == "right\n"


@with_gxx
def test_an_exported_simulation_can_be_moved_and_names_no_path_of_this_machine(tmp_path):
    folder = exported(tmp_path, device="simulator")
    for text in folder.glob("*.[chi]*"):
        assert "/entries/" not in text.read_text(errors="replace"), text
    moved = folder.rename(tmp_path / "moved")
    sh("cc -I. ../main.c -L. -lflip -Wl,-rpath,'$ORIGIN' -o main", moved)
    assert sh("cd / && " + str(moved / "main"), moved) == "right\n"


def test_an_export_for_gpus_is_built_by_a_c_compiler_alone(tmp_path):
    needs_nvcc()
    folder = exported(tmp_path, architectures=("sm_75", "compute_75"))
    names = {path.name for path in folder.iterdir()}
    assert {"flip.c", "flip.cu", "flip.h", "tm_gpu.c", "tm_kernel.h", "flip_images.c", "flip_sm_75.inc"} <= names
    sh("make clean", folder)
    sh("PATH=/usr/bin:/bin make all NVCC=false", folder)
    for library in ("-L. -lflip -Wl,-rpath,.", "libflip.a -lm -ldl -lpthread"):
        sh(f"cc -Wall -Werror -I. ../main.c {library} -o main", folder)
        said = sh("./main", folder)
        assert said == "right\n" if gpu_count() else said.startswith("101 flip: no CUDA driver on this machine")


def test_make_images_compiles_the_kernels_again(tmp_path):
    needs_nvcc()
    folder = exported(tmp_path, architectures=("sm_75", "compute_75"))
    ptx = literal(folder / "flip_compute_75.inc")
    for name in ("flip_sm_75.inc", "flip_compute_75.inc"):
        (folder / name).write_text('"nothing"\n')
    compiler = find_nvcc(open_cache())
    sh(f"make images NVCC={compiler.path}", folder)  # type: ignore[union-attr]
    assert literal(folder / "flip_compute_75.inc") == ptx
    assert literal(folder / "flip_sm_75.inc").startswith(b"\x7fELF") and not list(folder.glob("*.cubin"))
    sh("make all", folder)


def literal(path: Path) -> bytes:
    """The bytes of a string literal of C that escapes every one."""
    return bytes.fromhex(path.read_text().replace('"', "").replace("\\x", " "))

"""An exported library is built, linked and found by C programs that know nothing of Python."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tiramisu_py.errors import ToolchainError

MAIN = r"""
#include <stdio.h>
#include <string.h>
#include "saxpy.h"
int main(void) {
    float x[5] = {1, 2, 3, 4, 5}, y[5] = {10, 20, 30, 40, 50}, z[5];
    if (saxpy(5, 2.0f, x, y, z) != 0) return 1;
    for (int i = 0; i < 5; i++) if (z[i] != 2 * x[i] + y[i]) return 2;
    if (saxpy(-1, 2.0f, x, y, z) == 0 || strstr(saxpy_last_error(), "N >= 0") == NULL) return 3;
    if (saxpy(5, 2.0f, 0, y, z) == 0) return 4;
    puts("right");
    return 0;
}
"""

FILES = {
    "saxpy.c", "saxpy.h", "libsaxpy.so", "libsaxpy.a", "Makefile", "saxpy.pc", "saxpy-config.cmake", "README.md",
}  # fmt: skip


def sh(command: str, folder: Path, **environment: str) -> str:
    ran = subprocess.run(
        command, shell=True, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, f"{command}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def folder(saxpy, tmp_path) -> Path:
    exported = saxpy.compile().export(tmp_path / "made" / "here")
    (tmp_path / "main.c").write_text(MAIN)
    return exported


def test_an_export_has_sources_libraries_and_build_files(folder):
    assert names(folder) == FILES
    for path in folder.iterdir():
        wanted = 0o755 if path.suffix == ".so" else 0o644
        assert path.stat().st_mode & 0o777 == wanted, path


@pytest.mark.parametrize("library", ["-L. -lsaxpy -Wl,-rpath,.", "libsaxpy.a -fopenmp -lm"], ids=["shared", "static"])
def test_the_libraries_that_come_with_it_link(folder, library):
    sh(f"cc -Wall -Wextra -Werror -I. ../../main.c {library} -o main", folder)
    assert sh("./main", folder) == "right\n"


def test_the_sources_alone_build_the_libraries_again(folder):
    sh("make clean", folder)
    assert names(folder) == FILES - {"libsaxpy.so", "libsaxpy.a"}
    sh("make clean all", folder)
    sh("cc -I. ../../main.c -L. -lsaxpy -Wl,-rpath,. -o main && ./main", folder)
    assert "SONAME" in sh("readelf -d libsaxpy.so", folder) and ".openmp.c" not in names(folder)


def test_make_does_nothing_where_nothing_changed(folder):
    sh("make", folder)
    assert "cc" not in sh("make", folder)


@pytest.mark.parametrize("options", ["OPENMP=", "CC=gcc", "CFLAGS=-O1", "ARCH=", "CC='gcc -DX' CFLAGS=-O0 OPENMP="])
def test_compiler_and_flags_can_be_chosen(folder, options):
    said = sh(f"make clean all {options}", folder)
    assert all(word.strip("'") in said for word in options.replace("CC=", "").split() if word[0] == "-")
    assert ("-fopenmp" in said) == ("OPENMP=" not in options)
    sh("cc -I. ../../main.c -L. -lsaxpy -Wl,-rpath,. -o main && ./main", folder)


def test_a_compiler_without_openmp_builds_it_too(folder, tmp_path):
    small = tmp_path / "small-cc"
    small.write_text('#!/bin/sh\nfor a in "$@"; do [ "$a" = -fopenmp ] && exit 1; done; exec cc "$@"\n')
    small.chmod(0o755)
    assert "-fopenmp" not in sh(f"make clean all CC={small}", folder)


def test_strict_flags_are_not_lost_with_other_cflags(folder):
    said = sh("make clean all CFLAGS=-O1", folder)
    assert "-ffp-contract=off" in said and "-fwrapv" in said and "-ffast-math" not in said


def test_an_explicit_processor_is_the_makefiles(saxpy, tmp_path):
    if not saxpy.compile().recipe.toolchain.is_x86:
        pytest.skip("a processor of another kind")
    out = saxpy.compile(target="x86-64-v2").export(tmp_path)
    assert "-march=x86-64-v2" in sh("make clean all", out) and "x86-64-v2" in (out / "README.md").read_text()


def test_named_relaxations_are_the_makefiles(saxpy, tmp_path):
    assert "-ffp-contract=fast" in sh("make clean all", saxpy.compile(fast=("contract",)).export(tmp_path))


def test_it_installs_where_it_is_told(folder, tmp_path):
    sh(f"make install PREFIX={tmp_path}/usr DESTDIR=", folder)
    installed = {str(p.relative_to(tmp_path / "usr")) for p in (tmp_path / "usr").rglob("*") if p.is_file()}
    assert installed == {
        "include/saxpy.h", "lib/libsaxpy.so", "lib/libsaxpy.a", "lib/pkgconfig/saxpy.pc",
        "lib/cmake/saxpy/saxpy-config.cmake",
    }  # fmt: skip
    sh(
        f"cc main.c -I{tmp_path}/usr/include -L{tmp_path}/usr/lib -lsaxpy -Wl,-rpath,{tmp_path}/usr/lib -o main",
        tmp_path,
    )
    assert sh("./main", tmp_path) == "right\n"


def test_a_header_that_only_the_sources_need_is_not_installed(saxpy, tmp_path):
    own = {"saxpy.h": '#include "types.h"\n' + saxpy.sources["saxpy.h"], "types.h": "#include <stdint.h>\n"}
    own |= {"saxpy.c": '#include "inside.h"\n' + saxpy.sources["saxpy.c"], "inside.h": "#include <math.h>\n"}
    folder = replace(saxpy, sources=own).compile().export(tmp_path / "out")
    sh(f"make -j2 clean all install PREFIX={tmp_path}/usr", folder)
    assert names(tmp_path / "usr" / "include") == {"saxpy.h", "types.h"}


def test_every_target_of_the_makefile_that_is_no_file_has_a_rule(folder):
    (line,) = [line for line in (folder / "Makefile").read_text().splitlines() if line.startswith(".PHONY:")]
    for target in line.split()[1:]:
        sh(f"make -n {target}", folder)


@pytest.mark.skipif(shutil.which("pkg-config") is None, reason="no pkg-config")
@pytest.mark.parametrize("installed", [False, True])
@pytest.mark.parametrize("static", ["", "--static"])
def test_pkg_config_knows_it(folder, tmp_path, installed, static):
    where = folder
    if installed:
        sh(f"make install PREFIX={tmp_path}/usr", folder)
        where = tmp_path / "usr" / "lib" / "pkgconfig"
    flags = sh(f"pkg-config {static} --cflags --libs saxpy", tmp_path, PKG_CONFIG_PATH=str(where))
    sh(f"cc main.c {flags.strip()} -o main", tmp_path)
    assert sh(f"cd / && {tmp_path}/main", tmp_path) == "right\n"  # it finds the library from anywhere


CMAKE = """cmake_minimum_required(VERSION 3.13)
project(user C)
find_package(saxpy REQUIRED)
find_package(saxpy REQUIRED)
add_executable(shared main.c)
target_link_libraries(shared PRIVATE saxpy::saxpy)
add_executable(static main.c)
target_link_libraries(static PRIVATE saxpy::static)
"""


@pytest.mark.skipif(shutil.which("cmake") is None, reason="no CMake")
@pytest.mark.parametrize("installed", [False, True])
def test_cmake_finds_it(folder, tmp_path, installed):
    (tmp_path / "CMakeLists.txt").write_text(CMAKE)
    found = f"-Dsaxpy_DIR={folder}"
    if installed:
        sh(f"make install PREFIX={tmp_path}/usr", folder)
        found = f"-DCMAKE_PREFIX_PATH={tmp_path}/usr"
    sh(f"cmake -S . -B out {found} && cmake --build out", tmp_path)
    assert sh("out/shared && out/static", tmp_path) == "right\nright\n"


# -- what is there already


def test_a_second_export_replaces_the_first(saxpy, folder):
    (folder / "saxpy.c").write_text("damaged")
    (folder / "notes.txt").write_text("mine")
    saxpy.compile().export(folder)
    assert (folder / "saxpy.c").read_text() == saxpy.sources["saxpy.c"] and (folder / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("file", ["Makefile", "README.md", "saxpy.c", "libsaxpy.so"])
def test_a_file_of_someone_else_is_not_replaced(saxpy, tmp_path, file):
    (tmp_path / file).write_text("mine")
    with pytest.raises(ToolchainError, match=f"(?s){tmp_path}.*{file}.*not replaced"):
        saxpy.compile().export(tmp_path)
    assert names(tmp_path) == {file} and (tmp_path / file).read_text() == "mine"


def test_the_export_of_another_function_is_not_replaced(mix, folder):
    with pytest.raises(ToolchainError, match=r"no export of mix wrote.*Makefile"):
        mix.compile().export(folder)
    assert names(folder) == FILES


def test_a_folder_that_cannot_be_is_refused_with_its_name(saxpy, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ToolchainError, match=r"saxpy cannot be exported to .*file"):
        saxpy.compile().export(tmp_path / "file")


def test_a_library_in_use_is_replaced_beneath_it(saxpy, folder):
    loaded = (folder / "libsaxpy.so").stat().st_ino
    saxpy.compile().export(folder)
    assert (folder / "libsaxpy.so").stat().st_ino != loaded, "writing into a mapped file would end its process"

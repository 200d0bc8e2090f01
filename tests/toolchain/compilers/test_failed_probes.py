"""What has failed once is asked again. What is in the cache needs no compiler, and is not loaded where somebody else
could have written it. An export that fails leaves nothing.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tests.lacking import CXX, without_cxx
from tiramisu_py.errors import ArgumentError, ToolchainError
from tiramisu_py.toolchain import export, open_cache
from tiramisu_py.toolchain.compilers import mpi, tools
from tiramisu_py.toolchain.compilers.c_compiler import find_toolchain
from tiramisu_py.toolchain.compilers.cache import Cache
from tiramisu_py.toolchain.compilers.processor import VARIABLE, resolve_processor
from tiramisu_py.toolchain.compilers.simulator import find_cxx
from tiramisu_py.toolchain.files.entries import replace_file

GCC = shutil.which("gcc") or "gcc"
X = np.arange(9, dtype=np.float32)


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that is empty at the beginning of each test."""
    folder = tmp_path / "fresh"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("TIRAMISU_CACHE_DIR", str(folder))
    monkeypatch.delenv("TIRAMISU_CACHE_BASE")
    return folder


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def mended(tmp_path: Path) -> Path:
    """A compiler fails while this file is there; its version and its own file stay as they are."""
    return tmp_path / "broken"


# -- probes


@pytest.mark.parametrize(
    ("breaks", "words"),
    [
        ('case "$*" in *probe.so*) echo "/tmp/cc.s: No space left on device" >&2; exit 1;; esac', "No space left"),
        ('case "$*" in *probe.so*) echo "cannot find crti.o" >&2; exit 1;; esac', "crti"),
        ('case "$*" in *dumpmachine*) kill -9 $$;; *probe.so*) kill -11 $$;; esac', "cannot make a shared library"),
    ],
)
def test_a_compiler_that_failed_works_as_soon_as_it_is_mended(saxpy, tmp_path, mended, breaks, words):
    compiler = script(tmp_path / "failing", f'if [ -e {mended} ]; then {breaks}; fi; exec {GCC} "$@"')
    mended.touch()
    with pytest.raises(ToolchainError, match=words):
        saxpy.compile(compiler=compiler)
    mended.unlink()
    np.testing.assert_array_equal(saxpy.compile(compiler=compiler)(1, X, X), 2 * X)


def test_a_compiler_that_hangs_is_given_up_and_works_as_soon_as_it_is_mended(tmp_path, mended, monkeypatch):
    compiler = script(tmp_path / "hanging", f'if [ -e {mended} ]; then sleep 1000; fi; exec {GCC} "$@"')
    mended.touch()
    with monkeypatch.context() as patch:
        patch.setattr(tools, "PROBE_SECONDS", 0.2)
        with pytest.raises(ToolchainError, match=r"hanging.*does not answer within 0\.2 s"):
            find_toolchain(open_cache(), compiler)
    mended.unlink()
    assert find_toolchain(open_cache(), compiler).openmp


def test_openmp_that_is_installed_later_is_used(saxpy, tmp_path, mended):
    no = f'if [ -e {mended} ]; then case "$*" in *fopenmp*) echo no libgomp >&2; exit 1;; esac; fi'
    compiler = script(tmp_path / "serial", f'{no}; exec {GCC} "$@"')
    mended.touch()
    assert saxpy.compile(compiler=compiler).recipe.openmp == ()
    mended.unlink()
    assert saxpy.compile(compiler=compiler).recipe.openmp == ("-fopenmp",)


def test_a_processor_that_could_not_be_found_out_is_asked_for_again(tmp_path, mended, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    no = f'if [ -e {mended} ]; then case "$*" in *dev/null*) echo no memory >&2; exit 1;; esac; fi'
    compiler = find_toolchain(open_cache(), script(tmp_path / "forgetful", f'{no}; exec {GCC} "$@"'))
    mended.touch()
    with pytest.raises(ToolchainError, match=r"does not say what it compiles for.*no memory"):
        resolve_processor(open_cache(), compiler)
    mended.unlink()
    usual = resolve_processor(open_cache(), find_toolchain(open_cache(), "gcc"))
    assert resolve_processor(open_cache(), compiler).flags == usual.flags


def test_a_target_that_a_compiler_did_not_know_is_asked_for_again(tmp_path, mended):
    no = f'if [ -e {mended} ]; then case "$*" in *march=x86-64*) echo unknown >&2; exit 1;; esac; fi'
    compiler = find_toolchain(open_cache(), script(tmp_path / "older", f'{no}; exec {GCC} "$@"'))
    if not compiler.is_x86:
        pytest.skip("a processor of another kind")
    mended.touch()
    with pytest.raises(ToolchainError, match="does not know it"):
        resolve_processor(open_cache(), compiler, "x86-64-v3")
    mended.unlink()
    assert resolve_processor(open_cache(), compiler, "x86-64-v3").vector_bytes == 32


def test_an_mpicc_that_failed_is_asked_again(tmp_path, mended, monkeypatch):
    monkeypatch.setattr(mpi, "mpi4py", lambda: type("", (), {"Get_library_version": lambda: "MPICH Version: 5.0.2"}))
    (tmp_path / "mpi.h").write_text("#define MPICH_VERSION 5\n")
    show = f'if [ "$1" = -show ]; then echo gcc -I{tmp_path} -lmpi; exit; fi; exec {GCC} -I{tmp_path} "$@"'
    monkeypatch.setenv("MPICC", script(tmp_path / "mpicc", f"if [ -e {mended} ]; then exit 1; fi; {show}"))
    mended.touch()
    with pytest.raises(ToolchainError, match="does not say how it compiles"):
        mpi.find_mpi(open_cache())
    mended.unlink()
    assert mpi.find_mpi(open_cache()).linking == ("-lmpi",)


def test_a_fault_that_an_earlier_version_remembered_is_forgotten():
    cache = open_cache()
    cache.remember("key", {"fault": "no space"})
    assert cache.recall("key", lambda: {"fault": ""}) == {"fault": ""}


FEW_FILES = """
import resource
import tiramisu_py
from tiramisu_py.toolchain import find_toolchain, open_cache
from tiramisu_py.errors import ToolchainError
cache = open_cache()
resource.setrlimit(resource.RLIMIT_NOFILE, (6, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
try:
    find_toolchain(cache)
except ToolchainError as error:
    print(error)
"""


def test_too_many_open_files_are_no_missing_compiler(root):
    done = subprocess.run([sys.executable, "-c", FEW_FILES], cwd=root, capture_output=True, text=True, check=True)
    assert "too many open files; allow more: ulimit -n" in done.stdout
    assert "no C compiler" not in done.stdout


def test_a_temporary_folder_that_cannot_be_used_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(ToolchainError, match=r"temporary folder cannot be used.*nowhere.*set TMPDIR"):
        find_toolchain(open_cache())


# -- without a compiler


def without_compilers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


def test_a_cached_kernel_needs_no_compiler(saxpy, mix, monkeypatch, tmp_path):
    first = saxpy.compile()
    without_compilers(monkeypatch, tmp_path)
    kernel = saxpy.compile()
    assert kernel.library == first.library
    np.testing.assert_array_equal(kernel(1, X, X), 2 * X)
    with pytest.raises(ToolchainError, match=r"(?s)no C compiler was found.*apt-get install gcc"):
        mix.compile()
    with pytest.raises(ToolchainError, match="no C compiler was found"):
        kernel.export(tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_a_kernel_that_is_cached_but_damaged_needs_a_compiler(saxpy, monkeypatch, tmp_path):
    replace_file(saxpy.compile().library, b"damaged")
    without_compilers(monkeypatch, tmp_path)
    with pytest.raises(ToolchainError, match="no C compiler was found"):
        saxpy.compile()


def test_the_compiler_of_a_name_is_that_of_its_kernels_only(saxpy, monkeypatch, tmp_path):
    saxpy.compile()
    with pytest.raises(ToolchainError, match="compiler=nothing is not a usable C compiler"):
        saxpy.compile(compiler="nothing")


@pytest.mark.skipif(without_cxx(), reason=CXX)
def test_the_simulators_compiler_is_known_without_it(monkeypatch, tmp_path):
    before = find_cxx(open_cache())
    without_compilers(monkeypatch, tmp_path)
    after = find_cxx(open_cache())
    assert after.identity == before.identity and "no C++ compiler was found" in after.absent
    with pytest.raises(ToolchainError, match="no C\\+\\+ compiler was found"):
        after.run(["--version"], tmp_path)


# -- entries that others could have written


def entry_of(saxpy) -> Path:
    return saxpy.compile().library.parent


def changes() -> dict[str, object]:
    def linked(entry: Path) -> None:
        moved = entry.parents[2] / "elsewhere"
        shutil.move(entry, moved)
        entry.symlink_to(moved)

    def library_linked(entry: Path) -> None:
        moved = entry.parents[2] / "library.so"
        shutil.move(entry / "libsaxpy.so", moved)
        (entry / "libsaxpy.so").symlink_to(moved)

    def outside(entry: Path) -> None:
        manifest = json.loads((entry / "manifest.json").read_text())
        manifest["files"] = {f"../{entry.name}/{name}": sum for name, sum in manifest["files"].items()}
        (entry / "manifest.json").write_text(json.dumps(manifest))

    return {
        "entry open to others": lambda entry: entry.chmod(0o777),
        "library open to others": lambda entry: (entry / "libsaxpy.so").chmod(0o766),
        "library open to the group": lambda entry: (entry / "libsaxpy.so").chmod(0o775),
        "manifest open to others": lambda entry: (entry / "manifest.json").chmod(0o666),
        "entry linked": linked,
        "library linked": library_linked,
        "names outside": outside,
        "no names": lambda entry: (entry / "manifest.json").write_text('{"files": {}, "outside": {}}'),
        "truncated": lambda entry: replace_file(entry / "libsaxpy.so", b"\x7fELF"),
        "library missing": lambda entry: (entry / "libsaxpy.so").unlink(),
    }


@pytest.mark.parametrize("change", list(changes()))
def test_an_entry_that_others_could_write_or_that_is_damaged_is_built_again(saxpy, change):
    entry = entry_of(saxpy)
    before = entry.stat().st_ino
    changes()[change](entry)
    kernel = saxpy.compile()
    found = kernel.library.parent
    assert found == entry and not found.is_symlink() and found.lstat().st_ino != before
    for path in (found, *found.iterdir()):
        assert not stat.S_IMODE(path.lstat().st_mode) & 0o022 and not path.is_symlink()
    np.testing.assert_array_equal(kernel(1, X, X), 2 * X)


def test_an_entry_of_another_user_is_built_again(saxpy):
    if os.geteuid() != 0:
        pytest.skip("only root may give a file away")
    entry = entry_of(saxpy)
    os.chown(entry / "libsaxpy.so", 12345, 12345)
    assert saxpy.compile().library.stat().st_uid == os.geteuid()


@pytest.mark.parametrize("part", ["entries", "records"])
def test_folders_inside_of_the_cache_are_checked_like_itself(saxpy, fresh, part, tmp_path):
    saxpy.compile()
    (fresh / part).chmod(0o777)
    with pytest.raises(ToolchainError, match=rf"others may write to .*{part}.*chmod go-w"):
        saxpy.compile()
    (fresh / part).chmod(0o700)
    shutil.move(fresh / part, tmp_path / "moved")
    (fresh / part).symlink_to(tmp_path / "moved")
    with pytest.raises(ToolchainError, match="is not a folder"):
        saxpy.compile()


def test_a_record_that_others_could_write_is_not_believed(fresh):
    cache = Cache(fresh)
    cache.remember("key", {"openmp": ["-fplugin=evil.so"]})
    assert cache.known("key") is not None
    (fresh / "records" / "key.json").chmod(0o666)
    assert cache.known("key") is None


def test_what_a_wide_umask_leaves_open_is_closed(saxpy):
    before = os.umask(0)
    try:
        entry = entry_of(saxpy)
    finally:
        os.umask(before)
    inode = entry.stat().st_ino
    assert entry_of(saxpy).stat().st_ino == inode, "built once"


# -- exports


def listed(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("there", [False, True])
def test_an_export_that_fails_leaves_nothing_and_can_be_repeated(saxpy, tmp_path, monkeypatch, there):
    kernel, folder = saxpy.compile(), tmp_path / "new" / "folder"
    if there:
        folder.mkdir(parents=True)
        (folder / "main.c").write_text("mine")
    libraries = export._libraries

    def none_left(recipe):
        made = libraries(recipe)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        return made

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with monkeypatch.context() as patch:
        patch.setattr(export, "_libraries", none_left)
        try:
            with pytest.raises(ToolchainError, match=r"saxpy cannot be exported to .*File too large"):
                kernel.export(folder)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    if there:
        assert listed(folder) == {"main.c": b"mine"}
    else:
        assert not (tmp_path / "new").exists()
    kernel.export(folder)
    assert {"Makefile", "libsaxpy.so", "libsaxpy.a", "saxpy.h"} <= set(listed(folder))


def test_an_export_that_fails_leaves_an_earlier_one_as_it_was(saxpy, tmp_path, monkeypatch):
    kernel = saxpy.compile()
    kernel.export(tmp_path / "made")
    before = listed(tmp_path / "made")

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(export.Path, "write_bytes", fails)
        with pytest.raises(ToolchainError, match="No space left"):
            saxpy.compile(fast=("contract",)).export(tmp_path / "made")
    assert listed(tmp_path / "made") == before


@pytest.mark.parametrize("folder", ["", None, 5])
def test_an_export_to_no_folder_is_refused(saxpy, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    kernel = saxpy.compile()
    with pytest.raises(ArgumentError, match=r'such as kernel\.export\("saxpy"\)'):
        kernel.export(folder)
    assert set(tmp_path.iterdir()) == before

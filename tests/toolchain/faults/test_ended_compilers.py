"""A compiler that dies, hangs or is interrupted: said in words, nothing is left of it, and the cache goes on."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm
from tests.toolchain.compilers.test_failed_probes import fresh, script

__all__ = ["fresh"]

GCC = shutil.which("gcc") or "gcc"
X = np.arange(9, dtype=np.float32)
#: What a compiler is asked for when it compiles a kernel, and not when it is probed.
KERNEL = "saxpy"


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A compiler does something else than compiling a kernel while this file is there."""
    file = tmp_path / "broken"
    file.touch()
    return file


def compiler(tmp_path: Path, broken: Path, does: str) -> str:
    return script(
        tmp_path / "odd", f'case "$*" in *{KERNEL}*) if [ -e {broken} ]; then {does}; fi;; esac; exec {GCC} "$@"'
    )


def left(cache: Path) -> list[str]:
    """What a compilation has left in a cache: folders, locks, entries other than those of headers."""
    kept = [path for path in (cache / "entries").glob("*") if (path / "libsaxpy.so").exists()]
    return [path.name for path in [*cache.glob("building-*"), *cache.glob("removing-*"), *kept]]


@pytest.mark.parametrize(
    ("does", "words"),
    [
        ("kill -9 $$", r"odd was ended by SIGKILL; the machine may have run out of memory:\n  .*odd .*saxpy\.c"),
        ("kill -11 $$", "odd was ended by SIGSEGV"),
        ("kill -40 $$", "odd was ended by signal 40|odd was ended by SIGRT"),
        ("echo internal compiler error >&2; exit 4", r"odd failed \(return code 4\):\n(.|\n)*internal compiler error"),
        ("exit 0", r"odd failed|cannot|No such file"),
    ],
)
def test_a_compiler_that_dies_is_reported_with_how_and_asked_again(saxpy, tmp_path, broken, fresh, does, words):
    odd = compiler(tmp_path, broken, does)
    with pytest.raises(tm.ToolchainError, match=words):
        saxpy.compile(compiler=odd)
    assert left(fresh) == []
    broken.unlink()
    np.testing.assert_array_equal(saxpy.compile(compiler=odd)(1, X, X), 2 * X)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pids: list[int]) -> bool:
    """Whether processes end soon."""
    until = time.monotonic() + 10
    while any(map(alive, pids)) and time.monotonic() < until:
        time.sleep(0.01)
    return not any(map(alive, pids))


def test_a_compiler_that_hangs_is_ended_with_its_children_after_the_limit(saxpy, tmp_path, broken, fresh, monkeypatch):
    odd = compiler(tmp_path, broken, f"sleep 1000 & echo $$ $! > {tmp_path}/pids; wait")
    monkeypatch.setenv("TIRAMISU_COMPILER_SECONDS", "0.3")
    said = r"odd was given up:\n(.|\n)*does not answer within 0\.3 s, the limit that TIRAMISU_COMPILER_SECONDS sets"
    with pytest.raises(tm.ToolchainError, match=said):
        saxpy.compile(compiler=odd)
    assert gone([int(word) for word in (tmp_path / "pids").read_text().split()]) and left(fresh) == []
    broken.unlink()
    monkeypatch.setenv("TIRAMISU_COMPILER_SECONDS", "0")
    np.testing.assert_array_equal(saxpy.compile(compiler=odd)(1, X, X), 2 * X)


@pytest.mark.parametrize("given", ["soon", "-1", "nan"])
def test_a_limit_that_is_no_number_of_seconds_is_refused(saxpy, fresh, monkeypatch, given):
    monkeypatch.setenv("TIRAMISU_COMPILER_SECONDS", given)
    with pytest.raises(
        tm.ArgumentError, match=r"TIRAMISU_COMPILER_SECONDS='.*' is not a number of seconds, such as 600"
    ):
        saxpy.compile()


INTERRUPTED = """
import signal
import sys
import tiramisu_py as tm
signal.signal(signal.SIGINT, signal.default_int_handler)  # which jobs in the background ignore
(N,), (i,) = tm.params("N"), tm.iters("i")

def scheduled(target):
    f = tm.Function("saxpy", params=[N])
    x = f.input("x", tm.float32, [N])
    f.outputs(f.computation("y", {i: N}, x[i] * 2))
    return f

odd, *versions = sys.argv[1:]
tm.compile_versions(scheduled, versions, compiler=odd) if versions else scheduled(None).compile(compiler=odd)
"""


@pytest.mark.parametrize(
    ("number", "versions"),
    [(signal.SIGINT, ()), (signal.SIGINT, ("x86-64-v2", "x86-64-v3")), (signal.SIGKILL, ())],
)
def test_what_ends_a_process_while_it_compiles_leaves_a_cache_that_works(
    saxpy, tmp_path, broken, fresh, root, number, versions
):
    if versions and platform.machine() != "x86_64":
        pytest.skip("versions for another kind of processor")
    pids = tmp_path / "pids"
    pids.touch()
    odd = compiler(tmp_path, broken, f"sleep 1000 & echo $$ $! >> {pids}; wait")
    command = [sys.executable, "-c", INTERRUPTED, odd, *versions]
    process = subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while len(pids.read_text().splitlines()) < max(len(versions), 1) and process.poll() is None:
        time.sleep(0.01)
    os.kill(process.pid, number)  # the process alone: no compiler hears of it
    _, said = process.communicate(timeout=100)
    started = [int(word) for word in pids.read_text().split()]
    if number == signal.SIGINT:
        assert "KeyboardInterrupt" in said and gone(started) and left(fresh) == []
    else:
        assert process.returncode == -number
        os.killpg(started[0], number)
    broken.unlink()
    np.testing.assert_array_equal(saxpy.compile(compiler=odd)(1, X, X), 2 * X)

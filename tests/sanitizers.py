"""Processes of their own in which generated code runs under the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tiramisu_py.build.toolchains import library

ROOT = Path(__file__).resolve().parents[1]
#: Memory of this process is not searched for: contexts of allocations are short, and few freed blocks are kept.
ADDRESS = "detect_leaks=0:verify_asan_link_order=0:malloc_context_size=1:quarantine_size_mb=16"


@functools.cache
def runtime(name: str) -> str:
    """The path of a library of gcc; empty if it has none."""
    command = ["gcc", f"-print-file-name={name}"]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return found if os.path.isabs(found) else ""


def check_clean(module: str, *arguments: str) -> None:
    """Runs a module under the sanitizers; it must succeed, and print "clean". Skips the test if there are none."""
    runtimes = [runtime("libasan.so"), runtime("libubsan.so")]
    if not all(runtimes):
        pytest.skip("gcc has no sanitizer runtimes on this machine")
    environment = {
        **os.environ, "CC": "gcc", "LD_PRELOAD": " ".join(runtimes), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "2",
        "ASAN_OPTIONS": ADDRESS, "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    }  # fmt: skip
    command = [sys.executable, "-W", "ignore", "-m", module, *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert "clean" in done.stdout


def sanitized_process() -> None:
    """Begins a process that compiles with sanitizers, unoptimised.

    These look at all of the emitted code then; at -O1, what they add takes several times as long to compile.
    """
    os.environ.pop("LD_PRELOAD", None)
    library.OPTIMISED = ("-O0",)

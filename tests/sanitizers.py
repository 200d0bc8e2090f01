"""Processes of their own in which generated code runs under the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

import pytest

from tests.forking import run
from tiramisu_py.toolchain.compilers import library

ROOT = Path(__file__).resolve().parents[1]
#: Memory of this process is not searched for: contexts of allocations are short, and few freed blocks are kept.
ADDRESS = "detect_leaks=0:verify_asan_link_order=0:malloc_context_size=1:quarantine_size_mb=16"


@functools.cache
def runtime(name: str) -> str:
    """The path of a library of gcc; empty if it has none."""
    command = ["gcc", f"-print-file-name={name}"]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return found if os.path.isabs(found) else ""


def preloaded() -> tuple[tuple[str, str], ...]:
    """The environment of a process that has the sanitizers. Skips the test if there are none."""
    runtimes = [runtime("libasan.so"), runtime("libubsan.so")]
    if not all(runtimes):
        pytest.skip("gcc has no sanitizer runtimes on this machine")
    options = {"ASAN_OPTIONS": ADDRESS, "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}
    return tuple({"LD_PRELOAD": " ".join(runtimes), "PYTHONWARNINGS": "ignore", **options}.items())


def check_clean(module: str, *arguments: str) -> None:
    """Runs a module under the sanitizers; it must succeed, and print "clean"."""
    environment = {**os.environ, "CC": "gcc", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "2"}
    done = run(["-m", module, *arguments], env=environment, preloaded=preloaded(), timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "clean" in done.stdout


def sanitized_process() -> None:
    """Begins a process that compiles with sanitizers, unoptimised.

    These look at all of the emitted code then; at -O1, what they add takes several times as long to compile.
    """
    library.OPTIMISED = ("-O0",)

"""Frames of kernels on the stack, where the registers of a thread are not enough, as nvcc reports them."""

from __future__ import annotations

import re

import pytest

import tiramisu_py as tm
from tiramisu_py.toolchain.compilers.cache import open_cache
from tiramisu_py.toolchain.compilers.images import Architecture
from tiramisu_py.toolchain.compilers.nvcc import find_nvcc


def frames_of(f: tm.Function, architecture: int) -> set[tuple[str, ...]]:
    """The bytes of the frames of a function's kernels, and those that are spilled and loaded again."""
    compiler = find_nvcc(open_cache())
    if isinstance(compiler, str):
        pytest.skip(compiler)
    (text,) = (name for name in f.source() if name.endswith(".cu"))
    flags = ("-std=c++17", "--fmad=false", "-Xptxas", "-v")
    _, words = compiler.compile(text, f.source(), Architecture(architecture), flags)
    return set(re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", words))

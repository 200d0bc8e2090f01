"""What this machine lacks, as a reason to skip a test, with the command that brings it."""

from __future__ import annotations

import os
import shutil

import pytest

#: How `find_cxx` begins to say that there is no compiler for the simulator's kernels.
_NO_CXX = "the simulator compiles kernels as C++, and no C++ compiler was found"
CXX = "the simulator's kernels need a C++ compiler: apt-get install g++, or scripts/test --install"


def without_cxx() -> bool:
    """Whether there is no C++ compiler here."""
    return not os.environ.get("CXX") and not any(map(shutil.which, ("g++", "clang++", "c++")))


def skip_for(said: object) -> None:
    """Skips the test where this error, or text, says that something is missing that this machine does not have."""
    if without_cxx() and _NO_CXX in str(said):
        pytest.skip(CXX)

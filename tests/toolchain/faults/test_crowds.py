"""Many processes that want the same kernel at the same moment: each gets it, and one entry is left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.selection import first

CROWD = """
import os, sys
import numpy as np
import tiramisu_py as tm
(N,), (i,) = tm.params("N"), tm.iters("i")

def added(number):
    f = tm.Function("crowd", params=[N])
    x = f.input("x", tm.float32, [N])
    f.outputs(f.computation("y", {i: N}, x[i] + number))
    return f

def right(number):
    return added(number).compile()(np.ones(3, np.float32)).tolist() == [1 + number] * 3

assert right(0)  # the compiler is known
begin, end = os.pipe()
children = []
for _ in range(int(sys.argv[1])):
    child = os.fork()
    if child == 0:
        os.close(end)
        os.read(begin, 1)  # until the pipe is closed: all at once
        os._exit(0 if right(1) else 1)
    children.append(child)
os.close(end)
assert [os.waitpid(child, 0)[1] for child in children] == [0] * len(children)
"""


@pytest.mark.parametrize("count", first([20, 200], 1))
def test_all_of_a_crowd_get_the_kernel_and_one_entry_is_left(tmp_path: Path, count: int, monkeypatch) -> None:
    monkeypatch.setenv("TIRAMISU_CACHE_DIR", str(tmp_path / "cache"))
    done = subprocess.run([sys.executable, "-c", CROWD, str(count)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "cache" / "entries").glob("*/libcrowd.so"))) == 2
    assert not list((tmp_path / "cache").glob("*ing-*"))

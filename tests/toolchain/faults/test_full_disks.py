"""Where files cannot grow, or the disk of the cache is full, the error says so, and the next compilation works."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

#: Compiles in a cache with ever more room, as `grow` makes it; prints what comes of it, and what is left of failures.
COMPILES = """
import os, resource, subprocess, sys, tempfile
from pathlib import Path
import numpy as np
import tiramisu_py as tm
(N,), (i,) = tm.params("N"), tm.iters("i")
f = tm.Function("twice", params=[N])
x = f.input("x", tm.float32, [N])
f.outputs(f.computation("y", {i: N}, x[i] * 2))
kind, cache, *rooms = sys.argv[1:]
os.environ |= {"TIRAMISU_CACHE_DIR": cache, "CC": "gcc"}
for room in map(int, rooms):
    if kind == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    else:
        subprocess.run(["mount", "-o", f"remount,size={room}", cache], check=True)
    try:
        print("right" if f.compile()(np.ones(3, np.float32)).tolist() == [2, 2, 2] else "wrong")
    except tm.ToolchainError as error:
        left = [p.name for p in Path(cache).glob("*ing-*")] + [p.name for p in Path(cache, "entries").glob("*")]
        print("refused", left, " ".join(str(error).split()))
"""
FULL = ("No space left on device", "No usable temporary directory", "File too large", "File size limit exceeded")


def outcomes(command: list[str | Path]) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def check(said: list[str]) -> None:
    *before, last = said
    assert last == "right" and "wrong" not in before
    refused = [line for line in before if line.startswith("refused")]
    assert len(refused) >= 3
    for line in refused:
        assert line.startswith("refused [] ") and any(words in line for words in FULL), line


def test_files_that_may_not_grow_leave_no_damaged_entry(tmp_path: Path) -> None:
    if resource.getrlimit(resource.RLIMIT_FSIZE)[1] != resource.RLIM_INFINITY:
        pytest.skip("files may not grow here at all")
    rooms = [0, 14000, 17000, 1 << 30]
    check(outcomes([sys.executable, "-c", COMPILES, "limit", tmp_path / "cache", *map(str, rooms)]))


def test_a_full_disk_leaves_no_damaged_entry(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    mounted = ["sh", "-c", 'mount -t tmpfs -o mode=700,size=8k none "$0" && exec "$@"', cache]
    own = ["unshare", "--user", "--map-root-user", "--mount", *mounted]
    if shutil.which("unshare") is None or subprocess.run([*own, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this process may not make a disk of its own")
    rooms = [4096 * pages for pages in (1, 2, 6, 4096)]
    check(outcomes([*own, sys.executable, "-c", COMPILES, "disk", cache, *map(str, rooms)]))

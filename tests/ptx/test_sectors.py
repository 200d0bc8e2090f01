"""Sectors of global memory that a launch is said to touch, beside those that NumPy counts for each warp."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.ptx.entry_points import gpu, kernel
from tests.ptx.test_threads import SEEDS

BLOCK, GRID = 96, 3
#: %rd10: the place of the thread's own word in the first array; %rd11: that of the word of the second that it names.
GATHERED = """
    mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.u32 %r0, %r1, %r2, %r0;
    mul.wide.u32 %rd20, %r0, 4; add.u64 %rd10, %rd0, %rd20;
    ld.global.u32 %r3, [%rd10]; mul.wide.u32 %rd21, %r3, 4; add.u64 %rd11, %rd1, %rd21;"""


def counted(body: str, options: str, folder: Path, *arrays: np.ndarray) -> tuple[int, int]:
    """The sectors that are read and written by one launch."""
    log = folder / "log"
    gpu(f"{options} log={log}").run(kernel(body, len(arrays)), *arrays, block=BLOCK, grid=GRID)
    (line,) = log.read_text().splitlines()
    read, written = line.partition(" sectors ")[2].split()
    return int(read), int(written)


def of_warps(words: np.ndarray) -> int:
    """The sectors of eight words that each warp of 32 threads touches at once."""
    return sum(len(np.unique(warp // 8)) for warp in words.reshape(-1, 32))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["own", "strided", "one", "anywhere"])
def test_a_warp_touches_each_sector_once(kind: str, seed: int, tmp_path: Path) -> None:
    count = BLOCK * GRID
    draw = np.random.default_rng(seed)
    at = {
        "own": np.arange(count),
        "strided": np.arange(count) * 8,
        "one": np.zeros(count, int),
        "anywhere": draw.integers(0, 8 * count, count),
    }[kind].astype(np.uint32)
    body = f"{GATHERED} ld.global.u32 %r4, [%rd11]; add.u32 %r4, %r4, 1; st.global.u32 [%rd10], %r4;"
    table = np.zeros(8 * count, np.uint32)
    read, written = counted(body, f"seed={seed}", tmp_path, at, table)
    own = of_warps(np.arange(count))
    assert (read, written) == (own + of_warps(at), own)


def test_each_visit_of_an_instruction_counts_again(tmp_path: Path) -> None:
    body = f"""{GATHERED} mov.u32 %r5, 0;
        AGAIN: ld.global.u32 %r4, [%rd11]; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 3; @%p1 bra AGAIN;
        atom.global.add.u32 %r6, [%rd11], 1;"""
    count = BLOCK * GRID
    own = of_warps(np.arange(count))
    found = counted(body, "seed=1", tmp_path, np.arange(count, dtype=np.uint32), np.zeros(count, np.uint32))
    assert found == (own + 3 * own, own)

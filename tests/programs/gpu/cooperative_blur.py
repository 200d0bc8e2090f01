"""Pictures that GPUs and cores blur together, and what the simulator counts of it."""

from __future__ import annotations

import ctypes

import numpy as np

import tiramisu_py as tm
from tiramisu_py.toolchain.compilers.cache import open_cache
from tiramisu_py.toolchain.compilers.simulator import load_simulator

R, C, G, H = tm.params("R C G H")
r, c, c0, c1 = tm.iters("r c c0 c1")


def blur(points: tuple[tm.Param | int, ...], columns: bool = False, devices: tuple[int, ...] = (0, 1)) -> tm.Function:
    """The first parts of the rows (or columns) on these GPUs, in turn, and what is left on the host."""
    cut = "C" if columns else "R"
    f = tm.Function("blur", params=[R, C, G, H], assume=f"0 <= G <= H and H <= {cut} and C >= 1")
    image = f.input("image", tm.float32, [R + 2, C + 2])
    bx = f.computation("bx", {r: R + 2, c: C}, (image[r, c] + image[r, c + 1] + image[r, c + 2]) / 3)
    by = f.computation("by", {r: R, c: C}, (bx[r, c] + bx[r + 1, c] + bx[r + 2, c]) / 3)
    f.outputs(by)
    if columns:
        by.interchange(r, c)
    parts = by.separate_at(c if columns else r, list(points))
    for device, part in zip(devices, parts, strict=False):
        part.split(c, 64, c0, c1)
        part.tag_gpu(blocks=[c0] if columns else [r, c0], threads=[c1], device=device)
    bx.inline()
    f.derive_transfers()
    return f


def stages() -> tm.Function:
    """A temporary in page-locked memory, which cores compute, and of which a GPU loads some."""
    f = tm.Function("stages", params=[R, C, G], assume="0 <= G <= R")
    a = f.input("a", tm.float32, [R, C])
    t = f.computation("t", {r: R, c: C}, 2 * a[r, c])
    o = f.computation("o", {r: R, c: C}, t[r, c] + 1)
    f.outputs(o)
    t.store_in(tm.PINNED)
    part, _ = o.separate_at(r, [G])
    part.split(c, 32, c0, c1)
    part.tag_gpu(blocks=[r, c0], threads=[c1])
    f.derive_transfers()
    return f


def picture(rows: int = 10, columns: int = 88) -> np.ndarray:
    """Values for so many rows and columns of results."""
    return np.random.default_rng(7).random((rows + 2, columns + 2), dtype=np.float32)


def simulator() -> ctypes.CDLL:
    """The simulator that kernels of this process run on."""
    loaded = load_simulator(open_cache()).loaded
    loaded.tm_simulator_most_bytes.restype = loaded.tm_simulator_locked_bytes.restype = ctypes.c_size_t
    return loaded

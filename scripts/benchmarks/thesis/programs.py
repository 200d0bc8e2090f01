"""The programs of the thesis's experiments: algorithms and schedules."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np

import tiramisu_py as tm
from benchmarks import blur

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
(C,) = tm.params("C")
r, c, r0, r1, r2, r3, c0, c1, q = tm.iters("r c r0 r1 r2 r3 c0 c1 q")


def example(folder: str, name: str) -> ModuleType:
    """A story of examples/, imported under a name of its own, since several folders have a blur."""
    alias = f"examples_{folder}_{name}"
    if alias not in sys.modules:
        path = EXAMPLES / folder
        others = {each: sys.modules.pop(each) for each in ("story",) if each in sys.modules}
        sys.path.insert(0, str(path))
        try:
            spec = importlib.util.spec_from_file_location(alias, path / f"{name}.py")
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        finally:
            sys.path.remove(str(path))
            sys.modules.pop("story", None)
            sys.modules.update(others)
        sys.modules[alias] = module
    return sys.modules[alias]


# -- table 5.1: host threads

ON_CORES: dict[str, Callable[[], tm.Function]] = {"tiles": blur.tiled, "registers": blur.rows_of_eight}


# -- tables 5.2 and 5.3: GPUs


def synchronous() -> tm.Function:
    """A row at a time is copied in, computed, and copied out, one step after the other."""
    return example("gpu", "blur").synchronous()


def asynchronous() -> tm.Function:
    """Rows are copied in while others are computed, and others copied out."""
    return example("gpu", "blur").asynchronous()


def pipelined() -> tm.Function:
    """The short way: chunks of rows, each computed in one kernel; the copies are derived, and overlap."""
    f, _, bx, by = example("gpu", "blur").algorithm()
    by.split(r, CHUNK, r0, r1)
    by.gpu_tile(r1, c, 4, 64, r2, c0, r3, c1)
    bx.inline()
    f.derive_transfers(pipeline=r0)
    return f


#: The rows of a chunk, where a GPU processes a picture in chunks.
CHUNK = 64
ON_GPU: dict[str, Callable[[], tm.Function]] = {
    "synchronous": synchronous,
    "asynchronous": asynchronous,
    "pipelined": pipelined,
}


def cooperative(chunk: int = CHUNK) -> tm.Function:
    """The first `G` rows on the GPU, in chunks, the others on cores, at the same time."""
    story = example("cooperative", "blur")
    f, bx, by = story.algorithm()
    by.partition(story.r, [story.G], [tm.gpu(tile=(4, 64), chunk=chunk), tm.cores(vector=16)])
    bx.inline()
    f.derive_transfers(pipeline=story.r_chunk)
    return f


#: The GPU's rows out of all rows: alone, and the four splits of table 5.3 (14000 of 16000 rows, ...).
SPLITS = {"GPU alone": 1.0, "7 : 1": 7 / 8, "3 : 1": 3 / 4, "1 : 1": 1 / 2, "1 : 3": 1 / 4, "cores alone": 0.0}


# -- table 5.4: ghost zones


def ghost_zones(ranks: int, rows: int, how: str) -> tm.Function:
    """The blur with rows distributed over ranks: the next rank's two rows are sent singly, packed, or as derived."""
    whole = ranks * rows
    f = tm.Function("blur", params=[C], assume="C >= 1")
    image = f.input("image", tm.float32, [whole, C + 2])
    bx = f.computation("bx", {r: whole, c: C}, (image[r, c] + image[r, c + 1] + image[r, c + 2]) / 3)
    by = f.computation("by", {r: whole - 2, c: C}, (bx[r, c] + bx[r + 1, c] + bx[r + 2, c]) / 3, shape=[whole, C])
    f.outputs(by)
    for array in (image, by):
        array.distribute_array([r, c], rank=r // rows)
    by.split(r, rows, q, r1)
    by.tag_distribute(q)
    by.tile(r1, c, 32, 256, r0, c0, r2, c1)
    by.parallelize(r0)
    by.vectorize(c1, 16)
    bx.compute_at(by, c0)
    bx.vectorize(c, 16)
    if how == "derived":
        f.derive_transfers()
        return f
    props = [tm.ASYNC, tm.NONBLOCK]
    up = f.create_exchange(
        image[r, c],
        send={q: (1, ranks), r: (q * rows, q * rows + 2), c: C + 2}, to=q - 1,
        recv={q: (0, ranks - 1), r: (q * rows + rows, q * rows + rows + 2), c: C + 2}, source=q + 1,
        send_props=props, recv_props=props, name="up",
    )  # fmt: skip
    if how == "packed":
        for half in (up.send, up.recv):
            half.collapse_many(c)
    f.order(up.send, up.recv, up.send.wait(), up.recv.wait(), by, at=tm.root)
    return f


GHOST_ZONES = ("single", "packed", "derived")


# -- figures 5-4 and 5-5: pictures

#: The picture of examples/mpi, and the computation that it stores.
PICTURES = {
    "convolution": ("convolution", "result"),
    "cvtColor": ("grey", "result"),
    "Gaussian": ("gaussian", "result"),
    "pipeline": ("brighter and negative", "negative"),
    "Sobel": ("sobel", "result"),
}


def picture(name: str, ranks: int, rows: int) -> tm.Function:
    """A picture of figure 5-4: rows distributed over ranks, a rank's rows in parallel, columns in vectors."""
    if name == "Gaussian":
        return gaussian(ranks, rows)
    pictures = example("mpi", "pictures")
    variant, stored = PICTURES[name]
    f: tm.Function = pictures.VARIANTS[variant](ranks, rows)
    stage = f[stored]
    stage.parallelize(pictures.r1)
    stage.vectorize(pictures.c, 16)
    if name == "convolution":
        stage.update.after(stage.init, pictures.c)
        stage.update.unroll(pictures.y)
        stage.update.unroll(pictures.x)
    return f


def gaussian(ranks: int, rows: int) -> tm.Function:
    """Five weights across, then five down, in tiles: the rows of the picture around a rank's block are exchanged."""
    size = -(-rows // ranks)
    f = tm.Function("gaussian", params=[C], assume="C >= 5")
    image = f.input("image", tm.float32, [rows, C])
    weights = (0.0625, 0.25, 0.375, 0.25, 0.0625)
    across = f.computation("across", {r: rows, c: C - 4}, sum(w * image[r, c + d] for d, w in enumerate(weights)))
    result = f.computation(
        "result", {r: (2, rows - 2), c: C - 4}, sum(w * across[r + d - 2, c] for d, w in enumerate(weights)),
        shape=[rows, C - 4],
    )  # fmt: skip
    f.outputs(result)
    for array in (image, result):
        array.distribute_array([r, c], rank=r // size)
    result.split(r, size, q, r1)
    result.tag_distribute(q)
    result.tile(r1, c, 32, 256, r0, c0, r2, c1)
    result.parallelize(r0)
    result.vectorize(c1, 16)
    across.compute_at(result, c0)
    across.vectorize(c, 16)
    f.derive_transfers()
    return f


def sample(name: str, rows: int, columns: int, seed: int = 0) -> dict[str, np.ndarray]:
    """A random picture for `picture`."""
    numbers = np.random.default_rng(seed)
    if name == "cvtColor":
        return {"rgb": numbers.integers(0, 256, (rows, columns, 3), dtype=np.uint8)}
    if name == "pipeline":
        return {"image": numbers.integers(0, 256, (rows, columns), dtype=np.uint8)}
    image = {"image": numbers.random((rows, columns), dtype=np.float32)}
    return {**image, "weights": numbers.random((3, 3), dtype=np.float32)} if name == "convolution" else image

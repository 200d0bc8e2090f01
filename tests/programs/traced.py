"""Programs whose traces are looked at, each with arguments; and how their C is changed before it is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

import tiramisu_py as tm
from tiramisu_py.backends import emit
from tiramisu_py.backends.cuda.kernel_text import signatures
from tiramisu_py.passes import traced
from tiramisu_py.toolchain import compile_function

R, C, G = tm.params("R C G")
r, c, c0, c1, r0, r1 = tm.iters("r c c0 c1 r0 r1")


def image(rows: int, columns: int) -> Any:
    """A picture for `blur` with so many rows and columns of results."""
    return np.random.default_rng(0).random((rows + 2, columns + 2), dtype=np.float32)


def stages() -> tuple[tm.Function, tm.Computation, tm.Computation]:
    """A blur of two stages, by which rows below G may be told from the others."""
    f = tm.Function("blur", params=[R, C, G], assume="0 <= G <= R and C >= 1")
    picture = f.input("picture", tm.float32, [R + 2, C + 2])
    bx = f.computation("bx", {r: R + 2, c: C}, (picture[r, c] + picture[r, c + 1] + picture[r, c + 2]) / 3)
    by = f.computation("by", {r: R, c: C}, (bx[r, c] + bx[r + 1, c] + bx[r + 2, c]) / 3)
    f.outputs(by)
    return f, bx, by


def on_cores() -> tm.Function:
    """Both stages on threads of the host."""
    f, bx, by = stages()
    for stage in (bx, by):
        stage.parallelize(r)
        stage.vectorize(c, 8)
    return f


def cooperative() -> tm.Function:
    """Rows below G on a GPU, the others on the cores."""
    f, bx, by = stages()
    on_gpu, on_cpu = by.separate_at(r, [G])
    on_gpu.split(c, 64, c0, c1)
    on_gpu.tag_gpu(blocks=[r, c0], threads=[c1])
    on_cpu.parallelize(r)
    bx.inline()
    f.derive_transfers()
    return f


def chunks() -> tm.Function:
    """A loop of the host that launches a kernel for each 16 rows."""
    f, bx, by = stages()
    by.split(r, 16, r0, r1)
    by.split(c, 64, c0, c1)
    by.tag_gpu(blocks=[r1, c0], threads=[c1])
    bx.inline()
    f.derive_transfers()
    return f


def compiled(f: tm.Function, change: Callable[[Mapping[str, str]], Mapping[str, str]], **options: Any) -> tm.Kernel:
    """A function with a trace, whose sources are changed first."""
    function = traced(f.show("lowered", 16))
    emitted = emit(function)
    sources = replace(emitted, files=change(emitted))
    return compile_function(function, sources, f.algorithm, kernels=signatures(function), **options)


def with_text(file: str, old: str, new: str) -> Callable[[Mapping[str, str]], Mapping[str, str]]:
    """The change of one text in a file, where it must be."""

    def change(sources: Mapping[str, str]) -> Mapping[str, str]:
        assert old in sources[file]
        return {**sources, file: sources[file].replace(old, new)}

    return change

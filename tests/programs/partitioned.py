"""Partitioned programs, and a machine whose numbers are easy to reckon with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tiramisu_py as tm

R, C, G, H = tm.params("R C G H")
r, c = tm.iters("r c")

#: What is assumed where there are two points.
IN_ORDER = "0 <= G <= H <= R and C >= 1"
TARGETS = (tm.gpu(tile=(4, 64)), tm.cores(vector=8))
MACHINE = tm.Machine(
    core_flops=10e9, cores=4, host_bandwidth=40e9, gpu_flops=10e12, gpu_bandwidth=1e12, link_bandwidth=20e9,
    link_latency=10e-6, launch_latency=5e-6, network_bandwidth=1e9, network_latency=1e-6,
)  # fmt: skip


def blur(
    points: Any = (G,),
    targets: Sequence[Any] = TARGETS,
    assume: str = "0 <= G <= R and C >= 1",
    stages: bool = False,
    alike: bool = True,
) -> tm.Function:
    """A blur that is cut at rows: in one stage, or in two that are cut alike (or not). With H only if it is assumed."""
    sizes = [R, C, G, H] if "H" in assume else [R, C, G]
    f = tm.Function("blur", params=sizes, assume=assume)
    image = f.input("image", tm.float32, [R + 2, C + 2])
    bx = f.computation("bx", {r: R + 2, c: C}, (image[r, c] + image[r, c + 1] + image[r, c + 2]) / 3)
    by = f.computation("by", {r: R, c: C}, (bx[r, c] + bx[r + 1, c] + bx[r + 2, c]) / 3)
    f.outputs(by)
    if stages:
        bx.partition(r, points, list(targets) if alike else list(reversed(targets)))
    else:
        bx.inline()
    by.partition(r, points, list(targets))
    f.derive_transfers()
    return f

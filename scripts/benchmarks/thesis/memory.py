"""The section of the page of results on memory nodes: the thesis's table 5.5."""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm
from benchmarks import numa
from benchmarks.blur import tiled
from benchmarks.common.pictures import bars
from benchmarks.common.tables import table
from benchmarks.thesis.cores import NOT_HERE, RIGHT, Section
from benchmarks.thesis.machine import Plan

HEADER = ["memory", "ms", "over matching", "over matching, in the thesis"]


def memory_nodes(plan: Plan) -> Section:
    """The blur on the cores of one memory node, with its arrays there, on another node, or left to the system."""
    found = dict(numa.rows(plan.small))
    times = {name: value for name, value in found.items() if isinstance(value, float)}
    counted = len(tm.memory_nodes())
    size = numa.SMALL if plan.small else numa.LARGE
    text = (
        f"{size} x {size} points on the cores of one memory node of the {counted} of this machine, in one process; "
        f"against `evaluate()`: {checked()}.\n\n{table(HEADER, numa.lines(list(found.items())))}"
    )
    matching, mismatched = times.get("matching"), times.get("mismatched")
    ours = NOT_HERE if matching is None or mismatched is None else f"{mismatched / matching:.2f}"
    if counted == 1:
        ours = f"{NOT_HERE}: one memory node"
    beside = [("matching over mismatched memory (table 5.5)", "1.87", ours)]
    chart = {"ms": [times[name] * 1e3 if name in times else None for name in found]}
    pictures = {"thesis-5.5": bars("Table 5.5: blur and memory nodes", list(found), chart, "ms")} if times else {}
    return Section("5.5", "Memory nodes", text, pictures, beside, [checked()])


def checked() -> str:
    """Whether the pinned program computes the same values as `evaluate()`."""
    f = tiled()
    kernel = f.compile(pin="close")
    picture = np.random.default_rng(0).random((39, 302), dtype=np.float32)
    return RIGHT if np.array_equal(kernel(picture), f.evaluate(picture)) else "WRONG"

"""Cooperative programs on a GPU and on cores: right for every split, then timed beside either alone, and a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import balance
import numpy as np
from tables import table
from thesis_programs import CHUNK, example
from thesis_timelines import traced

import tiramisu_py as tm

STORIES = ("blur", "heat")
#: How many times as long as the best split of a sweep that of `balance` may take.
GOAL = 1.1


def checked(device: str) -> list[list[str]]:
    """Each cooperative story for each of its splits against `evaluate()`, bit for bit."""
    rows = []
    for name in STORIES:
        module = example("cooperative", name)
        for variant, build in module.VARIANTS.items():
            rows.append([f"cooperative {name}", variant, _verdict(module, build(), device)])
    return rows


def _verdict(module: ModuleType, f: tm.Function, device: str) -> str:
    used = f.lowered().devices
    if device != "simulator" and used > tm.gpu_count():
        return f"skipped: needs {used} GPUs"
    kernel = f.compile(device=device)
    for split in module.SPLITS:
        for size in (1, 33, 99):
            given = module.sample(split, size, 0)
            if not np.array_equal(kernel(**given), f.evaluate(**given)):
                return f"WRONG for {given['G']} rows on the GPU at size {size}"
    return "right"


def compared(rows: Sequence[Sequence[str]]) -> str:
    """The ratios that matter, of the table of a sweep."""
    over = {which: row[3] for row in rows for which in row[4].split(", ") if which}
    return (
        f"The best split is {over['GPU alone']} times as fast as the GPU alone, and {over['cores alone']} times as "
        f"fast as the cores alone; what `balance()` proposes takes {over['balance()']} times as long as the best "
        f"of the sweep (goal: {GOAL})."
    )


def page(device: str, small: bool) -> tuple[str, dict[str, str]]:
    """The section on cooperation, and its pictures: on the simulator a timeline alone, and no times."""
    of = balance.sizes(device, small)
    trace = traced("cooperative", device, of["C"])
    pictures = {"gpu-cooperative": trace.picture()}
    shown = "![Timeline of a cooperative call](pictures/gpu-cooperative.svg)"
    if device == "simulator":
        return f"A simulated call; its order, not its times:\n\n{shown}", pictures
    rows = balance.rows(device, small)
    both = trace.overlap("nest", [event for event in trace.events if not event.on_host])
    words = (
        f"The blur of {of['R']} x {of['C']} points, its first rows on the GPU in chunks of {CHUNK}, the others on "
        f"cores, from page-locked memory:\n\n{table(balance.HEADER, rows)}\n\n{compared(rows)}\n\nIn the call below "
        f"cores computed for {trace.busy('nest') * 1e3:.2f} ms, while the GPU computed or copied for "
        f"{both * 1e3:.2f} ms of them:\n\n{shown}"
    )
    return words, pictures

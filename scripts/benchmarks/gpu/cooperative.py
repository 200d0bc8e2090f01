"""Cooperative programs on a GPU and on cores: checked for every split, timed beside either alone, and a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import numpy as np

import tiramisu_py as tm
from benchmarks import balance
from benchmarks.common.tables import table
from benchmarks.thesis.programs import CHUNK, cooperative, example
from benchmarks.thesis.timelines import HEADER, TIMELINES, overlaps, traced

STORIES = ("blur", "heat")
#: The largest ratio of the time of `balance`'s split to the best one of a sweep.
GOAL = 1.1
#: The fraction of the sweep's rows and columns on which single calls are compared.
PART = 4


def checked(device: str) -> list[list[str]]:
    """Each cooperative story for each of its splits against `evaluate()`, bit for bit; also page-locked and traced."""
    rows = []
    for name in STORIES:
        module = example("cooperative", name)
        for variant, build in module.VARIANTS.items():
            rows.append([f"cooperative {name}", variant, _verdict(module, build(), device)])
            locked = _verdict(module, build(), device, page_lock=True, trace=True)
            rows.append([f"cooperative {name}", f"{variant}, page-locked, traced", locked])
    return rows


def _verdict(module: ModuleType, f: tm.Function, device: str, **options: bool) -> str:
    used = f.show("lowered").gpus.devices
    if device != "simulator" and used > tm.gpu_count():
        return f"skipped: needs {used} GPUs"
    kernel = f.compile(device=device, **options)
    for split in module.SPLITS:
        for size in (1, 33, 99):
            given = module.sample(split, size, 0)
            if not np.array_equal(kernel(**given), f.evaluate(**given)):
                return f"WRONG for {given['G']} rows on the GPU at size {size}"
    return "right"


def compared(rows: Sequence[Sequence[str]]) -> str:
    """The important ratios in the table of a sweep."""
    over = {which: row[3] for row in rows for which in row[4].split(", ") if which}
    return (
        f"The best split is {over['GPU alone']} times as fast as the GPU alone, and {over['cores alone']} times as "
        f"fast as the cores alone; what `balance()` proposes takes {over['balance()']} times as long as the best "
        f"of the sweep (goal: {GOAL})."
    )


# -- the cost of a call by kind of memory, and with a trace


def switches(device: str, of: dict[str, int], share: float) -> list[list[str]]:
    """The least time of a call with page locking and traces on and off; the variants take turns."""
    shape = (of["R"] // PART, of["C"] // PART)
    pageable = _arrays(np.empty, shape)
    pinned = _arrays(lambda size, dtype: tm.pinned_empty(size, dtype, device=device), shape)
    plain, locking, tracing = (
        cooperative().compile(device=device, **options) for options in ({}, {"page_lock": True}, {"trace": True})
    )
    ways = {
        "pageable arrays": (plain, pageable),
        "pageable arrays, page_lock=True": (locking, pageable),
        "pinned_empty": (plain, pinned),
        "pinned_empty, trace=True": (tracing, pinned),
    }
    times = dict.fromkeys(ways, float("inf"))
    for turn in range(balance.ROUNDS + 1):
        for name, (kernel, (image, out)) in ways.items():
            seconds = balance.seconds_of(lambda k=kernel, x=image, y=out: k(x, G=round(share * shape[0]), by=y))
            times[name] = min(times[name], seconds) if turn else float("inf")
    least = min(times.values())
    return [[name, f"{seconds * 1e3:.3f}", f"{seconds / least:.2f}"] for name, seconds in times.items()]


def _arrays(empty, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[no-untyped-def]
    image, out = empty((shape[0] + 2, shape[1] + 2), np.float32), empty(shape, np.float32)
    image[:] = np.random.default_rng(0).random(image.shape, dtype=np.float32)
    out[:] = 0
    return image, out


# -- the section of the page


def page(device: str, small: bool) -> tuple[str, dict[str, str]]:
    """The section on cooperation, and its pictures. On the simulator the same programs run, without times."""
    of = balance.sizes(device, small)
    proposed = balance.proposals(cooperative(), of, device)
    rows = balance.rows(device, small, proposed)
    ways = switches(device, of, proposed["balance()"].points["G"] / of["R"])
    traces = {name: traced(name, device, of["C"]) for name in TIMELINES}
    pictures = {f"gpu-{name}": trace.picture() for name, trace in traces.items()}
    shown = "\n\n".join(f"![Timeline: {name}](pictures/gpu-{name}.svg)" for name in TIMELINES)
    if device == "simulator":
        return f"Simulated calls; their order, not their times:\n\n{shown}", pictures
    trace = traces["cooperative"]
    both = trace.overlap("nest", [event for event in trace.events if not event.on_host])
    size = f"{of['R'] // PART} x {of['C'] // PART}"
    words = [
        f"The blur of {of['R']} x {of['C']} points, its first rows on the GPU in chunks of {CHUNK}, the others on "
        "cores, from page-locked memory:",
        table(balance.HEADER, rows),
        compared(rows),
        *(f"`{name}`:\n\n```\n{split}\n```" for name, split in proposed.items()),
        f"Calls for {size} points, of which the GPU has the part that `balance()` proposes:",
        table(["arrays", "ms", "of the least"], ways),
        "Timelines of single calls. Of what takes less time of each pair, so much passes while the other is under way:",
        table(HEADER, [[name, *overlaps(each)] for name, each in traces.items()]),
        f"In the cooperative call cores computed for {trace.busy('nest') * 1e3:.2f} ms, while the GPU computed or "
        f"copied for {both * 1e3:.2f} ms of them.",
        shown,
    ]
    return "\n\n".join(words), pictures

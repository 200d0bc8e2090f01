"""Cooperative programs on a GPU and on cores: right for every split, then timed beside either alone, and a sweep."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from tables import table
from thesis_programs import CHUNK, cooperative, example
from thesis_timelines import traced

import tiramisu_py as tm

STORIES = ("blur", "heat")
SWEEP = 8
GOAL = 1.1


@dataclass
class Measured:
    """Times in seconds by rows of the GPU, and what `balance` proposes for them."""

    rows: int
    times: Mapping[int, float]
    proposed: int

    @property
    def best(self) -> int:
        """The rows of the GPU in the best split that was tried."""
        return min(self.times, key=lambda on_gpu: self.times[on_gpu])

    def table(self) -> str:
        """The splits, with their times."""
        found = []
        for on_gpu, seconds in sorted(self.times.items()):
            words = [
                "cores alone" if on_gpu == 0 else "",
                "GPU alone" if on_gpu == self.rows else "",
                "balance()" if on_gpu == self.proposed else "",
                "best" if on_gpu == self.best else "",
            ]
            found.append((str(on_gpu), str(self.rows - on_gpu), f"{seconds * 1e3:.3f}", ", ".join(filter(None, words))))
        return table(["rows of the GPU", "rows of the cores", "ms", "which"], found)

    def words(self) -> str:
        """The ratios that matter."""
        best = self.times[self.best]
        return (
            f"The best split is {self.times[self.rows] / best:.2f} times as fast as the GPU alone, and "
            f"{self.times[0] / best:.2f} times as fast as the cores alone; what `balance()` proposes takes "
            f"{self.times[self.proposed] / best:.2f} times as long as the best of the sweep (goal: {GOAL})."
        )


def checked(device: str) -> list[list[str]]:
    """Each cooperative story for each of its splits against `evaluate()`, bit for bit."""
    rows = []
    for name in STORIES:
        module = example("cooperative", name)
        for variant, build in module.VARIANTS.items():
            rows.append([f"cooperative {name}", variant, _verdict(module, build(), device)])
    return rows


def _verdict(module: object, f: tm.Function, device: str) -> str:
    used = f.lowered().devices
    if device != "simulator" and used > tm.gpu_count():
        return f"skipped: needs {used} GPUs"
    kernel = f.compile(device=device)
    for split in module.SPLITS:  # type: ignore[attr-defined]
        for size in (1, 33, 99):
            given = module.sample(split, size, 0)  # type: ignore[attr-defined]
            if not np.array_equal(kernel(**given), f.evaluate(**given)):
                return f"WRONG for {given.get('G')} rows on the GPU at size {size}"
    return "right"


def measured(device: str, rows: int, columns: int, rounds: int = 5) -> Measured:
    """The blur for several splits in turn, with those of `balance` among them, least times."""
    f = cooperative()
    kernel = f.compile(device=device)
    image = tm.pinned_empty((rows + 2, columns + 2), np.float32, device=device)
    image[:] = np.random.default_rng(0).random(image.shape, dtype=np.float32)
    out = tm.pinned_empty((rows, columns), np.float32, device=device)
    proposed = tm.balance(f, {"R": rows, "C": columns}, device=device, pinned=True).points["G"]
    times = dict.fromkeys([*(rows * k // SWEEP for k in range(SWEEP + 1)), proposed], float("inf"))
    for _ in range(rounds + 1):
        for on_gpu in times:
            begin = time.perf_counter()
            kernel(image, G=on_gpu, by=out)
            times[on_gpu] = min(times[on_gpu], time.perf_counter() - begin)
    return Measured(rows, times, proposed)


def page(device: str, small: bool) -> tuple[str, dict[str, str]]:
    """The section on cooperation, and its pictures: on the simulator a timeline alone, and no times."""
    columns = 256 if device == "simulator" else 4096 if small else 2**15
    trace = traced("cooperative", device, columns)
    pictures = {"gpu-cooperative": trace.picture()}
    shown = "![Timeline of a cooperative call](pictures/gpu-cooperative.svg)"
    if device == "simulator":
        return f"A simulated call; its order, not its times:\n\n{shown}", pictures
    rows = 2048 if small else 16384
    found = measured(device, rows, columns)
    both = trace.overlap("nest", [event for event in trace.events if not event.on_host])
    words = (
        f"The blur of {rows} x {columns} points, its first rows on the GPU in chunks of {CHUNK}, the others on cores, "
        f"from page-locked memory:\n\n{found.table()}\n\n{found.words()}\n\nIn the call below cores computed for "
        f"{trace.busy('nest') * 1e3:.2f} ms, while the GPU computed or copied for {both * 1e3:.2f} ms:\n\n{shown}"
    )
    return words, pictures

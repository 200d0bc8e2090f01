"""The cooperative blur for a sweep of splits, compared with the splits that `balance` proposes.

scripts/bench balance [--save] [--device gpu] [--small]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

import tiramisu_py as tm
from benchmarks.common.tables import report, table
from benchmarks.thesis.programs import cooperative

HEADER = ("rows of the GPU", "rows of the cores", "ms", "of the best", "which")
STEPS = 8
ROUNDS = 5


def sizes(device: str, small: bool) -> dict[str, int]:
    """Rows and columns of the picture: few in the simulator, where times are meaningless."""
    if device.startswith("simulator"):
        return {"R": 128, "C": 256}
    return {"R": 2048, "C": 4096} if small else {"R": 16384, "C": 2**15}


def proposals(f: tm.Function, of: dict[str, int], device: str) -> dict[str, tm.Balance]:
    """The proposed splits: from runs, and, on a real GPU, from the dry model of the machine."""
    found = {"balance()": tm.balance(f, of, device=device, pinned=True)}
    if not device.startswith("simulator"):
        machine = tm.Machine.here()
        if machine.has_gpu:
            found["balance(machine=...)"] = tm.balance(f, of, machine=machine)
    return found


def rows(device: str, small: bool, known: dict[str, tm.Balance] | None = None) -> list[tuple[str, ...]]:
    """For each split its rows, the least time of some calls, and its ratio to the best; `known` are the proposals."""
    f, of = cooperative(), sizes(device, small)
    proposed = {name: split.points["G"] for name, split in (known or proposals(f, of, device)).items()}
    times = measured(f, of, [*(of["R"] * k // STEPS for k in range(STEPS + 1)), *proposed.values()], device)
    best = min(times.values())
    found = []
    for on_gpu, seconds in sorted(times.items()):
        alone = {0: ["cores alone"], of["R"]: ["GPU alone"]}.get(on_gpu, [])
        words = alone + [name for name, value in proposed.items() if value == on_gpu]
        words += ["best"] if seconds == best else []
        numbers = (str(on_gpu), str(of["R"] - on_gpu), f"{seconds * 1e3:.3f}", f"{seconds / best:.2f}")
        found.append((*numbers, ", ".join(words)))
    return found


def measured(f: tm.Function, of: dict[str, int], splits: list[int], device: str) -> dict[int, float]:
    """The least time of a call for each split; the splits take turns, after one warm-up round."""
    kernel = f.compile(device=device)
    image = tm.pinned_empty((of["R"] + 2, of["C"] + 2), np.float32, device=device)
    image[:] = np.random.default_rng(0).random(image.shape, dtype=np.float32)
    out = tm.pinned_empty((of["R"], of["C"]), np.float32, device=device)
    times = dict.fromkeys(splits, float("inf"))
    for turn in range(ROUNDS + 1):
        for on_gpu in times:
            seconds = seconds_of(lambda given=on_gpu: kernel(image, G=given, by=out))
            if turn:
                times[on_gpu] = min(times[on_gpu], seconds)
    return times


def seconds_of(run: Callable[[], object]) -> float:
    """The time of a call."""
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def main() -> None:
    """Prints the table, and the basis of the proposals."""
    options = argparse.ArgumentParser()
    options.add_argument("--device", default="gpu" if tm.gpu_count() else "simulator", help="gpu, gpu:1 or simulator")
    options.add_argument("--small", action="store_true", help="a picture that is soon done")
    options.add_argument("--save", action="store_true", help="write docs/results/balance.md")
    given = options.parse_args()
    of = sizes(given.device, given.small)
    proposed = proposals(cooperative(), of, given.device)
    text = [table(HEADER, rows(given.device, given.small, proposed))]
    for name, split in proposed.items():
        text.append(f"`{name}`:\n\n```\n{split}\n```")
    if given.device.startswith("simulator"):
        text.append("The GPU was simulated: these times say nothing of one.")
    title = f"Splits of the cooperative blur of {of['R']} x {of['C']} points"
    report("balance", title, "\n\n".join(text), given.save)


if __name__ == "__main__":
    main()

"""The choice of parallelism and of what becomes of activations, together: all combinations are looked at (6.2.1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.training.transformers import Training, fitted

PLACES = ("keep", "recompute", "file")
#: Bytes of a weight, its gradient and its optimizer's state in mixed precision.
OF_WEIGHT = 16


@dataclass(frozen=True)
class Cluster:
    """GPUs with so many bytes, of so many operations a second at best, that write so many bytes a second to disks."""

    gpus: int
    memory: float = 80e9
    rate: float = 160e12
    write: float = 14e9


@dataclass(frozen=True)
class Choice:
    """One combination: its steps take `seconds`, in `memory` bytes of a GPU, and write `bandwidth` bytes a second."""

    pipeline: int
    tensor: int
    micro_batch: int
    place: str
    seconds: float
    memory: float
    bandwidth: float


def choices(hidden: int, layers: int, batch: int, tokens: int, on: Cluster) -> Iterator[Choice]:
    """All combinations that fit: the depth of the pipeline, GPUs of a layer, items of a micro-batch, the place."""
    for tensor in (1, 2, 4, 8):
        for pipeline in (depth for depth in range(1, layers + 1) if layers % depth == 0):
            if on.gpus % (tensor * pipeline):
                continue
            for micro_batch in (1, 2, 4, 8, 16):
                replicas = on.gpus // (tensor * pipeline)
                if batch % (replicas * micro_batch):
                    continue
                for place in PLACES:
                    one = Training(hidden, layers, batch, tokens, on.gpus, on.rate, tensor, pipeline)
                    found = _choice(one, micro_batch, batch // (replicas * micro_batch), place)
                    if found.memory <= on.memory and found.bandwidth <= on.write:
                        yield found


def _choice(one: Training, micro_batch: int, count: int, place: str) -> Choice:
    """What one combination takes: a stage of the pipeline holds activations of as many micro-batches as it is deep."""
    _, slower = fitted()
    compute = one.seconds * (4 / 3 if place == "recompute" else 1) * (1 + slower / micro_batch)
    seconds = compute * (1 + (one.pipeline - 1) / count)
    held = one.activations / count * min(one.pipeline, count)
    of_layer = one.activations / count / (one.layers / one.pipeline)
    inputs = held * 2 / 34 * one.tensor  # of a layer that is computed again, its input alone stays
    kept = {"keep": held, "recompute": inputs + of_layer, "file": 3 * of_layer}[place]
    weights = one.parameters * OF_WEIGHT / (one.tensor * one.pipeline)
    bandwidth = one.activations / (compute / 2) if place == "file" else 0.0
    return Choice(one.pipeline, one.tensor, micro_batch, place, seconds, weights + kept, bandwidth)


def best(found: list[Choice], place: str | None = None) -> Choice | None:
    """The fastest choice, of one place if it is given; of equally fast ones that with the fewest bytes."""
    listed = [each for each in found if place in (None, each.place)]
    return min(listed, key=lambda each: (each.seconds, each.memory), default=None)

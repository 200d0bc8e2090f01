"""The times of parts, measured: the program runs at small sizes, and its trace gives the busy time of each part."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tiramisu_py import Function, Kernel, Trace, TraceEvent, pinned_empty
from tiramisu_py.queries import drawn_arguments as arguments
from tiramisu_py.queries import shape_value
from tiramisu_py.tuning.levels import Level, Slot, owners

#: The kinds of events that count as a part's work: on threads of the host, and on a GPU.
ON_CORES = ("nest",)
ON_GPU = ("kernel", "upload", "download", "transfer")


class Measurement:
    """The seconds of each part of a compiled function: the minimum over some runs, and the maximum over the ranks."""

    def __init__(
        self,
        f: Function,
        levels: Sequence[Level],
        inputs: Mapping[str, Any],
        comm: Any,
        pinned: bool,
        rounds: int,
        **options: Any,
    ) -> None:
        self._f = f
        self._inputs = inputs
        self._comm = comm
        self._pinned = options.get("device") or "gpu" if pinned else None
        self._rounds = rounds
        self._slots = [slot for level in levels for slot in level.slots]
        self._owners = owners(f.completed, levels)
        self._options = options

    @cached_property
    def _kernel(self) -> Kernel:
        return self._f.compile(trace=True, **self._options)

    def __call__(self, params: Mapping[str, int]) -> list[float]:
        """The seconds of each part at given parameter values, level by level."""
        given = self._arguments(params)
        self._kernel(**given)  # to warm up
        best = [float("inf")] * len(self._slots)
        for _ in range(self._rounds):
            self._kernel(**given)
            times = times_of(self._kernel.trace, self._owners, self._slots)
            best = [min(old, new) for old, new in zip(best, times, strict=True)]
        return best if self._comm is None else [max(each) for each in zip(*self._comm.allgather(best), strict=True)]

    def _arguments(self, params: Mapping[str, int]) -> dict[str, Any]:
        """The arguments of the call: this rank's parts of arrays, in page-locked memory if `pinned`."""
        algorithm = self._f.algorithm
        given = arguments(algorithm, self._inputs, params, seed=0)
        if self._pinned:
            given |= self._outputs(params)
        arrays = {
            name: given[name] for name in given if name not in algorithm.inputs or not algorithm.inputs[name].scalar
        }
        if self._comm is not None:
            rank = self._comm.Get_rank()
            arrays = {name: self._f.part(name, whole, rank, **params) for name, whole in arrays.items()}
        if self._pinned:
            arrays = {name: _page_locked(array, self._pinned) for name, array in arrays.items()}
        return {**given, **arrays, **params, **({} if self._comm is None else {"comm": self._comm})}

    def _outputs(self, params: Mapping[str, int]) -> dict[str, Any]:
        """Arrays for the outputs that have their own buffer."""
        program = self._f.program
        own = (name for name in self._f.algorithm.outputs if program.storages[name].buffer == name)
        buffers = {name: program.buffers[name] for name in own}
        return {name: np.zeros(shape_value(of.passed_extents, params), of.dtype.numpy) for name, of in buffers.items()}


def _page_locked(array: Any, device: str) -> Any:
    locked = pinned_empty(array.shape, array.dtype, device=device)
    locked[...] = array
    return locked


def times_of(trace: Trace, owned: Mapping[str, Slot], slots: Sequence[Slot]) -> list[float]:
    """The busy seconds of each part: of its loop nests, or of the kernels and copies of its GPU."""
    found: dict[int, list[TraceEvent]] = {id(slot): [] for slot in slots}
    for event in trace.events:
        slot = next((owned[name] for name in re.findall(r"\w+", event.name) if name in owned), None)
        if slot is not None and event.kind in (ON_CORES if slot.gpu is None else ON_GPU):
            found[id(slot)].append(event)
    return [trace.busy(found[id(slot)]) for slot in slots]

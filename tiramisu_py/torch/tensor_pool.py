"""Bytes of tensors of a GPU in page-locked memory of the host: a pool whose size the first step says.

In the first step each place that is new takes memory of its own. From the second one on there is one piece of memory
with room for all that the first has needed at a time; what a later step needs beyond that is taken as in the first.
"""

from __future__ import annotations

from collections.abc import Iterator

from tiramisu_py.toolchain import host_pool, pinned_empty
from tiramisu_py.torch.tensor_stores import Bytes, Extents, StorePlace, TensorBytes, TensorStore


class TensorPool(TensorStore):
    """The page-locked memory of one cache, on the machine's GPUs or the simulator."""

    name = "page-locked memory"

    def __init__(self, device: str, threads: int = 1) -> None:
        self._device = device
        self._pieces: list[tuple[int, Bytes]] = []  # (offset, memory), by offset, without gaps
        pinned_empty(1, "u1", device)  # without a driver nothing is begun
        super().__init__(threads)

    @property
    def reserved(self) -> int:
        """The bytes of the pool."""
        return sum(memory.size for _, memory in self._pieces)

    @property
    def pieces(self) -> int:
        """How many pieces of memory the pool has."""
        return len(self._pieces)

    def fit(self) -> None:
        """Make the pool one piece, if nothing is in it now."""
        with self._lock:
            self._collect()
            if self._extents.is_free and self.pieces > 1:
                end = self._extents.end
                self._pieces = []  # first given back, then taken: no more at a time than before
                host_pool(self._device, trim=True)
                self._extents = Extents()
                self._reserve(end, end)
                self._extents.give_back(self._extents.take(end), end)

    def _reserve(self, end: int, size: int) -> None:
        have = self.reserved
        if end > have:
            self._pieces.append((have, pinned_empty(end - have, "u1", self._device)))

    def _write(self, place: StorePlace, source: TensorBytes) -> None:
        for first, memory in self._parts(place):
            source.get(first, memory)

    def _read(self, place: StorePlace, target: TensorBytes) -> None:
        for first, memory in self._parts(place):
            target.put(first, memory)

    def _parts(self, place: StorePlace) -> Iterator[tuple[int, Bytes]]:
        """The memory of a place, which may reach over several pieces, with the number of its first byte."""
        with self._lock:
            pieces = [*self._pieces]
        for offset, memory in pieces:
            begin = max(place.offset, offset)
            end = min(place.offset + place.size, offset + memory.size)
            if begin < end:
                yield begin - place.offset, memory[begin - offset : end - offset]

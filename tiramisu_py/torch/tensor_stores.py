"""Places for the bytes of tensors outside of their own memory, with queues of stores and loads, and threads for each.

A store has a pool of places (`Extents`), which grows; where these are, a file or page-locked memory, is said by its
subclasses: `TensorFiles` and `TensorPool`.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tiramisu_py.records import dataclass

Bytes = npt.NDArray[np.uint8]

#: Places are whole pages.
PAGE = 4096


@dataclass(frozen=True, eq=False)
class KeptTensor:
    """A tensor that stays in memory, as a graph keeps it, and how often it had been changed by then."""

    tensor: Any
    version: int

    def unchanged(self) -> Any:
        """The tensor; raises PyTorch's error if it was changed since, which PyTorch does not look for beside hooks."""
        if self.tensor._version != self.version:
            raise changed_in_place(tuple(self.tensor.shape))
        return self.tensor


def changed_in_place(shape: tuple[int, ...]) -> RuntimeError:
    """The error of PyTorch for a tensor that a backward pass needs as it was."""
    return RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"a tensor of shape {shape} was changed after it was saved; compute it into a new one"
    )


class TensorBytes(Protocol):
    """The bytes of a tensor where they are, which the threads of a store read and write piece by piece."""

    size: int
    #: Whole pages of the host that begin with the bytes, where there are such: they are read into without a copy.
    pages: Bytes | None

    def get(self, first: int, target: Bytes) -> None:
        """Copy bytes from `first` on to an array of the host."""

    def put(self, first: int, source: Bytes) -> None:
        """Copy bytes of an array of the host to those from `first` on."""


class HostBytes:
    """Bytes in an array of the host, which may be the beginning of whole pages."""

    def __init__(self, data: Bytes, pages: Bytes | None = None) -> None:
        self.data, self.pages = data, pages
        self.size: int = data.size

    def get(self, first: int, target: Bytes) -> None:
        """Copy bytes from `first` on."""
        target[:] = self.data[first : first + target.size]

    def put(self, first: int, source: Bytes) -> None:
        """Copy bytes to those from `first` on."""
        self.data[first : first + source.size] = source


class GpuBytes:
    """Bytes of a tensor on a GPU, copied on a stream of their own once what was launched before them has run.

    `flat` is the tensor of bytes, made on the thread and the stream that compute with it; `cuda` is ``torch.cuda``. A
    copy is complete when it returns, so that what comes later on any stream finds it.
    """

    def __init__(self, flat: Any, cuda: Any, side: Any, tensor_of: Callable[[Bytes], Any]) -> None:
        self.flat, self.size = flat, int(flat.numel())
        self.pages: Bytes | None = None
        self._cuda, self._side, self._tensor_of = cuda, side, tensor_of
        self._ready = cuda.Event()
        self._ready.record(cuda.current_stream(flat.device))

    def get(self, first: int, target: Bytes) -> None:
        """Copy bytes from `first` on."""
        self._copy(self._tensor_of(target), self.flat[first : first + target.size])

    def put(self, first: int, source: Bytes) -> None:
        """Copy bytes to those from `first` on."""
        self._copy(self.flat[first : first + source.size], self._tensor_of(source))

    def _copy(self, target: Any, source: Any) -> None:
        with self._cuda.stream(self._side):
            self._side.wait_event(self._ready)
            target.copy_(source, non_blocking=True)
            self._side.synchronize()


class Extents:
    """Places from 0 to `end`: taken first fit, given back, and joined with what is free beside them."""

    def __init__(self) -> None:
        self.end = 0
        self._free: list[tuple[int, int]] = []  # (offset, size), by offset

    @property
    def is_free(self) -> bool:
        """Whether all places have been given back."""
        return self._free == [(0, self.end)] if self.end else True

    def take(self, size: int) -> int:
        """The offset of a free place, of whole pages."""
        size = whole_pages(size)
        for k, (offset, free) in enumerate(self._free):
            if free >= size:
                self._free[k : k + 1] = [(offset + size, free - size)] if free > size else []
                return offset
        offset, self.end = self.end, self.end + size
        return offset

    def give_back(self, offset: int, size: int) -> None:
        """Make a place free."""
        found = list[tuple[int, int]]()
        for own, free in sorted([*self._free, (offset, whole_pages(size))]):
            if found and sum(found[-1]) == own:
                found[-1] = (found[-1][0], found[-1][1] + free)
            else:
                found.append((own, free))
        self._free = found


def whole_pages(size: int) -> int:
    """A number of bytes, rounded up to pages."""
    return -(-size // PAGE) * PAGE


class StorePlace:
    """Where some bytes are in a store, as long as this object lives."""

    def __init__(self, store: TensorStore, offset: int, size: int) -> None:
        self.store = store
        self.offset = offset
        self.size = size

    def __del__(self) -> None:
        self.store.forget(self)


class TensorStore(ABC):
    """The places of one cache. `written` and `read` are bytes moved, `seconds` those in which stores were busy."""

    #: What it is, for messages.
    name = ""

    def __init__(self, threads: int = 2) -> None:
        self._extents, self._lock = Extents(), threading.Lock()
        self._left: deque[tuple[int, int]] = deque()  # places that nobody has any more, of any thread
        self.written = self.read = 0
        self.seconds = 0.0
        self._queues: list[SimpleQueue[Any]] = [SimpleQueue(), SimpleQueue()]
        self._threads = [
            threading.Thread(target=_serve, args=(queue,), name="tiramisu: tensors in a store", daemon=True)
            for queue in self._queues
            for _ in range(threads)
        ]
        for each in self._threads:
            each.start()

    @property
    @abstractmethod
    def reserved(self) -> int:
        """The bytes that it has taken for all its places."""

    def place(self, size: int) -> StorePlace:
        """A place for some bytes, which is reserved. Raises `ArgumentError` if there is no room."""
        with self._lock:
            self._collect()
            offset = self._extents.take(size)
            try:
                self._reserve(self._extents.end, size)
            except BaseException:
                self._extents.give_back(offset, size)
                raise
        return StorePlace(self, offset, size)

    def forget(self, place: StorePlace) -> None:
        """Let others have a place. It may be called at any moment, by the collector too: so nothing waits here."""
        self._left.append((place.offset, place.size))

    @abstractmethod
    def fit(self) -> None:
        """Take what the first step has needed as one piece, where nothing is stored now."""

    def store(
        self, place: StorePlace, source: TensorBytes, is_wanted: Callable[[], bool] = lambda: True
    ) -> Future[bool]:
        """Write bytes to a place, in turn; the result says whether they were still wanted when it was their turn."""
        return self._ask(0, lambda: is_wanted() and self._stored(place, source))

    def load(self, place: StorePlace, target: TensorBytes) -> Future[bool]:
        """Read the bytes of a place, in turn."""
        return self._ask(1, lambda: self._loaded(place, target))

    def wait(self) -> None:
        """Wait until all that was asked for before is complete."""
        for number in range(len(self._queues)):
            gate = threading.Barrier(len(self._threads) // len(self._queues) + 1)
            for _ in range(gate.parties - 1):
                self._ask(number, lambda own=gate: own.wait() >= 0)  # type: ignore[misc]
            gate.wait()

    def close(self) -> None:
        """End the threads, when all stores and loads are done."""
        for queue in self._queues:
            for _ in range(len(self._threads) // len(self._queues)):
                queue.put(None)
        for each in self._threads:
            each.join()
        self._threads = []

    def __del__(self) -> None:
        for queue in getattr(self, "_queues", ()):
            for _ in range(len(self._threads)):
                queue.put(None)

    # -- what subclasses do

    @abstractmethod
    def _reserve(self, end: int, size: int) -> None:
        """Have room up to `end`, for a place of `size` bytes."""

    @abstractmethod
    def _write(self, place: StorePlace, source: TensorBytes) -> None:
        """Copy bytes to a place."""

    @abstractmethod
    def _read(self, place: StorePlace, target: TensorBytes) -> None:
        """Copy the bytes of a place."""

    # -- queues

    def _collect(self) -> None:
        while self._left:
            self._extents.give_back(*self._left.popleft())

    def _stored(self, place: StorePlace, source: TensorBytes) -> bool:
        begin = perf_counter()
        self._write(place, source)
        with self._lock:
            self.written += place.size
            self.seconds += perf_counter() - begin
        return True

    def _loaded(self, place: StorePlace, target: TensorBytes) -> bool:
        self._read(place, target)
        with self._lock:
            self.read += place.size
        return True

    def _ask(self, queue: int, work: Callable[[], bool]) -> Future[bool]:
        future: Future[bool] = Future()
        if self._threads:
            self._queues[queue].put((future, work))
        else:
            _answer(future, work)
        return future


def _serve(queue: SimpleQueue[Any]) -> None:
    while (asked := queue.get()) is not None:
        _answer(*asked)
        del asked


def _answer(future: Future[bool], work: Callable[[], bool]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)

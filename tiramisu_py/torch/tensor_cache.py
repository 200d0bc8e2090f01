"""Activations of a model in a store, between the forward pass that saves them and the backward pass that reads them.

PyTorch asks a pair of hooks for each tensor that a backward pass will read: `pack` gives what the graph keeps in its
place, `unpack` the tensor again. Here the graph keeps a `Saved`, which lives as long as the graph, and with it the
bytes in a file, or in memory of the host. A storage is written once, however many tensors are parts of it.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from time import perf_counter
from typing import Any

from tiramisu_py.errors import ArgumentError, KernelError
from tiramisu_py.records import dataclass
from tiramisu_py.torch.functions import _torch
from tiramisu_py.torch.offload_choice import last_offloaded
from tiramisu_py.torch.tensor_stores import (
    PAGE,
    GpuBytes,
    HostBytes,
    KeptTensor,
    StorePlace,
    TensorBytes,
    TensorStore,
    changed_in_place,
    whole_pages,
)
from tiramisu_py.torch.tensor_weights import FileWeights, SavedWeight


class Content:
    """The bytes of a storage (or of a part of it) at one moment, in memory, in a store, or on the way.

    They are released from memory when they are written, and the storage has not been changed meanwhile. `source` is the
    tensor that holds them, of the storage's own count of changes; `data` is a tensor of the bytes.
    """

    def __init__(self, source: Any, data: Any) -> None:
        self.source: Any = source
        self.data: Any = data
        self.device = source.device
        self.version: int = source._version
        self.size = int(data.numel())
        self.place: StorePlace | None = None
        self.stored: Future[bool] | None = None
        self.loading: tuple[Any, Future[bool]] | None = None
        self.loaded: Any = None
        self.readers = 0  # tensors that are parts of it, and have not been asked for
        self.number = 0  # of the first tensor that is a part of it
        self.stays = False  # it is asked for as soon as the forward pass has ended
        self.was_changed = False

    @property
    def is_in_memory(self) -> bool:
        """Whether its bytes are still where they were."""
        return self.data is not None

    def settle(self) -> bool:
        """Release what is written, on the thread that runs the model, so that nothing changes it now; whether it is."""
        if self.stored is None or not self.stored.done() or self.data is None:
            return self.data is None
        if self.stored.exception() is None and self.stored.result():
            self.was_changed = self.source._version != self.version
            self.source = self.data = None
        return self.data is None


class Saved:
    """A tensor as a graph keeps it: its content, and which part of it the tensor is."""

    def __init__(self, content: Content, tensor: Any, offset: int, number: int, stage: str) -> None:
        self.content = content
        self.dtype, self.shape, self.strides = tensor.dtype, tuple(tensor.shape), tuple(tensor.stride())
        self.offset = offset
        self.number = number
        self.stage = stage


@dataclass(frozen=True)
class StepRecord:
    """The record of steps with a model: in which order the backward pass asks, of each micro-batch, and what is kept.

    `TensorCache.record` has it, and ``offload(record=)`` takes it, so that the first step of another run is as the
    later ones are. `structure` are the names and shapes of the model's parameters; a model with others is refused.
    """

    structure: tuple[tuple[str, tuple[int, ...]], ...]
    orders: Mapping[str, tuple[int, ...]]
    firsts: Mapping[str, frozenset[int]]
    kept_from: int | None = None


def structure_of(model: Any) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The names and shapes of the parameters of a model."""
    return tuple((name, tuple(each.shape)) for name, each in model.named_parameters())


@dataclass(frozen=True)
class _Part:
    """A part of a model: what it held, and how long it took forwards, in the step that was measured."""

    bytes: int = 0
    seconds: float = 0.0


class TensorCache:
    """The activations of one model, while its `offload` is open.

    `stored`, `loaded`, `forwarded`, `cancelled` and `kept` count bytes: written to the store, read from it, given back
    before they were written, no longer wanted before they were, and left in memory. `live` counts the tensors that a
    graph still keeps in the cache.
    """

    def __init__(
        self,
        model: Any,
        store: TensorStore,
        least: int,
        ahead: int,
        adapt: bool = False,
        weights: FileWeights | None = None,
    ) -> None:
        self._torch = _torch()
        #: The parameters, where they are in a file, too.
        self.weights = weights
        self.model, self.least, self.ahead, self.adapt = model, least, ahead, adapt
        self._store = store
        self._process = os.getpid()
        self._parameters = {each.untyped_storage().data_ptr() for each in (*model.parameters(), *model.buffers())}
        self._device = next((each.device.type for each in model.parameters()), "cpu")
        self._sides: dict[Any, Any] = {}  # a stream for the copies of each GPU
        self._contents: weakref.WeakValueDictionary[Any, Content] = weakref.WeakValueDictionary()
        self._unsettled: list[weakref.ref[Content]] = []
        self._saved: dict[str, weakref.WeakValueDictionary[int, Saved]] = {}
        self._orders: dict[str, tuple[int, ...]] = {}
        self._order: dict[str, list[int]] = {}
        self._count: dict[str, int] = {}
        self._firsts: dict[str, frozenset[int]] = {}  # contents that are asked for at once, by their numbers
        self._asked: dict[str, dict[int, None]] = {}  # contents in the order in which they are asked for
        self._read: dict[str, set[int]] = {}  # tensors that this backward pass has asked for, by their numbers
        self._packed = ""  # the stage of the last tensor that was packed
        self._stage = ""
        self._parts, self._part, self._begun = list[_Part](), -1, 0.0
        self._kept_from: int | None = None
        self._is_chosen = False
        self._error: BaseException | None = None
        self.live = 0
        self.forwarded = self.cancelled = self.kept = 0

    @property
    def stored(self) -> int:
        """Bytes written."""
        return self._store.written

    @property
    def loaded(self) -> int:
        """Bytes read."""
        return self._store.read

    @property
    def reserved(self) -> int:
        """Bytes that the file, or the pool of page-locked memory, has."""
        return self._store.reserved

    @property
    def record(self) -> StepRecord:
        """The record of the steps so far, for ``offload(record=)``."""
        orders = {stage: tuple(order) for stage, order in self._order.items() if order}
        firsts = {**self._firsts, **{stage: self._first(stage) for stage in orders}}
        return StepRecord(structure_of(self.model), {**self._orders, **orders}, firsts, self._kept_from)

    def stage(self, name: str, then: str | None = None) -> None:
        """Say to which micro-batch the passes from here on belong: each has a record of its own, for what is next.

        `then` is the one whose backward pass comes next, where a schedule of a pipeline knows it: what that asks for
        first is fetched from now on.
        """
        self._stage = str(name)
        if then is not None:
            self._fetch(str(then), self._orders.get(str(then), ())[: self.ahead])

    def wait(self) -> None:
        """Wait until all that is being stored and fetched is complete."""
        self._store.wait()
        if self.weights is not None:
            self.weights.wait()
        self._settle()

    # -- what PyTorch calls

    def pack(self, tensor: Any) -> Any:
        """A tensor as the graph is to keep it: itself, without its graph, or its place in the file."""
        self._settle()
        if self._process != os.getpid():
            raise KernelError("a process was forked with an open offload: open one in the process that trains")
        error = self._error or (self.weights.error if self.weights is not None else None)
        if error is not None:
            raise KernelError(f"{self._store.name} cannot be written to: {error}") from error
        plain = tensor.detach()
        if self.weights is not None and self.weights.has(plain):
            return self.weights.saved(plain)
        if not self._is_stored(plain):
            return KeptTensor(plain, plain._version)
        stage = self._stage
        if self._is_new_step(stage):
            self._begin_step(stage)
        number = self._count[stage] = self._count.get(stage, 0) + 1
        self._packed = stage
        content, offset = self._content(plain, number)
        content.readers += 1
        saved = Saved(content, plain, offset, number, stage)
        self._saved.setdefault(stage, weakref.WeakValueDictionary())[number] = saved
        self.live += 1
        weakref.finalize(saved, self._forget)
        return saved

    def unpack(self, kept: Any) -> Any:
        """The tensor that the graph has kept."""
        if isinstance(kept, SavedWeight) and self.weights is not None:
            return self.weights.asked(kept, self.ahead)
        if isinstance(kept, KeptTensor):
            return kept.unchanged()
        self._settle()
        order = self._order.setdefault(kept.stage, [])
        if not order:
            self._asked[kept.stage] = {} if self._packed == kept.stage else {-1: None}
        order.append(kept.number)
        self._asked[kept.stage].setdefault(kept.content.number)
        read = self._read.setdefault(kept.stage, set())
        if kept.number in read:  # another pass of a graph that was retained
            read.clear()
        read.add(kept.number)
        self._fetch_next(kept)
        return self._tensor(kept)

    # -- storing

    def _is_stored(self, plain: Any) -> bool:
        """Whether a tensor is stored: one of some size, on the model's device, no parameter, of a forward pass."""
        torch = self._torch
        if plain.layout != torch.strided or plain.device.type != self._device or plain.is_quantized:
            return False
        storage = plain.untyped_storage()
        if plain.nbytes < self.least or storage.data_ptr() in self._parameters:
            return False
        if torch._C._current_graph_task_id() != -1:  # computed again, backwards: it is read at once
            return False
        if self._kept_from is not None and self._part >= self._kept_from:
            self.kept += plain.nbytes
            return False
        return True

    def _content(self, plain: Any, number: int) -> tuple[Content, int]:
        """The content that a tensor is a part of, and where in it, in elements."""
        storage = plain.untyped_storage()
        if not hasattr(storage, "_tiramisu_stamp"):
            storage._tiramisu_stamp = object()  # no number: that of an earlier cache would be given once more
        is_whole = storage.nbytes() <= 2 * plain.nbytes
        part = () if is_whole else (plain.storage_offset(), tuple(plain.shape), tuple(plain.stride()))
        key = (storage._tiramisu_stamp, plain._version, plain.element_size(), *part)
        known = self._contents.get(key)
        first = plain.storage_offset() if is_whole else 0
        if known is not None:
            return known, first
        content = Content(plain, self._bytes(plain, storage, is_whole))
        content.number, content.stays = number, number in self._firsts.get(self._stage, ())
        self._contents[key] = content
        if content.stays:
            self.kept += content.size
        else:
            content.place = self._store.place(content.size)
            self._add(content)
        if self._part >= 0 and self._parts:
            own = self._parts[self._part]
            self._parts[self._part] = _Part(own.bytes + content.size, own.seconds)
        return content, first

    def _bytes(self, plain: Any, storage: Any, is_whole: bool) -> Any:
        """The bytes of a storage where they are, or those of a small part of it as far as it reaches."""
        torch = self._torch
        data = torch.empty(0, dtype=torch.uint8, device=plain.device).set_(storage)
        if is_whole:
            return data
        size = plain.element_size()
        reach = sum((extent - 1) * stride for extent, stride in zip(plain.shape, plain.stride(), strict=True)) + 1
        first = plain.storage_offset() * size
        return data[first : first + reach * size]

    def _reached(self, flat: Any) -> TensorBytes:
        """Bytes as the threads of the store reach them."""
        if flat.device.type == "cpu":
            return HostBytes(flat.numpy())
        cuda = self._torch.cuda
        if flat.device not in self._sides:
            self._sides[flat.device] = cuda.Stream(flat.device)
        return GpuBytes(flat, cuda, self._sides[flat.device], self._torch.from_numpy)

    def _add(self, content: Content) -> None:
        mine = weakref.ref(content)
        assert content.place is not None and content.data is not None
        size = content.size
        content.stored = self._store.store(
            content.place, self._reached(content.data), lambda: self._is_wanted(mine, size)
        )
        content.stored.add_done_callback(self._note_error)
        self._unsettled.append(mine)

    def _note_error(self, stored: Future[bool]) -> None:
        """Keep what a store has met, though nobody wants its content any more: the next step says it."""
        if stored.exception() is not None:
            self._error = stored.exception()

    def _is_wanted(self, mine: weakref.ref[Content], size: int) -> bool:
        """Whether a graph still keeps a content, whose turn to be written has come."""
        is_wanted = mine() is not None
        self.cancelled += 0 if is_wanted else size
        return is_wanted

    def _settle(self) -> None:
        """Release from memory what has been written."""
        rest = []
        for mine in self._unsettled:
            content = mine()
            if content is None:
                continue
            has_failed = content.stored is not None and content.stored.done() and content.stored.exception() is not None
            if not has_failed and not content.settle():  # what has failed stays in memory: this step ends right
                rest.append(mine)
        self._unsettled = rest

    def _forget(self) -> None:
        self.live -= 1

    # -- loading

    def _tensor(self, saved: Saved) -> Any:
        torch, content = self._torch, saved.content
        if content.data is not None and content.source is not None:
            self.forwarded += 0 if content.stays else content.size
            content.was_changed |= content.source._version != content.version
        if content.was_changed:
            raise changed_in_place(saved.shape)
        flat = content.data if content.data is not None else self._loaded(content)
        whole = flat[: flat.numel() // saved.dtype.itemsize * saved.dtype.itemsize].view(saved.dtype)
        return torch.as_strided(whole, saved.shape, saved.strides, whole.storage_offset() + saved.offset)

    def _loaded(self, content: Content) -> Any:
        """The bytes of a content, from the store: read now, or before."""
        content.readers -= 1
        if content.loaded is None:
            self._begin_loading(content)
            assert content.loading is not None
            (content.loaded, future), content.loading = content.loading, None
            try:
                future.result()
            except OSError as error:
                raise KernelError(f"{content.size} bytes cannot be read from {self._store.name}: {error}") from error
        found = content.loaded
        if content.readers <= 0:
            content.loaded = None
        return found

    def _begin_loading(self, content: Content) -> None:
        if content.loading is None and content.data is None and content.place is not None:
            target, reached = self._target(content)
            content.loading = target, self._store.load(content.place, reached)

    def _target(self, content: Content) -> tuple[Any, TensorBytes]:
        """A new tensor of bytes, which begins at a page on the host."""
        size, torch = content.size, self._torch
        if content.device.type != "cpu":
            flat = torch.empty(size, dtype=torch.uint8, device=content.device)
            return flat, self._reached(flat)
        room = torch.empty(whole_pages(size) + PAGE, dtype=torch.uint8)
        first = -room.data_ptr() % PAGE
        pages = room[first : first + whole_pages(size)]
        return pages[:size], HostBytes(pages[:size].numpy(), pages.numpy())

    def _fetch_next(self, saved: Saved) -> None:
        """Begin to read what comes next: in the order of the last step, or from here in the direction of this one."""
        self._fetch(saved.stage, self._expected(saved))

    def _fetch(self, stage: str, numbers: Iterable[int]) -> None:
        alive, read = self._saved.get(stage), self._read.get(stage, ())
        for number in numbers:
            found = None if alive is None or number in read else alive.get(number)
            if found is not None and not found.content.is_in_memory and found.content.loaded is None:
                self._begin_loading(found.content)

    def _expected(self, saved: Saved) -> Iterator[int]:
        last, done = self._orders.get(saved.stage, ()), len(self._order[saved.stage])
        if done <= len(last) and last[done - 1] == saved.number:
            yield from last[done : done + self.ahead]
        elif saved.number - 1 in self._read[saved.stage]:  # one node that has saved several asks in their order
            yield from range(saved.number + 1, saved.number + 1 + self.ahead)
        else:
            yield from range(saved.number - 1, max(saved.number - 1 - self.ahead, 0), -1)

    # -- steps and parts

    def _is_new_step(self, stage: str) -> bool:
        """Whether a forward pass begins: all that was saved before has been read, and is gone."""
        return bool(self._order.get(stage)) and not len(self._saved.get(stage, ()))

    def _begin_step(self, stage: str) -> None:
        self._firsts[stage] = self._first(stage)
        self._orders[stage] = tuple(self._order.pop(stage))
        self._count[stage] = 0
        self._read.pop(stage, None)
        self._store.fit()
        if self.adapt and self._parts and not self._is_chosen and self._store.seconds > 0:
            bandwidth = self._store.written / self._store.seconds
            held, seconds = [p.bytes for p in self._parts], [p.seconds for p in self._parts]
            chosen = last_offloaded(held, seconds, bandwidth) + 1
            self._kept_from = chosen if self._kept_from is None else min(chosen, self._kept_from)
            self._is_chosen = True

    def watch(self, keep: int, record: StepRecord | None) -> list[Any]:
        """Begin with what is known: hooks at the parts of the model, of which the last `keep` keep their tensors.

        Parts are the model's children, below modules that have one child alone.
        """
        if record is not None:
            if not isinstance(record, StepRecord):
                raise ArgumentError(f"record= of offload is the record of a cache, not {record!r:.60}")
            own = structure_of(self.model)
            if record.structure != own:
                raise ArgumentError(
                    f"record= is one of another model: {_difference(record.structure, own)}; leave it out"
                )
            self._orders, self._firsts = dict(record.orders), dict(record.firsts)
            self._kept_from = record.kept_from
            self._is_chosen = record.kept_from is not None
        parts = [*self.model.children()]
        while len(parts) == 1:
            parts = [*parts[0].children()]
        if keep > len(parts):
            raise ArgumentError(f"keep={keep} of offload: the model has {len(parts)} parts (its children)")
        if keep:
            self._kept_from = min(len(parts) - keep, len(parts) if self._kept_from is None else self._kept_from)
        handles = self.weights.watch() if self.weights is not None else []
        if not (keep or self.adapt or self._kept_from is not None):
            return handles
        self._parts = [_Part() for _ in parts]
        for number, part in enumerate(parts):
            handles.append(part.register_forward_pre_hook(lambda *_, n=number: self.enter_part(n)))
            handles.append(part.register_forward_hook(lambda *_, n=number: self.leave_part(n)))
        return handles

    def _first(self, stage: str) -> frozenset[int]:
        """The contents that the backward pass of this step has asked for first, if it came as soon as all was saved.

        To store them would be to wait for them. While they are read, those after them are fetched.
        """
        asked = [*self._asked.get(stage, ())]
        return frozenset(asked[: self.ahead] if asked[:1] != [-1] else ())

    def enter_part(self, number: int) -> None:
        """Part `number` of the model begins its forward pass."""
        self._part, self._begun = number, perf_counter()

    def leave_part(self, number: int) -> None:
        """Part `number` has ended its forward pass; what follows the last part belongs to it."""
        own = self._parts[number]
        if own.seconds == 0.0:
            self._parts[number] = _Part(own.bytes, perf_counter() - self._begun)
        self._part = number if number == len(self._parts) - 1 else -1

    def close(self) -> None:
        """Let no store wait: what graphs still keep stays where it is stored until they are gone."""
        self._store.close()
        try:
            if self.weights is not None:
                self.weights.close()
        finally:
            self._settle()


def _difference(there: tuple[tuple[str, tuple[int, ...]], ...], here: tuple[tuple[str, tuple[int, ...]], ...]) -> str:
    """The first parameter in which two models differ, in words."""
    known, own = dict(there), dict(here)
    for name in (*own, *known):
        if own.get(name) != known.get(name):
            was = f"is of {known[name]} there" if name in known else "is not in that one"
            now = f"of {own[name]} here" if name in own else "not in this one"
            return f"its parameter {name} {was}, and {now}"
    return "its parameters are in another order"

"""Activations of a model in files, between the forward pass that saves them and the backward pass that reads them.

PyTorch asks a pair of hooks for each tensor that a backward pass will read: `pack` gives what the graph keeps in its
place, `unpack` the tensor again. Here the graph keeps a `Saved`, which lives as long as the graph, and with it the
bytes in a file. A storage is written once, however many tensors are parts of it.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from tiramisu_py.errors import ArgumentError, CallError, KernelError
from tiramisu_py.records import dataclass
from tiramisu_py.torch.functions import _torch
from tiramisu_py.torch.offload_choice import last_offloaded
from tiramisu_py.torch.tensor_files import Bytes, FilePlace, TensorFiles

#: Bytes below which a tensor stays in memory, unless `least` says otherwise.
LEAST = 1 << 20
#: So many tensors are read before they are asked for.
AHEAD = 4

#: The cache that is open in this process.
_OPEN: list[TensorCache] = []


class Content:
    """The bytes of a storage (or of a part of it) at one moment, in memory, in a file, or on the way.

    They are released from memory when they are written, and the storage has not been changed meanwhile. `source` is the
    tensor that holds them, of the storage's own count of changes.
    """

    def __init__(self, source: Any, data: Bytes) -> None:
        self.source: Any = source
        self.data: Bytes | None = data
        self.version: int = source._version
        self.size = data.size
        self.place: FilePlace | None = None
        self.stored: Future[bool] | None = None
        self.loading: tuple[Any, Future[bool]] | None = None
        self.loaded: Any = None
        self.readers = 0  # tensors that are parts of it, and have not been asked for
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
class _Part:
    """A part of a model: what it held, and how long it took forwards, in the step that was measured."""

    bytes: int = 0
    seconds: float = 0.0


class TensorCache:
    """The activations of one model, while its `offload` is open.

    `stored`, `loaded`, `forwarded`, `cancelled` and `kept` count bytes: written to the file, read from it, given back
    before they were written, no longer wanted before they were, and left in memory. `live` counts the tensors that a
    graph still keeps in the cache.
    """

    def __init__(self, model: Any, folder: str | os.PathLike[str], least: int, ahead: int, adapt: bool) -> None:
        self._torch = _torch()
        self.model, self.least, self.ahead, self.adapt = model, least, ahead, adapt
        self._files = TensorFiles(folder)
        self._process = os.getpid()
        self._parameters = {each.untyped_storage().data_ptr() for each in (*model.parameters(), *model.buffers())}
        self._contents: weakref.WeakValueDictionary[Any, Content] = weakref.WeakValueDictionary()
        self._unsettled: list[weakref.ref[Content]] = []
        self._saved: dict[str, weakref.WeakValueDictionary[int, Saved]] = {}
        self._orders: dict[str, tuple[int, ...]] = {}
        self._order: dict[str, list[int]] = {}
        self._count: dict[str, int] = {}
        self._stage = ""
        self._parts, self._part, self._begun = list[_Part](), -1, 0.0
        self._kept_from: int | None = None
        self._error: BaseException | None = None
        self.live = 0
        self.forwarded = self.cancelled = self.kept = 0

    @property
    def stored(self) -> int:
        """Bytes written."""
        return self._files.written

    @property
    def loaded(self) -> int:
        """Bytes read."""
        return self._files.read

    def stage(self, name: str) -> None:
        """Say to which micro-batch the passes from here on belong: each has a record of its own, for what is next."""
        self._stage = str(name)

    # -- what PyTorch calls

    def pack(self, tensor: Any) -> Any:
        """A tensor as the graph is to keep it: itself, without its graph, or its place in the file."""
        self._settle()
        if self._process != os.getpid():
            raise KernelError("a process was forked with an open offload: open one in the process that trains")
        if self._error is not None:
            raise KernelError(f"the folder {self._files.folder} cannot be written to: {self._error}") from self._error
        plain = tensor.detach()
        if not self._is_stored(plain):
            return plain
        stage = self._stage
        if self._is_new_step(stage):
            self._begin_step(stage)
        number = self._count[stage] = self._count.get(stage, 0) + 1
        content, offset = self._content(plain)
        content.readers += 1
        saved = Saved(content, plain, offset, number, stage)
        self._saved.setdefault(stage, weakref.WeakValueDictionary())[number] = saved
        self.live += 1
        weakref.finalize(saved, self._forget)
        return saved

    def unpack(self, kept: Any) -> Any:
        """The tensor that the graph has kept."""
        if not isinstance(kept, Saved):
            return kept
        self._settle()
        self._order.setdefault(kept.stage, []).append(kept.number)
        self._fetch_next(kept)
        return self._tensor(kept)

    # -- storing

    def _is_stored(self, plain: Any) -> bool:
        """Whether a tensor goes to a file: one of some size, in memory, that is no parameter, of a forward pass."""
        torch = self._torch
        if plain.layout != torch.strided or plain.device.type != "cpu" or plain.is_quantized:
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

    def _content(self, plain: Any) -> tuple[Content, int]:
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
        content.place = self._files.place(content.size)
        self._contents[key] = content
        self._add(content)
        if self._part >= 0 and self._parts:
            own = self._parts[self._part]
            self._parts[self._part] = _Part(own.bytes + content.size, own.seconds)
        return content, first

    def _bytes(self, plain: Any, storage: Any, is_whole: bool) -> Bytes:
        """The bytes of a storage where they are, or those of a small part of it as far as it reaches."""
        torch = self._torch
        data: Bytes = torch.empty(0, dtype=torch.uint8).set_(storage).numpy()
        if is_whole:
            return data
        size = plain.element_size()
        reach = sum((extent - 1) * stride for extent, stride in zip(plain.shape, plain.stride(), strict=True)) + 1
        first = plain.storage_offset() * size
        return data[first : first + reach * size]

    def _add(self, content: Content) -> None:
        mine = weakref.ref(content)
        assert content.place is not None and content.data is not None
        size = content.size
        content.stored = self._files.store(content.place, content.data, lambda: self._is_wanted(mine, size))
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
            self.forwarded += content.size
            content.was_changed |= content.source._version != content.version
        if content.was_changed:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                f"a tensor of shape {saved.shape} was changed after it was saved; compute it into a new one"
            )
        flat = torch.from_numpy(content.data) if content.data is not None else self._loaded(content)
        whole = flat[: flat.numel() // saved.dtype.itemsize * saved.dtype.itemsize].view(saved.dtype)
        return torch.as_strided(whole, saved.shape, saved.strides, saved.offset)

    def _loaded(self, content: Content) -> Any:
        """The bytes of a content, from the file: read now, or before."""
        content.readers -= 1
        if content.loaded is None:
            self._begin_loading(content)
            assert content.loading is not None
            (content.loaded, future), content.loading = content.loading, None
            try:
                future.result()
            except OSError as error:
                folder = self._files.folder
                raise KernelError(f"{content.size} bytes cannot be read from the folder {folder}: {error}") from error
        found = content.loaded
        if content.readers <= 0:
            content.loaded = None
        return found

    def _begin_loading(self, content: Content) -> None:
        if content.loading is None and content.data is None and content.place is not None:
            target = self._torch.empty(content.size, dtype=self._torch.uint8)
            content.loading = target, self._files.load(content.place, target.numpy())

    def _fetch_next(self, saved: Saved) -> None:
        """Begin to read what comes next: in the order of the last step, or backwards from here."""
        alive = self._saved.get(saved.stage)
        for number in self._expected(saved):
            found = None if alive is None else alive.get(number)
            if found is not None and not found.content.is_in_memory and found.content.loaded is None:
                self._begin_loading(found.content)

    def _expected(self, saved: Saved) -> Iterator[int]:
        last, done = self._orders.get(saved.stage, ()), len(self._order[saved.stage])
        if done <= len(last) and last[done - 1] == saved.number:
            yield from last[done : done + self.ahead]
        else:
            yield from range(saved.number - 1, max(saved.number - 1 - self.ahead, 0), -1)

    # -- steps and parts

    def _is_new_step(self, stage: str) -> bool:
        """Whether a forward pass begins: all that was saved before has been read, and is gone."""
        return bool(self._order.get(stage)) and not len(self._saved.get(stage, ()))

    def _begin_step(self, stage: str) -> None:
        self._orders[stage] = tuple(self._order.pop(stage))
        self._count[stage] = 0
        if self.adapt and self._parts and self._kept_from is None and self._files.seconds > 0:
            bandwidth = self._files.written / self._files.seconds
            held, seconds = [p.bytes for p in self._parts], [p.seconds for p in self._parts]
            self._kept_from = last_offloaded(held, seconds, bandwidth) + 1

    def enter_part(self, number: int) -> None:
        """Part `number` of the model begins its forward pass."""
        self._part, self._begun = number, perf_counter()

    def leave_part(self, number: int) -> None:
        """Part `number` has ended its forward pass."""
        own = self._parts[number]
        if own.seconds == 0.0:
            self._parts[number] = _Part(own.bytes, perf_counter() - self._begun)
        self._part = -1

    def close(self) -> None:
        """Let no store wait: what graphs still keep stays in the file until they are gone."""
        self._files.close()
        self._settle()


@contextmanager
def offload(
    model: Any,
    folder: str | os.PathLike[str],
    *,
    least: int = LEAST,
    ahead: int = AHEAD,
    adapt: bool = False,
) -> Iterator[TensorCache]:
    """Keep the activations of a model in a file of `folder` from the forward pass to the backward pass.

    ::

        with tiramisu_py.torch.offload(model, "/scratch"):
            train(model)

    Tensors of at least `least` bytes are stored while the forward pass goes on, and read before the backward pass asks
    for them, `ahead` of it, in the order of the last step. Parameters, small tensors, and what a checkpoint computes
    again stay in memory. A slow disk costs memory, no time: what is not yet written is not read either. With `adapt`
    the first step is measured, and later parts of the model keep theirs, if the disk is too slow for all. Values are
    the same bits. Raises `ArgumentError` for a folder that is missing, read-only, full or in memory, and for a model on
    a GPU; `CallError` for a second cache.
    """
    cache = _checked(model, folder, least, ahead, adapt)
    handles = _watched(cache) if adapt else []
    _OPEN.append(cache)
    try:
        with cache._torch.autograd.graph.saved_tensors_hooks(cache.pack, cache.unpack):
            yield cache
    finally:
        _OPEN.remove(cache)
        for each in handles:
            each.remove()
        cache.close()


def _checked(model: Any, folder: Any, least: int, ahead: int, adapt: bool) -> TensorCache:
    torch = _torch()
    if not isinstance(model, torch.nn.Module):
        raise ArgumentError(f"offload takes a torch.nn.Module and a folder, not {type(model).__name__}")
    if _OPEN:
        raise CallError(f"this is a second cache: one is open for {type(_OPEN[0].model).__name__}: leave that first")
    for name, value in (("least", least), ("ahead", ahead)):
        if not isinstance(value, int) or value < 1:
            raise ArgumentError(f"{name}={value!r} of offload is to be a whole number from 1")
    elsewhere = next((name for name, each in model.named_parameters() if each.device.type != "cpu"), None)
    if elsewhere is not None:
        device = model.get_parameter(elsewhere).device
        raise ArgumentError(
            f"{elsewhere} is on {device}, and offload keeps activations that are in memory: train on the CPU, or use "
            "torch.autograd.graph.save_on_cpu"
        )
    return TensorCache(model, folder, least, ahead, adapt)


def _watched(cache: TensorCache) -> list[Any]:
    """Hooks at the parts of a model, which measure them: its children, below modules that have one child alone."""
    parts = [*cache.model.children()]
    while len(parts) == 1:
        parts = [*parts[0].children()]
    cache._parts = [_Part() for _ in parts]
    handles = []
    for number, part in enumerate(parts):
        handles.append(part.register_forward_pre_hook(lambda *_, n=number: cache.enter_part(n)))
        handles.append(part.register_forward_hook(lambda *_, n=number: cache.leave_part(n)))
    return handles

"""Weights of a model in a file: parameters are mapped from it, and leave memory between a forward and a backward pass.

The parameters' memory is a shared mapping of an unnamed file. When a module has ended its forward pass, what an
optimiser has changed is written, and the pages are given back; when a backward pass asks for parameters, those that it
asks for next are read ahead. Whatever touches a parameter in between (a penalty of weights, tied weights, `state_dict`)
finds its value: the system reads the page. So a wrong guess costs time, and no values.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tiramisu_py.errors import ArgumentError, KernelError
from tiramisu_py.records import dataclass
from tiramisu_py.torch.functions import _torch
from tiramisu_py.torch.tensor_files import check_folder, reserve, unnamed_file
from tiramisu_py.torch.tensor_stores import KeptTensor, whole_pages


@dataclass(frozen=True)
class MappedPages:
    """The whole pages of a file in which a storage of parameters is."""

    offset: int
    size: int


@dataclass(frozen=True, eq=False)
class SavedWeight(KeptTensor):
    """A parameter, or a view of one, as a graph keeps it, and the address of its storage."""

    address: int


class FileWeights:
    """The parameters of a model, of at least some bytes each, in a mapping of a file.

    `size` is how many bytes they have. `released` counts those given back to the file.
    """

    def __init__(self, model: Any, folder: str | os.PathLike[str], least: int) -> None:
        self._torch = _torch()
        self.model, self._folder = model, Path(folder)
        self._pages: dict[int, MappedPages] = {}  # of each storage of parameters, by the address that it has now
        self._before: dict[int, int | None] = {}  # the storage that a forward pass saved before each
        self._last: int | None = None
        self._error: BaseException | None = None
        self._map: mmap.mmap | None = None
        self.size = self.released = 0
        storages = self._storages(least)
        end = sum(whole_pages(each.nbytes()) for each in storages.values())
        check_folder(self._folder)
        self._file, _ = unnamed_file(self._folder, direct=False)
        try:
            if end:
                reserve(self._file, self._folder, 0, end)
                self._map = mmap.mmap(self._file, end)
                self._move(storages)
        except BaseException:
            os.close(self._file)
            raise
        self._worker = ThreadPoolExecutor(1, "tiramisu: weights in a file")

    def _storages(self, least: int) -> dict[int, Any]:
        """The storages of parameters, each once, by their addresses."""
        found = dict[int, Any]()
        for name, each in self.model.named_parameters():
            if each.device.type != "cpu":
                raise ArgumentError(
                    f"weights=True of offload: {name} is on {each.device.type}, and weights are mapped from a file "
                    "into memory of the host: leave it out, or train on the CPU"
                )
            storage = each.untyped_storage()
            if storage.nbytes() >= least and each.layout == self._torch.strided:
                found[storage.data_ptr()] = storage
        return found

    def _move(self, storages: dict[int, Any]) -> None:
        """Put storages into the mapping, and let the parameters be there."""
        torch, offset = self._torch, 0
        moved = dict[int, Any]()
        for address, storage in storages.items():
            count = storage.nbytes()
            there = torch.frombuffer(self._map, dtype=torch.uint8, count=count, offset=offset)
            there.copy_(torch.empty(0, dtype=torch.uint8).set_(storage))
            moved[address] = there.untyped_storage()
            self._pages[moved[address].data_ptr()] = MappedPages(offset, whole_pages(count))
            offset += whole_pages(count)
            self.size += count
        self._set(moved)

    def _set(self, moved: dict[int, Any]) -> None:
        """Let parameters whose storage has moved be parts of the new one, as they were of the old one."""
        for each in self.model.parameters():
            storage = moved.get(each.untyped_storage().data_ptr())
            if storage is not None:
                view = self._torch.empty(0, dtype=each.dtype)
                each.data = view.set_(storage, each.storage_offset(), each.size(), each.stride())

    def watch(self) -> list[Any]:
        """The hooks at the modules that have such parameters of their own."""
        return [module.register_forward_hook(self._leave) for module in self.model.modules() if self._pages_of(module)]

    def has(self, tensor: Any) -> bool:
        """Whether a tensor is in the storage of such a parameter."""
        return tensor.untyped_storage().data_ptr() in self._pages

    def saved(self, tensor: Any) -> SavedWeight:
        """A parameter, or a view of one, as a graph keeps it."""
        address = tensor.untyped_storage().data_ptr()
        if address != self._last:
            self._before[address], self._last = self._last, address
        return SavedWeight(tensor, tensor._version, address)

    def asked(self, kept: SavedWeight, ahead: int) -> Any:
        """The tensor again, which a backward pass asks for: it and those saved before it are read ahead."""
        address: int | None = kept.address
        for _ in range(ahead + 1):
            pages = self._pages.get(address) if address is not None else None
            if pages is None:
                break
            os.posix_fadvise(self._file, pages.offset, pages.size, os.POSIX_FADV_WILLNEED)
            address = self._before.get(address) if address is not None else None
        return kept.unchanged()

    def _pages_of(self, module: Any) -> list[MappedPages]:
        addresses = {each.untyped_storage().data_ptr() for each in module.parameters(recurse=False)}
        return [self._pages[address] for address in sorted(addresses) if address in self._pages]

    def _leave(self, module: Any, *_: Any) -> None:
        """Give the pages of a module's parameters back, whose forward pass has ended, if a backward pass will come."""
        if self._torch.is_grad_enabled() and self._torch._C._current_graph_task_id() == -1:
            self._worker.submit(self._give_back, self._pages_of(module)).add_done_callback(self._note_error)

    def _give_back(self, pages: Iterable[MappedPages]) -> None:
        """Write what has been changed, and release the pages, here and in the system's cache of the file."""
        os.fdatasync(self._file)
        for each in pages:
            assert self._map is not None
            self._map.madvise(mmap.MADV_DONTNEED, each.offset, each.size)
            os.posix_fadvise(self._file, each.offset, each.size, os.POSIX_FADV_DONTNEED)
            self.released += each.size

    def _note_error(self, done: Future[None]) -> None:
        if done.exception() is not None:
            self._error = done.exception()

    @property
    def error(self) -> BaseException | None:
        """The error that the disk has answered when weights were written, if it was one."""
        return self._error

    def wait(self) -> None:
        """Wait until all pages that were to be given back are; raises `KernelError` if the disk refused some."""
        self._worker.submit(lambda: None).result()
        self._raise_error()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise KernelError(
                f"weights=True of offload: weights in {self._folder} could not be written: {self._error}; those of the "
                "model may be wrong"
            ) from self._error

    def close(self) -> None:
        """Put the parameters into memory of their own again; the file is gone with the last tensor that is in it.

        Raises `KernelError` if the disk has refused to write some.
        """
        self._worker.shutdown()
        torch = self._torch
        moved = dict[int, Any]()
        for each in self.model.parameters():
            storage = each.untyped_storage()
            if storage.data_ptr() in self._pages and storage.data_ptr() not in moved:
                moved[storage.data_ptr()] = torch.empty(0, dtype=torch.uint8).set_(storage).clone().untyped_storage()
        self._set(moved)
        self._pages, self._map = {}, None
        os.close(self._file)
        self._raise_error()

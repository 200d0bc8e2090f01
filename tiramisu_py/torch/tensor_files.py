"""Bytes in a file of a folder: queues of stores and loads, each with threads of its own.

One unnamed file holds all: it is in no listing of the folder, and gone when the process is, however that ends. Space is
reserved before a store begins, so that a full disk is known at once. Where the file system takes it, data goes past the
page cache (O_DIRECT), through a buffer of each thread that is aligned to pages.
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from tiramisu_py.errors import ArgumentError

Bytes = npt.NDArray[np.uint8]

#: Files are read and written in pieces of so many bytes, at multiples of a page.
PIECE, PAGE = 4 << 20, 4096
#: File systems that keep their files in memory.
_IN_MEMORY = ("tmpfs", "ramfs")


class Extents:
    """Places in a file: taken first fit, given back, and joined with what is free beside them."""

    def __init__(self) -> None:
        self.end = 0
        self._free: list[tuple[int, int]] = []  # (offset, size), by offset

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


class FilePlace:
    """Where some bytes are in a file, as long as this object lives."""

    def __init__(self, files: TensorFiles, offset: int, size: int) -> None:
        self.files = files
        self.offset = offset
        self.size = size

    def __del__(self) -> None:
        self.files.forget(self)


class TensorFiles:
    """The file of one cache. `written` and `read` are the bytes moved, `seconds` those in which stores were busy."""

    def __init__(self, folder: str | os.PathLike[str], threads: int = 2) -> None:
        self.folder = Path(folder)
        check_folder(self.folder)
        self._file, self.is_direct = _opened(self.folder)
        self._extents, self._lock = Extents(), threading.Lock()
        self._reserved = 0
        self._left: deque[tuple[int, int]] = deque()  # places that nobody has any more, of any thread
        self.written = self.read = 0
        self.seconds = 0.0
        self._queues: list[SimpleQueue[Any]] = [SimpleQueue(), SimpleQueue()]
        self._threads = [
            threading.Thread(target=_serve, args=(queue,), name="tiramisu: tensors and files", daemon=True)
            for queue in self._queues
            for _ in range(threads)
        ]
        for each in self._threads:
            each.start()

    def place(self, size: int) -> FilePlace:
        """A place for some bytes, which is reserved. Raises `ArgumentError` if the disk is full."""
        with self._lock:
            while self._left:
                self._extents.give_back(*self._left.popleft())
            offset = self._extents.take(size)
            end = self._extents.end
            try:
                if end > self._reserved:
                    os.posix_fallocate(self._file, self._reserved, end - self._reserved)
                    self._reserved = end
            except OSError as error:
                self._extents.give_back(offset, size)
                if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                    raise
                raise ArgumentError(
                    f"the folder {self.folder} has no room for {size} more bytes beside {self._reserved}: "
                    "give another folder, or keep more in memory (a larger least=)"
                ) from None
        return FilePlace(self, offset, size)

    def forget(self, place: FilePlace) -> None:
        """Let others have a place. It may be called at any moment, by the collector too: so nothing waits here."""
        self._left.append((place.offset, place.size))

    def store(self, place: FilePlace, source: Bytes, is_wanted: Callable[[], bool] = lambda: True) -> Future[bool]:
        """Write bytes to a place, in turn; the result says whether they were still wanted when it was their turn."""
        return self._ask(0, lambda: is_wanted() and self._write(place, source))

    def load(self, place: FilePlace, target: Bytes) -> Future[bool]:
        """Read the bytes of a place, in turn."""
        return self._ask(1, lambda: self._read(place, target))

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
        with suppress(AttributeError, OSError):
            os.close(self._file)

    def _ask(self, queue: int, work: Callable[[], bool]) -> Future[bool]:
        future: Future[bool] = Future()
        if self._threads:
            self._queues[queue].put((future, work))
        else:
            _answer(future, work)
        return future

    def _write(self, place: FilePlace, source: Bytes) -> bool:
        begin, buffer = perf_counter(), _buffer()
        for first in range(0, place.size, PIECE):
            count = min(PIECE, place.size - first)
            buffer[:count] = source[first : first + count]
            _all_of(os.pwrite, self._file, buffer.data[: whole_pages(count)], place.offset + first)
        with self._lock:
            self.written += place.size
            self.seconds += perf_counter() - begin
        return True

    def _read(self, place: FilePlace, target: Bytes) -> bool:
        buffer = _buffer()
        for first in range(0, place.size, PIECE):
            count = min(PIECE, place.size - first)
            _all_of(_read_into, self._file, buffer.data[: whole_pages(count)], place.offset + first)
            target[first : first + count] = buffer[:count]
        with self._lock:
            self.read += place.size
        return True


def check_folder(folder: Path) -> None:
    """Raise `ArgumentError` for a folder that is missing, that cannot be written to, or that is in memory."""
    if not folder.is_dir():
        raise ArgumentError(f"the folder {folder} does not exist: make it, or give one that does")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ArgumentError(f"the folder {folder} cannot be written to: give one that can")
    kind = _file_system(folder)
    if kind in _IN_MEMORY:
        raise ArgumentError(f"the folder {folder} is in memory ({kind}): files there save none; give one on a disk")


def _file_system(folder: Path) -> str:
    """The type of the file system of a folder, as the kernel lists it; "" where it lists none."""
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return ""
    device = folder.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    return next((line.partition(" - ")[2].split()[0] for line in lines if line.split()[2] == number), "")


def _opened(folder: Path) -> tuple[int, bool]:
    """An unnamed file in a folder, and whether it goes past the page cache."""
    for direct in (getattr(os, "O_DIRECT", 0), 0):
        try:
            return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC | direct, 0o600), bool(direct)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT):
                raise ArgumentError(f"no file can be made in the folder {folder}: {error.strerror}") from None
    number, name = tempfile.mkstemp(dir=folder)
    os.unlink(name)
    return number, False


def _read_into(file: int, target: memoryview, offset: int) -> int:
    return os.preadv(file, [target], offset)


def _all_of(move: Callable[[int, memoryview, int], int], file: int, data: memoryview, offset: int) -> None:
    """Move bytes, in several steps if the system moves fewer at once."""
    while data:
        count = move(file, data, offset)
        if count <= 0:
            raise OSError(errno.EIO, "the file is shorter than what was stored")
        data, offset = data[count:], offset + count


_OWN = threading.local()


def _buffer() -> Bytes:
    """This thread's buffer, aligned to pages."""
    if not hasattr(_OWN, "buffer"):
        _OWN.buffer = np.frombuffer(mmap.mmap(-1, PIECE), np.uint8)
    found: Bytes = _OWN.buffer
    return found


def _serve(queue: SimpleQueue[Any]) -> None:
    while (asked := queue.get()) is not None:
        _answer(*asked)
        del asked


def _answer(future: Future[bool], work: Callable[[], bool]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)

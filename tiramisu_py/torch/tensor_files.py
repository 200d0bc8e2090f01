"""Bytes of tensors in a file of a folder.

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
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

from tiramisu_py.errors import ArgumentError
from tiramisu_py.torch.tensor_stores import Bytes, StorePlace, TensorBytes, TensorStore, whole_pages

#: Files are read and written in pieces of so many bytes, at multiples of a page.
PIECE = 4 << 20
#: File systems that keep their files in memory.
_IN_MEMORY = ("tmpfs", "ramfs")


class TensorFiles(TensorStore):
    """The file of one cache."""

    def __init__(self, folder: str | os.PathLike[str], threads: int = 2) -> None:
        self.folder = Path(folder)
        check_folder(self.folder)
        self._file, self.is_direct = unnamed_file(self.folder)
        self._reserved = 0
        self.name = f"the folder {self.folder}"
        super().__init__(threads)

    @property
    def reserved(self) -> int:
        """The bytes of the file."""
        return self._reserved

    def fit(self) -> None:
        """Leave the file as it is: it grows in one piece."""

    def __del__(self) -> None:
        super().__del__()
        with suppress(AttributeError, OSError):
            os.close(self._file)

    def _reserve(self, end: int, size: int) -> None:
        if end > self._reserved:
            reserve(self._file, self.folder, self._reserved, end, size)
            self._reserved = end

    def _write(self, place: StorePlace, source: TensorBytes) -> None:
        buffer = _buffer()
        for first in range(0, place.size, PIECE):
            count = min(PIECE, place.size - first)
            source.get(first, buffer[:count])
            _all_of(os.pwrite, self._file, buffer.data[: whole_pages(count)], place.offset + first)

    def _read(self, place: StorePlace, target: TensorBytes) -> None:
        if target.pages is not None:
            _all_of(_read_into, self._file, target.pages.data, place.offset)
            return
        buffer = _buffer()
        for first in range(0, place.size, PIECE):
            count = min(PIECE, place.size - first)
            _all_of(_read_into, self._file, buffer.data[: whole_pages(count)], place.offset + first)
            target.put(first, buffer[:count])


def reserve(file: int, folder: Path, begin: int, end: int, size: int | None = None) -> None:
    """Reserve the bytes of a file from `begin` to `end`; raises `ArgumentError` if there is no room for `size` more."""
    try:
        os.posix_fallocate(file, begin, end - begin)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise ArgumentError(
            f"the folder {folder} has no room for {end - begin if size is None else size} more bytes beside {begin}: "
            "give another folder, or keep more in memory (a larger least=)"
        ) from None


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


def unnamed_file(folder: Path, direct: bool = True) -> tuple[int, bool]:
    """An unnamed file in a folder, and whether it goes past the page cache, as it does where `direct` can be."""
    for flag in (getattr(os, "O_DIRECT", 0), 0) if direct else (0,):
        try:
            return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC | flag, 0o600), bool(flag)
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

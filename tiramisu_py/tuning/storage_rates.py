"""The rates of a disk: bytes a second that it writes and reads, the bytes that it endures, its price."""

from __future__ import annotations

import mmap
import os
import tempfile
import time
from dataclasses import fields
from pathlib import Path

from tiramisu_py.errors import ArgumentError
from tiramisu_py.public_calls import own_class
from tiramisu_py.records import dataclass

#: Bytes that are written and read, and in pieces of so many.
MEASURED, PIECE = 2**26, 2**22
YEAR = 365 * 24 * 3600.0
_IN_MEMORY = ("tmpfs", "ramfs")


@own_class
@dataclass(frozen=True)
class Storage:
    """A disk: the bytes a second that it writes and reads, the bytes that it endures in all, and its price.

    ::

        tm.Storage(write=1e9, read=2e9)
        tm.Storage(write=3.5e9, read=6e9, endurance=65.4e15, price=2860)     # an SSD by its data sheet
        tm.Storage.here("/scratch")                                          # measured

    `endurance` are the bytes that may be written before it wears out (0: not known), `price` is in any currency.
    Raises `ArgumentError` for numbers that are no rates.
    """

    write: float
    read: float
    endurance: float = 0.0
    price: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
                raise ArgumentError(f"tm.Storage: {field.name} is {value!r}: give a number")
            if value == 0 and field.name in ("write", "read"):
                raise ArgumentError(f"tm.Storage: {field.name} is 0: give bytes a second, such as 1e9")

    @classmethod
    def here(cls, folder: str | os.PathLike[str], *, endurance: float = 0.0, price: float = 0.0) -> Storage:
        """The disk of a folder, as measured past the page cache: 64 MiB are written and read; nothing is left.

        ::

            machine = tm.Machine.here(storage=tm.Storage.here("/scratch"))

        Raises `ArgumentError` for a folder that is missing, that cannot be written, or that is in memory.
        """
        place = Path(folder)
        if not place.is_dir():
            raise ArgumentError(f"tm.Storage.here: there is no folder {place}: create it first")
        kind = _file_system(place)
        if kind in _IN_MEMORY:
            raise ArgumentError(f"tm.Storage.here: {place} is in memory ({kind}): choose a folder on a disk")
        try:
            write, read = _rates(place)
        except OSError as error:
            raise ArgumentError(f"tm.Storage.here: {place} cannot be measured: {error}") from error
        return cls(write, read, endurance, price)

    def years(self, written: float, seconds: float) -> float:
        """The years after which it has endured all its bytes, where `written` bytes are written each `seconds`."""
        if not self.endurance:
            raise ArgumentError("the endurance of the disk is not known: give tm.Storage(.., endurance=bytes)")
        return self.endurance / written * seconds / YEAR if written else float("inf")


def _file_system(folder: Path) -> str:
    """The kind of file system that a folder is in; "" where the system does not say."""
    path, best, kind = str(folder.resolve()), "", ""
    try:
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    for line in lines:
        _, at, found, *_ = line.split(" ")
        inside = at in ("/", path) or path.startswith(f"{at}/")
        if inside and len(at) >= len(best):
            best, kind = at, found
    return kind


def _rates(folder: Path) -> tuple[float, float]:
    """Bytes a second that are written to an unnamed file, and read again."""
    with tempfile.TemporaryFile(dir=folder) as plain, mmap.mmap(-1, PIECE) as buffer:
        buffer.write(os.urandom(PIECE))
        path = f"/proc/self/fd/{plain.fileno()}"
        try:
            file = os.open(path, os.O_RDWR | os.O_DIRECT)
        except OSError:  # this file system has no direct reads and writes
            file = os.open(path, os.O_RDWR)
        try:
            return _timed(file, buffer)
        finally:
            os.close(file)


def _timed(file: int, buffer: mmap.mmap) -> tuple[float, float]:
    start = time.perf_counter()
    for offset in range(0, MEASURED, PIECE):
        _whole(os.pwritev(file, [buffer], offset))
    os.fsync(file)
    written = time.perf_counter()
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    begin = time.perf_counter()
    for offset in range(0, MEASURED, PIECE):
        _whole(os.preadv(file, [buffer], offset))
    return MEASURED / (written - start), MEASURED / (time.perf_counter() - begin)


def _whole(moved: int) -> None:
    if moved != PIECE:
        raise OSError(f"only {moved} of {PIECE} bytes were moved")

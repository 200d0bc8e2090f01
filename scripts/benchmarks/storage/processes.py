"""What a process is measured by: the most memory that it adds, and the bytes that it hands to disks."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

#: glibc then gives back what is freed, so that the memory of a process is what it uses.
ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


def kilobytes(what: str) -> int:
    """A number of /proc/self/status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{what}:")).split()[1])


def written() -> int:
    """The bytes that this process has handed to disks."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("write_bytes:")).split()[1])


class Peak:
    """The most bytes that a process has added to its memory in a `with`."""

    def __enter__(self) -> Peak:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
        self.before = kilobytes("VmRSS")
        self.bytes = 0
        return self

    def __exit__(self, *_: object) -> None:
        self.bytes = (kilobytes("VmHWM") - self.before) << 10


def seconds_of(call: Callable[[], object]) -> float:
    """How long one call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def rate(folder: str, size: int = 1 << 26) -> float:
    """The bytes a second that a disk writes, past the page cache, in pieces of a megabyte."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        to = os.open(file.name, os.O_WRONLY | os.O_DIRECT)
        try:
            with aligned(1 << 20) as piece:
                began = time.perf_counter()
                for at in range(0, size, len(piece)):
                    os.pwrite(to, piece, at)
                return size / (time.perf_counter() - began)
        finally:
            os.close(to)


@contextmanager
def aligned(size: int) -> Iterator[memoryview]:
    """Bytes at a page."""
    with mmap.mmap(-1, size) as held:
        view = memoryview(held)
        try:
            yield view
        finally:
            view.release()

"""Arrays that processes share in files, and private arrays on huge pages."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.one_processor import alignments

HUGE, LINE = 2**21, 64
Array = np.ndarray[Any, np.dtype[Any]]
Shapes = Mapping[str, tuple[tuple[int, ...], Any]]


def folder() -> tempfile.TemporaryDirectory[str]:
    """A folder in memory for the arrays' files, or on disk if there is none."""
    memory = "/dev/shm"
    return tempfile.TemporaryDirectory(prefix="arrays-", dir=memory if os.access(memory, os.W_OK) else None)


def beside(place: Path, alignment: int | None = None) -> Path:
    """The folder in another for the results of this process, or of all whose arrays are aligned so."""
    made = place / str(alignment or alignments()[0])
    made.mkdir(exist_ok=True)
    return made


def mapped(file: Path, shape: tuple[int, ...], dtype: Any) -> Array:
    """The array in a file; the file is made if it does not exist."""
    count = int(np.prod(shape))
    size = max(1, count * np.dtype(dtype).itemsize)
    handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if os.fstat(handle).st_size < size:
            os.ftruncate(handle, size)
        pages = mmap.mmap(handle, size)
    finally:
        os.close(handle)
    return np.frombuffer(pages, dtype=dtype, count=count).reshape(shape)


def all_mapped(place: Path, shapes: Shapes) -> dict[str, Array]:
    """Arrays by name, each in a file of its own."""
    return {name: mapped(place / name, shape, dtype) for name, (shape, dtype) in shapes.items()}


def own(array: Array, number: int = 0) -> Array:
    """A private copy that is aligned as the benchmark asks, on huge pages if the system provides them.

    Arrays with different numbers start at different offsets in their pages, unless they are aligned to pages.
    """
    alignment = alignments()[0]
    start = alignment * number if alignment > LINE else LINE * 17 * number + alignment % LINE
    size = -(-(array.nbytes + start + 1) // HUGE) * HUGE
    pages = mmap.mmap(-1, size + HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        pages.madvise(mmap.MADV_HUGEPAGE)
    every = np.frombuffer(pages, dtype=np.uint8)
    first = -every.ctypes.data % HUGE + start
    copy = every[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy

"""Shared libraries: loaded, and unloaded when no longer referenced, since a process may compile thousands."""

from __future__ import annotations

import ctypes
import os
import weakref
from pathlib import Path

_OPENMP = "omp_get_max_threads"


class _Place(ctypes.Structure):
    """`Dl_info` of the C library."""

    _fields_ = (
        ("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("symbol", ctypes.c_char_p), ("address", ctypes.c_void_p),
    )  # fmt: skip


def loaded_library(path: Path, unloaded: bool) -> ctypes.CDLL:
    """The library; if `unloaded`, only as long as it or one of its functions is referenced. Raises `OSError`."""
    library = ctypes.CDLL(str(path))
    if unloaded and _keeps_openmp(library):
        weakref.finalize(library, _closed, library._handle).atexit = False
    return library


def _closed(handle: int) -> None:
    close = ctypes.CDLL(None).dlclose
    close.argtypes, close.restype = [ctypes.c_void_p], ctypes.c_int
    close(handle)


def _keeps_openmp(library: ctypes.CDLL) -> bool:
    """Whether the OpenMP of a library, if any, stays loaded without it: its threads still run OpenMP's code."""
    own = ctypes.CDLL(None)
    if not (hasattr(own, "dladdr") and hasattr(own, "dlclose") and hasattr(os, "RTLD_NODELETE")):
        return False
    if not hasattr(library, _OPENMP):
        return True
    place = _Place()
    if not own.dladdr(ctypes.cast(library[_OPENMP], ctypes.c_void_p), ctypes.byref(place)) or not place.file:
        return False
    try:
        ctypes.CDLL(os.fsdecode(place.file), mode=os.RTLD_NODELETE | os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return False
    return True

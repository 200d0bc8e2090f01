"""First touch: new arrays whose pages are first written by the threads that will use them."""

from __future__ import annotations

import ctypes
import math
import mmap
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tiramisu_py.errors import ArgumentError
from tiramisu_py.program.machine.pins import Pin
from tiramisu_py.records import dataclass
from tiramisu_py.toolchain.compilers.c_compiler import Toolchain
from tiramisu_py.toolchain.compilers.cache import Cache, build_key
from tiramisu_py.toolchain.compilers.flags import STRICT

_SOURCE = "tm_first_touch.c"
_HEADERS = ("tm_numa.h", "tm_threads.h", "tm_runtime.h")
_LIBRARY = "libtm_first_touch.so"
_FLAGS = (*STRICT, "-O2", "-w")
_LIBRARIES = ("-lm",)
_POLICIES = ("close", "spread", "node", "list")  # in the order of TM_PIN_... of tm_threads.h
_ROOM = 256


class _Pinning(ctypes.Structure):
    """`tm_pinning` of tm_threads.h."""

    _fields_ = (
        ("policy", ctypes.c_int), ("node", ctypes.c_int), ("turn", ctypes.c_int), ("turns", ctypes.c_int),
        ("cpus", ctypes.POINTER(ctypes.c_int)), ("count", ctypes.c_int),
    )  # fmt: skip


@dataclass(frozen=True)
class Turn:
    """The number of a rank among the ranks of its machine, and their total number."""

    number: int = 0
    ranks: int = 1


@dataclass(frozen=True)
class FirstTouch:
    """The library behind `Kernel.empty`, over the OpenMP of one compiler."""

    loaded: ctypes.CDLL

    def empty(
        self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], pin: Pin | None, turn: Turn
    ) -> npt.NDArray[Any]:
        """An array of zeros in its own pages, which are freed with it. Its first dimension is distributed over the
        OpenMP threads in blocks, and each thread is the first to write the pages of its block. `name` is for errors.
        """
        size = math.prod(shape) * dtype.itemsize
        if size == 0:
            return np.zeros(shape, dtype)
        array: npt.NDArray[Any] = np.ndarray(shape, dtype, buffer=mmap.mmap(-1, size))
        words = ctypes.create_string_buffer(_ROOM)
        rows = shape[0] if shape else 1
        touch = self.loaded.tm_first_touch
        touch.argtypes = [
            ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_bool, ctypes.POINTER(_Pinning),
            ctypes.c_char_p, ctypes.c_size_t,
        ]  # fmt: skip
        how = _pinning(pin or Pin("close"), turn)
        if touch(array.ctypes.data, rows, size // rows, pin is not None, ctypes.byref(how), words, _ROOM):
            raise ArgumentError(f"{name}: {words.value.decode()}")
        return array

    def cpus(self, pin: Pin, threads: int, turn: Turn) -> tuple[int, ...] | str:
        """The cpus to which a number of threads would be pinned, or the reason why they cannot be."""
        found, words = (ctypes.c_int * threads)(), ctypes.create_string_buffer(_ROOM)
        asked = self.loaded.tm_threads_cpus
        asked.argtypes = [
            ctypes.POINTER(_Pinning), ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.c_char_p, ctypes.c_size_t,
        ]  # fmt: skip
        if asked(ctypes.byref(_pinning(pin, turn)), threads, found, words, _ROOM):
            return words.value.decode()
        return tuple(found)

    def policy_fault(self) -> int:
        """The error number with which the system refuses memory policies; 0 if it accepts them."""
        return int(self.loaded.tm_policy_fault())


def _pinning(pin: Pin, turn: Turn) -> _Pinning:
    cpus = (ctypes.c_int * len(pin.cpus))(*pin.cpus)
    node = -1 if pin.node is None else pin.node
    policy = _POLICIES.index(pin.policy)
    return _Pinning(policy, node, turn.number, turn.ranks, ctypes.cast(cpus, ctypes.POINTER(ctypes.c_int)), len(cpus))


def first_touch(cache: Cache, toolchain: Toolchain) -> FirstTouch:
    """The library, from the cache or compiled with the compiler of the kernels, whose OpenMP it must share. Raises
    `ToolchainError`.
    """
    folder = resources.files("tiramisu_py.backends.c")
    texts = {name: folder.joinpath(name).read_text(encoding="utf-8") for name in (_SOURCE, *_HEADERS)}
    flags = (*_FLAGS, *toolchain.openmp)

    def build(into: Path) -> list[Path]:
        for name, text in texts.items():
            (into / name).write_text(text, encoding="utf-8")
        toolchain.run([*flags, "-shared", _SOURCE, "-o", _LIBRARY, *_LIBRARIES], into)
        return []

    path = cache.entry(build_key("first touch", texts, toolchain.identity, [*flags, *_LIBRARIES]), build)
    return FirstTouch(ctypes.CDLL(str(path / _LIBRARY)))

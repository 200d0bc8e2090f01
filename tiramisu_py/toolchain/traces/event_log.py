"""The event log of a thread's last call, read from a library's memory (tm_trace.h)."""

from __future__ import annotations

import ctypes
from functools import cached_property
from threading import local
from typing import Any

import numpy as np

from tiramisu_py.errors import ArgumentError
from tiramisu_py.records import dataclass
from tiramisu_py.toolchain.traces.trace import KINDS, Trace, TraceEvent, in_order
from tiramisu_py.toolchain.traces.traffic import CallTraffic

_NANOSECONDS = 1e-9


class _CEvent(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_void_p),
        *((member, ctypes.c_int64) for member in ("begin", "end", "bytes")),
        *((member, ctypes.c_int32) for member in ("kind", "device", "stream", "peer", "tag", "unused")),
    ]


class _CLog(ctypes.Structure):
    _fields_ = [
        ("events", ctypes.c_void_p),
        *((member, ctypes.c_int64) for member in ("count", "room", "dropped", "begun")),
        *((member, ctypes.c_int32) for member in ("rank", "no_memory")),
        ("open", _CEvent),
    ]


_EVENT = np.dtype(
    [
        ("name", np.uint64),
        *((member, np.int64) for member in ("begin", "end", "bytes")),
        *((member, np.int32) for member in ("kind", "device", "stream", "peer", "tag", "unused")),
    ]
)


@dataclass(frozen=True)
class LastCall:
    """The log of a call, copied from C, and converted to a trace on demand."""

    function: str
    copied: bytes = b""
    rank: int = 0
    begun: int = 0
    dropped: int = 0
    lacked_memory: bool = False
    traffic: CallTraffic = CallTraffic((), 0, {})

    @cached_property
    def trace(self) -> Trace:
        """The events in order."""
        table = np.frombuffer(self.copied, dtype=_EVENT)
        start = int(table["begin"].min()) if len(table) else self.begun
        names = {int(p): ctypes.string_at(int(p)).decode(errors="replace") for p in np.unique(table["name"])}
        events = in_order(self._event(row, names, start) for row in table.tolist())
        return Trace(self.function, events, self.dropped, self.lacked_memory, start, self.begun)

    def _event(self, row: tuple[int, ...], names: dict[int, str], start: int) -> TraceEvent:
        name, begin, end, size, kind, *numbers, _ = row
        device, stream, peer, tag = (number if number >= 0 else None for number in numbers)
        began, ended = ((time - start) * _NANOSECONDS for time in (begin, end))
        moved = size if size >= 0 else None
        return TraceEvent(names[name], KINDS[kind], began, ended, self.rank, device, stream, moved, peer, tag)


class LastCalls:
    """The last call of each thread."""

    def __init__(self) -> None:
        self._here = local()

    def remember(self, call: LastCall | None) -> None:
        """Stores the last call of this thread; None if it did not succeed."""
        self._here.call = call

    def traffic(self, name: str, what: str = "traffic") -> CallTraffic:
        """The traffic of this thread's last call; raises `ArgumentError`, if there is none."""
        return self._last(name, what).traffic

    def trace(self, name: str) -> Trace:
        """The trace of this thread's last call. Raises `ArgumentError` if there is none."""
        return self._last(name, "trace").trace

    def _last(self, name: str, what: str) -> LastCall:
        call: LastCall | None = getattr(self._here, "call", None)
        if call is None:
            raise ArgumentError(f"{name} has no {what}: it has not been called in this thread, or its last call failed")
        return call


def read_log(library: ctypes.CDLL, name: str) -> LastCall:
    """The log of the last call of this thread, whose memory in C is freed."""
    read: Any = library[f"{name}_trace"]
    read.restype = ctypes.POINTER(_CLog)
    free: Any = library[f"{name}_trace_free"]
    free.restype = None
    log = read().contents
    copied = ctypes.string_at(log.events, log.count * ctypes.sizeof(_CEvent)) if log.count else b""
    call = LastCall(name, copied, log.rank, log.begun, log.dropped, bool(log.no_memory))
    free()
    return call

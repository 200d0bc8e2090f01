"""The events of one call of a compiled function: to be queried, printed, drawn and saved."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from tiramisu_py.errors import ArgumentError
from tiramisu_py.ir.log import DEVICE_KINDS, FILE_KINDS, HOST_KINDS
from tiramisu_py.records import dataclass
from tiramisu_py.toolchain.traces.timeline import timeline

#: Kinds of events, by their numbers in tm_trace.h.
KINDS = (*HOST_KINDS, *DEVICE_KINDS, *FILE_KINDS)
#: The maximum number of events of a call (TM_TRACE_MOST).
MOST = 1 << 20
_NANOSECONDS = 1e-9
#: The first column of the table with numbers.
_NUMBERS = 4


@dataclass(frozen=True)
class TraceEvent:
    """Something that was done, from second `begin` to second `end` of the trace.

    Of `kind` the host does a "nest" (loops that compute), a "launch" or a "copy" (the call that starts a kernel or a
    copy; if that is not asynchronous, until its end), a "wait" (for a GPU, or for messages), a "send", a "receive", a
    "collective"; a device does a "kernel", an "upload", a "download", a "transfer" (between devices), on a `stream`;
    a thread of its own does a "store" to a file, or a "load".
    `name` is that of the statements. `bytes` are those that are moved, where that is known; a message has a `peer`.
    """

    name: str
    kind: str
    begin: float
    end: float
    rank: int = 0
    device: int | None = None
    stream: int | None = None
    bytes: int | None = None
    peer: int | None = None
    tag: int | None = None

    @property
    def seconds(self) -> float:
        """Its duration."""
        return self.end - self.begin

    @property
    def on_host(self) -> bool:
        """Whether it is an event of the host."""
        return self.kind in HOST_KINDS

    @property
    def place(self) -> str:
        """The place of the event, in words: "host", "GPU 0, stream 1", or "files, store"."""
        if self.on_host:
            return "host"
        if self.kind in FILE_KINDS:
            return f"files, {self.kind}"
        return f"GPU {self.device}, stream {self.stream}" if self.stream != -1 else f"GPU {self.device}"


@dataclass(frozen=True)
class Trace:
    """The events of one call, in the order in which they began; seconds count from the first.

    ``print(trace)`` is a table; `dropped` is the number of events left out for lack of space or memory.
    """

    function: str
    events: tuple[TraceEvent, ...]
    dropped: int = 0
    lacked_memory: bool = False
    #: Of this process: second 0, and when the ranks had all begun, on the machine's clock (in nanoseconds).
    start: int = field(default=0, repr=False, compare=False)
    begun: int = field(default=0, repr=False, compare=False)

    @property
    def seconds(self) -> float:
        """The seconds from the begin of the first event to the end of the last."""
        return max((event.end for event in self.events), default=0.0)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that have events."""
        return tuple(sorted({event.rank for event in self.events}))

    def of(
        self, kind: str | None = None, name: str | None = None, rank: int | None = None, device: int | None = None
    ) -> tuple[TraceEvent, ...]:
        """The events with a given kind, name, rank and device; criteria that are not given do not count.

        Raises `ArgumentError` for an unknown kind.
        """
        if kind is not None and kind not in KINDS:
            raise ArgumentError(f"kind={kind!r} is no kind of event; there are {', '.join(KINDS)}")
        wanted = {"kind": kind, "name": name, "rank": rank, "device": device}
        return tuple(
            event for event in self.events
            if all(value is None or getattr(event, key) == value for key, value in wanted.items())
        )  # fmt: skip

    def overlap(self, a: str | Sequence[TraceEvent], b: str | Sequence[TraceEvent]) -> float:
        """The seconds in which events of both `a` and `b` run; each is a kind, a name, or a sequence of events.

        ``trace.overlap("kernel", "nest")`` is how long GPUs and cores computed at once.
        """
        first, second = _union(self._chosen(a)), _union(self._chosen(b))
        common, m, n = 0.0, 0, 0
        while m < len(first) and n < len(second):
            (begin, end), (other_begin, other_end) = first[m], second[n]
            common += max(0.0, min(end, other_end) - max(begin, other_begin))
            m, n = (m + 1, n) if end < other_end else (m, n + 1)
        return common

    def busy(self, events: str | Sequence[TraceEvent]) -> float:
        """The seconds in which at least one of the events runs, given by a kind, a name, or themselves."""
        return sum(end - begin for begin, end in _union(self._chosen(events)))

    def _chosen(self, events: str | Sequence[TraceEvent]) -> Sequence[TraceEvent]:
        if not isinstance(events, str):
            return events
        return self.of(kind=events) if events in KINDS else self.of(name=events)

    def gathered(self, comm: Any) -> Trace:
        """The events of all ranks of an mpi4py communicator in one trace, on every rank; collective.

        Ranks of one machine share a clock; those of different machines count from the moment when all had begun.
        """
        machine = _machine()
        everything = comm.allgather((self, machine, self.start, self.begun))
        first = {m: min(begun for _, n, _, begun in everything if n == m) for _, m, _, _ in everything}
        moved = [(trace, start - first[m]) for trace, m, start, _ in everything]
        origin = min((offset for trace, offset in moved if trace.events), default=0)
        events = [
            replace(e, begin=e.begin + shift, end=e.end + shift)
            for trace, offset in moved for shift in ((offset - origin) * _NANOSECONDS,) for e in trace.events
        ]  # fmt: skip
        dropped = sum(trace.dropped for trace, *_ in everything)
        lacking = any(trace.lacked_memory for trace, *_ in everything)
        return Trace(self.function, in_order(events), dropped, lacking, origin + first[machine], first[machine])

    def save(self, path: str | Path) -> Path:
        """Writes a file in Chrome's trace format, which https://ui.perfetto.dev shows: one process for each rank, with
        one thread for its host and one for each stream. Returns the path.
        """
        Path(path).write_text(json.dumps(self._chrome(), indent=1), encoding="utf-8")
        return Path(path)

    def picture(self, width: int = 960) -> str:
        """The timeline as a picture: the text of an SVG, `width` pixels wide, with a row for each host and stream."""
        return timeline(self, width)

    def _chrome(self) -> dict[str, Any]:
        rows = self.rows()
        numbers = {row: n for n, row in enumerate(rows)}
        named = [_metadata("process_name", rank, 0, f"{self.function}, rank {rank}") for rank in self.ranks]
        named += [_metadata("thread_name", rank, numbers[rank, place], place) for rank, place in rows]
        events = [
            {"ph": "X", "name": event.name, "cat": event.kind, "pid": event.rank,
             "tid": numbers[event.rank, event.place], "ts": event.begin * 1e6, "dur": event.seconds * 1e6,
             "args": _arguments(event)}
            for event in self.events
        ]  # fmt: skip
        return {"displayTimeUnit": "ms", "otherData": {"dropped": self.dropped}, "traceEvents": [*named, *events]}

    def rows(self) -> Mapping[tuple[int, str], tuple[TraceEvent, ...]]:
        """The events by rank and place: for each rank the host first, then its streams."""
        found: dict[tuple[int, str], list[TraceEvent]] = {}
        for event in self.events:
            found.setdefault((event.rank, event.place), []).append(event)
        return {key: tuple(found[key]) for key in sorted(found, key=lambda key: _order(found[key][0]))}

    def __str__(self) -> str:
        groups: dict[tuple[Any, ...], list[TraceEvent]] = {}
        for event in self.events:
            groups.setdefault((event.rank, event.place, event.kind, event.name), []).append(event)
        table = [("rank", "where", "kind", "name", "count", "ms", "bytes")] + [
            (*map(str, key), str(len(some)), f"{sum(e.seconds for e in some) * 1e3:.3f}", _total(some))
            for key, some in sorted(groups.items(), key=lambda item: (_order(item[1][0]), item[1][0].begin))
        ]
        shown = range(0 if len(self.ranks) > 1 else 1, len(table[0]))
        widths = [max(len(row[n]) for row in table) for n in range(len(table[0]))]
        lines = [f"{self.function}: {len(self.events)} events in {self.seconds * 1e3:.3f} ms{self._lacking()}"]
        for row in table if self.events else ():
            cells = [row[n].rjust(widths[n]) if n >= _NUMBERS else row[n].ljust(widths[n]) for n in shown]
            lines.append("  ".join(cells).rstrip())
        return "\n".join(lines)

    def _lacking(self) -> str:
        why = "there was no memory for them" if self.lacked_memory else f"more than {MOST}"
        return f", and {self.dropped} that were dropped ({why})" if self.dropped else ""


def _order(event: TraceEvent) -> tuple[int, int, int]:
    """The sort key of an event's row: the host, devices, files."""
    if event.kind in FILE_KINDS:
        return (event.rank, 1 << 30, FILE_KINDS.index(event.kind))
    return (event.rank, -1, 0) if event.on_host else (event.rank, event.device or 0, event.stream or 0)


def _total(events: Iterable[TraceEvent]) -> str:
    known = [event.bytes for event in events if event.bytes is not None]
    return str(sum(known)) if known else ""


def _metadata(name: str, pid: int, tid: int, text: str) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "args": {"name": text}}


def _arguments(event: TraceEvent) -> dict[str, Any]:
    known = {key: getattr(event, key) for key in ("kind", "device", "stream", "bytes", "peer", "tag")}
    return {key: value for key, value in known.items() if value is not None}


def _union(events: Iterable[TraceEvent]) -> list[tuple[float, float]]:
    """The disjoint intervals in which at least one of the events runs, in order."""
    found: list[tuple[float, float]] = []
    for begin, end in sorted((event.begin, event.end) for event in events):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found


def in_order(events: Iterable[TraceEvent]) -> tuple[TraceEvent, ...]:
    """The events in the order of a trace."""
    return tuple(sorted(events, key=lambda event: (event.begin, event.end)))


def _machine() -> str:
    """The identity of this machine; processes with the same one share a clock."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return platform.node()

"""Times of a kernel's calls, beside what the machine can do."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

from tiramisu_py.algorithm.declarations import Algorithm
from tiramisu_py.counting.work import Counter
from tiramisu_py.errors import ArgumentError
from tiramisu_py.program.initial import initial_program
from tiramisu_py.records import dataclass
from tiramisu_py.styles import as_html, for_prompt
from tiramisu_py.view.roofline import Rates

#: Calls are repeated for so many seconds, but not more often than this.
SECONDS, MOST_CALLS = 0.5, 10_000
#: The style of the line with the times.
_STYLES = {r"\S+: minimum": "advice"}


@dataclass(frozen=True, repr=False)
class Timing:
    """The times of some calls in seconds, and the work of one call.

    `bytes` are those of the arguments: each input read once and each output written once, the least that a call can
    move. `operations` are those of the algorithm: the operators and functions of each value, without those of indices.
    A schedule may move and compute more. `machine` has the rates to compare with, if any.
    """

    name: str
    times: tuple[float, ...]
    bytes: int
    operations: int
    machine: Rates | None = None

    @property
    def minimum(self) -> float:
        """The seconds of the fastest call."""
        return min(self.times)

    @property
    def median(self) -> float:
        """The seconds of the call in the middle."""
        return statistics.median(self.times)

    @property
    def bytes_per_second(self) -> float:
        """Bytes a second in the fastest call."""
        return self.bytes / self.minimum

    @property
    def operations_per_second(self) -> float:
        """Operations a second in the fastest call."""
        return self.operations / self.minimum

    def as_dict(self) -> dict[str, Any]:
        """The figures as plain data."""
        return {
            "name": self.name, "calls": len(self.times), "minimum": self.minimum, "median": self.median,
            "bytes": self.bytes, "operations": self.operations, "bytes_per_second": self.bytes_per_second,
            "operations_per_second": self.operations_per_second,
        }  # fmt: skip

    def __str__(self) -> str:
        calls = "1 call" if len(self.times) == 1 else f"{len(self.times)} calls"
        lines = [f"{self.name}: minimum {in_seconds(self.minimum)}, median {in_seconds(self.median)} of {calls}"]
        copied = 0.0 if self.machine is None else self.machine.host_bandwidth
        computed = 0.0 if self.machine is None else self.machine.core_flops * self.machine.cores
        lines.append(_rate(self.bytes, "bytes", self.minimum, "B/s", copied, "copy in memory"))
        lines.append(_rate(self.operations, "operations", self.minimum, "op/s", computed, "multiply-adds"))
        return "\n".join(lines)

    def __repr__(self) -> str:
        """At a prompt: the text, in colours if the terminal takes them."""
        return for_prompt(str(self), _STYLES)

    def _repr_html_(self) -> str:
        """In a notebook: the text."""
        return as_html(str(self), _STYLES)


def _rate(amount: int, words: str, seconds: float, unit: str, limit: float, what: str) -> str:
    rate = amount / seconds
    beside = f", {rate / limit:.0%} of this machine's {what} ({scaled(limit)}{unit})" if limit else ""
    cached = "; arrays are in the caches" if limit and rate > limit else ""
    return f"  {scaled(amount)}{words}: {scaled(rate)}{unit}{beside}{cached}"


def in_seconds(seconds: float) -> str:
    """A time in the unit that suits it: ``12.3 us``."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def scaled(amount: float) -> str:
    """An amount with a decimal prefix: ``1.92 M``; a unit follows."""
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if amount >= size:
            return f"{amount / size:.3g} {prefix}"
    return f"{amount:.3g} "


def measured(run: Callable[[], object], calls: object, seconds: object, comm: Any = None) -> tuple[float, ...]:
    """The times of some calls after one to warm up: `calls` of them, or as many as fit into `seconds`.

    The ranks of `comm` begin each call together, and its time is that of the slowest one. Raises `ArgumentError`.
    """
    if calls is not None and (isinstance(calls, bool) or not isinstance(calls, int) or calls < 1):
        raise ArgumentError(f"calls={calls!r}: give the number of calls, at least 1")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
        raise ArgumentError(f"seconds={seconds!r}: give a time in seconds, above 0")
    first = _timed(run, comm)
    number = calls or max(3, min(MOST_CALLS, int(seconds / max(first, 1e-9))))
    return tuple(_timed(run, comm) for _ in range(number))


def _timed(run: Callable[[], object], comm: Any) -> float:
    if comm is not None:
        comm.barrier()
    start = time.perf_counter()
    run()
    own = time.perf_counter() - start
    return own if comm is None else max(comm.allgather(own))


def operations_of(algorithm: Algorithm, params: Mapping[str, int]) -> int:
    """The number of operations of an algorithm at given sizes, counted exactly by isl."""
    program = initial_program(algorithm)
    return Counter(program).work(tuple(program.statements), params).operations

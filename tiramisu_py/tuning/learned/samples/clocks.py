"""Seconds of a candidate at some sizes: measured by the stopwatch of `tune`, or said by a function of the caller's."""

from __future__ import annotations

import hashlib
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tiramisu_py import Function, Kernel
from tiramisu_py.errors import ArgumentError, KernelError, ToolchainError, UnsupportedError
from tiramisu_py.queries import (
    SMALL,
    Algorithm,
    Cache,
    Counter,
    Emission,
    Room,
    compiler_description,
    device_of,
    digest,
    emission,
    machine_description,
    shape_value,
    text_key,
)
from tiramisu_py.queries import drawn_arguments as arguments
from tiramisu_py.tuning.learned.samples.candidates import JudgedPoint, named
from tiramisu_py.tuning.learned.samples.ranges import Ranges, Sizes
from tiramisu_py.tuning.learned.samples.sample_store import Sampled, SampleStore
from tiramisu_py.tuning.learned.samples.timing_process import TimingProcess, answer
from tiramisu_py.tuning.search.bench import Workbench
from tiramisu_py.tuning.search.reference import Reference
from tiramisu_py.tuning.search.stopwatch import Rivals, Stopwatch
from tiramisu_py.tuning.search.workload import Case

#: The instances of the sizes at which values are checked.
CHECKED = 2**16

Timer = Callable[[Mapping[str, Any], Mapping[str, int]], float]


class SampleClock(Protocol):
    """A source of times, and what they hold for."""

    @property
    def machine(self) -> Any:
        """The machine, as plain data."""

    @property
    def compiler(self) -> Any:
        """The compiler and its options, as plain data."""

    @property
    def measures(self) -> bool:
        """Whether kernels are compiled and run."""

    @property
    def compiled(self) -> int:
        """The number of kernels that were compiled, or found in the cache."""

    def text(self, candidate: JudgedPoint, store: SampleStore) -> str:
        """The key of what is timed."""

    def known_text(self, program: str, store: SampleStore) -> str | None:
        """The key of what is timed of a program, by its key; None if it has to be emitted first."""

    def prepare(self, some: Sequence[JudgedPoint], store: SampleStore, workers: int) -> None:
        """Compiles candidates side by side, and checks their values."""

    def time(self, candidate: JudgedPoint, text: str, sizes: Sizes) -> Sampled:
        """The time of a prepared candidate."""


class PretendedClock:
    """A function of point and sizes in place of the clock, and its name in place of the machine: nothing is compiled.

    Samples are kept by algorithm and commands, since no text is emitted.
    """

    measures, compiled = False, 0
    compiler: Any = None

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        module, name = getattr(timer, "__module__", ""), getattr(timer, "__qualname__", repr(type(timer)))
        self.machine: Any = {"timer": f"{module}.{name}"}

    def text(self, candidate: JudgedPoint, store: SampleStore) -> str:
        return candidate.program

    def known_text(self, program: str, store: SampleStore) -> str | None:
        return program

    def prepare(self, some: Sequence[JudgedPoint], store: SampleStore, workers: int) -> None:
        pass

    def time(self, candidate: JudgedPoint, text: str, sizes: Sizes) -> Sampled:
        found = self._timer(dict(candidate.point), dict(sizes))
        if isinstance(found, bool) or not isinstance(found, int | float | np.number) or not 0 < found < math.inf:
            raise ArgumentError(
                f"timer returned {found!r} for {named(candidate.point)} at {named(sizes)}: let it return seconds, "
                "above 0"
            )
        return Sampled(float(found))


class KernelClock:
    """The clock itself: kernels are compiled once, their values checked at small sizes, and their calls timed."""

    measures = True

    def __init__(self, f: Function, cache: Cache, options: Mapping[str, Any], repeats: int) -> None:
        self.machine = machine_description(device_of(f.program, options))
        self.compiler = compiler_description(cache, options)
        self.kernels: dict[str, Kernel] = {}
        self.compiled = 0
        self._algorithm, self._options = f.algorithm, options
        self._emitter = digest([package_key(), self.compiler])
        self._emissions: dict[str, Emission] = {}
        self._repeats = repeats
        self._process: TimingProcess | None = None
        self._failed: dict[str, str] = {}
        #: The ranges of sizes, in whose middle values are checked.
        self.ranges: Ranges = {}
        self._checks: Workbench | None = None

    def known_text(self, program: str, store: SampleStore) -> str | None:
        return store.text(program, self._emitter)

    def text(self, candidate: JudgedPoint, store: SampleStore) -> str:
        """The key of the emitted text: known, if this version of the package has emitted the program before."""
        known = self.known_text(candidate.program, store)
        if known is not None:
            return known
        assert candidate.function is not None
        try:
            emitted = emission(candidate.function, **self._options)
        except FAILURES as error:
            key = digest(["none", candidate.program])
            self._failed[key] = str(error)
            return key
        key = text_key(emitted.sources)
        self._emissions[key] = emitted
        store.keep_text(candidate.program, self._emitter, key)
        return key

    def prepare(self, some: Sequence[JudgedPoint], store: SampleStore, workers: int) -> None:
        wanted: dict[str, JudgedPoint] = {}
        for each in some:
            key = self.text(each, store)
            if key not in self.kernels and key not in self._failed:
                wanted.setdefault(key, each)
        for key, each in wanted.items():
            if key not in self._emissions:
                assert each.function is not None
                self._emissions[key] = emission(each.function, **self._options)
        with ThreadPoolExecutor(workers, thread_name_prefix="tune") as pool:
            built = list(pool.map(self._built, wanted))
        for (key, each), kernel in zip(wanted.items(), built, strict=True):
            self._emissions.pop(key, None)
            self.compiled += 1
            if isinstance(kernel, str):
                self._failed[key] = kernel
                continue
            try:
                self._workbench().calls(kernel, f"{kernel.name} with {named(each.point)}")
                self.kernels[key] = kernel
            except FAILURES as error:
                self._failed[key] = str(error) or type(error).__name__

    def time(self, candidate: JudgedPoint, text: str, sizes: Sizes) -> Sampled:
        if text in self._failed:
            return Sampled(None, reason=self._failed[text])
        kernel = self.kernels[text]
        if self._process is not None and kernel.gpu is None:
            return self._process.time(text, kernel, sizes)
        try:
            return timed_at(kernel, sizes, self._repeats)
        except FAILURES as error:
            return Sampled(None, reason=str(error) or type(error).__name__)

    def timed(self, kernel: Kernel, sizes: Sizes, inputs: Mapping[str, Any]) -> Sampled:
        """The time of a kernel's calls with given inputs, in this process."""
        try:
            return timed(kernel, sizes, inputs, self._repeats)
        except FAILURES as error:
            return Sampled(None, reason=str(error) or type(error).__name__)

    @contextmanager
    def limited(self, seconds: float | None) -> Iterator[None]:
        """A context in which a process of its own times kernels, so many seconds a sample; None: this one does."""
        if seconds is None:
            yield
            return
        self._process = TimingProcess(seconds, self._repeats)
        try:
            yield
        finally:
            self._process.close()
            self._process = None

    def failure(self, candidate: JudgedPoint, store: SampleStore) -> str:
        """Why a candidate cannot be used; empty if it can."""
        return self._failed.get(self.text(candidate, store), "")

    def _built(self, key: str) -> Kernel | str:
        try:
            return self._emissions[key]()
        except FAILURES as error:
            return str(error) or type(error).__name__

    def _workbench(self) -> Workbench:
        """The cases at which the values of each kernel are checked."""
        if self._checks is None:
            cases = [
                Case(self._algorithm, sizes, arguments(self._algorithm, {}, sizes, seed))
                for seed, sizes in enumerate(checking_sizes(self._algorithm, self.ranges))
            ]
            self._checks = Workbench(cases, Reference(True, cases, self._options))
        return self._checks


def checking_sizes(algorithm: Algorithm, ranges: Ranges) -> list[dict[str, int]]:
    """Two combinations of odd sizes, as far as the assumptions allow, for a few instances and for some ten thousand:
    the second one is like the middle of the ranges, made smaller.
    """
    program = Function.of(algorithm).program
    counter, room = Counter(program), Room(program, {})
    first = {name: float(5 + 2 * k) for k, name in enumerate(algorithm.params)}
    middle = {name: math.sqrt(low * high) for name, (low, high) in ranges.items()}
    middle = {name: middle.get(name, value) for name, value in first.items()}
    found = []
    for wanted in (first, middle):
        scale = 1.0
        while True:
            sizes: dict[str, int] = {}
            for name, value in wanted.items():
                least = room.least(sizes, name, max(3, int(value * scale)) | 1)
                sizes[name] = room.least(sizes, name, 1) or 1 if least is None else least
            if scale < SMALLEST or counter.instances(tuple(program.statements), sizes) <= CHECKED:
                break
            scale *= 0.8
        if sizes not in found:
            found.append(sizes)
    return found


#: Sizes are made this much smaller at most.
SMALLEST = 1e-4


@cache
def package_key() -> str:
    """The key of this package's own files, on which the emitted text depends."""
    read = hashlib.sha256()
    for path in package_files():
        read.update(path.name.encode())
        read.update(path.read_bytes())
    return read.hexdigest()


def package_files() -> list[Path]:
    """The files of this package, those of its backends too."""
    root = Path(__file__).resolve().parents[3]
    return sorted(path for path in root.rglob("*") if path.suffix in (".py", ".c", ".h") and path.is_file())


# -- the time of a kernel's calls at some sizes, with arguments that are made for it


#: A call that takes longer is measured once, not `repeats` times.
LONG = 0.1
#: The machine has settled when so many of the least samples agree within this factor; for it there are so many times
#: the samples that were asked for, at most.
AGREEING, AGREED, MOST = 3, 1.1, 4
#: The elements that are drawn of each type: longer arrays repeat them.
DRAWN = 2**18
#: What a legal program may meet on the way to its time.
FAILURES = (ToolchainError, UnsupportedError, KernelError, MemoryError)


def timed(kernel: Kernel, sizes: Sizes, inputs: Mapping[str, Any], repeats: int) -> Sampled:
    """The time of calls with some inputs: the least of so many samples, or of more until the machine has settled."""
    case = Case(kernel.arguments.algorithm, sizes, inputs)
    calls = Workbench([case], Reference(False, [case], {})).calls(kernel, kernel.name)
    found = Stopwatch(1).measured(calls, Rivals())
    while min(found.samples[0]) < LONG and not settled(found.samples[0], repeats):
        found = Stopwatch(1).measured(calls, Rivals(), found.samples)
    (samples,) = found.samples
    return Sampled(min(samples), max(samples) / min(samples))


def settled(samples: Sequence[float], repeats: int) -> bool:
    """Whether so many samples are enough: the least ones agree, or there are several times as many as asked for.

    Two calls that each met a core that was taken may agree by chance, three hardly do.
    """
    if len(samples) < repeats:
        return False
    least = sorted(samples)[: min(repeats, AGREEING)]
    return least[-1] <= AGREED * least[0] or len(samples) >= MOST * repeats


def timed_at(kernel: Kernel, sizes: Sizes, repeats: int) -> Sampled:
    """The time of calls with inputs of some sizes."""
    return timed(kernel, sizes, arrays_for(kernel.arguments.algorithm, sizes), repeats)


def arrays_for(algorithm: Algorithm, sizes: Sizes) -> dict[str, Any]:
    """Inputs of given sizes: a few random values over and over, which takes no longer than a copy; inputs with declared
    facts are drawn.
    """
    plain = {}
    for name, declared in algorithm.inputs.items():
        if not (declared.scalar or declared.values is not None or declared.monotone or declared.permutation):
            shape = shape_value(declared.passed_shape, sizes)
            plain[name] = np.resize(_values(declared.dtype.numpy), shape)
    return arguments(algorithm, plain, sizes, 0)


@cache
def _values(kind: np.dtype[Any]) -> np.ndarray[Any, np.dtype[Any]]:
    random = np.random.default_rng(0)
    drawn = random.integers(0, SMALL, DRAWN) if np.dtype(kind).kind in "iub" else random.random(DRAWN)
    return drawn.astype(kind)


def serve() -> None:
    """Do the work of `TimingProcess` in its process; other writes to the standard output go to the error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    repeats = int(sys.argv[1])
    answer(sys.stdin.buffer, answers, lambda kernel, sizes: timed_at(kernel, sizes, repeats), FAILURES)

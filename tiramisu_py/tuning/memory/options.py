"""The options for a value that is read late: keep it, compute it again, put it in a file; and what each costs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise

from tiramisu_py import Function, Iter
from tiramisu_py.errors import CommandError
from tiramisu_py.queries import Command, Counter, communication, extent_at
from tiramisu_py.records import dataclass
from tiramisu_py.tuning.balancing import on_cores
from tiramisu_py.tuning.machine_model import Machine

#: Up to so many levels, each number of them is an option; beyond, each half as many more, and the root.
EACH = 12
#: The most segments inside of one another that are tried.
DEPTH = 3
#: Levels that are fetched before they are read.
AHEAD = (2, 4)


@dataclass(frozen=True)
class MemoryOption:
    """A way to have a value when it is read: the commands (none to keep all of it), and the seconds that it adds.

    `written` and `read` are the bytes that go to a file and come from it.
    """

    value: str
    kind: str
    commands: tuple[Command, ...]
    seconds: float
    written: int = 0
    read: int = 0

    def __str__(self) -> str:
        return "; ".join(map(str, self.commands)) or f"keep {self.value}"


@dataclass(frozen=True)
class StepTime:
    """The seconds of a call, estimated: of arithmetic and memory, and of waiting for files; the bytes of these."""

    seconds: float
    written: int
    read: int


def options_of(f: Function, sizes: Mapping[str, int], machine: Machine) -> list[list[MemoryOption]]:
    """For each value that can be had in several ways its options; the first is to keep it."""
    base = step_time(f, sizes, machine).seconds
    found: list[list[MemoryOption]] = []
    for name in f.algorithm.computations:
        more = [_option(f, name, trial, sizes, machine, base) for trial in _trials(f, name, sizes, machine)]
        if more:
            found.append([MemoryOption(name, "keep", (), 0.0), *more])
    return found


def _trials(f: Function, name: str, sizes: Mapping[str, int], machine: Machine) -> Iterator[tuple[str, Function]]:
    """The function with each command that can have the value in another way."""
    declared = f.algorithm.computations[name]
    for iterator in declared.iterators:
        found = dict[tuple[int, ...], Function]()
        for every in widths_of(extent_at(declared, iterator, sizes)):
            trial = f.copy()
            try:
                trial[name].recompute(Iter(iterator), every=every if len(every) > 1 else every[0])
            except CommandError:
                continue  # no recurrence along this index, or one whose values need more levels
            found[every] = trial
        folds = _folds(f, found, name, iterator)
        for every, trial in found.items():
            for other, more in folds.items():
                trial[other].fold(Iter(iterator), every[-1] + more)
            yield "recompute", trial
        offloaded = list(_offloads(f, name, iterator)) if machine.storage is not None else []
        yield from (("offload", trial) for trial in offloaded)
        if found or offloaded:
            return


def _offloads(f: Function, name: str, iterator: str) -> Iterator[Function]:
    """The function with the value in a file, fetched some iterations before it is read."""
    for ahead in AHEAD:
        trial = f.copy()
        try:
            trial[name].offload(Iter(iterator), ahead=ahead)
        except CommandError:
            return  # its levels are not read one by one
        yield trial


def _folds(f: Function, trials: Mapping[tuple[int, ...], Function], name: str, iterator: str) -> dict[str, int]:
    """The other values that need no more levels than a segment has, and so many more: those of the same loops.

    One number of levels of a segment is tried; what is chosen is proven as a whole.
    """
    if not trials:
        return {}
    tried = sorted(trials, key=lambda widths: (len(widths), widths))
    single = [widths for widths in tried if len(widths) == len(tried[0])]
    widths = single[len(single) // 2]
    every = widths[-1]
    changed, found = trials[widths].copy(), dict[str, int]()
    inside = {s.source for s in changed.program.storing if {*s.loops[:1]} - {*f.program.loops}}
    for other in sorted(inside - {name, *changed.algorithm.outputs}):
        if iterator not in changed.algorithm.computations[other].iterators:
            continue
        for more in (1, 2):
            trial = changed.copy()
            try:
                trial[other].fold(Iter(iterator), every + more)
            except CommandError:
                break
            if trial.check().ok:
                changed, found[other] = trial, more
                break
    return found


def widths_of(levels: int) -> list[tuple[int, ...]]:
    """The numbers of levels of segments that are tried; and of segments inside of segments, where these keep fewer."""
    found = set(range(2, min(levels, EACH) + 1))
    number = float(EACH)
    while (number := number * 1.5) < levels:
        found.add(int(number))
    single = sorted({*found, math.isqrt(levels)} - {0, 1})
    tried: list[tuple[int, ...]] = [(each,) for each in single]
    held = min((_held(levels, each) for each in tried), default=0)
    for depth in range(2, DEPTH + 1):
        inner = next(k for k in range(1, levels + 2) if k ** (depth + 1) >= levels)
        for base in (inner, inner - 1):
            widths = tuple(base**k for k in range(depth, 0, -1))
            if base > 1 and _held(levels, widths) < held:
                tried.append(widths)
                held = _held(levels, widths)
    return tried


def _held(levels: int, widths: tuple[int, ...]) -> int:
    """The levels that are kept at a time, of a recurrence whose values read one level before."""
    between = 2 * (len(widths) - 1)
    return between + sum(-(-outer // inner) for outer, inner in pairwise((levels, *widths, 1)))


def _option(
    f: Function, name: str, trial: tuple[str, Function], sizes: Mapping[str, int], machine: Machine, base: float
) -> MemoryOption:
    kind, changed = trial
    time = step_time(changed, sizes, machine)
    commands = changed.commands[len(f.commands) :]
    return MemoryOption(name, kind, commands, max(0.0, time.seconds - base), time.written, time.read)


def step_time(f: Function, sizes: Mapping[str, int], machine: Machine) -> StepTime:
    """The seconds of a call on the cores of a machine; transfers with files run beside it, as fast as its disk is.

    Half of the work is done while values are written, and half while they are read.
    """
    counter, program = Counter(f.program), f.program
    moved = communication(program, sizes).transfers
    work = sum(on_cores(counter.work([each.name], sizes), machine) for each in program.storing)
    written = sum(one.bytes for one in moved if one.direction.endswith("file"))
    read = sum(one.bytes for one in moved if one.direction.startswith("file"))
    if machine.storage is None or not written + read:
        return StepTime(work, written, read)
    waits = max(0.0, written / machine.storage.write - work / 2) + max(0.0, read / machine.storage.read - work / 2)
    return StepTime(work + waits, written, read)

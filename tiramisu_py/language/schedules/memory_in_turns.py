"""Shared memory in turns: values take the places of others that are not needed any more, first fit.

Two values may have one buffer if it is as large for both, in the same loops, and everything that reads the first comes
before the second is stored: what the second is made of, or the second itself, by the thread that has the element. What
is only loaded can wait until then. Barriers follow from the places, and all of it is proven.
"""

from __future__ import annotations

from collections.abc import Mapping

from tiramisu_py.algorithm.expressions import Expr, Iter
from tiramisu_py.algorithm.traversal import accesses
from tiramisu_py.function.arrays import ProgramValue
from tiramisu_py.language.launched import KernelRun
from tiramisu_py.language.schedules.placement import loop_names
from tiramisu_py.language.schedules.thread_layouts import ThreadLayouts
from tiramisu_py.language.schedules.wide_loads import load_of
from tiramisu_py.language.values.groups import sources_of
from tiramisu_py.program.storage import Buffer, Memory
from tiramisu_py.records import dataclass


def take_turns(run: KernelRun, dealt: ThreadLayouts, fixed: set[str]) -> None:
    """Let values in shared memory take the places of others; `fixed` are those that stay where they are."""
    known = {value.name: value for value in run.values}
    turns = _Turns(run, dealt, known, {name: _needed(run, name, known) for name in known})
    last = list[ProgramValue]()  # in each buffer that may be taken
    for value in run.values:
        if value.name in fixed or not turns.is_free(value):
            continue
        taken = next((other for other in last if turns.follows(value, other)), None)
        if taken is None:
            last.append(value)
            continue
        turns.wait(value, taken)
        run.function[value.name].store_in(run.function[taken.name])
        last[last.index(taken)] = value


@dataclass(frozen=True, eq=False)
class _Turns:
    """The values of a run by name, and for each those that it is made of, in the same iteration."""

    run: KernelRun
    dealt: ThreadLayouts
    known: Mapping[str, ProgramValue]
    needs: Mapping[str, frozenset[str]]

    def is_free(self, value: ProgramValue) -> bool:
        """Whether a value is in shared memory, of one program, and read only in the iteration that it belongs to."""
        if self._buffer(value).memory is not Memory.SHARED or value.over or value.name in self.run.stored:
            return False
        readers = self.readers(value)
        if any({*_programs(self.run, reader)} - {each.name for each in value.domain} for reader in readers):
            return False  # each program has it again: the proof knows one value, not which program stores it when
        return bool(readers) and all(
            loop_names(self.run, reader) == loop_names(self.run, value) and _reads_now(self.run, reader, value)
            for reader in readers
        )

    def follows(self, value: ProgramValue, other: ProgramValue) -> bool:
        """Whether a value may be stored where another one was."""
        if loop_names(self.run, value) != loop_names(self.run, other) or not self._alike(value, other):
            return False
        return all(self._is_before(reader, other, value) for reader in self.readers(other))

    def _is_before(self, reader: ProgramValue, other: ProgramValue, value: ProgramValue) -> bool:
        if reader is value:
            return load_of(other) is None and self.dealt.has_its_own(other.name, value.name)
        return reader.name in self.needs[value.name] or self._can_wait(value, reader)

    def _can_wait(self, value: ProgramValue, reader: ProgramValue) -> bool:
        """Whether a value that is loaded may be so after a reader of another one."""
        if load_of(value) is None or self.needs[value.name] or not loop_names(self.run, value):
            return False
        return all(reader.name in self.needs[each.name] for each in self.readers(value))

    def wait(self, value: ProgramValue, other: ProgramValue) -> None:
        """Load a value after what reads another one, in the innermost loop of both."""
        for reader in self.readers(other):
            if reader is not value and reader.name not in self.needs[value.name]:
                handle = self.run.function[reader.name]
                self.run.function[value.name].after(handle, Iter(loop_names(self.run, value)[-1]))

    def readers(self, value: ProgramValue) -> list[ProgramValue]:
        """The values of the run that read a value."""
        return [each for each in self.run.values if value.name in sources_of(each)]

    def _buffer(self, value: ProgramValue) -> Buffer:
        program = self.run.function.program
        return program.buffers[program.storages[value.name].buffer]

    def _alike(self, value: ProgramValue, other: ProgramValue) -> bool:
        one, two = self._buffer(value), self._buffer(other)
        same = one.dtype == two.dtype and one.scope == two.scope and one.swizzle == two.swizzle
        return same and len(one.extents) == len(two.extents) and all(map(Expr.same_as, one.extents, two.extents))


def _programs(run: KernelRun, value: ProgramValue) -> list[str]:
    """The iterators of a value around its first loop, where it has one: those of the programs."""
    names, loops = [each.name for each in value.domain], loop_names(run, value)
    return names[: names.index(loops[0])] if loops and loops[0] in names else []


def _needed(run: KernelRun, name: str, known: Mapping[str, ProgramValue]) -> frozenset[str]:
    """The values of the same iteration that one is made of."""
    found, waiting = set[str](), [name]
    while waiting:
        reader = known[waiting.pop()]
        for source in sources_of(reader):
            if source in known and source not in found and _reads_now(run, reader, known[source]):
                found.add(source)
                waiting.append(source)
    return frozenset(found)


def _reads_now(run: KernelRun, reader: ProgramValue, value: ProgramValue) -> bool:
    """Whether a value is read in the iteration that it belongs to, wherever it is read."""
    own = list(value.domain)
    names = [each.name for each in own]
    at = [names.index(loop) for loop in loop_names(run, value) if loop in names]
    read = (each for each in accesses(reader.expr) if each.source == value.name)
    return reader is not value and all(each.indices[k].same_as(own[k]) for each in read for k in at)

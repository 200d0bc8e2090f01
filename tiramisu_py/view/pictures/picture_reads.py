"""Who reads what at given sizes, and which instance stored it: the program run element by element."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.dimension_names import dimension_names
from tiramisu_py.algorithm.domains.extents_from_arguments import shape_value
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.dependence.cases import EqualValues, Named
from tiramisu_py.program.loops import AXES
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.storage import Buffer, Home
from tiramisu_py.proof.memory.sequential_runs import images
from tiramisu_py.records import dataclass
from tiramisu_py.view.pictures.picture_instances import Ordered
from tiramisu_py.view.pictures.picture_sizes import accessed
from tiramisu_py.view.pictures.scene import CALLER, NOBODY, PicturedArray, PicturedInstance, PicturedRead, Point


@dataclass(frozen=True)
class _Event:
    """A read or a write of an element by an instance, or by the caller."""

    order: int
    access: MemoryAccess
    place: Point
    named: Named


def _when(event: _Event) -> tuple[int, int, bool]:
    """The caller writes first and reads last; an instance reads before it writes."""
    return event.access.actor.moment, event.order, event.access.is_write


class PictureMemory:
    """The arrays of a program, and what its instances read and store, at given sizes."""

    def __init__(self, accesses: MemoryAccesses, ordered: Ordered, sizes: Mapping[str, int]) -> None:
        self.accesses = accesses
        self.program = accesses.program
        self.ordered = ordered
        self.sizes = sizes
        self.homes = accesses.homes()
        self._numbers = {home: number for number, home in enumerate(self.homes)}
        self._statement_numbers = {name: number for number, name in enumerate(self.program.statements)}

    def arrays(self) -> tuple[PicturedArray, ...]:
        """The buffers, one for each memory in which they are."""
        return tuple(self._array(home) for home in self.homes)

    def _array(self, home: Home) -> PicturedArray:
        buffer = self.program.buffers[home.buffer]
        owners = [*self._rank_names(), *(self.program.loops[loop].name for loop in buffer.scope)]
        owners += [f"thread {axis}" for axis in AXES] if buffer.per_thread else []
        memory = "the caller's" if buffer.argument else buffer.memory.value.replace("_", " ")
        return PicturedArray(
            name=buffer.name,
            memory=f"{memory} memory" if home.device is None else f"memory of GPU {home.device}",
            dims=(*owners, *self._index_names(buffer)),
            owners=len(owners),
            ranks=self.program.ranks.axes,
            extents=shape_value(buffer.extents, self.sizes),
            dtype=str(buffer.dtype),
            bytes=buffer.dtype.bytes,
            callers=buffer.argument,
        )

    def _rank_names(self) -> list[str]:
        count = self.program.ranks.axes
        return ["rank"] if count == 1 else [f"rank {axis}" for axis in range(count)]

    def _index_names(self, buffer: Buffer) -> tuple[str, ...]:
        """The name of the value index, or of the loop, that runs along each dimension, or else d0, d1, ..."""
        storage = next(self.program.storages_in(buffer.name))
        loops = [self.program.loops[loop].name for loop in self.program.frame(storage)]
        names = [*loops, *dimension_names(self.program.algorithm, storage.source)]
        forms = sets.outputs(storage.index)
        return tuple(_along(form, names) or f"d{axis}" for axis, form in enumerate(forms))

    def number(self, home: Home) -> int:
        """The number of an array."""
        return self._numbers[home]

    # -- what is read and stored

    def stored(self) -> tuple[PicturedInstance, ...]:
        """The instances, each with the element that it stores to."""
        found = list(self.ordered.instances)
        for statement in self.program.storing:
            write = self.accesses.write(statement)
            if write is not None:
                for order, place, _ in self._elements(write, statement):
                    found[order] = replace(found[order], element=place)
        return tuple(found)

    def reads(self, refused: bool) -> tuple[PicturedRead, ...]:
        """All reads by instances, with the instance that stored what is found; wrong reads by the caller at the end.

        `refused` says whether some may be wrong.
        """
        found = list[PicturedRead]()
        for home in self.homes:
            found += self._run(home, refused)
        return tuple(sorted(found, key=lambda read: (read.reader, read.array, read.element)))

    def _run(self, home: Home, refused: bool) -> Iterator[PicturedRead]:
        """The accesses to one array in their order; an instance reads before it writes."""
        roots = self._roots() if refused else {}
        holds: dict[Point, tuple[Named, int]] = {}
        for event in sorted(self._events(home), key=_when):
            held = holds.get(event.place)
            if event.access.is_write:
                holds[event.place] = (event.named, event.order)
                continue
            value, writer = (None, NOBODY) if held is None else held
            same = value is not None and roots.get(value, value) == roots.get(event.named, event.named)
            judged = refused and self._has_a_name(event.access)
            wrong = judged and not same
            if event.order == CALLER and not wrong:
                continue
            yield PicturedRead(
                event.order, self.number(home), event.place, *event.named, writer,
                wrong=wrong, chain=self._in_chain(event),
            )  # fmt: skip

    def _has_a_name(self, read: MemoryAccess) -> bool:
        """Whether what a read must find is one value: no partial result, nor the array of a call over whole arrays."""
        statement = read.actor.statement
        is_call = statement is not None and statement.is_call
        return not (is_call or read.is_merged or read.storage.name in self.accesses.partials)

    def _in_chain(self, event: _Event) -> bool:
        statement = event.access.actor.statement
        return statement is not None and statement.adds and event.access.storage.name == statement.memory.target

    def _roots(self) -> dict[Named, Named]:
        equal = EqualValues(self.program.algorithm)
        return equal.roots(self.sizes) if equal.parents is not None else {}

    def _events(self, home: Home) -> Iterator[_Event]:
        accesses: Iterable[MemoryAccess] = [*self.accesses.writers(home), *self.accesses.readers(home)]
        for access in accesses:
            statement = access.actor.statement
            if statement is not None:
                for order, place, value in self._elements(access, statement):
                    yield _Event(order, access, place, (access.source, value))
            else:
                for place, value in self._callers(access):
                    yield _Event(CALLER, access, place, (access.source, value))
        for statement in self.program.storing:
            partial = self.accesses.accumulator(statement) if statement.role in (Role.UPDATE, Role.MERGE) else None
            if partial is not None and partial.home == home:
                for order, place, value in self._elements(partial, statement):
                    yield _Event(order, partial, place, (partial.source, value))

    def _callers(self, access: MemoryAccess) -> Iterator[tuple[Point, Point]]:
        points = sets.points(accessed(access, self.sizes))
        yield from zip(images(access.place, points, self.sizes), images(access.value, points, self.sizes), strict=True)

    def _elements(self, access: MemoryAccess, statement: Statement) -> Iterator[tuple[int, Point, Point]]:
        """The instance, the element and the value of each element that is accessed."""
        points = sets.points(accessed(access, self.sizes))
        position = self.ordered.positions[self._statement_numbers[statement.name]]
        instances = images(access.instance, points, self.sizes)
        places, values = images(access.place, points, self.sizes), images(access.value, points, self.sizes)
        for instance, place, value in zip(instances, places, values, strict=True):
            yield position[instance], place, value


def _along(form: isl.Aff, names: Sequence[str]) -> str:
    """The dimension that a form is, but for a constant; "" if it is none."""
    taken = sets.terms(form)
    used = [name for name, factor in zip(names, taken.dims, strict=True) if factor]
    return used[0] if len(used) == 1 and sum(taken.dims) == 1 == taken.denominator and not taken.divs else ""

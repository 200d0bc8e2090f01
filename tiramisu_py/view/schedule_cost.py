"""The cost of a schedule at given sizes before it runs: operations, bytes, footprints of tiles, lanes, messages.

All numbers are exact counts of integer sets, at these sizes. What is read and stored more than once is counted in
several ways: each time (`accessed`), once for each tile (`through_tiles`: what a cache has to fetch that holds one tile
at a time), and once (`distinct`). `fetched` is the model of an ideal cache of any capacity, which
`view/memory_traffic.py` states. Operations are those of the expressions: both sides of a select count, whichever is
taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field
from functools import cached_property
from typing import Any

from tiramisu_py.counting.amounts import Communication
from tiramisu_py.errors import ArgumentError
from tiramisu_py.records import dataclass
from tiramisu_py.styles import as_html, for_prompt
from tiramisu_py.view.kernel_facts import KernelFacts
from tiramisu_py.view.memory_traffic import CacheTraffic
from tiramisu_py.view.roofline import Mark, Rates, Roof, levels_of, require_rates, roofline, scaled

#: Capacities of caches that are usual for the levels of a processor, for costs without a machine.
USUAL = (32 << 10, 1 << 20, 32 << 20)


@dataclass(frozen=True)
class EmittedFindings:
    """The facts about the loops that are emitted: the facts of GPU kernels, remarks on vector code, and the most bytes
    of temporaries at a time, by memory.
    """

    kernels: tuple[KernelFacts, ...] = ()
    remarks: tuple[str, ...] = ()
    temporaries: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class StatementCost:
    """A statement: its instances, their operations, the bytes that they load and store, each time.

    Instances in a vector loop fill `lanes` of the lanes of its vectors, between 0 and 1; None without a vector loop. A
    vector of one of the `strided` arrays is loaded or stored element by element, since its lanes are apart in memory.
    `dtype` is the type of its values; `on_gpu` says whether a GPU runs it.
    """

    name: str
    instances: int
    operations: int
    loaded: int
    stored: int
    lanes: float | None
    dtype: str = ""
    on_gpu: bool = False
    strided: tuple[str, ...] = ()


@dataclass(frozen=True)
class ArrayCost:
    """An array in one memory: the elements that are read or stored, and their bytes.

    An array that exists once for each tile, or rank, has the elements of all these copies.
    """

    name: str
    memory: str
    elements: int
    bytes: int
    callers: bool


@dataclass(frozen=True)
class TileCost:
    """The tiles of one loop nest: their loops, their number, the bytes of each array's elements in the largest of them.

    `footprint` is the sum over all arrays, and `total` the sum over all tiles.
    """

    loops: tuple[str, ...]
    tiles: int
    arrays: tuple[tuple[str, int], ...]
    total: int

    @property
    def footprint(self) -> int:
        """The bytes that a tile reads and stores, at most."""
        return sum(size for _, size in self.arrays)


@dataclass(frozen=True)
class MemoryCost:
    """A memory of a GPU, or the registers: the bytes that all instances load from it and store in it, each time."""

    name: str
    loaded: int
    stored: int


@dataclass(frozen=True)
class LevelCost:
    """The bytes that come from one level of memory to the one nearer to the core.

    `bandwidth` is the machine's there, in bytes a second, and `seconds` the time that they take at least; 0 if it is
    not measured.
    """

    name: str
    bytes: int
    bandwidth: float = 0.0

    @property
    def seconds(self) -> float:
        """The time of these bytes at the machine's bandwidth; 0 if it is not measured."""
        return self.bytes / self.bandwidth if self.bandwidth else 0.0


@dataclass(frozen=True, repr=False)
class ScheduleCost:
    """The cost of a schedule at `sizes`; `kernels` and `remarks` are of its emitted loops, found when asked for."""

    name: str
    sizes: Mapping[str, int]
    statements: tuple[StatementCost, ...]
    arrays: tuple[ArrayCost, ...]
    tiles: tuple[TileCost, ...]
    communication: Communication
    memories: tuple[MemoryCost, ...] = ()
    traffic: CacheTraffic | None = field(default=None, compare=False, repr=False)
    find_emitted: Callable[[], EmittedFindings] = field(default=EmittedFindings, compare=False, repr=False)

    @property
    def operations(self) -> int:
        """All arithmetic operations."""
        return sum(each.operations for each in self.statements)

    @property
    def accessed(self) -> int:
        """The bytes of all loads and stores."""
        return sum(each.loaded + each.stored for each in self.statements)

    @property
    def distinct(self) -> int:
        """The bytes of all elements that are read or stored, each counted once."""
        return sum(each.bytes for each in self.arrays)

    @property
    def compulsory(self) -> int:
        """The bytes of the elements of the caller's arrays that are read or stored: no schedule moves less."""
        return sum(each.bytes for each in self.arrays if each.callers)

    @property
    def through_tiles(self) -> int:
        """The bytes that each tile reads or stores, each element counted once for each tile; 0 without tiles."""
        return sum(each.total for each in self.tiles)

    @property
    def intensity(self) -> float:
        """Operations for each compulsory byte: beside those of a machine, it says what limits the speed."""
        return self.operations / self.compulsory if self.compulsory else 0.0

    @property
    def kernels(self) -> tuple[KernelFacts, ...]:
        """The facts of GPU kernels: sectors of each access, bank conflicts, shared memory, occupancy."""
        return self._emitted.kernels

    @property
    def remarks(self) -> tuple[str, ...]:
        """The parts of vector code that run lane by lane, in sentences: `Kernel.remarks`."""
        return self._emitted.remarks

    @property
    def temporaries(self) -> Mapping[str, int]:
        """The most bytes of temporaries at a time, by memory: `Kernel.temporary_bytes`. Not of a rank's."""
        return self._emitted.temporaries

    @cached_property
    def _emitted(self) -> EmittedFindings:
        return self.find_emitted()

    def fetched(self, capacity: int) -> int:
        """The bytes that come into an ideal cache of so many bytes, as cores execute the schedule in its order.

        ::

            f.cost(N=1000).fetched(32 * 1024)

        The cache holds what was used last, wherever it lies, element by element. Each body of loops whose footprint
        fits brings in each of its elements once, less what it shares with the iteration before. This is at least what
        such a cache misses, and equal for whole tiles; caches of processors move whole lines, and miss more where
        lines collide. Raises `ArgumentError` for a capacity that is no number of bytes.
        """
        if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 0:
            raise ArgumentError(f"capacity={capacity!r}: give a number of bytes, such as 32 * 1024")
        return 0 if self.traffic is None else self.traffic.fetched(capacity)

    def levels(self, machine: Rates) -> tuple[LevelCost, ...]:
        """The bytes that come from each level of a machine's memory: from the first cache all that is accessed, from
        each further one, and from memory, what the cache before it fetches.

        Raises `ArgumentError` for a machine without rates.
        """
        require_rates(machine)
        held = levels_of(machine)
        amounts = [self._in_caches, *(self.fetched(int(level.bytes)) for level in held)]
        names = [*((level.name, level.bandwidth) for level in held), ("memory", machine.host_bandwidth)]
        return tuple(LevelCost(name, size, rate) for (name, rate), size in zip(names, amounts, strict=True))

    @property
    def _in_caches(self) -> int:
        """The bytes of all loads and stores of cores."""
        return 0 if self.traffic is None else self.traffic.accessed

    def roofline(self, machine: Rates, seconds: float | None = None) -> str:
        """A roofline plot as SVG text: what limits the schedule on a machine, operations or memory.

        ::

            timing = kernel.time(image)
            Path("blur.svg").write_text(f.cost(N=1000, M=2000).roofline(tm.Machine.here(), timing.minimum))

        It marks the operations for each byte that has to be moved, and for each byte that tiles move (or, if the
        machine's caches are measured, for each byte that comes from each of these and from memory: `levels`), below the
        roofs of the machine, and the speed of a call that took so many `seconds`. What runs on GPUs is below the GPU's
        roof if the machine has one. Raises `ArgumentError` for a machine without rates, and for `seconds` that are no
        time.
        """
        require_rates(machine)
        timed = isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds < math.inf
        if seconds is not None and not timed:
            raise ArgumentError(f"seconds={seconds!r}: give the time of a call in seconds, such as timing.minimum")
        roofs = self._roofs(machine)
        marks = [Mark("each byte of the caller's arrays once", self.intensity, roofs[0])]
        marks += self._level_marks(machine, roofs) or self._tile_marks(roofs[0])
        if len(roofs) > 1 and roofs[-1].name == "GPU":
            marks += self._gpu_marks(roofs[-1])
        if seconds is not None:
            marks.append(Mark("measured", self.intensity, roofs[0], self.operations / seconds))
        sizes = ", ".join(f"{name} = {value}" for name, value in self.sizes.items())
        return roofline(f"{self.name} at {sizes}" if sizes else self.name, marks, roofs)

    def _roofs(self, machine: Rates) -> list[Roof]:
        """The roofs of memory, of caches with a measured rate, and of the GPU if something runs there."""
        double = any(each.operations and each.dtype == "float64" for each in self.statements)
        half = getattr(machine, "core_flops64", 0.0) if double else 0.0
        peak = (half or machine.core_flops) * machine.cores
        found = [Roof("memory", machine.host_bandwidth, peak)]
        found += [Roof(x.name, x.bandwidth, peak) for x in levels_of(machine)[::-1] if x.bandwidth]
        flops, bandwidth = (getattr(machine, name, 0.0) for name in ("gpu_flops", "gpu_bandwidth"))
        if min(flops, bandwidth) > 0 and any(each.on_gpu for each in self.statements):
            found.append(Roof("GPU", bandwidth, flops))
        return found

    def _level_marks(self, machine: Rates, roofs: Sequence[Roof]) -> list[Mark]:
        """A mark for each level that has a roof, if caches have one."""
        by_name = {roof.name: roof for roof in roofs}
        done = sum(each.operations for each in self.statements if not each.on_gpu)
        found = [
            Mark(f"each byte that comes from {level.name}", done / level.bytes, by_name[level.name])
            for level in reversed(self.levels(machine)) if level.bytes and level.name in by_name
        ]  # fmt: skip
        return found if any(roof.name not in ("memory", "GPU") for roof in roofs) else []

    def _tile_marks(self, memory: Roof) -> list[Mark]:
        if not self.through_tiles:
            return []
        return [Mark("each byte once for each tile", self.operations / self.through_tiles, memory)]

    def _gpu_marks(self, roof: Roof) -> list[Mark]:
        """Operations for each byte of a GPU's memory: each once, and each time that a thread asks for it."""
        done = sum(each.operations for each in self.statements if each.on_gpu)
        once = sum(each.bytes for each in self.arrays if each.memory.startswith("GPU"))
        asked = sum(each.loaded + each.stored for each in self.statements if each.on_gpu)
        amounts = {"each byte of the GPU's arrays once": once, "each byte that threads ask for": asked}
        return [Mark(words, done / size, roof) for words, size in amounts.items() if size]

    def as_dict(self, machine: Rates | None = None) -> dict[str, Any]:
        """The cost as plain data; with a `machine` its levels of memory, too."""
        moved = [[m.name, m.direction, m.messages, m.elements, m.bytes] for m in self.communication.transfers]
        data: dict[str, Any] = {
            "name": self.name,
            "sizes": dict(self.sizes),
            "statements": [asdict(each) for each in self.statements],
            "arrays": [asdict(each) for each in self.arrays],
            "tiles": [asdict(each) | {"footprint": each.footprint} for each in self.tiles],
            "moved": moved,
            "operations": self.operations,
            "accessed": self.accessed,
            "through_tiles": self.through_tiles,
            "distinct": self.distinct,
            "compulsory": self.compulsory,
            "memories": [asdict(each) for each in self.memories],
            "caches": [{"capacity": capacity, "bytes": self.fetched(capacity)} for capacity in USUAL],
            "kernels": [str(each) for each in self.kernels],
            "remarks": list(self.remarks),
            "temporaries": dict(self.temporaries),
        }
        if machine is not None:
            data["levels"] = [asdict(each) | {"seconds": each.seconds} for each in self.levels(machine)]
        return data

    def report(self, machine: Rates | None = None, gpu: str | int | None = None) -> str:
        """The whole cost as text: with a `machine` the bytes and the times of its levels of memory, with a `gpu` by its
        name ("H200") the occupancy of kernels.

        ::

            print(f.cost(N=1000).report(tm.Machine.load("machine.json")))

        Raises `ArgumentError` for a machine without rates, and for an unknown GPU.
        """
        sizes = ", ".join(f"{name} = {value}" for name, value in self.sizes.items())
        lines = [f"{self.name}{f' at {sizes}' if sizes else ''}:"]
        lines.append(f"  {self.operations:,} operations, {self.intensity:.3g} for each byte of the caller's arrays")
        lines.append(
            f"  bytes: {self.accessed:,} accessed, {self.distinct:,} distinct, {self.compulsory:,} the caller's"
        )
        lines += self._cache_lines() if machine is None else self._level_lines(machine)
        lines += [f"  {each.name}: {each.loaded:,} bytes loaded, {each.stored:,} stored" for each in self.memories]
        lines += map(_statement_line, self.statements)
        lines += [f"  {a.name} ({a.memory}): {a.elements:,} elements, {a.bytes:,} bytes" for a in self.arrays]
        lines += [f"  temporaries ({place}): {most:,} bytes at a time" for place, most in self.temporaries.items()]
        lines += map(_tile_line, self.tiles)
        moved = self.communication.transfers
        lines += [
            f"  {m.name}, {m.direction}: {m.elements:,} elements, {m.bytes:,} bytes in {m.messages:,}" for m in moved
        ]
        lines += [line for each in self.kernels for line in _kernel_lines(each, gpu)]
        return "\n".join([*lines, *map(_remark_line, self.remarks)])

    def _cache_lines(self) -> list[str]:
        """The bytes that ideal caches of usual sizes fetch."""
        if not self._in_caches:
            return []
        found = [f"{self.fetched(size):,} come into one of {_capacity(size)}" for size in USUAL]
        return [f"  ideal caches: {', '.join(found)}"]

    def _level_lines(self, machine: Rates) -> list[str]:
        lines = []
        for level in self.levels(machine) if self._in_caches else ():
            rate = f", {1e3 * level.seconds:.3g} ms at {scaled(level.bandwidth)}B/s" if level.bandwidth else ""
            lines.append(f"  from {level.name}: {level.bytes:,} bytes{rate}")
        return lines

    def __str__(self) -> str:
        return self.report()

    def __repr__(self) -> str:
        """At a prompt: the text, in colours if the terminal takes them."""
        return for_prompt(str(self), STYLES)

    def _repr_html_(self) -> str:
        """In a notebook: the text."""
        return as_html(str(self), STYLES)


#: The styles of the lines of a cost, by patterns of what is at their beginning.
STYLES = {r"  in (vectors|the code), ": "doubt", r"\S.*:$": "advice"}


def _statement_line(each: StatementCost) -> str:
    lanes = "" if each.lanes is None else f", {100 * each.lanes:.3g} % of the lanes"
    lanes += f" in arithmetic, one by one in {', '.join(each.strided)} (strided)" if each.strided else ""
    done = f"{each.instances:,} instances, {each.operations:,} operations"
    return f"  {each.name}: {done}, {each.loaded:,} bytes loaded, {each.stored:,} stored{lanes}"


def _remark_line(remark: str) -> str:
    where = "the code" if remark.partition(": ")[2].startswith("copied ") else "vectors"
    return f"  in {where}, {remark}"


def _tile_line(tile: TileCost) -> str:
    parts = ", ".join(f"{name} {size:,}" for name, size in tile.arrays)
    loops = ", ".join(tile.loops)
    return (
        f"  {tile.tiles:,} tiles of {loops}: at most {tile.footprint:,} bytes each ({parts}), {tile.total:,} altogether"
    )


def _kernel_lines(kernel: KernelFacts, gpu: str | int | None) -> list[str]:
    busy = [] if gpu is None else [f"occupancy of {gpu}: {kernel.occupancy(gpu)}"]
    first, *rest = kernel.summary()
    return [f"  kernel {kernel.name}: {first}", *(f"    {line}" for line in [*busy, *rest])]


def _capacity(size: int) -> str:
    return f"{size >> 10} KiB" if size < 1 << 20 else f"{size >> 20} MiB"

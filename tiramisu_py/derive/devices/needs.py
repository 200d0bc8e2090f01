"""Needs: values of a storage that a device reads, and that are only in the memories of other devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Device
from tiramisu_py.program.storage import Memory, Storage
from tiramisu_py.records import dataclass

#: Memories in which every device that uses a buffer has its own instance.
APART = (Memory.HOST, Memory.PINNED, Memory.GPU)


@dataclass(frozen=True, eq=False)
class Need:
    """Values of a storage that `readers` on device `target` read, and `writers` on device `source` store.

    Values are keyed by the coordinates of the rank, of the buffer's scope, and then the indices. `spare` are other
    values at the source that the target does not store itself: moving them too is harmless.
    """

    storage: Storage
    source: Device
    target: Device
    values: isl.Set
    spare: isl.Set
    writers: tuple[MemoryAccess, ...]
    readers: tuple[MemoryAccess, ...]


def needs(program: Program, accesses: MemoryAccesses) -> Iterator[Need]:
    """The values that must be transferred so that each device has the values that it reads."""
    for storage in program.storages.values():
        if program.buffers[storage.buffer].memory in APART:
            yield from _of_storage(program, accesses, storage)


def _of_storage(program: Program, accesses: MemoryAccesses, storage: Storage) -> Iterator[Need]:
    mine = [t for t in accesses.of_buffer(storage.buffer) if t.storage.name == storage.name]
    stored = _by_device(t for t in mine if t.is_write)
    for target, readers in _by_device(t for t in mine if not t.is_write).items():
        if not _exists(program, storage, target):
            continue
        read = _values(readers)
        own = _values(stored[target]) if target in stored else read.subtract(read)
        missing = read.subtract(own)
        for source in sorted(stored, key=lambda device: -1 if device is None else device):
            if missing.is_empty():
                break
            if source != target and _exists(program, storage, source):
                there = _values(stored[source])
                found = missing.intersect(there).coalesce()
                missing = missing.subtract(found)
                if not found.is_empty():
                    ends = _accessing(stored[source], found), _accessing(readers, found)
                    yield Need(storage, source, target, found, there.subtract(own), *ends)


def _by_device(accesses: Iterable[MemoryAccess]) -> dict[Device, list[MemoryAccess]]:
    found: dict[Device, list[MemoryAccess]] = {}
    for access in accesses:
        found.setdefault(access.device, []).append(access)
    return found


def _exists(program: Program, storage: Storage, device: Device) -> bool:
    """Whether a storage has an instance on a device: GPU memory has none on the host."""
    return device is not None or program.buffers[storage.buffer].memory is not Memory.GPU


def values_of(access: MemoryAccess) -> isl.Set:
    """The values that an access names: coordinates of the rank, of the buffer's scope, and then indices."""
    return sets.as_set(access.domain.apply(keys(access)))


def keys(access: MemoryAccess) -> isl.Map:
    """``access -> [coordinates of the rank, of the buffer's scope, indices]`` of the value that it names."""
    scope = [] if access.coords is None else [sets.prefix(access.coords, len(access.buffer.scope))]
    key = sets.joined(access.rank, *scope, access.value)
    return sets.graph(sets.renamed(key, access.source), access.domain)


def _values(accesses: list[MemoryAccess]) -> isl.Set:
    return sets.union_of(map(values_of, accesses)).coalesce()


def _accessing(accesses: list[MemoryAccess], values: isl.Set) -> tuple[MemoryAccess, ...]:
    return tuple(t for t in accesses if not values_of(t).is_disjoint(values))

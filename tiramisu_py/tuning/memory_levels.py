"""The levels of a machine's memory: what they hold, and how fast bytes come and go."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from tiramisu_py.errors import ArgumentError
from tiramisu_py.queries import Caches
from tiramisu_py.queries import caches as described
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class MemoryLevel:
    """A level of memory: its `bytes` for one core, or for all cores together if they share it (`shared`).

    `read` and `copy` are bytes a second of all cores together, in a loop that reads and in one that reads and writes,
    each byte counted once; `core_read` and `core_copy` are those of one core alone. 0 means not measured. Raises
    `ArgumentError` for what is no size or rate.
    """

    name: str
    bytes: int
    shared: bool = False
    read: float = 0.0
    copy: float = 0.0
    core_read: float = 0.0
    core_copy: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ArgumentError(f"tm.MemoryLevel: name is {self.name!r}: give a name such as 'L1'")
        for field in ("bytes", "read", "copy", "core_read", "core_copy"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
                raise ArgumentError(f"tm.MemoryLevel {self.name}: {field} is {value!r}: give a number")
        if self.bytes < 1 or self.bytes != int(self.bytes):
            raise ArgumentError(f"tm.MemoryLevel {self.name}: bytes is {self.bytes!r}: give its size in bytes")

    @property
    def bandwidth(self) -> float:
        """The most bytes a second of all cores: the faster of its two loops; 0 if neither was measured."""
        return max(self.read, self.copy)


def levels_here(found: Caches | None = None) -> tuple[MemoryLevel, ...]:
    """The caches of this machine, from the nearest one on, by their sizes alone."""
    sizes = found or described()
    return (
        MemoryLevel("L1", sizes.first),
        MemoryLevel("L2", sizes.second),
        *([MemoryLevel("L3", sizes.last, shared=True)] if sizes.last > sizes.second else []),
    )


def level_of(given: Any) -> MemoryLevel:
    """A level from plain data; raises `ArgumentError` for other data."""
    names = {field.name for field in fields(MemoryLevel)}
    if not isinstance(given, dict) or not {"name", "bytes"} <= set(given) <= names:
        raise ArgumentError(f"{given!r} is no level of memory: it has a name and bytes, and rates")
    return MemoryLevel(**given)

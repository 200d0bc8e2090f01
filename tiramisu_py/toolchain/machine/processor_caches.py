"""The caches of this machine's processor, as the system describes them."""

from __future__ import annotations

import os
from pathlib import Path

from tiramisu_py.records import dataclass
from tiramisu_py.toolchain.machine.topology import SYSTEM

#: Default sizes in bytes, used if the system gives none.
USUAL = {1: 32 << 10, 2: 512 << 10, 3: 16 << 20}
#: The most bytes of the last level for each core of a processor: 96 MiB for two cores of an EPYC 7373X.
MOST_OF_A_CORE = 48 << 20
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Caches:
    """The sizes of a processor's data caches in bytes: `first` and `second` of one core, `last` as cores share it."""

    first: int
    second: int
    last: int


def caches(system: Path = SYSTEM, cpus: int | None = None) -> Caches:
    """The caches of this machine with so many `cpus`; default sizes if the system does not describe them.

    A virtual machine may see the last level of a whole host, which it shares with others: of this it has no more than
    its cores can have.
    """
    found = _described(system / "cpu" / "cpu0" / "cache")
    first = found.get(1, USUAL[1])
    second = found.get(2, USUAL[2])
    last = found[max(found)] if found else _last_of_library() or USUAL[3]
    return Caches(first, second, min(last, MOST_OF_A_CORE * (cpus or os.cpu_count() or 1)))


def _described(folder: Path) -> dict[int, int]:
    """Bytes of the data caches by level."""
    found: dict[int, int] = {}
    for index in sorted(folder.glob("index*")):
        if _text(index / "type") != "Instruction":
            level, size = _text(index / "level"), _bytes(_text(index / "size"))
            if level.isdigit() and size:
                found[int(level)] = size
    return found


def _last_of_library() -> int:
    try:
        return max(os.sysconf("SC_LEVEL3_CACHE_SIZE"), 0)
    except (AttributeError, OSError, ValueError):
        return 0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _bytes(text: str) -> int:
    """The number of bytes denoted by ``48K`` or ``32M``; 0 for other texts."""
    unit = _UNITS.get(text[-1:], 1)
    digits = text.rstrip("KMG")
    return int(digits) * unit if digits.isdigit() else 0

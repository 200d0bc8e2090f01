"""The caches of this machine's processor, as the system describes them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tiramisu_py.build.machine.topology import SYSTEM

#: Default sizes in bytes, used if the system gives none.
USUAL = {1: 32 << 10, 2: 512 << 10, 3: 16 << 20}
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Caches:
    """The sizes of a processor's data caches in bytes: `first` and `second` of one core, `last` as cores share it."""

    first: int
    second: int
    last: int


def caches(system: Path = SYSTEM) -> Caches:
    """The caches of this machine; default sizes if the system does not describe them.

    On a virtual machine the C library may report the last level of the whole host: the minimum of all sources is used.
    """
    found = _described(system / "cpu" / "cpu0" / "cache")
    first = found.get(1, USUAL[1])
    second = found.get(2, USUAL[2])
    if found:
        return Caches(first, second, found[max(found)])
    return Caches(first, second, _last_of_library() or USUAL[3])


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

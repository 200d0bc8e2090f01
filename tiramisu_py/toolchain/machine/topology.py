"""The memory nodes of this machine and their cpus, as the system describes them."""

from __future__ import annotations

import os
from pathlib import Path

from tiramisu_py.public_calls import own_call
from tiramisu_py.records import dataclass

SYSTEM = Path("/sys/devices/system")


@dataclass(frozen=True)
class MemoryNode:
    """A memory node: usually a socket, and the memory that its cpus reach fastest. `bytes` of memory: 0 if unknown."""

    number: int
    cpus: tuple[int, ...]
    bytes: int = 0


@own_call
def memory_nodes(system: Path = SYSTEM) -> tuple[MemoryNode, ...]:
    """The memory nodes of this machine; a single one with all cpus if the system describes none.

    ::

        tm.memory_nodes()       # (MemoryNode(number=0, cpus=(0, 1, 2, 3), bytes=16...), ...)
    """
    folder = system / "node"
    numbers = _numbers(folder / "online")
    found = tuple(
        MemoryNode(number, _numbers(folder / f"node{number}" / "cpulist"), _bytes(folder / f"node{number}" / "meminfo"))
        for number in numbers
    )
    if found:
        return found
    return (MemoryNode(0, _numbers(system / "cpu" / "present") or tuple(range(os.cpu_count() or 1))),)


def allowed_cpus() -> tuple[int, ...]:
    """The cpus that this thread may run on."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def listed(cpus: tuple[int, ...]) -> str:
    """Cpus in the notation of the system: ``0-3,8``."""
    parts: list[str] = []
    for cpu in cpus:
        last = parts[-1].split("-") if parts else []
        if last and int(last[-1]) == cpu - 1:
            parts[-1] = f"{last[0]}-{cpu}"
        else:
            parts.append(str(cpu))
    return ",".join(parts) or "none"


def _numbers(path: Path) -> tuple[int, ...]:
    """The numbers in a file such as ``0-3,8``; none if it cannot be read."""
    try:
        text = path.read_text(encoding="ascii").strip()
        ranges = [part.split("-") for part in text.split(",") if part]
        return tuple(number for ends in ranges for number in range(int(ends[0]), int(ends[-1]) + 1))
    except (OSError, ValueError):
        return ()


def _bytes(path: Path) -> int:
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    words = next((line.split() for line in lines if "MemTotal:" in line), ["0", "kB"])
    return int(words[-2]) * 1024

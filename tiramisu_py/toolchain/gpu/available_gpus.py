"""The choice of a GPU: ``device="gpu"``, ``"gpu:1"`` or ``"simulator"``."""

from __future__ import annotations

import re
from dataclasses import field

from tiramisu_py.errors import ArgumentError
from tiramisu_py.records import dataclass

_DEVICE = re.compile(r"(gpu|simulator)(?::(\d{1,3}))?")


@dataclass(frozen=True)
class Device:
    """A GPU by its number, real or simulated; the first one of a program that uses several.

    If the user did not name the number (`named`), ranks of a distributed program choose different ones.
    """

    simulated: bool
    number: int = 0
    named: bool = field(default=True, compare=False)

    def plus(self, number: int) -> Device:
        """Device `number` of a program whose first device is this one."""
        return Device(self.simulated, self.number + number)

    def __str__(self) -> str:
        kind = "simulator" if self.simulated else "gpu"
        return f"{kind}:{self.number}" if self.number else kind


def as_device(given: object) -> Device:
    """The device that a text names; raises `ArgumentError` if it names none."""
    if isinstance(given, Device):
        return given
    found = _DEVICE.fullmatch(given) if isinstance(given, str) else None
    if not found:
        raise ArgumentError(f'device={given!r} is not a device: "gpu", "gpu:1" (by number), or "simulator"')
    return Device(found.group(1) == "simulator", int(found.group(2) or 0), found.group(2) is not None)

"""The arrays in generated code: a buffer's instances, on the host and on each GPU that uses it."""

from __future__ import annotations

from collections.abc import Mapping

from tiramisu_py.program.kernels import device_count
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import FILES, Device
from tiramisu_py.program.storage import Buffer, Memory, home_of
from tiramisu_py.records import dataclass

#: Kinds of memory that only kernels use: buffers in them are allocated inside kernels.
INSIDE = (Memory.SHARED, Memory.REGISTER)


@dataclass(frozen=True, eq=False)
class Instance:
    """One instance of a buffer, with its name in the code; `device` is None for host memory, FILES for a file.

    A `lasting` instance exists until the end of its scope, since operations on it may still be under way.
    """

    name: str
    buffer: Buffer
    device: Device = None
    lasting: bool = False

    @property
    def argument(self) -> bool:
        """Whether the caller passes it."""
        return self.name == self.buffer.name and self.buffer.argument


def array_name(buffer: Buffer, device: Device) -> str:
    """The name of the instance that a device uses; the caller's array has the name of the buffer."""
    if buffer.argument and buffer.device is not None:
        if device == buffer.device:
            return buffer.name
        return f"{buffer.name}@host" if device is None else str(home_of(buffer, device))
    return str(home_of(buffer, device))


def arrays_of(program: Program) -> Mapping[str, Instance]:
    """All instances that a program may use, by name."""
    count = device_count(program)
    devices: list[Device] = [None, *range(count)]
    lasting = count > 0 or any(
        (s.link.message is not None and s.link.message.asynchronous)
        or (s.link.transfer is not None and s.link.transfer.uses_files)
        for s in program.acting
    )
    found: dict[str, Instance] = {}
    for buffer in program.buffers.values():
        if buffer.memory is Memory.FILE:
            found[buffer.name] = Instance(buffer.name, buffer, FILES, lasting=True)
            continue
        for device in devices:
            name = array_name(buffer, device)
            found.setdefault(name, Instance(name, buffer, None if name == buffer.name else device, lasting))
    return found

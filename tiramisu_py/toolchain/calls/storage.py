"""The storage of a kernel that keeps values in files: a folder, or a simulated disk."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from dataclasses import KW_ONLY, field, replace
from pathlib import Path

from tiramisu_py.errors import ArgumentError
from tiramisu_py.ir import Allocate, Copy, LoopFunction
from tiramisu_py.ir.rewriting import walk
from tiramisu_py.program.statement import FILES
from tiramisu_py.program.storage import Memory
from tiramisu_py.public_calls import own_class
from tiramisu_py.records import dataclass
from tiramisu_py.toolchain.compilers.library import Library
from tiramisu_py.toolchain.compilers.simulator import Simulation

#: What ``storage=`` says for a disk in memory.
SIMULATOR = "simulator"
#: The times at which a simulated disk copies, as tm_file.c numbers them; without one, the seed chooses.
_TIMINGS = {None: -1, "lazy": 0, "shuffled": 1, "eager": 2}


@own_class
@dataclass(frozen=True)
class SimulatedDisk:
    """A disk in memory, for tests: ``f.compile(storage=tm.SimulatedDisk(write=0.2e9, read=0.3e9))``.

    `write` and `read` are bytes a second (0: any number), `latency` is the seconds of each copy; the copy of the number
    `fails` (from 1; 0: none) is told to have failed. When copies happen is said by ``seed=`` and ``timing=`` of
    `compile`: only when they are waited for, at random times, or at once. A load first spoils all that it will write.
    """

    _: KW_ONLY
    write: float = 0
    read: float = 0
    latency: float = 0
    fails: int = 0

    def __post_init__(self) -> None:
        for name in ("write", "read", "latency", "fails"):
            value = getattr(self, name)
            kinds = (int,) if name == "fails" else (int, float)
            if isinstance(value, bool) or not isinstance(value, kinds) or not 0 <= value < float("inf"):
                raise ArgumentError(f"SimulatedDisk({name}={value!r}): give a number from 0 on")


@dataclass(frozen=True)
class StoragePart:
    """The storage of a compiled program, and the arrays of its copies to and from files, by the names of these."""

    arrays: Mapping[str, str]
    folder: str | None = None
    disk: SimulatedDisk | None = None
    simulation: Simulation = field(default_factory=Simulation)

    @property
    def simulated(self) -> bool:
        """Whether it is a disk in memory."""
        return self.disk is not None

    def behaving(self, seed: int | None, timing: str | None) -> StoragePart:
        """This storage with another simulation."""
        return replace(self, simulation=_simulation(seed, timing)) if self.simulated else self

    def prepare_thread(self, name: str, library: Library) -> None:
        """Chooses the folder, or the simulated disk, for the calls of this thread."""
        use, simulate = library.loaded[f"{name}_use_storage"], library.loaded["tm_file_simulate"]
        use.restype = simulate.restype = None
        use(None if self.folder is None else ctypes.c_char_p(os.fsencode(self.folder)))
        disk = self.disk or SimulatedDisk()
        seed, timing = self.simulation.seed or 0, _TIMINGS[self.simulation.timing]
        simulate(
            ctypes.c_bool(self.simulated), ctypes.c_uint64(seed), ctypes.c_int(timing), ctypes.c_double(disk.write),
            ctypes.c_double(disk.read), ctypes.c_double(disk.latency), ctypes.c_int64(disk.fails),
        )  # fmt: skip

    def require_usable(self, name: str, library: Library) -> None:
        """Raises `ArgumentError` for a folder in which no files can be."""
        if self.folder is None:
            return
        check, words = library.loaded["tm_file_check"], library.loaded["tm_file_error"]
        words.restype = ctypes.c_char_p
        if check(ctypes.c_char_p(os.fsencode(self.folder))) != 0:
            raise ArgumentError(f"{name}.compile(storage={self.folder!r}): {words().decode(errors='replace')}")


def storage_of(function: LoopFunction, given: object, seed: int | None, timing: str | None) -> StoragePart | None:
    """The storage of a function that keeps values in files; None for one that does not. Raises `ArgumentError`."""
    bodies = [function.body, *(version.function.body for version in function.companions.versions)]
    nodes = [node for body in bodies for node in walk(body)]
    if not any(isinstance(node, Allocate) and node.memory is Memory.FILE for node in nodes):
        if given is not None:
            raise ArgumentError(
                f"storage={given!r} is for values in files, and {function.name} has none: see offload, and tm.CPU2FILE"
            )
        return None
    copies = [node for node in nodes if isinstance(node, Copy) and node.device == FILES]
    ends = {n.statement: n.source if n.target_device == FILES else n.target for n in copies}
    part = StoragePart({name: array.partition("@")[0] for name, array in ends.items()})
    if given is None:
        return part
    if isinstance(given, SimulatedDisk) or given == SIMULATOR:
        disk = given if isinstance(given, SimulatedDisk) else SimulatedDisk()
        return replace(part, disk=disk, simulation=_simulation(seed, timing))
    if isinstance(given, str | os.PathLike) and os.fspath(given):
        return replace(part, folder=str(Path(os.fsdecode(os.fspath(given))).absolute()))
    raise ArgumentError(f'storage={given!r}: give a folder on a disk, "simulator", or a tm.SimulatedDisk')


def _simulation(seed: int | None, timing: str | None) -> Simulation:
    made = Simulation(seed, timing)
    if timing not in _TIMINGS:
        raise ArgumentError(f"timing={timing!r}: a simulated disk is eager, lazy or shuffled")
    return made

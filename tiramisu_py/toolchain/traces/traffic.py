"""The traffic of a call, array by array: what was copied between memories, or to and from files, and what GPUs read and
wrote in place.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import field, replace

from tiramisu_py.ir import Copy, LoopFunction
from tiramisu_py.ir.rewriting import walk
from tiramisu_py.program.statement import is_gpu
from tiramisu_py.records import dataclass

#: The copies that the runtime tells by name.
_MOST = 128


@dataclass(frozen=True)
class ArrayTraffic:
    """The bytes of one array that one call has moved.

    `copied`: between memories, in all directions; `stored`: to files; `loaded`: from files. `read` and `written`: by
    GPUs, in the host's memory, in place; `requests`: the lines of 128 bytes that warps asked for, one for each line
    that an instruction of a warp touches, without caches (the k-th access of each lane at one place of the kernel is
    one instruction). These three are 0 for arrays that are not in such memory, and None where nothing counts them.
    Calls at a time that share a unified array count each other's accesses.
    """

    copied: int | None = 0
    read: int | None = 0
    written: int | None = 0
    requests: int | None = 0
    stored: int | None = 0
    loaded: int | None = 0


@dataclass(frozen=True)
class Launches:
    """What one call has launched: kernels, and CUDA graphs; the kernels of graphs are among the first."""

    kernels: int
    graphs: int


@dataclass(frozen=True)
class CallTraffic:
    """The traffic of the last call of a thread: its copies by name, of `copy_count` names, and accesses in place.

    `stored` and `loaded` are the bytes of copies to and from files, by array: None if there are too many copies.
    """

    copies: tuple[tuple[str, int], ...]
    copy_count: int
    in_place: Mapping[str, ArrayTraffic]
    launches: Launches = Launches(0, 0)
    stored: Mapping[str, int | None] = field(default_factory=dict)
    loaded: Mapping[str, int | None] = field(default_factory=dict)

    @classmethod
    def read(cls, library: ctypes.CDLL, in_place: Mapping[str, ArrayTraffic]) -> CallTraffic:
        """That of the last call of a library."""
        copies = library["tm_gpu_copies"]
        copies.restype = ctypes.c_int
        count = int(copies(ctypes.c_int(0), None, None))
        names, sizes = (ctypes.c_char_p * min(count, _MOST))(), (ctypes.c_int64 * min(count, _MOST))()
        if count:
            copies(ctypes.c_int(len(names)), names, sizes)
        launched = (ctypes.c_int64 * 2)()
        library["tm_gpu_launches"](launched)
        named = tuple(((n or b"").decode(), s) for n, s in zip(names, sizes, strict=True))
        return cls(named, count, in_place, Launches(*launched))

    def with_files(self, library: ctypes.CDLL, arrays: Mapping[str, str]) -> CallTraffic:
        """This with the copies to and from files of the last call of a library, whose `arrays` they are."""
        copies = library["tm_file_copies"]
        copies.restype = ctypes.c_int
        names, sizes = (ctypes.c_char_p * _MOST)(), [(ctypes.c_int64 * _MOST)() for _ in range(2)]
        count = int(copies(ctypes.c_int(_MOST), names, *sizes))
        known = count <= _MOST
        totals = [dict[str, int | None].fromkeys(arrays.values(), 0 if known else None) for _ in sizes]
        for at in range(count if known else 0):
            array = arrays[(names[at] or b"").decode()]
            for total, moved in zip(totals, sizes, strict=True):
                total[array] = (total[array] or 0) + moved[at]
        return replace(self, stored=totals[0], loaded=totals[1])

    def by_array(self, function: LoopFunction) -> dict[str, ArrayTraffic]:
        """Array by array; the instances on devices have the name of the array."""
        bodies = [function.body, *(version.function.body for version in function.companions.versions)]
        copies = (node for body in bodies for node in walk(body) if isinstance(node, Copy) and is_gpu(node.device))
        arrays = {copy.statement: copy.source.partition("@")[0] for copy in copies}
        moved = dict.fromkeys(arrays.values(), 0)
        for name, size in self.copies:
            moved[arrays[name]] += size
        known = self.copy_count <= _MOST
        found = {**self.in_place, **{name: ArrayTraffic(size if known else None) for name, size in moved.items()}}
        for name, stored in self.stored.items():
            found[name] = replace(found.get(name, ArrayTraffic()), stored=stored, loaded=self.loaded[name])
        return found

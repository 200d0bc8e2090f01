"""The result of the emitter: the text of each file, and what is needed to compile and link them.

The C compiler flags that give the generated sources the meaning of the algorithm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class Emitted(Mapping[str, str]):
    """The emitted files of one function: text by name.

    `prototype` is the C function's, and `others` are those of further functions; `libraries` are flags for the linker;
    `uses_gpu` means that the files contain the GPU runtime and that the function runs on a device.
    """

    files: Mapping[str, str]
    prototype: str
    libraries: tuple[str, ...] = ()
    uses_gpu: bool = False
    others: tuple[str, ...] = ()

    def with_function(self, other: Emitted) -> Emitted:
        """These files and those of another function for the same library; both have the same runtime."""
        libraries = tuple(dict.fromkeys([*self.libraries, *other.libraries]))
        others = (*self.others, other.prototype, *other.others)
        return replace(self, files={**self.files, **other.files}, libraries=libraries, others=others)

    def __getitem__(self, name: str) -> str:
        return self.files[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)


#: GNU C for vectors; integers wrap; floats round after each operation; no errno, since nothing reads it.
REQUIRED = ("-std=gnu11", "-fwrapv", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
#: Optional flags: the optimisation level, and OpenMP (without it, everything runs on one thread).
OPTIMISATION = ("-O2",)
THREADS = ("-fopenmp",)
LIBRARIES = ("-lm",)

"""What the emitter gives: the text of each file, and what those who compile them need to know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Emitted(Mapping[str, str]):
    """The emitted files of one function: text by name.

    `prototype` is that of the C function; `libraries` are flags for the linker; `uses_gpu` says that the files contain
    the runtime of GPUs, and that the function runs on a device.
    """

    files: Mapping[str, str]
    prototype: str
    libraries: tuple[str, ...] = ()
    uses_gpu: bool = False

    def __getitem__(self, name: str) -> str:
        return self.files[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)

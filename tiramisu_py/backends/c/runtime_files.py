"""The runtime files that go with the source of a function."""

from __future__ import annotations

from importlib import resources

from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class RuntimeFile:
    """A file that goes with the source of a function; the source includes it if `included`."""

    name: str
    text: str
    included: bool = True


def packaged(folder: str, *names: str, included: bool = True) -> tuple[RuntimeFile, ...]:
    """Runtime files from a folder of this package, such as ``mpi/runtime``."""
    files = resources.files("tiramisu_py.backends")
    for part in folder.split("/"):
        files = files.joinpath(part)
    return tuple(RuntimeFile(name, files.joinpath(name).read_text(encoding="utf-8"), included) for name in names)

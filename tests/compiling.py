"""What tests compile by themselves: once, by content, into the cache that the tests keep."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tests.processors import toolchain
from tiramisu_py.toolchain import open_cache
from tiramisu_py.toolchain.compilers.cache import build_key
from tiramisu_py.toolchain.compilers.precompiled import included_headers, precompiled_intrinsics
from tiramisu_py.toolchain.compilers.processor import this_machine

_SOURCES = (".c", ".cpp", ".cu")


def intrinsics(compiler: str, flags: Sequence[str]) -> tuple[str, ...]:
    """The flags with which gcc reads <immintrin.h> precompiled."""
    return precompiled_intrinsics(open_cache(), toolchain(compiler), flags)


def compiled(
    command: Sequence[str],
    folder: Path,
    *products: str,
    more: Callable[[], Iterable[str]] = tuple,
    reads: Iterable[Path] = (),
) -> None:
    """Lets `command` make `products` in a folder, of all files there and those that it `reads` elsewhere; or copies
    them from the cache.

    ``more()`` are arguments that change how long it takes, not what is made.
    """
    named = [argument.replace(str(folder), ".") for argument in command]
    found = [path for path in (*sorted(folder.iterdir()), *reads) if path.is_file()]
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in found}
    machine = this_machine() if any("native" in word for word in named) else ""
    own = toolchain(command[0]).identity
    sources = [word for word in named if word.endswith(_SOURCES)]
    follows = len(sources) == 1  # of several, compilers do not write the dependencies into one file

    def build(into: Path) -> list[Path]:
        dependencies = ["-MMD", "-MF", "dependencies.d"] if follows else []
        call = [*command[:1], *more(), *command[1:], *dependencies]
        done = subprocess.run(call, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr[:20000]}"
        for product in products:
            shutil.copy(folder / product, into / product)
        return included_headers(folder / "dependencies.d") if follows else []

    entry = open_cache().entry(build_key("of a test", named, files, own, machine, products), build)
    for product in products:
        if not (folder / product).exists():
            shutil.copy(entry / product, folder / product)

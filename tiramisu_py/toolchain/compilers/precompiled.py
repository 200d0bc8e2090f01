"""Headers compiled once: to read <immintrin.h> takes gcc as long as to compile most kernels with vectors, and those of
simulated kernels take as long as most of these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from tiramisu_py.records import dataclass
from tiramisu_py.toolchain.compilers.c_compiler import Toolchain
from tiramisu_py.toolchain.compilers.cache import Cache, build_key
from tiramisu_py.toolchain.compilers.tools import run


@dataclass(frozen=True)
class Headers:
    """The beginning of sources: a text that includes headers, with those of them that are no system's.

    `name` is that of an empty file, included first. gcc reads what it finds compiled beside it instead, unless that is
    for another gcc or for other flags; then it reads this, and each source includes what it needs.
    """

    name: str
    text: str
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def language(self) -> str:
        """The compiler's name for what they are."""
        return "c++-header" if self.files else "c-header"


_INTRINSICS = Headers("tm_intrinsics.h", "#include <immintrin.h>\n")
_USING = re.compile(r'^#include "(tm_idioms|tm_masks|tm_gathers|tm_stores)\.h"$', re.MULTILINE)
_VECTORS = re.compile(r'^#include "tm_vectors\.h"$', re.MULTILINE)


def uses_intrinsics(text: str, vector_bytes: int) -> bool:
    """Whether a source includes <immintrin.h> on x86, and defines no macro that system headers depend on."""
    included = _USING.search(text) or (vector_bytes == 64 and _VECTORS.search(text))
    return bool(included) and "_SOURCE" not in text


def precompiled_intrinsics(cache: Cache, toolchain: Toolchain, flags: Sequence[str]) -> tuple[str, ...]:
    """The flags with which gcc finds <immintrin.h> compiled, as `precompiled`; none for other processors than x86."""
    return precompiled(cache, toolchain, flags, _INTRINSICS) if toolchain.is_x86 else ()


def precompiled(cache: Cache, toolchain: Toolchain, flags: Sequence[str], headers: Headers) -> tuple[str, ...]:
    """The flags with which gcc finds headers compiled. None for other compilers, where they cannot be compiled, and the
    first time that they are asked for: a single kernel is compiled sooner without.
    """
    if toolchain.family != "gcc" or toolchain.absent:
        return ()
    key = build_key("precompiled", headers.text, headers.files, toolchain.identity, list(flags))
    if cache.known(key) is None:
        cache.remember(key, {"asked": True})
        return ()

    def build(folder: Path) -> list[Path]:
        for name, text in {**headers.files, headers.name: "", "content.h": headers.text}.items():
            (folder / name).write_text(text, encoding="utf-8")
        written = ["-MD", "-MF", "headers.d", "-x", headers.language, "content.h", "-o", f"{headers.name}.gch"]
        if run([*toolchain.command, *flags, *written], folder).returncode == 0:
            return included_headers(folder / "headers.d")
        (folder / f"{headers.name}.gch").unlink(missing_ok=True)
        return []

    entry = cache.entry(key, build)
    return ("-include", str(entry / headers.name)) if (entry / f"{headers.name}.gch").exists() else ()


def included_headers(dependencies: Path) -> list[Path]:
    """The headers outside of the build folder in a file of dependencies (gcc -MMD), without the precompiled one."""
    text = dependencies.read_text(encoding="utf-8").replace("\\\n", " ").partition(":")[2]
    names = [name.replace("\\ ", " ") for name in re.split(r"(?<!\\)\s+", text.strip())]
    found = [Path(name) for name in names]
    return [path for path in found if path.is_absolute() and not path.name.startswith(_INTRINSICS.name)]

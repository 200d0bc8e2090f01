"""<immintrin.h> compiled once: to read it takes gcc as long as to compile most kernels with vectors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tiramisu_py.build.toolchains.c_compiler import Toolchain
from tiramisu_py.build.toolchains.cache import Cache, build_key
from tiramisu_py.build.toolchains.tools import run

#: An empty file, included first. gcc reads what it finds compiled beside it instead, unless that is for another gcc or
#: for other flags; then it reads this, and each source includes what it needs.
_NAME = "tm_intrinsics.h"
_CONTENT = "#include <immintrin.h>\n"
_USING = re.compile(r'^#include "(tm_idioms|tm_masks|tm_gathers|tm_stores)\.h"$', re.MULTILINE)
_VECTORS = re.compile(r'^#include "tm_vectors\.h"$', re.MULTILINE)


def uses_intrinsics(text: str, vector_bytes: int) -> bool:
    """Whether a source includes <immintrin.h> on x86, and defines no macro that system headers depend on."""
    included = _USING.search(text) or (vector_bytes == 64 and _VECTORS.search(text))
    return bool(included) and "_SOURCE" not in text


def precompiled_intrinsics(cache: Cache, toolchain: Toolchain, flags: Sequence[str]) -> tuple[str, ...]:
    """The flags with which gcc finds <immintrin.h> compiled. None for other compilers and processors, where it cannot
    be compiled, and the first time that it is asked for: a single kernel is compiled sooner without.
    """
    if toolchain.family != "gcc" or not toolchain.is_x86 or toolchain.absent:
        return ()
    key = build_key("precompiled", _CONTENT, toolchain.identity, list(flags))
    if cache.known(key) is None:
        cache.remember(key, {"asked": True})
        return ()

    def build(folder: Path) -> list[Path]:
        (folder / _NAME).write_text("", encoding="utf-8")
        (folder / "content.h").write_text(_CONTENT, encoding="utf-8")
        compiled = ["-MD", "-MF", "headers.d", "-x", "c-header", "content.h", "-o", f"{_NAME}.gch"]
        if run([*toolchain.command, *flags, *compiled], folder).returncode == 0:
            return included_headers(folder / "headers.d")
        (folder / f"{_NAME}.gch").unlink(missing_ok=True)
        return []

    entry = cache.entry(key, build)
    return ("-include", str(entry / _NAME)) if (entry / f"{_NAME}.gch").exists() else ()


def included_headers(dependencies: Path) -> list[Path]:
    """The headers outside of the build folder in a file of dependencies (gcc -MMD), without the precompiled one."""
    text = dependencies.read_text(encoding="utf-8").replace("\\\n", " ").partition(":")[2]
    names = [name.replace("\\ ", " ") for name in re.split(r"(?<!\\)\s+", text.strip())]
    found = [Path(name) for name in names]
    return [path for path in found if path.is_absolute() and not path.name.startswith(_NAME)]

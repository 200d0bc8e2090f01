"""A library that C programs link on a machine without Python: a folder with everything that it takes."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tiramisu_py.build.cache import replace_file
from tiramisu_py.build.flags import OPTIMISED, STRICT, fast_flags, sanitize_flags
from tiramisu_py.build.library import Recipe
from tiramisu_py.build.templates import CMAKE, MAKEFILE, MARK, NATIVE_IF_THERE, OPENMP_IF_THERE, PKG_CONFIG, README
from tiramisu_py.build.toolchain import run_checked
from tiramisu_py.errors import ToolchainError


def export(recipe: Recipe, prototype: str, folder: Path) -> Path:
    """Writes sources, libraries and build files of `recipe` into `folder`, which is created; answers the folder.

    Raises `ToolchainError` where that would replace a file that an export of the same function did not write, or where
    the folder cannot be written.
    """
    texts = {**recipe.sources, **_build_files(recipe, prototype)}
    libraries = _libraries(recipe)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _require_ours(recipe.name, folder, [*texts, *libraries])
        for name, text in texts.items():
            replace_file(folder / name, text.encode(), mode=0o644)
        for name, content in libraries.items():
            replace_file(folder / name, content, mode=0o755 if name.endswith(".so") else 0o644)
    except OSError as error:
        raise ToolchainError(f"{recipe.name} cannot be exported to {folder}: {error}") from error
    return folder


def _require_ours(name: str, folder: Path, files: list[str]) -> None:
    foreign = [file for file in files if (folder / file).exists()]
    if foreign and _first_line(folder / "Makefile") != MARK.replace("@NAME@", name):
        raise ToolchainError(
            f"{folder} has files that no export of {name} wrote ({', '.join(sorted(foreign))}); they are not replaced: "
            "choose another folder, or remove them"
        )


def _first_line(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            return stream.readline().rstrip("\n")
    except FileNotFoundError:
        return ""


def _libraries(recipe: Recipe) -> dict[str, bytes]:
    """The shared and the static library, built from the sources as the Makefile would."""
    static = f"lib{recipe.name}.a"
    with tempfile.TemporaryDirectory(prefix="tiramisu_py-") as work:
        folder = Path(work)
        objects = recipe.compile_objects(folder)
        recipe.toolchain.link(objects, recipe.file_name, recipe.flags, folder)
        run_checked([os.environ.get("AR", "") or "ar", "rcs", static, *objects], folder)
        return {name: (folder / name).read_bytes() for name in (recipe.file_name, static)}


def _build_files(recipe: Recipe, prototype: str) -> dict[str, str]:
    filled = _replacements(recipe, prototype)
    return {
        "Makefile": _filled(MAKEFILE, filled),
        f"{recipe.name}.pc": _filled(PKG_CONFIG, filled),
        f"{recipe.name}-config.cmake": _filled(CMAKE, filled),
        "README.md": _filled(README, filled),
    }


def _replacements(recipe: Recipe, prototype: str) -> dict[str, str]:
    private = [*recipe.openmp, "-lm"]
    processor = recipe.processor
    return {
        "NAME": recipe.name,
        "PROTOTYPE": prototype,
        "CFLAGS": " ".join(OPTIMISED),
        "ARCH": NATIVE_IF_THERE if processor.is_local else " ".join(processor.flags),
        "OPENMP": OPENMP_IF_THERE if recipe.uses_openmp else "",
        "STRICT": " ".join([*STRICT, *fast_flags(recipe.fast), *sanitize_flags(recipe.sanitize)]),
        "SOURCES": " ".join(name for name in recipe.sources if name.endswith(".c")),
        "HEADERS": " ".join(name for name in recipe.sources if name.endswith(".h")),
        "INTERFACE": " ".join(_interface(recipe)),
        "SONAME": recipe.toolchain.soname(recipe.file_name),
        "PRIVATE": " ".join(private),
        "PRIVATE_LIST": ";".join(private),
        "PROCESSOR": processor.name,
        "COMPILER": recipe.toolchain.version.splitlines()[0],
    }


def _interface(recipe: Recipe) -> list[str]:
    """The headers that a program needs: the function's own, and those of the sources that it includes."""
    found: list[str] = []
    waiting = [f"{recipe.name}.h"]
    while waiting:
        name = waiting.pop()
        found.append(name)
        text = recipe.sources.get(name, "")
        waiting += [other for other in recipe.sources if f'"{other}"' in text and other not in found]
    return found


def _filled(template: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        template = template.replace(f"@{name}@", value)
    return template

"""Export of a library for C programs on machines without Python: a folder with all files."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import starmap
from pathlib import Path

from tiramisu_py.errors import ToolchainError
from tiramisu_py.toolchain.compilers.c_compiler import work_folder
from tiramisu_py.toolchain.compilers.cache import open_cache
from tiramisu_py.toolchain.compilers.cuda_compiler import cuda_flags
from tiramisu_py.toolchain.compilers.flags import GCC_TOGETHER, OPTIMISED, STRICT, fast_flags, sanitize_flags
from tiramisu_py.toolchain.compilers.images import image_file
from tiramisu_py.toolchain.compilers.library import LibraryRecipe
from tiramisu_py.toolchain.compilers.processor import Processor
from tiramisu_py.toolchain.compilers.tools import run_checked
from tiramisu_py.toolchain.export_templates import (
    CHOICE,
    CMAKE,
    FIND_MPI,
    GPU_README,
    IMAGE,
    IMAGES,
    LINK_MPI,
    MAKEFILE,
    MARK,
    MPI_CC,
    MPI_README,
    NATIVE_IF_THERE,
    OPENMP_IF_THERE,
    PKG_CONFIG,
    PLAIN_CC,
    README,
    SIMULATED_README,
    TOGETHER_IF_THERE,
    VERSION_FLAGS,
    WIDTH_IF_THERE,
)
from tiramisu_py.toolchain.gpu.gpu_support import GpuPart


def export(recipe: LibraryRecipe, prototype: str, folder: Path, gpu: GpuPart | None = None) -> Path:
    """Writes sources, libraries and build files of `recipe` into `folder`, which is created; returns the folder. All
    files are written to a temporary place first, and then moved: an export that fails leaves nothing.

    Libraries of a program that uses GPUs (`gpu`) contain its compiled kernels, or have the simulator beside them.

    Raises `ToolchainError` if a file would be replaced that an export of the same function did not write, or if the
    folder cannot be written.
    """
    embedded, beside = gpu.exported(recipe.name) if gpu else ({}, {})
    recipe = replace(recipe, embedded=embedded)
    texts = {**recipe.files, **_build_files(recipe, prototype, gpu)}
    libraries = {**_libraries(recipe), **beside}
    files = {**{name: text.encode() for name, text in texts.items()}, **libraries}
    try:
        with _created(folder):
            _require_ours(recipe.name, folder, list(files))
            _write(files, folder)
    except OSError as error:
        raise ToolchainError(f"{recipe.name} cannot be exported to {folder}: {error}") from error
    return folder


@contextlib.contextmanager
def _created(folder: Path) -> Iterator[None]:
    """Creates a folder and its missing parents; removes them again if an error occurs inside."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for path in made:
            with contextlib.suppress(OSError):
                path.rmdir()
        raise


def _write(files: Mapping[str, bytes], folder: Path) -> None:
    """Moves files into a folder once all of them are on its disk. The Makefile comes first: a later export recognises
    the folder by it.
    """
    work = Path(tempfile.mkdtemp(prefix=".export-", dir=folder))
    try:
        for name, content in files.items():
            (work / name).write_bytes(content)
            (work / name).chmod(0o755 if name.endswith(".so") else 0o644)
        for name in sorted(files, key=lambda name: name != "Makefile"):
            os.replace(work / name, folder / name)
    finally:
        shutil.rmtree(work, ignore_errors=True)


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


def _libraries(recipe: LibraryRecipe) -> dict[str, bytes]:
    """The shared and the static library, built from the sources as the Makefile would."""
    static = f"lib{recipe.name}.a"
    with work_folder() as folder:
        objects = recipe.compile_objects(folder, open_cache())
        recipe.toolchain.link(objects, recipe.file_name, recipe.flags, folder, recipe.linked)
        run_checked([recipe.toolchain.archiver, "rcs", static, *objects], folder)
        return {name: (folder / name).read_bytes() for name in (recipe.file_name, static)}


def _build_files(recipe: LibraryRecipe, prototype: str, gpu: GpuPart | None) -> dict[str, str]:
    filled = {**_replacements(recipe, prototype), **_mpi_replacements(recipe), **_gpu_replacements(recipe, gpu)}
    return {
        "Makefile": _filled(MAKEFILE, filled),
        f"{recipe.name}.pc": _filled(PKG_CONFIG, filled),
        f"{recipe.name}-config.cmake": _filled(CMAKE, filled),
        "README.md": _filled(README, filled),
    }


def _replacements(recipe: LibraryRecipe, prototype: str) -> dict[str, str]:
    private = [*recipe.openmp, *recipe.libraries]
    processor = recipe.processor
    together = _filled(TOGETHER_IF_THERE, {"TOGETHER": " ".join(GCC_TOGETHER)})
    return {
        "NAME": recipe.name,
        "PROTOTYPE": "\n    ".join([prototype, *recipe.sources.others]),
        "CFLAGS": " ".join(OPTIMISED),
        "VERSION": " $(VERSION)" if recipe.versions else "",
        "VERSIONS": "".join(["\n" * bool(recipe.versions), *starmap(_version_flags, recipe.versions.items())]),
        "ARCH": NATIVE_IF_THERE if processor.is_local else " ".join(processor.flags),
        "VECTORS": _filled(WIDTH_IF_THERE, {"WIDTH": " ".join(processor.width)}) if processor.width else "",
        "OPENMP": OPENMP_IF_THERE if recipe.uses_openmp else "",
        "STRICT": " ".join([*STRICT, *fast_flags(recipe.fast), *sanitize_flags(recipe.sanitize), together]),
        "SOURCES": " ".join(name for name in recipe.files if name.endswith(".c")),
        "HEADERS": " ".join(name for name in recipe.files if name.endswith((".h", ".inc"))),
        "LIBRARIES": " ".join(recipe.libraries),
        "INTERFACE": " ".join(_interface(recipe)),
        "SONAME": recipe.toolchain.soname(recipe.file_name),
        "PRIVATE": " ".join(private),
        "PRIVATE_LIST": ";".join(private),
        "CHOICE": _filled(CHOICE, {"LISTED": _listed(recipe), "NAME": recipe.name}) if recipe.versions else "",
        "PROCESSOR": "these processors" if recipe.versions else processor.name,
        "REBUILT": _rebuilt(recipe),
        "EXAMPLE": "" if processor.machine or recipe.versions else " ARCH=-march=x86-64-v3",
        "COMPILER": recipe.toolchain.version.splitlines()[0],
    }


def _version_flags(source: str, processor: Processor) -> str:
    """The line of a Makefile with the flags of a version."""
    width, flags = " ".join(processor.width), " ".join(processor.flags)
    asked = f" {_filled(WIDTH_IF_THERE, {'WIDTH': width}).replace('$(ARCH)', flags)}" if width else ""
    return _filled(VERSION_FLAGS, {"NAME": Path(source).stem, "FLAGS": flags, "WIDTH": asked})


def _listed(recipe: LibraryRecipe) -> str:
    """The processors of a function's versions."""
    return ", ".join(processor.name for processor in recipe.versions.values())


def _rebuilt(recipe: LibraryRecipe) -> str:
    """The text on rebuilding the libraries on a machine of another architecture."""
    toolchain = recipe.toolchain
    if not recipe.processor.machine:
        return ""
    command = shlex.join([Path(toolchain.command[0]).name, *toolchain.command[1:]])
    variables = f"CC={shlex.quote(command)} AR={Path(toolchain.archiver).name}"
    said = f"or, on a machine of another kind than {toolchain.machine}, by its compiler:"
    return f"{said}\n\n    make clean all {variables}\n\n"


def _mpi_replacements(recipe: LibraryRecipe) -> dict[str, str]:
    """The MPI parts of a distributed function's build files."""
    if recipe.mpi is None:
        other = Path(recipe.toolchain.command[0]).name if recipe.processor.machine else "clang"
        plain = {"CC": PLAIN_CC, "OTHER_CC": other, "CALLED_CC": "cc"}
        return {**plain, "FIND_MPI": "", "LINK_MPI": "", "STATIC_MPI": "", "MPI": ""}
    text = _filled(MPI_README, {"MPI_VERSION": recipe.mpi.version.split(",")[0][:80].strip()})
    own = {"CC": MPI_CC, "OTHER_CC": "mpicc", "CALLED_CC": "mpicc"}
    return {**own, "FIND_MPI": FIND_MPI, "LINK_MPI": LINK_MPI, "STATIC_MPI": ";MPI::MPI_C", "MPI": text}


def _gpu_replacements(recipe: LibraryRecipe, gpu: GpuPart | None) -> dict[str, str]:
    """The GPU parts of a program's build files."""
    if gpu is None:
        return {"IMAGES": "", "GPU": "", "BESIDE": ""}
    if gpu.simulator:
        beside = " ".join(gpu.exported(recipe.name)[1])
        return {"IMAGES": "", "GPU": SIMULATED_README, "BESIDE": f" {beside}"}
    made = gpu.compiled.images if gpu.compiled else ()
    commands = [
        _filled(IMAGE, {
            "NAME": recipe.name, "ARCHITECTURE": a.name, "KIND": a.file_ending, "FILE": image_file(recipe.name, a),
        })
        for a in (image.architecture for image in made)
    ]  # fmt: skip
    images = IMAGES.replace("@NVCCFLAGS@", " ".join(cuda_flags(recipe.fast))) + "".join(commands) if made else ""
    names = ", ".join(image.architecture.name for image in made) or "none"
    compiler = gpu.compiled.compiler if gpu.compiled else "nothing"
    return {"IMAGES": images, "GPU": _filled(GPU_README, {"ARCHITECTURES": names, "CUDA": compiler}), "BESIDE": ""}


def _interface(recipe: LibraryRecipe) -> list[str]:
    """The headers that a program needs: the function's own, and the headers among the sources that it includes."""
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

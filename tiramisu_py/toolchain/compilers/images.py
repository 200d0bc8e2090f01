"""Compiled kernels inside a library: the C text of the runtime's table of images, and of their bytes."""

from __future__ import annotations

from collections.abc import Sequence

from tiramisu_py.records import dataclass

_LINE = 32

#: C code that finds a library's folder when it is loaded; see `relocatable_program`.
_BESIDE = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "tm_gpu.h"

static char driver[4096], kernels[4096];

/* The simulator, and the kernels for it, are in the folder of this library. */
__attribute__((constructor)) static void find_libraries(void) {
    Dl_info found;
    const char *const self = dladdr(driver, &found) != 0 && found.dli_fname != NULL ? found.dli_fname : "";
    const char *const end = strrchr(self, '/');
    const int length = end != NULL ? (int)(end - self) : 1;
    snprintf(driver, sizeof driver, "%.*s/@DRIVER@", length, end != NULL ? self : ".");
    snprintf(kernels, sizeof kernels, "%.*s/@KERNELS@", length, end != NULL ? self : ".");
}
"""


@dataclass(frozen=True)
class Architecture:
    """An architecture of compiled kernels: sm_`number`, or PTX for architectures from compute_`number` on."""

    number: int
    virtual: bool = False

    @property
    def name(self) -> str:
        """The compilers' name for it."""
        return f"{'compute' if self.virtual else 'sm'}_{self.number}"

    @property
    def file_ending(self) -> str:
        """The file name extension of such kernels."""
        return "ptx" if self.virtual else "cubin"

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Image:
    """The kernels of a program, compiled for one architecture."""

    architecture: Architecture
    content: bytes


def program_sources(name: str, kernels: Sequence[str], images: Sequence[Image]) -> dict[str, str]:
    """The files that define ``<name>_program`` for the CUDA driver: a table, and a file of bytes for each image."""
    bytes_of = {image_file(name, image.architecture): string_of(image.content) for image in images}
    lines = ['#include "tm_gpu.h"', ""]
    for image in images:
        lines += [
            f"static const char {image.architecture.name}[] __attribute__((aligned(16))) =",
            f'#include "{image_file(name, image.architecture)}"',
            "    ;",
        ]
    entries = [
        f"{{{'TM_GPU_PTX' if a.virtual else 'TM_GPU_CUBIN'}, {a.number}, {a.name}, sizeof {a.name}}}"
        for a in (image.architecture for image in images)
    ]
    return {f"{name}_images.c": "\n".join(lines) + _table(name, "NULL", entries, kernels), **bytes_of}


def image_file(name: str, architecture: Architecture) -> str:
    """The file with the bytes of an image, as a C string literal."""
    return f"{name}_{architecture.name}.inc"


def simulated_program(name: str, kernels: Sequence[str], driver: str, library: str | None) -> dict[str, str]:
    """The file that defines ``<name>_program`` for the simulator, whose libraries are at these paths."""
    entries = [f"{{TM_GPU_SIMULATED, 0, {_quoted(library)}, sizeof {_quoted(library)}}}"] if library else []
    return {f"{name}_images.c": '#include "tm_gpu.h"\n' + _table(name, _quoted(driver), entries, kernels)}


def relocatable_program(name: str, kernels: Sequence[str], driver: str, library: str | None) -> dict[str, str]:
    """The program relocated for libraries of these names in the folder of the library that contains it."""
    text = _BESIDE.replace("@DRIVER@", driver).replace("@KERNELS@", library or "")
    entries = ["{TM_GPU_SIMULATED, 0, kernels, sizeof kernels}"] if library else []
    return {f"{name}_images.c": text + _table(name, "driver", entries, kernels)}


def _table(name: str, driver: str, entries: Sequence[str], kernels: Sequence[str]) -> str:
    images, count = ("images", len(entries)) if entries else ("NULL", 0)
    named = "kernel_names" if kernels else "NULL"
    lines = [""]
    if entries:
        lines += ["static const tm_gpu_image images[] = {", *(f"    {entry}," for entry in entries), "};"]
    if kernels:
        lines += [f"static const char *const kernel_names[] = {{{', '.join(map(_quoted, kernels))}}};"]
    members = f'"{name}", {driver}, {images}, {count}, {named}, {len(kernels)}'
    lines += [
        f"extern const tm_gpu_program {name}_program;",
        f"const tm_gpu_program {name}_program = {{{members}}};",
    ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def string_of(content: bytes) -> str:
    """Bytes as a C string literal, which adds a 0 byte at the end."""
    rows = (content[start : start + _LINE] for start in range(0, len(content), _LINE))
    return "".join(f'"\\x{row.hex(" ").replace(" ", chr(92) + "x")}"\n' for row in rows) or '""\n'

"""NVIDIA's disassembler: found, and asked for the machine code of compiled kernels."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from tiramisu_py.errors import ToolchainError
from tiramisu_py.toolchain.compilers.c_compiler import work_folder
from tiramisu_py.toolchain.compilers.nvcc import toolkit_folders
from tiramisu_py.toolchain.compilers.tools import run
from tiramisu_py.view import MachineCode, counted_code

#: What installs a disassembler: Triton's wheel has one.
INSTALL = 'pip install "tiramisu_py[tuning]", or the CUDA toolkit (nvdisasm on PATH)'


def find_nvdisasm() -> str | None:
    """The path of nvdisasm: on PATH, in a CUDA toolkit, or in one of Python's packages; None if there is none."""
    return next(_candidates(), None)


def machine_code(cubin: bytes | str | os.PathLike[str]) -> dict[str, MachineCode]:
    """The machine code of each kernel of a cubin, its bytes or its file, by the kernel's name in it.

    Any compiler's cubin will do, such as Triton's ``kernel.asm["cubin"]``. Raises `ToolchainError` if no nvdisasm is
    installed, or if it does not know the file.
    """
    tool = find_nvdisasm()
    if tool is None:
        raise ToolchainError(f"machine code is read by nvdisasm, which is not installed: {INSTALL}")
    content = cubin if isinstance(cubin, bytes) else Path(cubin).read_bytes()
    with work_folder() as folder:
        (folder / "kernels.cubin").write_bytes(content)
        answer = run([tool, "-c", "kernels.cubin"], folder)
    if answer.returncode != 0:
        named = "these bytes" if isinstance(cubin, bytes) else os.fspath(cubin)
        raise ToolchainError(f"nvdisasm does not read {named} as a cubin: {(answer.stderr + answer.stdout).strip()}")
    return counted_code(answer.stdout)


def _candidates() -> Iterator[str]:
    on_path = shutil.which("nvdisasm")
    if on_path:
        yield on_path
    folders = [folder / "bin" for folder in toolkit_folders()]
    for kind in ("purelib", "platlib"):
        folders.append(Path(sysconfig.get_path(kind)) / "triton" / "backends" / "nvidia" / "bin")
    for folder in folders:
        if os.access(folder / "nvdisasm", os.X_OK):
            yield str(folder / "nvdisasm")

"""NVRTC, the CUDA compiler as a library, for machines without a toolkit. It needs no other compiler."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tiramisu_py.errors import ToolchainError
from tiramisu_py.records import dataclass
from tiramisu_py.toolchain.compilers.cache import Cache, digest
from tiramisu_py.toolchain.compilers.images import Architecture
from tiramisu_py.toolchain.files.tool_files import file_state

_SUCCESS, _COMPILATION = 0, 6


@dataclass(frozen=True)
class Nvrtc:
    """The library: its path, size and version, and the architectures that it compiles for. It is loaded when something
    is compiled.
    """

    path: str
    version: str
    architectures: tuple[int, ...]
    size: int = 0

    @property
    def identity(self) -> dict[str, Any]:
        """The identity of this compiler in keys of the cache. Its version does not tell updates apart."""
        return {"nvrtc": self.path, "version": self.version, "size": self.size}

    @property
    def loaded(self) -> ctypes.CDLL:
        """The library in this process. Raises `ToolchainError`."""
        try:
            return ctypes.CDLL(self.path)
        except OSError as error:
            raise ToolchainError(f"{self} cannot be loaded: {error}") from error

    def compile(
        self, file: str, sources: Mapping[str, str], architecture: Architecture, flags: Sequence[str]
    ) -> tuple[bytes, str]:
        """The compiled kernels of `file`, one of `sources`, and the compiler's log. Raises `ToolchainError`."""
        headers = {name: text for name, text in sources.items() if name != file}
        program, loaded = ctypes.c_void_p(), self.loaded
        self._check(
            loaded.nvrtcCreateProgram(
                ctypes.byref(program), sources[file].encode(), file.encode(), len(headers),
                _texts(headers.values()), _texts(headers),
            )
        )  # fmt: skip
        try:
            options = [f"--gpu-architecture={architecture}", *flags]
            code = loaded.nvrtcCompileProgram(program, len(options), _texts(options))
            log = self._content(program, "ProgramLog").decode(errors="replace").rstrip("\0")
            if code == _COMPILATION:
                raise ToolchainError(f"NVRTC refuses {file} for {architecture} ({' '.join(options)}):\n{log.strip()}")
            self._check(code)
            return self._content(program, "PTX" if architecture.virtual else "CUBIN"), log
        finally:
            loaded.nvrtcDestroyProgram(ctypes.byref(program))

    def _content(self, program: ctypes.c_void_p, kind: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(getattr(self.loaded, f"nvrtcGet{kind}Size")(program, ctypes.byref(size)))
        content = ctypes.create_string_buffer(size.value)
        self._check(getattr(self.loaded, f"nvrtcGet{kind}")(program, content))
        return content.raw

    def _check(self, code: int) -> None:
        if code != _SUCCESS:
            self.loaded.nvrtcGetErrorString.restype = ctypes.c_char_p
            words = (self.loaded.nvrtcGetErrorString(code) or b"").decode(errors="replace")
            raise ToolchainError(f"{self} failed with code {code}: {words}")

    def __str__(self) -> str:
        return f"NVRTC {self.version} ({self.path})"


def find_nvrtc(cache: Cache, oldest: int | None = None) -> Nvrtc | str:
    """The first loadable NVRTC that supports the architecture `oldest`, or the reason why there is none.

    It is looked for in Python's packages (the newest first), $CUDA_HOME, $CUDA_PATH, /usr/local/cuda and the system.
    """
    faults = []
    seen = set()
    for path in _candidates():  # one after the other: to ask the system starts processes
        if path in seen:
            continue
        seen.add(path)
        try:
            found = _examined(cache, path)
        except (OSError, AttributeError) as error:
            faults.append(str(error))
            continue
        if oldest is None or found.architectures[0] <= oldest:
            return found
        faults.append(f"{found} begins at sm_{found.architectures[0]}")
    return "; ".join(faults) or "NVRTC: not found"


def _candidates() -> Iterator[str]:
    packages = [Path(sysconfig.get_path(kind)) / "nvidia" for kind in ("purelib", "platlib")]
    homes = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    for package in packages:
        yield from map(str, sorted(package.glob("*/lib/libnvrtc.so.*[0-9]"), key=_major, reverse=True))
    for home in [*homes, Path("/usr/local/cuda")]:
        yield from map(str, sorted(home.glob("lib*/libnvrtc.so*"), reverse=True))
    system = ctypes.util.find_library("nvrtc")
    if system:
        yield system


def _major(path: Path) -> int:
    return int(path.suffix[1:])


def _examined(cache: Cache, path: str) -> Nvrtc:
    """The library of a path, or of a name that the system's loader knows. Raises `OSError` or `AttributeError`."""
    state = file_state(path) if os.path.isabs(path) else None
    record = cache.recall(digest(["nvrtc", path, state]), lambda: _asked(path)) if state else _asked(path)
    return Nvrtc(path, record["version"], tuple(record["architectures"]), state[1] if state else 0)


def _asked(path: str) -> dict[str, Any]:
    loaded = ctypes.CDLL(path)
    major, minor, count = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    loaded.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    loaded.nvrtcGetNumSupportedArchs(ctypes.byref(count))
    numbers = (ctypes.c_int * count.value)()
    loaded.nvrtcGetSupportedArchs(numbers)
    return {"version": f"{major.value}.{minor.value}", "architectures": sorted(numbers)}


def _texts(texts: Any) -> Any:
    encoded = [text.encode() for text in texts]
    return (ctypes.c_char_p * len(encoded))(*encoded)

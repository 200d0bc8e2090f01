"""Shared libraries: built from sources on disk, and loaded into this process."""

from __future__ import annotations

import ctypes
import logging
import os
import re
import shutil
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import field
from functools import partial
from pathlib import Path

from tiramisu_py.backends.c import Emitted
from tiramisu_py.errors import ToolchainError
from tiramisu_py.progress import step
from tiramisu_py.records import dataclass
from tiramisu_py.toolchain.compilers.c_compiler import Toolchain, known_toolchain
from tiramisu_py.toolchain.compilers.cache import Cache, build_key, digest, open_cache
from tiramisu_py.toolchain.compilers.flags import (
    CLANG_WARNINGS,
    GCC_TOGETHER,
    OPTIMISED,
    STRICT,
    WARNINGS,
    fast_flags,
    sanitize_flags,
)
from tiramisu_py.toolchain.compilers.mpi import Mpi
from tiramisu_py.toolchain.compilers.precompiled import included_headers, precompiled_intrinsics, uses_intrinsics
from tiramisu_py.toolchain.compilers.processor import Processor, resolve_processor
from tiramisu_py.toolchain.compilers.tools import RunningTools, run

#: The runtimes of GPUs and of files, which are parts of libraries.
RUNTIMES = ("tm_gpu.c", "tm_file.c")

_log = logging.getLogger(__name__)
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")

#: What makes a C compiler faster, for those who wait for it.
SHORTER = "unrolled loops and many versions of loops make long functions; the next call takes it from the cache"


@dataclass(frozen=True)
class LibraryRecipe:
    """The complete input of a library's build, from which the key of the cache is computed.

    `sources` are the emitted files; `embedded` are files made from them, with the GPU kernels. `mpi` is the MPI of a
    distributed function. `versions` are the processors of those C files that are not for `processor`.
    """

    name: str
    sources: Emitted
    toolchain: Toolchain
    processor: Processor
    fast: tuple[str, ...] = ()
    sanitize: tuple[str, ...] = ()
    embedded: Mapping[str, str] = field(default_factory=dict)
    mpi: Mpi | None = None
    versions: Mapping[str, Processor] = field(default_factory=dict)

    @property
    def files(self) -> dict[str, str]:
        """All files: text by name."""
        return {**self.sources, **self.embedded}

    @property
    def libraries(self) -> tuple[str, ...]:
        """The libraries that it is linked with, beside MPI, which mpicc knows."""
        return ("-lm", *self.sources.libraries)

    @property
    def linked(self) -> tuple[str, ...]:
        """All libraries to link with here."""
        return (*self.libraries, *(self.mpi.linking if self.mpi else ()))

    @property
    def flags(self) -> tuple[str, ...]:
        """The compiler's flags, in order."""
        return self._flags_for(self.processor)

    def _flags_of(self, source: str) -> tuple[str, ...]:
        """The flags with which a C file is compiled."""
        return self._flags_for(self.versions.get(source, self.processor))

    def _flags_for(self, processor: Processor) -> tuple[str, ...]:
        warnings = (*WARNINGS, *(CLANG_WARNINGS if self.toolchain.family == "clang" else ()))
        parallel = (*self.openmp, *(self.mpi.compiling if self.mpi else ()))
        together = GCC_TOGETHER if self.toolchain.family == "gcc" else ()
        return (*target_flags(processor, self.fast), *together, *parallel, *sanitize_flags(self.sanitize), *warnings)

    @property
    def uses_openmp(self) -> bool:
        """Whether a source has a pragma of OpenMP."""
        return any("#pragma omp" in text for text in self.sources.values())

    @property
    def is_unloaded(self) -> bool:
        """Whether its library may go while the process lives. MPI, GPUs and sanitizers keep addresses of it."""
        return self.mpi is None and not self.sources.uses_gpu and not self.sanitize

    @property
    def openmp(self) -> tuple[str, ...]:
        """The flags of OpenMP, if the sources use it and the compiler has it."""
        return self.toolchain.openmp if self.uses_openmp else ()

    @property
    def file_name(self) -> str:
        """The file name of the shared library."""
        return f"lib{self.name}.so"

    @property
    def key(self) -> str:
        """The key of this library in the cache."""
        files = dict(sorted(self.files.items()))
        mpi = self.mpi.identity if self.mpi else None
        versions = {source: list(self._flags_of(source)) for source in self.versions}
        flags = [list(self.flags), versions, list(self.linked)]
        return build_key("library", self.name, files, self.toolchain.identity, flags, mpi)

    @property
    def keys(self) -> dict[str, str]:
        """The keys of all functions among the sources, by their names: what a function does follows from its text."""
        names = [file.removesuffix(".c") for file in self.sources if file.endswith(".c")]
        return {name: digest([text for file, text in self.sources.items() if file.startswith(name)]) for name in names}

    def compile_objects(self, folder: Path, cache: Cache | None = None) -> list[str]:
        """Writes the sources into `folder` and compiles each C file; returns the object files.

        With a `cache`, the runtimes are compiled once for all programs.
        """
        _write(self.files, folder)
        sources = [name for name in self.files if name.endswith(".c")]
        return _side_by_side(lambda name: self._compiled(name, folder, cache), sources)

    def _compiled(self, source: str, folder: Path, cache: Cache | None) -> str:
        if source not in RUNTIMES or cache is None:
            return self._quickly(source, cache, lambda flags: self.toolchain.compile(source, flags, folder))
        made = cache.entry(self._runtime_key(source), partial(self._build_runtime, source))
        for file in (Path(source).with_suffix(".o"), Path(source).with_suffix(".d")):
            shutil.copyfile(made / file, folder / file)
        return Path(source).with_suffix(".o").name

    def _quickly(self, source: str, cache: Cache | None, compiled: Callable[[tuple[str, ...]], str]) -> str:
        """``compiled(flags)`` of a source: with precompiled system headers, if a `cache` may have them; if that fails,
        without them: the message is then of the source.
        """
        flags = self._flags_of(source)
        wanted = uses_intrinsics(self.files[source], self.versions.get(source, self.processor).vector_bytes)
        found = precompiled_intrinsics(cache, self.toolchain, flags) if cache and wanted else ()
        if found:
            with suppress(ToolchainError):
                return compiled((*flags, *found))
        return compiled(flags)

    @property
    def _runtime_files(self) -> dict[str, str]:
        return {name: text for name, text in sorted(self.sources.items()) if name.startswith("tm_")}

    def _runtime_key(self, source: str) -> str:
        return build_key("runtime object", source, self._runtime_files, self.toolchain.identity, list(self.flags))

    def _build_runtime(self, source: str, folder: Path) -> list[Path]:
        _write(self._runtime_files, folder)
        self.toolchain.compile(source, self.flags, folder)
        return []

    def build(self, folder: Path, cache: Cache | None = None) -> list[Path]:
        """Makes the shared library in `folder`; returns the included headers outside of it. See `cache.PROCEDURE`.

        One call of the compiler makes it of one source; several are compiled side by side, and linked. The files of
        this package, which are the same for all libraries, are not kept beside it.
        """
        with step(f"{self.name}: {self.toolchain.command[0]}", SHORTER):
            dependencies = self._built(folder, cache)
        headers = [header for made in dependencies for header in included_headers(folder / made)]
        packaged = [folder / name for name in self.files if name.startswith("tm_")]
        for leftover in [*folder.glob("*.o"), *folder.glob("*.d"), *packaged]:
            leftover.unlink()
        return headers

    def _built(self, folder: Path, cache: Cache | None) -> list[str]:
        """Makes the library; returns the files with the dependencies of its sources."""
        sources = [name for name in self.files if name.endswith(".c")]
        if len(sources) != 1:
            objects = self.compile_objects(folder, cache)
            self.toolchain.link(objects, self.file_name, self.flags, folder, self.linked)
            return [Path(made).with_suffix(".d").name for made in objects]
        _write(self.files, folder)
        return _side_by_side(lambda source: self._whole(source, folder, cache), sources)

    def _whole(self, source: str, folder: Path, cache: Cache | None) -> str:
        """Makes the library of its only source; returns the file with the dependencies."""
        whole = partial(self.toolchain.compile_library, source, self.file_name, folder=folder, libraries=self.linked)
        return self._quickly(source, cache, lambda flags: whole(flags=flags))


def target_flags(processor: Processor, fast: Collection[str]) -> tuple[str, ...]:
    """The flags that all kernels for a processor have in common. Raises `ToolchainError` for an unknown `fast`."""
    return (*STRICT, *fast_flags(fast), *OPTIMISED, *processor.flags, *processor.width)


def _side_by_side(compiled: Callable[[str], str], sources: Sequence[str]) -> list[str]:
    """``compiled(source)`` of each source, in threads: an interrupt, which reaches the main thread, ends them all."""
    tools = RunningTools()
    with ThreadPoolExecutor(max_workers=len(sources) or 1, initializer=tools.enrol) as pool, tools:
        return list(pool.map(compiled, sources))


def _write(files: Mapping[str, str], folder: Path) -> None:
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def prepare(
    name: str,
    sources: Emitted,
    cache: Cache,
    *,
    target: str | None = None,
    compiler: str | None = None,
    fast: Collection[str] = (),
    sanitize: Collection[str] = (),
    embedded: Mapping[str, str] | None = None,
    mpi: Mpi | None = None,
) -> LibraryRecipe:
    """The recipe of a library; raises `ToolchainError` for unknown options, or if there is no compiler."""
    fast_flags(fast), sanitize_flags(sanitize)
    for file in sources:
        if not _FILE_NAME.fullmatch(file):
            raise ToolchainError(f"{file!r} cannot be the name of a source file")
    toolchain = known_toolchain(cache, compiler)
    if sanitize and toolchain.family != "gcc":  # clang links its run-time library into programs only
        raise ToolchainError(f"sanitize= needs gcc, and the compiler is {toolchain}; give compiler='gcc'")
    recipe = LibraryRecipe(
        name, sources, toolchain, resolve_processor(cache, toolchain, target), tuple(sorted(set(fast))),
        tuple(sorted(set(sanitize))), dict(embedded or {}), mpi,
    )  # fmt: skip
    if recipe.uses_openmp and not toolchain.openmp:
        _log.warning("%s has no OpenMP: the parallel loops of %s run on one thread", toolchain, name)
    return recipe


@dataclass(frozen=True)
class Library:
    """A shared library in the cache, loaded into this process."""

    path: Path
    loaded: ctypes.CDLL
    cache: Cache


def load(recipe: LibraryRecipe, cache: Cache | None = None) -> Library:
    """The library of `recipe`, built if the cache has none, and loaded. Raises `ToolchainError`."""
    _require_sanitizer(recipe)
    cache = cache or open_cache()
    for last in (False, True):  # again if another process removed the entry in between
        path = cache.entry(recipe.key, partial(recipe.build, cache=cache)) / recipe.file_name
        try:
            return Library(path, loaded_library(path, recipe.is_unloaded), cache)
        except OSError as error:
            if last or path.exists():
                raise ToolchainError(
                    f"{path} was built, but cannot be loaded: {error}; if its folder may not hold programs (noexec), "
                    "set TIRAMISU_CACHE_DIR to one that may"
                ) from error
    raise ToolchainError(f"{recipe.file_name} cannot be loaded")


def _require_sanitizer(recipe: LibraryRecipe) -> None:
    """Checks that the address sanitizer is loaded: otherwise its libraries would end the process."""
    if "address" in recipe.sanitize and not hasattr(ctypes.CDLL(None), "__asan_init"):
        runtime = run([*recipe.toolchain.command, "-print-file-name=libasan.so"]).stdout.strip()
        raise ToolchainError(f'sanitize=("address",) needs Python to be started with LD_PRELOAD={runtime}')


# -- shared libraries


_OPENMP = "omp_get_max_threads"


class _Place(ctypes.Structure):
    """`Dl_info` of the C library."""

    _fields_ = (
        ("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("symbol", ctypes.c_char_p), ("address", ctypes.c_void_p),
    )  # fmt: skip


def loaded_library(path: Path, unloaded: bool) -> ctypes.CDLL:
    """The library; if `unloaded`, only as long as it or one of its functions is referenced. Raises `OSError`."""
    library = ctypes.CDLL(str(path))
    if unloaded and _keeps_openmp(library):
        weakref.finalize(library, _closed, library._handle).atexit = False
    return library


def _closed(handle: int) -> None:
    close = ctypes.CDLL(None).dlclose
    close.argtypes, close.restype = [ctypes.c_void_p], ctypes.c_int
    close(handle)


def _keeps_openmp(library: ctypes.CDLL) -> bool:
    """Whether the OpenMP of a library, if any, stays loaded without it: its threads still run OpenMP's code."""
    own = ctypes.CDLL(None)
    if not (hasattr(own, "dladdr") and hasattr(own, "dlclose") and hasattr(os, "RTLD_NODELETE")):
        return False
    if not hasattr(library, _OPENMP):
        return True
    place = _Place()
    if not own.dladdr(ctypes.cast(library[_OPENMP], ctypes.c_void_p), ctypes.byref(place)) or not place.file:
        return False
    try:
        ctypes.CDLL(os.fsdecode(place.file), mode=os.RTLD_NODELETE | os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return False
    return True

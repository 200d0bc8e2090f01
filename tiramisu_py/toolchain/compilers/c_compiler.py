"""The C compiler: found, probed for its abilities, and run."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tiramisu_py.errors import ToolchainError
from tiramisu_py.records import dataclass
from tiramisu_py.toolchain.compilers.cache import Cache, digest
from tiramisu_py.toolchain.compilers.tools import SHORTAGES, answer_behind, run, run_checked, said_version
from tiramisu_py.toolchain.files.tool_files import file_state

_INSTALL = """install one:
  Debian, Ubuntu:  sudo apt-get install gcc libc6-dev
  Fedora:          sudo dnf install gcc glibc-devel
  macOS:           xcode-select --install   (and for parallel loops: brew install libomp)
or name one: CC=/path/to/gcc"""

_OPENMP_PROBE = """
extern int omp_get_max_threads(void);
int probe(int *x, int n);
int probe(int *x, int n) {
#pragma omp parallel for
    for (int i = 0; i < n; i++) x[i] = i;
    return omp_get_max_threads();
}
"""


#: Operating systems, as Python and compilers both name them.
_SYSTEMS = ("linux", "darwin", "freebsd")
_WORD_BITS = 8 * struct.calcsize("P")
#: Environment variables that change the files that a compiler finds: its own parts, and headers and libraries.
_PARTS = ("COMPILER_PATH", "GCC_EXEC_PREFIX", "PATH")
_SEARCHED = ("CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "SDKROOT")


@dataclass(frozen=True)
class Toolchain:
    """A C compiler: its command, its version text, its family (gcc or clang), the machine it compiles for, and the
    flags that turn OpenMP on (none if it has no OpenMP). `searched` are the environment variables that say where it
    looks for headers and libraries.

    An `absent` compiler was found earlier and is missing now, for that reason; its products are still in the cache.
    """

    command: tuple[str, ...]
    version: str
    family: str
    machine: str
    openmp: tuple[str, ...]
    absent: str = ""
    searched: tuple[tuple[str, str], ...] = ()

    @property
    def identity(self) -> dict[str, Any]:
        """The identity of this compiler in keys of the cache."""
        found = {"command": list(self.command), "version": self.version, "machine": self.machine}
        return {**found, "searched": list(self.searched)} if self.searched else found

    @property
    def is_x86(self) -> bool:
        return self.machine.startswith(("x86", "i386", "i486", "i586", "i686", "amd64"))

    @property
    def is_foreign(self) -> bool:
        """Whether it compiles for another architecture than this machine's, so that its libraries cannot be loaded."""
        own = next((system for system in _SYSTEMS if sys.platform.startswith(system)), "")
        return _architecture(self.machine.partition("-")[0]) != this_architecture() or own not in self.machine

    @property
    def archiver(self) -> str:
        """The command that makes static libraries of its object files: the environment's AR, or its own archiver."""
        named = os.environ.get("AR", "")
        if named or not self.is_foreign:
            return named or "ar"
        beside = re.sub(
            r"gcc(-[0-9.]+)?$", "ar", Path(self.command[0]).name
        )  # aarch64-linux-gnu-gcc has one of that name
        found = self.family == "gcc" and shutil.which(beside)
        return beside if found else run([*self.command, "-print-prog-name=ar"]).stdout.strip() or "ar"

    def __str__(self) -> str:
        return f"{shlex.join(self.command)} ({self.version.splitlines()[0]})"

    def compile(self, source: str, flags: Sequence[str], folder: Path) -> str:
        """Compiles a source of `folder` to an object file beside it; returns its name. Raises `ToolchainError`."""
        made = Path(source).with_suffix(".o").name
        self.run([*flags, "-MMD", "-c", source, "-o", made], folder)
        return made

    def compile_library(
        self,
        source: str,
        library: str,
        flags: Sequence[str],
        folder: Path,
        libraries: Sequence[str] = ("-lm",),
    ) -> str:
        """Compiles a source of `folder` and links it to a shared library, in one call; returns the name of the file
        with its dependencies. Raises `ToolchainError`.
        """
        found = Path(source).with_suffix(".d").name
        linking = ["-shared", self.soname(library), "-o", library, source, *libraries]
        self.run([*flags, "-MMD", "-MF", found, *linking], folder)
        return found

    def link(
        self,
        objects: Sequence[str],
        library: str,
        flags: Sequence[str],
        folder: Path,
        libraries: Sequence[str] = ("-lm",),
    ) -> None:
        """Links objects of `folder` to a shared library. Raises `ToolchainError`."""
        self.run([*flags, "-shared", self.soname(library), "-o", library, *objects, *libraries], folder)

    def run(self, arguments: Sequence[str], folder: Path) -> None:
        """Runs the compiler. Raises `ToolchainError` if it fails or is absent."""
        self.require_present()
        run_checked([*self.command, *arguments], folder)

    def require_present(self) -> None:
        """Raises `ToolchainError` if it is absent."""
        if self.absent:
            raise ToolchainError(self.absent)

    def soname(self, library: str) -> str:
        """The flag that writes the library's name into it."""
        return f"-Wl,-install_name,@rpath/{library}" if "darwin" in self.machine else f"-Wl,-soname,{library}"


def this_architecture() -> str:
    """The architecture of this process, by the compilers' name."""
    found = _architecture(platform.machine())
    narrow = {"x86_64": "i386", "aarch64": "arm"}  # a process of 32 bits on a system of 64
    return narrow.get(found, found) if _WORD_BITS == 32 else found


def _architecture(name: str) -> str:
    name = {"amd64": "x86_64", "arm64": "aarch64", "ppc64le": "powerpc64le"}.get(name.lower(), name.lower())
    if re.fullmatch("i[3-6]86", name):
        return "i386"
    return "arm" if re.match(r"arm(v|$)", name) else name


def find_toolchain(cache: Cache, compiler: str | None = None) -> Toolchain:
    """The named compiler (`compiler`, or the environment's CC), else the first of gcc, clang and cc.

    Raises `ToolchainError`, with installation advice, if none works.
    """
    if compiler is not None and not isinstance(compiler, str):
        raise ToolchainError(f'compiler={compiler!r} is no command; write one, such as compiler="gcc"')
    named = compiler or os.environ.get("CC", "").strip()
    faults = []
    for text in [named] if named else ["gcc", "clang", "cc"]:
        found = examined(cache, text)
        if isinstance(found, Toolchain):
            note(cache, named, found)
            return found
        faults.append(found)
    where = "compiler=" if compiler else "CC="
    asked = f"{where}{named} is not a usable C compiler" if named else "no C compiler was found that works"
    raise ToolchainError(f"{asked} ({'; '.join(faults)}); {_INSTALL}")


def known_toolchain(cache: Cache, compiler: str | None = None) -> Toolchain:
    """The result of `find_toolchain`; if there is no compiler any more, the last one found, whose kernels are still in
    the cache. Raises `ToolchainError` if there has been none either.
    """
    try:
        return find_toolchain(cache, compiler)
    except ToolchainError as error:
        last = last_found(cache, compiler or os.environ.get("CC", "").strip())
        if last is None:
            raise
        return replace(last, absent=str(error))


def note(cache: Cache, named: str, found: Toolchain) -> None:
    """Records the compiler found under a name (empty: the default)."""
    record = json.loads(json.dumps(asdict(found)))
    if cache.known(_last_key(named)) != record:
        cache.remember(_last_key(named), record)


def last_found(cache: Cache, named: str) -> Toolchain | None:
    """The compiler last found under a name; None if there is none."""
    record = cache.known(_last_key(named))
    if record is None:
        return None
    command, openmp = tuple(record["command"]), tuple(record["openmp"])
    searched = tuple((name, value) for name, value in record.get("searched", ()))
    return Toolchain(**{**record, "command": command, "openmp": openmp, "searched": searched})


def _last_key(named: str) -> str:
    return digest(["last toolchain", named])


def examined(cache: Cache, text: str) -> Toolchain | str:
    """The compiler of a command line, or the reason why there is none."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        return f"{text}: {error}"
    path = shutil.which(words[0]) if words else None
    if path is None:
        return f"{text}: not found"
    command = (path, *words[1:])
    try:
        state = file_state(path)
        behind = answer_behind(command, state, (*_PARTS, *_SEARCHED))
        environment = {name: os.environ.get(name) for name in (*_PARTS, *_SEARCHED)}
        key = digest(["toolchain", command, state, behind, environment])
        record = cache.recall(key, lambda: _probed(command, behind or said_version(command)), _is_lasting)
    except subprocess.CalledProcessError as error:
        return f"{text}: {error.stderr.strip() or 'it does not run'}"
    except OSError as error:
        return f"{text}: {error}"
    if record["fault"]:
        return f"{text}: {record['fault']}"
    searched = tuple((name, value) for name, value in environment.items() if name in _SEARCHED and value)
    openmp = tuple(record["openmp"])
    return Toolchain(command, record["version"], record["family"], record["machine"], openmp, searched=searched)


def _family(version: str) -> str | None:
    if "clang" in version.lower():
        return "clang"
    return "gcc" if "Free Software Foundation" in version else None


def _is_lasting(record: Mapping[str, Any]) -> bool:
    """Whether a record is cached: faults and missing OpenMP are not, since they may be repaired at any time."""
    return not record["fault"] and bool(record["openmp"]) and bool(record["machine"])


def _probed(command: tuple[str, ...], version: str) -> dict[str, Any]:
    found: dict[str, Any] = {"version": version.strip(), "family": _family(version), "machine": "", "openmp": []}
    if found["family"] is None:
        return {**found, "fault": "neither gcc nor clang"}
    machine = run([*command, "-dumpmachine"]).stdout.strip()
    plain = _links(command, ["-fPIC"], "int probe(void);\nint probe(void) { return 0; }\n")
    openmp: list[str] = next((list(flags) for flags in _openmp_flags(machine) if _openmp_works(command, flags)), [])
    return {**found, "machine": machine, "openmp": openmp, "fault": plain}


def _openmp_flags(machine: str) -> list[tuple[str, ...]]:
    flags: list[tuple[str, ...]] = [("-fopenmp",)]
    if "darwin" in machine:  # Apple's clang has the front end, Homebrew the library
        for prefix in ("/opt/homebrew/opt/libomp", "/usr/local/opt/libomp"):
            flags.append(("-Xpreprocessor", "-fopenmp", f"-I{prefix}/include", f"-L{prefix}/lib", "-lomp"))
    return flags


def _openmp_works(command: tuple[str, ...], flags: tuple[str, ...]) -> bool:
    return not _links(command, ["-fPIC", *flags], _OPENMP_PROBE)


def _links(command: tuple[str, ...], flags: list[str], source: str) -> str:
    """The compiler's error message for a shared library of `source`; empty if it succeeds."""
    with work_folder() as folder:
        (folder / "probe.c").write_text(source, encoding="utf-8")
        answer = run([*command, *flags, "-shared", "-o", "probe.so", "probe.c"], folder)
        made = answer.returncode == 0 and (folder / "probe.so").exists()
    return "" if made else (answer.stderr.strip() or "it cannot make a shared library")


@contextlib.contextmanager
def work_folder() -> Iterator[Path]:
    """A temporary folder, removed at the end. Raises `ToolchainError` if none can be made or written."""
    try:
        with tempfile.TemporaryDirectory(prefix="tiramisu_py-") as folder:
            yield Path(folder)
    except OSError as error:
        advice = SHORTAGES.get(error.errno or 0, "set TMPDIR to one that can be written, and has room")
        raise ToolchainError(f"the temporary folder cannot be used ({error}): {advice}") from error

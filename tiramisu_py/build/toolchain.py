"""The C compiler: found, asked what it can do, and run."""

from __future__ import annotations

import logging
import os
import platform
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiramisu_py.build.cache import Cache, digest
from tiramisu_py.errors import ToolchainError

_log = logging.getLogger(__name__)

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


@dataclass(frozen=True)
class Toolchain:
    """A C compiler: its command, what it calls itself, its family (gcc or clang), the machine it compiles for, and the
    flags that turn OpenMP on (none where it has no OpenMP).
    """

    command: tuple[str, ...]
    version: str
    family: str
    machine: str
    openmp: tuple[str, ...]

    @property
    def identity(self) -> dict[str, Any]:
        """What tells this compiler from another, for keys of the cache."""
        return {"command": list(self.command), "version": self.version, "machine": self.machine}

    @property
    def is_x86(self) -> bool:
        return self.machine.startswith(("x86", "i386", "i486", "i586", "i686", "amd64"))

    @property
    def is_foreign(self) -> bool:
        """Whether it compiles for machines of another kind than this one, where its libraries cannot be loaded."""
        own = next((system for system in _SYSTEMS if sys.platform.startswith(system)), "")
        return _architecture(self.machine.partition("-")[0]) != this_architecture() or own not in self.machine

    @property
    def archiver(self) -> str:
        """The command that makes static libraries of its object files: the environment's AR, or the compiler's own."""
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
        """Compiles a source of `folder` to an object file beside it; answers its name. Raises `ToolchainError`."""
        made = Path(source).with_suffix(".o").name
        run_checked([*self.command, *flags, "-MMD", "-c", source, "-o", made], folder)
        return made

    def link(
        self,
        objects: Sequence[str],
        library: str,
        flags: Sequence[str],
        folder: Path,
        libraries: Sequence[str] = ("-lm",),
    ) -> None:
        """Links objects of `folder` to a shared library. Raises `ToolchainError`."""
        command = [*self.command, *flags, "-shared", self.soname(library), "-o", library, *objects, *libraries]
        run_checked(command, folder)

    def soname(self, library: str) -> str:
        """The flag that writes the library's name into it."""
        return f"-Wl,-install_name,@rpath/{library}" if "darwin" in self.machine else f"-Wl,-soname,{library}"


def this_architecture() -> str:
    """The architecture of this process, as compilers call it."""
    found = _architecture(platform.machine())
    narrow = {"x86_64": "i386", "aarch64": "arm"}  # a process of 32 bits on a system of 64
    return narrow.get(found, found) if _WORD_BITS == 32 else found


def _architecture(name: str) -> str:
    name = {"amd64": "x86_64", "arm64": "aarch64", "ppc64le": "powerpc64le"}.get(name.lower(), name.lower())
    if re.fullmatch("i[3-6]86", name):
        return "i386"
    return "arm" if re.match(r"arm(v|$)", name) else name


def find_toolchain(cache: Cache, compiler: str | None = None) -> Toolchain:
    """The compiler that is named (`compiler`, or the environment's CC), else the first of gcc, clang and cc.

    Raises `ToolchainError`, saying what to install, where there is none that works.
    """
    named = compiler or os.environ.get("CC", "").strip()
    faults = []
    for text in [named] if named else ["gcc", "clang", "cc"]:
        found = examined(cache, text)
        if isinstance(found, Toolchain):
            return found
        faults.append(found)
    where = "compiler=" if compiler else "CC="
    asked = f"{where}{named} is not a usable C compiler" if named else "no C compiler was found"
    raise ToolchainError(f"{asked} ({'; '.join(faults)}); {_INSTALL}")


def examined(cache: Cache, text: str) -> Toolchain | str:
    """The compiler behind a command line, or why there is none."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        return f"{text}: {error}"
    path = shutil.which(words[0]) if words else None
    if path is None:
        return f"{text}: not found"
    command = (path, *words[1:])
    answer = run([*command, "--version"])
    if answer.returncode != 0:
        return f"{text}: {answer.stderr.strip() or 'it does not run'}"
    family = _family(answer.stdout)
    if family is None:
        return f"{text}: neither gcc nor clang"
    record = cache.recall(_probe_key(command, answer.stdout), lambda: _probed(command))
    if record["fault"]:
        return f"{text}: {record['fault']}"
    return Toolchain(command, answer.stdout.strip(), family, record["machine"], tuple(record["openmp"]))


def _family(version: str) -> str | None:
    if "clang" in version.lower():
        return "clang"
    return "gcc" if "Free Software Foundation" in version else None


def _probe_key(command: tuple[str, ...], version: str) -> str:
    found = os.stat(os.path.realpath(command[0]))
    return digest(["toolchain", command, version, found.st_size, found.st_mtime_ns])


def _probed(command: tuple[str, ...]) -> dict[str, Any]:
    machine = run([*command, "-dumpmachine"]).stdout.strip()
    plain = _links(command, ["-fPIC"], "int probe(void);\nint probe(void) { return 0; }\n")
    openmp: list[str] = next((list(flags) for flags in _openmp_flags(machine) if _openmp_works(command, flags)), [])
    return {"machine": machine, "openmp": openmp, "fault": plain}


def _openmp_flags(machine: str) -> list[tuple[str, ...]]:
    flags: list[tuple[str, ...]] = [("-fopenmp",)]
    if "darwin" in machine:  # Apple's clang has the front end, Homebrew the library
        for prefix in ("/opt/homebrew/opt/libomp", "/usr/local/opt/libomp"):
            flags.append(("-Xpreprocessor", "-fopenmp", f"-I{prefix}/include", f"-L{prefix}/lib", "-lomp"))
    return flags


def _openmp_works(command: tuple[str, ...], flags: tuple[str, ...]) -> bool:
    return not _links(command, ["-fPIC", *flags], _OPENMP_PROBE)


def _links(command: tuple[str, ...], flags: list[str], source: str) -> str:
    """What the compiler says against making a shared library of `source`: nothing where it succeeds."""
    with tempfile.TemporaryDirectory(prefix="tiramisu_py-") as folder:
        Path(folder, "probe.c").write_text(source, encoding="utf-8")
        answer = run([*command, *flags, "-shared", "-o", "probe.so", "probe.c"], Path(folder))
        made = answer.returncode == 0 and Path(folder, "probe.so").exists()
    return "" if made else (answer.stderr.strip() or "it cannot make a shared library")


def run(command: Sequence[str], folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a tool, its messages in English; one that cannot be started answers with return code 127."""
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        return subprocess.run(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", check=False,
        )  # fmt: skip
    except OSError as error:
        return subprocess.CompletedProcess(list(command), 127, "", str(error))


def run_checked(command: Sequence[str], folder: Path) -> None:
    """Runs a tool; raises `ToolchainError` with the command and the tool's own words where it fails."""
    answer = run(command, folder)
    if answer.returncode != 0:
        failed = f"{Path(command[0]).name} failed (return code {answer.returncode})"
        raise ToolchainError(f"{failed}:\n  {shlex.join(command)}\n{answer.stderr.strip()}")
    if answer.stderr.strip():
        _log.info("%s", answer.stderr.strip())

"""The processors and compilers that generated code is tried with, and what is needed here to try them."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import tiramisu_py as tm
from tests.backends.compiled import SANITISERS
from tests.processors import NATIVE, native, obstacle

INSTALL = "apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user clang libomp-dev"


@dataclass(frozen=True)
class Target:
    """A compiler with its flags, the bytes of a vector there, and what runs its programs if this machine does not."""

    name: str
    compiler: tuple[str, ...]
    flags: tuple[str, ...]
    register: int
    runner: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name

    @property
    def cpu(self) -> tm.Target:
        """What schedules ask of such a processor; the caches are those of a small one."""
        many = self.register == 64 or "neon" in self.name
        features = {64: "avx512f", 32: "avx2"}.get(self.register, "neon" if many else "sse2")
        return tm.Target(
            "", self.register, 32 if many else 16, first=32 << 10, second=512 << 10, last=16 << 20, cores=2,
            features=(features,),
        )  # fmt: skip

    @property
    def openmp(self) -> tuple[str, ...]:
        """The flags of OpenMP, where the compiler has it for this target."""
        return ("-fopenmp",) if _links(self.compiler, (*self.options, "-fopenmp"), _OPENMP, self.runner) else ()

    @property
    def missing(self) -> str:
        """Why nothing can be tried for it here; empty where it can."""
        for command in (self.compiler[0], *self.runner[:1]):
            if shutil.which(command) is None:
                return f"no {command}: {INSTALL}"
        if not self.runner:
            try:
                lacked = obstacle(self.flags, self.compiler[0])
            except tm.ToolchainError:
                lacked = f"{self.compiler[0]} here compiles for another kind of processor than {self.name}"
            if lacked:
                return lacked
        usable = _links(self.compiler, self.options, _PROGRAM, self.runner)
        return "" if usable else f"{self.name} cannot be used: {INSTALL}"

    @property
    def options(self) -> tuple[str, ...]:
        """The flags, with those of the host in place of ``-march=native``."""
        return self.flags if self.runner else native(self.flags, self.compiler[0])


#: Without these macros, no section of the headers for a processor is compiled: vector extensions are all that is left.
GENERIC = tuple(f"-U__{feature}__" for feature in ("SSE2", "SSE4_1", "AVX", "AVX2", "F16C", "AVX512F", "AVX512BW"))
_ARM_GCC, _ARM_CLANG = ("aarch64-linux-gnu-gcc",), ("clang", "--target=aarch64-linux-gnu")
_QEMU = ("qemu-aarch64",)

#: Every shape is tried on each of these.
TARGETS = [
    Target("gcc-avx512", ("gcc",), ("-O2", "-march=x86-64-v4"), 64),
    Target("gcc-avx2", ("gcc",), ("-O0", "-march=x86-64-v3"), 32),
    Target("gcc-sse2", ("gcc",), ("-O0", "-march=x86-64"), 16),
    Target("gcc-generic", ("gcc",), ("-O1", "-march=x86-64-v3", *GENERIC), 64),
    Target("clang-avx512", ("clang",), ("-O2", "-march=x86-64-v4"), 64),
    Target("clang-generic", ("clang",), ("-O1", "-march=x86-64", *GENERIC), 16),
    Target("gcc-sanitised", ("gcc",), ("-O0", NATIVE, *SANITISERS), 64),
    Target("clang-sanitised", ("clang",), ("-O0", NATIVE, *SANITISERS), 64),
    Target("gcc-neon", _ARM_GCC, ("-O0", "-march=armv8.2-a", "-static"), 16, _QEMU),
    Target("clang-neon", _ARM_CLANG, ("-O1", "-march=armv8-a", "-static"), 16, _QEMU),
]

#: Those that a plain run tries: each width of vectors, each compiler, both processors, a sanitiser, and no intrinsics.
PLAIN = ("gcc-avx512", "gcc-sse2", "clang-generic", "gcc-sanitised", "gcc-neon")


def is_plain(target: Target) -> bool:
    """Whether a plain run tries it."""
    return target.name in PLAIN


_PROGRAM = "#include <stdio.h>\nint main(void) { return 0; }\n"
_OPENMP = "#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n"


@functools.cache
def _links(compiler: tuple[str, ...], flags: tuple[str, ...], source: str, runner: tuple[str, ...] = ()) -> bool:
    """Whether a program can be made, and run."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "program")
        command = [*compiler, *flags, "-x", "c", "-", "-o", str(program)]
        made = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
        return made.returncode == 0 and subprocess.run([*runner, str(program)], check=False).returncode == 0

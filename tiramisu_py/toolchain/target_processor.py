"""The processor at hand, as schedules ask for it: its vectors, registers, caches, cores and instruction sets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

from tiramisu_py.errors import ArgumentError
from tiramisu_py.program.machine.instruction_costs import InstructionCosts
from tiramisu_py.public_calls import own_call
from tiramisu_py.records import dataclass
from tiramisu_py.toolchain.compilers.c_compiler import known_toolchain
from tiramisu_py.toolchain.compilers.cache import open_cache
from tiramisu_py.toolchain.compilers.processor import instruction_sets, resolve_processor
from tiramisu_py.toolchain.machine.processor_caches import caches
from tiramisu_py.toolchain.machine.topology import allowed_cpus

_Choice = TypeVar("_Choice")

#: The macros of compilers that name instruction sets of x86; those of Arm begin with ARM_FEATURE_.
_X86 = re.compile(r"(AVX|SSE|SSSE|FMA|F16C|BMI|LZCNT|POPCNT|MOVBE|GFNI|AMX|VAES|VPCLMULQDQ)(?!.*_MATH)")
_ARM = "ARM_FEATURE_"
#: The levels of x86-64: each has the instruction sets of those before it, too. Source: the x86-64 psABI, section 3.1.1.
_LEVELS = {
    "x86-64-v2": {"popcnt", "sse3", "sse4_1", "sse4_2", "ssse3"},
    "x86-64-v3": {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"},
    "x86-64-v4": {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"},
}


@dataclass(frozen=True)
class Target:
    """A processor: its name, the sizes of its vectors and caches in bytes, and numbers of vector registers and cores.

    `first`, `second` and `last` are the levels of data caches; `cores` is the number of cpus that this process may use.
    `features` are its instruction sets, by the names of compilers in small letters ("avx2", "avx512vnni", "neon",
    "sve"), and the levels of x86-64 that it has ("x86-64-v3"). See `target`.
    """

    name: str
    vector_bytes: int
    vector_registers: int
    first: int
    second: int
    last: int
    cores: int
    features: tuple[str, ...] = ()

    @property
    def costs(self) -> InstructionCosts:
        """The costs of vector instructions on it, by LLVM's models; see `InstructionCosts`."""
        return InstructionCosts.of(self.name, self.vector_bytes, arm="neon" in self.features)

    def lanes(self, dtype: object) -> int:
        """The number of elements of a type in a vector; at least 2."""
        size = getattr(dtype, "bytes", dtype)
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ArgumentError(f"lanes takes a type, such as tm.float32, or its size in bytes, not {dtype!r}")
        return max(self.vector_bytes // size, 2)

    def rows_of_sums(self, vectors: int) -> int:
        """The most rows of `vectors` vectors of sums that stay in registers, beside the vectors and the number whose
        products are added to them; at least 1.

        ::

            across = cpu.vector_registers // 8                      # vectors of a row of a tile: 2, or 4
            tile = cpu.rows_of_sums(across), across * cpu.lanes(tm.float32)
        """
        if isinstance(vectors, bool) or not isinstance(vectors, int) or vectors < 1:
            raise ArgumentError(f"rows_of_sums takes the number of vectors of a row, 1 or more, not {vectors!r}")
        return max((self.vector_registers - vectors - 1) // vectors, 1)

    def choose(self, versions: Mapping[str, _Choice], default: object = ...) -> _Choice:
        """The entry for this processor: by its name, else the first one whose feature it has, else `default`.

        ::

            rows = tm.target().choose({"znver5": 12, "avx512f": 8, "avx2": 4}, default=2)

        Raises `ArgumentError` if nothing fits and there is no default.
        """
        if not isinstance(versions, Mapping) or not all(isinstance(key, str) for key in versions):
            raise ArgumentError(f'choose takes choices by name or by feature, {{"avx2": 4}}, not {versions!r}')
        if self.name in versions:
            return versions[self.name]
        for feature, choice in versions.items():
            if feature.lower() in self.features:
                return choice
        if default is ...:
            known, has = ", ".join(versions) or "none", ", ".join(self.features) or "none"
            raise ArgumentError(
                f"there is no choice for {self.name} among {known}: add one for its name or for one of its features "
                f"({has}), or give default="
            )
        return default  # type: ignore[return-value]


@own_call
def target(name: str | Target | None = None, *, compiler: str | None = None) -> Target:
    """The processor for which kernels are compiled: this machine's, or the one called `name`, as for ``compile``.

    ::

        cpu = tm.target()                               # this machine's
        across.vectorize(c, cpu.lanes(tm.float32))
        across.unroll_and_jam(r, 8 if cpu.vector_registers == 32 else 4)
        tm.target("icelake-server").vector_bytes        # 64

    A schedule that asks is an ordinary schedule, which is proven for the processor at hand; the kernel of another one
    is compiled from its own schedule, with ``compile(target=name)``, or as a version (`compile_versions`). Caches and
    cores are always this machine's. A `Target` is returned as it is. Raises `ToolchainError` for a name that the
    compiler does not know.
    """
    if isinstance(name, Target):
        return name
    cache = open_cache()
    toolchain = known_toolchain(cache, compiler)
    processor = resolve_processor(cache, toolchain, name)
    features = _features(instruction_sets(cache, toolchain, processor.flags))
    many = processor.vector_bytes == 64 or toolchain.machine.startswith(("aarch64", "arm64"))
    known = caches()
    return Target(
        processor.name, processor.vector_bytes, 32 if many else 16, known.first, known.second, known.last,
        len(allowed_cpus()), features,
    )  # fmt: skip


def _features(macros: frozenset[str]) -> tuple[str, ...]:
    """The instruction sets that a compiler's macros name, and the levels of x86-64 that follow from them."""
    found = {macro.lower() for macro in macros if _X86.match(macro)}
    found |= {macro.removeprefix(_ARM).lower() for macro in macros if macro.startswith(_ARM)}
    found |= {"neon"} & {macro.removeprefix("ARM_").lower() for macro in macros}
    for level, needed in _LEVELS.items():
        if not needed <= found:
            break
        found.add(level)
    return tuple(sorted(found))

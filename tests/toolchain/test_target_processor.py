"""The processor at hand, and what a schedule chooses for it."""

from __future__ import annotations

import dataclasses

import pytest

import tiramisu_py as tm
from tiramisu_py.toolchain import processor_for
from tiramisu_py.toolchain.machine.processor_caches import caches
from tiramisu_py.toolchain.target_processor import _features

ICELAKE = tm.Target("icelake-server", 64, 32, 48 << 10, 1280 << 10, 48 << 20, 16, ("avx2", "avx512f"))


def test_the_processor_here_is_the_one_that_kernels_are_compiled_for() -> None:
    cpu = tm.target()
    own = processor_for()
    assert (cpu.name, cpu.vector_bytes) == (own.name, own.vector_bytes)
    assert (cpu.first, cpu.second, cpu.last) == (caches().first, caches().second, caches().last)
    assert cpu.cores >= 1
    assert cpu == tm.target()
    assert hash(cpu) == hash(tm.target())
    with pytest.raises(dataclasses.FrozenInstanceError):
        cpu.name = "another"  # type: ignore[misc]


@pytest.mark.skipif(not {"sse2"} & set(tm.target().features), reason="the compiler here is not for x86-64")
@pytest.mark.parametrize(
    ("name", "vector", "registers", "has", "lacks"),
    [
        ("x86-64", 16, 16, {"sse2"}, {"avx", "x86-64-v2"}),
        ("x86-64-v2", 16, 16, {"sse4_2", "x86-64-v2"}, {"avx", "x86-64-v3"}),
        ("x86-64-v3", 32, 16, {"avx2", "fma", "x86-64-v2", "x86-64-v3"}, {"avx512f", "x86-64-v4"}),
        ("icelake-server", 64, 32, {"avx512f", "avx512vnni", "x86-64-v4"}, {"avx512fp16"}),
        ("znver3", 32, 16, {"avx2", "x86-64-v3"}, {"avx512f"}),
    ],
)
def test_a_processor_by_name(name: str, vector: int, registers: int, has: set[str], lacks: set[str]) -> None:
    cpu = tm.target(name)
    assert (cpu.name, cpu.vector_bytes, cpu.vector_registers) == (name, vector, registers)
    assert has <= set(cpu.features)
    assert not lacks & set(cpu.features)
    assert cpu.lanes(tm.float32) == vector // 4
    assert cpu.lanes(tm.uint8) == vector
    own = tm.recipes.Cpu(vector, registers, cpu.first, cpu.second, cpu.cores, name)
    assert tm.recipes.Cpu.here(target=name) == own
    assert own.costs == cpu.costs


def test_the_features_of_arm_are_those_that_its_macros_name() -> None:
    macros = frozenset({"ARM_NEON", "ARM_FEATURE_SVE", "ARM_FEATURE_DOTPROD", "LP64", "SSE_MATH", "STDC_HOSTED"})
    assert _features(macros) == ("dotprod", "neon", "sve")


def test_a_name_goes_before_features_and_these_by_their_order() -> None:
    assert ICELAKE.choose({"avx512f": 1, "icelake-server": 2}) == 2
    assert ICELAKE.choose({"avx2": 1, "avx512f": 2}) == 1
    assert ICELAKE.choose({"AVX512F": 2, "avx2": 1}) == 2
    assert ICELAKE.choose({"znver5": 1, "neon": 2}, default=3) == 3
    assert ICELAKE.choose({"neon": 2}, default=None) is None


def test_where_nothing_fits_the_error_says_what_would() -> None:
    with pytest.raises(tm.ArgumentError, match=r"no choice for icelake-server among znver5, neon.*\(avx2, avx512f\)"):
        ICELAKE.choose({"znver5": 1, "neon": 2})
    with pytest.raises(tm.ArgumentError, match="choose takes choices by name"):
        ICELAKE.choose([1, 2])  # type: ignore[arg-type]
    with pytest.raises(tm.ArgumentError, match="lanes takes a type"):
        ICELAKE.lanes("float32")
    with pytest.raises(tm.ToolchainError, match="does not know it"):
        tm.target("pentagon")

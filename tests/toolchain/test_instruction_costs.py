"""What vector instructions cost by processor: the table, beside compilers and LLVM, and what is chosen by it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import tiramisu_py as tm
from benchmarks.instruction_costs import __main__ as made
from benchmarks.instruction_costs.snippets import AVX2
from benchmarks.machine_code import mca
from tiramisu_py.backends.c.runtime_files import packaged
from tiramisu_py.program.machine.instruction_costs import known_processors, version

X86 = pytest.mark.skipif("sse2" not in tm.target().features, reason="the compiler here is not for x86-64")
#: One line a register, LLVM's numbers for Zen 3 and for its usual processors with AVX-512, in cycles.
ZEN3 = tm.InstructionCosts.of("znver3", 32)
WIDE = tm.InstructionCosts.of("x86-64-v4", 64)


@X86
@pytest.mark.parametrize("name", ["nehalem", "haswell", "skylake", "znver3", "cooperlake", "x86-64-v3", "x86-64-v4"])
def test_the_table_has_the_vectors_and_the_gathers_that_the_compiler_uses_for_a_processor(name: str) -> None:
    cpu = tm.target(name)
    assert cpu.costs.processor == name
    assert (cpu.costs.vector_bytes, cpu.costs.registers) == (cpu.vector_bytes, cpu.vector_registers)
    (header,) = packaged("c", "tm_gathers.h")
    found = re.search(r"#if (.*?)\n#define TM_GATHERS\n", header.text, re.DOTALL)
    assert found is not None
    source = f"#if {found[1]}\ngathers\n#endif\n"
    command = ["gcc", f"-march={name}", "-E", "-P", "-x", "c", "-"]
    said = subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout.split()
    assert (said == ["gathers"]) is cpu.costs.gathers


def test_a_processor_that_is_not_in_the_table_costs_what_is_usual_for_its_vectors() -> None:
    assert tm.InstructionCosts.of("some", 32) == tm.InstructionCosts.of("x86-64-v3", 32)
    assert tm.InstructionCosts.of("icelake-server", 32) == tm.InstructionCosts.of("x86-64-v3", 32)
    assert tm.InstructionCosts.of("some", 16, arm=True).registers == 32
    assert tm.recipes.Cpu(64, 32, 1, 1).costs == WIDE


def test_levels_are_between_the_processors_that_have_them() -> None:
    own = [tm.InstructionCosts.of(name, 32) for name in known_processors()]
    slides = [each.slide for each in own if each.vector_bytes == 32 and each.processor != "x86-64-v3"]
    assert min(slides) < tm.InstructionCosts.of("x86-64-v3", 32).slide < max(slides)


@pytest.mark.parametrize(("taps", "others"), [(2, 0), (3, 4), (7, 0), (7, 9), (9, 20), (31, 0)])
@pytest.mark.parametrize("costs", [ZEN3, WIDE], ids=["zen3", "wide"])
def test_a_window_stays_in_registers_where_sliding_and_spilling_cost_less_than_loads(
    costs: tm.InstructionCosts, taps: int, others: int
) -> None:
    spills = sum(1 for vector in range(taps + 1 + others) if vector >= costs.registers)
    sliding = sum(costs.slide for _ in range(1, taps)) + spills * (costs.load + costs.store)
    lines = 1 + costs.vector_bytes / 64
    loading = costs.store + sum(costs.load * lines for _ in range(taps))
    assert costs.keeps_window(taps, others) is (sliding <= loading)


def test_with_few_registers_a_window_of_seven_is_loaded_again() -> None:
    assert WIDE.keeps_window(7, others=9)
    assert not ZEN3.keeps_window(7, others=9)
    assert not tm.InstructionCosts.of("x86-64-v3", 32).keeps_window(7)


@pytest.mark.parametrize(("taps", "rows"), [(2, 1), (3, 1), (3, 12), (5, 4), (5, 12), (9, 100)])
@pytest.mark.parametrize("costs", [ZEN3, WIDE], ids=["zen3", "wide"])
def test_a_window_is_one_of_rows_where_the_loads_of_a_band_cost_less_than_sliding(
    costs: tm.InstructionCosts, taps: int, rows: int
) -> None:
    lines = 1 + costs.vector_bytes / 64
    loads = sum(costs.load * lines for _ in range(rows + taps - 1) for _ in range(taps))
    slides = sum(taps * costs.load + (taps - 1) * costs.slide for _ in range(rows))
    assert costs.prefers_rows(taps, rows) is (loads < slides)


def test_windows_of_three_and_five_are_of_rows_with_two_registers_for_a_line() -> None:
    avx2 = [tm.InstructionCosts.of(name, 32) for name in ("x86-64-v3", "haswell", "znver3")]
    assert all(costs.prefers_rows(taps, 12) for costs in avx2 for taps in (3, 5))
    assert not any(WIDE.prefers_rows(taps, 12) for taps in (3, 5))


def test_remainders_are_masks_where_these_are_cheap_and_there_are_some() -> None:
    assert [WIDE.remainder(size) for size in (1, 2, 4, 8)] == ["mask"] * 4
    assert ZEN3.remainder(4) == "scalar"
    assert [tm.InstructionCosts.of("skylake", 32).remainder(size) for size in (1, 4)] == ["scalar", "mask"]
    assert tm.InstructionCosts.of("nehalem", 16).remainder(4) == "scalar"


def test_few_lanes_are_loaded_by_one_instruction_where_there_is_one_for_the_element() -> None:
    assert [WIDE.has_masks(size) for size in (1, 4)] == [True, True]
    assert [ZEN3.has_masks(size) for size in (1, 4)] == [False, True]
    assert not tm.InstructionCosts.of("nehalem", 16).has_masks(4)


def test_a_level_has_gathers_where_most_of_its_processors_do() -> None:
    own = [tm.InstructionCosts.of(name, 32) for name in known_processors()]
    gains = [each.gathers for each in own if each.vector_bytes == 32 and each.processor != "x86-64-v3"]
    assert sum(gains) * 2 < len(gains)
    assert not tm.InstructionCosts.of("x86-64-v3", 32).gathers
    assert WIDE.gathers


@pytest.mark.skipif(mca.program()[1] != version(), reason=f"the table is of {version()}")
def test_the_table_is_what_llvm_says() -> None:
    entry = made.costs("znver3", AVX2)
    assert tm.InstructionCosts(processor="znver3", **entry) == ZEN3


def test_the_page_has_the_table() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "processors.md"
    table = page.read_text().partition(made.BEGIN)[2]
    rows = re.findall(r"^\| ([a-z][\w.-]+)", table, re.MULTILINE)
    assert set(rows) - {"processor"} == set(known_processors())

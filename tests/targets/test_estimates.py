"""Hot loops on models of processors: which loop it is, what an iteration computes, and what llvm-mca says of it."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

import tiramisu_py as tm
from benchmarks.machine_code import __main__ as bench
from benchmarks.machine_code import compiled_loops as compiled
from benchmarks.machine_code import mca
from benchmarks.machine_code import page as pages
from tests.folders import modules_of
from tests.targets.hot_loops import ICELAKE, NEOVERSE, ZEN, Instruction, Processor, innermost_loops, lowered

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ICE_LAKE = mca.Model("x86_64", "icelake-server")
needs_models = pytest.mark.skipif(not mca.program()[0], reason=mca.INSTALL)


def instructions(*lines: str) -> list[Instruction]:
    return [Instruction(*line.split(" ", 1)) for line in lines]


# -- what llvm-mca says

ANSWER = json.loads("""
{"CodeRegions": [{
   "Instructions": ["vpermb\\t%zmm0, %zmm1, %zmm2", "vpermb\\t%zmm0, %zmm1, %zmm3", "vaddps\\t(%rax), %zmm1, %zmm4"],
   "ResourcePressureView": {"ResourcePressureInfo": [
      {"InstructionIndex": 0, "ResourceIndex": 1, "ResourceUsage": 1},
      {"InstructionIndex": 1, "ResourceIndex": 1, "ResourceUsage": 1},
      {"InstructionIndex": 2, "ResourceIndex": 0, "ResourceUsage": 0.75},
      {"InstructionIndex": 2, "ResourceIndex": 1, "ResourceUsage": 0.25},
      {"InstructionIndex": 2, "ResourceIndex": 2, "ResourceUsage": 1},
      {"InstructionIndex": 3, "ResourceIndex": 1, "ResourceUsage": 2.25}]},
   "SummaryView": {"DispatchWidth": 6, "Iterations": 100, "TotalCycles": 230, "TotaluOps": 400}}],
 "TargetInfo": {"Resources": ["ICXPort0", "ICXPort5", "Zn4FP45.\\u0001"]}}
""")


def test_the_answer_of_llvm_mca_is_read_by_port_and_instruction() -> None:
    found = mca.read(ANSWER)
    assert (found.cycles, found.operations, found.width) == (2.3, 4.0, 6)
    assert found.busiest == ("5", 2.25)
    assert found.most() == [("vpermb", 2), ("vaddps", 0.25)]
    assert set(found.pressure) == {"0", "5", "FP45.1"}


@pytest.mark.parametrize(
    ("cycles", "operations", "bound"), [(230, 400, "5"), (400, 400, "latency"), (260, 1500, "start")]
)
def test_a_loop_waits_for_a_port_or_for_values_or_for_its_start(cycles: int, operations: int, bound: str) -> None:
    (region,) = ANSWER["CodeRegions"]
    summary = {**region["SummaryView"], "TotalCycles": cycles, "TotaluOps": operations}
    found = mca.read({**ANSWER, "CodeRegions": [{**region, "SummaryView": summary}]})
    assert found.bound.startswith(bound)


@needs_models
def test_permutes_take_turns_on_the_port_that_has_them() -> None:
    path = instructions(*(f"vpermb %zmm0, %zmm1, %zmm{k}" for k in range(2, 6)), "vmovups (%rax), %zmm6")
    found = mca.estimate(path, ICE_LAKE)
    assert found.cycles == pytest.approx(4, rel=0.1)
    assert found.busiest == ("5", pytest.approx(4))
    assert found.bound == "5"


@needs_models
def test_a_chain_of_sums_waits_for_each_of_them() -> None:
    path = instructions("vaddps %zmm1, %zmm0, %zmm0", "vaddps %zmm2, %zmm0, %zmm0")
    found = mca.estimate(path, ICE_LAKE)
    assert found.cycles == pytest.approx(8, rel=0.1), "four cycles each"
    assert found.bound == "latency"


@needs_models
def test_code_of_arm_has_a_model_too() -> None:
    found = mca.estimate(instructions("fmla v0.4s, v1.4s, v2.4s", "ldr q1, [x0]"), mca.Model("aarch64", "neoverse-n1"))
    assert found.cycles >= 2, "each adds to the sum of the one before"


def test_without_a_new_enough_llvm_nothing_is_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "program", lambda: ("", ""))
    with pytest.raises(SystemExit, match="apt-get install llvm"):
        bench.main([])


def test_a_part_of_the_table_is_not_saved_in_the_place_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(["--save", "--only", "edge"])
    assert "leave --only and --processors out" in capsys.readouterr().err


# -- which loop, and what it computes

BEHIND = """
\t.type\tf, @function
f:
.L2:
\tvmovups\t(%rdi), %zmm0
\tcmpq\t$3, %rcx
\tjle\t.L7
\tvaddps\t%zmm0, %zmm0, %zmm0
.L4:
\tvmovups\t%zmm0, (%rsi)
\tvmovups\t%zmm0, 64(%rsp)
\tdecq\t%rcx
\tjne\t.L2
\tret
.L7:
\tvdivps\t%zmm1, %zmm0, %zmm0
\tjmp\t.L4
"""


def test_the_usual_path_leaves_out_what_lies_behind_the_loop() -> None:
    (loop,) = innermost_loops(BEHIND)
    assert "vdivps" in [each.name for each in loop.instructions]
    assert [each.name for each in loop.usual] == [
        "vmovups",
        "cmpq",
        "jle",
        "vaddps",
        "vmovups",
        "vmovups",
        "decq",
        "jne",
    ]


def test_what_an_iteration_stores_is_counted_without_what_is_spilled() -> None:
    (loop,) = innermost_loops(BEHIND)
    assert loop.stored_bytes == 64


@pytest.mark.parametrize(
    ("line", "size"),
    [
        ("vmovntps %zmm0, (%rax)", 64),
        ("vmovdqu8 %ymm0, 32(%rax,%rcx)", 32),
        ("vpmovdb %zmm0, (%rax)", 16),
        ("vpmovwb %zmm0, (%rax)", 32),
        ("vpmovusqd %ymm0, (%rax)", 16),
        ("vextracti128 $1, %ymm0, (%rax)", 16),
        ("vextracti64x4 $1, %zmm0, (%rax)", 32),
        ("vmovss %xmm0, (%rax)", 4),
        ("vmovq %xmm0, (%rax)", 8),
        ("vmovups (%rax), %zmm0", 0),
        ("vaddps (%rax), %zmm0, %zmm0", 0),
        ("movq %rcx, (%rax)", 0),
        ("str q0, [x1], 16", 16),
        ("stp q0, q1, [x1]", 32),
        ("str d0, [x1]", 8),
        ("st1 {v0.16b}, [x1]", 16),
        ("ldr q0, [x1]", 0),
    ],
)
def test_the_bytes_of_a_store(line: str, size: int) -> None:
    (found,) = instructions(line)
    assert found.stored_bytes == size


def jammed(rows: int) -> tm.Function:
    """Twice each element, and its sum with the next, by vectors of 16 in some rows at a time; with a masked rest."""
    R, C = tm.params("R C")
    r, c = tm.iters("r c")
    f = tm.Function("jammed", params=[R, C], assume="R >= 1 and C >= 1")
    a = f.input("a", tm.float32, [R, C + 1])
    f.outputs(f.computation("twice", {r: R, c: C}, a[r, c] + a[r, c + 1]))
    f["twice"].unroll_and_jam(r, rows)
    f["twice"].vectorize(c, 16, remainder="mask")
    return f


@pytest.mark.parametrize("rows", [2, 4])
@pytest.mark.parametrize("size", [16, 32, 64])
def test_points_are_the_lanes_of_a_vector_in_all_rows_of_an_iteration(rows: int, size: int) -> None:
    done = compiled.work(jammed(rows).show("lowered", size))
    assert (done.points, done.stored) == (16 * rows, 4 * 16 * rows)


@pytest.mark.parametrize("processor", [ICELAKE, ZEN], ids=str)
def test_a_point_has_an_element_of_every_result(processor: Processor) -> None:
    done = compiled.work(lowered("negative", processor))
    assert (done.points, done.stored) == (64, 128)


def test_a_program_with_no_loop_of_whole_vectors_is_named() -> None:
    """Each row is shorter than a vector, and has a mask."""
    (size,) = tm.params("N")
    i, byte = tm.iters("i byte")
    f = tm.Function("masked", params=[size])
    f.outputs(f.computation("out", {i: size, byte: 5}, 255 - f.input("given", tm.uint8, [size, 5])[i, byte]))
    f["out"].vectorize(byte, 16, remainder="mask")
    with pytest.raises(SystemExit, match="masked: no loop of whole vectors"):
        compiled.work(f.show("lowered", 32))


@pytest.mark.parametrize(
    ("processor", "vectors", "sums"), [(ICELAKE, 8, 16), (NEOVERSE, 12 * 4, (14 + 12) * 4)], ids=str
)
def test_the_hot_loop_is_the_one_that_stores_what_the_program_does(
    processor: Processor, vectors: int, sums: int
) -> None:
    """A vector of each row of a tile; or a cache line of each row of a band, with sums of two rows beyond it."""
    if processor.missing:
        pytest.skip(processor.missing)
    function = lowered("blur", processor)
    done = compiled.work(function)
    loop = compiled.hot_loop(compiled.assembly(function, processor), done.stored)
    assert (done.points, loop.stored_bytes) == (vectors * processor.vector_bytes // 4, vectors * processor.vector_bytes)
    assert not loop.streams
    # of three each
    assert sum(each.name in ("vaddps", "fadd") for each in loop.usual) == 2 * sums


def test_without_such_a_loop_there_is_none() -> None:
    assert compiled.hot_loop(BEHIND, 32) is None


# -- the page


def found(cycles: float, spilled: int = 0, name: str = "edge") -> SimpleNamespace:
    path = instructions("vpermb %zmm0, %zmm1, %zmm2", "vmovups %zmm2, (%rax)", "jne .L2")
    loop = SimpleNamespace(usual=path, halves=lambda _: [], spilled=lambda: [None] * spilled)
    part = bench.Part(1 / 64, loop, mca.Estimate(cycles, 3, 6, {"5": {"vpermb": 1.0}}))
    timed = bench.Timed("tiramisu_py", (part,))
    return SimpleNamespace(workload=name, machine=bench.MACHINES[0], ours=timed, halide=None)


def test_the_page_is_compared_with_itself_by_percent() -> None:
    before = pages.saved(pages.page([found(64), found(32, name="warp")], "tools", ""))
    assert pages.changes(before, [found(64), found(32, name="warp")]) == "nothing has changed in 2 rows"
    said = pages.changes(before, [found(48, spilled=2), found(32, name="warp")])
    assert "| edge" in said and "-25.0 %" in said and "0 -> 2" in said
    assert "| warp" not in said and said.endswith("1 of 2 rows have changed")


def test_a_row_that_was_not_saved_is_new() -> None:
    assert "new" in pages.changes({}, [found(64)])


def test_what_is_written_by_hand_is_kept() -> None:
    hand = f"{pages.KEPT}\n\nA remark.\n"
    assert pages.page([found(64)], "tools", f"# Before\n\n{hand}").endswith(f"\n\n{hand}")


def test_instructions_are_told_apart_by_what_they_do() -> None:
    path = instructions(
        "vpermt2b %zmm0, %zmm1, %zmm2", "vpmovzxbw (%rax), %zmm0", "vpaddw %zmm0, %zmm1, %zmm2",
        "vmovups (%rax), %zmm0",
        "vpgatherdd (%rax,%zmm1), %zmm2{%k1}", "addq $1, %rax", "uxtl v1.8h, v0.8b", "tbl v0.16b, {v1.16b}, v2.16b",
    )  # fmt: skip
    assert pages.mix(path) == "1 compute, 1 gather, 2 shuffle, 2 convert, 1 move, 1 scalar"


# -- beside Halide


@needs_models
@pytest.mark.skipif(importlib.util.find_spec("halide") is None, reason="no halide: pip install 'tiramisu_py[bench]'")
@pytest.mark.parametrize("workload", ["edge", "warp", "warp8"])
def test_on_the_model_of_ice_lake_hot_loops_take_no_more_cycles_than_halides(workload: str) -> None:
    with modules_of(EXAMPLES / "cpu"):
        (row,) = bench.found([workload], bench.MACHINES[:1], peers=True)
    assert row.halide is not None
    assert row.ours.cycles <= row.halide.cycles

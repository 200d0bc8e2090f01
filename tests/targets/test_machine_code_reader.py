"""The reader of assembly finds innermost loops, the width of vectors, and what is spilled."""

from __future__ import annotations

import pytest

from tests.targets.hot_loops import Instruction, Loop, innermost_loops

NEST = """
\t.type\tsum, @function
sum:
\tpushq\t%rbp
\tmovq\t%rsp, %rbp
.L2:
\tvmovaps\t(%rdi), %zmm0\t# a comment
.L3:
\tvaddps\t(%rsi), %zmm0, %zmm0
\tvmovaps\t%zmm0, -64(%rbp)
\tvmovaps\t%zmm0, (%rsp,%rax)
\taddq\t$64, %rsi
\tcmpq\t%rsi, %rax
\tjne\t.L3
\tdecq\t%rcx
\tjne\t.L2
\tjmp\t.L9
.L8:
\tvaddps\t%xmm1, %xmm2, %xmm3
.L9:
\tret
\t.size\tsum, .-sum
"""

FAR = """
\t.type\tfar, @function
far:
\txorl\t%ebp, %ebp
.L2:
\tvaddps\t(%rbp), %ymm0, %ymm0
\tjs\t.L7
.L4:
\tdecq\t%rcx
\tjne\t.L2
\tret
.L7:
\tvmulps\t%ymm0, %ymm0, %ymm0
\tjmp\t.L4
"""

ARM = """
\t.type\tarm, %function
arm:
\tstp\tx29, x30, [sp, -16]!
\tb\t.L3
.L2:
\tldr\tq0, [x1], 16
\tuxtl\tv1.8h, v0.8b
\tldr\td2, [x2, 8]
\tadd\tv2.8b, v2.8b, v0.8b
\tstr\tq1, [sp, 32]
\tbl\tother
.L3:
\tcmp\tx1, x3
\tbne\t.L2
\tret
"""


def only(assembly: str) -> Loop:
    (loop,) = innermost_loops(assembly)
    return loop


def names(found: list[Instruction]) -> list[str]:
    return [each.name for each in found]


def test_of_a_nest_the_loop_without_another_is_found() -> None:
    loop = only(NEST)
    assert (loop.function, loop.label) == ("sum", ".L3")
    assert names(list(loop.instructions)) == ["vaddps", "vmovaps", "vmovaps", "addq", "cmpq", "jne"]


def test_what_is_kept_in_places_of_the_stack_is_spilled_and_arrays_are_not() -> None:
    assert [str(each) for each in only(NEST).spilled()] == ["vmovaps %zmm0, -64(%rbp)"]


def test_a_register_that_is_no_frame_is_a_pointer_like_others() -> None:
    assert only(FAR).spilled() == []


def test_a_part_of_a_loop_that_lies_behind_it_belongs_to_it_and_is_no_loop() -> None:
    assert names(only(FAR).whole(32)) == ["vaddps", "vmulps"]


def test_vectors_of_arm_are_read_and_a_call_leaves_no_loop() -> None:
    loop = only(ARM)
    assert names(loop.whole(16)) == ["ldr", "uxtl", "str"]
    assert names(loop.halves(16)) == ["ldr", "add"]
    assert [str(each) for each in loop.spilled()] == ["str q1, [sp, 32]"]


def test_a_loop_that_is_entered_at_its_end_is_one() -> None:
    assert only(ARM).label == ".L3", "what every way into it leads through"


@pytest.mark.parametrize(
    ("line", "size"),
    [
        ("vpaddd %zmm1, %zmm2, %zmm3", 64),
        ("vpmovzxbd (%rax), %zmm3", 64),
        ("vpmovdb %zmm3, (%rax)", 64),
        ("vpminsd %xmm1, %xmm2, %xmm3", 16),
        ("vmovdqu 32(%rdi), %ymm1", 32),
        ("vaddss %xmm1, %xmm2, %xmm3", 0),
        ("vcvtsi2ssl %eax, %xmm1, %xmm1", 0),
        ("vcvttss2sil %xmm1, %eax", 0),
        ("vmovd %eax, %xmm0", 0),
        ("vbroadcastss %xmm0, %zmm1", 64),
        ("addq $8, %rax", 0),
        ("fadd v0.4s, v1.4s, v2.4s", 16),
        ("fadd s0, s1, s2", 0),
        ("ldp q0, q1, [x0]", 16),
        ("add v0.8b, v1.8b, v2.8b", 8),
        ("fmla v0.4s, v1.4s, v2.s[0]", 16),
    ],
)
def test_the_width_of_an_instruction_is_that_of_its_widest_vector(line: str, size: int) -> None:
    name, _, operands = line.partition(" ")
    assert Instruction(name, operands).vector_bytes == size


@pytest.mark.parametrize(
    ("line", "narrower"),
    [
        ("vinserti64x4 $1, %ymm0, %zmm1, %zmm2", True),
        ("vextractf64x4 $1, %zmm0, %ymm1", True),
        ("vpaddd %ymm1, %ymm2, %ymm3", True),
        ("vpaddd %zmm1, %zmm2, %zmm3", False),
        ("vpxor %xmm1, %xmm1, %xmm1", False),
        ("vpxor %xmm1, %xmm2, %xmm1", True),
        ("vaddss %xmm1, %xmm2, %xmm3", False),
    ],
)
def test_halves_are_narrower_vectors_and_what_joins_them(line: str, narrower: bool) -> None:
    name, _, operands = line.partition(" ")
    assert Instruction(name, operands).is_narrower(64) == narrower

"""Loops of Halide's schedules in machine code, how often each runs for a point, and whether models order programs."""

from __future__ import annotations

import pytest

from benchmarks.machine_code import halide_loops, order
from benchmarks.machine_code.assembly import Instruction, all_loops, innermost_loops
from benchmarks.machine_code.mca import across_lines

#: Two stages in rows: a loop each, named by a comment at its label, inside of a loop over the rows.
ROWS = """\
    .type halide_par_for_last__3_s0_y_y,@function
halide_par_for_last__3_s0_y_y:
    xorl %eax, %eax
.LBB0_1:  # %"1_for_last$3.s0.y.yi"
    xorl %ecx, %ecx
.LBB0_2:  # %"2_for_first$3.s0.x.x"
    vmovups (%rsi,%rcx), %ymm0
    vaddps (%rdi,%rcx), %ymm0, %ymm0
    vmovups %ymm0, (%rdx,%rcx)
    addq $32, %rcx
    cmpq %rcx, %r8
    jne .LBB0_2
    xorl %ecx, %ecx
.LBB0_3:  # %"3_for_last$3.s0.x.x"
    vmovups (%rdx,%rcx), %ymm0
    vmovups %ymm0, (%r9,%rcx)
    addq $32, %rcx
    cmpq %rcx, %r8
    jne .LBB0_3
    incq %rax
    cmpq %rax, %r10
    jne .LBB0_1
    retq
"""


def test_stages_in_rows_have_a_loop_each() -> None:
    """The first stage of a blur runs for ten rows in a band of eight, eight lanes an iteration."""
    found = halide_loops.hot_loops("blur", "rows sliding in bands of 8, 8 lanes", ROWS)
    assert [(share, loop.label) for share, loop in found] == [(10 / 8 / 8, ".LBB0_2"), (1 / 8, ".LBB0_3")]


def test_a_window_that_slides_is_the_loop_around_those_that_fill_it() -> None:
    """Its path passes the loops inside once: twenty instructions, seven of vectors."""
    ((share, loop),) = halide_loops.hot_loops(
        "blur", "down first, 2 rows in registers, sliding along them, 8 lanes", ROWS
    )
    assert (share, loop.label, len(loop.usual)) == (1 / 16, ".LBB0_1", 16)
    assert sum(1 for each in loop.usual if each.vector_bytes) == 5


@pytest.mark.parametrize("number", ["last_63_s0_y_y__1", "last_s0_y_y", "last__163_s0_y_y"])
def test_the_last_stage_whatever_number_its_function_has(number: str) -> None:
    """Halide writes a number behind one underscore where the name with two is taken."""
    text = ROWS.replace("last__3_s0_y_y", number)
    name = "down first, 2 rows in registers, sliding along them, 8 lanes"
    assert [loop.label for _, loop in halide_loops.hot_loops("blur", name, text)] == [".LBB0_1"]


def test_no_form_that_was_timed_is_left_out() -> None:
    """One without a loop that is known ends the program."""
    (pair,) = order.beside("blur", {order.OURS: 2.0, "rows": 3.0}, {order.OURS: 1.0, "rows": 1.2})
    assert (pair.form, pair.modelled, pair.measured) == ("rows", 1.5, 1.2)
    with pytest.raises(SystemExit, match="blur: timed, but no loop is known of tiles"):
        order.beside("blur", {order.OURS: 2.0}, {order.OURS: 1.0, "tiles": 1.2})


def test_the_usual_path_of_an_outer_loop_passes_each_inner_one_once() -> None:
    assert [loop.label for loop in innermost_loops(ROWS)] == [".LBB0_2", ".LBB0_3"]
    inner = sum(len(loop.usual) for loop in innermost_loops(ROWS))
    (outer,) = [loop for loop in all_loops(ROWS) if loop.label == ".LBB0_1"]
    assert len(outer.usual) == inner + 5


@pytest.mark.parametrize(
    ("workload", "name", "lanes", "values"),
    [
        ("blur", "tiles of 256 x 32, 16 lanes", 16, 34 / 32),
        ("blur", "down first, tiles of 256 x 32, 16 lanes", 16, 272 / 256),
        ("gauss", "rows sliding in bands of 64, 16 lanes", 16, 68 / 64),
        ("gauss", "down first, rows sliding in bands of 64, 16 lanes", 16, 1),
        ("edge", "tiles of 256 x 32, 32 lanes", 32, 33 / 32 * 288 / 256),
        ("edge", "rows sliding in bands of 8, 32 lanes", 32, 9 / 8),
    ],
)
def test_values_of_the_first_stage_for_one_of_the_second(workload: str, name: str, lanes: int, values: float) -> None:
    assert halide_loops.repeated(workload, name, lanes) == pytest.approx(values)


def test_pairs_within_noise_have_no_order() -> None:
    near, right, wrong = (
        order.Pair("blur", "a form", modelled, measured) for modelled, measured in ((0.5, 1.02), (0.9, 0.8), (1.2, 0.9))
    )
    assert [each.has_order for each in (near, right, wrong)] == [False, True, True]
    assert right.agrees and not wrong.agrees


def test_loads_that_cross_a_line_are_two_accesses() -> None:
    """Of vectors with 32 bytes every second one, of 64 bytes each; nothing of stores, of the stack, of one number."""
    (loop, _) = innermost_loops(ROWS)
    path = [loop.usual[0], loop.usual[0], loop.usual[2], Instruction("vbroadcastss", "(%rax), %ymm1")]
    path += [Instruction("vpaddd", "8(%rax,%rcx), %zmm0, %zmm1"), Instruction("vmovups", "32(%rsp), %zmm3")]
    found = across_lines(path, loop.is_of_stack)
    extra = [str(each) for each in found if each.name == "prefetcht0"]
    assert extra == ["prefetcht0 (%rsi,%rcx)", "prefetcht0 8(%rax,%rcx)"]
    assert [each for each in found if each.name != "prefetcht0"] == path

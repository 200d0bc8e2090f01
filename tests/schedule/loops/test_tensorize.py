"""`tensorize`: the products that it takes, and what is refused, with the repair."""

from __future__ import annotations

import re

import pytest

import tiramisu_py as tm
from tests.programs import matrix_tiles as mt
from tests.programs.drafts import texts
from tests.programs.gpu import tensor_products as tp
from tests.programs.matrix_tiles import K, M, N, i, i0, i1, i3, j, j0, j1, j3, k, k0, k1

PANELS = "copy.store_in(panels, [j // 16, k // 4, j % 16, k % 4])"


def test_the_command_is_written_as_it_was_given():
    f, _ = mt.product()
    assert texts(f)[-1] == "C.update.tensorize(i3, j3, k1, 'amx')"
    assert f.check().ok


def tiled(rows: int = 16, columns: int = 16, terms: int = 64, **how: object) -> tuple[tm.Function, tm.Reduction]:
    """A product of the caller's arrays, in tiles."""
    f = tm.Function("plain", params=[N, M, K], assume="N >= 1 and M >= 1 and K >= 1")
    A, B = f.input("A", how.get("first", tm.uint8), [N, K]), f.input("B", tm.int8, [K, M])
    C = f.reduction("C", {i: N, j: M}, {k: K}, tm.sum, tm.cast(tm.int32, A[i, k]) * tm.cast(tm.int32, B[k, j]))
    f.outputs(C)
    C.update.split(i, rows, i0, i1).split(j, columns, j0, j1).split(k, terms, k0, k1)
    C.update.reorder(i0, j0, k0, i1, j1, k1)
    return f, C


COMMANDS = {
    "an unknown instruction": (
        lambda C: C.update.tensorize(i1, j1, k1, "vnni"),
        "there is no instruction 'vnni' on matrices: choose one of \"amx\", \"m16n8k16\"",
    ),
    "one loop twice": (lambda C: C.update.tensorize(i1, i1, k1, "amx"), "tensorize takes three loops"),
    "no loop of that name": (lambda C: C.update.tensorize(i1, j1, k, "amx"), "no loop k here"),
    "no update": (lambda C: C.init.tensorize(i, j, k, "amx"), "C.init adds no products: give tensorize the update"),
    "types of another instruction": (
        lambda C: C.update.tensorize(i1, j1, k1, "m16n8k16"),
        "m16n8k16 does not sum uint8 * int8 in int32: it has float16 * float16 in float32",
    ),
    "a vector around": (
        lambda C: C.update.vectorize(k0, 8, combine=tm.PRIVATE).tensorize(i1, j1, k1, "amx"),
        "the tensor loop i1 (C.update.tensorize(i1, j1, k1, 'amx')) is inside the vector loop k0",
    ),
    "an unrolled loop inside": (
        lambda C: C.update.tensorize(i1, j1, k1, "amx").reorder(i1, j1, k1, k0).unroll(k0, 2),
        "an instruction on matrices runs its three loops at once: tag loops around them, or leave tensorize out",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", COMMANDS)
def test_a_command_without_sense_is_refused(case):
    command, said = COMMANDS[case]
    _, C = tiled()
    with pytest.raises(tm.CommandError, match=re.escape(said)):
        command(C)


def test_only_sums_of_products_are_tensorized():
    f = tm.Function("others", params=[N, M, K])
    A, B = f.input("A", tm.uint8, [N, K]), f.input("B", tm.int8, [K, M])
    a, b = (tm.cast(tm.int32, e) for e in (A[i, k], B[k, j]))
    largest = f.reduction("largest", {i: N, j: M}, {k: K}, tm.max, a * b)
    twice = f.reduction("twice", {i: N, j: M}, {k: K}, tm.sum, 2 * a * b)
    f.outputs(largest, twice)
    with pytest.raises(tm.CommandError, match=r"largest\.update combines terms by tm\.max, and amx adds products"):
        largest.update.tensorize(i, j, k, "amx")
    with pytest.raises(
        tm.CommandError, match="no product of two reads, each converted to int32: compute other factors"
    ):
        twice.update.tensorize(i, j, k, "amx")


def refused(f: tm.Function) -> tuple[str, str]:
    """The reason, and the repair, of a program with one fault."""
    report = f.check()
    (violation,) = report.violations
    assert violation.command is not None
    return violation.message, violation.repair


@pytest.mark.parametrize(
    ("rows", "columns", "terms", "said", "repair"),
    [
        (8, 16, 64, "loop i1 of C.update has 8 iterations, and amx takes 16 rows of uint8", "split(i1, 16, i10, i11)"),
        (16, 32, 64, "loop j1 of C.update has 32 iterations, and amx takes 16 columns", "split(j1, 16, j10, j11)"),
        (16, 16, 32, "loop k1 of C.update has 32 iterations, and amx takes 64 terms", "split(k1, 64, k10, k11)"),
    ],
)
def test_loops_have_as_many_iterations_as_the_instruction(rows, columns, terms, said, repair):
    f, C = tiled(rows, columns, terms)
    C.update.tensorize(i1, j1, k1, "amx")
    found = refused(f)
    assert said in found[0]
    assert repair in found[1]


def test_loops_without_a_constant_number_of_iterations_are_refused():
    f, C = tiled()
    C.update.reorder(i1, j1, k1, i0, j0, k0)
    C.update.tensorize(i0, j1, k1, "amx")
    assert "runs the three innermost loops at once" in refused(f)[0]
    f, C = tiled()
    C.update.reorder(i1, j0, k0, i0, j1, k1).tensorize(i0, j1, k1, "amx")
    assert "loop i0 of C.update has no constant number of iterations" in refused(f)[0]


def test_the_right_factor_has_groups_of_four_terms_together():
    f, C = tiled()
    C.update.tensorize(i1, j1, k1, "amx")
    message, repair = refused(f)
    assert message == (
        "B of C.update does not have groups of 4 terms of one column, beside those of the next column, which amx takes"
    )
    assert repair == f"let C.update read a copy of B in such panels: {PANELS}"


def test_loops_are_named_as_rows_columns_and_terms():
    f, C = mt.product(tensorized=False)
    C.update.tensorize(j3, i3, k1, "amx")
    assert "neighbours of panels along loop k1 are not all equally far apart" in refused(f)[0]


def test_rows_of_the_left_factor_follow_each_other_in_memory():
    f = tm.Function("turned", params=[N, M, K])
    A, B = f.input("A", tm.uint8, [K, N]), f.input("B", tm.int8, [K, M])
    right = f.computation("right", {k: K, j: M}, B[k, j])
    C = f.reduction("C", {i: N, j: M}, {k: K}, tm.sum, tm.cast(tm.int32, A[k, i]) * tm.cast(tm.int32, right[k, j]))
    f.outputs(C)
    right.store_in(
        tm.Buffer("panels", [(M + 15) // 16, (K + 3) // 4, 16, 4], tm.int8), [j // 16, k // 4, j % 16, k % 4]
    )
    C.update.split(i, 16, i0, i1).split(j, 16, j0, j1).split(k, 64, k0, k1).reorder(i0, j0, k0, i1, j1, k1)
    C.update.tensorize(i1, j1, k1, "amx")
    message, repair = refused(f)
    assert message == (
        "neighbours of A along loop k1 are not all equally far apart, and amx takes rows of terms that follow each "
        "other"
    )
    assert repair == "let C.update read a copy of A, a row of which has its terms beside each other"


def test_threads_that_add_atomically_have_no_tiles():
    f, C = mt.product()
    C.update.reorder(k0, i0).parallelize(k0, combine=tm.ATOMIC)
    message, repair = refused(f)
    assert "C.update adds each term atomically, since threads share loop k0, and amx adds to whole tiles" in message
    assert repair == "C.update.parallelize(k0, combine=tm.PRIVATE)"


def test_the_square_of_a_matrix_has_no_left_factor():
    f = tm.Function("gram", params=[N, K])
    A = f.input("A", tm.uint8, [N, K])
    C = f.reduction("C", {i: N, j: N}, {k: K}, tm.sum, tm.cast(tm.int32, A[i, k]) * tm.cast(tm.int32, A[j, k]))
    f.outputs(C)
    C.update.split(i, 16, i0, i1).split(j, 16, j0, j1).split(k, 64, k0, k1).reorder(i0, j0, k0, i1, j1, k1)
    C.update.tensorize(i1, j1, k1, "amx")
    message, repair = refused(f)
    assert "both factors of C.update are values of A" in message
    assert repair == "let one of them be a copy of A"


def test_a_kernel_of_a_gpu_has_no_tiles_of_cores():
    f, C = mt.product()
    C.update.tag_gpu(blocks=[i0, j0])
    said = [violation.message for violation in f.check().violations]
    assert "C.update runs on a GPU, and amx is an instruction of cores" in said


def test_a_file_keeps_the_command(tmp_path):
    f, _ = mt.product()
    f.save(tmp_path / "f.json")
    assert texts(tm.load(tmp_path / "f.json")) == texts(f)


def on_gpu(**how: object) -> tuple[tm.Function, tm.Reduction]:
    return tp.product(tensorized=False, shared=False, **how)


def test_threads_of_a_block_are_those_of_warps():
    f, total = on_gpu(threads="yx")
    total.update.tensorize(tp.h, tp.p, tp.k2, "m16n8k16")
    message, repair = refused(f)
    assert message == (
        "the block of total.update has 8 threads along x and 4 along y, and the warps of m16n8k16 have 4 and 8"
    )
    assert repair == "tag_gpu(threads=[warps, y, x]), of loops of 8 and 4 iterations along y and x"


def test_rows_and_columns_of_a_warp_are_not_exchanged():
    f, total = on_gpu()
    total.update.tensorize(tp.p, tp.h, tp.k2, "m16n8k16")
    assert "is another element for each thread along" in refused(f)[0]


@pytest.mark.slow
def test_sums_of_warps_are_in_registers():
    f, total = on_gpu(memory=tm.SHARED)
    total.update.tensorize(tp.h, tp.p, tp.k2, "m16n8k16")
    said = [(one.message, one.repair) for one in f.check().violations]
    assert ("the sums of total.update are in total, and m16n8k16 adds to registers of each thread",
            "total.store_in(tm.REGISTER)") in said  # fmt: skip


def test_tiles_of_cores_are_not_those_of_warps():
    f, C = mt.product(tm.bfloat16, tm.bfloat16, tm.float32, tensorized=False)
    C.update.tensorize(i3, j3, k1, "m16n8k16")
    message, repair = refused(f)
    assert message == "C.update runs on cores, and m16n8k16 is an instruction of GPUs"
    assert repair == 'use "amx"'

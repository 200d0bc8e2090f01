"""replicate: each thread along a loop computes its own copy of a value that others would pass to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs.gpu.replicas import COLUMNS, expected, i, i0, i1, j, k, k0, k1, numbers, replicated, rows, t
from tests.selection import some
from tiramisu_py.errors import CommandError

SIZES = ((1, 0), (1, 1), (3, 5), (4, 7))


@pytest.mark.parametrize("tagged_first", some([True, False], bool))
def test_each_thread_of_a_row_has_the_largest_value_so_far(tagged_first: bool) -> None:
    f = replicated(tagged_first=tagged_first)
    report = f.check()
    assert report.ok, report
    text = f.show("pseudocode")
    assert "barrier" not in text and "shared memory" not in text
    assert "allocate top[] in registers" in text
    simulated = f.compile(device="simulator", sanitize=True)
    for steps, count in SIZES:
        a, z = numbers(steps, count)
        wanted = expected(a, z)
        np.testing.assert_array_equal(f.evaluate(a, z), wanted)
        for each in (simulated, simulated.seeded(1, "lazy")):
            np.testing.assert_array_equal(each(a, z), wanted, strict=True)


def test_without_replicas_a_thread_would_read_what_another_one_has() -> None:
    (violation,) = replicated(replicas=False).check().violations
    assert violation.kind == "reach" and violation.witness.params == {"N": 1, "T": 1}
    assert violation.message.startswith(
        "acc[0, 0, 1] reads top[0, 0] in thread (1, 0, 0) of a block, and thread (0, 0, 0) has it in its registers"
    )
    assert violation.repair.startswith("top.replicate(j) and thread loops as those of acc; or ")


def test_copies_in_one_place_are_a_race() -> None:
    first, *_ = replicated(memory=tm.SHARED).check().violations
    assert first.kind == "race" and first.witness.params == {"N": 1, "T": 1}
    assert first.message.startswith("two executions for top[0, 0] both store to top[0, 0], by block 0, thread (1, 0)")


def test_a_loop_on_no_threads_overwrites_what_the_next_copy_reads() -> None:
    """Copies one after another, in one place that has the newest value alone."""
    f, _, acc, top, _ = rows()
    acc.reorder(j, i)
    top.store_in(tm.HOST)
    top.replicate(j)
    found = {(violation.kind, violation.witness.params["T"]) for violation in f.check().violations}
    assert ("overwritten", 2) in found


@pytest.mark.parametrize(
    ("memory", "repair"),
    [
        (tm.REGISTER, "run loop j on threads"),
        (tm.HOST, "run loop j on threads and total.store_in(tm.REGISTER)"),
    ],
)
def test_copies_of_a_sum_that_no_threads_compute_are_told_to(memory: tm.Memory, repair: str) -> None:
    f, _, _, top, total = rows()
    total.store_in(memory)
    top.replicate(j)
    total.replicate(j)
    found = next(violation for violation in f.check().violations if violation.kind == "reduction")
    assert found.message.startswith("total[0, 0] is started twice")
    assert found.repair == f"each thread has one copy: {repair}"


def test_a_copy_has_the_iterations_of_all_that_reads_it() -> None:
    """Two readers along loops of one name, of which one starts later, and a recurrence that starts in between."""
    N, T = tm.params("N T")
    f = tm.Function("late", params=[N, T], assume="T >= 3")
    a = f.input("a", tm.float32, [T, N])
    top = f.computation("top", {t: T, i: N}, lambda top: tm.select(t == 0, 0.0, top[t - 1, i]) + a[t, i])
    few = f.computation("few", {t: T, i: N, j: 3}, top[t, i] * (j + 1))
    late = f.computation("late", {t: (2, T), i: N, j: (1, 6)}, top[t, i] - j)
    f.outputs(few, late)
    for each in (few, late):
        each.reorder(i, t, j)
        each.split(i, 2, i0, i1).reorder(i0, i1, t, j)
    late.fuse(few, t)
    top.compute_at(few, i1).fold(t, 1).store_in(tm.REGISTER)
    top.fuse(few, t)
    top.replicate(j)
    few.tag_gpu(blocks=[i0], threads=[i1, j])
    late.tag_gpu(threads=[j])
    top.tag_gpu(threads=[j])
    f.derive_transfers()
    report = f.check()
    assert report.ok, report
    given = np.ascontiguousarray(numbers(4, 5)[0][:, :, 0])
    simulated = f.compile(device="simulator", sanitize=True)(given)
    tops = given.cumsum(0, dtype=np.float32)
    np.testing.assert_array_equal(simulated[0], tops[:, :, None] * np.arange(1, 4, dtype=np.float32))
    np.testing.assert_array_equal(simulated[1][2:, :, 1:], tops[2:, :, None] - np.arange(1, 6, dtype=np.float32))


@pytest.mark.slow
def test_a_tree_in_a_loop_inside_of_a_thread_loop_gives_its_sum_to_all_threads_of_the_row() -> None:
    """Threads along i1 run the steps; in each step the threads along x add up, and each goes on with the sum."""
    f, out, acc, top, total = rows(inside=i1)
    total.update.split(k, 2, k0, k1).reorder(k1, k0)
    out.tag_gpu(blocks=[i0], threads=[i1, j])
    acc.tag_gpu(threads=[j])
    top.replicate(j)
    top.tag_gpu(threads=[j])
    total.update.tag_gpu(threads=[k1], combine=tm.TREE)
    f.derive_transfers()
    report = f.check()
    assert report.ok, report
    text = f.show("pseudocode")
    assert "barrier" not in text and "shared memory" not in text and "over threadIdx.x" in text
    simulated = f.compile(device="simulator", sanitize=True)
    for steps, count in SIZES:
        a, z = numbers(steps, count)
        for each in (simulated, simulated.seeded(1, "lazy")):
            np.testing.assert_array_equal(each(a, z), expected(a, z), strict=True)


def test_copies_are_saved_and_undone() -> None:
    f = replicated()
    assert {"top.replicate(j)", "total.replicate(j)"} <= set(map(str, f.commands))
    again = tm.Function.of(f.algorithm, f.commands)
    assert again.show("pseudocode") == f.show("pseudocode")
    g, _, _, top, _ = rows()
    before = g.show("pseudocode")
    top.replicate(j)
    assert g.show("pseudocode") != before
    g.undo()
    assert g.show("pseudocode") == before


def _tree(total: Any, acc: Any) -> None:
    total.update.tag_gpu(blocks=[i0], threads=[k], combine=tm.TREE)
    total.update.replicate(j)


#: What is wrong, the commands, and the words of the refusal.
REFUSED: dict[str, tuple[Callable[..., object], str]] = {
    "outputs": (lambda out, acc, top, total: out.replicate(k), "out is an output, of which the caller has one copy"),
    "no such loop": (
        lambda out, acc, top, total: top.replicate(k),
        "nothing that reads top has a loop k: acc has",
    ),
    "its own loop": (lambda out, acc, top, total: top.replicate(i), "top has a loop i already: "),
    "partial terms": (
        lambda out, acc, top, total: _tree(total, acc),
        "total.update combines partial results of threads",
    ),
    "lanes": (
        lambda out, acc, top, total: (acc.vectorize(j, COLUMNS), top.replicate(j)),
        "j is a vector loop (acc.vectorize(j, 8)): replicate is for the threads of a GPU's block; compute_at gives",
    ),
}


@pytest.mark.parametrize("wrong", REFUSED)
def test_what_has_no_copies_is_refused(wrong: str) -> None:
    given, words = REFUSED[wrong]
    _, *handles = rows()
    with pytest.raises(CommandError) as refused:
        given(*handles)
    assert words in str(refused.value)

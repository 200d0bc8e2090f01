"""The grade of the bits of a reduction: that of the weakest command, and what is refused where more is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tiramisu_py as tm
from tests.programs.ranks.sums import total
from tiramisu_py.errors import DeclarationError

N, K = tm.params("N K")
i, k, k0, k1, b, t = tm.iters("i k k0 k1 b t")
GRADES = ["ordered", "everywhere", "run_to_run", "not_guaranteed"]

Schedule = Callable[[tm.Function, Any], Any]


def rows(dtype: tm.DType = tm.float32, op: Any = tm.sum, **options: Any) -> tuple[tm.Function, Any]:
    """The sum of each row, or the same with another operator."""
    f = tm.Function("rows", params=[N, K], assume="K >= 1" if op is tm.argmax else None)
    a = f.input("a", dtype, [N, K])
    s = f.reduction("s", {i: N}, {k: K}, op, a[i, k], **options)
    f.outputs(s)
    return f, s


def split(s: Any) -> Any:
    s.update.split(k, 8, k0, k1)
    return s


def on_blocks(f: tm.Function, s: Any, **combine: Any) -> None:
    """Rows on blocks, and their terms on the threads of a block."""
    s.update.split(k, 64, k0, t)
    s.tag_gpu(blocks=[i], threads=[t], **combine)
    f.derive_transfers()


def over_blocks(f: tm.Function, s: Any) -> None:
    """The terms of a row on several blocks."""
    s.update.split(k, 256, b, k)
    s.update.split(k, 64, k0, t)
    s.init.tag_gpu(blocks=[i])
    s.update.tag_gpu(blocks=[i, b], threads=[t], combine=tm.TREE)
    f.derive_transfers()


def in_two_passes(f: tm.Function, s: Any) -> None:
    """The same, with the results of blocks combined by a second kernel."""
    s.update.split(k, 256, b, k)
    s.update.split(k, 64, k0, t)
    s.tag_gpu(blocks=[i, b], threads=[t], combine=tm.TREE, across=tm.TWO_PASS)
    f.derive_transfers()


def in_the_last_block(f: tm.Function, s: Any) -> None:
    """The same, combined by the last block."""
    s.update.split(k, 256, b, k)
    s.update.split(k, 64, k0, t)
    s.tag_gpu(blocks=[i, b], threads=[t], combine=tm.TREE, across=tm.LAST_BLOCK)
    f.derive_transfers()


SCHEDULES: dict[str, tuple[str, Schedule]] = {
    "none": ("ordered", lambda f, s: None),
    "values on threads": ("ordered", lambda f, s: s.update.parallelize(i)),
    "values in vectors": ("ordered", lambda f, s: s.update.reorder(k, i).vectorize(i, 8)),
    "blocks of terms in order": ("ordered", lambda f, s: split(s).update.unroll(k1)),
    "backwards": ("everywhere", lambda f, s: s.update.reverse(k)),
    "lanes": ("everywhere", lambda f, s: s.update.vectorize(k, 8, combine=tm.PRIVATE)),
    "rfactor": ("everywhere", lambda f, s: split(s).rfactor(k0)),
    "blocks of terms on threads": ("everywhere", lambda f, s: split(s).rfactor(k0).parallelize(k0)),
    "a block for a row": ("everywhere", lambda f, s: on_blocks(f, s, combine=tm.TREE)),
    "trees of threads": ("everywhere", lambda f, s: split(s).update.parallelize(k0, combine=tm.TREE)),
    "two passes": ("everywhere", in_two_passes),
    "the last block": ("everywhere", in_the_last_block),
    "private copies": ("run_to_run", lambda f, s: s.update.parallelize(k, combine=tm.PRIVATE)),
    "partial results in private copies": (
        "run_to_run", lambda f, s: split(s).rfactor(k0).update.parallelize(k, combine=tm.PRIVATE),
    ),
    "private copies as they come": (
        "not_guaranteed", lambda f, s: s.update.parallelize(k, combine=tm.PRIVATE, schedule="dynamic"),
    ),
    "atomic": ("not_guaranteed", lambda f, s: s.update.parallelize(k, combine=tm.ATOMIC)),
    "atomic in a block": ("not_guaranteed", lambda f, s: on_blocks(f, s, combine=tm.ATOMIC)),
    "several blocks": ("not_guaranteed", over_blocks),
}  # fmt: skip


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_schedule_has_a_grade_and_what_asks_for_more_is_refused(schedule: str) -> None:
    grade, commands = SCHEDULES[schedule]
    for asked in GRADES:
        f, s = rows(determinism=asked)
        commands(f, s)
        report = f.check()
        if GRADES.index(asked) < GRADES.index(grade):
            (violation,) = report.violations
            assert violation.kind == "reduction" and f"determinism={asked!r}" in violation.message
            assert violation.repair and violation.command in {entry.text for entry in f.program.log}
        else:
            assert report.ok, report
            assert {name: str(found) for name, found in report.determinism.items()} == {"s": grade}
            assert (report.bits == "bits preserved") == (grade == "ordered")
            assert report.as_dict()["determinism"] == {"s": grade}


@pytest.mark.parametrize(
    ("asked", "repair"),
    [
        ("run_to_run", "PRIVATE"),
        ("everywhere", "s.update.parallelize(k, combine=tm.TREE)"),
        ("ordered", "in order"),
    ],
)
def test_the_repair_gives_the_grade_that_is_asked_for(asked: str, repair: str) -> None:
    f, s = rows(determinism=asked)
    s.update.parallelize(k, combine=tm.ATOMIC)
    (violation,) = f.check().violations
    assert violation.command == "s.update.parallelize(k, combine=tm.ATOMIC)"
    assert repair in violation.repair
    assert dict(violation.witness.params) == {"N": 1, "K": 2}


@pytest.mark.parametrize(
    ("dtype", "op"), [(tm.int32, tm.sum), (tm.uint8, tm.max), (tm.bool, tm.logical_and), (tm.float64, tm.max)]
)
def test_no_order_changes_integers_truths_and_what_is_chosen(dtype: tm.DType, op: Any) -> None:
    f, s = rows(dtype, op, determinism="ordered")
    s.update.parallelize(k, combine=tm.ATOMIC)
    report = f.check()
    assert report.ok and str(report.determinism["s"]) == "ordered"
    assert ("sign of zero" in report.bits) == dtype.is_float


def test_the_index_of_a_maximum_is_the_same_in_any_order() -> None:
    f, s = rows(tm.float32, tm.argmax, determinism="ordered")
    split(s).rfactor(k0).parallelize(k0)
    assert f.check().bits == "bits preserved"


def test_a_tuple_has_the_grade_of_its_floats() -> None:
    both = tm.operator("both", lambda x, y: (x[0] + y[0], x[1] + y[1]), (0.0, 0), names=("total", "count"))
    f = tm.Function("f", params=[N, K])
    a = f.input("a", tm.float32, [N, K])
    s = f.reduction("s", {i: N}, {k: K}, both, (a[i, k], 1))
    f.outputs(s)
    split(s).rfactor(k0)
    assert str(f.check().determinism["s"]) == "everywhere"


def test_mpi_chooses_an_order_of_its_own() -> None:
    f, _ = total(dtype=tm.float64)
    assert str(f.check().determinism["s"]) == "not_guaranteed"
    f, _ = total(dtype=tm.int64)
    assert str(f.check().determinism["s"]) == "ordered"


def test_a_grade_that_does_not_exist_is_refused() -> None:
    with pytest.raises(DeclarationError, match="determinism='always' of s: give 'ordered', 'everywhere'"):
        rows(determinism="always")


def test_a_saved_function_keeps_what_is_asked_for(tmp_path: Any) -> None:
    f, s = rows(determinism="gpu_to_gpu")
    s.update.parallelize(k, combine=tm.PRIVATE)
    f.save(tmp_path / "rows.json")
    again = tm.load(tmp_path / "rows.json")
    (violation,) = again.check().violations
    assert "determinism='everywhere'" in violation.message


def test_atomic_updates_of_blocks_are_repaired_by_two_passes() -> None:
    f, s = rows(determinism="run_to_run")
    s.update.split(k, 64, b, t)
    s.init.tag_gpu(blocks=[i])
    s.update.tag_gpu(blocks=[i, b], threads=[t], combine=tm.ATOMIC)
    f.derive_transfers()
    (violation,) = f.check().violations
    assert violation.command == "s.update.tag_gpu(blocks=[i, b], threads=[t], combine=tm.ATOMIC)"
    assert "across=tm.TWO_PASS" in violation.repair
    f, s = rows(determinism="run_to_run")
    s.update.split(k, 64, b, t)
    s.update.tag_gpu(blocks=[i, b], threads=[t], combine=tm.TREE, across=tm.TWO_PASS)
    f.derive_transfers()
    assert f.check().ok


def test_trees_of_several_threads_that_add_to_one_element_come_in_any_order() -> None:
    """Each thread k has a tree of its own, and all of them add to s[i], at different times of no common order."""
    x, u = tm.iters("x u")
    f = tm.Function("skewed")
    a = f.input("a", tm.float32, [100, 64, 8])
    s = f.reduction("s", {i: 100}, {k: 64, x: 8}, tm.sum, a[i, k, x], determinism="everywhere")
    f.outputs(s)
    s.init.tag_gpu(blocks=[i])
    s.update.interchange(i, k).skew(k, i, 1, u).interchange(k, u)
    s.update.split(k, 64, b, t).interchange(u, b)
    s.update.tag_gpu(blocks=[b], threads=[t, x], combine=tm.TREE)
    f.derive_transfers()
    (violation,) = f.check().violations
    assert "declared determinism='everywhere', but threads of a block add what their trees collect" in violation.message
    assert violation.repair == "run loops of s.update on threads of which one tree has all terms of an element"

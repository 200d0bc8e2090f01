"""Refusals of reductions that threads of a GPU or ranks combine: the words for partial results, and the blame."""

from __future__ import annotations

import pytest

import tiramisu_py as tm

N, K = tm.params("N K")
i, k, k0, k1, q, i1 = tm.iters("i k k0 k1 q i1")

TREE = "s.update.tag_gpu(blocks=[k0], threads=[k1], combine=tm.TREE)"


def row_sums(rows_inside: bool, start_on_gpu: bool = True) -> tuple[tm.Function, tm.Input, tm.Reduction]:
    """Sums of rows in a tree: a block for each row, or one that adds its columns to all rows."""
    f = tm.Function("rows", params=[N, K], assume="N >= 1 and K >= N")
    a = f.input("a", tm.float32, [N, K])
    s = f.reduction("s", {i: N}, {k: K}, tm.sum, a[i, k])
    t = f.computation("t", {i: N}, 2.0 * s[i])
    f.outputs(t)
    t.tag_gpu(blocks=[i])
    if start_on_gpu:
        s.init.tag_gpu(blocks=[i])
    s.update.split(k, 32, k0, k1)
    if rows_inside:
        s.update.reorder(k0, k1, i)
    s.update.tag_gpu(blocks=[k0 if rows_inside else i], threads=[k1], combine=tm.TREE)
    f.order(s.init, s.update, t, at=tm.root)
    return f, a, s


def violations(f: tm.Function) -> dict[str, tm.Violation]:
    """The violations of a program, by their messages; it is refused."""
    report = f.check()
    assert not report.ok
    return {violation.message: violation for violation in report.violations}


def test_the_partial_result_of_a_thread_is_called_so() -> None:
    f, _, s = row_sums(rows_inside=True)
    s.store_in(tm.Buffer("m", [1], tm.float32), [0])
    f.derive_transfers()
    found = violations(f)
    assert not [message for message in found if "s_update" in message]
    sharing = (
        "s[0] reads s[0] in the thread's partial result of s, where s[1] has been written in the meantime, "
        "at N = 2, K = 2"
    )
    assert found[sharing].witness.element == ("the thread's partial result of s", ())


def test_the_partial_result_of_a_rank_is_called_so() -> None:
    f = tm.Function("rows", params=[N], assume="N >= 1")
    x = f.input("x", tm.float64, [N, 64])
    s = f.reduction("s", {i: N}, {k: 64}, tm.sum, x[i, k])
    f.outputs(s)
    x.distribute_array([i, k], rank=k // 16)
    s.update.split(k, 16, q, k1)
    s.update.tag_distribute(q, combine=tm.PRIVATE)
    s.update.parallelize(k1)
    (message,) = violations(f)
    assert message == (
        "two executions for s[0] both update the rank's partial result of s[0] in different iterations of the "
        "parallel loop k1 on rank 0, at N = 1"
    )


@pytest.mark.parametrize("transfers_last", [True, False])
@pytest.mark.parametrize("rows_inside", [True, False])
def test_the_place_of_a_sum_is_blamed_and_not_the_tree_before_it(rows_inside: bool, transfers_last: bool) -> None:
    f, a, s = row_sums(rows_inside)
    if not transfers_last:
        f.derive_transfers()
    s.store_in(a, [0, i])
    if transfers_last:
        f.derive_transfers()
    assert {violation.command for violation in violations(f).values()} == {"s.store_in(a, [0, i])"}


@pytest.mark.parametrize("transfers_last", [True, False])
def test_an_output_that_is_folded_is_blamed_and_not_the_kernel_before_it(transfers_last: bool) -> None:
    f, _, s = row_sums(rows_inside=False)
    f.outputs(s, replace=True)
    if not transfers_last:
        f.derive_transfers()
    s.store_in([i % 2])
    if transfers_last:
        f.derive_transfers()
    assert {violation.command for violation in violations(f).values()} == {"s.store_in([i % 2])"}


def test_a_tree_is_blamed_for_what_it_does_itself() -> None:
    f, _, s = row_sums(rows_inside=True, start_on_gpu=False)
    s.store_in(tm.Buffer("m", [N], tm.float32), [i])
    f.derive_transfers()
    assert {violation.command for violation in violations(f).values()} == {TREE}


def test_sums_that_share_an_element_get_elements_of_their_own() -> None:
    f, _, s = row_sums(rows_inside=False)
    s.store_in(tm.Buffer("m", [1], tm.float32), [0])
    f.derive_transfers()
    where = "by block 1 and block 0 of the kernel of s.update, which have no order, at N = 2, K = 2"
    violation = violations(f)[f"s[1] and s[0] both update m[0], {where}"]
    assert violation.repair == "keep s in a buffer that has an element for each of its values"


def test_a_sum_over_the_array_that_it_adds_up_gets_a_buffer_of_its_own() -> None:
    f, a, s = row_sums(rows_inside=False)
    s.store_in(a, [i, 0])
    f.derive_transfers()
    violation = violations(f)["another value is stored to a[0, 0] while terms of s[0] are added there, at N = 1, K = 1"]
    assert violation.repair == "keep s in a buffer of its own"


def farthest(commutes: bool = True) -> tuple[tm.Function, tm.Reduction]:
    """The place of the largest element; or the last one that is not negative, by an operator that does not commute."""
    f = tm.Function("farthest", params=[N], assume="N >= 1")
    a = f.input("a", tm.int32, [N])
    last = tm.operator("last", lambda x, y: tm.select(y >= 0, y, x), -1, commutative=False)
    t = f.reduction("t", {}, {k: N}, tm.argmax if commutes else last, a[k])
    f.outputs(t)
    return f, t


def repaired(f: tm.Function) -> str:
    """The repair of the only violation."""
    (violation,) = violations(f).values()
    return violation.repair or ""


def test_a_loop_of_several_values_is_split_before_it_is_taken_apart() -> None:
    f, t = farthest()
    t.update.parallelize(k, combine=tm.ATOMIC)
    apart = "without combine=, t.update.split(k, 64, k0, k1) and then t.update.rfactor(k0)"
    assert f"use combine=tm.PRIVATE for loop k, or {apart}" in repaired(f)
    f, t = farthest()
    t.update.split(k, 64, k0, k1)
    partial = t.update.rfactor(k0)
    partial.update.after(partial.init, k0)
    partial.update.parallelize(k0)
    assert f.check().ok


def test_repairs_on_a_gpu_name_what_the_user_has_declared_and_work() -> None:
    for commutes, combine, words in (
        (True, tm.ATOMIC, "take t apart before the loops are tagged"),
        (False, tm.TREE, "then t.update.rfactor(k0)"),
    ):
        f, t = farthest(commutes)
        t.update.split(k, 256, k0, k).split(k, 64, i, k1)
        t.tag_gpu(blocks=[k0], threads=[k1], combine=combine)
        f.derive_transfers()
        found = [violation.repair or "" for violation in f.check().violations]
        assert any(words in repair for repair in found) and not any("_blocks" in repair for repair in found)
        f, t = farthest(commutes)
        t.update.split(k, 64, k0, k1)
        partial = t.update.rfactor(k0)
        partial.split(k0, 32, i, i1)
        partial.update.after(partial.init, i1)
        partial.tag_gpu(blocks=[i], threads=[i1])
        f.derive_transfers()
        assert f.check().ok


def test_coalesce_asks_for_the_name_of_its_loop() -> None:
    f = tm.Function("sum_of_all", params=[N])
    a = f.input("a", tm.int32, [N, 4])
    t = f.reduction("t", {}, {i: N, k: 4}, tm.sum, a[i, k])
    with pytest.raises(tm.CommandError, match=r"needs a name for the loop that it makes: coalesce\(i, k, into=j\)"):
        t.update.coalesce(i, k)

"""A sum that every rank starts and one rank makes: the others get it in a message, after their start."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm

i, q, k, z, j = tm.iters("i q k z j")


def on_one_rank() -> tuple[tm.Function, tm.Reduction, tm.Computation]:
    """The terms are added on rank 0, and three ranks read the sum; without the messages."""
    f = tm.Function("f", params=[])
    x = f.input("x", tm.float64, [6])
    total = f.reduction("total", {z: 1}, {i: 6}, tm.sum, x[i])
    y = f.computation("y", {q: 3}, total[0] * 2)
    f.outputs(y)
    x.distribute_array([i], rank=0)
    y.distribute_array([q], rank=q)
    y.tag_distribute(q)
    total.update.split(i, 6, q, k)
    total.update.tag_distribute(q)
    return f, total, y


def by_hand(order: str) -> tm.Function:
    """The sum goes from rank 0 to both others, the statements in this order."""
    f, total, y = on_one_rank()
    out = f.create_exchange(
        total[z], send={q: 1, j: (1, 3), z: 1}, to=j, recv={q: (1, 3), z: 1}, source=0, name="out"
    )  # fmt: skip
    named = {"init": total.init, "update": total.update, "send": out.send, "recv": out.recv, "y": y}
    f.order(*(named[name] for name in order.split()), at=tm.root)
    return f


@pytest.mark.parametrize("order", ["init update send recv y", "init recv update send y", "init update recv send y", ""])
def test_who_receives_the_sum_after_its_own_start_reads_all_of_it(order: str) -> None:
    f = by_hand(order) if order else on_one_rank()[0]
    if not order:
        f.derive_transfers()
    assert f.check().ok, f.check()
    x = np.arange(6.0)
    for seed in range(3):
        np.testing.assert_array_equal(f.simulate(x=x, seed=seed), f.evaluate(x=x))


@pytest.mark.parametrize("order", ["recv init update send y", "init update send y recv"])
def test_who_reads_what_was_started_reads_no_sum(order: str) -> None:
    violation = by_hand(order).check().violations[0]
    assert violation.kind == "reduction"
    assert "total[0] lacks a term on rank 1: the term i = 0 is added on rank 0" in violation.message

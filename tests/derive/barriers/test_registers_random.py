"""Values in registers of random kernels: what is accepted is right in the simulator, and else it is out of reach."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tiramisu_py as tm

M, N = tm.params("M N")
i, j, r, s, t, u, v, w, p0, p1 = tm.iters("i j r s t u v w p0 p1")
#: The rows and columns of a block.
ROWS, COLUMNS = 6, 8


def deal(choice: random.Random, handle: tm.Computation, axes: tuple[tm.Iter, tm.Iter]) -> list[tm.Iter]:
    """Cut the axes of a statement, and choose loops for threads: along x, y or both, in any order."""
    threads, rest = list[tm.Iter](), list[tm.Iter]()
    for axis, extent, cut in zip(axes, (ROWS, COLUMNS), ((t, u), (v, w)), strict=True):
        by = choice.choice([each for each in range(1, extent + 1) if extent % each == 0])
        if by == 1:
            (threads if choice.random() < 0.7 else rest).append(axis)
            continue
        handle.split(axis, by, *cut)
        which = choice.randrange(2)
        threads.append(cut[which])
        rest.append(cut[1 - which])
    threads = threads or [rest.pop()]
    if choice.random() < 0.3:
        threads.reverse()
    handle.reorder(*((*rest, *threads) if choice.random() < 0.5 else (*threads, *rest)))
    return threads


def kernel(seed: int) -> tm.Function:
    """Up to three values made of each other, element by element, most of them dealt out alike and in registers."""
    choice = random.Random(seed)
    f = tm.Function("f", params=[N, M], assume="N >= 1 and M >= 1")
    a = f.input("a", tm.int32, [N, M])
    values = [f.computation("y0", {i: N, j: M}, a[i, j] * 3 + 1)]
    for k in range(1, choice.randint(1, 3)):
        e = values[-1][i, j] * 2 + k
        values.append(f.computation(f"y{k}", {i: N, j: M}, e + values[0][i, j] if choice.random() < 0.4 else e))
    last = f.computation("z", {i: N, j: M}, values[-1][i, j] - 1)
    f.outputs(last)
    last.tile(i, j, ROWS, COLUMNS, p0, p1, r, s)
    for value in reversed(values):
        value.compute_at(last, p1)
    alike = choice.random() < 0.6
    for value in (last, *reversed(values)):
        own = random.Random(seed) if alike and choice.random() < 0.85 else choice
        threads = deal(own, value, (r, s) if value is last else (i, j))
        value.tag_gpu(**({"blocks": [p0, p1]} if value is last else {}), threads=threads)
    for value in values:
        value.store_in(tm.REGISTER if choice.random() < 0.8 else tm.SHARED)
    f.derive_transfers()
    return f


@pytest.mark.parametrize("seed", range(60))
def test_random_kernels_that_are_accepted_are_right(seed: int) -> None:
    f = kernel(seed)
    report = f.check()
    if not report.ok:
        assert {violation.kind for violation in report.violations} == {"reach"}, report
        return
    simulated = f.compile(device="simulator", sanitize=True)
    for n, m in ((ROWS, COLUMNS), (13, 9)):
        a = np.random.default_rng(seed).integers(0, 99, (n, m)).astype(np.int32)
        expected = f.evaluate(a)
        for each in (simulated, simulated.seeded(seed, "lazy")):
            np.testing.assert_array_equal(each(a), expected)


@pytest.mark.slow
def test_most_kinds_of_kernels_occur() -> None:
    found = [kernel(seed).check().ok for seed in range(12)]
    assert 3 <= sum(found) <= 9

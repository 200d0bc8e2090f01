"""Partitioned programs against `evaluate()`, bit for bit: on GPUs (simulated), cores and ranks at once, at many splits.

The parts exchange halos with each other; the split is chosen at run time, and parts may be empty.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.program.statement import Role

R, C, G, H, K, T = tm.params("R C G H K T")
r, c, k, t = tm.iters("r c k t")
PICTURE = np.random.default_rng(7).random((10, 7), dtype=np.float32)
ROWS = PICTURE.shape[0] - 2


def blur(where: object, targets: Sequence[object], ranks: bool = False) -> tm.Function:
    """The two stages of the blur, both partitioned alike, so that rows of bx go from each part to the one before."""
    f = tm.Function("blur", params=[R, C, G, H], assume="0 <= G <= H <= R and C >= 1")
    image = f.input("image", tm.float32, [R + 2, C + 2])
    bx = f.computation("bx", {r: R + 2, c: C}, (image[r, c] + image[r, c + 1] + image[r, c + 2]) / 3)
    by = f.computation("by", {r: R, c: C}, (bx[r, c] + bx[r + 1, c] + bx[r + 2, c]) / 3)
    f.outputs(by)
    for computation in (bx, by):
        computation.partition(r, where, targets)
    for array in (image, by) if ranks else ():
        array.distribute_array([r, c], rank=0)
    f.derive_transfers()
    return f


def moved_by(f: tm.Function) -> set[str]:
    """The arrays that something brings from one place to another."""
    program = f.program
    return {s.source for s in program.statements.values() if s.role is Role.COPY}


#: (G, H): rows for the first part, and for the first two; all three at once, each of them empty, and two of them.
SPLITS = [(3, 6), (0, 5), (4, 4), (2, ROWS), (ROWS, ROWS)]


@pytest.mark.parametrize("split", SPLITS)
def test_a_gpu_and_cores_of_one_rank_and_the_cores_of_another_compute_the_blur(split: tuple[int, int]) -> None:
    """Under ten timings for each split."""
    f = blur([G, H], [tm.gpu(tile=(2, 2), ranks=0), tm.cores(ranks=0), tm.cores(4, ranks=1)], ranks=True)
    assert moved_by(f) == {"image", "bx", "by"}
    first, second = split
    narrow = PICTURE[:, :5].copy()
    expected = f.evaluate(image=narrow, G=0, H=0)
    for seed in range(10):
        found = f.simulate(image=narrow, G=first, H=second, seed=seed)
        np.testing.assert_array_equal(found, expected, err_msg=f"seed {seed}")


def test_a_rank_whose_part_is_empty_is_not_needed() -> None:
    f = tm.Function("twice", params=[R, C, G, H], assume="0 <= G <= H <= R and C >= 1")
    image = f.input("image", tm.float32, [R, C])
    by = f.computation("by", {r: R, c: C}, 2 * image[r, c])
    f.outputs(by)
    by.partition(r, [G, H], [tm.gpu(tile=(2, 4), ranks=0), tm.cores(ranks=0), tm.cores(ranks=1)])
    for array in (image, by):
        array.distribute_array([r, c], rank=0)
    f.derive_transfers()
    assert f.process_grid(R=10, C=7, G=4, H=6) == (2,)
    assert f.process_grid(R=10, C=7, G=4, H=10) == (1,)
    for number in (1, 2, 3):
        np.testing.assert_array_equal(f.simulate(number, image=PICTURE, G=4, H=10), 2 * PICTURE)


@pytest.mark.parametrize(
    ("where", "targets"),
    [
        ([4], [tm.cores(ranks=range(2)), tm.cores(ranks=range(2, 4))]),
        ([G], [tm.gpu(tile=(2, 4), ranks=range(2)), tm.cores(ranks=2)]),
        (tm.shares(1, 1), [tm.cores(ranks=range(3)), tm.cores(ranks=range(1, 3))]),
        ([3], [tm.gpu(tile=(2, 4), ranks=range(2)), tm.cores(ranks=2)]),
    ],
    ids=[
        "blocks of a constant size",
        "ranks with a GPU each",
        "shares, and ranks with parts of both",
        "a row more on one GPU",
    ],
)
def test_parts_are_dealt_out_to_several_ranks(where: object, targets: list[object]) -> None:
    f = blur(where, targets, ranks=True)
    expected = f.evaluate(image=PICTURE, G=0, H=0)
    for split in (0, 5, ROWS) if targets[-1] == tm.cores(ranks=2) else (5,):
        np.testing.assert_array_equal(f.simulate(image=PICTURE, G=split, H=ROWS), expected, err_msg=f"G={split}")


def test_two_gpus_and_cores_compute_the_blur_in_one_process() -> None:
    f = blur([G, H], [tm.gpu(), tm.gpu(1, tile=32), tm.cores(8)])
    kernel = f.compile(device="simulator")
    expected = f.evaluate(image=PICTURE, G=0, H=0)
    for first, second in SPLITS:
        np.testing.assert_array_equal(kernel(PICTURE, G=first, H=second), expected, err_msg=f"G={first}, H={second}")


def test_shares_and_chunks_compute_the_blur() -> None:
    f = blur(tm.shares(2, 1, 1), [tm.gpu(chunk=4, tile=(2, 8)), tm.cores(), tm.gpu(1)])
    np.testing.assert_array_equal(f.compile(device="simulator")(PICTURE, G=0, H=0), f.evaluate(image=PICTURE, G=0, H=0))


@pytest.mark.parametrize("fused", [False, True], ids=["apart", "fused"])
def test_the_rows_of_a_product_are_partitioned(fused: bool) -> None:
    f = tm.Function("product", params=[R, C, K, G], assume="R >= 1 and C >= 1 and K >= 1 and 0 <= G <= R")
    a, b = f.input("a", tm.float32, [R, K]), f.input("b", tm.float32, [K, C])
    p = f.reduction("p", {r: R, c: C}, over={k: K}, op=tm.sum, expr=a[r, k] * b[k, c])
    f.outputs(p)
    if fused:
        p.update.after(p.init, c)
    p.partition(r, [G], [tm.gpu(tile=(2, 8)), tm.cores(8)])
    f.derive_transfers()
    kernel = f.compile(device="simulator")
    left, right = PICTURE[:9, :5].copy(), PICTURE[:5].copy()
    expected = f.evaluate(a=left, b=right, G=0)
    for split in (0, 1, 5, 9):
        np.testing.assert_array_equal(kernel(left, right, G=split), expected, err_msg=f"G={split}")


def plate(targets: Sequence[object], ranks: bool = False) -> tm.Function:
    """Heat on a plate, a step after another: each part needs a row of the other from the step before."""
    f = tm.Function("plate", params=[T, R, C, G], assume="T >= 1 and R >= 3 and C >= 3 and 0 <= G <= R")
    start = f.input("start", tm.float32, [R, C])
    edge = (t == 0) | (r == 0) | (r == R - 1) | (c == 0) | (c == C - 1)
    around = lambda h: h[t - 1, r - 1, c] + h[t - 1, r + 1, c] + h[t - 1, r, c - 1] + h[t - 1, r, c + 1]  # noqa: E731
    heat = f.computation(
        "heat", {t: T + 1, r: R, c: C}, lambda h: tm.select(edge, start[r, c], h[t - 1, r, c] * 0.5 + around(h) * 0.125)
    )
    f.outputs(heat[T, r, c])
    heat.store_in(tm.Buffer("two", [2, R, C], tm.float32), [t % 2, r, c])
    for computation in (heat, f["heat_out"]):
        computation.partition(r, [G], targets)
    for name in ("start", "heat_out") if ranks else ():
        f[name].distribute_array([r, c], rank=0)
    f.derive_transfers()
    return f


def test_the_parts_of_a_plate_exchange_a_row_in_each_step() -> None:
    f = plate([tm.gpu(tile=(2, 8)), tm.cores(8)])
    kernel = f.compile(device="simulator")
    start = PICTURE[:7].copy()
    expected = f.evaluate(start=start, T=4, G=0)
    for split in (0, 1, 4, 7):
        np.testing.assert_array_equal(kernel(start, T=4, G=split), expected, err_msg=f"G={split}")


def test_the_gpu_of_one_rank_and_the_cores_of_another_exchange_a_row_in_each_step() -> None:
    f = plate([tm.gpu(tile=(2, 4), ranks=0), tm.cores(ranks=1)], ranks=True)
    start = PICTURE[:7].copy()
    expected = f.evaluate(start=start, T=3, G=0)
    for split in (0, 1, 4, 7):
        np.testing.assert_array_equal(f.simulate(start=start, T=3, G=split), expected, err_msg=f"G={split}")


def test_a_reduction_on_two_devices_is_proven_with_transfers_of_its_result() -> None:
    """The result of one part is copied to the host, where the other part adds up its own."""
    f = tm.Function("rows", params=[R, C, G], assume="0 <= G <= R")
    a = f.input("a", tm.float32, [R, C])
    s = f.reduction("s", {r: R}, over={k: C}, op=tm.sum, expr=a[r, k])
    f.outputs(s)
    s.partition(r, [G], [tm.gpu(), tm.cores()])
    assert "communication" in {violation.kind for violation in f.check().violations}
    f.derive_transfers()
    assert f.check().ok

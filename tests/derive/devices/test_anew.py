"""Transfers that were derived are derived anew when they are asked for again: the schedule may have changed."""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm

R, C = tm.params("R C")
r, c, r0, c0, r1, c1 = tm.iters("r c r0 c0 r1 c1")


def blur() -> tuple[tm.Function, tm.Computation, tm.Computation]:
    f = tm.Function("blur", params=[R, C], assume="R >= 1 and C >= 1")
    image = f.input("image", tm.float32, [R + 2, C + 2])
    bx = f.computation("bx", {r: R + 2, c: C}, (image[r, c] + image[r, c + 1] + image[r, c + 2]) / 3)
    by = f.computation("by", {r: R, c: C}, (bx[r, c] + bx[r + 1, c] + bx[r + 2, c]) / 3)
    f.outputs(by)
    return f, bx, by


def transfers(f: tm.Function) -> set[str]:
    return {s.name for s in f.program.storing if s.link.transfer is not None}


def test_a_stage_that_moves_to_the_gpu_later_needs_no_copy_of_the_one_before_it() -> None:
    f, bx, by = blur()
    by.gpu_tile(r, c, 4, 16, r0, c0, r1, c1)
    f.derive_transfers()
    assert transfers(f) == {"bx_to_gpu", "by_to_cpu"}
    bx.gpu_tile(r, c, 4, 16, r0, c0, r1, c1)
    f.derive_transfers()
    assert transfers(f) == {"image_to_gpu", "by_to_cpu"}
    assert f.check().ok
    picture = np.random.default_rng(0).random((11, 23), dtype=np.float32)
    kernel = f.compile(device="simulator", sanitize=True, seed=1)
    np.testing.assert_array_equal(kernel(picture), f.evaluate(image=picture))


def test_deriving_twice_changes_nothing() -> None:
    f, bx, by = blur()
    for stage in (bx, by):
        stage.gpu_tile(r, c, 4, 16, r0, c0, r1, c1)
    f.derive_transfers()
    once = f.show("pseudocode")
    f.derive_transfers()
    assert f.show("pseudocode") == once


def test_a_transfer_of_the_user_is_kept() -> None:
    f, bx, by = blur()
    mine = f.create_xfer({r: R + 2, c: C + 2}, f["image"][r, c], tm.CPU2GPU, name="mine")
    mine.collapse_many(r, c)
    for stage in (bx, by):
        stage.gpu_tile(r, c, 4, 16, r0, c0, r1, c1)
    f.derive_transfers()
    f.derive_transfers()
    assert transfers(f) == {"mine", "by_to_cpu"}
    assert f.check().ok


def test_a_derived_transfer_that_the_user_waits_for_is_kept() -> None:
    f, _, by = blur()
    by.gpu_tile(r, c, 4, 16, r0, c0, r1, c1)
    f.derive_transfers()
    by.wait(name="computed")
    f.derive_transfers()
    assert "computed" in f.program.statements
    assert f.check().ok

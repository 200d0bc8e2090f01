"""What a function makes of GPU commands: proof, derived transfers, barriers, pseudocode."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import tiramisu_py as tm
from tests.programs import pipelines as pl
from tests.programs.drafts import texts
from tests.programs.pipelines import c, c0, c1, i, i0, i1, j, j0, j1, k, k0, k1, r, r0, r1, x, y
from tiramisu_py.program.statement import Role


def row_by_row() -> SimpleNamespace:
    """The blur with a transfer a row, each on its own operation sequence and waited for (thesis, figure 1-8)."""
    R, C = tm.params("R C")
    f = tm.Function("blur", params=[R, C], assume="R >= 3 and C >= 1")
    image = f.input("image", tm.float32, [R, C + 2])
    bx = f.computation("bx", {r: R, c: C}, (image[r, c] + image[r, c + 1] + image[r, c + 2]) / 3)
    by = f.computation("by", {r: (1, R - 1), c: C}, (bx[r - 1, c] + bx[r, c] + bx[r + 1, c]) / 3, shape=[R, C])
    f.outputs(by)
    h2d = f.create_xfer({r: R, c: C + 2}, image[r, c], tm.CPU2GPU, tm.ASYNC, stream=1, name="h2d")
    d2h = f.create_xfer({r: (1, R - 1), c: C}, by[r, c], tm.GPU2CPU, tm.ASYNC, stream=2, name="d2h")
    h2d.collapse_many(c)
    d2h.collapse_many(c)
    for computation in (bx, by):
        computation.split(c, 64, c0, c1).tag_gpu(blocks=[c0], threads=[c1])
    arrived = h2d.wait({r: R}, on=0, name="arrived")
    computed = by.wait({r: (1, R - 1)}, on=2, name="computed")
    finished = d2h.wait(name="finished")
    f.order(h2d, arrived, bx, at=r)
    f.order(by, computed, d2h, at=r)
    f.order(bx, by, finished, at=tm.root)
    return SimpleNamespace(f=f, arrived=arrived, computed=computed, finished=finished)


PSEUDOCODE = """\
blur(R, C, image, by):
    events h2d_done[R] of GPU 0
    events by_done[R - 2] of GPU 0
    events d2h_done[] of GPU 0
    allocate by@gpu0[R, C] in memory of GPU 0
    allocate bx@gpu0[R, C] in memory of GPU 0
    allocate image@gpu0[R, C + 2] in memory of GPU 0
    for r in 0 .. R:
        start to copy image[r, 0 .. C + 2] to image@gpu0[r, 0 .. C + 2]  (GPU 0, stream 1)
        h2d_done[r] happens here  (GPU 0, stream 1)
        wait for h2d_done[r]  (GPU 0, stream 0)
        start bx_kernel on (C + 63) // 64 blocks  (GPU 0, stream 0)
    for r in 1 .. R - 1:
        start by_kernel on (C + 63) // 64 blocks  (GPU 0, stream 0)
        by_done[r - 1] happens here  (GPU 0, stream 0)
        wait for by_done[r - 1]  (GPU 0, stream 2)
        start to copy by@gpu0[r, 0 .. C] to by[r, 0 .. C]  (GPU 0, stream 2)
        d2h_done[] happens here  (GPU 0, stream 2)
    wait for d2h_done[]

kernel bx_kernel(R, C, r, image, bx), on blocks of 64 threads:
    c1 = threadIdx.x
    c0 = blockIdx.x
    if C >= 64 * c0 + c1 + 1:
        # bx[r, c] = (image[r, c] + image[r, c + 1] + image[r, c + 2]) / 3
        bx[r, 64 * c0 + c1] = (image[r, 64 * c0 + c1] + image[r, 64 * c0 + c1 + 1] + image[r, 64 * c0 + c1 + 2]) / 3.0

kernel by_kernel(R, C, r, bx, by), on blocks of 64 threads:
    c1 = threadIdx.x
    c0 = blockIdx.x
    if C >= 64 * c0 + c1 + 1:
        # by[r, c] = (bx[r - 1, c] + bx[r, c] + bx[r + 1, c]) / 3
        by[r, 64 * c0 + c1] = (bx[r - 1, 64 * c0 + c1] + bx[r, 64 * c0 + c1] + bx[r + 1, 64 * c0 + c1]) / 3.0
"""


def test_the_pseudocode_says_what_the_host_tells_the_gpu_and_what_the_gpu_does():
    assert row_by_row().f.show("pseudocode") == PSEUDOCODE


@pytest.mark.parametrize("name", ["arrived", "computed", "finished"])
def test_each_wait_of_the_blur_is_needed(name):
    s = row_by_row()
    assert s.f.check().ok
    s.f.remove(getattr(s, name))
    report = s.f.check()
    assert not report.ok and {violation.kind for violation in report.violations} == {"race"}
    s.f.undo()
    assert s.f.check().ok


def product(**options: bool) -> SimpleNamespace:
    """The matrix product through shared memory."""
    s = pl.matmul()
    s.C.tile(i, j, 16, 16, i0, j0, i1, j1)
    s.C.tag_gpu(blocks=[i0, j0], threads=[i1, j1], **options)
    s.C.update.after(s.C.init, j1)
    s.C.update.split(k, 16, k0, k1)
    copies = [s.C.update.copy(s.A, [y, x], at=k0, into=tm.SHARED), s.C.update.copy(s.B, [y, x], at=k0, into=tm.SHARED)]
    s.f.derive_transfers()
    return SimpleNamespace(f=s.f, C=s.C, copies=copies)


def test_barriers_are_in_what_is_proven_and_not_in_the_schedule():
    s = product()
    assert s.f.check().ok
    made = [b for b in s.f.completed.statements.values() if b.role is Role.BARRIER]
    assert len(made) == 2 and not any(b.role is Role.BARRIER for b in s.f.program.statements.values())
    assert s.f.show("pseudocode").count("barrier") == 2


def test_barriers_of_the_user_replace_those_that_are_placed():
    s = product(barriers=False)
    assert not s.f.check().ok
    s.f.barrier(s.copies[1], s.C.update, at=k0)
    assert not s.f.check().ok
    s.f.barrier(s.C.update, s.copies[0], at=k0)
    assert s.f.check().ok, s.f.check()


def test_the_host_memory_is_named_where_a_transfer_is_missing_and_derived_ones_mend_it():
    s = pl.blur()
    s.bx.inline()
    s.by.gpu_tile(r, c, 8, 32, r0, c0, r1, c1)
    report = s.f.check()
    assert not report.ok and "host memory" in str(report)
    s.f.derive_transfers()
    assert texts(s.f)[-1] == "blur.derive_transfers()"
    assert s.f.check().ok
    moved = s.f.cost("communication", R=10, C=20)
    assert moved.elements == 12 * 22 + 10 * 20 and moved.bytes == 4 * moved.elements
    s.f.undo()
    assert not s.f.check().ok


def test_a_buffer_of_each_block_in_host_memory_is_refused_with_shared_memory_as_the_repair():
    s = pl.blur()
    s.by.gpu_tile(r, c, 8, 32, r0, c0, r1, c1)
    s.bx.compute_at(s.by, c0).tag_gpu(threads=[r, c])
    s.f.derive_transfers()
    report = s.f.check()
    assert not report.ok and "store_in(tm.SHARED)" in str(report), report
    s.bx.store_in(tm.SHARED)
    assert s.f.check().ok, s.f.check()


def test_a_handle_of_something_else_is_named():
    s, other = row_by_row(), row_by_row()
    with pytest.raises(tm.CommandError, match="finished belongs to another function blur, not to blur"):
        s.f.order(s.arrived, other.finished, at=tm.root)
    assert repr(s.arrived) == s.arrived.name == "arrived"

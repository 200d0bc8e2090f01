"""The GPU programs that the tests of the proof vary: doubling, a stencil, the blur of the thesis, a matrix product."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import tiramisu_py as tm
from tiramisu_py.derive.completion import complete
from tiramisu_py.errors import Violation
from tiramisu_py.proof import Report, check

R, C, N, M, K, T = tm.params("R C N M K T")
r, c, c0, c1, i, i0, i1, j, j0, j1, k, k0, k1, t = tm.iters("r c c0 c1 i i0 i1 j j0 j1 k k0 k1 t")


def checked(f: tm.Function) -> Report:
    """The report of a function's program with the barriers that it lets be placed."""
    return check(complete(f.program))


def proven(f: tm.Function) -> None:
    """The program is accepted."""
    report = checked(f)
    assert report.ok, str(report)


def refusal(f: tm.Function) -> Violation:
    """The first reason why the program is refused."""
    report = checked(f)
    assert not report.ok, str(report)
    return report.violations[0]


def twice(up: bool = True, down: bool = True, **options: Any) -> SimpleNamespace:
    """q[i] = 2 a[i] on the GPU, in blocks of 32 threads; a is copied there, q back."""
    f = tm.Function("twice", params=[N], assume="N >= 1")
    a = f.input("a", tm.float32, [N])
    q = f.computation("q", {i: N}, 2 * a[i])
    f.outputs(q)
    q.split(i, 32, i0, i1)
    q.tag_gpu(blocks=[i0], threads=[i1], **options)
    s = SimpleNamespace(f=f, a=a, q=q)
    if up:
        s.up = f.create_xfer({i: N}, a[i], tm.CPU2GPU, name="up").collapse_many(i)
        f.order(s.up, q, at=tm.root)
    if down:
        s.down = f.create_xfer({i: N}, q[i], tm.GPU2CPU, name="down").collapse_many(i)
        f.order(q, s.down, at=tm.root)
    return s


def stencil() -> SimpleNamespace:
    """q[i] = p[i] + p[i + 1], p[i] = 2 a[i]; a is copied to the GPU, q back."""
    f = tm.Function("stencil", params=[N], assume="N >= 1")
    a = f.input("a", tm.float32, [N + 1])
    p = f.computation("p", {i: N + 1}, 2 * a[i])
    q = f.computation("q", {i: N}, p[i] + p[i + 1])
    f.outputs(q)
    s = SimpleNamespace(f=f, a=a, p=p, q=q)
    s.up = f.create_xfer({i: N + 1}, a[i], tm.CPU2GPU, name="up").collapse_many(i)
    s.down = f.create_xfer({i: N}, q[i], tm.GPU2CPU, name="down").collapse_many(i)
    f.order(s.up, p, q, s.down, at=tm.root)
    return s


def tiled_stencil(**options: Any) -> SimpleNamespace:
    """The stencil in one kernel: each block computes the p that it reads, in shared memory."""
    s = stencil()
    s.q.split(i, 32, i0, i1)
    s.q.tag_gpu(blocks=[i0], threads=[i1], **options)
    s.p.compute_at(s.q, i0)
    s.p.tag_gpu(threads=[i])
    s.p.store_in(tm.SHARED)
    return s


def blur() -> SimpleNamespace:
    """by[r, c] averages three rows of bx, bx[r, c] three columns of the image (thesis, figure 1-4)."""
    f = tm.Function("blur", params=[R, C], assume="R >= 3 and C >= 1")
    image = f.input("image", tm.float32, [R, C + 2])
    bx = f.computation("bx", {r: R, c: C}, (image[r, c] + image[r, c + 1] + image[r, c + 2]) / 3)
    by = f.computation("by", {r: (1, R - 1), c: C}, (bx[r - 1, c] + bx[r, c] + bx[r + 1, c]) / 3, shape=[R, C])
    f.outputs(by)
    return SimpleNamespace(f=f, image=image, bx=bx, by=by)


def blur_by_hand() -> SimpleNamespace:
    """The blur with a transfer a row, each on its own sequence, each waited for (thesis, figure 1-8)."""
    s = blur()
    f = s.f
    s.h2d = f.create_xfer({r: R, c: C + 2}, s.image[r, c], tm.CPU2GPU, tm.ASYNC, stream=1, name="h2d")
    s.d2h = f.create_xfer({r: (1, R - 1), c: C}, s.by[r, c], tm.GPU2CPU, tm.ASYNC, stream=2, name="d2h")
    s.h2d.collapse_many(c)
    s.d2h.collapse_many(c)
    for computation in (s.bx, s.by):
        computation.split(c, 64, c0, c1)
        computation.tag_gpu(blocks=[c0], threads=[c1], stream=0)
    s.h2d_done = s.h2d.wait({r: R}, on=0, name="h2d_done")
    s.by_done = s.by.wait({r: (1, R - 1)}, on=2, name="by_done")
    s.finished = s.d2h.wait(name="finished")
    f.order(s.h2d, s.h2d_done, s.bx, at=r)
    f.order(s.by, s.by_done, s.d2h, at=r)
    f.order(s.bx, s.by, s.finished, at=tm.root)
    return s


def product(shared: bool = True, buffers: int = 1, **options: Any) -> SimpleNamespace:
    """C[i, j] = sum over k of A[i, k] B[k, j], in blocks of 16 by 16 threads, with tiles in shared memory."""
    f = tm.Function("product", params=[N, M, K], assume="N >= 1 and M >= 1")
    a, b = f.input("A", tm.float32, [N, K]), f.input("B", tm.float32, [K, M])
    out = f.reduction("C", {i: N, j: M}, over={k: K}, op=tm.sum, expr=a[i, k] * b[k, j])
    f.outputs(out)
    out.tile(i, j, 16, 16, i0, j0, i1, j1)
    out.update.split(k, 16, k0, k1)
    out.update.reorder(i0, j0, k0, i1, j1, k1)
    out.update.after(out.init, j0)
    out.tag_gpu(blocks=[i0, j0], threads=[i1, j1], **options)
    s = SimpleNamespace(f=f, A=a, B=b, C=out)
    if shared:
        s.As = out.update.copy(a, [i, k], at=k0, into=tm.SHARED, buffers=buffers, name="As")
        s.Bs = out.update.copy(b, [k, j], at=k0, into=tm.SHARED, buffers=buffers, name="Bs")
    up_a = f.create_xfer({i: N, k: K}, a[i, k], tm.CPU2GPU, name="up_A").collapse_many(i, k)
    up_b = f.create_xfer({k: K, j: M}, b[k, j], tm.CPU2GPU, name="up_B").collapse_many(k, j)
    down = f.create_xfer({i: N, j: M}, out[i, j], tm.GPU2CPU, name="down").collapse_many(i, j)
    f.order(up_a, up_b, out.init, at=tm.root)
    f.order(out.update, down, at=tm.root)
    return s


def total(**options: Any) -> SimpleNamespace:
    """s[0] = sum over k of a[k], in blocks of 64 threads; the start is a kernel of its own."""
    f = tm.Function("total", params=[K], assume="K >= 1")
    a = f.input("a", tm.float32, [K])
    s = f.reduction("s", {i: 1}, over={k: K}, op=tm.sum, expr=a[k])
    f.outputs(s)
    s.init.tag_gpu(blocks=[i])
    s.update.split(k, 64, k0, k1)
    s.update.reorder(k0, k1, i)
    s.update.tag_gpu(blocks=[k0], threads=[k1], **options)
    up = f.create_xfer({k: K}, a[k], tm.CPU2GPU, name="up").collapse_many(k)
    down = f.create_xfer({i: 1}, s[i], tm.GPU2CPU, name="down").collapse_many(i)
    f.order(up, s.init, s.update, down, at=tm.root)
    return SimpleNamespace(f=f, a=a, s=s)

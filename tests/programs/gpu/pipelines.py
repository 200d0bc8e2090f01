"""Schedules for GPUs: a list of cases, each a small algorithm and the commands that put it on one or two of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import tiramisu_py as tm
from tests.programs import pipelines as pl
from tests.programs.pipelines import c, c0, c1, e, i, i0, i1, j, j0, j1, k, k0, k1, r, r0, r1, t, x, y

i2, j2, s0, s1, w = tm.iters("i2 j2 s0 s1 w")

# -- algorithms


def blur() -> SimpleNamespace:
    """The blur of pictures that are not empty: an empty copy would wait for nothing."""
    R, C = tm.params("R C")
    f = tm.Function("blur", params=[R, C], assume="R >= 1 and C >= 1")
    image = f.input("image", tm.float32, [R + 2, C + 2])
    bx = f.computation("bx", {r: R + 2, c: C}, (image[r, c] + image[r, c + 1] + image[r, c + 2]) / 3)
    by = f.computation("by", {r: R, c: C}, (bx[r, c] + bx[r + 1, c] + bx[r + 2, c]) / 3)
    f.outputs(by)
    return SimpleNamespace(f=f, image=image, bx=bx, by=by, params=("R", "C"))


def pair() -> SimpleNamespace:
    """The same of one dimension: ``q[i] = p[i] + p[i + 1]`` with ``p[i] = 2 * a[i]``, for at least one i."""
    (N,) = tm.params("N")
    f = tm.Function("pair", params=[N], assume="N >= 1")
    a = f.input("a", tm.int32, [N + 1])
    p = f.computation("p", {i: N + 1}, 2 * a[i])
    q = f.computation("q", {i: N}, p[i] + p[i + 1])
    f.outputs(q)
    return SimpleNamespace(f=f, a=a, p=p, q=q, params=("N",))


def transpose() -> SimpleNamespace:
    """``o[i, j] = a[j, i]``; float32."""
    N, M = tm.params("N M")
    f = tm.Function("transpose", params=[N, M])
    a = f.input("a", tm.float32, [N, M])
    o = f.computation("o", {i: M, j: N}, a[j, i])
    f.outputs(o)
    return SimpleNamespace(f=f, a=a, o=o, params=("N", "M"))


def total() -> SimpleNamespace:
    """The sum of all elements of ``2 * a``; int32."""
    (N,) = tm.params("N")
    f = tm.Function("total", params=[N])
    a = f.input("a", tm.int32, [N])
    s = f.reduction("s", {i: 1}, over={k: N}, op=tm.sum, expr=2 * a[k] + i)
    f.outputs(s)
    return SimpleNamespace(f=f, a=a, s=s, params=("N",))


def rows(dtype: tm.DType = tm.float32, op: object = tm.sum) -> SimpleNamespace:
    """One reduction for each row."""
    N, M = tm.params("N M")
    f = tm.Function("rows", params=[N, M])
    a = f.input("a", dtype, [N, M])
    s = f.reduction("s", {i: N}, over={k: M}, op=op, expr=a[i, k])
    f.outputs(s)
    return SimpleNamespace(f=f, a=a, s=s, params=("N", "M"))


def gather() -> SimpleNamespace:
    """``o[i] = 2 * a[idx[i]]``; int64."""
    N, M = tm.params("N M")
    f = tm.Function("gather", params=[N, M], assume="M >= 1")
    idx = f.input("idx", tm.int32, [N], values=(0, M))
    a = f.input("a", tm.int64, [M])
    o = f.computation("o", {i: N}, 2 * a[idx[i]])
    f.outputs(o)
    return SimpleNamespace(f=f, a=a, idx=idx, o=o, params=("N", "M"))


def typed(dtype: tm.DType) -> Callable[[], SimpleNamespace]:
    """A stencil in one dimension of any type."""

    def make() -> SimpleNamespace:
        (N,) = tm.params("N")
        f = tm.Function("typed", params=[N])
        a = f.input("a", dtype, [N + 1])
        expr = a[i] & ~a[i + 1] if dtype is tm.bool else a[i] + a[i + 1]
        o = f.computation("o", {i: N}, expr)
        f.outputs(o)
        return SimpleNamespace(f=f, a=a, o=o, params=("N",))

    return make


def picture() -> SimpleNamespace:
    """A grey picture of three colours, as uint8."""
    R, C = tm.params("R C")
    f = tm.Function("grey", params=[R, C])
    rgb = f.input("rgb", tm.uint8, [R, C, 3])
    wide = [tm.cast(tm.int32, rgb[r, c, n]) for n in range(3)]
    o = f.computation("o", {r: R, c: C}, tm.cast(tm.uint8, (wide[0] * 77 + wide[1] * 151 + wide[2] * 28) // 256))
    f.outputs(o)
    return SimpleNamespace(f=f, rgb=rgb, o=o, params=("R", "C"))


def heat_2d() -> SimpleNamespace:
    """A two-dimensional five-point recurrence with fixed sides; float32."""
    T, N, M = tm.params("T N M")
    f = tm.Function("heat", params=[T, N, M], assume="N >= 1 and M >= 1")
    start = f.input("start", tm.float32, [N, M])
    h = f.computation(
        "h",
        {t: T + 1, i: N, j: M},
        lambda h: tm.select(
            (t == 0) | (i == 0) | (j == 0) | (i == N - 1) | (j == M - 1),
            start[i, j],
            (h[t - 1, i, j] + h[t - 1, i - 1, j] + h[t - 1, i + 1, j] + h[t - 1, i, j - 1] + h[t - 1, i, j + 1]) / 5,
        ),
    )
    f.outputs(h)
    return SimpleNamespace(f=f, start=start, h=h, params=("T", "N", "M"))


# -- schedules


def rows_on_gpu(s: SimpleNamespace) -> None:
    """Both stages of the blur: a row a block along y, 4 columns a block along x."""
    for computation in (s.bx, s.by):
        computation.split(c, 4, c0, c1)
        computation.tag_gpu(blocks=[r, c0], threads=[c1])


def copied(s: SimpleNamespace, mode: object) -> None:
    """All of the input up, and all of the output down, in the order of declaration, with a wait at the end."""
    R, C = tm.params("R C")
    up = s.f.create_xfer({r: R + 2, c: C + 2}, s.image[r, c], tm.CPU2GPU, mode, name="up")
    down = s.f.create_xfer({r: R, c: C}, s.by[r, c], tm.GPU2CPU, mode, name="down")
    up.collapse_many(r, c)
    down.collapse_many(r, c)
    rows_on_gpu(s)
    if mode is tm.ASYNC:
        down.wait()


def row_by_row(s: SimpleNamespace) -> None:
    """A transfer a row, each on its own operation sequence, each waited for (thesis, figure 1-8)."""
    R, C = tm.params("R C")
    h2d = s.f.create_xfer({r: R + 2, c: C + 2}, s.image[r, c], tm.CPU2GPU, tm.ASYNC, stream=1, name="h2d")
    d2h = s.f.create_xfer({r: R, c: C}, s.by[r, c], tm.GPU2CPU, tm.ASYNC, stream=2, name="d2h")
    h2d.collapse_many(c)
    d2h.collapse_many(c)
    for computation in (s.bx, s.by):
        computation.split(c, 4, c0, c1)
        computation.tag_gpu(blocks=[c0], threads=[c1], stream=0)
    arrived = h2d.wait({r: R + 2}, on=0)
    computed = s.by.wait({r: R}, on=2)
    finished = d2h.wait()
    s.f.order(h2d, arrived, s.bx, at=r)
    s.f.order(s.by, computed, d2h, at=r)
    s.f.order(s.bx, s.by, finished, at=tm.root)


def shared_blur(s: SimpleNamespace) -> None:
    """The first stage in shared memory, once for each tile of the second."""
    s.by.gpu_tile(r, c, 4, 4, r0, c0, r1, c1)
    s.bx.store_in(tm.SHARED)
    s.bx.compute_at(s.by, c0)
    s.bx.tag_gpu(threads=[r, c])
    s.f.derive_transfers()


def tiled_product(s: SimpleNamespace, **options: object) -> None:
    """Tiles of both factors through shared memory, refilled in each iteration of k0."""
    s.C.gpu_tile(i, j, 4, 4, i0, j0, i1, j1)
    s.C.update.after(s.C.init, j1)
    s.C.update.split(k, 4, k0, k1)
    s.C.update.copy(s.A, [y, x], at=k0, into=tm.SHARED, **options)
    s.C.update.copy(s.B, [y, x], at=k0, into=tm.SHARED, **options)
    s.f.derive_transfers()


def plain_product(s: SimpleNamespace) -> None:
    """A thread an element, init and update in one kernel."""
    s.C.gpu_tile(i, j, 4, 4, i0, j0, i1, j1)
    s.C.update.after(s.C.init, j1)


def on_gpu(computation: object, *loops: object, size: int = 4, **options: object) -> None:
    """The last loop in blocks of `size` threads, the others as blocks."""
    computation.split(loops[-1], size, s0, s1)
    computation.tag_gpu(blocks=[*loops[:-1], s0], threads=[s1], **options)


def mapped(s: SimpleNamespace) -> None:
    """The GPU writes p into the host's memory, the host waits and reads it there."""
    s.p.store_in(tm.HOST_MAPPED)
    on_gpu(s.p, i)
    s.f.derive_transfers()
    done = s.p.wait()
    s.f.order(s.p, done, s.q, at=tm.root)


def two_gpus(s: SimpleNamespace) -> None:
    """The upper rows on one GPU, the others on another."""
    above, below = s.o.separate_at(i, [3])
    for device, part in enumerate((above, below)):
        part.split(j, 4, j0, j1)
        part.tag_gpu(blocks=[i, j0], threads=[j1], device=device)
    s.f.derive_transfers()


def halves(s: SimpleNamespace) -> None:
    """The upper rows on the GPU, the others on the host's threads."""
    above, below = s.o.separate_at(i, [3])
    above.split(j, 4, j0, j1)
    above.tag_gpu(blocks=[i, j0], threads=[j1])
    below.parallelize(i)
    s.f.derive_transfers()


def from_gpu_to_gpu(s: SimpleNamespace) -> None:
    """p on one GPU, q on another, the values of p handed over."""
    (N,) = tm.params("N")
    on_gpu(s.p, i)
    s.q.split(i, 4, i0, i1)
    s.q.tag_gpu(blocks=[i0], threads=[i1], device=1)
    up = s.f.create_xfer({i: N + 1}, s.a[i], tm.CPU2GPU, name="up")
    over = s.f.create_xfer({i: N + 1}, s.p[i], tm.GPU2GPU, device=0, to_device=1, name="over")
    down = s.f.create_xfer({i: N}, s.q[i], tm.GPU2CPU, device=1, name="down")
    for transfer in (up, over, down):
        transfer.collapse_many(i)


def two_streams(s: SimpleNamespace) -> None:
    """p on one operation sequence, q on another, which waits for it."""
    on_gpu(s.p, i, stream=1)
    s.q.split(i, 4, i0, i1)
    s.q.tag_gpu(blocks=[i0], threads=[i1], stream=2)
    s.f.derive_transfers()


def fused(s: SimpleNamespace) -> None:
    """Three stages in one kernel, thread by thread."""
    for computation in (s.p, s.q, s.z):
        computation.split(i, 4, i0, i1)
    s.q.after(s.p, i1)
    s.z.after(s.q, i1)
    s.p.tag_gpu(blocks=[i0], threads=[i1])
    s.f.derive_transfers()


def forced_barrier(s: SimpleNamespace) -> None:
    """Neighbours in shared memory, with a barrier of the user's own."""
    s.q.split(i, 4, i0, i1)
    s.p.store_in(tm.SHARED)
    s.p.compute_at(s.q, i0)
    s.q.tag_gpu(blocks=[i0], threads=[i1], barriers=False)
    s.p.tag_gpu(threads=[i])
    s.f.barrier(s.p, s.q, at=i0)
    s.f.derive_transfers()


@dataclass(frozen=True)
class Case:
    """A schedule, by name; `sizes` are those of each parameter."""

    name: str
    make: Callable[[], SimpleNamespace]
    schedule: Callable[[SimpleNamespace], object]
    sizes: tuple[int, ...] = (0, 1, 7, 10)

    def __str__(self) -> str:
        return self.name


def _then_derive(schedule: Callable[[SimpleNamespace], object]) -> Callable[[SimpleNamespace], object]:
    return lambda s: (schedule(s), s.f.derive_transfers())


_d = _then_derive

CASES = [
    Case("a point-wise stage", pl.scale, _d(lambda s: on_gpu(s.o, i, j))),
    Case("blur, transfers derived", pl.blur, _d(rows_on_gpu)),
    Case("blur by hand, synchronous", blur, lambda s: copied(s, tm.SYNC), (1, 7, 10)),
    Case("blur by hand, asynchronous on one sequence", blur, lambda s: copied(s, tm.ASYNC), (1, 7, 10)),
    Case("blur row by row on three sequences", blur, row_by_row, (1, 7, 10)),
    Case("blur, the first stage inlined", pl.blur, _d(lambda s: (s.bx.inline(), on_gpu(s.by, r, c)))),
    Case("blur, the first stage in shared memory", pl.blur, shared_blur),
    Case("blur, a shared cache of the input", pl.blur,
        _d(lambda s: (s.bx.inline(), s.by.gpu_tile(r, c, 4, 4, r0, c0, r1, c1),
            s.by.copy(s.image, [y, x], at=c0, into=tm.SHARED)))),
    Case("blur, a padded shared cache", pl.blur,
        _d(lambda s: (s.bx.inline(), s.by.gpu_tile(r, c, 2, 4, r0, c0, r1, c1),
            s.by.copy(s.image, [y, x], at=c0, into=tm.SHARED, pad=1)))),
    Case("blur, a deferred shared cache", pl.blur,
        _d(lambda s: (s.bx.inline(), s.by.gpu_tile(r, c, 2, 4, r0, c0, r1, c1),
            s.by.copy(s.image, [y, x], at=c0, into=tm.SHARED, deferred=True)))),
    Case("tiles in two dimensions", pl.scale, _d(lambda s: s.o.gpu_tile(i, j, 4, 4, i0, j0, i1, j1))),
    Case("tiles in three dimensions", pl.volume,
        _d(lambda s: (s.o.tile(i, j, k, 2, 2, 4, i0, j0, k0, i1, j1, k1),
            s.o.tag_gpu(blocks=[i0, j0, k0], threads=[i1, j1, k1]))), (0, 1, 5)),
    Case("one thread a block", pl.scale, _d(lambda s: s.o.tag_gpu(blocks=[i, j]))),
    Case("a loop inside each thread", pl.volume,
        _d(lambda s: s.o.split(j, 4, j0, j1).tag_gpu(blocks=[i, j0], threads=[j1])), (0, 1, 5)),
    Case("coarsened threads", pl.scale,
        _d(lambda s: (s.o.split(j, 16, j0, j1), s.o.tag_gpu(blocks=[i, j0], threads=[j1]), s.o.coarsen(j1, 4, j2)))),
    Case("coarsened blocks", pl.scale,
        _d(lambda s: (s.o.split(j, 4, j0, j1), s.o.tag_gpu(blocks=[i, j0], threads=[j1]), s.o.coarsen(i, 2, i2)))),
    Case("unrolled inside a thread", pl.scale,
        _d(lambda s: (s.o.split(j, 4, j0, j1).split(i, 2, i0, i1).reorder(i0, j0, j1, i1),
            s.o.tag_gpu(blocks=[i0, j0], threads=[j1]), s.o.unroll(i1)))),
    Case("vectors inside a thread", pl.scale,
        _d(lambda s: (s.o.split(j, 16, j0, j1).split(j1, 4, j2, w), s.o.tag_gpu(blocks=[i, j0], threads=[j2]),
            s.o.vectorize(w, 4)))),
    Case("a persistent grid", pl.scale, _d(lambda s: on_gpu(s.o, i, j, grid=2))),
    Case("launch bounds", pl.scale, _d(lambda s: on_gpu(s.o, i, j, minimum_blocks=2))),
    Case("a triangle", pl.triangle, _d(lambda s: on_gpu(s.s, i, j))),
    Case("a triangle in tiles", pl.triangle, _d(lambda s: s.s.gpu_tile(i, j, 4, 4, i0, j0, i1, j1))),
    Case("transposed", transpose, _d(lambda s: s.o.gpu_tile(i, j, 4, 4, i0, j0, i1, j1))),
    Case("transposed through a padded tile", transpose,
        _d(lambda s: (s.o.gpu_tile(i, j, 4, 4, i0, j0, i1, j1), s.o.copy(s.a, [y, x], at=j0, into=tm.SHARED, pad=1)))),
    Case("several stages in one kernel", pl.chain, fused),
    Case("several stages, a kernel each", pl.chain,
        _d(lambda s: [on_gpu(stage, i) for stage in (s.p, s.q, s.z)])),
    Case("the middle stage on the host", pl.chain, _d(lambda s: [on_gpu(stage, i) for stage in (s.p, s.z)])),
    Case("the first stage on the host", pl.pair, _d(lambda s: on_gpu(s.q, i))),
    Case("the last stage on the host", pl.pair, _d(lambda s: on_gpu(s.p, i))),
    Case("rows on the host, columns on the GPU", pl.scale,
        _d(lambda s: s.o.split(j, 4, j0, j1).tag_gpu(blocks=[j0], threads=[j1]))),
    Case("two operation sequences", pl.pair, two_streams),
    Case("neighbours in shared memory", pl.pair,
        _d(lambda s: (s.q.split(i, 4, i0, i1), s.p.store_in(tm.SHARED), s.p.compute_at(s.q, i0),
            s.q.tag_gpu(blocks=[i0], threads=[i1]), s.p.tag_gpu(threads=[i])))),
    Case("neighbours in shared memory, a barrier by hand", pl.pair, forced_barrier),
    Case("heat, a kernel for each time", pl.heat, _d(lambda s: on_gpu(s.h, i)), (1, 2, 7)),
    Case("heat in two dimensions", heat_2d, _d(lambda s: s.h.gpu_tile(i, j, 2, 4, i0, j0, i1, j1)), (1, 2, 5)),
    Case("heat, wavefronts", pl.heat,
        _d(lambda s: (s.h.skew(t, i, 2, e).interchange(t, e), on_gpu(s.h, t))), (1, 2, 5)),
    Case("matrix product", pl.matmul, _d(plain_product), (0, 1, 5)),
    Case("matrix product through shared tiles", pl.matmul, tiled_product, (0, 1, 5, 8)),
    Case("matrix product, padded tiles", pl.matmul, lambda s: tiled_product(s, pad=1), (0, 1, 5)),
    Case("matrix product, deferred tiles", pl.matmul, lambda s: tiled_product(s, deferred=True), (0, 1, 5)),
    Case("matrix product, two buffers", pl.matmul, lambda s: tiled_product(s, deferred=True, buffers=2), (0, 1, 5, 9)),
    Case("matrix product, a row of the first factor in registers", pl.matmul,
        _d(lambda s: (plain_product(s), s.C.update.split(k, 4, k0, k1),
            s.C.update.copy(s.A, [y, x], at=k0, into=tm.REGISTER), s.C.update.unroll(k1))), (0, 1, 5)),
    Case("sums of rows, a thread each", rows,
        _d(lambda s: s.s.split(i, 4, i0, i1).tag_gpu(blocks=[i0], threads=[i1]))),
    Case("sums of rows, a tree each", rows,
        _d(lambda s: (s.s.init.split(i, 4, i0, i1).tag_gpu(blocks=[i0], threads=[i1]),
            s.s.update.split(k, 4, k0, k1).tag_gpu(blocks=[i, k0], threads=[k1], combine=tm.TREE)))),
    Case("sums of rows, atomically", lambda: rows(tm.int32),
        _d(lambda s: (s.s.init.split(i, 4, i0, i1).tag_gpu(blocks=[i0], threads=[i1]),
            s.s.update.split(k, 4, k0, k1).tag_gpu(blocks=[i, k0], threads=[k1], combine=tm.ATOMIC)))),
    Case("the largest of each row, atomically", lambda: rows(tm.float32, tm.max),
        _d(lambda s: (s.s.init.split(i, 4, i0, i1).tag_gpu(blocks=[i0], threads=[i1]),
            s.s.update.split(k, 4, k0, k1).tag_gpu(blocks=[i, k0], threads=[k1], combine=tm.ATOMIC)))),
    Case("a sum of everything", total,
        _d(lambda s: (s.s.init.tag_gpu(blocks=[i]), on_gpu(s.s.update, i, k, combine=tm.TREE)))),
    Case("gathered", gather, _d(lambda s: on_gpu(s.o, i)), (1, 5, 9)),
    Case("in place", pl.update, _d(lambda s: (s.b.store_in(s.a, [i]), on_gpu(s.b, i))), (1, 5, 9)),
    Case("mapped memory of the host", pl.pair, mapped),
    Case("page-locked memory", pl.pair, _d(lambda s: (s.p.store_in(tm.PINNED), on_gpu(s.q, i)))),
    Case("memory of the GPU alone", pl.pair,
        _d(lambda s: (s.p.store_in(tm.GPU_MEMORY), on_gpu(s.p, i),
            s.q.split(i, 4, i0, i1).tag_gpu(blocks=[i0], threads=[i1])))),
    Case("half on the GPU, half on the host", pl.scale, halves),
    Case("two GPUs", pl.scale, two_gpus),
    Case("from one GPU to another", pair, from_gpu_to_gpu, (1, 2, 9)),
    Case("a grey picture", picture, _d(lambda s: s.o.gpu_tile(r, c, 4, 4, r0, c0, r1, c1))),
    *(Case(f"a stencil of {dtype}", typed(dtype), _d(lambda s: on_gpu(s.o, i)))
        for dtype in (tm.int8, tm.uint16, tm.int64, tm.float16, tm.bfloat16, tm.float64, tm.bool)),
]  # fmt: skip

"""Values in registers that separate thread loops of a kernel store and read."""

from __future__ import annotations

import tiramisu_py as tm
from tests.programs.gpu.tensor_products import wide

M, N, K = tm.params("M N K")
i, j, k, b, t, u, v, i0, i1, i2, j0, j1, j2, k0, k1, h, jj, w, x, y, p, r, c = tm.iters(
    "i j k b t u v i0 i1 i2 j0 j1 j2 k0 k1 h jj w x y p r c"
)
#: The loop of a split by so many that is on threads, "inner 3" or "outer 3".
Deal = str
#: The elements of a block.
BLOCK = 12


def thread_of(deal: Deal, element: int) -> int:
    """The thread that has an element of a block."""
    which, by = _read(deal)
    return element % by if which == "inner" else element // by


def _read(deal: Deal) -> tuple[str, int]:
    which, by = deal.split()
    return which, int(by)


def dealt(stored: Deal, read: Deal, memory: tm.Memory = tm.REGISTER, *, more_threads: bool = False) -> tm.Function:
    """z = y + 1, and y = 2 a in registers: each deals the elements of a block out to threads in its own way.

    With `more_threads` the block has threads along a second axis, for another array of the same kernel.
    """
    f = tm.Function("dealt", params=[N])
    a = f.input("a", tm.float32, [N])
    first = f.computation("y", {i: N}, a[i] * 2)
    last = f.computation("z", {i: N}, first[i] + 1)
    f.outputs(last)
    last.split(i, BLOCK, b, v)
    first.compute_at(last, b)
    last.tag_gpu(blocks=[b])
    for each, loop, deal in ((first, i, stored), (last, v, read)):
        which, by = _read(deal)
        each.split(loop, by, t, u)
        if which == "outer":
            each.tag_gpu(threads=[t])
        else:
            each.reorder(u, t)
            each.tag_gpu(threads=[u])
    first.store_in(memory)
    if more_threads:
        other = f.computation("other", {i: N}, a[i] * 3)
        f.outputs(last, other, replace=True)
        other.split(i, BLOCK, b, v).split(v, 4, t, u)
        other.fuse(last, b)
        other.tag_gpu(threads=[t, u])
    f.derive_transfers()
    return f


def product(warps: int = 2, *, tensorized: bool = True, columns: int = 16) -> tm.Function:
    """C = A B: sums stay in registers, between a start, the updates of each step and the end in loops of their own."""
    f = tm.Function("product", params=[M, N, K], assume="K >= 1")
    A, B = f.input("A", tm.float16, [M, K]), f.input("B", tm.float16, [K, N])
    total = f.reduction("total", {i: M, j: N}, {k: K}, tm.sum, wide(A[i, k]) * wide(B[k, j]))
    C = f.computation("C", {i: M, j: N}, total[i, j])
    f.outputs(C)
    C.tile(i, j, 16 * warps, columns, i0, j0, i1, j1)
    total.compute_at(C, j0)
    total.store_in(tm.REGISTER)
    total.update.split(k, 16, k0, k1)
    total.update.reorder(k0, i, j, k1)
    for part, rows, cols, terms in ((C, i1, j1, ()), (total.init, i, j, ()), (total.update, i, j, (k1,))):
        part.split(rows, 16, w, i2).split(i2, 8, h, y)
        part.split(cols, 8, jj, j2).split(j2, 2, x, p)
        part.reorder(w, y, x, jj, h, p, *terms)
        part.tag_gpu(**({"blocks": [i0, j0]} if part is C else {}), threads=[w, y, x])
    total.update.copy(A, [r, c], at=k0, into=tm.SHARED)
    total.update.copy(B, [r, c], at=k0, into=tm.SHARED)
    total.update.unroll(jj)
    if tensorized:
        total.update.tensorize(h, p, k1, "m16n8k16")
    f.derive_transfers()
    return f

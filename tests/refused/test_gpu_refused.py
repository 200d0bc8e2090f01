"""GPU programs that must be refused, each with its kind and its smallest counterexample, worked out by hand.

A case is (what is wrong, the program, kind, params, writer, reader, words of the message); None leaves a side open
where the violation has none or where several are equally small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import tiramisu_py as tm
from tests.programs.drafts import ByHand
from tests.programs.gpu.stories import (
    C,
    K,
    M,
    N,
    R,
    blur,
    blur_by_hand,
    c,
    c0,
    c1,
    i,
    i0,
    i1,
    j,
    j0,
    j1,
    k,
    k0,
    k1,
    product,
    proven,
    r,
    refusal,
    stencil,
    tiled_stencil,
    total,
    twice,
)  # fmt: skip
from tiramisu_py.algorithm.expressions import as_expr
from tiramisu_py.program.loops import Parallel
from tiramisu_py.program.storage import Memory

Point = tuple[str, tuple[int, ...]] | None


def without(make: Callable[[], SimpleNamespace], *names: str) -> SimpleNamespace:
    """A program without some of its transfers, waits or barriers."""
    s = make()
    for name in names:
        s.f.remove(getattr(s, name))
    return s


# -- transfers


def backwards() -> SimpleNamespace:
    """The copy of q goes to the GPU, from the host, where it never was."""
    s = twice(down=False)
    down = s.f.create_xfer({i: N}, s.q[i], tm.CPU2GPU, name="down").collapse_many(i)
    s.f.order(s.q, down, at=tm.root)
    return s


def half() -> SimpleNamespace:
    """The halo of a is not copied: q reads N + 1 values of p, p as many of a."""
    s = stencil()
    s.f.remove(s.up)
    up = s.f.create_xfer({i: N}, s.a[i], tm.CPU2GPU, name="half").collapse_many(i)
    s.f.order(up, s.p, at=tm.root)
    for computation in (s.p, s.q):
        computation.split(i, 32, i0, i1)
        computation.tag_gpu(blocks=[i0], threads=[i1])
    return s


def between_devices() -> SimpleNamespace:
    """p on the host, q on the GPU."""
    s = stencil()
    s.q.split(i, 32, i0, i1)
    s.q.tag_gpu(blocks=[i0], threads=[i1])
    return s


def before_its_producer() -> SimpleNamespace:
    """q is copied back before it is computed."""
    s = twice(down=False)
    down = s.f.create_xfer({i: N}, s.q[i], tm.GPU2CPU, name="down").collapse_many(i)
    s.f.order(down, s.q, at=tm.root)
    return s


def after_its_reader() -> SimpleNamespace:
    """a is copied after the kernel has read it."""
    s = twice(up=False)
    up = s.f.create_xfer({i: N}, s.a[i], tm.CPU2GPU, name="up").collapse_many(i)
    s.f.order(s.q, up, at=tm.root)
    return s


def other_gpu() -> SimpleNamespace:
    """a is copied to GPU 0, the kernel runs on GPU 1."""
    s = twice(device=1, down=False)
    down = s.f.create_xfer({i: N}, s.q[i], tm.GPU2CPU, device=1, name="down").collapse_many(i)
    s.f.order(s.q, down, at=tm.root)
    return s


# -- waits


def asynchronous(*, up: bool = False, down: bool = False) -> SimpleNamespace:
    """Asynchronous copies without a wait, on the kernel's sequence (down) or another one (up)."""
    s = twice(up=not up, down=not down)
    if up:
        one = s.f.create_xfer({i: N}, s.a[i], tm.CPU2GPU, tm.ASYNC, stream=1, name="one").collapse_many(i)
        s.f.order(one, s.q, at=tm.root)
    if down:
        two = s.f.create_xfer({i: N}, s.q[i], tm.GPU2CPU, tm.ASYNC, name="two").collapse_many(i)
        s.f.order(s.q, two, at=tm.root)
    return s


def too_early() -> SimpleNamespace:
    """The stream waits for row r before the copy of row r is issued."""
    s = blur_by_hand()
    s.f.remove(s.h2d_done)
    early = s.h2d.wait({r: R}, on=0, name="early")
    s.f.order(early, s.h2d, at=r)
    return s


def wrong_row() -> SimpleNamespace:
    """Only the first row's copy is waited for."""
    s = blur_by_hand()
    s.f.remove(s.h2d_done)
    first = s.h2d.wait({r: (0, 1)}, on=0, name="first")
    s.f.order(s.h2d, first, s.bx, at=r)
    return s


def wrong_sequence() -> SimpleNamespace:
    """Sequence 3 waits, and nothing is on it."""
    s = blur_by_hand()
    s.f.remove(s.h2d_done)
    other = s.h2d.wait({r: R}, on=3, name="other")
    s.f.order(s.h2d, other, s.bx, at=r)
    return s


def host_reads(wait: bool) -> SimpleNamespace:
    """p on the GPU, copied back asynchronously; q on the host reads it."""
    s = stencil()
    s.f.remove(s.down)
    s.p.split(i, 32, i0, i1)
    s.p.tag_gpu(blocks=[i0], threads=[i1])
    back = s.f.create_xfer({i: N + 1}, s.p[i], tm.GPU2CPU, tm.ASYNC, name="back").collapse_many(i)
    s.f.order(s.p, back, s.q, at=tm.root)
    done = back.wait(name="done")
    s.f.order(back, done, s.q, at=tm.root) if wait else s.f.order(s.q, done, at=tm.root)
    return s


def two_sequences(wait: bool) -> SimpleNamespace:
    """p and q are kernels on different operation sequences."""
    s = stencil()
    for computation, stream in ((s.p, 0), (s.q, 1)):
        computation.split(i, 32, i0, i1)
        computation.tag_gpu(blocks=[i0], threads=[i1], stream=stream)
    s.f.remove(s.down)
    down = s.f.create_xfer({i: N}, s.q[i], tm.GPU2CPU, stream=1, name="down").collapse_many(i)
    s.f.order(s.q, down, at=tm.root)
    if wait:
        done = s.p.wait(on=1)
        s.f.order(s.p, done, s.q, at=tm.root)
    else:
        s.f.order(down, s.p.wait(), at=tm.root)
    return s


def in_turn(kept: int) -> SimpleNamespace:
    """Row r is made on the host, copied on sequence 1 and used on sequence 0; what used row r - 2 is waited for."""
    f = tm.Function("rows", params=[R], assume="R >= 1")
    a = f.input("a", tm.float32, [R, 64])
    p = f.computation("p", {r: R, c: 64}, 2 * a[r, c])
    q = f.computation("q", {r: R, c: 64}, p[r, c] + 1)
    f.outputs(q)
    p.store_in(tm.Buffer("rows_kept", [kept, 64], tm.float32), [r % kept, c])
    up = f.create_xfer({r: R, c: 64}, p[r, c], tm.CPU2GPU, tm.ASYNC, stream=1, name="up").collapse_many(c)
    q.split(c, 32, c0, c1)
    q.tag_gpu(blocks=[c0], threads=[c1])
    brought = up.wait({r: R}, on=0, name="brought")
    copied = up.wait({r: R}, name="copied")
    used = q.wait({r: R}, on=1, name="used")
    copied.shift(r, 2)
    used.shift(r, 2)
    f.order(copied, p, used, up, brought, q, at=r)
    down = f.create_xfer({r: R, c: 64}, q[r, c], tm.GPU2CPU, name="down").collapse_many(r, c)
    f.order(q, down, at=tm.root)
    return SimpleNamespace(f=f, p=p, q=q)


def two_gpus(mode: Any = tm.ASYNC, *, wait: bool = False) -> SimpleNamespace:
    """p on GPU 0, q on GPU 1, and a transfer between the two."""
    s = stencil()
    s.f.remove(s.down)
    for computation, device in ((s.p, 0), (s.q, 1)):
        computation.split(i, 32, i0, i1)
        computation.tag_gpu(blocks=[i0], threads=[i1], device=device)
    over = s.f.create_xfer({i: N + 1}, s.p[i], tm.GPU2GPU, mode, to_device=1, name="over").collapse_many(i)
    down = s.f.create_xfer({i: N}, s.q[i], tm.GPU2CPU, device=1, name="down").collapse_many(i)
    s.f.order(s.p, over, s.q, down, at=tm.root)
    if wait:
        s.f.order(over, over.wait(on=0, device=1), s.q, at=tm.root)
    return s


def row_by_row(wait: bool) -> SimpleNamespace:
    """The blur with a copy of bx for each iteration of the host's loop over rows."""
    s = blur()
    up = s.f.create_xfer({r: R, c: C + 2}, s.image[r, c], tm.CPU2GPU, name="up").collapse_many(r, c)
    down = s.f.create_xfer({r: (1, R - 1), c: C}, s.by[r, c], tm.GPU2CPU, name="down").collapse_many(r, c)
    s.by.split(c, 64, c0, c1)
    s.by.tag_gpu(blocks=[c0], threads=[c1])
    s.bx.compute_at(s.by, r)
    s.bx.split(c, 64, c0, c1)
    s.bx.tag_gpu(blocks=[c0], threads=[c1])
    s.f.order(up, s.bx, at=tm.root)
    s.f.order(s.by, down, at=tm.root)
    if wait:
        s.f.order(s.by, s.by.wait({r: (1, R - 1)}), at=r)
    return s


# -- blocks and threads


def prefix(blocks: bool) -> SimpleNamespace:
    """s[i] = s[i - 1] + a[i], a loop on blocks or on the threads of one block."""
    f = tm.Function("prefix", params=[N], assume="1 <= N <= 32")
    a = f.input("a", tm.int32, [N])
    s = f.computation("s", {i: N}, lambda s: tm.select(i == 0, a[i], s[i - 1] + a[i]))
    f.outputs(s)
    s.split(i, 32, i0, i1)
    s.tag_gpu(blocks=[i0, i1] if blocks else [i0], threads=[] if blocks else [i1])
    up = f.create_xfer({i: N}, a[i], tm.CPU2GPU, name="up").collapse_many(i)
    down = f.create_xfer({i: N}, s[i], tm.GPU2CPU, name="down").collapse_many(i)
    f.order(up, s, down, at=tm.root)
    return SimpleNamespace(f=f)


def across_blocks() -> SimpleNamespace:
    """p and q in one kernel, q reads what the block before stores."""
    f = tm.Function("back", params=[N], assume="N >= 1")
    a = f.input("a", tm.float32, [N + 1])
    p = f.computation("p", {i: N + 1}, 2 * a[i])
    q = f.computation("q", {i: (1, N + 1)}, p[i] + p[i - 1])
    f.outputs(q)
    up = f.create_xfer({i: N + 1}, a[i], tm.CPU2GPU, name="up").collapse_many(i)
    down = f.create_xfer({i: (1, N + 1)}, q[i], tm.GPU2CPU, name="down").collapse_many(i)
    f.order(up, p, q, down, at=tm.root)
    for computation in (p, q):
        computation.split(i, 32, i0, i1)
    q.after(p, i0)
    for computation in (p, q):
        computation.tag_gpu(blocks=[i0], threads=[i1])
    return SimpleNamespace(f=f)


def over_threads(combine: Any = None) -> SimpleNamespace:
    """A row sum in one block, its terms on threads."""
    f = tm.Function("rowsum", params=[N, K], assume="N >= 1")
    a = f.input("a", tm.float32, [N, K])
    s = f.reduction("s", {i: N}, over={k: K}, op=tm.sum, expr=a[i, k])
    f.outputs(s)
    s.init.tag_gpu(blocks=[i])
    s.update.split(k, 32, k0, k1)
    s.update.tag_gpu(blocks=[i], threads=[k1], combine=combine)
    up = f.create_xfer({i: N, k: K}, a[i, k], tm.CPU2GPU, name="up").collapse_many(i, k)
    down = f.create_xfer({i: N}, s[i], tm.GPU2CPU, name="down").collapse_many(i)
    f.order(up, s.init, s.update, down, at=tm.root)
    return SimpleNamespace(f=f, s=s)


def tree_by_thread() -> SimpleNamespace:
    """A tree over the blocks of k, but each thread has a row of its own."""
    f = tm.Function("rowsum", params=[N, K], assume="N >= 1")
    a = f.input("a", tm.float32, [N, K])
    s = f.reduction("s", {i: N}, over={k: K}, op=tm.sum, expr=a[i, k])
    f.outputs(s)
    s.init.tag_gpu(blocks=[i])
    s.update.tile(i, k, 8, 32, i0, k0, i1, k1)
    s.update.tag_gpu(blocks=[i0, k0], threads=[i1], combine=tm.TREE)
    up = f.create_xfer({i: N, k: K}, a[i, k], tm.CPU2GPU, name="up").collapse_many(i, k)
    down = f.create_xfer({i: N}, s[i], tm.GPU2CPU, name="down").collapse_many(i)
    f.order(up, s.init, s.update, down, at=tm.root)
    return SimpleNamespace(f=f, s=s)


def tree_with_start() -> SimpleNamespace:
    """A tree whose start is in the same kernel."""
    f = tm.Function("rowsum", params=[N, K], assume="N >= 1")
    a = f.input("a", tm.float32, [N, K])
    s = f.reduction("s", {i: N}, over={k: K}, op=tm.sum, expr=a[i, k])
    f.outputs(s)
    s.update.split(k, 32, k0, k1)
    s.update.after(s.init, i)
    s.update.tag_gpu(blocks=[i], threads=[k1], combine=tm.TREE)
    up = f.create_xfer({i: N, k: K}, a[i, k], tm.CPU2GPU, name="up").collapse_many(i, k)
    down = f.create_xfer({i: N}, s[i], tm.GPU2CPU, name="down").collapse_many(i)
    f.order(up, s.init, at=tm.root)
    f.order(s.update, down, at=tm.root)
    return SimpleNamespace(f=f, s=s)


def tiles(*, filled: bool, emptied: bool) -> SimpleNamespace:
    """A product with the user's barriers: after the tiles are filled, and before they are filled again."""
    s = product(barriers=False)
    if filled:
        s.f.barrier(s.Bs, s.C.update, at=k0)
    if emptied:
        s.f.barrier(s.C.update, s.As, at=k0)
    return s


def deferred(barriers: bool) -> SimpleNamespace:
    """Each thread copies, with cp.async, the element that it alone reads."""
    s = twice(barriers=barriers)
    s.q.copy(s.a, [i], at=i0, into=tm.SHARED, deferred=True, name="mine")
    return s


def halo() -> SimpleNamespace:
    """p in shared memory with 32 elements for each block; q reads 33."""
    s = tiled_stencil()
    shrunk = replace(s.f.program.buffers["p"], extents=(as_expr(32),))
    s.f.apply(ByHand("p.shrink()", lambda p: p.with_buffer(shrunk)))
    return s


# -- reach and limits


def shared_from_host() -> SimpleNamespace:
    """The host computes q from p, which is kept in shared memory."""
    s = stencil()
    s.p.split(i, 32, i0, i1)
    s.p.tag_gpu(blocks=[i0], threads=[i1])
    s.p.store_in(tm.SHARED)
    return s


def other_kernel() -> SimpleNamespace:
    """Another kernel reads p from shared memory."""
    s = shared_from_host()
    s.q.split(i, 32, i0, i1)
    s.q.tag_gpu(blocks=[i0], threads=[i1])
    return s


def gpu_from_host() -> SimpleNamespace:
    """The host computes q from p, which is kept in the memory of GPUs alone."""
    s = stencil()
    s.p.split(i, 32, i0, i1)
    s.p.tag_gpu(blocks=[i0], threads=[i1])
    s.p.store_in(tm.GPU_MEMORY)
    return s


def host_memory_in_kernel() -> SimpleNamespace:
    """p is computed in each block, in ordinary memory."""
    s = stencil()
    s.q.split(i, 32, i0, i1)
    s.q.tag_gpu(blocks=[i0], threads=[i1])
    s.p.compute_at(s.q, i0)
    s.p.tag_gpu(threads=[i])
    return s


def registers_of_others() -> SimpleNamespace:
    """p in registers, although other threads read it."""
    s = host_memory_in_kernel()
    s.p.store_in(tm.REGISTER)
    return s


def tagged_by_hand(make: Callable[[], SimpleNamespace], name: str, tag: Any) -> SimpleNamespace:
    """A program whose loop is given a tag that no command would give it."""
    s = make()
    loop = next(loop for loop in s.f.program.loops.values() if loop.name == name and loop.tag != tag)
    s.f.apply(ByHand(f"{name}.tagged()", lambda p: p.with_loop(replace(loop, tag=tag))))
    return s


def mapped_transfer() -> SimpleNamespace:
    """a is in memory that the GPU addresses on the host, and is copied nevertheless."""
    s = twice()
    buffer = s.f.program.buffers["a"]
    s.f.apply(ByHand("a.mapped()", lambda p: p.with_buffer(replace(buffer, memory=Memory.HOST_MAPPED))))
    return s


def too_many(extent: int, second: int | None = None) -> SimpleNamespace:
    """More threads than a block has."""
    f = tm.Function("many", params=[N, M], assume="N >= 1 and M >= 1")
    a = f.input("a", tm.float32, [N, M])
    q = f.computation("q", {i: N, j: M}, 2 * a[i, j])
    f.outputs(q)
    q.tile(i, j, extent, second or 1, i0, j0, i1, j1)
    q.tag_gpu(blocks=[i0, j0], threads=[i1, j1])
    return SimpleNamespace(f=f, q=q)


CASES: list[tuple[str, Callable[[], Any], str, dict[str, int], Point, Point, str]] = [
    (
        "a copy to the GPU is missing",
        lambda: twice(up=False),
        "communication",
        {"N": 1},
        ("a", (0,)),
        ("q", (0,)),
        "it is only in host memory",
    ),
    (
        "a copy to the host is missing",
        lambda: twice(down=False),
        "communication",
        {"N": 1},
        ("q", (0,)),
        ("q", (0,)),
        "only in the memory of GPU 0",
    ),
    (
        "a copy goes the wrong way",
        backwards,
        "communication",
        {"N": 1},
        ("q", (0,)),
        ("q", (0,)),
        "the transfer down copies q[0] in host memory, but it is only in the memory of GPU 0",
    ),
    ("the halo is not copied", half, "communication", {"N": 1}, ("a", (1,)), ("p", (1,)), "a[1]"),
    (
        "a value stays on the host",
        between_devices,
        "communication",
        {"N": 1},
        ("p", (0,)),
        ("q", (0,)),
        "it is only in host memory",
    ),
    (
        "a copy comes before its producer",
        before_its_producer,
        "order",
        {"N": 1},
        ("q", (0,)),
        ("q", (0,)),
        "the transfer down copies q[0] before it is computed",
    ),
    (
        "a copy comes after its reader",
        after_its_reader,
        "order",
        {"N": 1},
        ("a", (0,)),
        ("q", (0,)),
        "before it is copied there",
    ),
    (
        "a copy goes to another GPU",
        other_gpu,
        "communication",
        {"N": 1},
        ("a", (0,)),
        ("q", (0,)),
        "in the memory of GPU 1, but it is only in host memory and the memory of GPU 0",
    ),
    (
        "blur without h2d_done",
        lambda: without(blur_by_hand, "h2d_done"),
        "race",
        {"R": 3, "C": 1},
        ("image", (0, 0)),
        ("bx", (0, 0)),
        "makes it wait for the transfer h2d",
    ),
    (
        "blur without by_done",
        lambda: without(blur_by_hand, "by_done"),
        "race",
        {"R": 3, "C": 1},
        ("by", (1, 0)),
        ("by", (1, 0)),
        "makes it wait for the computation of by[1, 0]",
    ),
    (
        "blur without finished",
        lambda: without(blur_by_hand, "finished"),
        "race",
        {"R": 3, "C": 1},
        ("by", (1, 0)),
        None,
        "the function returns, and nothing waits for the transfer d2h of by[1, 0]",
    ),
    (
        "a copy on another sequence",
        lambda: asynchronous(up=True),
        "race",
        {"N": 1},
        ("a", (0,)),
        ("q", (0,)),
        "operation sequence 1",
    ),
    (
        "nothing waits at the end",
        lambda: asynchronous(down=True),
        "race",
        {"N": 1},
        ("q", (0,)),
        None,
        "the function returns",
    ),
    ("a wait comes too early", too_early, "race", {"R": 3, "C": 1}, ("image", (0, 0)), ("bx", (0, 0)), "h2d"),
    (
        "the wait is for one row",
        wrong_row,
        "race",
        {"R": 3, "C": 1},
        ("image", (1, 0)),
        ("bx", (1, 0)),
        "h2d of image[1, 0]",
    ),
    ("another sequence waits", wrong_sequence, "race", {"R": 3, "C": 1}, ("image", (0, 0)), ("bx", (0, 0)), "h2d"),
    (
        "the host reads too early",
        lambda: host_reads(False),
        "race",
        {"N": 1},
        ("p", (0,)),
        ("q", (0,)),
        "q[0] on the host",
    ),
    (
        "two kernels on two sequences",
        lambda: two_sequences(False),
        "race",
        {"N": 1},
        ("p", (0,)),
        ("q", (0,)),
        "operation sequence 1",
    ),
    (
        "another GPU does not wait",
        two_gpus,
        "race",
        {"N": 1},
        ("p", (0,)),
        ("q", (0,)),
        "on operation sequence 0 of GPU 1",
    ),
    (
        "a buffer of one iteration is given back",
        lambda: row_by_row(False),
        "race",
        {"R": 3, "C": 1},
        ("by", (1, 0)),
        None,
        "bx exists for one iteration of loop r",
    ),
    ("two rows in turn, one kept", lambda: in_turn(1), "race", {"R": 2}, None, None, "nothing makes it wait"),
    ("a recurrence over blocks", lambda: prefix(True), "race", {"N": 2}, ("s", (0,)), ("s", (1,)), "block"),
    ("a recurrence over threads", lambda: prefix(False), "order", {"N": 2}, ("s", (0,)), ("s", (1,)), "s[0]"),
    (
        "blocks of one kernel exchange values",
        across_blocks,
        "race",
        {"N": 32},
        ("p", (31,)),
        ("q", (32,)),
        "by block 0 and block 1",
    ),
    (
        "a missing barrier",
        lambda: tiled_stencil(barriers=False),
        "race",
        {"N": 1},
        ("p", (1,)),
        ("q", (0,)),
        "thread 1 and thread 0, with no barrier between",
    ),
    (
        "tiles without barriers",
        lambda: product(barriers=False),
        "race",
        {"N": 1, "M": 1, "K": 2},
        ("A", (0, 1)),
        ("C", (0, 0)),
        "with no barrier between",
    ),
    (
        "tiles used too early",
        lambda: tiles(filled=False, emptied=True),
        "race",
        {"N": 1, "M": 1, "K": 2},
        ("A", (0, 1)),
        ("C", (0, 0)),
        "with no barrier between",
    ),
    (
        "tiles filled again too early",
        lambda: tiles(filled=True, emptied=False),
        "race",
        {"N": 1, "M": 1, "K": 18},
        ("A", (0, 17)),
        ("C", (0, 0)),
        "A[0, 17] is stored",
    ),
    (
        "a deferred copy of a thread's own",
        lambda: deferred(False),
        "race",
        {"N": 1},
        ("a", (0,)),
        ("q", (0,)),
        "deferred copy may not have happened",
    ),
    (
        "terms on threads and blocks",
        total,
        "race",
        {"K": 2},
        ("s", (0,)),
        ("s", (0,)),
        "two executions for s[0] both update s[0]",
    ),
    ("terms on threads", over_threads, "race", {"N": 1, "K": 2}, ("s", (0,)), ("s", (0,)), "thread 1 and thread 0"),
    ("a tree with several targets", tree_by_thread, "reduction", {"N": 2, "K": 1}, None, None, "combine=tm.TREE"),
    ("a tile without its halo", halo, "bounds", {"N": 32}, ("p", (32,)), ("p", (32,)), "but p has the shape"),
    (
        "shared memory from the host",
        shared_from_host,
        "reach",
        {},
        None,
        ("q", ()),
        "p is in shared memory, which only its kernel reaches",
    ),
    (
        "shared memory of another kernel",
        other_kernel,
        "reach",
        {},
        None,
        ("q", ()),
        "in the shared memory of another kernel",
    ),
    ("GPU memory from the host", gpu_from_host, "reach", {}, None, ("q", ()), "p is in GPU memory alone"),
    (
        "host memory inside a kernel",
        host_memory_in_kernel,
        "reach",
        {},
        None,
        ("p", ()),
        "a kernel cannot allocate such memory",
    ),
    (
        "registers of other threads",
        registers_of_others,
        "reach",
        {"N": 1},
        None,
        ("q", (0,)),
        "and thread (1, 0, 0) has it in its registers",
    ),
    ("a copy of mapped memory", mapped_transfer, "reach", {}, None, ("a", ()), "every device addresses the one copy"),
    (
        "a kernel in a parallel loop",
        lambda: tagged_by_hand(blur_by_hand, "r", Parallel()),
        "reach",
        {},
        None,
        None,
        "inside the parallel loop r",
    ),
    (
        "threads outside of blocks",
        lambda: tagged_by_hand(twice, "i0", None),
        "reach",
        {},
        None,
        ("q", ()),
        "no loop around it runs on blocks",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_a_wrong_gpu_program_is_refused_with_its_smallest_counterexample(case: Any) -> None:
    _, make, kind, params, writer, reader, words = case
    violation = refusal(make().f)
    witness = violation.witness
    assert words in violation.message, violation
    assert (violation.kind, dict(witness.params)) == (kind, params), violation
    assert writer is None or witness.writer == writer, violation
    assert reader is None or witness.reader == reader, violation


RIGHT: list[tuple[str, Callable[[], Any]]] = [
    ("doubling", twice),
    ("the blur", blur_by_hand),
    ("the host waits before it reads", lambda: host_reads(True)),
    ("one sequence waits for another", lambda: two_sequences(True)),
    ("another GPU waits", lambda: two_gpus(wait=True)),
    ("the host waits between two GPUs", lambda: two_gpus(tm.SYNC)),
    ("each iteration waits", lambda: row_by_row(True)),
    ("two rows in turn", lambda: in_turn(2)),
    ("a stencil in shared memory", tiled_stencil),
    ("a product in shared tiles", product),
    ("a product in two tiles in turn", lambda: product(buffers=2)),
    ("a product without tiles", lambda: product(shared=False)),
    ("tiles with the user's barriers", lambda: tiles(filled=True, emptied=True)),
    ("a deferred copy", lambda: deferred(True)),
    ("a sum with atomics", lambda: total(combine=tm.ATOMIC)),
    ("a sum in a tree", lambda: total(combine=tm.TREE)),
    ("row sums with atomics", lambda: over_threads(tm.ATOMIC)),
    ("row sums in a tree", lambda: over_threads(tm.TREE)),
    ("a tree with its start inside", tree_with_start),
]


@pytest.mark.parametrize("case", RIGHT, ids=[case[0] for case in RIGHT])
def test_the_right_counterpart_is_proven(case: Any) -> None:
    proven(case[1]().f)


# -- what the repairs say


def unstarted() -> SimpleNamespace:
    """Row sums whose start stays on the host."""
    f = tm.Function("rowsum", params=[N, K], assume="N >= 1")
    a = f.input("a", tm.float32, [N, K])
    s = f.reduction("s", {i: N}, over={k: K}, op=tm.sum, expr=a[i, k])
    f.outputs(s)
    s.update.split(k, 32, k0, k1)
    s.update.tag_gpu(blocks=[i], threads=[k1], combine=tm.TREE)
    f.derive_transfers()
    return SimpleNamespace(f=f, s=s)


def unstarted_total() -> SimpleNamespace:
    """A sum of everything on GPU 1, whose start stays on the host."""
    f = tm.Function("total", params=[K])
    a = f.input("a", tm.float32, [K])
    s = f.reduction("s", {}, over={k: K}, op=tm.sum, expr=a[k])
    f.outputs(s)
    s.update.split(k, 32, k0, k1)
    s.update.tag_gpu(blocks=[k0], threads=[k1], combine=tm.TREE, device=1)
    f.derive_transfers()
    return SimpleNamespace(f=f, s=s)


def from_other_gpu() -> SimpleNamespace:
    """The kernel runs on GPU 1, and q is copied back from GPU 0."""
    s = twice(device=1, up=False, down=False)
    s.f.create_xfer({i: N}, s.a[i], tm.CPU2GPU, device=1, name="up").collapse_many(i)
    s.down = s.f.create_xfer({i: N}, s.q[i], tm.GPU2CPU, name="down").collapse_many(i)
    return s


def copy_of_the_host() -> SimpleNamespace:
    """A block copies p into its shared memory, and p is on the host."""
    s = between_devices()
    s.q.copy(s.p, [i], at=i0, into=tm.SHARED)
    return s


def tile_of_a_thread() -> SimpleNamespace:
    """The values of p that a thread needs, in the shared memory of its block."""
    s = stencil()
    s.q.split(i, 32, i0, i1)
    s.q.tag_gpu(blocks=[i0], threads=[i1])
    s.p.compute_at(s.q, i1)
    s.p.store_in(tm.SHARED)
    return s


def over_its_input() -> SimpleNamespace:
    """q overwrites the elements of a that other threads and blocks read."""
    f = tm.Function("over", params=[N], assume="N >= 1")
    a = f.input("a", tm.float32, [N + 1])
    q = f.computation("q", {i: N}, a[i] + a[i + 1])
    f.outputs(q)
    q.store_in(a, [i])
    q.split(i, 32, i0, i1)
    q.tag_gpu(blocks=[i0], threads=[i1])
    f.derive_transfers()
    return SimpleNamespace(f=f, a=a, q=q)


def kept_on_gpus(buffer: bool) -> SimpleNamespace:
    """The host reads an output that is in GPU memory alone."""
    f = tm.Function("kept", params=[N])
    a = f.input("a", tm.float32, [N])
    p = f.computation("p", {i: N}, 2 * a[i])
    q = f.computation("q", {i: N}, p[i] + 1)
    f.outputs(p, q)
    if buffer:
        p.store_in(tm.Buffer("there", [N], tm.float32, memory=tm.GPU_MEMORY), [i])
    else:
        p.store_in(tm.GPU_MEMORY)
    p.split(i, 32, i0, i1)
    p.tag_gpu(blocks=[i0], threads=[i1])
    return SimpleNamespace(f=f, a=a, p=p, q=q)


def read_by_host() -> SimpleNamespace:
    """The host reads an input that is on the GPU."""
    f = tm.Function("twice", params=[N])
    a = f.input("a", tm.float32, [N], memory=tm.GPU_MEMORY)
    q = f.computation("q", {i: N}, 2 * a[i])
    f.outputs(q)
    return SimpleNamespace(f=f)


def without_halo() -> SimpleNamespace:
    """Two columns more are read than the input has."""
    f = tm.Function("columns", params=[N, M])
    a = f.input("a", tm.float32, [N, M])
    q = f.computation("q", {i: N, j: M}, a[i, j] + a[i, j + 1] + a[i, j + 2])
    f.outputs(q)
    return SimpleNamespace(f=f)


def before_the_first() -> SimpleNamespace:
    """An element before the first one is read: a larger array does not help."""
    f = tm.Function("before", params=[N])
    a = f.input("a", tm.float32, [N])
    f.outputs(f.computation("q", {i: N}, a[i] + a[i - 1]))
    return SimpleNamespace(f=f)


REPAIRS: list[tuple[str, Callable[[], Any], str]] = [
    ("the start of row sums", unstarted, "on one device: s.init.tag_gpu(blocks=[i])"),
    ("the start of a total", unstarted_total, "on one device: s.init.tag_gpu(device=1)"),
    (
        "a copy from another GPU",
        from_other_gpu,
        "twice.create_xfer({i: N}, q[i], tm.GPU2CPU, device=1) in place of down",
    ),
    ("a tile of a thread", tile_of_a_thread, "compute p at the block loop i0, not at the thread loop i1"),
    ("in place", over_its_input, "store q in a buffer of its own, not over a"),
    ("terms of threads", over_threads, "combine=tm.ATOMIC), or tm.TREE where all threads of a block"),
    ("terms of blocks", total, "combine=tm.ATOMIC), or tm.TREE where all threads of a block"),
    ("an output on the GPU", lambda: kept_on_gpus(False), "p.store_in(tm.HOST) and kept.derive_transfers()"),
    ("a buffer on the GPU", lambda: kept_on_gpus(True), "p.store_in(tm.HOST) and kept.derive_transfers()"),
    (
        "an input on the GPU",
        read_by_host,
        "declare a without memory=tm.GPU_MEMORY: twice.derive_transfers() then copies it",
    ),
    ("a halo", without_halo, "or declare a with [N, M + 2]"),
]


@pytest.mark.parametrize("case", REPAIRS, ids=[case[0] for case in REPAIRS])
def test_the_repair_names_what_to_change(case: Any) -> None:
    _, make, words = case
    violation = refusal(make().f)
    assert words in violation.repair, violation


def test_an_array_is_not_declared_larger_where_that_does_not_help() -> None:
    assert "declare" not in refusal(before_the_first().f).repair


def test_a_copy_is_named_as_the_reader() -> None:
    assert "the copy p_shared reads p[0] in the memory of GPU 0" in refusal(copy_of_the_host().f).message


def start_on_the_gpu() -> SimpleNamespace:
    s = unstarted()
    s.s.init.tag_gpu(blocks=[i])
    s.f.derive_transfers()
    return s


def start_on_gpu_1() -> SimpleNamespace:
    s = unstarted_total()
    s.s.init.tag_gpu(device=1)
    s.f.derive_transfers()
    return s


def from_this_gpu() -> SimpleNamespace:
    s = from_other_gpu()
    s.f.remove(s.down)
    s.f.create_xfer({i: N}, s.q[i], tm.GPU2CPU, device=1)
    return s


def on_both(buffer: bool) -> SimpleNamespace:
    s = kept_on_gpus(buffer)
    s.p.store_in(tm.HOST)
    s.f.derive_transfers()
    return s


REPAIRED: list[tuple[str, Callable[[], Any]]] = [
    ("the start of row sums", start_on_the_gpu),
    ("the start of a total", start_on_gpu_1),
    ("a copy from the GPU that has it", from_this_gpu),
    ("an output on both", lambda: on_both(False)),
    ("a buffer on both", lambda: on_both(True)),
]


@pytest.mark.parametrize("case", REPAIRED, ids=[case[0] for case in REPAIRED])
def test_the_repair_makes_the_program_right(case: Any) -> None:
    proven(case[1]().f)

"""Programs on ranks that the tests of the proof vary: a blur, heat in one and two dimensions, sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import tiramisu_py as tm
from tiramisu_py.errors import Violation
from tiramisu_py.program.loops import Rank

P, B = 4, 25
C, T = tm.params("C T")
r, c, q, r1, t, i, i1, p, j, j1, k = tm.iters("r c q r1 t i i1 p j j1 k")

#: Properties of halves that do not block.
LATER = (tm.ASYNC, tm.NONBLOCK)


def blur() -> SimpleNamespace:
    """by sums three rows of bx, bx three columns of the image; rows in blocks of 25 on 4 ranks, no message."""
    f = tm.Function("blur", params=[C], assume="C >= 1")
    image = f.input("image", tm.float32, [P * B, C + 2])
    bx = f.computation("bx", {r: P * B, c: C}, (image[r, c] + image[r, c + 1] + image[r, c + 2]) / 3)
    by = f.computation("by", {r: (1, P * B - 1), c: C}, (bx[r - 1, c] + bx[r, c] + bx[r + 1, c]) / 3,
                       shape=[P * B, C])  # fmt: skip
    f.outputs(by)
    for array in (image, by):
        array.distribute_array([r, c], rank=r // B)
    for computation in (bx, by):
        computation.split(r, B, q, r1)
        computation.tag_distribute(q)
    return SimpleNamespace(f=f, image=image, bx=bx, by=by)


def down(s: SimpleNamespace, props: Sequence[Any] = (), rows: int = 1, wide: Any = None, name: str = "down") -> Any:
    """The last rows of bx on each rank, sent to the next one; c ranges over `wide`."""
    wide = C if wide is None else wide
    made = s.f.create_exchange(
        s.bx[r, c], send={q: (0, P - 1), r: (q * B + B - rows, q * B + B), c: wide}, to=q + 1,
        recv={q: (1, P), r: (q * B - rows, q * B), c: wide}, source=q - 1,
        send_props=props, recv_props=props, name=name,
    )  # fmt: skip
    return _packed(made)


def up(s: SimpleNamespace, props: Sequence[Any] = (), rows: int = 1, wide: Any = None, name: str = "up") -> Any:
    """The first rows of bx on each rank, sent to the one before; c ranges over `wide`."""
    wide = C if wide is None else wide
    made = s.f.create_exchange(
        s.bx[r, c], send={q: (1, P), r: (q * B, q * B + rows), c: wide}, to=q - 1,
        recv={q: (0, P - 1), r: (q * B + B, q * B + B + rows), c: wide}, source=q + 1,
        send_props=props, recv_props=props, name=name,
    )  # fmt: skip
    return _packed(made)


def _packed(exchange: Any) -> Any:
    exchange.send.collapse_many(c)
    exchange.recv.collapse_many(c)
    return exchange


def exchanged(props: Sequence[Any] = ()) -> SimpleNamespace:
    """The blur with both exchanges, in order; where they do not block, nothing waits for them."""
    s = blur()
    s.down, s.up = down(s, props), up(s, props)
    s.messages = [s.down.send, s.up.send, s.down.recv, s.up.recv]
    s.f.order(s.bx, *s.messages, s.by, at=tm.root)
    return s


def waited() -> SimpleNamespace:
    """The blur with asynchronous messages, each of which is waited for before by."""
    s = exchanged(LATER)
    s.waits = [message.wait() for message in s.messages]
    s.f.order(*s.messages, *s.waits, s.by, at=tm.root)
    return s


def heat(props: Sequence[Any] = (), kept: int | None = 2) -> SimpleNamespace:
    """u[t, i] from three neighbours at t - 1, on 4 ranks; `kept` time steps are kept, halos exchanged after each."""
    f = tm.Function("heat", params=[T], assume="T >= 1")
    start = f.input("start", tm.float32, [P * B])
    edge = (t == 0) | (i == 0) | (i == P * B - 1)
    u = f.computation("u", {t: T + 1, i: P * B},
                      lambda u: tm.select(edge, start[i], u[t - 1, i - 1] + u[t - 1, i] + u[t - 1, i + 1]))  # fmt: skip
    last = f.computation("last", {i: P * B}, u[T, i])
    f.outputs(last)
    for array in (start, last):
        array.distribute_array([i], rank=i // B)
    if kept is not None:
        u.store_in(tm.Buffer("kept", [kept, P * B], tm.float32), [t % kept, i])
    for computation in (u, last):
        computation.split(i, B, q, i1)
        computation.tag_distribute(q)
    right = f.create_exchange(
        u[t, i], send={t: T, q: (0, P - 1), i: (q * B + B - 1, q * B + B)}, to=q + 1,
        recv={t: T, q: (1, P), i: (q * B - 1, q * B)}, source=q - 1, send_props=props, recv_props=props, name="right",
    )  # fmt: skip
    left = f.create_exchange(
        u[t, i], send={t: T, q: (1, P), i: (q * B, q * B + 1)}, to=q - 1,
        recv={t: T, q: (0, P - 1), i: (q * B + B, q * B + B + 1)}, source=q + 1,
        send_props=props, recv_props=props, name="left",
    )  # fmt: skip
    messages = [right.send, left.send, right.recv, left.recv]
    f.order(u, *messages, at=t)
    f.order(u, last, at=tm.root)
    return SimpleNamespace(f=f, u=u, last=last, right=right, left=left, messages=messages)


def heat_waited(kept: int | None = 2) -> SimpleNamespace:
    """Heat with asynchronous messages that are waited for in the iteration that sends them."""
    s = heat(LATER, kept)
    s.waits = [message.wait({t: T}) for message in s.messages]
    s.f.order(*s.messages, *s.waits, at=t)
    return s


def refusal(f: Any) -> Violation:
    """The first violation of a program."""
    report = f.check()
    assert not report.ok, str(report)
    first: Violation = report.violations[0]
    return first


def proven(f: Any) -> bool:
    """Whether a program is proven; shows why where it is not."""
    report = f.check()
    assert report.ok, str(report)
    return True


def heat2(corners: bool = False, props: Sequence[Any] = LATER, waits: bool = True) -> SimpleNamespace:
    """Heat in two dimensions on a grid of 2 x 3 ranks, with a time loop and four exchanges; 8 x 8 elements on each.

    With `corners` the diagonal neighbours count too, for which there are no messages.
    """
    rows, cols, size = 2, 3, 8
    height, width = rows * size, cols * size
    f = tm.Function("heat", params=[T], assume="T >= 1")
    start = f.input("start", tm.float32, [height, width])
    edge = (t == 0) | (i == 0) | (i == height - 1) | (j == 0) | (j == width - 1)

    def step(u: Any) -> Any:
        near = u[t - 1, i - 1, j] + u[t - 1, i + 1, j] + u[t - 1, i, j - 1] + u[t - 1, i, j + 1]
        return tm.select(edge, start[i, j], near + u[t - 1, i + 1, j + 1] if corners else near)

    u = f.computation("u", {t: T + 1, i: height, j: width}, step)
    last = f.computation("last", {i: height, j: width}, u[T, i, j])
    f.outputs(last)
    for array in (start, last):
        array.distribute_array([i, j], rank=(i // size, j // size))
    u.store_in(tm.Buffer("kept", [2, height, width], tm.float32), [t % 2, i, j])
    for computation in (u, last):
        computation.tile(i, j, size, size, p, q, i1, j1)
        computation.tag_distribute(p, q)
    r0, c0 = p * size, q * size
    made = []
    for name, there, back, own, other in (
        ("south", (p + 1, q), (p - 1, q), (r0 + size - 1, r0 + size, 0, rows - 1), (r0 - 1, r0, 1, rows)),
        ("north", (p - 1, q), (p + 1, q), (r0, r0 + 1, 1, rows), (r0 + size, r0 + size + 1, 0, rows - 1)),
    ):
        made.append(f.create_exchange(
            u[t, i, j], send={t: T, p: own[2:], q: cols, i: own[:2], j: (c0, c0 + size)}, to=there,
            recv={t: T, p: other[2:], q: cols, i: other[:2], j: (c0, c0 + size)}, source=back,
            send_props=props, recv_props=props, name=name))  # fmt: skip
    for name, there, back, own, other in (
        ("east", (p, q + 1), (p, q - 1), (c0 + size - 1, c0 + size, 0, cols - 1), (c0 - 1, c0, 1, cols)),
        ("west", (p, q - 1), (p, q + 1), (c0, c0 + 1, 1, cols), (c0 + size, c0 + size + 1, 0, cols - 1)),
    ):
        made.append(f.create_exchange(
            u[t, i, j], send={t: T, p: rows, q: own[2:], i: (r0, r0 + size), j: own[:2]}, to=there,
            recv={t: T, p: rows, q: other[2:], i: (r0, r0 + size), j: other[:2]}, source=back,
            send_props=props, recv_props=props, name=name))  # fmt: skip
    halves = [exchange.send for exchange in made] + [exchange.recv for exchange in made]
    for half in halves:
        half.collapse_many(i, j)
    f.order(u, *halves, at=t)
    if waits:
        f.order(*halves, *[half.wait({t: T}) for half in halves], at=t)
    f.order(u, last, at=tm.root)
    return SimpleNamespace(f=f, u=u, last=last, halves=halves)


def total(spread: str = "parts") -> SimpleNamespace:
    """s = sum of x, which is in blocks of 25 on 4 ranks.

    "terms": the loop over terms runs on ranks. "parts": each rank has a part, which rank 0 is sent and adds up.
    """
    f = tm.Function("total")
    x = f.input("x", tm.float32, [P * B])
    x.distribute_array([k], rank=k // B)
    if spread == "terms":
        s = f.reduction("s", {r: 1}, {k: P * B}, tm.sum, x[k])
        f.outputs(s)
        s.update.split(k, B, q, i1)
        s.update.tag_distribute(q)
        return SimpleNamespace(f=f, x=x, s=s)
    part = f.reduction("part", {q: P}, {k: B}, tm.sum, x[q * B + k])
    s = f.reduction("s", {r: 1}, {p: P}, tm.sum, part[p])
    f.outputs(s)
    s.distribute_array([r], rank=0)
    part.tag_distribute(q)
    s.split(r, 1, q, r1)
    s.tag_distribute(q)
    return SimpleNamespace(f=f, x=x, part=part, s=s)


def on_gpus() -> SimpleNamespace:
    """q = p[i] + p[i + 1], p = 2 a, both kernels on a GPU of each of 4 ranks; the halo of p goes through the hosts."""
    size = 64
    f = tm.Function("stencil")
    a = f.input("a", tm.float32, [P * size])
    twice = f.computation("p", {i: P * size}, 2 * a[i])
    pairs = f.computation("d", {i: P * size - 1}, twice[i] + twice[i + 1], shape=[P * size])
    f.outputs(pairs)
    for array in (a, pairs):
        array.distribute_array([i], rank=i // size)
    for computation in (twice, pairs):
        computation.split(i, size, q, i1)
        computation.tag_distribute(q)
        computation.split(i1, 32, j, j1)
        computation.tag_gpu(blocks=[j], threads=[j1])
    mine, first = (q * size, q * size + size), (q * size, q * size + 1)
    halo = (q * size + size, q * size + size + 1)
    copies = {
        "there": f.create_xfer({q: P, i: mine}, a[i], tm.CPU2GPU, name="there"),
        "border": f.create_xfer({q: (1, P), i: first}, twice[i], tm.GPU2CPU, tm.ASYNC, name="border"),
        "halo": f.create_xfer({q: P - 1, i: halo}, twice[i], tm.CPU2GPU, name="halo"),
        "back": f.create_xfer({q: (0, P - 1), i: mine}, pairs[i], tm.GPU2CPU, name="back"),
        "rest": f.create_xfer({q: (P - 1, P), i: (q * size, q * size + size - 1)}, pairs[i], tm.GPU2CPU, name="rest"),
    }
    left = f.create_exchange(
        twice[i], send={q: (1, P), i: first}, to=q - 1, recv={q: (0, P - 1), i: halo}, source=q + 1,
        send_props=LATER, name="left",
    )  # fmt: skip
    program = f.program
    for copy in copies.values():
        loop = program.statements[copy.name].loops[0]
        program = program.with_loop(replace(program.loops[loop], tag=Rank(0)))
    f._program = program
    done, sent = copies["border"].wait(), left.send.wait()
    f.order(copies["there"], twice, copies["border"], done, left.send, left.recv, copies["halo"], pairs,
            copies["back"], copies["rest"], sent, at=tm.root)  # fmt: skip
    return SimpleNamespace(f=f, p=twice, d=pairs, done=done, sent=sent, left=left, **copies)

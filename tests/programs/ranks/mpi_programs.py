"""Programs that use what ranks have to offer, each with arguments for a small run; all of four ranks or fewer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tiramisu_py as tm
from tests.programs.stage_stories import gemm, whole

P, B = 4, 3
(C,) = tm.params("C")
(T,) = tm.params("T")
r, c, q, r1, t, i, j, x, y, q0, q1, c0, c1, k = tm.iters("r c q r1 t i j x y q0 q1 c0 c1 k")
NB = {"send_props": [tm.NONBLOCK], "recv_props": [tm.NONBLOCK]}
Made = tuple[tm.Function, dict[str, Any]]


def blur() -> tuple[tm.Function, tm.Computation, tm.Computation]:
    """A stencil over two stages, in blocks of rows."""
    f = tm.Function("stages", params=[C], assume="C >= 1")
    image = f.input("image", tm.float32, [P * B, C])
    bx = f.computation("bx", {r: P * B, c: C}, image[r, c] * 0.5)
    by = f.computation("by", {r: (1, P * B - 1), c: C}, bx[r - 1, c] + bx[r, c] + bx[r + 1, c], shape=[P * B, C])
    f.outputs(by)
    for array in (image, by):
        array.distribute_array([r, c], rank=r // B)
    for stage in (bx, by):
        stage.split(r, B, q, r1)
        stage.tag_distribute(q)
    return f, bx, by


def picture(columns: int = 9, **more: int) -> dict[str, Any]:
    """An image for `blur`."""
    return {"image": np.random.default_rng(0).random((P * B, columns), dtype=np.float32), "C": columns, **more}


def exchanged(send: list[Any], recv: list[Any]) -> tuple[tm.Function, Any, Any, tm.Exchange, tm.Exchange]:
    """The blur with a row for each neighbour."""
    f, bx, by = blur()
    down = f.create_exchange(
        bx[r, c], send={q: (0, P - 1), r: (q * B + B - 1, q * B + B), c: C}, to=q + 1,
        recv={q: (1, P), r: (q * B - 1, q * B), c: C}, source=q - 1, send_props=send, recv_props=recv, name="down",
    )  # fmt: skip
    up = f.create_exchange(
        bx[r, c], send={q: (1, P), r: (q * B, q * B + 1), c: C}, to=q - 1,
        recv={q: (0, P - 1), r: (q * B + B, q * B + B + 1), c: C}, source=q + 1, send_props=send, recv_props=recv,
        name="up",
    )  # fmt: skip
    return f, bx, by, down, up


def modes(send: list[Any]) -> Made:
    """Receives are posted, then sends of one kind, then waits."""
    f, bx, by, down, up = exchanged(send, [tm.NONBLOCK])
    for exchange in (down, up):
        exchange.collapse_many(c)
    waits = [*down.wait(), *up.wait()]
    f.order(bx, down.recv, up.recv, down.send, up.send, *waits, by, at=tm.root)
    return f, picture()


def buffered_first() -> Made:
    """Every rank sends before it receives, which buffered sends allow; each element is a message."""
    f, bx, by, down, up = exchanged([tm.BUFFERED], [])
    f.order(bx, down.send, up.send, down.recv, up.recv, by, at=tm.root)
    return f, picture()


def partly_collapsed() -> Made:
    """Messages of four columns at most, the last one shorter; those down use every other request."""
    f, bx, by, down, up = exchanged([tm.NONBLOCK], [tm.NONBLOCK])
    for exchange in (down, up):
        for half in (exchange.send, exchange.recv):
            half.split(c, 4, c0, c1)
            half.collapse_many(c1)
    down.send.set_wait_access(c // 4 * 2)
    waits = [*down.wait(), *up.wait()]
    f.order(bx, down.send, up.send, down.recv, up.recv, *waits, by, at=tm.root)
    return f, picture(10)


def by_its_number() -> Made:
    """Halves that name no loop: `tm.rank` in domains, conditions and peers."""
    f, bx, by = blur()
    mine = tm.rank * B
    down = f.create_exchange(
        bx[r, c], send=({r: (mine + B - 1, mine + B), c: C}, tm.rank < P - 1), to=tm.rank + 1,
        recv=({r: (mine - 1, mine), c: C}, tm.rank > 0), source=tm.rank - 1, name="down", **NB,
    )  # fmt: skip
    up = f.create_exchange(
        bx[r, c], send=({r: (mine, mine + 1), c: C}, tm.rank > 0), to=tm.rank - 1,
        recv=({r: (mine + B, mine + B + 1), c: C}, tm.rank < P - 1), source=tm.rank + 1, name="up", **NB,
    )  # fmt: skip
    halves = [down.recv, up.recv, down.send, up.send]
    for half in halves:
        half.collapse_many(c)
    f.order(bx, *halves, *down.wait(), *up.wait(), by, at=tm.root)
    return f, picture()


def in_parts() -> Made:
    """A schedule for the first two ranks, and another one for the others; threads inside of ranks."""
    f, _, by = blur()
    first, others = by.separate_at(q, [2])
    first.parallelize(r1)
    others.interchange(r1, c).vectorize(r1, 2)
    f.derive_transfers()
    return f, picture()


def scattered() -> Made:
    """Figure 4-3 of the thesis: the first rank has everything, and sends others theirs; each has its schedule."""
    f = tm.Function("scattered", params=[C], assume="C >= 1")
    a = f.input("a", tm.float32, [P * B, C])
    c1_ = f.computation("c1", {r: P * B, c: C}, a[r, c] * 7)
    f.outputs(c1_)
    a.distribute_array([r, c], rank=0)
    c1_.distribute_array([r, c], rank=r // B)
    c1_.split(r, B, q, r1).tag_distribute(q)
    first, others = c1_.separate_at(tm.rank, [1])
    first.vectorize(c, 4)
    others.interchange(r1, c)
    rows = f.create_exchange(
        a[r, c], send={q: 1, k: (1, P), r: (k * B, k * B + B), c: C}, to=k,
        recv={q: (1, P), r: (q * B, q * B + B), c: C}, source=0, name="rows",
    )  # fmt: skip
    rows.collapse_many(r, c)
    f.order(rows.send, first, at=tm.root)
    f.order(rows.recv, others, at=tm.root)
    return f, {"a": np.random.default_rng(4).random((P * B, 6), dtype=np.float32), "C": 6}


def several_hops() -> Made:
    """A halo that is wider than two blocks."""
    f = tm.Function("wide", params=[])
    a = f.input("a", tm.int64, [8])
    b = f.computation("b", {i: 8}, a[i] * 3)
    s = f.computation("s", {i: (5, 8)}, b[i] + b[i - 5], shape=[8])
    f.outputs(s)
    for array in (a, s):
        array.distribute_array([i], rank=i // 2)
    for stage in (b, s):
        stage.split(i, 2, q, x)
        stage.tag_distribute(q)
    f.derive_transfers()
    return f, {"a": np.arange(8)}


def dealt_in_turn() -> Made:
    """Blocks of two rows go round three ranks: the loop over ranks is inside of another one."""
    f = tm.Function("turns", params=[])
    a = f.input("a", tm.int32, [17, 5])
    b = f.computation("b", {i: 17, j: 5}, a[i, j] * 2)
    s = f.computation("s", {i: (2, 17), j: 5}, b[i, j] - b[i - 2, j], shape=[17, 5])
    f.outputs(b, s)
    for array in (a, b, s):
        array.distribute_array([i, j], rank=(i // 2) % 3)
    for stage in (b, s):
        stage.split(i, 6, k, x)
        stage.split(x, 2, q, y)
        stage.tag_distribute(q)
    f.derive_transfers()
    return f, {"a": np.arange(85, dtype=np.int32).reshape(17, 5)}


def on_one_rank(holder: int, computed: bool) -> Made:
    """The result belongs to one rank, which computes it, or is sent it."""
    f = tm.Function("gathered", params=[])
    a = f.input("a", tm.float64, [11, 3])
    b = f.computation("b", {i: 11, j: 3}, a[i, j] + 1)
    s = f.computation("s", {i: 11, j: 3}, b[10 - i, j])
    f.outputs(s)
    a.distribute_array([i, j], rank=i // 3)
    b.split(i, 3, q, x).tag_distribute(q)
    s.distribute_array([i, j], rank=holder)
    if not computed:
        s.split(i, 3, q, x).tag_distribute(q)
    f.derive_transfers()
    return f, {"a": np.random.default_rng(1).random((11, 3))}


def on_some_axes() -> Made:
    """Rows on a grid of 2 x 2, the same on the ranks along the second axis; the result on the ranks of one column."""
    f = tm.Function("replicated", params=[])
    a = f.input("a", tm.int32, [7, 4])
    s = f.computation("s", {i: 7, j: 4}, a[6 - i, j] + 1)
    f.outputs(s)
    a.distribute_array([i, j], rank=(i // 4, None))
    s.distribute_array([i, j], rank=(i // 4, 1))
    s.split(i, 4, q, x)
    s.tag_distribute(q, axis=0)
    f.grid(2, 2)
    f.derive_transfers()
    return f, {"a": np.arange(28, dtype=np.int32).reshape(7, 4)}


def bar() -> tuple[tm.Function, tm.Computation]:
    """A recurrence over time, of which the last step is returned."""
    f = tm.Function("bar", params=[T], assume="T >= 1")
    start = f.input("start", tm.float64, [P * B])
    edge = (t == 0) | (i == 0) | (i == P * B - 1)
    h = f.computation(
        "h", {t: T + 1, i: P * B}, lambda h: tm.select(edge, start[i], (h[t - 1, i - 1] + h[t - 1, i + 1]) / 2)
    )
    f.outputs(h[T, i])
    for array in (start, f["h_out"]):
        array.distribute_array([i], rank=i // B)
    for stage in (h, f["h_out"]):
        stage.split(i, B, q, x)
        stage.tag_distribute(q)
    return f, h


def some_heat() -> dict[str, Any]:
    """Arguments for `bar`."""
    return {"start": np.random.default_rng(2).random(P * B), "T": 5}


def time_inside() -> Made:
    """The time loop is inside of the loop over ranks."""
    f, h = bar()
    h.interchange(t, q)
    f.derive_transfers()
    return f, some_heat()


def time_outside(kept: int | None, props: list[Any], requests: bool = False) -> Made:
    """The time loop is around the loop over ranks, messages are by hand; `kept` steps are in memory."""
    f, h = bar()
    if kept is not None:
        h.store_in(tm.Buffer("steps", [kept, P * B], tm.float64), [t % kept, i])
    steps = {t: (1, T + 1)}
    halves = []
    for name, low, high, away, last in (("right", 0, P - 1, 1, B - 1), ("left", 1, P, -1, 0)):
        there = B * (q - away) + last
        made = f.create_exchange(
            h[t - 1, i], send={**steps, q: (low, high), i: (B * q + last, B * q + last + 1)}, to=q + away,
            recv={**steps, q: (low + away, high + away), i: (there, there + 1)}, source=q - away, name=name,
            send_props=props, recv_props=props,
        )  # fmt: skip
        halves += [made.recv, made.send]
    if requests:
        for half in halves:
            half.set_wait_access(t % 2)
    f.order(*halves[::2], *halves[1::2], *(half.wait(steps) for half in halves), h, at=t)
    return f, some_heat()


def columns() -> Made:
    """A column of every tile is one message with a stride; its rows come in two messages."""
    f = tm.Function("columns", params=[])
    a = f.input("a", tm.float32, [12, 8])
    b = f.computation("b", {i: 12, j: 8}, a[i, j] * 3)
    s = f.computation("s", {i: 12, j: (1, 8)}, b[i, j] - b[i, j - 1], shape=[12, 8])
    f.outputs(s)
    for array in (a, s):
        array.distribute_array([i, j], rank=(i // 6, j // 4))
    for stage in (b, s):
        stage.tile(i, j, 6, 4, q0, q1, x, y)
        stage.tag_distribute(q0, q1)
    east = f.create_exchange(
        b[i, j], send={q0: 2, q1: 1, i: (6 * q0, 6 * q0 + 6), j: (3, 4)}, to=(q0, 1),
        recv={q0: 2, q1: (1, 2), i: (6 * q0, 6 * q0 + 6), j: (3, 4)}, source=(q0, 0), name="east", **NB,
    )  # fmt: skip
    for half in (east.send, east.recv):
        half.split(i, 3, c0, c1)
        half.collapse_many(c1, j)
    f.order(b, east.recv, east.send, *east.wait(), s, at=tm.root)
    return f, {"a": np.random.default_rng(3).random((12, 8), dtype=np.float32)}


def called() -> Made:
    """A call over whole arrays for each rank, on its own part, and messages with what the calls have written."""
    f = tm.Function("called", params=[C], assume="C >= 1")
    a, b = f.input("a", tm.float32, [P, B, C]), f.input("b", tm.float32, [C, B])
    parts = f.stage("parts", {q: P, i: B, j: B}, gemm(B, B, C, a[q, i, k], b[k, j]), over={k: C}, each=[q])
    before = tm.select(q >= 1, parts[q - 1, i, j], 0)
    sums = f.computation("sums", {q: P, i: B, j: B}, before + parts[q, i, j])
    f.outputs(sums)
    for array in (a, sums):
        array.distribute_array([q, i, j], rank=q)
    for each in (parts, sums):
        each.tag_distribute(q)
    f.derive_transfers()
    return f, {"a": whole(P, B, 5), "b": whole(5, B, seed=1), "C": 5}


PROGRAMS: dict[str, Callable[[], Made]] = {
    "standard sends": lambda: modes([]),
    "standard sends, nonblocking": lambda: modes([tm.NONBLOCK]),
    "synchronous sends": lambda: modes([tm.SYNC]),
    "synchronous sends, nonblocking": lambda: modes([tm.SYNC, tm.NONBLOCK]),
    "buffered sends": lambda: modes([tm.BUFFERED]),
    "buffered sends, nonblocking": lambda: modes([tm.BUFFERED, tm.NONBLOCK]),
    "buffered sends before receives": buffered_first,
    "partly collapsed": partly_collapsed,
    "by its own number": by_its_number,
    "schedules of some ranks": in_parts,
    "scattered by the first rank": scattered,
    "several hops": several_hops,
    "dealt out in turn": dealt_in_turn,
    "gathered on rank 0": lambda: on_one_rank(0, computed=False),
    "gathered on rank 2, which does not compute it": lambda: on_one_rank(2, computed=False),
    "the same along an axis": on_some_axes,
    "time inside of ranks": time_inside,
    "time around ranks": lambda: time_outside(None, [tm.NONBLOCK]),
    "two steps in memory": lambda: time_outside(2, [tm.NONBLOCK]),
    "persistent requests for two steps in memory": lambda: time_outside(2, [tm.NONBLOCK, tm.PERSISTENT], True),
    "columns in parts": columns,
    "calls over whole arrays": called,
}

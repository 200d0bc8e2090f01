"""Box blur on ranks that hold rows of the picture: messages derived, by hand, packed and not, overlapped with work.

The version by hand is figure 4-3 of J. M. Ray, "A Unified Compiler Backend for Distributed, Cooperative Heterogeneous
Execution" (MIT, 2018): each rank sends its last row down and its first row up.
"""

from __future__ import annotations

import numpy as np
from story import Arguments, blocks, tell

import tiramisu_py as tm

(C,) = tm.params("C")
r, c, q, r1 = tm.iters("r c q r1")


def algorithm(ranks: int, rows: int) -> tuple[tm.Function, tm.Computation, tm.Computation, int, int]:
    """Two stages, across and down, in blocks of rows; also returns the number of blocks and the rows of each."""
    size = blocks(rows, ranks)
    f = tm.Function("blur", params=[C], assume="C >= 1")
    image = f.input("image", tm.float32, [rows, C + 2])
    bx = f.computation("bx", {r: rows, c: C}, (image[r, c] + image[r, c + 1] + image[r, c + 2]) / 3)
    by = f.computation("by", {r: (1, rows - 1), c: C}, (bx[r - 1, c] + bx[r, c] + bx[r + 1, c]) / 3, shape=[rows, C])
    f.outputs(by)
    for array in (image, by):
        array.distribute_array([r, c], rank=r // size)
    for stage in (bx, by):
        stage.split(r, size, q, r1)
        stage.tag_distribute(q)
        stage.vectorize(c, 16)
    return f, bx, by, blocks(rows, size), size


def derived(ranks: int, rows: int) -> tm.Function:
    """The short way: the missing rows are found, and exchanged."""
    f, _, _, _, _ = algorithm(ranks, rows)
    f.derive_transfers()
    return f


def overlapped(ranks: int, rows: int) -> tm.Function:
    """The rows that need no other rank are computed while the messages are in flight."""
    f, _, _, _, _ = algorithm(ranks, rows)
    f.derive_transfers(overlap=True)
    return f


def exchanges(ranks: int, rows: int, props: list[object]) -> tuple[tm.Function, list[object], object, object]:
    """Both exchanges, by hand: the last row of each rank goes down, the first one up."""
    f, bx, by, count, size = algorithm(ranks, rows)
    down = f.create_exchange(
        bx[r, c],
        send={q: (0, count - 1), r: (q * size + size - 1, q * size + size), c: C}, to=q + 1,
        recv={q: (1, count), r: (q * size - 1, q * size), c: C}, source=q - 1,
        send_props=props, recv_props=props, name="down",
    )  # fmt: skip
    up = f.create_exchange(
        bx[r, c],
        send={q: (1, count), r: (q * size, q * size + 1), c: C}, to=q - 1,
        recv={q: (0, count - 1), r: (q * size + size, q * size + size + 1), c: C}, source=q + 1,
        send_props=props, recv_props=props, name="up",
    )  # fmt: skip
    return f, [down.send, up.send, down.recv, up.recv], bx, by


def by_hand(ranks: int, rows: int) -> tm.Function:
    """Four messages in flight at the same time, and waits for them; one message for each row."""
    f, messages, bx, by = exchanges(ranks, rows, [tm.ASYNC, tm.NONBLOCK])
    for message in messages:
        message.collapse_many(c)
    f.order(bx, *messages, *[message.wait() for message in messages], by, at=tm.root)
    return f


def single_messages(ranks: int, rows: int) -> tm.Function:
    """The same, with one message for each element: table 5.4 of the thesis has the cost."""
    f, messages, bx, by = exchanges(ranks, rows, [tm.ASYNC, tm.NONBLOCK])
    f.order(bx, *messages, *[message.wait() for message in messages], by, at=tm.root)
    return f


def blocking(ranks: int, rows: int) -> tm.Function:
    """Blocking messages, one direction after the other: the last rank only receives, and so is the first to proceed."""
    f, messages, bx, by = exchanges(ranks, rows, [tm.ASYNC, tm.BLOCK])
    down_send, up_send, down_recv, up_recv = messages
    for message in messages:
        message.collapse_many(c)
    f.order(bx, down_send, down_recv, up_recv, up_send, by, at=tm.root)
    return f


VARIANTS = {
    "derived": derived,
    "overlapped": overlapped,
    "by hand": by_hand,
    "single messages": single_messages,
    "blocking": blocking,
}


def sample(_: str, size: int, seed: int) -> Arguments:
    """A random picture."""
    return {"image": np.random.default_rng(seed).random((size, 39), dtype=np.float32)}


if __name__ == "__main__":
    tell(VARIANTS, sample, (100, 53))

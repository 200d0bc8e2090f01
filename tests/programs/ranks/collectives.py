"""Programs with collective exchanges, which tests change in one place."""

from __future__ import annotations

from typing import Any

import tiramisu_py as tm
from tiramisu_py.function.handles.exchange_handles import Exchange

q, p, r, c, t, k, r1 = tm.iters("q p r c t k r1")


def transposed(ranks: int = 3, block: int = 2) -> tuple[tm.Function, Any, Any]:
    """Rows of b are computed where rows of its transposition are read: without the exchange."""
    n = ranks * block
    f = tm.Function("transposed", params=[])
    a = f.input("a", tm.float32, [n, n])
    b = f.computation("b", {r: n, c: n}, a[r, c] * 2)
    d = f.computation("d", {r: n, c: n}, b[c, r] + 1)
    f.outputs(d)
    for array in (a, d):
        array.distribute_array([r, c], rank=r // block)
    for stage in (b, d):
        stage.split(r, block, q, r1)
        stage.tag_distribute(q)
    return f, b, d


def all_to_all(f: tm.Function, b: Any, ranks: int = 3, block: int = 2, **changes: Any) -> Exchange:
    """Every rank sends a tile of b to every other one."""
    mine, other = (q * block, q * block + block), (p * block, p * block + block)
    given: dict[str, Any] = {
        "send": ({q: ranks, p: ranks, r: mine, c: other}, p != q), "to": p,
        "recv": ({q: ranks, p: ranks, r: other, c: mine}, p != q), "source": p,
        "collective": True, "name": "x",
    }  # fmt: skip
    return f.create_exchange(b[r, c], **{**given, **changes})


def gathered(ranks: int = 3, block: int = 2) -> tuple[tm.Function, Any, Any]:
    """A vector that is computed in blocks, and read as a whole by every rank: without the exchange."""
    n = ranks * block
    f = tm.Function("gathered", params=[])
    a = f.input("a", tm.float32, [n])
    b = f.computation("b", {r: n}, a[r] * 2)
    d = f.computation("d", {r: n}, b[r] + b[n - 1 - r])
    f.outputs(d)
    a.distribute_array([r], rank=r // block)
    f.grid(ranks)
    b.split(r, block, q, r1)
    b.tag_distribute(q)
    return f, b, d


def panels(ranks: int = 3, size: int = 4) -> tuple[tm.Function, Any, Any]:
    """In step t rank t has row t of b, which all ranks read in that step: without the exchange."""
    f = tm.Function("panels", params=[])
    a = f.input("a", tm.float32, [ranks, size])
    b = f.computation("b", {t: ranks, r: size}, a[t, r] * 2)
    d = f.computation("d", {q: ranks, t: ranks, r: size}, b[t, r] + q)
    f.outputs(d)
    a.distribute_array([t, r], rank=t)
    d.distribute_array([q, t, r], rank=q)
    b.tag_distribute(t)
    d.tag_distribute(q)
    return f, b, d


def broadcasts(f: tm.Function, b: Any, ranks: int = 3, size: int = 4, **changes: Any) -> Exchange:
    """In each step its rank sends its row to all others, in a loop that both halves share."""
    given: dict[str, Any] = {
        "send": ({k: ranks, q: ranks, p: ranks, r: size}, (q == k) & (p != k)), "to": p,
        "recv": ({k: ranks, q: ranks, r: size}, q != k), "source": k,
        "collective": True, "name": "x",
    }  # fmt: skip
    x = f.create_exchange(b[k, r], **{**given, **changes})
    x.collapse_many(r)
    return x


def exchange() -> tm.Function:
    """Tiles of rows, each in one piece."""
    f, b, _ = transposed()
    all_to_all(f, b).collapse_many(r, c)
    return f


def element_by_element() -> tm.Function:
    """The same, not collapsed."""
    f, b, _ = transposed()
    all_to_all(f, b)
    return f


def steps() -> tm.Function:
    """A call in each step."""
    f, b, _ = panels()
    x = broadcasts(f, b)
    f.order(x.send, x.recv, at=k)
    return f

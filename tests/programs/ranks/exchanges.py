"""Programs of exchanges, described in a few words, and what they do: the proof's oracle, which knows no isl.

An exchange is between rank q and rank q + shift, on a line (ranks without such a neighbour are left out) or on a ring.
A program is a list of steps that every rank takes in each of T iterations: ``(exchange, "send" | "recv" | "wait send" |
"wait recv")``.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from types import SimpleNamespace
from typing import Any

import tiramisu_py as tm
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import Violation
from tiramisu_py.program.ranks.spread import spread
from tiramisu_py.proof.messages import deadlock, executors, matching

P, T = tm.params("P T")
t, q, x = tm.iters("t q x")

Step = tuple[str, str]


@dataclass(frozen=True)
class Link:
    """One exchange: who sends (all, or ranks of one parity), to which neighbour, and how."""

    name: str
    shift: int = 1
    ring: bool = False
    parity: int | None = None
    send: tuple[Any, ...] = ()
    recv: tuple[Any, ...] = ()

    def target(self, rank: int, ranks: int) -> int | None:
        """The rank to which one sends; None for one that does not."""
        if self.parity is not None and rank % 2 != self.parity:
            return None
        to = rank + self.shift
        if self.ring:
            return to % ranks
        return to if 0 <= to < ranks else None

    def origin(self, rank: int, ranks: int) -> int | None:
        """The rank from which one receives; None for one that does not."""
        return next((other for other in range(ranks) if self.target(other, ranks) == rank), None)


@dataclass(frozen=True)
class Talk:
    """A program of exchanges; `ranks` is None for any number of them."""

    links: tuple[Link, ...]
    steps: tuple[Step, ...]
    ranks: int | None = None
    loop: bool = True


def build(talk: Talk) -> SimpleNamespace:
    """The program, through the public commands."""
    f = tm.Function("talk", params=[P, T], assume="P >= 1 and T >= 1")
    a = f.input("a", tm.int32, [T, P if talk.ranks is None else talk.ranks])
    o = f.computation("o", {q: P if talk.ranks is None else talk.ranks}, a[0, q])
    f.outputs(o)
    o.tag_distribute(q)
    made = {link.name: _exchange(f, a, link, talk) for link in talk.links}
    todo = []
    for name, step in talk.steps:
        half = getattr(made[name], step.split()[-1])
        if step.startswith("wait"):
            half = half.wait({t: T}) if talk.loop else half.wait()
        todo.append(half)
    f.order(*todo, at=t if talk.loop else tm.root)
    return SimpleNamespace(f=f, a=a, o=o, **made)


def _exchange(f: Any, a: Any, link: Link, talk: Talk) -> Any:
    extent = "P" if talk.ranks is None else str(talk.ranks)
    if link.ring:
        assert talk.ranks is not None
        sending, origin = "", f"(q - {link.shift}) mod {talk.ranks}"
        to, source = (q + link.shift) % talk.ranks, (q - link.shift) % talk.ranks
    else:
        low, high = max(0, -link.shift), max(0, link.shift)
        sending, origin = f" and {low} <= x < {extent} - {high}", f"q - {link.shift}"
        to, source = q + link.shift, q - link.shift
    if link.parity is not None:
        sending += f" and x mod 2 = {link.parity}"
    turns = "0 <= t < T" if talk.loop else "t = 0"
    common = f"[P, T] -> {{ [t, q, x] : {turns} and 0 <= q < {extent} and 0 <= x < {extent}{sending}"
    return f.create_exchange(
        a[t, x], send=f"{common} and x = q }}", to=to, recv=f"{common} and x = {origin} }}", source=source,
        send_props=list(link.send), recv_props=list(link.recv), name=link.name,
    )  # fmt: skip


def found(f: Any) -> list[Violation]:
    """What the conditions about ranks say of a program."""
    flow = Flow(MemoryAccesses(spread(f.completed)))
    return [finding.violation for condition in (executors, matching, deadlock) for finding in condition.findings(flow)]


def deadlocks(talk: Talk, ranks: int, turns: int) -> bool:
    """Whether some rank never comes to its end when no message is put aside (but those that are sent so)."""
    links = {link.name: link for link in talk.links}
    steps = list(talk.steps) * (turns if talk.loop else 1)
    at = [0] * ranks
    posted: dict[tuple[str, str, int, int], int] = {}  # how many halves of a kind are posted on a channel
    mine: dict[tuple[int, int], int] = {}  # the number of a step's own message on its channel
    for _ in count():
        moved = False
        for rank in range(ranks):
            while at[rank] < len(steps):
                name, what = steps[at[rank]]
                link, kind = links[name], what.split()[-1]
                sends = kind == "send"
                peer = link.target(rank, ranks) if sends else link.origin(rank, ranks)
                if peer is not None:
                    ends = (rank, peer) if sends else (peer, rank)
                    here, there = (name, kind, *ends), (name, "recv" if sends else "send", *ends)
                    if not what.startswith("wait") and (rank, at[rank]) not in mine:
                        mine[rank, at[rank]] = posted[here] = posted.get(here, 0) + 1
                        moved = True
                    props = link.send if sends else link.recv
                    nonblocking = tm.NONBLOCK in props
                    aside = sends and tm.BUFFERED in props
                    need = posted.get(here, 0) if what.startswith("wait") else mine[rank, at[rank]]
                    must = nonblocking == what.startswith("wait") and not aside
                    if must and posted.get(there, 0) < need:
                        break
                at[rank] += 1
                moved = True
        if not moved:
            return any(k < len(steps) for k in at)
    raise AssertionError


# -- the order of elements


@dataclass(frozen=True)
class Layout:
    """How one half goes through a box of values ``a[i, j]``: the loops, outermost first, and how many are bulk.

    A loop ``-i`` goes backwards; `rows` and `columns` are the bounds of the box, `times` how often all is repeated.
    """

    loops: tuple[str, ...]
    bulk: int
    rows: tuple[int, int]
    columns: tuple[int, int]
    times: int = 1

    def domain(self, ranks: str) -> str:
        """The domain, as isl text: the loop k of -i has i = -k."""
        dims = [loop.replace("-", "m") for loop in self.loops]
        backwards = [f"m{d} = -{d}" for d in "ij" if f"m{d}" in dims]
        box = f"{self.rows[0]} <= i < {self.rows[1]} and {self.columns[0]} <= j < {self.columns[1]}"
        inner = [d for d in "ij" if d not in dims]
        within = " and ".join([ranks, f"0 <= n < {self.times}", box, *backwards])
        return f"[P, T] -> {{ [q, n, {', '.join([*dims, *inner])}] : {within} }}"

    def iterators(self) -> list[Any]:
        """The loops of the domain, outermost first."""
        dims = [loop.replace("-", "m") for loop in self.loops]
        names = [*dims, *(d for d in "ij" if d not in dims)]
        return [tm.iters(name)[0] for name in names]

    def messages(self) -> list[tuple[tuple[int, int], ...]]:
        """The values of each message, in order."""
        bounds = {"i": range(*self.rows), "j": range(*self.columns)}

        def along(loops: tuple[str, ...], at: dict[str, int]) -> list[dict[str, int]]:
            if not loops:
                return [at]
            name = loops[0][-1]
            values = bounds[name] if loops[0] == name else reversed(bounds[name])
            return [done for value in values for done in along(loops[1:], {**at, name: value})]

        outer = self.loops[: len(self.loops) - self.bulk]
        made = []
        for at in along(outer, {}):
            rest = along(self.loops[len(outer) :], at)
            made.append(tuple((point["i"], point["j"]) for point in rest))
        return [message for message in made if message] * self.times


def layouts(send: Layout, recv: Layout, ranks: int | None = None) -> Any:
    """A program with one exchange to the next rank, whose halves go through values like this."""
    f = tm.Function("layouts", params=[P, T], assume="P >= 2 and T >= 1")
    a = f.input("a", tm.int32, [8, 8])
    o = f.computation("o", {q: P}, a[0, 0] + 1)
    f.outputs(o)
    o.tag_distribute(q)
    i, j = tm.iters("i j")
    down = f.create_exchange(
        a[i, j], send=send.domain("0 <= q < P - 1"), to=q + 1, recv=recv.domain("1 <= q < P"), source=q - 1,
        send_props=[tm.NONBLOCK], name="down",
    )  # fmt: skip
    f.order(down.send, down.recv, o, at=tm.root)
    for half, layout in ((down.send, send), (down.recv, recv)):
        added = len(layout.iterators()) - len(layout.loops)
        if layout.bulk or added:
            half.collapse_many(*layout.iterators()[len(layout.loops) - layout.bulk :])
    return f

"""Programs on ranks for tests of what is derived, and what of them moves, listed element by element."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import tiramisu_py as tm
from tiramisu_py import sets
from tiramisu_py.program.ranks.spread import spread
from tiramisu_py.program.statement import Role

C, T = tm.params("C T")
r, c, q, r1, t, i, j, i1, j1, q2 = tm.iters("r c q r1 t i j i1 j1 q2")

#: A value of a source: its name and its indices.
Value = tuple[str, tuple[int, ...]]
Rank = tuple[int, ...]


@dataclass(frozen=True)
class Element:
    """One element of a message."""

    sender: Rank
    receiver: Rank
    value: Value


def blur(ranks: int = 4, block: int = 25, reach: int = 1) -> tm.Function:
    """Two stages in blocks of rows; the second reads rows at a distance of up to `reach`."""
    rows = ranks * block
    f = tm.Function("blur", params=[C], assume="C >= 1")
    image = f.input("image", tm.float32, [rows, C + 2])
    bx = f.computation("bx", {r: rows, c: C}, image[r, c] + image[r, c + 1] + image[r, c + 2])
    total = bx[r, c]
    for apart in range(1, reach + 1):
        total = total + bx[r - apart, c] + bx[r + apart, c]
    by = f.computation("by", {r: (reach, rows - reach), c: C}, total, shape=[rows, C])
    f.outputs(by)
    for array in (image, by):
        array.distribute_array([r, c], rank=r // block)
    for computation in (bx, by):
        computation.split(r, block, q, r1)
        computation.tag_distribute(q)
    return f


def heat(ranks: int = 4, block: int = 8) -> tm.Function:
    """A plate in blocks of rows, in T steps."""
    f = _plate(ranks * block)
    for name in ("u", "u_out"):
        f[name].split(i, block, q, i1)
        f[name].tag_distribute(q)
    for name in ("u0", "u_out"):
        f[name].distribute_array([i, j], rank=i // block)
    return f


def heat_on_grid(shape: tuple[int, int] = (2, 3), block: int = 3, corners: bool = False) -> tm.Function:
    """A square plate in tiles on a process grid; with `corners`, its nine-point stencil."""
    f = _plate(shape[0] * block, shape[1] * block, corners)
    for name in ("u", "u_out"):
        f[name].split(i, block, q, i1)
        f[name].split(j, block, q2, j1)
        f[name].interchange(i1, q2)
        f[name].tag_distribute(q, q2)
    for name in ("u0", "u_out"):
        f[name].distribute_array([i, j], rank=(i // block, j // block))
    return f


def _plate(rows: int, columns: int | None = None, corners: bool = False) -> tm.Function:
    width = C if columns is None else columns
    f = tm.Function("heat", params=[T, C], assume="T >= 1 and C >= 3")
    u0 = f.input("u0", tm.float32, [rows, width])

    def step(u: tm.Computation) -> tm.Expr:
        inner = u[t - 1, i - 1, j] + u[t - 1, i + 1, j] + u[t - 1, i, j - 1] + u[t - 1, i, j + 1]
        if corners:
            inner = inner + u[t - 1, i - 1, j - 1] + u[t - 1, i + 1, j + 1]
        at_edge = (i < 1) | (i >= rows - 1) | (j < 1) | (j >= width - 1)
        return tm.select(t < 1, u0[i, j], tm.select(at_edge, u[t - 1, i, j], inner))

    u = f.computation("u", {t: T + 1, i: rows, j: width}, step)
    f.outputs(u[T, i, j])
    return f


def moved(f: tm.Function, role: Role, **params: int) -> Counter[Element]:
    """Every element that is sent, or received, by each message; how often."""
    program, found = spread(f.program), Counter[Element]()
    for statement in program.acting:
        if statement.link.message is None or statement.role is not role:
            continue
        forms = sets.joined(program.rank_of(statement), statement.link.message.peer, statement.point)
        instances = statement.instances.intersect_params(program.context.params())
        told = sets.graph(sets.joined(sets.identity(statement.frame), forms), instances)
        for whole in sets.points(sets.fixed(told.range(), params)):
            point = whole[sets.size(statement.frame) :]
            n = program.ranks.axes
            mine, peer, value = point[:n], point[n : 2 * n], (statement.source, point[2 * n :])
            ends = (mine, peer) if role is Role.SEND else (peer, mine)
            found[Element(*ends, value)] += 1
    return found


def exchanges(f: tm.Function) -> list[str]:
    """The exchanges of a program by name."""
    found = [s.link.message.exchange for s in f.program.acting if s.link.message is not None]
    return sorted(set(found))

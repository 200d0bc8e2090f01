"""`tm.equivalent` of gathers, compact values and values in runs: equal by what their inputs are declared to be, or not.

Facts are about inputs that both functions have; what is read in any other way than they say is not proven equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tiramisu_py as tm

N, E, R = tm.params("N E R")
n, p, q, r, k, d, j, u = tm.iters("n p q r k d j u")
F = 3


def edges(name: str) -> tuple[tm.Function, Any]:
    """A function of edges, and its inputs."""
    f = tm.Function(name, params=[N, E, R], assume="N >= 1 and E >= 1 and R >= 1")
    for index, high in (("src", N), ("dst", N), ("etype", R)):
        f.input(index, tm.int32, [E], values=(0, high))
    f.input("x", tm.float64, [N, F])
    f.input("W", tm.float64, [R, F, F])
    f.input("norm", tm.float64, [E])
    return f, tuple(f[name] for name in ("src", "dst", "etype", "x", "W", "norm"))


def scattered(term: Callable[..., Any] | None = None, mask: bool = False, first: int = 0) -> tm.Function:
    """What edges add to their destinations."""
    f, (src, dst, etype, x, _, norm) = edges("scattered")
    expr = x[src[p], d] * norm[p] if term is None else term(f, p)
    only = {"where": etype[p] == 1} if mask else {}
    f.outputs(f.scatter("out", {n: N, d: F}, over={p: (first, E)}, at=[dst[p], d], op=tm.sum, expr=expr, **only))
    return f


def gathered(term: Callable[..., Any] | None = None, mask: bool = False) -> tm.Function:
    f = scattered(term, mask)
    f["out"].gather(f.inverse("into", f["dst"]))
    return f


def by_hand(
    index: str = "dst", order: bool = True, first: int = 0, beside: bool = False, least: int = 0
) -> tm.Function:
    """The sum over the runs of an inverse as a user writes it; by default right."""
    f, (src, _, _, x, _, norm) = edges("by_hand")
    into = f.inverse("into", f[index])
    at = into.order[q] if order else q
    expr = x[src[at], d] * norm[q if beside else at]
    start = f["into_start"].start
    f.outputs(
        f.reduction(
            "out",
            {n: N, d: F},
            {q: (start(n) + first if first else start(n), start(n + 1))},
            tm.sum,
            expr,
            where=q >= least,
        )
    )
    return f


def product(sources: str = "src", kinds: str = "etype") -> tm.Function:
    """A product by the type of each edge, summed by destination."""
    f, (_, dst, _, x, w, norm) = edges("product")
    msg = f.reduction("msg", {p: E, d: F}, {k: F}, tm.sum, x[f[sources][p], k] * w[f[kinds][p], k, d])
    expr = norm[p] * msg[p, d]
    f.outputs(f.scatter("out", {n: N, d: F}, over={p: E}, at=[dst[p], d], op=tm.sum, expr=expr))
    return f


def compact() -> tm.Function:
    f = product()
    f["out"].gather(f.inverse("into", f["dst"]))
    f["msg"].compact(f["src"][p], f["etype"][p], name="pairs")
    return f


def sums_first() -> tm.Function:
    f = product()
    f["out"].sum_first(f["msg"], f["dst"][p], f["etype"][p], name="pairs")
    f["msg_rows"].gather(f.inverse("into_pairs", f["pairs_of"]))
    f["out"].gather(f.inverse("into_dst", f["pairs_dst"]))
    return f


def a_key_left_out() -> tuple[tm.Function, tm.Function]:
    """Products kept by their sources alone, each with some type, beside products with the type of each edge."""
    made, (count,) = [], tm.params("srcs_count")
    for wrong in (False, True):
        f = product()
        x, dst, norm = f["x"], f["dst"], f["norm"]
        row = f.computation("row", {p: E}, x[f["src"][p], 0])
        rows = f.computation("rows", {p: E}, 2 * row[p])
        f.outputs(f["out"], rows, replace=True)
        row.compact(f["src"][p], name="srcs")
        some, key = f.input("some", tm.int32, [count], values=(0, R)), f["srcs_src"]
        if wrong:
            few = f.reduction("few", {u: count, d: F}, {k: F}, tm.sum, x[key[u], k] * f["W"][some[u], k, d])
            expr = norm[p] * few[f["srcs_of"][p], d]
            other = f.scatter("other", {n: N, d: F}, over={p: E}, at=[dst[p], d], op=tm.sum, expr=expr)
            f.outputs(other, rows, replace=True)
        made.append(f)
    return made[0], made[1]


def attention(turned: bool = False) -> tm.Function:
    """The attention of each edge, summed by destination; `turned`: with the weights transposed."""
    f, (src, dst, etype, x, w, norm) = edges("attention")
    weights = f.input("w", tm.float64, [R, F])
    hs = f.reduction(
        "hs", {p: E, j: F}, {k: F}, tm.sum, x[src[p], k] * (w[etype[p], j, k] if turned else w[etype[p], k, j])
    )
    atts = f.reduction("atts", {p: E}, {j: F}, tm.sum, hs[p, j] * weights[etype[p], j])
    f.outputs(f.scatter("out", {n: N}, over={p: E}, at=[dst[p]], op=tm.sum, expr=norm[p] * atts[p]))
    return f


def reassociated() -> tm.Function:
    f = attention()
    f["atts"].reassociate(f["hs"])
    f["out"].gather(f.inverse("into", f["dst"]))
    return f


def in_runs() -> tm.Function:
    f = product()
    f["msg"].in_runs(f.segments("types", R, of=E, at=f["etype"]), r)
    return f


def softmax(by_position: bool, of_another: bool = False) -> tm.Function:
    """Values of runs over their sums: kept in their runs, or by position."""
    f = tm.Function("softmax", params=[E, R], assume="E >= 1 and R >= 1")
    types, others = f.segments("types", R, of=E), f.segments("others", R, of=E)
    a, s = f.input("a", tm.float64, [E]), f.input("s", tm.float64, [R])
    run = (others if of_another else types).of
    if by_position:
        e = f.computation("e", {p: E}, tm.exp(a[p] * s[run(p)] + (tm.cast(tm.int64, types.of(p)) + 1)))
        total = f.reduction("total", {r: R}, {p: types[r]}, tm.sum, e[p])
        f.outputs(f.computation("out", {p: E}, e[p] / total[types.of(p)]))
    else:
        e = f.computation("e", {r: R, p: types[r]}, tm.exp(a[p] * s[r] + (r + 1)))
        total = f.reduction("total", {r: R}, {p: types[r]}, tm.sum, e[r, p])
        f.outputs(f.computation("out", {p: E}, e[run(p), p] / total[types.of(p)]))
    return f


def scaled(run: str = "") -> tm.Function:
    """An output in runs, times a factor of its run; by the number of the run of each position in `run`."""
    f = tm.Function("scaled", params=[E, R], assume="E >= 1 and R >= 1")
    runs = {name: f.segments(name, R, of=E) for name in ("types", "others")}
    a, s = f.input("a", tm.float64, [E]), f.input("s", tm.float64, [R])
    f.outputs(f.computation("y", {r: R, p: runs["types"][r]}, a[p] * s[runs[run].of(p) if run else r]))
    return f


def compact_in_runs(of: str = "src", command: bool = True) -> tm.Function:
    f, (_, dst, _, x, w, norm) = edges("compact_in_runs")
    types = f.segments("types", R, of=E)
    msg = f.reduction("msg", {r: R, p: types[r], d: F}, {k: F}, tm.sum, x[f[of][p], k] * w[r, k, d])
    expr = norm[p] * msg[types.of(p), p, d]
    f.outputs(f.scatter("out", {n: N, d: F}, over={p: E}, at=[dst[p], d], op=tm.sum, expr=expr))
    if command:
        msg.compact(f[of][p], r, name="pairs")
    return f


def of_positions(f: tm.Function, at: Any) -> Any:
    """A term that computes with the position itself."""
    return f["norm"][tm.minimum(at + 1, E - 1)] * tm.cast(tm.float64, at) + tm.exp(f["x"][f["src"][at], d])


Pair = tuple[tm.Function, tm.Function]

EQUAL: dict[str, Callable[[], Pair]] = {
    "gather": lambda: (scattered(), gathered()),
    "gather under a condition": lambda: (scattered(mask=True), gathered(mask=True)),
    "gather of terms that compute with the position": lambda: (scattered(of_positions), gathered(of_positions)),
    "a sum over runs by hand": lambda: (scattered(), by_hand()),
    "compact": lambda: (product(), compact()),
    "sum_first": lambda: (product(), sums_first()),
    "reassociate": lambda: (attention(), reassociated()),
    "in_runs": lambda: (product(), in_runs()),
    "values in runs, and by position": lambda: (softmax(False), softmax(True)),
    "an output in runs": lambda: (scaled(), scaled("types")),
    "compact in runs": lambda: (compact_in_runs(command=False), compact_in_runs()),
}

WRONG: dict[str, Callable[[], Pair]] = {
    "the inverse of another index": lambda: (scattered(), by_hand("src")),
    "positions of runs, not of edges": lambda: (scattered(), by_hand(order=False)),
    "a factor of another position": lambda: (scattered(), by_hand(beside=True)),
    "the first of each run left out": lambda: (scattered(), by_hand(first=1)),
    "the first of all runs left out, and the first edge": lambda: (scattered(first=1), by_hand(least=1)),
    "a condition left out": lambda: (scattered(mask=True), gathered()),
    "compact by another key": lambda: (product("dst"), compact()),
    "a key left out": a_key_left_out,
    "sums first of another type": lambda: (product(kinds="src"), sums_first()),
    "weights transposed": lambda: (attention(turned=True), reassociated()),
    "in runs of another index": lambda: (product(kinds="src"), in_runs()),
    "a value of another run": lambda: (softmax(False), softmax(True, of_another=True)),
    "a value that is read in another run": lambda: (softmax(True), softmax(False, of_another=True)),
    "an output by other runs": lambda: (scaled(), scaled("others")),
    "compact in runs by another key": lambda: (compact_in_runs("dst", command=False), compact_in_runs()),
}


@pytest.mark.parametrize("name", EQUAL)
def test_what_facts_say_is_proven(name: str) -> None:
    pair = EQUAL[name]()
    for one, other in (pair, pair[::-1]):
        assert tm.equivalent(one, other), tm.equivalent(one, other)


@pytest.mark.parametrize("name", WRONG)
def test_what_they_do_not_say_is_not(name: str) -> None:
    pair = WRONG[name]()
    for one, other in (pair, pair[::-1]):
        assert not tm.equivalent(one, other)

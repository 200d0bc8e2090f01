"""Programs that must be refused, each with its kind and its smallest counterexample, worked out by hand.

A case is (what is wrong, the program, kind, params, writer, reader, words of the message); None leaves a side open
where the violation has none or where several are equally small.
"""

# ruff: noqa: E501  (a case a line or two is what makes the table readable)

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import tiramisu_py as tm
from tests.programs import pipelines as pl
from tests.programs.pipelines import c, e, i, i0, i1, j, k, k0, k1, r, r0, r1, t, t0, t1, x, y

Point = tuple[str, tuple[int, ...]] | None


def _scheduled(make: Callable[[], SimpleNamespace], *steps: Callable[[SimpleNamespace], object]) -> Callable[[], Any]:
    def build() -> Any:
        s = make()
        for step in steps:
            step(s)
        return s.f

    return build


def prefix() -> SimpleNamespace:
    """``s[i] = s[i - 1] + a[i]``."""
    (N,) = tm.params("N")
    f = tm.Function("prefix", params=[N])
    a = f.input("a", tm.int32, [N])
    s = f.computation("s", {i: N}, lambda s: tm.select(i == 0, a[i], s[i - 1] + a[i]))
    f.outputs(s)
    return SimpleNamespace(f=f, a=a, s=s)


def two_readers() -> SimpleNamespace:
    """p is read by q and by z."""
    (N,) = tm.params("N")
    f = tm.Function("two", params=[N])
    a = f.input("a", tm.int32, [N])
    p_ = f.computation("p", {i: N}, 2 * a[i])
    q = f.computation("q", {i: N}, p_[i] + 1)
    z = f.computation("z", {i: N}, p_[i] - 1)
    f.outputs(q, z)
    return SimpleNamespace(f=f, a=a, p=p_, q=q, z=z)


def two_readers_of_one() -> Any:
    """p and z read a; p is kept."""
    (N,) = tm.params("N")
    f = tm.Function("two", params=[N])
    a = f.input("a", tm.int32, [N])
    p_ = f.computation("p", {i: N}, 2 * a[i])
    f.outputs(f.computation("q", {i: N}, p_[i] + 1), f.computation("z", {i: N}, a[i] - 1))
    p_.keep()
    return f


def kept_constants() -> SimpleNamespace:
    """p has four values, which q reads."""
    f = tm.Function("four")
    a = f.input("a", tm.int32, [4])
    p_ = f.computation("p", {i: 4}, 2 * a[i])
    q = f.computation("q", {i: 4}, p_[i] + 1)
    f.outputs(q)
    p_.keep()
    return SimpleNamespace(f=f, p=p_, q=q)


def kept_in_turn() -> Any:
    """Two parts of p, each read by a part of q before the other is stored to the same elements."""
    f = tm.Function("turns")
    a = f.input("a", tm.int32, [8])
    p_ = f.computation("p", {i: 8}, 2 * a[i])
    q = f.computation("q", {i: 8}, p_[i] + 1)
    f.outputs(q)
    p_.keep()
    p_.store_in(tm.Buffer("few", [4], tm.int32), [i % 4])
    (p0, p1), (q0, q1) = p_.separate_at(i, [4]), q.separate_at(i, [4])
    q0.after(p0, tm.root)
    p1.after(q0, tm.root)
    q1.after(p1, tm.root)
    return f


def in_place(offset: int) -> SimpleNamespace:
    """``b[i] = a[i + offset] + 1`` for 1 <= i < N - 1, stored over a; b is the output."""
    (N,) = tm.params("N")
    f = tm.Function("in_place", params=[N], assume="N >= 3")
    a = f.input("a", tm.int32, [N])
    b = f.computation("b", {i: (1, N - 1)}, a[i + offset] + 1)
    f.outputs(b)
    b.store_in(a, [i])
    return SimpleNamespace(f=f, a=a, b=b)


def rowsum() -> SimpleNamespace:
    """``s[i] = sum over k of a[i, k]``, then ``q[i] = s[i + 1]``."""
    N, K = tm.params("N K")
    f = tm.Function("rowsum", params=[N, K])
    a = f.input("a", tm.int32, [N + 1, K])
    s = f.reduction("s", {i: N + 1}, over={k: K}, op=tm.sum, expr=a[i, k])
    q = f.computation("q", {i: N}, s[i + 1] + 0)
    f.outputs(q)
    return SimpleNamespace(f=f, a=a, s=s, q=q)


def ordered() -> SimpleNamespace:
    """A float sum whose order is locked."""
    (K,) = tm.params("K")
    f = tm.Function("ordered", params=[K])
    a = f.input("a", tm.float32, [K])
    s = f.reduction("s", {i: 1}, over={k: K}, op=tm.sum, expr=a[k], ordered=True)
    f.outputs(s)
    return SimpleNamespace(f=f, a=a, s=s)


def reading(index: Any, extent: Any, assume: str | None = None, **facts: Any) -> Callable[[], Any]:
    """``b[i] = a[index]`` over i < N, where a has `extent` elements."""

    def build() -> Any:
        (N,) = tm.params("N")
        f = tm.Function("reading", params=[N], assume=assume)
        col = f.input("col", tm.int32, [N], **facts)
        a = f.input("a", tm.int32, [extent(N)])
        b = f.computation("b", {i: N}, a[index(N, col)])
        f.outputs(b)
        return f

    return build


def recurrence(expression: Callable[[Any, Any], Any]) -> Callable[[], Any]:
    """``h[i] = expression`` over i < N."""

    def build() -> Any:
        (N,) = tm.params("N")
        f = tm.Function("recurrence", params=[N])
        h = f.computation("h", {i: N}, lambda h: expression(h, N), dtype=tm.int32)
        f.outputs(h)
        return f

    return build


def outside_values() -> Any:
    (N,) = tm.params("N")
    f = tm.Function("outside", params=[N])
    a = f.input("a", tm.int32, [N])
    p_ = f.computation("p", {i: N}, a[i])
    f.outputs(f.computation("q", {i: N}, p_[i + 1]))
    return f


def unprotected() -> Any:
    (N,) = tm.params("N")
    f = tm.Function("unprotected", params=[N])
    a = f.input("a", tm.int32, [N])
    f.outputs(f.computation("q", {i: N}, tm.select(a[i] > 0, a[i + 1], 0)))
    return f


def two_outputs_in_one() -> Any:
    s = two_readers()
    shared = tm.Buffer("shared", [tm.params("N")[0]], tm.int32)
    s.q.store_in(shared, [i])
    s.z.store_in(shared, [i])
    return s.f


def time_levels_in_one_row() -> Any:
    s = pl.heat()
    s.h.store_in([i])
    return s.f


Case = tuple[str, Callable[[], Any], str, dict[str, int] | None, Point, Point, tuple[str, ...]]

CASES: list[Case] = [
    ("a fusion that reads ahead", _scheduled(pl.pair, lambda s: s.q.after(s.p, i)),
     "order", {"N": 1}, ("p", (1,)), ("q", (0,)), ("q.after(p, i)", "q.shift(i, 1)")),
    ("the same with fuse", _scheduled(pl.pair, lambda s: s.q.fuse(s.p, i)),
     "order", {"N": 1}, ("p", (1,)), ("q", (0,)), ("q.fuse(p, i)", "shift")),
    ("a fusion of rows that reads two ahead", _scheduled(pl.blur, lambda s: s.f.order(s.bx, s.by, at=r)),
     "order", {"R": 1, "C": 1}, None, ("by", (0, 0)), ("shift(r, 2)",)),
    ("a shift that is one too short",
     _scheduled(pl.blur, lambda s: s.f.order(s.bx, s.by, at=r), lambda s: s.by.shift(r, 1)),
     "order", {"R": 1, "C": 1}, ("bx", (2, 0)), ("by", (0, 0)), ("by.shift(r, 1)",)),
    ("whole nests in the wrong order", _scheduled(pl.pair, lambda s: s.q.before(s.p)),
     "order", {"N": 1}, None, ("q", (0,)), ("q.before(p)",)),
    ("a producer reversed under its consumer",
     _scheduled(pl.pair, lambda s: s.q.after(s.p, i).shift(i, 1), lambda s: s.p.reverse(i)),
     "order", {"N": 1}, None, ("q", (0,)), ()),
    ("time steps in parallel", _scheduled(pl.heat, lambda s: s.h.parallelize(t)),
     "race", {"T": 1, "N": 3}, None, None, ("t", "h.parallelize(t)")),
    ("time steps in lanes", _scheduled(pl.heat, lambda s: s.h.vectorize(t, 4)),
     "race", {"T": 1, "N": 3}, None, None, ("t",)),
    ("space before time", _scheduled(pl.heat, lambda s: s.h.interchange(t, i)),
     "order", {"T": 1, "N": 3}, ("h", (0, 2)), ("h", (1, 1)), ("h.interchange(t, i)",)),
    ("time backwards", _scheduled(pl.heat, lambda s: s.h.reverse(t)),
     "order", {"T": 1, "N": 3}, None, ("h", (1, 1)), ("h.reverse(t)",)),
    ("a tile over time without skewing", _scheduled(pl.heat, lambda s: s.h.tile(t, i, 2, 2, t0, i0, t1, i1)),
     "order", {"T": 1, "N": 3}, ("h", (0, 2)), ("h", (1, 1)), ("tile",)),
    ("a wavefront that is too steep",
     _scheduled(pl.heat, lambda s: s.h.skew(t, i, 1, e).interchange(t, e).parallelize(t)),
     "race", {"T": 1, "N": 3}, None, None, ("t", "parallelize")),
    ("a raw schedule against the dependences",
     _scheduled(pl.heat, lambda s: s.h.set_schedule("{ [t, i] -> [i, t] }")),
     "order", {"T": 1, "N": 3}, ("h", (0, 2)), ("h", (1, 1)), ("set_schedule",)),
    ("time levels folded to one row, all of them outputs", time_levels_in_one_row,
     "overwritten", {"T": 1, "N": 3}, None, None, ("store_in",)),
    ("two values in flight in one place",
     _scheduled(pl.pair, lambda s: s.q.after(s.p, i).shift(i, 1),
                lambda s: s.p.store_in(tm.Buffer("one", [1], tm.int32), [i % 1])),
     "overwritten", {"N": 1}, ("p", (1,)), ("q", (0,)), ("store_in", "one")),
    ("three rows in two",
     _scheduled(pl.blur, lambda s: s.f.order(s.bx, s.by, at=r), lambda s: s.by.shift(r, 2),
                lambda s: s.bx.store_in([r % 2, c])),
     "overwritten", {"R": 1, "C": 1}, ("bx", (2, 0)), ("by", (0, 0)), ("store_in",)),
    ("a fold without a fusion", _scheduled(pl.blur, lambda s: s.bx.store_in([r % 3, c])),
     "overwritten", {"R": 2, "C": 1}, ("bx", (3, 0)), ("by", (0, 0)), ("store_in",)),
    ("a folded buffer shared by threads",
     _scheduled(pl.pair, lambda s: s.q.after(s.p, i).shift(i, 1),
                lambda s: s.p.store_in(tm.Buffer("two", [2], tm.int32), [i % 2]), lambda s: s.p.parallelize(i)),
     "race", {"N": 1}, None, None, ("i",)),
    ("a reduction in parallel", _scheduled(pl.matmul, lambda s: s.C.update.reorder(k, i, j), lambda s: s.C.update.parallelize(k)),
     "race", {"N": 1, "M": 1, "K": 2}, None, None, ("k", "combine")),
    ("a reduction in lanes", _scheduled(pl.matmul, lambda s: s.C.update.vectorize(k, 8)),
     "race", {"N": 1, "M": 1, "K": 2}, None, None, ("k", "combine")),
    ("a block of a reduction in parallel",
     _scheduled(pl.matmul, lambda s: s.C.update.split(k, 8, k0, k1).reorder(k0, i, k1, j).parallelize(k0)),
     "race", {"N": 1, "M": 1, "K": 9}, None, None, ("k0", "combine")),
    ("terms before the identity", _scheduled(pl.matmul, lambda s: s.C.init.after(s.C.update)),
     "reduction", {"N": 1, "M": 1, "K": 1}, None, None, ("C.init.after",)),
    ("a sum read before it is complete", _scheduled(rowsum, lambda s: s.q.after(s.s.update, i)),
     "reduction", {"N": 1, "K": 1}, None, ("q", (0,)), ("after",)),
    ("an ordered sum backwards", _scheduled(ordered, lambda s: s.s.update.reverse(k)),
     "reduction", {"K": 2}, None, None, ("reverse", "ordered")),
    ("two computations in one buffer",
     _scheduled(two_readers, lambda s: s.q.store_in(s.p, [i])),
     "overwritten", {"N": 1}, None, None, ("store_in",)),
    ("two outputs in one buffer", two_outputs_in_one, "overwritten", {"N": 1}, None, None, ("store_in",)),
    ("a temporary over the caller's input", _scheduled(pl.pair, lambda s: s.p.store_in(s.a, [i])),
     "overwritten", None, None, None, ("a", "store_in")),
    ("in place, reading what was written", lambda: in_place(-1).f, "overwritten", {"N": 4}, None, ("b", (2,)), ("store_in",)),
    ("in place, in parallel", _scheduled(lambda: in_place(1), lambda s: s.b.parallelize(i)),
     "race", {"N": 4}, None, None, ("i",)),
    ("in place, backwards", _scheduled(lambda: in_place(1), lambda s: s.b.reverse(i)),
     "overwritten", {"N": 4}, None, ("b", (1,)), ("reverse",)),
    ("a buffer that is too small", _scheduled(pl.pair, lambda s: s.p.store_in(tm.Buffer("small", [3], tm.int32), [i])),
     "bounds", {"N": 3}, None, None, ("small",)),
    ("a negative element", _scheduled(pl.pair, lambda s: s.p.store_in(tm.Buffer("low", [100], tm.int32), [i - 1])),
     "bounds", {"N": 0}, None, None, ("low",)),
    ("past the end of an array", reading(lambda N, col: i, lambda N: 10), "bounds", {"N": 11}, None, ("b", (10,)), ("N <= 10",)),
    ("before the start of an array", reading(lambda N, col: i - 1, lambda N: N), "bounds", {"N": 1}, None, ("b", (0,)), ("a",)),
    ("half an element too far", reading(lambda N, col: 2 * i, lambda N: N), "bounds", {"N": 2}, None, ("b", (1,)), ()),
    ("an index of which nothing is known", reading(lambda N, col: col[i], lambda N: N),
     "bounds", {"N": 1}, None, ("b", (0,)), ("col", "values=")),
    ("an index whose range is one too large",
     reading(lambda N, col: col[i], lambda N: N, values=(0, tm.params("N")[0] + 1)), "bounds", {"N": 1}, None, ("b", (0,)), ("a",)),
    ("a value outside of its set", outside_values, "bounds", {"N": 1}, None, ("q", (0,)), ("p",)),
    ("a select that protects nothing", unprotected, "bounds", {"N": 1}, None, ("q", (0,)), ("a",)),
    ("a value defined by itself", recurrence(lambda h, N: h[i] + 1), "algorithm", {"N": 1}, None, ("h", (0,)), ("h",)),
    ("a circle of values", recurrence(lambda h, N: tm.select(i == 0, h[N - 1], h[i - 1])),
     "algorithm", {"N": 1}, None, None, ("h",)),
    ("a running sum in parallel", _scheduled(prefix, lambda s: s.s.parallelize(i)), "race", {"N": 2}, None, None, ("i",)),
    ("a running sum in lanes", _scheduled(prefix, lambda s: s.s.vectorize(i, 4)), "race", {"N": 2}, None, None, ("i",)),
    ("a running sum backwards", _scheduled(prefix, lambda s: s.s.reverse(i)),
     "order", {"N": 2}, ("s", (0,)), ("s", (1,)), ("reverse",)),
    ("blocks of a running sum in parallel", _scheduled(prefix, lambda s: s.s.split(i, 4, i0, i1).parallelize(i0)),
     "race", {"N": 5}, None, None, ("i0",)),
    ("parts of a running sum in the wrong order",
     _scheduled(prefix, lambda s: s.s.separate_at(i, [2])[0].after(s.s.get_update(1))),
     "order", {"N": 3}, ("s", (1,)), ("s", (2,)), ("after",)),
    ("recomputation by threads into one buffer",
     _scheduled(pl.blur, lambda s: s.by.split(r, 4, r0, r1).parallelize(r0), lambda s: s.bx.store_in([r, c]),
                lambda s: s.bx.compute_at(s.by, r0)),
     "race", {"R": 5, "C": 1}, None, None, ("r0",)),
    ("a tile's buffer read from outside", _scheduled(two_readers, lambda s: s.p.compute_at(s.q, i)),
     "reach", {"N": 1}, None, ("z", (0,)), ("compute_at",)),
    ("a layout with two values in one place",
     _scheduled(pl.matmul, lambda s: s.C.update.copy(s.B, [y, x], layout=[y, x % 4])),
     "overwritten", {"N": 1, "M": 5, "K": 1}, None, None, ("pack",)),
    ("a kept operand in a loop of its reader", _scheduled(two_readers, lambda s: s.p.keep(), lambda s: s.q.after(s.p, i)),
     "reach", {}, None, ("a", ()), ("q shares a loop with the packing of p", "after")),
    ("a kept operand, and another reader of its input", two_readers_of_one, "reach", {}, None, ("a", ()),
     ("z reads a, but callers pass p", "keep")),
    ("a kept operand in registers", _scheduled(kept_constants, lambda s: s.p.store_in(tm.REGISTER)),
     "reach", {}, None, ("a", ()), ("register memory", "store_in")),
    ("a kept operand that is no longer there", _scheduled(pl.pair, lambda s: s.p.keep(), lambda s: s.p.inline()),
     "reach", {}, None, ("a", ()), ("p is to be kept between calls, but is no longer stored", "inline")),
    ("a kept operand under an output", _scheduled(kept_constants, lambda s: s.q.store_in(s.p, [i])),
     "reach", {}, None, ("a", ()), ("in the caller's array p", "store_in")),
    ("a kept operand whose input is overwritten", _scheduled(pl.pair, lambda s: s.p.keep(), lambda s: s.q.store_in(s.a, [i])),
     "reach", {}, None, ("a", ()), ("q is stored over a", "store_in")),
    ("a kept operand of two values in one element", kept_in_turn,
     "reach", {}, None, ("a", ()), ("elements of few hold several values",)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("build", "kind", "params", "writer", "reader", "words"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_a_wrong_program_is_refused_with_its_smallest_counterexample(build, kind, params, writer, reader, words):
    report = build().check()
    assert not report.ok
    violation = report.violations[0]
    assert violation.kind == kind, report
    if params is not None:
        assert dict(violation.witness.params) == params, report
    if writer is not None:
        assert violation.witness.writer == writer, report
    if reader is not None:
        assert violation.witness.reader == reader, report
    for word in words:
        assert word in str(violation), report


def test_there_are_at_least_forty_of_them():
    assert len(CASES) >= 40


@pytest.mark.parametrize("build", [case[1] for case in CASES[:3]])
def test_compile_refuses_what_check_refuses(build):
    with pytest.raises(tm.LegalityError) as refused:
        build().compile()
    assert refused.value.witness.params

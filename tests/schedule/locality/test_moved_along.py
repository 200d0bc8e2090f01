"""compute_at of a computation in whose loops others are computed: they move along, as if they had come later."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.errors import CommandError

R, C = tm.params("R C")
r, c, r0, c0, r1, c1, k, rows, columns = tm.iters("r c r0 c0 r1 c1 k rows columns")
Change = Callable[[tm.Computation, tm.Computation], object]


def three() -> tuple[tm.Function, tm.Computation, tm.Computation, tm.Computation]:
    """Three stages, the last in tiles."""
    f = tm.Function("three", params=[R, C])
    a = f.input("a", tm.float32, [R + 4, C + 4])
    p = f.computation("p", {r: R + 4, c: C + 2}, a[r, c] + a[r, c + 1] + a[r, c + 2])
    q = f.computation("q", {r: R + 2, c: C + 2}, p[r, c] + p[r + 1, c] + p[r + 2, c])
    s = f.computation("s", {r: R, c: C}, q[r, c] + q[r + 1, c + 1] + q[r + 2, c + 2])
    f.outputs(s)
    s.tile(r, c, 8, 16, r0, c0, r1, c1)
    return f, p, q, s


CHANGES: dict[str, tuple[Change, Change]] = {
    "rows": (lambda p, q: p.compute_at(q, r), lambda p, q: None),
    "values": (lambda p, q: p.compute_at(q, c), lambda p, q: p.store_in(tm.REGISTER)),
    "folded": (lambda p, q: p.compute_at(q, r), lambda p, q: p.fold(r, 4)),
    "kept further out": (lambda p, q: p.compute_at(q, c), lambda p, q: p.store_at(q, r)),
    "kept for the whole call": (lambda p, q: p.compute_at(q, r), lambda p, q: p.store_at(q, tm.root)),
    "turned": (lambda p, q: p.compute_at(q, r), lambda p, q: p.store_in([c, r])),
    "in parts": (lambda p, q: p.compute_at(q, r), lambda p, q: p.separate_at(c, [5])),
    "in loops of its own": (lambda p, q: p.compute_at(q, r), lambda p, q: p.tile(r, c, 2, 4, rows, columns, r1, c1)),
    "sliding by rows": (lambda p, q: p.compute_at(q, r), lambda p, q: p.slide(r)),
    "sliding by columns": (lambda p, q: p.compute_at(q, c), lambda p, q: p.slide(c)),
    "sliding by two rows": (lambda p, q: [q.split(r, 2, rows, r1), p.compute_at(q, rows)], lambda p, q: p.slide(rows)),
    "copied for the host": (lambda p, q: p.compute_at(q, r), lambda p, q: q.copy(p, [rows, columns], at=r)),
    "copied for the guest": (
        lambda p, q: p.compute_at(q, r),
        lambda p, q: p.copy(p._function["a"], [rows, columns], at=r),
    ),
    "copied twice in tiles": (
        lambda p, q: [q.tile(r, c, 8, 8, rows, columns, r1, c1), p.compute_at(q, columns)],
        lambda p, q: [q.copy(p, [r, c], at=r1), p.copy(p._function["a"], [r, c], at=columns)],
    ),
    "copied and turned": (
        lambda p, q: p.compute_at(q, r),
        lambda p, q: q.copy(p, [rows, columns], at=c, layout=[columns, rows]),
    ),
    "a copy that slides": (lambda p, q: p.compute_at(q, r), lambda p, q: q.copy(p, [rows, columns], at=c).slide(c)),
    "on threads": (lambda p, q: p.compute_at(q, r), lambda p, q: q.parallelize(r)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_in_the_loops_of_a_computation_is_as_if_it_had_moved_there_later(change: str) -> None:
    texts = []
    for is_first in (True, False):
        f, p, q, s = three()
        if is_first:
            q.compute_at(s, c0)
        for command in CHANGES[change]:
            command(p, q)
        if not is_first:
            q.compute_at(s, c0)
        report = f.check()
        assert report.ok, report
        texts.append(f.show("pseudocode"))
    assert texts[0] == texts[1]


def test_an_own_loop_may_have_the_name_of_one_that_comes_around_it() -> None:
    f, p, q, s = three()
    p.compute_at(q, r)
    p.tile(r, c, 2, 4, r0, c0, r1, c1)
    q.compute_at(s, c0)
    kernel = f.compile()
    for shape in ((1, 1), (7, 17), (9, 33)):
        a = np.random.default_rng(0).random((shape[0] + 4, shape[1] + 4), dtype=np.float32)
        np.testing.assert_array_equal(kernel(a), f.evaluate(a=a))


@pytest.mark.parametrize("layout", [None, [columns // 4, rows, columns % 4]])
def test_a_copy_in_the_loops_of_a_computation_moves_along(layout: list[tm.Expr] | None) -> None:
    f, p, q, s = three()
    p.compute_at(q, r)
    q.copy(p, [rows, columns], at=r, name="near", layout=layout)
    q.compute_at(s, c0)
    moved, host = f.program.statements["near"], f.program.statements["q"]
    assert moved.loops[:3] == host.loops[:3]
    assert f.program.buffers["near"].scope == host.loops[:3]
    report = f.check()
    assert report.ok, report
    kernel = f.compile()
    for shape in ((1, 1), (9, 33)):
        a = np.random.default_rng(0).random((shape[0] + 4, shape[1] + 4), dtype=np.float32)
        np.testing.assert_array_equal(kernel(a), f.evaluate(a=a))


def test_what_shares_loops_otherwise_stays_and_the_refusal_says_what_to_give_first() -> None:
    f, p, q, s = three()
    q.after(p, r)
    with pytest.raises(
        CommandError, match=r"q shares loop r with p: .*; give it before the command that lets them share loops"
    ):
        q.compute_at(s, c0)
    f.undo()
    q.compute_at(s, c0)
    assert f.check().ok

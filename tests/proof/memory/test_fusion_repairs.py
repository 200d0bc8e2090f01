"""Repairs of fusions, as they are written: each is applied, and then proven."""

from __future__ import annotations

import re

import numpy as np

import tiramisu_py as tm

N = tm.params("N")[0]
i = tm.iters("i")[0]


def test_what_overwrites_too_early_is_shifted() -> None:
    f = tm.Function("inplace", params=[N], assume="N >= 2")
    a = f.input("a", tm.int32, [N])
    p = f.computation("p", {i: N}, tm.select(i < 2, a[i], a[i - 2] * 10))
    q = f.computation("q", {i: N}, p[i] + 1)
    f.outputs(q)
    q.store_in(a)
    q.after(p, i)
    (refused,) = f.check().violations
    assert (refused.kind, refused.repair) == ("overwritten", "q.shift(i, 2)")
    eval(refused.repair, {"q": q, "i": i})
    given = np.arange(7, dtype=np.int32)
    f.compile()(given)
    np.testing.assert_array_equal(given, [1, 2, 1, 11, 21, 31, 41])


def test_an_overwriting_that_no_shift_delays_is_kept_apart() -> None:
    f = tm.Function("turned", params=[N], assume="N >= 2")
    a = f.input("a", tm.int32, [N])
    p = f.computation("p", {i: N}, a[N - 1 - i])
    q = f.computation("q", {i: N}, p[i] + 1)
    f.outputs(q)
    q.store_in(a)
    q.after(p, i)
    (refused,) = f.check().violations
    assert refused.kind == "overwritten"
    assert "shift" not in refused.repair and refused.repair.startswith("keep")


def test_what_belongs_between_two_others_is_fused_with_both() -> None:
    f = tm.Function("between", params=[N], assume="N >= 1")
    a = f.input("a", tm.int32, [N + 2])
    p = f.computation("p", {i: N + 2}, a[i] + 1)
    q = f.computation("q", {i: N + 1}, p[i] * 2 + p[i + 1])
    s = f.computation("s", {i: N}, p[i] + q[i + 1])
    f.outputs(s)
    s.after(p, i)
    (refused,) = f.check().violations
    found = re.fullmatch(r"(q\.fuse\(.*\)) and (s\.fuse\(.*\)), in place of what lets s and p share i", refused.repair)
    assert found is not None, refused.repair
    f.undo()
    for command in found.groups():
        eval(command, {"p": p, "q": q, "s": s, "i": i})
    given = np.arange(9, dtype=np.int32)
    one = given + 1
    np.testing.assert_array_equal(f.compile()(given), one[:-2] + 2 * one[1:-1] + one[2:])

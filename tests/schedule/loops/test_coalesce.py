"""coalesce: nested loops over a box as one, in the same order; contiguous elements without divisions; refusals."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.selection import first

H, N, M = tm.params("H N M")
h, w, x, y, i, j, k, j0, j1 = tm.iters("h w x y i j k j0 j1")


def whole(dtype: Any = tm.float32) -> tuple[tm.Function, tm.Reduction]:
    """The sum of an array of H x 10 x 5."""
    f = tm.Function("total", params=[H])
    a = f.input("a", dtype, [H, 10, 5])
    s = f.reduction("s", {}, {h: H, x: 10, y: 5}, tm.sum, a[h, x, y])
    f.outputs(s)
    return f, s


def body(f: tm.Function, name: str) -> str:
    """The loops of the C function."""
    text = f.source()[f"{name}.c"]
    return text[text.index(f"int {name}(") :]


@pytest.mark.parametrize("extent", first([0, 1, 31, 33, 1025], 3))
def test_a_whole_array_is_summed_in_one_loop_of_contiguous_vectors(extent: int) -> None:
    f, s = whole(tm.int32)
    s.update.coalesce(h, x, y, into=j).vectorize(j, 16, combine=tm.PRIVATE)
    assert f.check().ok
    text = body(f, "total")
    assert "load_int32x16(&a[j])" in text and "s[0] += a[j]" in text
    assert not re.search(r"floor_div|mod_int|GATHER|j ?[/%]", text)
    a = np.random.default_rng(0).integers(-(2**31), 2**31 - 1, (extent, 10, 5), np.int32)
    assert f.compile()(a) == f.evaluate(a) == a.sum(dtype=np.int32)


def test_a_group_of_loops_inside_others_leaves_the_others_as_they_are() -> None:
    f = tm.Function("part", params=[H])
    a = f.input("a", tm.int64, [H, 3, 10, 5])
    s = f.reduction("s", {h: H, w: 3}, {x: 10, y: 5}, tm.max, a[h, w, x, y])
    f.outputs(s)
    s.init.coalesce(h, w, into=i)
    s.update.coalesce(h, w, into=i).coalesce(x, y, into=j)
    s.update.parallelize(i)
    assert f.check().ok
    assert not re.search(r"[ij] ?[/%]|floor_div", body(f, "part"))
    values = np.random.default_rng(1).integers(-9, 9, (7, 3, 10, 5))
    np.testing.assert_array_equal(f.compile()(values), values.max((2, 3)))


def test_interleaved_dimensions_cost_one_division_at_most() -> None:
    f = tm.Function("between", params=[H])
    a = f.input("a", tm.int32, [H, 4, 10, 5])
    s = f.reduction("s", {w: 4}, {h: H, x: 10, y: 5}, tm.sum, a[h, w, x, y])
    f.outputs(s)
    s.update.coalesce(h, x, y, into=j)
    assert f.check().ok
    assert "a[(j/50*4 + w)*50 + j - j/50*50]" in body(f, "between")
    values = np.random.default_rng(2).integers(-9, 9, (7, 4, 10, 5), np.int32)
    np.testing.assert_array_equal(f.compile()(values), values.sum((0, 2, 3), dtype=np.int32))


@pytest.mark.parametrize("extent", [0, 1, 8, 9, 33])
def test_a_loop_that_was_split_becomes_one_again_with_its_last_block(extent: int) -> None:
    f = tm.Function("again", params=[N])
    a = f.input("a", tm.float32, [N + 3])
    o = f.computation("o", "[N] -> { o[i] : 3 <= i < N + 3 }", a[i] * 2)
    f.outputs(o)
    o.split(i, 8, j0, j1).coalesce(j0, j1, into=k)
    assert f.check().ok
    assert not re.search(r"k ?[/%]", body(f, "again"))
    values = np.random.default_rng(3).random(extent + 3, dtype=np.float32)
    np.testing.assert_array_equal(f.compile()(values)[3:], 2 * values[3:])


def test_copies_of_a_buffer_follow_the_joined_loop() -> None:
    f = tm.Function("inside", params=[H])
    a = f.input("a", tm.int32, [H, 4, 6])
    p = f.computation("p", {h: H, x: 4, y: 6}, a[h, x, y] + 1)
    o = f.computation("o", {h: H, x: 4, y: 5}, p[h, x, y] * p[h, x, y + 1])
    f.outputs(o)
    p.compute_at(o, x)
    o.coalesce(h, x, into=j)
    assert f.check().ok
    values = np.random.default_rng(4).integers(-9, 9, (5, 4, 6), np.int32)
    np.testing.assert_array_equal(f.compile()(values), (values[..., :-1] + 1) * (values[..., 1:] + 1))


def test_producers_are_joined_alike_and_run_in_the_same_loop() -> None:
    f = tm.Function("chain", params=[H])
    a = f.input("a", tm.int32, [H, 3, 10, 5])
    b = f.input("b", tm.int32, [3])
    p = f.computation("p", {h: H, w: 3, x: 10, y: 5}, a[h, w, x, y] * 2)
    q = f.computation("q", {h: H, w: 3, x: 10, y: 5}, p[h, w, x, y] + b[w])
    s = f.reduction("s", {h: H, w: 3}, {x: 10, y: 5}, tm.sum, q[h, w, x, y])
    f.outputs(s, q)
    s.update.coalesce(x, y, into=j, producers=True).vectorize(j, 8, combine=tm.PRIVATE)
    program = f.program
    assert {program.statements[name].loops for name in ("p", "q", "s_update")} == {program.statements["p"].loops}
    assert f.check().ok
    values, offset = np.random.default_rng(5).integers(-9, 9, (4, 3, 10, 5), np.int32), np.arange(3, dtype=np.int32)
    expected = values * 2 + offset[:, None, None]
    totals, terms = f.compile()(values, offset)
    np.testing.assert_array_equal(terms, expected)
    np.testing.assert_array_equal(totals, expected.sum((2, 3), dtype=np.int32))


def test_what_reads_nothing_alike_has_no_producers() -> None:
    _, s = whole()
    with pytest.raises(tm.CommandError, match=r"reads no computation point by point .* leave out producers=True"):
        s.update.coalesce(h, x, y, into=j, producers=True)


def test_it_is_kept_in_files_and_can_be_undone(tmp_path: Path) -> None:
    f, s = whole()
    before = f.show("pseudocode")
    s.update.coalesce(h, x, y, into=j)
    f.save(tmp_path / "total.json")
    assert tm.load(tmp_path / "total.json").show("pseudocode") == f.show("pseudocode") != before
    assert [str(command) for command in f.commands] == ["s.update.coalesce(h, x, y, into=j)"]
    f.undo()
    assert f.show("pseudocode") == before


Domain = str | dict[Any, Any]
REFUSED: list[tuple[Domain, Callable[[tm.Computation], object], str]] = [
    ("{ o[x, y] : 0 <= y <= x < 10 }", lambda o: o.coalesce(x, y, into=j), "no box: nothing runs at x = 0, y = 1, but"),
    ("[N] -> { o[x, y] : 0 <= y <= x < N }", lambda o: o.coalesce(x, y, into=j),
     "no box: nothing runs at x = 0, y = 1, for N = 2"),
    ("[N] -> { o[x, y] : 0 <= x < N and 0 <= y < 10 and y != 4 }", lambda o: o.coalesce(x, y, into=j),
     "no box: nothing runs at x = 0, y = 4, for N = 1, but"),
    ("[N] -> { o[x, y] : 0 <= x < N and 0 <= y < 10 and x mod 2 = 0 }", lambda o: o.coalesce(x, y, into=j),
     "no box: nothing runs at x = 1, y = 0, for N = 3, but"),
    ({x: 10, y: N}, lambda o: o.coalesce(x, y, into=j), r"no affine form.*give reorder\(y, x\) before"),
    ({x: 2**31 - 1, y: 2**31 - 1, k: 4}, lambda o: o.coalesce(x, y, k, into=j), "more than 64 bits hold: join fewer"),
    ({x: 4, y: 5}, lambda o: o.coalesce(y, x, into=j), "name them from the outermost: x, y"),
    ({x: 4, k: 3, y: 5}, lambda o: o.coalesce(x, y, into=j), "move the loops between them elsewhere"),
    ({x: 4, y: 5}, lambda o: o.coalesce(x, into=j), "joins two loops or more"),
    ({x: 4, y: 5}, lambda o: o.coalesce(x, w, into=j), "no statement has all the loops x, w"),
    ({x: 4, y: 5}, lambda o: o.parallelize(x).coalesce(x, y, into=j), "coalesce it before tagging it"),
    ({x: 4, y: 5, k: 2}, lambda o: o.coalesce(x, y, into=k), "has a loop k already"),
]  # fmt: skip


@pytest.mark.parametrize(("domain", "command", "message"), REFUSED)
def test_other_loops_are_refused(domain: Domain, command: Callable[[tm.Computation], object], message: str) -> None:
    f = tm.Function("refused", params=[N, M])
    o = f.computation("o", domain, 1.0)
    f.outputs(o)
    with pytest.raises(tm.CommandError, match=message):
        command(o)


def test_statements_that_share_only_some_of_the_loops_are_refused() -> None:
    f = tm.Function("some", params=[H])
    p = f.computation("p", {x: 10, y: 5}, x + y)
    q = f.computation("q", {x: 10}, p[x, 0])
    f.outputs(p, q)
    q.after(p, x)
    with pytest.raises(tm.CommandError, match="it shares only the outer ones of the loops x, y"):
        p.coalesce(x, y, into=j)

"""Scatters as they are declared: the places of terms, the order of the loops, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

R, C, K, D = tm.params("R C K D")
r, c, b, k, d, x, y, z = tm.iters("r c b k d x y z")


def loops(f: tm.Function, name: str) -> list[str]:
    """The names of the loops of a statement."""
    return [f.program.loops[loop].name for loop in f.program.statements[name].loops]


def histogram() -> tuple[tm.Function, tm.Reduction]:
    f = tm.Function("histogram", params=[R, C])
    level = f.input("level", tm.uint8, [R, C])
    h = f.scatter("h", {b: 256}, over={r: R, c: C}, at=[level[r, c]], op=tm.sum, expr=1, dtype=tm.int32)
    f.outputs(h)
    return f, h


def levels(rows: int, columns: int) -> Any:
    return np.random.default_rng(rows).integers(0, 256, (rows, columns)).astype(np.uint8)


def test_the_three_spellings_of_a_scatter_are_one() -> None:
    found = []
    for declared in (
        lambda f, a: f.scatter("h", {b: K}, {r: R}, [a[r] - 1], tm.sum, r, where=a[r] % 2 == 0),
        lambda f, a: f.reduction("h", {b: K}, {r: R}, tm.sum, tm.scatter(r, at=[a[r] - 1]), where=a[r] % 2 == 0),
        lambda f, a: f.reduction("h", {b: K}, {r: R}, tm.sum, r, where=(b == a[r] - 1) & (a[r] % 2 == 0)),
    ):
        f = tm.Function("f", params=[R, K])
        f.outputs(declared(f, f.input("a", tm.int32, [R])))
        found.append((f.show("pseudocode"), f.evaluate(np.arange(-3, 9, dtype=np.int32), K=6).tolist()))
    assert found[0] == found[1] == found[2]
    assert found[0][1] == [0, 5, 0, 7, 0, 9]


def test_the_smallest_term_of_each_place_has_its_number() -> None:
    f = tm.Function("f", params=[R, K])
    key, a = f.input("key", tm.uint8, [R]), f.input("a", tm.float32, [R])
    least = f.reduction("least", {b: K}, {r: R}, tm.argmin, tm.scatter(a[r], at=[key[r]]))
    f.outputs(least)
    given = {"key": np.uint8([1, 0, 1, 9, 1]), "a": np.float32([3, 5, 2, -1, 2]), "K": 3}
    for value, index in (f.evaluate(**given), f.compile()(**given)):
        np.testing.assert_array_equal(value, np.float32([5, 2, np.inf]))
        np.testing.assert_array_equal(index[:2], [1, 2])


def test_a_place_stands_for_no_value() -> None:
    f = tm.Function("f", params=[R])
    a = f.input("a", tm.int32, [R])
    said = (
        r"tm\.scatter\(1, at=\[a\[r\]\]\) is a term and its place, not a value: it is the whole expr= of f\.reduction"
    )
    with pytest.raises(tm.DeclarationError, match="expression of x cannot be used: " + said):
        f.computation("x", {r: R}, tm.scatter(1, at=[a[r]]))
    with pytest.raises(tm.DeclarationError, match=said):
        tm.scatter(1, at=[a[r]]) + a[r]
    with pytest.raises(tm.DeclarationError, match=said), f.together() as g:
        g.reduction("x", {b: 4}, {r: R}, tm.sum, lambda: tm.scatter(1, at=[a[r]]))
    with pytest.raises(tm.DeclarationError, match=r"list a place for each of b, d"):
        f.reduction("h", {b: 4, d: 2}, {r: R}, tm.sum, tm.scatter(1, at=[a[r]]))


@pytest.mark.parametrize("size", [(0, 5), (1, 1), (7, 13), (31, 33)])
def test_a_histogram_counts_as_numpy_does(size: tuple[int, int]) -> None:
    f, _ = histogram()
    assert loops(f, "h_update") == ["r", "c", "b"]
    level, kernel = levels(*size), f.compile()
    wanted = np.bincount(level.ravel(), minlength=256)
    np.testing.assert_array_equal(kernel(level), wanted)
    np.testing.assert_array_equal(f.evaluate(level=level), wanted)


def test_several_copies_of_a_histogram_are_counted_in_turn() -> None:
    f, h = histogram()
    h.update.split(c, 4, "c0", "c1")
    copies = h.update.rfactor("c1")
    assert f.check().ok
    assert loops(f, f"{copies.name}_update")[:2] == ["r", "c"]
    for size in ((0, 3), (1, 1), (5, 4), (7, 13)):
        level = levels(*size)
        np.testing.assert_array_equal(f.compile()(level), np.bincount(level.ravel(), minlength=256))


@pytest.mark.parametrize("combine", [tm.PRIVATE, tm.ATOMIC])
def test_lanes_and_threads_meet_in_one_element(combine: tm.Combine) -> None:
    f, h = histogram()
    h.update.parallelize(r, combine=combine)
    if combine is tm.PRIVATE:
        h.update.vectorize(c, 8, combine=combine)
    level = np.full((5, 19), 7, np.uint8)
    np.testing.assert_array_equal(f.compile(threads=2)(level), np.bincount(level.ravel(), minlength=256))


def test_lanes_without_copies_are_refused_with_two_terms_that_meet() -> None:
    f, h = histogram()
    h.update.vectorize(c, 8)
    (found,) = f.check().violations
    assert (found.kind, found.witness.params) == ("race", {"R": 1, "C": 2})
    assert "combine=tm.PRIVATE" in found.repair


@pytest.mark.parametrize(("op", "exchanged"), [(tm.max, True), (tm.min, True), (tm.logical_or, True), (tm.sum, False)])
def test_threads_exchange_only_what_a_term_changes(op: tm.Operator, exchanged: bool) -> None:
    f = tm.Function("f", params=[R, K])
    key, a = f.input("key", tm.uint8, [R]), f.input("a", tm.uint16, [R])
    h = f.scatter("h", {b: K}, {r: R}, [key[r]], op, a[r])
    f.outputs(h)
    h.update.parallelize(r, combine=tm.ATOMIC)
    kernel = f.compile(threads=2)
    assert ("if (memcmp(&tm_new, &tm_old, sizeof tm_new) == 0) break" in kernel.source["f.c"]) == exchanged
    for size in (0, 1, 5000):
        rng = np.random.default_rng(size)
        given = {
            "key": rng.integers(0, 9, size).astype(np.uint8),
            "a": rng.integers(0, 1 << 16, size).astype(np.uint16),
        }
        np.testing.assert_array_equal(kernel(**given, K=8), f.evaluate(**given, K=8))


def scattered_ends() -> tuple[tm.Function, tm.Reduction]:
    """The first least value of each key."""
    f = tm.Function("f", params=[R, K])
    key, a = f.input("key", tm.uint8, [R]), f.input("a", tm.int32, [R])
    h = f.reduction("h", {b: K}, {r: R}, tm.argmin, tm.scatter(a[r], at=[key[r]]))
    f.outputs(h)
    return f, h


def expect_ends(f: tm.Function) -> None:
    kernel = f.compile(threads=2)
    for size in (0, 1, 8, 100):
        rng = np.random.default_rng(size)
        given = {"key": rng.integers(0, 6, size).astype(np.uint8), "a": rng.integers(-9, 9, size, dtype=np.int32)}
        for found, wanted in zip(kernel(**given, K=5), f.evaluate(**given, K=5), strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_several_values_are_scattered_into_private_copies_or_partial_results() -> None:
    f, h = scattered_ends()
    h.update.split(r, 8, "r0", "r1")
    h.update.parallelize("r0", combine=tm.ATOMIC)
    (found,) = f.check().violations
    assert found.kind == "reduction" and "by tm.ATOMIC, which is for one value" in found.message
    assert found.repair == (
        "use combine=tm.PRIVATE for loop r0, or h.update.rfactor(r0), and run the loop over its partial results"
    )
    f.undo()
    parts = h.update.rfactor("r0")
    parts.update.parallelize("r0")
    assert loops(f, f"{parts.name}_update") == ["r0", "r", "b"] and f.check().ok
    expect_ends(f)
    f, h = scattered_ends()
    h.update.parallelize(r, combine=tm.PRIVATE)
    expect_ends(f)


def test_affine_places_and_values_make_a_grid() -> None:
    f = tm.Function("splat", params=[R, C], assume="R >= 1 and C >= 1")
    v = f.input("v", tm.float64, [R, C])
    at = [r // 8, c // 8, tm.cast(tm.int32, v[r, c] * 10 + 0.5)]
    g = f.scatter("g", {x: (R + 7) // 8, y: (C + 7) // 8, z: 9}, over={r: R, c: C}, at=at, op=tm.sum, expr=v[r, c])
    f.outputs(g)
    assert loops(f, "g_update") == ["x", "y", "r", "c", "z"]
    for rows, columns in ((1, 1), (8, 9), (19, 17)):
        given = np.random.default_rng(rows).random((rows, columns))
        i, j = np.indices(given.shape)
        level = (given * 10 + 0.5).astype(int)
        kept = level < 9
        wanted = np.zeros(((rows + 7) // 8, (columns + 7) // 8, 9))
        np.add.at(wanted, (i[kept] // 8, j[kept] // 8, level[kept]), given[kept])
        np.testing.assert_array_equal(f.compile()(given), wanted)


def test_a_place_may_be_the_iterator_itself_and_terms_may_have_a_condition() -> None:
    f = tm.Function("largest", params=[R, K, D])
    label, a = f.input("label", tm.int16, [R]), f.input("a", tm.int32, [R, D])
    s = f.scatter("s", {k: K, d: D}, over={r: R}, at=[label[r] - 1, d], op=tm.max, expr=a[r, d], where=a[r, d] % 2 == 0)
    f.outputs(s)
    rng = np.random.default_rng(3)
    given = {"label": rng.integers(0, 6, 23).astype(np.int16), "a": rng.integers(-9, 9, (23, 5)).astype(np.int32)}
    wanted = np.full((4, 5), np.iinfo(np.int32).min, np.int32)
    for place, row in zip(given["label"], given["a"], strict=True):
        if 0 <= place - 1 < 4:
            wanted[place - 1] = np.maximum(wanted[place - 1], np.where(row % 2 == 0, row, wanted[place - 1]))
    np.testing.assert_array_equal(f.compile()(**given, K=4), wanted)


def test_a_scatter_is_saved_and_loaded(tmp_path: Path) -> None:
    f, h = histogram()
    h.update.parallelize(r, combine=tm.PRIVATE)
    f.save(tmp_path / "h.json")
    loaded = tm.load(tmp_path / "h.json")
    assert loaded.show("pseudocode") == f.show("pseudocode")


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (
            lambda f, a: f.scatter("h", {b: 4}, {r: R}, [], tm.sum, 1),
            r"at= of the scatter h is \[\]; list a place for each",
        ),
        (lambda f, a: f.scatter("h", {b: 4, d: 2}, {r: R}, [a[r]], tm.sum, 1), r"list a place for each of b, d"),
        (lambda f, a: f.scatter("h", {b: 4}, {r: R}, [b], tm.sum, 1), r"every term would go to every value"),
        (
            lambda f, a: f.scatter("h", {b: 4}, {r: R}, [a[r] / 2], tm.sum, 1),
            r"is float64; places are integers: tm\.cast",
        ),
        (lambda f, a: f.scatter("h", {b: 4}, {r: R}, ["b"], tm.sum, 1), r"at= of the scatter h cannot be used"),
    ],
)
def test_what_is_no_place_is_refused(declared: Callable[[tm.Function, tm.Input], object], message: str) -> None:
    f = tm.Function("f", params=[R])
    with pytest.raises(tm.DeclarationError, match=message):
        declared(f, f.input("a", tm.int32, [R]))


def test_a_place_beyond_its_array_is_refused_as_a_read() -> None:
    f = tm.Function("f", params=[R])
    a, table = f.input("a", tm.int32, [R]), f.input("table", tm.int32, [4], values=(0, 4))
    f.outputs(f.scatter("h", {b: 4}, {r: R}, [table[a[r]]], tm.sum, 1))
    (found,) = f.check().violations
    assert found.kind == "bounds"
    assert "nothing is known of the index a[r]" in found.message


def test_a_scatter_may_leave_its_domain_open() -> None:
    f = tm.Function("sums", params=[R])
    level = f.input("level", tm.uint8, [R])
    h = f.scatter("h", [b], over={r: R}, at=[level[r]], op=tm.sum, expr=1, dtype=tm.int32)
    f.outputs(f.computation("near", {b: 9}, h[b - 1] + h[b] + h[b + 1]))
    assert f.domains().splitlines()[0] == "h[b]: -1 <= b < 10"
    for size in (0, 1, 40):
        given = np.random.default_rng(size).integers(0, 20, size).astype(np.uint8)
        counted = np.bincount(given, minlength=20)
        wanted = [counted[max(at - 1, 0) : at + 2].sum() for at in range(9)]
        np.testing.assert_array_equal(f.compile()(given), wanted)


def test_a_literal_beside_the_place_need_not_fit_the_type_of_the_values():
    places = np.array([-128, 3, 127], dtype=np.int8)
    f = tm.Function("moved", params=[K])
    place = f.input("place", tm.int8, [K])
    f.outputs(f.reduction("h", {b: 256}, {k: K}, tm.sum, 1, where=b - 200 == place[k]))
    wanted = np.zeros(256, dtype=np.int64)
    wanted[[72, 203]] = 1
    np.testing.assert_array_equal(f.evaluate(place=places), wanted)
    np.testing.assert_array_equal(f.compile()(place=places), wanted)

"""Arrays of the caller that begin below index 0: the report, `domains()` and the C header say where."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm

R, C, K = tm.params("R C K")
r, c = tm.iters("r c")
SIZES = [(1, 1), (1, 7), (5, 3), (17, 33)]


def shifted() -> tm.Function:
    """``s`` from -1 and -2 on, and the sum of its neighbours."""
    f = tm.Function("f", params=[R, C], assume="R >= 1 and C >= 1")
    a = f.input("a", tm.int32, [R + 2, C + 3])
    s = f.computation("s", {r: (-1, R + 1), c: (-2, C + 1)}, 3 * a[r + 1, c + 2])
    t = f.computation("t", {r: R, c: C}, s[r - 1, c] + s[r + 1, c - 2])
    f.outputs(s, t)
    return f


def given(rows: int, columns: int) -> np.ndarray[tuple[int, int], np.dtype[np.int32]]:
    return np.arange((rows + 2) * (columns + 3), dtype=np.int32).reshape(rows + 2, columns + 3)


def test_an_output_begins_at_its_smallest_index() -> None:
    f = shifted()
    f["s"].vectorize(c, 8, remainder="mask")
    f["t"].parallelize(r)
    kernel = f.compile(sanitize=("undefined",))
    for shape in SIZES:
        a = given(*shape)
        s, t = kernel(a)
        np.testing.assert_array_equal(s, 3 * a)
        np.testing.assert_array_equal(t, (s[:-2, 2:-1] + s[2:, :-3]))
        for found, wanted in zip((s, t), f.evaluate(a), strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_the_report_domains_and_the_header_say_where_it_begins() -> None:
    f = shifted()
    assert "the array s begins at s[-1, -2]" in str(f.check())
    assert f.domains().splitlines() == [
        "s[r, c]: -1 <= r < R + 1 and -2 <= c < C + 1, in an array that begins at s[-1, -2]",
        "t[r, c]: 0 <= r < R and 0 <= c < C",
    ]
    line = "// s[-1, -2] is element 0 of s, whose shape is [R + 2, C + 3]"
    assert line in f.source()["f.h"].splitlines()
    assert "begins" not in str(f.check()).replace("the array s begins", "")


def test_it_begins_where_parameters_say() -> None:
    f = tm.Function("f", params=[R, K], assume="R >= 1 and K >= 0")
    f.outputs(f.computation("s", {r: (-K, R)}, r * r))
    assert "begins at s[-K]" in str(f.check()) and "begins at s[-K]" in f.domains()
    assert "// s[-K] is element 0 of s, whose shape is [R + K]" in f.source()["f.h"].splitlines()
    for rows, more in ((1, 0), (4, 3)):
        wanted = [x * x for x in range(-more, rows)]
        assert f.compile()(R=rows, K=more).tolist() == f.evaluate(R=rows, K=more).tolist() == wanted


def test_other_places_are_the_users() -> None:
    """A transposed array begins nowhere in particular; one from -2 on has two elements that are not used."""
    f = shifted()
    f["s"].store_in([c + 2, r + 1])
    assert "begins" not in str(f.check())
    f = shifted()
    f["s"].store_in([r + 2, c + 2])
    assert "the array s begins at s[-2, -2]" in str(f.check())


def test_saved_copied_and_declared_again_it_begins_there_too(tmp_path: Path) -> None:
    f = shifted()
    f.save(tmp_path / "f.json")
    a = given(3, 4)
    for each in (f.copy(), tm.load(tmp_path / "f.json"), tm.Function.of(f.algorithm, f.commands)):
        assert each.domains() == f.domains()
        np.testing.assert_array_equal(each.compile()(a)[0], 3 * a)


def test_a_declared_shape_begins_at_index_0() -> None:
    f = tm.Function("f", params=[R], assume="R >= 1")
    f.outputs(f.computation("s", {r: (-1, R)}, r * r, shape=[R + 1]))
    with pytest.raises(tm.LegalityError, match=r"choose indices of s that start at 0: s\.store_in"):
        f.compile()


def test_temporaries_below_index_0_need_no_store_in() -> None:
    f = tm.Function("f", params=[R], assume="R >= 1")
    a = f.input("a", tm.int32, [R + 1])
    s = f.computation("s", {r: (-1, R)}, a[r + 1] * 2)
    f.outputs(f.computation("t", {r: R}, s[r] - s[r - 1]))
    assert "begins" not in str(f.check()) + f.domains()
    for rows in (1, 7):
        x = np.arange(rows + 1, dtype=np.int32) ** 2
        np.testing.assert_array_equal(f.compile()(x), 2 * np.diff(x))

"""reshape: the same values with other dimensions, NumPy's order, without an array of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

H, N, M = tm.params("H N M")
i, j, k, m = tm.iters("i j k m")


@pytest.mark.parametrize(
    ("shape", "known"),
    [
        ([H, 12], (5, 12)), ([H * 12], (60,)), ([H * 3, 4], (15, 4)), ([H, 2, 6], (5, 2, 6)),
        ([H, 3, 2, 2], (5, 3, 2, 2)), ([H, -1], (5, 12)), ([-1], (60,)), ([2 * H, 6], (10, 6)),
        ([H, 1, 3, 4], (5, 1, 3, 4)),
    ],
)  # fmt: skip
def test_elements_are_those_of_numpy(shape: list[Any], known: tuple[int, ...]) -> None:
    f = tm.Function("views", params=[H])
    a = f.input("a", tm.int32, [H, 3, 4])
    names = (i, j, k, m)[: len(shape)]
    view = a.reshape(shape)
    o = f.computation("o", dict(zip(names, view.shape, strict=True)), view[names] + 1)
    f.outputs(o)
    assert f.check().ok
    values = np.arange(60, dtype=np.int32).reshape(5, 3, 4)
    np.testing.assert_array_equal(f.compile()(values), values.reshape(known) + 1)


@pytest.mark.parametrize(
    ("shape", "given", "left"),
    [
        ([H + 3, H + 3, 6], [H + 3, -1], "[H + 3, 6 * (H + 3)]"),
        ([2 * H + 2, H + 1], [2 * H + 2, -1], "[2 * H + 2, H + 1]"),
        ([2 * H + 2], [2, -1], "[2, H + 1]"),
        ([4 * H + 4, 6], [H + 1, -1], "[H + 1, 24]"),
        ([H + 3, H + 2, 6], [H + 3, -1], "[H + 3, 6 * (H + 2)]"),
    ],
)
def test_the_extent_that_is_left_is_found_among_sizes_that_are_alike(
    shape: list[Any], given: list[Any], left: str
) -> None:
    f = tm.Function("views", params=[H], assume="H >= 1")
    a = f.input("a", tm.int32, shape)
    view = a.reshape(given)
    assert str(view) == f"a.reshape({left})"
    o = f.computation("o", {i: view.shape[0], j: view.shape[1]}, view[i, j] + 1)
    f.outputs(o)
    assert f.check().ok
    sizes = [int(eval(str(extent), {"H": 3})) for extent in shape]
    values = np.arange(np.prod(sizes), dtype=np.int32).reshape(sizes)
    np.testing.assert_array_equal(f.evaluate(values), values.reshape([eval(str(e), {"H": 3}) for e in given]) + 1)


def test_computations_and_arrays_of_products_have_views_too() -> None:
    f = tm.Function("views", params=[N, M], assume="M >= 1")
    a = f.input("a", tm.int32, [N * M])
    rows = a.reshape([N, M])
    assert str(rows[i, j]) == "a[i, j]"
    p = f.computation("p", {i: N, j: 6}, rows[i, 0] + j)
    s = f.reduction("s", {i: N, j: 2}, {k: 3}, tm.sum, p.reshape([N, 2, 3])[i, j, k])
    f.outputs(s)
    assert f.check().ok
    values = np.arange(20, dtype=np.int32)
    expected = (values.reshape(4, 5)[:, :1] + np.arange(6)).reshape(4, 2, 3).sum(2)
    np.testing.assert_array_equal(f.compile()(values, N=4, M=5), expected)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ([H, 13], "the numbers of elements differ"),
        ([N, 3, 4], "the numbers of elements differ"),
        ([-1, -1], "one extent may be -1"),
        ([-1, 5], "one extent may be -1"),
        (12, r"not \[12\]: the numbers of elements differ"),
        ([H, 12.0], "the extent 12.0 is no integer"),
    ],
)
def test_other_shapes_are_refused(shape: Any, message: str) -> None:
    f = tm.Function("views", params=[H, N])
    a = f.input("a", tm.int32, [H, 3, 4])
    with pytest.raises(tm.DeclarationError, match=message):
        a.reshape(shape)


@pytest.mark.parametrize("shape", [(1,), (1, 1), (1, 1, 1)])
@pytest.mark.parametrize("extents", [(1,), (1, 1)])
def test_one_element_has_any_number_of_dimensions(shape: tuple[int, ...], extents: tuple[int, ...]) -> None:
    f = tm.Function("views", params=[])
    view = f.input("a", tm.int32, list(shape)).reshape(list(extents))
    names = (i, j)[: len(extents)]
    f.outputs(f.computation("o", dict(zip(names, extents, strict=True)), view[names] + 1))
    assert f.check().ok
    np.testing.assert_array_equal(f.compile()(np.full(shape, 4, np.int32)), np.full(extents, 5))


def test_a_division_by_a_size_is_refused_with_what_to_declare() -> None:
    f = tm.Function("views", params=[N, M])
    a = f.input("a", tm.int32, [N, M])
    with pytest.raises(tm.DeclarationError, match=r"divide by M, .* declare the array with one extent, \[N \* M\]"):
        a.reshape([N * M])


def test_the_wrong_indices_are_refused() -> None:
    f = tm.Function("views", params=[H])
    view = f.input("a", tm.int32, [H, 12]).reshape([H, 3, 4])
    with pytest.raises(tm.DeclarationError, match="has 3 indices, 2 were given"):
        view[i, j]
    with pytest.raises(tm.DeclarationError, match="an index is a slice"):
        view[i, :, k]


def test_extents_one_by_one_and_views_of_views_are_numpys() -> None:
    f = tm.Function("views", params=[H])
    a = f.input("a", tm.int32, [H, 12])
    assert str(a.reshape(H, 3, 4)[i, j, k]) == str(a.reshape([H, 2, 6]).reshape(H, 3, 4)[i, j, k]) == "a[i, j * 4 + k]"
    with pytest.raises(
        tm.CommandError, match=r"a.reshape\(\[H, 3, 4\]\) is a view and has no loops: give vectorize to a"
    ):
        a.reshape(H, 3, 4).vectorize(i, 8)  # type: ignore[attr-defined]

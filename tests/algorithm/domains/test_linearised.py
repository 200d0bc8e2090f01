"""Arrays of ``N * M`` elements, read and stored by ``i * M + j``: beside NumPy's index in one dimension."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.sanitizers import check_clean
from tiramisu_py.algorithm.domains.linearised import factors_of, parts_of
from tiramisu_py.algorithm.expressions import as_expr
from tiramisu_py.interpret import run

N, M, K = tm.params("N M K")
i, j, k = tm.iters("i j k")
SIZES = ((3, 5, 2), (1, 1, 1), (0, 4, 3), (4, 0, 1), (7, 13, 3), (2, 17, 0))
Sizes = tuple[int, int, int]

#: A shape, the extents of i, j and k, and an index that is inside for all of them.
INSIDE: dict[str, tuple[Any, tuple[Any, ...], Any]] = {
    "rows": (N * M, (N, M), i * M + j),
    "columns": (M * N, (N, M), j * N + i),
    "the other way around": (N * M, (N, M), j + M * i),
    "a row from its end": (N * M, (N, M), i * M + M - 1 - j),
    "rows from the last": (N * M, (N, M), (N - 1 - i) * M + j),
    "from the last element": (N * M, (N, M), N * M - 1 - (i * M + j)),
    "three dimensions": (N * M * K, (N, M, K), i * M * K + j * K + k),
    "Horner's rule": (N * M * K, (N, M, K), (i * M + j) * K + k),
    "a product of strides": (N * (M * K), (N, M, K), k + K * j + i * (M * K)),
    "channels last": (N * M * 3, (N, M, 3), 3 * (i * M + j) + k),
    "channels first": (3 * N * M, (N, M, 3), k * N * M + i * M + j),
    "the next row": (N * M, (N - 1, M), i * M + j + M),
    "the next element": (N * M, (N, M - 1), i * M + j + 1),
    "the element before": (N * M, (N, (1, M)), i * M + j - 1),
    "the end of the row before": (N * M, ((1, N), M), i * M - 1 + 0 * j),
    "a frame around": ((N + 2) * (M + 2), (N, M), (i + 1) * (M + 2) + j + 1),
    "a frame with a filter": ((N + 2) * (M + 2), (N, M, 3), (i + k) * (M + 2) + (j + 2 - k)),
    "a square": (N * N, (N, N), i * N + j),
    "every second": (N * (2 * M), (N, M), i * 2 * M + 2 * j + 1),
    "a part of each row": (N * (M + K), (N, M, K), i * (M + K) + M + k + 0 * j),
    "an element between ends": (N * M, (N, M), tm.clip(i - 1, 0, N - 1) * M + tm.clip(j + 1, 0, M - 1)),
    "neighbours around": (N * M, (N, M), i * M + (j + 1) % M),
    "extents below zero": ((N - 1) * (M - 2), (N - 1, M - 2), i * (M - 2) + j),
}
#: The same with an index that leaves the array, or a row of it, for some sizes.
OUTSIDE: dict[str, tuple[Any, tuple[Any, ...], Any]] = {
    "one column more": (N * M, (N, M + 1), i * M + j),
    "one row more": (N * M, (N + 1, M), i * M + j),
    "the next element": (N * M, (N, M), i * M + j + 1),
    "the element before": (N * M, (N, M), i * M + j - 1),
    "rows of another length": (N * M, (N, M), i * K + j),
    "transposed": (N * M, (N, M), j * N + i),
    "twice the row": (N * M, (N, M), 2 * i * M + j),
    "a product of iterators": (N * M, (N, M), i * j),
    "rows backwards": (N * M, (N, M), j - i * M),
    "rows of negative length": (N * (M - 2), (N, M), i * (M - 2) + j),
}


def value(e: Any, names: dict[str, int]) -> int:
    """An expression of names, by Python's arithmetic on its text."""
    words = {"min": min, "max": max, "clip": lambda x, low, high: min(max(x, low), high)}
    return int(eval(str(e), words, names))


def bound(e: Any, sizes: Sizes) -> int:
    return max(0, value(e, dict(zip("NMK", sizes, strict=True))))


def reading(shape: Any, extents: tuple[Any, ...], index: Any) -> tm.Function:
    """The elements of an array at an index, for each point of a box."""
    f = tm.Function("linear", params=[N, M, K])
    x = f.input("x", tm.int32, [shape])
    f.outputs(f.computation("y", dict(zip((i, j, k), extents, strict=False)), x[index] * 3))
    return f


def indices(index: Any, extents: tuple[Any, ...], sizes: Sizes) -> dict[tuple[int, ...], int]:
    """The index at each point, as Python computes it."""
    sides = []
    for extent in extents:
        low, high = extent if isinstance(extent, tuple) else (0, extent)
        sides.append(range(bound(low, sizes), bound(high, sizes)))
    found = {}
    for point in itertools.product(*sides):
        found[point] = value(index, dict(zip("ijkNMK", (*point, 0, 0, 0)[:3] + sizes, strict=True)))
    return found


def elements(shape: Any, sizes: Sizes) -> np.ndarray:
    return np.arange(int(np.prod([bound(e, sizes) for e in factors_of(shape)])), dtype=np.int32) * 7 - 5


@pytest.mark.parametrize("name", INSIDE)
def test_an_element_is_the_one_at_the_index_in_one_dimension(name: str) -> None:
    shape, extents, index = INSIDE[name]
    f = reading(shape, extents, index)
    assert f.check().ok, f.check()
    f["y"].vectorize(j, 4)
    kernel = f.compile()
    for sizes in SIZES:
        given = dict(zip("NMK", sizes, strict=True))
        x = elements(shape, sizes)
        found = kernel(x=x, **given)
        np.testing.assert_array_equal(found, f.evaluate(x=x, **given))
        for point, at in indices(index, extents, sizes).items():
            assert 0 <= at < len(x) and found[point] == 3 * x[at], (sizes, point, at)


@pytest.mark.parametrize("name", OUTSIDE)
def test_an_index_that_leaves_its_row_is_refused(name: str) -> None:
    f = reading(*OUTSIDE[name])
    (violation,) = f.check().violations
    assert violation.kind == "bounds" and "read as [N, M" in str(violation)


DIMENSIONS = ([N, M], [N, M, K], [N + 1, M + 2], [3, N, M], [N, M, 2], [N, 2 * M], [N, M - 1], [N, M + K], [N, N])


def product(sizes: list[Any]) -> Any:
    found = sizes[0] if sizes else 1
    for size in sizes[1:]:
        found = found * size
    return found


def random_reading(draw: random.Random) -> tuple[list[Any], tuple[Any, ...], Any]:
    """The dimensions of an array, the extents of iterators, and an index of a few terms, often inside."""
    dims = draw.choice(DIMENSIONS)
    names = draw.sample([i, j, k], len(dims))
    extents, terms = dict.fromkeys((i, j, k), 1), []
    for at, (name, size) in enumerate(zip(names, dims, strict=True)):
        stride = product(dims[at + 1 :])
        extents[name] = draw.choice((size, size, size - 1, (1, size)))
        terms.append(draw.choice((name, name, name, size - 1 - name, name - 1, name + 1)) * stride)
    more = [1, -1, M, -M, N * M, -K * N, j, -k, K, product(dims[1:]), -product(dims[1:])]
    terms += [draw.choice(more) for _ in range(draw.choice((0, 0, 0, 1, 2)))]
    draw.shuffle(terms)
    index = terms[0]
    for term in terms[1:]:
        index = index + term if draw.random() < 0.9 else -(-term - index)
    return dims, (extents[i], extents[j], extents[k]), index


def test_random_indices_are_the_sums_of_their_parts_and_are_inside_where_they_are_accepted() -> None:
    accepted = 0
    for seed in range(150):
        draw = random.Random(seed)
        dims, extents, index = random_reading(draw)
        parts = parts_of(index, [as_expr(size) for size in dims])
        for _ in range(6):
            names = {name: draw.randrange(6) for name in "ijkNMK"}
            total = sum(value(part, names) * value(product(dims[at + 1 :]), names) for at, part in enumerate(parts))
            assert total == value(index, names), (seed, str(index), list(map(str, parts)))
        f = reading(product(dims), extents, index)
        if not f.check().ok:
            continue
        accepted += 1
        for sizes in ((2, 3, 4), (5, 1, 2), (0, 2, 2), (1, 0, 3)):
            given, x = dict(zip("NMK", sizes, strict=True)), elements(product(dims), sizes)
            found = f.evaluate(x=x, **given)
            for point, at in indices(index, extents, sizes).items():
                assert 0 <= at < len(x) and found[point] == 3 * x[at], (seed, str(index), sizes, point)
    assert accepted >= 40


def stored(index: Any, extents: tuple[Any, ...] = (N, M), shape: Any = N * M) -> tm.Function:
    """Values that are kept in an array of their product, from an input of the same number of elements."""
    f = tm.Function("kept", params=[N, M], assume="N >= 1 and M >= 1")
    x = f.input("x", tm.int32, [N, M])
    y = f.computation("y", dict(zip((i, j), extents, strict=True)), x[i, j] + 1)
    y.store_in(tm.Buffer("b", [shape], tm.int32), [index])
    f.outputs(y)
    return f


KEPT = {
    "rows": (N * M, i * M + j, lambda x: x.reshape(-1)),
    "columns": (M * N, j * N + i, lambda x: x.T.reshape(-1)),
    "from the last": (N * M, N * M - 1 - i * M - j, lambda x: x.reshape(-1)[::-1]),
}


@pytest.mark.parametrize("name", KEPT)
def test_an_output_is_kept_in_an_array_of_one_dimension(name: str) -> None:
    shape, index, wanted = KEPT[name]
    f = stored(index, shape=shape)
    f["y"].vectorize(j, 4)
    f["y"].parallelize(i)
    assert f.check().ok
    for n, m in ((1, 1), (3, 5), (7, 13)):
        x = np.arange(n * m, dtype=np.int32).reshape(n, m)
        found, given = f.compile()(x), np.zeros(n * m, np.int32)
        f.compile()(x, b=given)
        run(f.compile().arguments.function, {"x": x, "b": given.copy()}, {"N": n, "M": m})
        np.testing.assert_array_equal(found, wanted(x + 1))
        np.testing.assert_array_equal(given, found)
        with pytest.raises(tm.ArgumentError, match=r"declared as \[N \* M\]|declared as \[M \* N\]"):
            f.compile()(x, b=np.zeros((n, m), np.int32))


@pytest.mark.parametrize(
    ("index", "kind"),
    [(i + j, "overwritten"), (0 * M + j, "overwritten"), (i * M + j + 1, "bounds"), (i * M + 2 * j, "bounds"),
     (i * M, "overwritten"), ((i + 1) * M + j, "bounds"), (i * M + j // 2, "overwritten")],
)  # fmt: skip
def test_two_values_in_one_element_and_values_outside_are_refused(index: Any, kind: str) -> None:
    assert kind in {violation.kind for violation in stored(index).check().violations}


def test_an_input_in_rows_is_updated_in_place() -> None:
    f = tm.Function("twice", params=[N, M])
    x = f.input("x", tm.int32, [N * M])
    y = f.computation("y", {i: N, j: M}, 2 * x[i * M + j])
    f.outputs(y)
    y.store_in(x, [i * M + j])
    assert f.check().ok
    given = np.arange(15, dtype=np.int32)
    f.compile()(given, N=3)
    np.testing.assert_array_equal(given, 2 * np.arange(15))
    np.testing.assert_array_equal(f.evaluate(x=np.arange(15, dtype=np.int32), N=3).ravel(), given)
    z = f.copy()
    z["y"].store_in(tm.Buffer("b", [N * M], tm.int32), [j])
    assert not z.check().ok


def test_in_place_in_rows_what_is_not_computed_is_that_of_the_input() -> None:
    f = tm.Function("border", params=[N, M], assume="N >= 2")
    x = f.input("x", tm.int32, [N * M])
    y = f.computation("y", {i: (1, N - 1), j: M}, -x[i * M + j], shape=[N, M])
    f.outputs(y)
    y.store_in(x, [i * M + j])
    for rows, columns in ((2, 3), (5, 4), (3, 1), (4, 0)):
        given = np.arange(1, rows * columns + 1, dtype=np.int32)
        wanted = given.copy().reshape(rows, columns)
        wanted[1:-1] *= -1
        np.testing.assert_array_equal(f.evaluate(x=given, N=rows, M=columns), wanted)
        f.compile()(given, N=rows, M=columns)
        np.testing.assert_array_equal(given, wanted.ravel())


def test_values_in_indices_are_parts_of_their_own() -> None:
    f = tm.Function("gathered", params=[N, M])
    x = f.input("x", tm.int32, [N * M])
    row, column = f.input("row", tm.int32, [N], values=(0, N)), f.input("column", tm.int32, [N], values=(0, M))
    f.outputs(f.computation("y", {i: N}, x[row[i] * M + column[i]]))
    assert set(f.check().trusted) == {"declared: 0 <= row < N", "declared: 0 <= column < M"}
    n, m = 7, 9
    x, row, column = np.arange(n * m, dtype=np.int32), np.arange(n)[::-1].astype(np.int32), np.arange(n, dtype=np.int32)
    np.testing.assert_array_equal(f.compile()(x, row, column), x[row * m + column])


@pytest.mark.parametrize(
    "made",
    [
        lambda x, u, v: x[u[i] * M + j],  # in 8 bits
        lambda x, u, v: x[i * M + v[j]],  # any value
        lambda x, u, v: x[tm.cast(tm.int64, u[i]) * M + v[i]],
    ],
)
def test_values_of_which_nothing_is_known_are_refused(made: Any) -> None:
    f = tm.Function("gathered", params=[N, M], assume="N >= 1 and M >= 1")
    x, u, v = f.input("x", tm.int32, [N * M]), f.input("u", tm.uint8, [N]), f.input("v", tm.int64, [N + M])
    f.outputs(f.computation("y", {i: N, j: M}, made(x, u, v)))
    assert {violation.kind for violation in f.check().violations} == {"bounds"}


def test_the_array_that_is_passed_has_one_dimension(tmp_path: Path) -> None:
    f = reading(N * M, (N, M), i * M + j)
    kernel = f.compile()
    assert "x has the shape [N, M]" in kernel.source["linear.h"]
    with pytest.raises(tm.ArgumentError, match=r"declared as \[N \* M\]"):
        kernel(np.zeros((3, 4), np.int32), K=1)
    with pytest.raises(tm.ArgumentError, match=r"N \* M = 7 has no integer solution N"):
        kernel(np.zeros(7, np.int32), M=2, K=1)
    with pytest.raises(tm.ArgumentError, match=r"its extent 0, N \* M, is 6, not 7"):
        kernel(np.zeros(7, np.int32), N=2, M=3, K=1)
    with pytest.raises(tm.ArgumentError, match=r"N \* M"):
        kernel(np.zeros(0, np.int32), N=2**40, M=2**40, K=1)
    f.save(tmp_path / "linear.json")
    x = np.arange(12, dtype=np.int32)
    np.testing.assert_array_equal(tm.load(tmp_path / "linear.json").compile()(x, N=3, K=1), kernel(x, N=3, K=1))
    with pytest.raises(
        tm.DeclarationError, match="monotone=, permutation= and distinct= are for shapes without products"
    ):
        f.input("z", tm.int32, [N * M], monotone=True)


def test_rows_are_read_by_two_indices_too_and_have_boundary_conditions() -> None:
    f = tm.Function("sums", params=[N, M], assume="N >= 1 and M >= 1")
    x = f.input("x", tm.int32, [N * M])
    around = tm.boundary.repeat_edge(x)
    f.outputs(f.computation("y", {i: N, j: M}, x[i, j] + around[i - 1, j + 1]))
    given = np.arange(15, dtype=np.int32)
    rows = given.reshape(3, 5)
    moved = rows[[0, 0, 1]][:, [1, 2, 3, 4, 4]]
    np.testing.assert_array_equal(f.compile()(given, N=3), rows + moved)


def test_ranks_have_parts_of_dimensions() -> None:
    f = reading(N * M, (N, M), i * M + j)
    y = f["y"]
    y.distribute_array([i, j], rank=i // 4)
    (violation,) = (each for each in f.check().violations if each.kind == "reach")
    assert violation.repair == "declare x with the shape [N, M]"


def test_linearised_arrays_are_clean_under_the_sanitizers() -> None:
    check_clean("tests.algorithm.domains.rows_under_sanitizers")

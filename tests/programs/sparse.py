"""Sparse formats and scatters, each schedule with arguments of awkward sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import tiramisu_py as tm

N, M, P, W = tm.params("N M P W")
i, p, v, w, i0, i1 = tm.iters("i p v w i0 i1")

Array = np.ndarray[Any, np.dtype[Any]]
Schedule = Callable[[tm.Function, Any], object]
#: Entries in each row: none, empty rows, a long row, full vectors and one more.
LENGTHS = ([], [0], [1], [0, 0, 0], [2, 0, 1, 3], [0, 19, 0, 1, 0], [3] * 8, [1, 2] * 8 + [5])


@dataclass(frozen=True, eq=False)
class Case:
    """A program; `arguments` of all sizes; `exact` if terms are combined in the order of the algorithm."""

    make: Callable[[], tm.Function]
    arguments: Callable[[], Iterator[dict[str, Any]]]
    exact: bool = True


def made(parts: Callable[[], tuple[tm.Function, Any]], schedule: Schedule) -> Callable[[], tm.Function]:
    def make() -> tm.Function:
        f, y = parts()
        schedule(f, y)
        return f

    return make


def csr() -> tuple[tm.Function, Any]:
    f = tm.Function("csr", params=[N, M, P])
    start = f.input("start", tm.int32, [N + 1], values=(0, P + 1), monotone=True)
    column = f.input("column", tm.int32, [P], values=(0, M))
    value, x = f.input("value", tm.float32, [P]), f.input("x", tm.float32, [M])
    y = f.reduction("y", {i: N}, over={p: (start[i], start[i + 1])}, op=tm.sum, expr=value[p] * x[column[p]])
    f.outputs(y)
    return f, y


def coo() -> tuple[tm.Function, Any]:
    f = tm.Function("coo", params=[N, M, P])
    row, column = (f.input(name, tm.int32, [P], values=(0, n)) for name, n in (("row", N), ("column", M)))
    value, x = f.input("value", tm.float32, [P]), f.input("x", tm.float32, [M])
    y = f.reduction("y", {i: N}, over={p: P}, op=tm.sum, expr=value[p] * x[column[p]], where=row[p] == i)
    f.outputs(y)
    return f, y


def ell() -> tuple[tm.Function, Any]:
    f = tm.Function("ell", params=[N, M, W])
    length = f.input("length", tm.int32, [N], values=(0, W + 1))
    column = f.input("column", tm.int32, [W, N], values=(0, M))
    value, x = f.input("value", tm.float32, [W, N]), f.input("x", tm.float32, [M])
    y = f.reduction("y", {i: N}, over={w: W}, op=tm.sum, expr=value[w, i] * x[column[w, i]], where=w < length[i])
    f.outputs(y)
    return f, y


def marked() -> tuple[tm.Function, Any]:
    """The same, where a column of -1 says that there is no entry."""
    f = tm.Function("marked", params=[N, M, W], assume="M >= 1")
    column = f.input("column", tm.int32, [W, N], values=(-1, M))
    value, x = f.input("value", tm.float32, [W, N]), f.input("x", tm.float32, [M])
    term = value[w, i] * x[tm.max(column[w, i], 0)]
    y = f.reduction("y", {i: N}, over={w: W}, op=tm.sum, expr=term, where=column[w, i] >= 0)
    f.outputs(y)
    return f, y


def scatter() -> tuple[tm.Function, Any]:
    f = tm.Function("scatter", params=[N])
    order = f.input("order", tm.int32, [N], values=(0, N), permutation=True)
    a = f.input("a", tm.float32, [N])
    y = f.computation("y", {i: N, v: N}, a[i] + 1, where=order[i] == v)
    y.store_in(tm.Buffer("placed", [N], tm.float32), [v])
    f.outputs(y)
    return f, y


def inverse() -> tuple[tm.Function, Any]:
    f = tm.Function("inverse", params=[N])
    order = f.input("order", tm.int32, [N], values=(0, N), permutation=True)
    y = f.reduction("y", {v: N}, over={i: N}, op=tm.sum, expr=i, where=order[i] == v, dtype=tm.int64)
    f.outputs(y)
    return f, y


def scaled() -> tuple[tm.Function, Any]:
    f = tm.Function("scaled", params=[N, P])
    start = f.input("start", tm.int32, [N + 1], values=(0, P + 1), monotone=True)
    value, factor = f.input("value", tm.float32, [P]), f.input("factor", tm.float32, [N])
    y = f.computation("y", {i: N, p: (start[i], start[i + 1])}, value[p] * factor[i])
    y.store_in(tm.Buffer("entries", [P], tm.float32), [p])
    f.outputs(y)
    return f, y


def by_rows() -> Iterator[dict[str, Any]]:
    for seed, lengths in enumerate(LENGTHS):
        rng = np.random.default_rng(seed)
        start = np.cumsum([0, *lengths]).astype(np.int32)
        count, columns = int(start[-1]), int(rng.integers(1, 20))
        yield {
            "start": start, "column": rng.integers(0, columns, count).astype(np.int32),
            "value": rng.normal(size=count).astype(np.float32), "x": rng.normal(size=columns).astype(np.float32),
        }  # fmt: skip


def by_coordinates() -> Iterator[dict[str, Any]]:
    for seed, (lengths, rows) in enumerate(zip(LENGTHS, by_rows(), strict=True)):
        mixed = np.random.default_rng(seed).permutation(len(rows["column"]))
        row = np.repeat(np.arange(len(lengths)), lengths).astype(np.int32)
        parts = {"row": row[mixed], "column": rows["column"][mixed], "value": rows["value"][mixed], "x": rows["x"]}
        yield {**parts, "N": len(lengths)}


def padded(marks: bool = False) -> Iterator[dict[str, Any]]:
    """Columns and values side by side; what is no entry is NaN, times some element or none."""
    for lengths, rows in zip(LENGTHS, by_rows(), strict=True):
        width = max(lengths, default=0)
        column = np.full((width, len(lengths)), -1 if marks else 0, np.int32)
        value = np.full(column.shape, np.nan, np.float32)
        for number, (low, count) in enumerate(zip(rows["start"], lengths, strict=False)):
            column[:count, number] = rows["column"][low : low + count]
            value[:count, number] = rows["value"][low : low + count]
        length = {} if marks else {"length": np.array(lengths, np.int32)}
        yield {**length, "column": column, "value": value, "x": rows["x"]}


def permuted(values: bool = True) -> Iterator[dict[str, Any]]:
    for size in (0, 1, 2, 7, 8, 9, 41):
        rng = np.random.default_rng(size)
        a = {"a": rng.normal(size=size).astype(np.float32)} if values else {}
        yield {"order": rng.permutation(size).astype(np.int32), **a}


def row_factors() -> Iterator[dict[str, Any]]:
    for lengths, rows in zip(LENGTHS, by_rows(), strict=True):
        yield {"start": rows["start"], "value": rows["value"], "factor": np.arange(len(lengths), dtype=np.float32)}


def strips(f: tm.Function, y: Any) -> object:
    return y.update.split(i, 8, i0, i1).reorder(i0, w, i1).vectorize(i1, 8).parallelize(i0)


CASES: dict[str, Case] = {
    "rows on threads": Case(made(csr, lambda f, y: y.update.parallelize(i)), by_rows),
    "rows on threads, balanced": Case(made(csr, lambda f, y: y.update.parallelize(i, balance=f["start"])), by_rows),
    "coordinates": Case(made(coo, lambda f, y: None), by_coordinates),
    "coordinates, private": Case(
        made(coo, lambda f, y: y.update.parallelize(p, combine=tm.PRIVATE)), by_coordinates, exact=False
    ),
    "coordinates, atomic": Case(
        made(coo, lambda f, y: y.update.parallelize(p, combine=tm.ATOMIC)), by_coordinates, exact=False
    ),
    "padded rows, one by one": Case(made(ell, lambda f, y: None), padded),
    "padded rows in strips": Case(made(ell, strips), padded),
    **{
        f"padded rows, {rest}": Case(
            made(ell, lambda f, y, rest=rest: y.update.interchange(i, w).vectorize(i, 4, remainder=rest)), padded
        )
        for rest in ("scalar", "mask")
    },
    "padded rows with marks": Case(made(marked, strips), lambda: padded(marks=True)),
    **{
        f"scatter, {rest}": Case(made(scatter, lambda f, y, rest=rest: y.vectorize(i, 8, remainder=rest)), permuted)
        for rest in ("scalar", "mask", "overlap")
    },
    "scatter on threads": Case(made(scatter, lambda f, y: y.split(i, 4, i0, i1).parallelize(i0)), permuted),
    "scatter, tiled": Case(
        made(scatter, lambda f, y: y.tile(i, v, 4, 4, i0, "v0", i1, "v1").parallelize(i0)), permuted
    ),
    "inverse on threads": Case(made(inverse, lambda f, y: y.update.parallelize(i)), lambda: permuted(values=False)),
    "inverse in vectors": Case(made(inverse, lambda f, y: y.update.vectorize(i, 8)), lambda: permuted(values=False)),
    "entries of rows": Case(made(scaled, lambda f, y: y.parallelize(i)), row_factors),
    "entries in vectors": Case(made(scaled, lambda f, y: y.vectorize(p, 8)), row_factors),
}


def expected(f: tm.Function, arguments: dict[str, Any]) -> Array:
    """The values that the algorithm defines, in the array that keeps them."""
    found = f.evaluate(**arguments)
    if f.name == "scatter":
        wanted = np.zeros(len(arguments["order"]), np.float32)
        wanted[arguments["order"]] = arguments["a"] + 1
        return wanted
    if f.name == "scaled":
        lengths = np.diff(arguments["start"])
        return np.asarray(arguments["value"] * np.repeat(arguments["factor"], lengths), np.float32)
    return np.asarray(found)


def compare(got: Any, wanted: Array, exact: bool) -> None:
    if exact:
        np.testing.assert_array_equal(got, wanted)
    else:
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)

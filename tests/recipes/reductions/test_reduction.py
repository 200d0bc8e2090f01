"""The recipe for reductions of any dimensions: its form, bits, odd sizes beside NumPy, and what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.recipes.texts import commands
from tests.selection import covering, first
from tiramisu_py.errors import ArgumentError
from tiramisu_py.recipes import Cpu

WIDE = Cpu(vector_bytes=64, registers=32, first=48 << 10, second=2 << 20)
H, N, M = tm.params("H N M")
NAMES = h, w, x, y = tm.iters("h w x y")
#: Shapes, and the iterators of values; the others are reduced.
FORMS: dict[str, tuple[tuple[Any, ...], str]] = {
    "whole": ((N,), ""), "whole, joined": ((H, 10, 5), ""), "whole, two sizes": ((N, M), ""),
    "rows": ((N, M), "h"), "rows, joined": ((H, 3, 10, 5), "hw"), "rows between": ((H, 4, 10, 5), "w"),
    "columns": ((N, M), "w"), "columns, more rows": ((8, 16, H), "x"), "columns inside": ((3, H, 37), "hx"),
}  # fmt: skip
EXTENTS = [0, 1, 31, 33, 1025]
#: Operators with types, and NumPy's equivalents.
KINDS = [
    (tm.sum, tm.float32, np.sum), (tm.max, tm.float32, np.max), (tm.sum, tm.int32, np.sum), (tm.min, tm.int8, np.min),
    (tm.product, tm.float64, np.prod), (tm.logical_or, tm.bool, np.any),
]  # fmt: skip


def reduced(form: str, op: Any = tm.sum, dtype: tm.DType = tm.float32) -> tuple[tm.Function, tm.Reduction]:
    """A reduction of twice the elements of an array; of truth values, of the elements."""
    shape, values = FORMS[form]
    names = NAMES[: len(shape)]
    f = tm.Function("reduced", params=[size for size in shape if not isinstance(size, int)])
    a = f.input("a", dtype, list(shape))
    extents = dict(zip(names, shape, strict=True))
    p = f.computation("p", extents, a[names] if dtype.is_bool else a[names] * tm.cast(dtype, 2))
    domain = {name: size for name, size in extents.items() if str(name) in values}
    over = {name: size for name, size in extents.items() if str(name) not in values}
    t = f.reduction("t", domain, over, op, p[names])
    f.outputs(t)
    return f, t


@pytest.mark.parametrize(("form", "kind", "extent"), covering([*FORMS], [*range(len(KINDS))], EXTENTS))
def test_it_is_right_at_odd_sizes(form: str, kind: int, extent: int) -> None:
    op, dtype, numpys = KINDS[kind]
    f, t = reduced(form, op, dtype)
    tm.recipes.reduction(t, cpu=WIDE)
    assert f.check().ok
    sizes, values = FORMS[form]
    shape = [size if isinstance(size, int) else min(extent, 67) if k else extent for k, size in enumerate(sizes)]
    random = np.random.default_rng(extent)
    a = (random.integers(0, 3, shape) if not dtype.is_float else random.uniform(0.4, 0.6, shape)).astype(dtype.numpy)
    given = a if dtype.is_bool else (a * 2).astype(dtype.numpy)
    axes = tuple(k for k, name in enumerate(NAMES[: len(shape)]) if str(name) not in values)
    got = f.compile()(a)
    if math.prod(shape[k] for k in axes) == 0 and numpys in (np.max, np.min):
        np.testing.assert_array_equal(got, f.evaluate(a))
    elif dtype.is_float:
        np.testing.assert_allclose(got, numpys(given, axis=axes, dtype=np.float64) if numpys is not np.max
                                   else given.max(axis=axes), rtol=1e-4)  # fmt: skip
    else:
        np.testing.assert_array_equal(got, numpys(given, axis=axes).astype(dtype.numpy))


def test_joined_terms_run_in_contiguous_vectors_and_producers_are_inlined() -> None:
    _, t = reduced("rows, joined")
    text = tm.recipes.reduction(t, cpu=WIDE)
    assert commands(text) == [
        "t.update.coalesce(x, y, into=j)",
        "t.update.after(t.init, w)",
        "t.update.parallelize(h, w)",
        "t.update.vectorize(j, 64, combine=tm.PRIVATE)",
        "p.inline()",
    ]


@pytest.mark.parametrize("form", first([*FORMS], 4))
def test_bits_are_the_same_everywhere_or_those_of_the_order(form: str) -> None:
    f, t = reduced(form)
    tm.recipes.reduction(t, cpu=WIDE)
    report = str(f.check())
    assert "run_to_run" not in report and "not_guaranteed" not in report
    f, t = reduced(form)
    tm.recipes.reduction(t, determinism="ordered", cpu=WIDE)
    assert f.check().bits == "bits preserved"


def test_its_text_gives_the_same_program() -> None:
    f, t = reduced("whole, joined")
    text = tm.recipes.reduction(t, cpu=WIDE)
    other, t = reduced("whole, joined")
    exec(text, {"tm": tm, "f": other})
    assert other.show("pseudocode") == f.show("pseudocode")


def mean(f: tm.Function) -> tm.Computation:
    return f.reduction("m", {h: N}, {w: M}, tm.mean, f["p"][h, w])


def scattered(f: tm.Function) -> tm.Computation:
    where = f.input("where", tm.int32, [N], values=(0, 9))
    return f.scatter("counts", {x: 9}, {h: N}, at=[where[h]], op=tm.sum, expr=1)


def test_columns_of_a_view_run_side_by_side_in_vectors() -> None:
    f = tm.Function("viewed", params=[])
    a = f.input("a", tm.float32, [4, 16, 12, 64])
    t = f.reduction("t", {y: 768}, {x: 64}, tm.sum, a.reshape([64, 768])[x, y])
    f.outputs(t)
    text = tm.recipes.reduction(t, cpu=WIDE)
    assert "combine=tm.PRIVATE" not in text
    assert "GATHER" not in f.source()["viewed.c"] and "STRIDED" not in f.source()["viewed.c"]
    values = np.random.default_rng(0).integers(-9, 9, (4, 16, 12, 64)).astype(np.float32)
    np.testing.assert_array_equal(f.compile()(values), values.sum((0, 1)).ravel())


@pytest.mark.parametrize("reads", [False, True])
def test_columns_over_the_same_points_are_read_once_unless_one_reads_the_other(reads: bool) -> None:
    f = tm.Function("both", params=[N])
    a = f.input("a", tm.int32, [4, 9, N])
    s = f.reduction("s", {y: N}, {w: 4, x: 9}, tm.sum, a[w, x, y])
    apart = f.computation("apart", {w: 4, x: 9, y: N}, a[w, x, y] - s[y] if reads else a[w, x, y])
    t = f.reduction("t", {y: N}, {w: 4, x: 9}, tm.max, apart[w, x, y])
    f.outputs(s, t)
    text = tm.recipes.reduction(s, t, cpu=WIDE)
    assert f.check().ok and ("t.update.after(s.update, y0)" in text) != reads
    for size in (0, 1, 67):
        values = np.random.default_rng(size).integers(-9, 9, (4, 9, size), np.int32)
        sums, largest = f.compile()(values)
        np.testing.assert_array_equal(sums, values.sum((0, 1)))
        np.testing.assert_array_equal(largest, values.max((0, 1), initial=-(2**31)) - (sums if reads else 0))


def test_a_declared_order_is_kept() -> None:
    f = tm.Function("kept", params=[N, M])
    a = f.input("a", tm.float32, [N, M])
    t = f.reduction("t", {h: N}, {w: M}, tm.sum, a[h, w], determinism="ordered")
    f.outputs(t)
    assert "combine" not in tm.recipes.reduction(t, cpu=WIDE)
    assert f.check().determinism["t"] == "ordered"


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (lambda f, t: f["p"], {}, "p is not a reduction, and depends on none"),
        (lambda f, t: mean(f), {"on": tm.cores(ranks=range(2))}, r'm is not a reduction: name those .*, f\["m_sum"\]'),
        (lambda f, t: scattered(f), {}, "counts is a scatter, whose terms say where they go"),
        (lambda f, t: t.parallelize(h) and t, {}, "has been scheduled already"),
        (lambda f, t: t, {"on": "gpu"}, "on='gpu': it schedules for tm.cores"),
        (lambda f, t: t, {"sizes": {"lane": 4}}, "there is no size 'lane' here: there are lanes, block, rows, strip"),
        (lambda f, t: t, {"determinism": "always"}, "determinism='always': give one of ordered, everywhere"),
    ],
)
def test_others_are_refused(given: Any, options: dict[str, Any], message: str) -> None:
    f, t = reduced("rows")
    stage = given(f, t)
    before = f.show("pseudocode")
    with pytest.raises(ArgumentError, match=message):
        tm.recipes.reduction(stage, cpu=WIDE, **options)
    assert f.show("pseudocode") == before


def test_tuples_run_side_by_side_in_a_power_of_two_of_lanes() -> None:
    f = tm.Function("largest", params=[N])
    a = f.input("a", tm.float32, [7, N])
    t = f.reduction("t", {w: N}, {h: 7}, tm.argmax, (a[h, w], h))
    f.outputs(t)
    tm.recipes.reduction(t, cpu=WIDE)
    kernel = f.compile()
    for extent in (1, 33):
        given = np.random.default_rng(extent).standard_normal((7, extent), dtype=np.float32)
        np.testing.assert_array_equal(kernel(given)[1], given.argmax(axis=0))


def test_terms_of_tuples_are_combined_in_lanes() -> None:
    for form in ("rows", "whole"):
        f = tm.Function("largest", params=[N], assume="N >= 1")
        a = f.input("a", tm.float32, [7, N])
        t = f.reduction("t", {h: 7} if form == "rows" else {}, {w: N}, tm.argmax, a[h if form == "rows" else 3, w])
        f.outputs(t)
        text = tm.recipes.reduction(t, cpu=WIDE)
        assert "combine=tm.PRIVATE" in text and f.check().determinism["t"] == "ordered"
        kernel = f.compile(threads=2)
        for extent in (1, 33, 5000):
            given = np.random.default_rng(extent).integers(0, 9, (7, extent)).astype(np.float32)
            np.testing.assert_array_equal(kernel(given)[1], given.argmax(1) if form == "rows" else given[3].argmax())


def test_a_schedule_of_its_space_is_found_by_tune() -> None:
    space = tm.recipes.reduction_space(reduced("whole")[1], cpu=WIDE)
    assert {name for name, values in space.items() if len(values) > 1} == {"lanes", "block"}

    def make(**sizes: int) -> tm.Function:
        f, t = reduced("whole")
        tm.recipes.reduction(t, cpu=WIDE, sizes=sizes)
        return f

    found = tm.tune(make, space, sizes={"N": 5000}, search="random", points=2, repeats=1)
    assert found.best.parameters.keys() == {"lanes", "block", "rows", "strip"}


def test_blocks_of_neighbours_run_on_threads_where_the_operator_does_not_commute() -> None:
    last = tm.operator("last", lambda a, b: tm.select(b >= 0, b, a), lambda dtype: -1, commutative=False)
    f = tm.Function("last", params=[N])
    a = f.input("a", tm.int32, [N])
    t = f.reduction("t", {}, {h: N}, last, a[h])
    f.outputs(t)
    assert "parallelize(h0)" in tm.recipes.reduction(t, cpu=WIDE, sizes={"block": 8})
    assert f.check().ok
    given = np.where(np.arange(100) < 77, np.arange(100), -1).astype(np.int32)
    assert f.compile(threads=2)(given) == 76


@pytest.mark.parametrize(("columns", "shared"), [(40, True), (33, True), (1025, False), (M, False)])
@pytest.mark.parametrize("rows", [39, 67])
def test_threads_share_blocks_of_rows_where_all_columns_are_one_strip(columns: Any, shared: bool, rows: int) -> None:
    sizes = [N] if isinstance(columns, int) else [N, M]
    f = tm.Function("few", params=sizes, assume="N >= 32")
    a = f.input("a", tm.float32, [N, columns])
    t = f.reduction("t", {w: columns}, {h: N}, tm.sum, a[h, w])
    f.outputs(t)
    text = tm.recipes.reduction(t, cpu=WIDE, sizes={"block": 8, "rows": 4})
    assert ("t_partial.update.parallelize(h2)" in text) == shared
    assert "everywhere" in str(f.check())
    given = np.random.default_rng(rows).standard_normal((rows, columns if isinstance(columns, int) else 7), np.float32)
    scheduled = f.evaluate(given, as_scheduled=True)
    np.testing.assert_allclose(scheduled, given.sum(0, dtype=np.float64), rtol=1e-4, atol=1e-5)
    for threads in (1, 3):
        np.testing.assert_array_equal(f.compile(threads=threads)(given), scheduled)


def test_blocks_of_rows_need_rows_at_every_size() -> None:
    f = tm.Function("few", params=[N])
    a = f.input("a", tm.float32, [N, 40])
    t = f.reduction("t", {w: 40}, {h: N}, tm.sum, a[h, w])
    f.outputs(t)
    assert "t.update.parallelize(w2)" in tm.recipes.reduction(t, cpu=WIDE)


def several(columns: int, rows: int) -> tuple[tm.Function, list[tm.Reduction]]:
    """Two sums over N times so many rows of two arrays."""
    f = tm.Function("several", params=[N], assume="N >= 64")
    a, b = (f.input(name, tm.float32, [N, rows, columns]) for name in ("a", "b"))
    both = [a[h, x, w] * b[h, x, w], a[h, x, w] + b[h, x, w]]
    sums = [f.reduction(f"s{k}", {w: columns}, {h: N, x: rows}, tm.sum, term) for k, term in enumerate(both)]
    f.outputs(*sums)
    return f, sums


@pytest.mark.parametrize(
    ("columns", "rows", "shared"), [(40, 5, "h2"), (33, 16, "h"), (40, 1, "h2"), (1030, 5, ""), (40, 0, "")]
)
def test_threads_share_blocks_of_terms_over_several_loops(columns: int, rows: int, shared: str) -> None:
    f, sums = several(columns, rows)
    text = tm.recipes.reduction(*sums, cpu=WIDE, sizes={"block": 16, "rows": 4})
    assert (f"s0_partial.update.parallelize({shared})" if shared else "s0.update.parallelize(w2)") in text
    assert ("s1_partial.update.after(s0_partial.update, w0)" in text) == bool(shared)
    assert ("everywhere" in str(f.check())) == bool(shared)
    random = np.random.default_rng(rows)
    given = [random.standard_normal((67, rows, columns), np.float32) for _ in range(2)]
    scheduled = f.evaluate(*given, as_scheduled=True)
    for found, exact in zip(scheduled, (given[0] * given[1], given[0] + given[1]), strict=True):
        np.testing.assert_allclose(found, exact.sum((0, 1), dtype=np.float64), rtol=1e-4, atol=1e-4)
    for threads in (1, 3):
        for found, value in zip(f.compile(threads=threads)(*given), scheduled, strict=True):
            np.testing.assert_array_equal(found, value)


def test_terms_in_order_are_not_cut_in_blocks() -> None:
    f, sums = several(40, 5)
    assert "rfactor" not in tm.recipes.reduction(*sums, cpu=WIDE, sizes={"block": 16}, determinism="ordered")
    given = [np.random.default_rng(k).standard_normal((67, 5, 40), np.float32) for k in range(2)]
    for found, value in zip(f.compile(threads=2)(*given), f.evaluate(*given), strict=True):
        np.testing.assert_array_equal(found, value)


@pytest.mark.parametrize("dtype", [tm.float16, tm.bfloat16], ids=str)
def test_sums_of_halves_have_the_same_bits_on_any_number_of_threads(dtype: tm.DType) -> None:
    f = tm.Function("halves", params=[N], assume="N >= 64")
    a = f.input("a", tm.float32, [N, 75])
    t = f.reduction("t", {w: 75}, {h: N}, tm.sum, tm.cast(dtype, a[h, w]), accumulate=tm.float32)
    f.outputs(t)
    tm.recipes.reduction(f["t_float32"], cpu=WIDE, sizes={"block": 16, "rows": 4})
    assert "everywhere" in str(f.check())
    given = np.random.default_rng(0).standard_normal((131, 75), np.float32)
    scheduled = f.evaluate(given, as_scheduled=True)
    for threads in (1, 2, 3):
        np.testing.assert_array_equal(f.compile(threads=threads)(given), scheduled)


def planes(values: tuple[int, int], terms: int, arrays: int = 1) -> tuple[tm.Function, tm.Reduction]:
    """The sums over the first dimension of one array, or of two of them together."""
    f = tm.Function("planes", params=[])
    given = [f.input(f"a{k}", tm.float32, [terms, *values]) for k in range(arrays)]
    elements = [each[h, w, x] for each in given]
    t = f.reduction("t", {w: values[0], x: values[1]}, {h: terms}, tm.sum, sum(elements[1:], elements[0]))
    f.outputs(t)
    return f, t


@pytest.mark.parametrize(
    ("values", "cores", "strip"),
    [
        ((50, 96), 1, 4800),
        ((50, 96), 3, 1600),
        ((3, 1033), 2, 1550),
        ((75, 64), 2, 2400),
        ((1, 5003), 1, 5003),
        ((50, 163), 1, 8150),
        ((50, 164), 1, 2050),
    ],
)
def test_strips_go_over_several_dimensions_and_there_are_as_many_for_each_core(
    values: tuple[int, int], cores: int, strip: int
) -> None:
    cpu = Cpu(vector_bytes=32, registers=16, first=32 << 10, second=64 << 10, cores=cores)
    f, t = planes(values, terms=7)
    text = tm.recipes.reduction(t, cpu=cpu)
    assert "t.coalesce(w, x, into=j)" in text and f"t.update.split(j0, {-(-strip // 16)}, j2, j0)" in text
    assert f"split(h, {2 if strip == values[0] * values[1] else 4}, h0, h1)" in text
    assert "bits preserved" in str(f.check())
    a = np.random.default_rng(0).standard_normal((7, *values), np.float32)
    in_turn = np.zeros(values, np.float32)
    for plane in a:
        in_turn += plane
    for threads in (1, 2, 3):
        np.testing.assert_array_equal(f.compile(threads=threads)(a), in_turn)


@pytest.mark.parametrize(("arrays", "rows"), [(1, "split(h, 4, h0, h1)"), (2, "split(h, 2, h0, h1)"), (5, "")])
def test_four_runs_of_memory_are_read_in_turn_for_a_long_strip(arrays: int, rows: str) -> None:
    f, t = planes((60, 50), 9, arrays)
    text = tm.recipes.reduction(t, cpu=replace(WIDE, cores=2))
    assert (rows in text) if rows else ("split(h" not in text and "unroll" not in text)
    given = [np.random.default_rng(k).integers(0, 99, (9, 60, 50)).astype(np.float32) for k in range(arrays)]
    np.testing.assert_array_equal(f.compile(threads=2)(*given), sum(given).sum(0))


def test_values_that_lie_apart_or_have_no_constant_number_are_not_joined() -> None:
    f = tm.Function("middle", params=[])
    a = f.input("a", tm.float32, [60, 7, 50])
    t = f.reduction("t", {h: 60, x: 50}, {w: 7}, tm.sum, a[h, w, x])
    f.outputs(t)
    assert "coalesce" not in tm.recipes.reduction(t, cpu=WIDE)
    g = tm.Function("unknown", params=[N])
    b = g.input("b", tm.float32, [7, N, 50])
    u = g.reduction("u", {w: N, x: 50}, {h: 7}, tm.sum, b[h, w, x])
    g.outputs(u)
    assert "coalesce" not in tm.recipes.reduction(u, cpu=WIDE)
    assert "coalesce" not in tm.recipes.reduction(planes((60, 50), 7)[1], cpu=WIDE, coalesce=False)
    assert "coalesce" not in tm.recipes.reduction(planes((60, 50), 7)[1], cpu=WIDE, sizes={"strip": 8})


def test_sums_that_share_long_strips_are_right() -> None:
    f = tm.Function("both", params=[])
    a, b = (f.input(name, tm.float32, [6, 65, 41]) for name in ("a", "b"))
    terms = [a[h, w, x] * b[h, w, x], a[h, w, x] - b[h, w, x]]
    sums = [f.reduction(f"s{k}", {w: 65, x: 41}, {h: 6}, tm.sum, term) for k, term in enumerate(terms)]
    f.outputs(*sums)
    text = tm.recipes.reduction(*sums, cpu=WIDE)
    assert text.count("coalesce") == 2 and "s1.update.after(s0.update, j0)" in text
    given = [np.random.default_rng(k).integers(0, 9, (6, 65, 41)).astype(np.float32) for k in range(2)]
    for threads in (1, 2):
        product, difference = f.compile(threads=threads)(*given)
        np.testing.assert_array_equal(product, (given[0] * given[1]).sum(0))
        np.testing.assert_array_equal(difference, (given[0] - given[1]).sum(0))

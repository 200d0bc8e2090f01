"""coalesce of loops with several symbolic extents: a bundle on threads, its terms in parts, and what it is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.oracle.judges.given import GivenValues
from tests.oracle.judges.judge import judge
from tests.selection import first

N, M, K = tm.params("N M K")
h, x, y, i, j, k, jb, jt, jr, jg = tm.iters("h x y i j k jb jt jr jg")

#: Extents of nothing, of one, primes, and a power of two.
SIZES = [*product([0, 1, 2, 5], [0, 1, 7], [0, 1, 3, 64])]
THREADS = [1, 2, 3, 7]
Make = Callable[..., tuple[tm.Function, Any]]


def whole(dtype: Any = tm.int32, op: Any = tm.sum) -> tuple[tm.Function, Any]:
    """A reduction of all elements of an array, each with one of a row that all planes share."""
    f = tm.Function("whole", params=[N, M, K])
    a, b = f.input("a", dtype, [N, M, K]), f.input("b", dtype, [M])
    s = f.reduction("s", {}, {h: N, x: M, y: K}, op, a[h, x, y] * b[x])
    f.outputs(s)
    s.update.coalesce(h, x, y, into=j)
    return f, s.update


def planes(dtype: Any = tm.int32) -> tuple[tm.Function, Any]:
    """The sum of each plane, in a bundle of values and terms."""
    f = tm.Function("planes", params=[N, M, K])
    a, b = f.input("a", dtype, [N, M, K]), f.input("b", dtype, [M])
    s = f.reduction("s", {h: N}, {x: M, y: K}, tm.sum, a[h, x, y] + b[x])
    f.outputs(s)
    s.update.coalesce(h, x, y, into=j)
    return f, s.update


def elementwise() -> tuple[tm.Function, Any]:
    """An array and a row for all of its planes, with one more plane, row and column around."""
    f = tm.Function("elementwise", params=[N, M, K])
    a, b = f.input("a", tm.int32, [N, M, K]), f.input("b", tm.int32, [M])
    o = f.computation("o", "[N, M, K] -> { o[h, x, y] : 1 <= h <= N and 2 <= x < M + 2 and 0 <= y < K }",
                      a[h - 1, x - 2, y] * b[x - 2])  # fmt: skip
    f.outputs(o)
    o.coalesce(h, x, y, into=j)
    return f, o


def given(sizes: tuple[int, int, int], dtype: Any = np.int32) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.integers(-9, 9, sizes).astype(dtype), rng.integers(-9, 9, sizes[1]).astype(dtype)


def body(f: tm.Function) -> str:
    text = f.source()[f"{f.name}.c"]
    return text[text.index(f"int {f.name}(") :]


ON_THREADS: dict[str, tuple[Make, dict[str, Any]]] = {
    "values": (elementwise, {}),
    "values in chunks": (elementwise, {"chunk": 7}),
    "values in chunks as threads ask": (elementwise, {"schedule": "dynamic", "chunk": 5}),
    "values in smaller and smaller chunks": (elementwise, {"schedule": "guided", "chunk": 3}),
    "private copies": (whole, {"combine": tm.PRIVATE}),
    "private copies in chunks": (whole, {"combine": tm.PRIVATE, "chunk": 4}),
    "atomic updates": (whole, {"combine": tm.ATOMIC}),
    "a tree": (whole, {"combine": tm.TREE}),
    "private copies of planes": (planes, {"combine": tm.PRIVATE}),
    "atomic updates of planes": (planes, {"combine": tm.ATOMIC, "chunk": 3}),
}


@pytest.mark.parametrize("threads", first(THREADS, 2))
@pytest.mark.parametrize("way", ON_THREADS)
def test_threads_share_all_iterations_of_a_bundle(way: str, threads: int) -> None:
    make, how = ON_THREADS[way]
    f, o = make()
    o.parallelize(j, **how)
    assert f.check().ok
    kernel = f.compile(threads=threads)
    for sizes in SIZES:
        arrays = given(sizes)
        np.testing.assert_array_equal(kernel(*arrays), f.evaluate(*arrays), err_msg=str(sizes))


@pytest.mark.parametrize("how", [{}, {"combine": tm.PRIVATE}, {"combine": tm.TREE}], ids=["values", "private", "tree"])
def test_the_loops_of_a_range_divide_only_before_the_first(how: dict[str, Any]) -> None:
    f, o = whole() if how else elementwise()
    o.parallelize(j, **how)
    lines = body(f).splitlines()
    loop = next(at for at, line in enumerate(lines) if "for (int64_t h = " in line)
    inside = [line for line in lines[loop:] if line.startswith(" " * (len(lines[loop]) - len(lines[loop].lstrip())))]
    nest = inside[: next(at for at, line in enumerate(inside) if at and line.strip() == "}" and
                         len(line) - len(line.lstrip()) == len(lines[loop]) - len(lines[loop].lstrip()))]  # fmt: skip
    assert "for (int64_t y = " in "\n".join(nest)
    assert not re.search(r"[/%]|_div_|_mod_", "\n".join(line for line in nest if "//" not in line))


def test_an_array_that_the_bundle_runs_along_is_read_by_the_number_of_the_term() -> None:
    f = tm.Function("along", params=[N, M, K])
    a = f.input("a", tm.float32, [N, M, K])
    s = f.reduction("s", {}, {h: N, x: M, y: K}, tm.max, a[h, x, y])
    f.outputs(s)
    s.update.coalesce(h, x, y, into=j).parallelize(j, combine=tm.TREE)
    assert "a[h_x_y_number]" in body(f) and "_mod_" not in body(f)
    values = np.random.default_rng(1).standard_normal((5, 7, 3), dtype=np.float32)
    assert f.compile(threads=3)(values) == values.max()


def test_the_pseudocode_and_the_loops_show_the_bundle() -> None:
    f, o = elementwise()
    assert f.show("pseudocode").count("of the bundle j") == 3
    o.split(j, 64, jb, jt)
    assert "of the bundle jb, jt" in f.show("pseudocode")


@pytest.mark.parametrize("parts", [(4,), (4, 3), (2, 3, 2)])
def test_terms_are_dealt_out_to_loops_of_constant_length(parts: tuple[int, ...]) -> None:
    f, update = whole()
    names, joined = list[Any](), j
    for at, part in enumerate(parts):
        outer, inner = tm.iters(f"o{at} i{at}")
        update.split(joined, part, outer, inner)
        names.insert(0, inner)
        joined = outer
    update.reorder(*names, joined)
    text = body(f)
    assert re.search(r"for \(int64_t h_x_y_step", text) and "%" not in text
    assert f.check().ok
    kernel = f.compile()
    for sizes in SIZES:
        arrays = given(sizes)
        np.testing.assert_array_equal(kernel(*arrays), f.evaluate(*arrays), err_msg=str(sizes))


@pytest.mark.parametrize("seed", range(3))
def test_partial_results_of_dealt_terms_have_the_bits_of_the_schedule(seed: int) -> None:
    f, update = whole(tm.float32)
    update.split(j, 8, jb, jt)
    update.rfactor(jt).update.parallelize(jt)
    assert f.check().ok and str(f.check()).count("everywhere") == 1
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((3, 5, 7), np.float32) * 1e3, rng.standard_normal(5, np.float32)
    results = {f.compile(threads=threads)(a, b).tobytes() for threads in (1, 3)}
    assert results == {np.asarray(f.evaluate(a, b, as_scheduled=True)).tobytes()}


def test_a_tree_of_ranges_has_the_same_bits_on_any_number_of_threads() -> None:
    f, update = whole(tm.float32)
    update.parallelize(j, combine=tm.TREE)
    rng = np.random.default_rng(7)
    a, b = rng.standard_normal((11, 13, 7), np.float32) * 1e3, rng.standard_normal(13, np.float32)
    results = {f.compile(threads=threads)(a, b).tobytes() for threads in THREADS}
    assert results == {np.asarray(f.evaluate(a, b, as_scheduled=True)).tobytes()}
    np.testing.assert_allclose(f.compile()(a, b), (a * b[:, None]).sum(dtype=np.float64), rtol=1e-3)


def first_of(commutative: bool) -> tuple[tm.Function, Any]:
    """The first term that is not 0, in the order of the terms."""
    op = tm.operator("first", lambda p, q: tm.select(p != 0, p, q), identity=0, commutative=commutative)
    return whole(tm.int32, op)


def test_ranges_keep_the_order_of_an_operator_that_is_not_commutative() -> None:
    f, update = first_of(False)
    update.parallelize(j, combine=tm.TREE)
    assert f.check().ok
    kernel = f.compile(threads=3)
    for sizes in SIZES:
        arrays = given(sizes)
        np.testing.assert_array_equal(kernel(*arrays), f.evaluate(*arrays), err_msg=str(sizes))


def test_parts_of_terms_that_are_no_neighbours_are_refused_for_it() -> None:
    _, update = first_of(False)
    with pytest.raises(tm.CommandError, match=r"not commutative.*parallelize\(j, combine=tm.PRIVATE\)"):
        update.split(j, 4, jb, jt)


def test_ranges_in_another_order_than_that_of_the_terms_are_refused_for_it() -> None:
    op = tm.operator("last", lambda p, q: tm.select(q != 0, q, p), identity=0, commutative=False)
    f = tm.Function("other", params=[N, M])
    a = f.input("a", tm.int32, [N, M])
    s = f.reduction("s", {}, {h: N, x: M}, op, a[h, x])
    f.outputs(s)
    s.update.interchange(h, x).coalesce(x, h, into=j)
    with pytest.raises(tm.CommandError, match=r"another order than that of h, x: coalesce them in this order"):
        s.update.parallelize(j, combine=tm.TREE)


Judged = Callable[[Any], object]
JUDGED: dict[str, tuple[Judged, bool]] = {
    "threads": (lambda u: u.parallelize(j, combine=tm.PRIVATE), True),
    "threads without copies": (lambda u: u.parallelize(j), False),
    "parts": (lambda u: u.split(j, 3, jb, jt).reorder(jt, jb).parallelize(jt, combine=tm.PRIVATE), True),
    "parts without copies": (lambda u: u.split(j, 3, jb, jt).reorder(jt, jb).parallelize(jt), False),
    "ranges": (lambda u: u.parallelize(j, combine=tm.TREE), True),
}


@pytest.mark.parametrize("way", JUDGED)
def test_the_judge_of_schedules_agrees_with_the_proof(way: str) -> None:
    f, update = whole()
    schedule, right = JUDGED[way]
    schedule(update)
    assert f.check().ok == right
    wrong = set()
    for n, m, q in ((1, 1, 1), (2, 1, 2), (1, 2, 2)):
        params = {"N": n, "M": m, "K": q}
        wrong.update(judge(f.program, params, tries=2, given=GivenValues(f.program.algorithm, params)))
    assert (not wrong) == right


def test_every_pass_keeps_the_values_of_a_walk() -> None:
    f, update = whole()
    update.split(j, 4, jb, jt).reorder(jt, jb)
    arrays = given((2, 3, 5))
    assert f.validate(*arrays)


def test_a_version_for_constant_sizes_has_the_same_values() -> None:
    f, update = whole()
    update.split(j, 4, jb, jt).reorder(jt, jb)
    f.specialize(N=2, M=3, K=5)
    for sizes in ((2, 3, 5), (2, 3, 4)):
        np.testing.assert_array_equal(f.compile()(*given(sizes)), f.evaluate(*given(sizes)))


def test_it_is_kept_in_files_and_can_be_undone(tmp_path: Path) -> None:
    f, update = whole()
    before = f.show("pseudocode")
    update.split(j, 4, jb, jt).reorder(jt, jb)
    f.save(tmp_path / "whole.json")
    assert tm.load(tmp_path / "whole.json").show("pseudocode") == f.show("pseudocode") != before
    f.undo()
    f.undo()
    assert f.show("pseudocode") == before and f.check().ok
    assert f.algorithm.computations["s"].over == ("h", "x", "y")


def test_numbers_beyond_64_bits_are_refused_by_the_call() -> None:
    f = tm.Function("large", params=[N, M, K])
    a = f.input("a", tm.int64, [1])
    s = f.reduction("s", {}, {h: N, x: M, y: K}, tm.sum, a[0] + y)
    f.outputs(s)
    s.update.coalesce(h, x, y, into=j).parallelize(j, combine=tm.PRIVATE)
    kernel, one = f.compile(), np.ones(1, np.int64)
    assert kernel(one, N=3, M=5, K=2) == 3 * 5 * 3
    with pytest.raises(tm.ArgumentError, match=r"needs N \* M \* K <= 4611686018427387903.*joined loops h, x, y"):
        kernel(one, N=2**22, M=2**22, K=2**22)


def test_a_race_between_iterations_names_the_bundle_in_its_repair_which_works() -> None:
    f, update = whole()
    update.parallelize(j)
    report = f.check()
    assert {violation.kind for violation in report.violations} == {"race"}
    assert all("s.update.parallelize(j, combine=tm.PRIVATE)" in v.repair for v in report.violations)
    f.undo()
    update.parallelize(j, combine=tm.PRIVATE)
    assert f.check().ok


def test_values_that_an_iteration_reads_of_another_one_are_refused() -> None:
    f = tm.Function("chain", params=[N, M, K])
    a = f.input("a", tm.int32, [N, M, K])
    p = f.computation("p", {h: N, x: M, y: K}, a[h, x, y] + 1)
    q = f.computation("q", {h: N, x: M, y: K}, tm.select(y > 0, p[h, x, y - 1], 0))
    f.outputs(p, q)
    q.after(p, y)
    p.coalesce(h, x, y, into=j).parallelize(j)
    (violation,) = f.check().violations
    assert violation.kind == "race" and violation.witness.params == {"N": 1, "M": 1, "K": 2}
    assert "leave loop j sequential" in violation.repair


Refused = tuple[Make, Callable[[Any], object], str]
REFUSED: list[Refused] = [
    (elementwise, lambda o: o.vectorize(j, 8), r"j of o is a bundle of the loops h, x, y.*give this command before"),
    (elementwise, lambda o: o.vectorize(y, 8), r"loop y of o is joined with others, \(h, x, y\), to j: name j"),
    (elementwise, lambda o: o.interchange(h, x), "joined with others"),
    (elementwise, lambda o: o.shift(j, 1), "is a bundle of the loops"),
    (elementwise, lambda o: o.coalesce(h, x, into=k), "is joined with others"),
    (elementwise, lambda o: o.split(j, 8, jb, jt, origin=1), "leave out origin="),
    (elementwise, lambda o: o.split(j, 8, jb, jt).split(jb, 8, jr, jg), "are the blocks of a bundle already"),
    (elementwise, lambda o: o.split(j, 8, jb, jt).parallelize(jb), "take ranges of the bundle, of chunk=8 iterations"),
    (elementwise, lambda o: o.parallelize(j, schedule="dynamic"), "needs chunk=.*give chunk=4096"),
    (elementwise, lambda o: o.parallelize(j).split(j, 8, jb, jt), "tagged by .*: split it before tagging it"),
    (elementwise, lambda o: o.parallelize(j, combine=tm.TREE), "no update of a reduction; leave it out"),
    (planes, lambda u: u.split(j, 8, jb, jt), "coalesce each kind by itself"),
    (planes, lambda u: u.parallelize(j, combine=tm.TREE), "coalesce each kind by itself"),
    (whole, lambda u: u.split(j, 2**20, jb, jt).split(jb, 2**20, jr, jg), "make them fewer"),
    (whole, lambda u: u.split(j, 4, jb, jt).parallelize(jb, combine=tm.TREE), "dealt out already, by split"),
    (whole, lambda u: u.split(j, 4, jb, jb), "different names"),
    (whole, lambda u: u.split(j, 4, jb, jt).reorder(jt, j), "no statement has all the loops"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "command", "message"), REFUSED)
def test_what_a_bundle_cannot_have_is_refused_by_name(
    make: Make, command: Callable[[Any], object], message: str
) -> None:
    with pytest.raises(tm.CommandError, match=message):
        command(make()[1])


@pytest.mark.parametrize(
    ("domain", "message"),
    [
        ("[N] -> { o[x, y] : 0 <= y <= x < N }", "no box: nothing runs at x = 0, y = 1, for N = 2"),
        ("[N, M] -> { o[x, y] : 0 <= x < N and 0 <= y < M and y != 4 }",
         "no box: nothing runs at x = 0, y = 4, for N = 1, M = 5"),
        ("[N, M] -> { o[x, y] : 0 <= x < N and 0 <= y < M and x mod 2 = 0 }",
         "no box: nothing runs at x = 1, y = 0, for N = 3, M = 1"),
        ("[N, M] -> { o[i, x, y] : 0 <= i < 5 and 0 <= x < N and i <= y < M }",
         "no box: nothing runs at i = 1, x = 0, y = 0, for N = 1, M = 2"),
    ],
)  # fmt: skip
def test_loops_that_are_no_box_are_refused_with_an_iteration_that_is_missing(domain: str, message: str) -> None:
    f = tm.Function("refused", params=[N, M])
    o = f.computation("o", domain, 1.0)
    f.outputs(o)
    with pytest.raises(tm.CommandError, match=message):
        o.coalesce(x, y, into=j)


def test_producers_stay_apart() -> None:
    f = tm.Function("chain", params=[N, M, K])
    a = f.input("a", tm.int32, [N, M, K])
    p = f.computation("p", {h: N, x: M, y: K}, a[h, x, y] + 1)
    s = f.reduction("s", {}, {h: N, x: M, y: K}, tm.sum, p[h, x, y])
    f.outputs(s)
    with pytest.raises(tm.CommandError, match="leave it out, and inline the producers"):
        s.update.coalesce(h, x, y, into=j, producers=True)
    p.inline()
    s.update.coalesce(h, x, y, into=j).parallelize(j, combine=tm.PRIVATE)
    values = np.arange(30, dtype=np.int32).reshape(2, 3, 5)
    assert f.check().ok and f.compile()(values) == (values + 1).sum()


def test_loops_around_a_bundle_stay_as_they_are() -> None:
    f = tm.Function("around", params=[N, M, K])
    a = f.input("a", tm.int32, [4, N, M, K])
    s = f.reduction("s", {i: 4, h: N}, {x: M, y: K}, tm.sum, a[i, h, x, y])
    f.outputs(s)
    s.update.coalesce(x, y, into=j).parallelize(j, combine=tm.PRIVATE)
    values = np.random.default_rng(3).integers(-9, 9, (4, 2, 3, 5), np.int32)
    assert f.check().ok
    np.testing.assert_array_equal(f.compile(threads=3)(values), values.sum((2, 3), dtype=np.int32))

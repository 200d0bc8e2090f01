"""compute_at where it cannot be: the refusal says what to do first, and that works."""

from __future__ import annotations

import re
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.errors import CommandError
from tiramisu_py.interpret import run

N, R, C, K = tm.params("N R C K")
n, n0, n1, k, r, c = tm.iters("n n0 n1 k r c")


def three_stages() -> tuple[tm.Function, tm.Computation, tm.Computation, tm.Computation]:
    """The nearest of three centres: distances, their label, and what is made of it."""
    f = tm.Function("nearest", params=[N])
    x = f.input("x", tm.float32, [N])
    dist = f.computation("dist", {n: N, k: 3}, (x[n] - k) * (x[n] - k))
    label = f.computation("label", {n: N}, tm.minimum(tm.minimum(dist[n, 0], dist[n, 1]), dist[n, 2]))
    out = f.computation("out", {n: N}, label[n] * 2)
    f.outputs(out)
    out.split(n, 16, n0, n1)
    return f, dist, label, out


def test_what_reads_it_elsewhere_is_named() -> None:
    f, dist, _, out = three_stages()
    other = f.computation("other", {n: N}, dist[n, 1] * 2)
    last = f.computation("last", {n: N}, n * 3)
    f.outputs(out, other, last, replace=True)
    with pytest.raises(
        CommandError, match=r"no statement in loop n reads dist: label does, outside of this loop.*of label"
    ):
        dist.compute_at(last, n)


def test_what_reads_it_elsewhere_is_moved_inside_afterwards() -> None:
    f, dist, label, out = three_stages()
    dist.compute_at(out, n0)
    (refused,) = f.check().violations
    found = re.search(r"compute label inside these loops: (label\.compute_at\(out, n0\))", refused.repair)
    assert found is not None
    eval(found[1], {"label": label, "out": out, "n0": n0})  # the repair, as it is written
    given = np.random.default_rng(0).random(37, dtype=np.float32) * 3
    np.testing.assert_array_equal(f.compile()(given), f.evaluate(x=given))


def test_a_copy_that_is_read_instead_is_named() -> None:
    _, dist, label, out = three_stages()
    label.copy(dist, [n, k], name="near")
    with pytest.raises(CommandError, match=r"reads the copy near; compute dist at a loop of near"):
        dist.compute_at(label, n)
    label.compute_at(out, n0)


def test_a_recurrence_that_cannot_move_has_remedies() -> None:
    f = tm.Function("sums", params=[N], assume="N >= 1")
    x = f.input("x", tm.float32, [N])
    s = f.computation("s", {n: N}, lambda s: tm.select(n == 0, x[n], s[n - 1] + x[n]))
    out = f.computation("out", {n: N}, s[n] * 2)
    f.outputs(out)
    with pytest.raises(CommandError, match=r"piece by piece.*reader\.after\(s, loop\).*time_tile"):
        s.compute_at(out, n)
    out.after(s, n)
    given = np.random.default_rng(0).random(5, dtype=np.float32)
    np.testing.assert_array_equal(f.compile()(given), f.evaluate(x=given))


def test_one_part_is_computed_at_a_loop_where_the_whole_is_kept() -> None:
    f = tm.Function("parts", params=[N])
    a = f.input("a", tm.float32, [N + 1])
    p = f.computation("p", {n: N + 1}, 2 * a[n])
    q = f.computation("q", {n: N}, p[n] + p[n + 1])
    f.outputs(q)
    first, second = p.separate_at(n, [8])
    with pytest.raises(CommandError, match=r"or first keep p for the whole call, p\.store_at\(consumer, tm\.root"):
        first.compute_at(q, n)
    p.store_at(q, tm.root)
    first.compute_at(q, n)
    q.after(second, tm.root)
    given = np.arange(21, dtype=np.float32)
    np.testing.assert_array_equal(f.compile()(given), f.evaluate(a=given))


@pytest.mark.parametrize("sizes", [(4, 8), (8, 8)])
def test_loops_that_were_split_unalike_are_said_to_be_so(sizes: tuple[int, int]) -> None:
    f = tm.Function("unalike", params=[N])
    a = f.input("a", tm.float32, [N])
    p = f.computation("p", {n: N}, 2 * a[n])
    q = f.computation("q", {n: N}, p[n] + 1)
    f.outputs(q)
    for stage, size in zip((p, q), sizes, strict=True):
        stage.split(n, size, n0, n1)
    q.after(p, n0)
    report = f.check()
    assert report.ok == (sizes[0] == sizes[1])
    if not report.ok:
        assert "or split them alike: one iteration of n0 takes 4 in p, and 8 in q" in str(report)


@pytest.mark.parametrize("stages", [1, 2])
def test_whole_rows_of_an_open_domain_begin_before_index_0(stages: int) -> None:
    f = tm.Function("f", params=[R, C], assume="R >= 1 and C >= 1")
    last: Any = tm.boundary.repeat_edge(f.input("a", tm.int32, [R, C]))
    made: list[tm.Computation] = []
    for stage in range(stages + 1):
        terms = [last[r + y, c + x] * np.int32(1 + y + 3 * x) for y in (-1, 0, 1) for x in (-1, 0, 1)]
        value = sum(terms[1:], start=terms[0])
        last = (
            f.computation("out", {r: R, c: C}, value) if stage == stages else f.computation(f"s{stage}", [r, c], value)
        )
        made.append(last)
    f.outputs(last)
    for producer in reversed(made[:-1]):
        producer.compute_at(last, r)
        producer.slide(r)
    kernel = f.compile()
    for shape in ((1, 1), (1, 7), (5, 1), (7, 13), (17, 33)):
        a = np.random.default_rng(0).integers(-9, 9, shape, np.int32)
        np.testing.assert_array_equal(kernel(a), f.evaluate(a))


@pytest.mark.parametrize("least", [0, 1])
def test_rows_from_the_smaller_of_two_indices_on_are_kept_in_a_box_around_them(least: int) -> None:
    f = tm.Function("f", params=[N, K], assume=f"N >= 1 and K >= {least}")
    a = f.input("a", tm.int32, [N])
    s = f.computation("s", [k, n], a[tm.clip(n, 0, N - 1)] * (k + 1))
    out = f.computation("out", {k: 3, n: N}, s[k, n - 1] - 2 * s[k, n - K])
    f.outputs(out)
    s.compute_at(out, k)
    kernel = f.compile()
    for size, back in ((1, 1), (7, 3), (5, least), (1, 4)):
        x = np.arange(size, dtype=np.int32) ** 2
        np.testing.assert_array_equal(kernel(x, K=back), f.evaluate(x, K=back))


def test_a_part_whose_lowest_index_has_no_single_form_is_kept_from_the_least_one() -> None:
    rows = tm.params("R")[0]
    z, r = tm.iters("z r")
    f = tm.Function("doubled", params=[rows], assume="R >= 1")
    near = tm.boundary.repeat_edge(f.input("a", tm.int64, [4, rows]), [1])
    half = f.computation("half", [z, r], near[z, 2 * r] + 3 * near[z, 2 * r + 1])
    tall = f.computation("tall", [z, r], 2 * half[z, r // 2 - 1 + 2 * (r % 2)] + half[z, r // 2])
    out = f.computation("out", {z: 4, r: rows}, 2 * tall[z, r // 2 - 1 + 2 * (r % 2)] + tall[z, r // 2])
    f.outputs(out)
    for stage in (tall, half):
        stage.compute_at(out, z)
    for size in (1, 2, 3, 4, 5, 17, 64):
        a = np.arange(4 * size).reshape(4, size) ** 2
        np.testing.assert_array_equal(f.compile()(a), f.evaluate(a))
        found = np.zeros_like(a)
        run(f.show("lowered"), {"a": a, "out": found}, {"R": size})
        np.testing.assert_array_equal(found, f.evaluate(a))


def test_a_producer_whose_values_begin_below_zero_is_computed_in_rows_of_its_consumer() -> None:
    """Its columns begin at -2 wherever there are any: that bound holds under a condition on the sizes alone."""
    f = tm.Function("chain", params=[R, C], assume="R >= 1 and C >= 1")
    near = f.computation("near", [r, c], tm.boundary.repeat_edge(f.input("a", tm.int32, [R, C]))[r, c])
    first = f.computation("first", [r, c], near[r - 1, c - 1] + near[r + 1, c + 2])
    out = f.computation("out", {r: R, c: C}, first[r - 1, c - 2] + 2 * first[r + 1, c + 1])
    f.outputs(out)
    first.compute_at(out, r)
    near.compute_at(out, r)
    assert f.check().ok
    kernel = f.compile()
    for size in ((1, 1), (2, 7), (5, 3)):
        a = np.random.default_rng(0).integers(0, 99, size, dtype=np.int32)
        np.testing.assert_array_equal(kernel(a), f.evaluate(a=a))


def test_what_a_reduced_picture_reads_is_found_where_divisions_say_which_rows() -> None:
    size, rows = tm.params("N M")
    f = tm.Function("reduced", params=[size, rows], assume="N >= 10 and M >= 1 and 5M <= 2N")
    i, i0, i1 = tm.iters("i i0 i1")
    a = f.input("a", tm.float64, [size])
    begin = tm.clip((5 * i - 6) // 2, 0, size - 10)
    twice = f.computation("twice", [i], a[i] * 2)
    reduced = f.computation("reduced", {i: rows}, reduce(add, [twice[begin + tap] for tap in range(10)]))
    f.outputs(reduced)
    reduced.split(i, 32, i0, i1)
    twice.compute_at(reduced, i0)
    assert f.check().ok
    kernel = f.compile()
    for count in (1, 2, 31, 33, 97):
        values = np.arange(max(10, -(-5 * count // 2)), dtype=np.float64)
        starts = np.clip((5 * np.arange(count) - 6) // 2, 0, len(values) - 10)
        np.testing.assert_array_equal(kernel(values, M=count), [2 * values[s : s + 10].sum() for s in starts])

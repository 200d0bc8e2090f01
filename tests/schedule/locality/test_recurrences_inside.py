"""compute_at of recurrences, and of what is read through computations that are moved later."""

from __future__ import annotations

import re
from itertools import permutations

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.errors import CommandError

N, T = tm.params("N T")
i, j, t, n, k, i0, i1, n0, n1 = tm.iters("i j t n k i0 i1 n0 n1")


def rows(time_first: bool) -> tuple[tm.Function, tm.Computation, tm.Computation]:
    """Each row goes through T steps on its own; a reader takes the last."""
    f = tm.Function("rows", params=[N, T], assume="T >= 1")
    a = f.input("a", tm.int32, [N])
    if time_first:
        r = f.computation("r", {t: T, i: N}, lambda r: tm.select(t == 0, a[i], 3 * r[t - 1, i] + i))
        out = f.computation("out", {i: N}, r[T - 1, i])
    else:
        r = f.computation("r", {i: N, t: T}, lambda r: tm.select(t == 0, a[i], 3 * r[i, t - 1] + i))
        out = f.computation("out", {i: N}, r[i, T - 1])
    f.outputs(out)
    return f, r, out


def stepped(a: np.ndarray, steps: int) -> np.ndarray:
    found = a.copy()
    for _ in range(1, steps):
        found = 3 * found + np.arange(len(a), dtype=np.int32)
    return found


@pytest.mark.parametrize("tiled", [False, True])
@pytest.mark.parametrize("time_first", [False, True])
def test_a_recurrence_goes_into_the_rows_that_it_stays_in(time_first: bool, tiled: bool) -> None:
    f, r, out = rows(time_first)
    if tiled:
        out.split(i, 4, i0, i1)
    r.compute_at(out, i0 if tiled else i)
    (extents,) = re.findall(r"allocate r\[(.*)\]", f.show("pseudocode"))
    assert set(extents.split(", ")) == {"T", "4" if tiled else "1"}
    kernel = f.compile()
    for size, steps in ((0, 1), (1, 1), (1, 4), (4, 2), (5, 3), (13, 7)):
        a = np.arange(size, dtype=np.int32) - 3
        np.testing.assert_array_equal(kernel(a, T=steps), stepped(a, steps))


def test_readers_of_two_rows_compute_both() -> None:
    f = tm.Function("pairs", params=[N, T], assume="T >= 1")
    a = f.input("a", tm.int32, [N + 1])
    r = f.computation("r", {t: T, i: N + 1}, lambda r: tm.select(t == 0, a[i], 3 * r[t - 1, i] + i))
    out = f.computation("out", {i: N}, r[T - 1, i] + r[T - 1, i + 1])
    f.outputs(out)
    r.compute_at(out, i)
    for size, steps in ((0, 1), (1, 3), (6, 2)):
        given = np.arange(size + 1, dtype=np.int32)
        last = stepped(given, steps)
        np.testing.assert_array_equal(f.compile()(given, T=steps), last[1:] + last[:-1])


def test_a_recurrence_over_rows_of_a_reduction_goes_where_its_terms_are() -> None:
    g = tm.Function("sums", params=[N, T], assume="T >= 1")
    a = g.input("a", tm.int32, [N, 4])
    r = g.computation("r", {t: T, i: N, j: 4}, lambda r: tm.select(t == 0, a[i, j], 3 * r[t - 1, i, j] + i))
    s = g.reduction("s", {i: N}, over={j: 4}, op=tm.sum, expr=r[T - 1, i, j])
    g.outputs(s)
    r.compute_at(s, i)
    given = np.arange(28, dtype=np.int32).reshape(7, 4)
    expected = sum(stepped(given[:, c], 3) for c in range(4))
    np.testing.assert_array_equal(g.compile()(given, T=3), expected)


def test_a_reader_by_value_gets_the_whole_row() -> None:
    f = tm.Function("chosen", params=[N], assume="N >= 1")
    a = f.input("a", tm.int32, [N])
    when = f.input("when", tm.int32, [N], values=(0, 5))
    r = f.computation("r", {i: N, t: 5}, lambda r: tm.select(t == 0, a[i], r[i, t - 1] * 2))
    out = f.computation("out", {i: N}, r[i, when[i]])
    f.outputs(out)
    r.compute_at(out, i)
    given, steps = np.arange(7, dtype=np.int32), np.array([0, 4, 3, 1, 2, 0, 4], np.int32)
    np.testing.assert_array_equal(f.compile()(given, steps), given << steps)


def prefix() -> tuple[tm.Function, tm.Computation, tm.Computation]:
    f = tm.Function("prefix", params=[N], assume="N >= 1")
    a = f.input("a", tm.int32, [N])
    c = f.computation("c", {i: N}, lambda c: tm.select(i == 0, a[i], c[i - 1] + a[i]))
    out = f.computation("out", {i: N}, c[i] * 2)
    f.outputs(out)
    return f, c, out


def test_sums_of_all_before_would_be_repeated() -> None:
    f, c, out = prefix()
    with pytest.raises(
        CommandError, match=r"c\[0\] leads to what the iterations 0 and 1 of i read, at N = 2"
    ) as refusal:
        c.compute_at(out, i)
    assert "out.after(c, loop)" in str(refusal.value).replace("reader", "out")
    out.after(c, i)
    given = np.arange(9, dtype=np.int32)
    np.testing.assert_array_equal(f.compile()(given), 2 * np.cumsum(given))


def test_a_cone_of_neighbours_would_be_repeated() -> None:
    f = tm.Function("cone", params=[N, T], assume="N >= 1 and T >= 1")
    a = f.input("a", tm.int32, [N])
    edge = (t == 0) | (i == 0) | (i == N - 1)
    c = f.computation("c", {t: T, i: N}, lambda c: tm.select(edge, a[i], c[t - 1, i - 1] + c[t - 1, i + 1]))
    out = f.computation("out", {i: N}, c[T - 1, i])
    f.outputs(out)
    with pytest.raises(CommandError, match=r"c\[0, 2\] leads to what the iterations 1 and 3 of i read.*time_tile"):
        c.compute_at(out, i)


def nearest() -> tuple[tm.Function, dict[str, tm.Computation]]:
    f = tm.Function("nearest", params=[N])
    x = f.input("x", tm.float32, [N + 2])
    dist = f.computation("dist", {n: N + 2, k: 3}, (x[n] - k) * (x[n] - k))
    label = f.computation("label", {n: N + 1}, tm.minimum(dist[n, 0], dist[n + 1, 2]))
    half = f.computation("half", {n: N}, label[n] + label[n + 1])
    out = f.computation("out", {n: N}, half[n] / 2)
    f.outputs(out)
    out.split(n, 4, n0, n1)
    return f, {"dist": dist, "label": label, "half": half, "out": out}


@pytest.mark.parametrize("order", list(permutations(["dist", "label", "half"])))
def test_a_chain_goes_into_a_loop_in_any_order_of_commands(order: tuple[str, ...]) -> None:
    f, made = nearest()
    for name in order:
        made[name].compute_at(made["out"], n0)
    extents = dict(re.findall(r"allocate (\w+)\[(.*)\]", f.show("pseudocode")))
    assert extents == {"dist": "6, 3", "label": "5", "half": "4"}
    kernel = f.compile()
    for size in (0, 1, 4, 5, 13):
        x = np.random.default_rng(size).random(size + 2, dtype=np.float32) * 3
        label = np.minimum(x[:-1] ** 2, (x[1:] - np.float32(2)) ** 2)
        np.testing.assert_allclose(kernel(x), (label[:-1] + label[1:]) / 2, rtol=1e-6)


def test_what_stays_outside_is_refused_until_it_is_moved() -> None:
    f, made = nearest()
    made["dist"].compute_at(made["out"], n0)
    (refused,) = f.check().violations
    assert refused.kind == "reach"
    assert "compute label inside these loops: label.compute_at(out, n0)" in refused.repair
    made["half"].compute_at(made["out"], n0)
    made["label"].compute_at(made["out"], n0)
    assert f.check().ok


@pytest.mark.parametrize("first", ["q", "p"])
def test_a_computation_takes_along_what_is_computed_in_its_loops(first: str) -> None:
    f = tm.Function("along", params=[N])
    a = f.input("a", tm.int32, [N + 4])
    p = f.computation("p", {n: N + 4}, a[n] * 3)
    q = f.computation("q", {n: N + 2}, p[n] + p[n + 2])
    s = f.computation("s", {n: N}, q[n] * q[n + 2])
    f.outputs(s)
    s.split(n, 4, n0, n1)
    commands = [lambda: q.compute_at(s, n0), lambda: q.split(n, 2, i0, i1), lambda: p.compute_at(q, i0)]
    for command in commands if first == "q" else [commands[1], commands[2], commands[0]]:
        command()
    extents = dict(re.findall(r"allocate (\w+)\[(.*)\]", f.show("pseudocode")))
    assert extents == {"q": "6", "p": "4"}
    for size in (0, 1, 4, 5, 13):
        given = np.arange(size + 4, dtype=np.int32)
        sums = 3 * (given[:-2] + given[2:])
        np.testing.assert_array_equal(f.compile()(given), sums[:-2] * sums[2:])
    f.undo()
    assert len(f.commands) == 3 and f.check().ok


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_a_nest_of_producers_is_the_same_in_any_order_of_commands(order: tuple[int, ...]) -> None:
    f = tm.Function("nest", params=[N])
    a = f.input("a", tm.int32, [N + 5])
    stages: list[tm.Computation] = []
    for number in range(5):
        read = stages[-1] if stages else a
        stages.append(f.computation(f"s{number}", {n: N + 4 - number}, read[n] + 3 * read[n + 1]))
    f.outputs(stages[-1])
    stages[-1].split(n, 4, n0, n1)
    for number in order:
        stages[number].compute_at(stages[number + 1], n0 if number == 3 else n)
    extents = dict(re.findall(r"allocate (\w+)\[(.*)\]", f.show("pseudocode")))
    assert extents == {"s3": "5", "s2": "2", "s1": "2", "s0": "2"}
    given = np.arange(19, dtype=np.int32)
    expected = given
    for _ in range(5):
        expected = expected[:-1] + 3 * expected[1:]
    np.testing.assert_array_equal(f.compile()(given), expected)


def test_what_was_fused_is_not_taken_along() -> None:
    f = tm.Function("fused", params=[N])
    a = f.input("a", tm.int32, [N + 2])
    p = f.computation("p", {n: N + 2}, a[n] * 3)
    q = f.computation("q", {n: N + 2}, a[n] * 5)
    s = f.computation("s", {n: N}, p[n] + q[n + 2])
    f.outputs(s)
    q.after(p, n)
    with pytest.raises(CommandError, match="q shares loop n with p: compute_at moves q alone"):
        q.compute_at(s, n)

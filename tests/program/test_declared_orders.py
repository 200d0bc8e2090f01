"""The orders that dependences suggest, beside a search through all permutations, and programs moved into one nest."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from itertools import permutations

import numpy as np
import pytest

import tiramisu_py as tm
from tests.program.test_ordering import first_allowed, statements
from tiramisu_py.program.declared_orders import Suggested
from tiramisu_py.program.ordering import Order, static_positions

N = tm.params("N")[0]
i, j, k, n = tm.iters("i j k n")

Pair = tuple[str, str]


def in_a_cycle(pair: Pair, edges: Iterable[Pair]) -> bool:
    """Whether a path leads from the end of an edge back to its beginning."""
    reached, edges = {pair[1]}, list(edges)
    for _ in edges:
        reached |= {b for a, b in edges if a in reached}
    return pair[0] in reached


@pytest.mark.parametrize("seed", range(40))
def test_wanted_orders_hold_as_far_as_they_contradict_nothing(seed: int) -> None:
    chosen, given = random.Random(seed), statements(5)
    asked = [
        (f"s{a}", f"s{b}") for a, b in (sorted(chosen.sample(range(5), 2), reverse=seed % 2 == 1) for _ in range(2))
    ]
    values = [tuple(chosen.sample(list(given), 2)) for _ in range(chosen.randrange(6))]
    orders = [Order(a, b, None, "") for a, b in asked]
    positions = static_positions(given, orders, Suggested(tuple((a, b) for a, b in values)))
    kept = [(a, b) for a, b in values if not in_a_cycle((a, b), [*asked, *values])]
    expected = first_allowed(given, [*orders, *(Order(a, b, None) for a, b in kept)])
    assert tuple(sorted(given, key=positions.__getitem__)) == expected


def test_reads_count_for_more_than_other_accesses_of_a_buffer() -> None:
    given = statements(3)
    wanted = Suggested(values=(("s2", "s0"),), places=(("s0", "s1"), ("s1", "s2")))
    positions = static_positions(given, [], wanted)
    assert positions["s2"] < positions["s0"]


def lookup(order: tuple[int, ...]) -> tuple[tm.Function, dict[str, tm.Computation]]:
    """Two tables and a value, declared in some order, and what is looked up in both."""
    f = tm.Function("lookup", params=[N])
    a = f.input("a", tm.uint8, [N])
    made: dict[str, tm.Computation] = {}
    declare: list[Callable[[], None]] = [
        lambda: made.update(p=f.computation("p", {i: N}, a[i] // 2)),
        lambda: made.update(low=f.computation("low", {n: 256}, tm.cast(tm.uint8, n * 3 % 256))),
        lambda: made.update(high=f.computation("high", {n: 256}, tm.cast(tm.uint8, n * 7 % 256))),
    ]
    for one in order:
        declare[one]()
    made["out"] = f.computation("out", {i: N}, made["low"][made["p"][i]] + made["high"][made["p"][i]])
    f.outputs(made["out"])
    return f, made


def looked_up(a: np.ndarray) -> np.ndarray:
    p = a.astype(int) // 2
    return ((p * 3 % 256) + (p * 7 % 256)).astype(np.uint8)


@pytest.mark.parametrize("how", ["compute_at", "after", "fuse"])
@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_what_the_reader_reads_comes_before_a_shared_nest_wherever_it_is_declared(
    order: tuple[int, ...], how: str
) -> None:
    f, made = lookup(order)
    if how == "compute_at":
        made["p"].compute_at(made["out"], i)
    else:
        getattr(made["out"], how)(made["p"], i)
    for size in (0, 1, 7, 64):
        a = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
        np.testing.assert_array_equal(f.compile()(a), looked_up(a))


def test_the_report_says_what_was_moved_before_a_nest() -> None:
    f, made = lookup((0, 1, 2))
    assert "comes before" not in str(f.check())
    made["p"].compute_at(made["out"], i)
    text = str(f.check())
    assert "low comes before out, which reads it" in text
    assert "high comes before out, which reads it" in text


def sums() -> tuple[tm.Function, tm.Computation, tm.Reduction]:
    f = tm.Function("sums", params=[N], assume="N >= 1")
    a = f.input("a", tm.int32, [N, N])
    p = f.computation("p", {i: N, k: N}, a[i, k] * 2)
    c = f.reduction("c", {i: N}, over={k: N}, op=tm.sum, expr=p[i, k])
    f.outputs(c)
    return f, p, c


COMMANDS = [
    lambda p, c: p.compute_at(c, k),
    lambda p, c: p.compute_at(c.update, k),
    lambda p, c: p.compute_at(c, i),
    lambda p, c: p.compute_at(c.update, i),
    lambda p, c: (p.compute_at(c.update, k), c.update.after(c.init, i)),
    lambda p, c: (c.update.after(c.init, i), p.compute_at(c.update, k)),
    lambda p, c: (c.update.after(c.init, i), p.compute_at(c, i)),
    lambda p, c: p.fuse(c.update, k),
    lambda p, c: c.update.fuse(p, i),
    lambda p, c: (p.fuse(c.init, i), c.update.fuse(p, k)),
]


@pytest.mark.parametrize("command", range(len(COMMANDS)))
def test_a_producer_goes_into_the_update_of_a_reduction(command: int) -> None:
    f, p, c = sums()
    COMMANDS[command](p, c)
    kernel = f.compile()
    for size in (1, 2, 13):
        a = np.random.default_rng(size).integers(-99, 99, (size, size), dtype=np.int32)
        np.testing.assert_array_equal(kernel(a), 2 * a.sum(axis=1, dtype=np.int32))


def test_an_order_that_is_asked_for_counts_for_more() -> None:
    f, p, c = sums()
    p.compute_at(c.update, k)
    c.update.before(c.init, tm.root)
    (refused,) = [one for one in f.check().violations if one.kind == "reduction"]
    assert refused.command == "c.update.before(c.init)"


def test_a_nest_between_two_computations_of_another_has_no_right_place() -> None:
    f = tm.Function("between", params=[N], assume="N >= 1")
    a = f.input("a", tm.int32, [N])
    p = f.computation("p", {i: N}, a[i] + 1)
    q = f.computation("q", {i: N}, p[i] * 2)
    s = f.computation("s", {i: N}, p[i] + q[N - 1 - i])
    f.outputs(s)
    s.after(p, i)
    report = f.check()
    assert [one.kind for one in report.violations] == ["order"]
    assert report.violations[0].command == "s.after(p, i)"
    f.undo()
    q.fuse(p, i)
    given = np.arange(9, dtype=np.int32)
    np.testing.assert_array_equal(f.compile()(given), given + 1 + 2 * (given + 1)[::-1])


@pytest.mark.parametrize("size", [1, 2, 7])
def test_a_buffer_is_overwritten_after_its_last_read(size: int) -> None:
    """s overwrites p: its nest, which has the place of w, comes after r, which reads p."""
    f = tm.Function("reused", params=[N], assume="N >= 1")
    a = f.input("a", tm.int32, [N])
    p = f.computation("p", {i: N}, a[i] + 1)
    w = f.computation("w", {i: N}, a[i] * 3)
    r = f.computation("r", {i: N}, p[N - 1 - i])
    s = f.computation("s", {i: N}, w[i] * 7)
    f.outputs(r, s)
    p.store_in(s)
    s.after(w, i)
    given = np.arange(size, dtype=np.int32)
    reversed_, product = f.compile()(given)
    np.testing.assert_array_equal(reversed_, (given + 1)[::-1])
    np.testing.assert_array_equal(product, given * 21)

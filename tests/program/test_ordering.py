"""The order of statements: the first of all orders that the constraints allow, and what is said where there is none."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import permutations

import pytest

import tiramisu_py as tm
from tiramisu_py.errors import CommandError
from tiramisu_py.program.ordering import Order, static_positions
from tiramisu_py.program.statement import Statement

(i,) = tm.iters("i")


def statements(count: int) -> dict[str, Statement]:
    """Statements in nests of their own, which are declared in the order of their names."""
    f = tm.Function("f")
    for n in range(count):
        f.computation(f"s{n}", {i: 4}, i * n)
    return dict(f.completed.statements)


def first_allowed(names: Iterable[str], orders: Iterable[Order]) -> tuple[str, ...] | None:
    """Of all permutations, in the order of declaration, the first that no constraint forbids."""
    for found in permutations(names):
        place = {name: n for n, name in enumerate(found)}
        if all(place[order.before] < place[order.after] for order in orders):
            return found
    return None


@pytest.mark.parametrize("seed", range(40))
def test_statements_come_in_the_first_order_that_the_constraints_allow(seed: int) -> None:
    chosen, given = random.Random(seed), statements(6)
    pairs = [chosen.sample(list(given), 2) for _ in range(chosen.randrange(12))]
    orders = [Order(before, after, None, f"{after}.after({before})") for before, after in pairs]
    expected = first_allowed(given, orders)
    if expected is None:
        with pytest.raises(CommandError, match="form a cycle"):
            static_positions(given, orders)
        return
    positions = static_positions(given, orders)
    assert tuple(sorted(given, key=positions.__getitem__)) == expected


def test_both_outcomes_occur_among_the_random_constraints() -> None:
    found = set()
    for seed in range(40):
        chosen, names = random.Random(seed), [f"s{n}" for n in range(6)]
        pairs = [chosen.sample(names, 2) for _ in range(chosen.randrange(12))]
        found.add(first_allowed(names, [Order(a, b, None) for a, b in pairs]) is None)
    assert found == {True, False}


def test_a_cycle_is_refused_by_the_commands_in_it_and_after_it_alone() -> None:
    given = statements(5)
    orders = [
        Order("s0", "s1", None, "s1.after(s0)"),
        Order("s1", "s2", None, "s2.after(s1)"),
        Order("s2", "s1", None, "s1.after(s2)"),
        Order("s3", "s4", None, "s4.after(s3)"),
    ]
    with pytest.raises(CommandError) as refused:
        static_positions(given, orders)
    assert str(refused.value) == "the orders asked for form a cycle: s2.after(s1); s1.after(s2)"

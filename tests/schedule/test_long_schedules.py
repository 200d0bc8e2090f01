"""Schedules of long chains: what commands cost, and arguments that are no lists."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

import tiramisu_py as tm
from tests.effort import calls
from tiramisu_py.program import ordering

N = tm.params("N")[0]
i, j = tm.iters("i j")


def _chain(length: int) -> tuple[tm.Function, list[Any]]:
    f = tm.Function("f", params=[N], assume="N >= 1")
    p: Any = f.input("a", tm.float32, [N])
    made = []
    for k in range(length):
        p = f.computation(f"c{k}", {i: N}, p[i] + 1)
        made.append(p)
    f.outputs(p)
    return f, made


def test_inlining_sorts_no_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    _, made = _chain(12)
    asked: list[object] = []
    monkeypatch.setattr("tiramisu_py.program.program.static_positions", lambda *given: asked.append(given) or {})
    for p in made[:-1]:
        p.inline()
    made[-1].vectorize(i, 8)
    assert len(asked) <= 1


def test_orders_that_are_new_may_contradict_and_old_ones_may_not() -> None:
    f, made = _chain(3)
    before = f.program
    made[1].after(made[0], tm.root)
    new = f.program
    assert ordering.may_contradict(before.statements, before.orders, new.statements, new.orders)
    assert not ordering.may_contradict(new.statements, new.orders, before.statements, before.orders)


@pytest.mark.parametrize("build", [lambda a, b: b.after(a, i), lambda a, b: a.inline()])
def test_a_command_on_a_longer_chain_costs_in_proportion(build: Callable[[Any, Any], object]) -> None:
    costs = []
    for length in (40, 80):
        _, made = _chain(length)
        *earlier, last = pairwise(made)
        for a, b in earlier:
            build(a, b)
        costs.append(calls(lambda last=last: build(*last)))  # type: ignore[misc]
    assert costs[1] < 2.2 * costs[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(([i], j), r"layout is a list, such as \[j\]"), (([i], 3), "layout is a list"), ((i, [i]), "iterators is a list")],
)
def test_a_layout_that_is_no_list_is_named(arguments: tuple[Any, Any], words: str) -> None:
    f, (p, q, _) = _chain(3)
    with pytest.raises(tm.CommandError, match=words):
        q.copy(p, arguments[0], layout=arguments[1])
    assert f.check().ok

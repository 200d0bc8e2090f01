"""Commands that name something, followed by commands that move it or take it away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

N = tm.params("N")[0]
i, j = tm.iters("i j")
ARRAY = np.random.default_rng(1).random(40, dtype=np.float32)

Command = Callable[[Any, Any], object]


def _function() -> tuple[tm.Function, Any, Any]:
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.float32, [N + 1])
    p = f.computation("p", {i: N + 1}, a[i] * 2)
    q = f.computation("q", {i: N}, p[i] + p[i + 1])
    f.outputs(q)
    return f, p, q


def _prefetch(p: Any, q: Any) -> None:
    q.prefetch(p, i, 4)


@pytest.mark.parametrize(
    "commands",
    [
        [_prefetch, lambda p, q: p.store_in(tm.REGISTER)],
        [_prefetch, lambda p, q: p.compute_at(q, i), lambda p, q: p.store_in(tm.REGISTER)],
        [lambda p, q: q.prefetch(q.copy(p, [j]), i, 4)],
        [_prefetch, lambda p, q: q.separate_at(i, [2])],
        [lambda p, q: p.store_nontemporal(above=0), lambda p, q: p.inline()],
        [lambda p, q: p.fold(i, 4), lambda p, q: p.inline()],
        [lambda p, q: p.place("interleave"), lambda p, q: p.inline()],
    ],
)
def test_what_is_named_and_then_moved_is_right(commands: list[Command]) -> None:
    f, p, q = _function()
    for command in commands:
        command(p, q)
    np.testing.assert_array_equal(f.compile()(ARRAY), f.evaluate(ARRAY))


def test_what_is_prefetched_is_not_inlined_and_the_message_says_what_to_leave_out() -> None:
    f, p, q = _function()
    _prefetch(p, q)
    with pytest.raises(tm.CommandError, match=r"leave out q\.prefetch\(p, \.\.\), or prefetch what is read instead"):
        p.inline()
    f.undo()
    p.inline()
    q.prefetch(f["a"], i, 4)
    np.testing.assert_array_equal(f.compile()(ARRAY), f.evaluate(ARRAY))


def test_what_is_prefetched_is_not_read_from_a_copy_and_the_message_says_what_to_leave_out() -> None:
    f, p, q = _function()
    _prefetch(p, q)
    with pytest.raises(
        tm.CommandError, match=r"leave out q\.prefetch\(p, \.\.\), or prefetch p_cache after the command"
    ):
        q.copy(p, [j], at=i)
    np.testing.assert_array_equal(f.compile()(ARRAY), f.evaluate(ARRAY))

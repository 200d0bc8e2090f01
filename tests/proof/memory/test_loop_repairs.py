"""Repairs of recurrences by other loops: taken literally, each makes the program right."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

T, N = tm.params("T N")
t, i, j, i0, j0, i1, j1, t0, t1 = tm.iters("t i j i0 j0 i1 j1 t0 t1")

Made = tuple[tm.Function, Any]


def backward() -> Made:
    f = tm.Function("backward", params=[N], assume="N >= 1")
    a = f.input("a", tm.float64, [N, N])
    h = f.computation("h", {i: N, j: N}, lambda h: tm.select(i == N - 1, a[i, j], h[i + 1, j] * 0.5 + a[i, j]))
    f.outputs(h)
    return f, h


def backward_inside() -> Made:
    f = tm.Function("inside", params=[N], assume="N >= 1")
    a = f.input("a", tm.float64, [N, N])
    h = f.computation("h", {i: N, j: N}, lambda h: tm.select(j == N - 1, a[i, j], h[i, j + 1] * 0.5 + a[i, j]))
    f.outputs(h)
    return f, h


def backward_in_both() -> Made:
    f = tm.Function("both", params=[N], assume="N >= 1")
    a = f.input("a", tm.float64, [N, N])
    edge = (i == N - 1) | (j == N - 1)
    h = f.computation("h", {i: N, j: N}, lambda h: tm.select(edge, a[i, j], h[i, j + 1] + h[i + 1, j]))
    f.outputs(h)
    return f, h


def diagonal() -> Made:
    f = tm.Function("diagonal", params=[N], assume="N >= 1")
    a = f.input("a", tm.float64, [N, N])
    edge = (i == 0) | (j == N - 1)
    h = f.computation("h", {i: N, j: N}, lambda h: tm.select(edge, a[i, j], h[i - 1, j + 1] * 0.5 + 1.0))
    f.outputs(h)
    return f, h


def in_place() -> Made:
    f = tm.Function("seidel", params=[N], assume="N >= 3")
    a = f.input("a", tm.float64, [N, N])
    edge = (t == 0) | (i == 0) | (j == 0) | (i == N - 1) | (j == N - 1)

    def expression(h: Any) -> Any:
        before = h[t, i - 1, j - 1] + h[t, i - 1, j] + h[t, i - 1, j + 1] + h[t, i, j - 1]
        after = h[t - 1, i, j + 1] + h[t - 1, i + 1, j - 1] + h[t - 1, i + 1, j] + h[t - 1, i + 1, j + 1]
        return tm.select(edge, a[i, j], (before + h[t - 1, i, j] + after) * 0.125)

    h = f.computation("h", {t: 7, i: N, j: N}, expression)
    f.outputs(h[6, i, j])
    h.store_in([i, j])
    return f, h


def repaired(made: Callable[[], Made], commands: list[str]) -> tuple[str, tm.Function]:
    """The repair of a program with these commands, and the program with it, as the text says."""
    f, h = made()
    names: dict[str, Any] = {**globals(), "h": h}
    for command in commands:
        exec(command, names)
    repair = f.check().violations[0].repair
    found, _, where = repair.partition(" before ")
    steps = re.split(" and ", found)
    f, h = made()
    names["h"] = h
    left_out = re.findall(r"leave (\S+) out", repair)
    commands = [command for command in commands if command not in left_out]
    steps = [step for step in steps if not step.startswith("leave ")]
    at = commands.index(where) if where else len(commands)
    for command in [*commands[:at], *steps, *commands[at:]]:
        exec(command, names)
    return repair, f


@pytest.mark.parametrize(
    ("made", "commands", "repair"),
    [
        (backward, ["h.reverse(i)"], "leave h.reverse(i) out"),
        (backward_inside, ["h.reverse(j)"], "leave h.reverse(j) out"),
        (backward_inside, ["h.interchange(i, j)", "h.reverse(j)"], "leave h.reverse(j) out"),
        (backward_in_both, ["h.reverse(j)"], "leave h.reverse(j) out"),
        (backward_in_both, ["h.reverse(i)", "h.reverse(j)"], "leave h.reverse(i) out and leave h.reverse(j) out"),
        (diagonal, ["h.interchange(i, j)"], "h.skew(i, j, 1) before h.interchange(i, j)"),
        (diagonal, ["h.tile(i, j, 4, 8, i0, j0, i1, j1)"], "h.skew(i, j, 1) before h.tile(i, j, 4, 8, i0, j0, i1, j1)"),
        (
            in_place,
            ["h.tile(t, i, 2, 4, t0, i0, t1, i1)"],
            "h.skew(t, i, 1) and h.skew(t, j, 1) and h.skew(i, j, 1) before h.tile(t, i, 2, 4, t0, i0, t1, i1)",
        ),
    ],
)
def test_a_repair_by_other_loops_works_when_taken_literally(
    made: Callable[[], Made], commands: list[str], repair: str
) -> None:
    said, f = repaired(made, commands)
    assert said == repair
    assert f.check().ok, f.check()
    for n in (3, 13):
        a = np.random.default_rng(n).standard_normal((n, n))
        assert np.array_equal(f.compile()(a=a.copy()), f.evaluate(a=a))


def test_no_repair_is_named_where_none_was_found() -> None:
    """A tile over a loop whose dependences have no constant distance."""
    f = tm.Function("f", params=[N], assume="N >= 2")
    a = f.input("a", tm.float64, [N, N])
    h = f.computation("h", {i: N, j: N}, lambda h: tm.select(i == 0, a[i, j], h[i - 1, N - 1 - j] + 1.0))
    f.outputs(h)
    h.tile(i, j, 4, 4, i0, j0, i1, j1)
    violation = f.check().violations[0]
    assert (violation.kind, violation.repair) == ("order", "")

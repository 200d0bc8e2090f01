"""Padded remainders of skewed, interchanged and split loops: sizes that are multiples give fractional bounds."""

from __future__ import annotations

import pytest

import tiramisu_py as tm

(N,) = tm.params("N")
i, j, x3, x4 = tm.iters("i j x3 x4")


@pytest.mark.parametrize(
    "commands",
    [
        ["p.set_schedule('{ [i, j] -> [u = 2*i + j, v = i] }')", "p.vectorize(v, 4, remainder='pad')"],
        ["p.skew(i, j, 1)", "p.interchange(i, j)", "p.vectorize(i, 4, remainder='pad')", "p.split(j, 3, x3, x4)"],
        ["p.skew(i, j, 2)", "p.interchange(i, j)", "p.vectorize(i, 4, remainder='pad')"],
        ["p.skew(i, j, 2)", "p.interchange(i, j)", "p.split(j, 3, x3, x4)", "p.vectorize(i, 4, remainder='pad')"],
        ["p.split(j, 3, x3, x4)", "p.reorder(x4, i, x3)", "p.vectorize(x3, 4, remainder='pad')"],
    ],
)
@pytest.mark.parametrize(("assume", "least"), [("N >= 1", 1), ("N % 8 = 0 and N >= 8", 8)])
def test_lanes_that_leave_the_buffer_are_refused_with_the_smallest_size(
    commands: list[str], assume: str, least: int
) -> None:
    f = tm.Function("f", params=[N], assume=assume)
    a = f.input("a", tm.float32, [N + 40, N + 40])
    p = f.computation("p", {i: N, j: N}, a[i, j] * 2)
    f.outputs(f.computation("q", {i: N, j: N}, p[i, j] + 1))
    for command in commands:
        exec(command, {**globals(), "p": p, "v": tm.iters("v")[0]})
    violation = f.check().violations[0]
    assert (violation.kind, dict(violation.witness.params)) == ("bounds", {"N": least})
    assert 'remainder="mask"' in violation.repair

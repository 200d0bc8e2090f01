"""Where copies might serve reads, short runs refuse a program before isl follows all copies."""

from __future__ import annotations

import pytest

import tiramisu_py as tm
from tiramisu_py.dependence.flow import Flow

T, N = tm.params("T N")
t, i = tm.iters("t i")


def heat(levels: int) -> tm.Function:
    """A rod whose ends stay as they are, with some levels of time in memory."""
    f = tm.Function("heat", params=[T, N], assume="T >= 1 and N >= 3")
    rod = f.input("rod", tm.float64, [N])

    def stepped(u: tm.Computation) -> tm.Expr:
        end = (i == 0) | (i == N - 1)
        inside = 0.5 * (u[t - 1, i - 1] + u[t - 1, i + 1])
        return tm.select(t == 0, rod[i], tm.select(end, u[t - 1, i], inside))

    u = f.computation("u", {t: T + 1, i: N}, stepped)
    f.outputs(u[T, i])
    u.fold(t, levels)
    return f


def test_a_wrong_program_is_refused_at_small_sizes_before_isl_follows_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[object]()
    monkeypatch.setattr(Flow, "unserved_by_copies", lambda self, read, missing: asked.append(read) or missing)
    (violation,) = heat(1).check().violations
    assert (violation.kind, violation.witness.params) == ("overwritten", {"T": 1, "N": 4})
    assert not asked


def test_copies_are_followed_where_short_runs_find_nothing() -> None:
    assert heat(2).check().ok

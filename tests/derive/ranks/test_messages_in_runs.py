"""Values in runs that ranks exchange: kept by position, and no message has an element that is in no run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.oracle.judges.rank_arrays import ran_on_ranks
from tiramisu_py.algorithm.expressions import Binary
from tiramisu_py.algorithm.types import bool_
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.program.statement import Role

E, D = tm.params("E D")
n, p, d, m, r, o = tm.iters("n p d m r o")
ROWS = 6
STARTS = {
    "some empty": [0, 2, 2, 3, 5, 6, 8],
    "all empty": [0, 0, 0, 0, 0, 0, 0],
    "a hub": [0, 0, 9, 9, 9, 9, 9],
    "in the last row": [0, 0, 0, 0, 0, 0, 3],
}


def weighted(features: bool = False) -> tuple[tm.Function, Any, Any]:
    """Values in runs, which every result reads."""
    f = tm.Function("weighted", params=[E, D] if features else [E])
    rows = f.segments("rows", ROWS, of=E)
    a = f.input("a", tm.float64, [E])
    domain = {n: ROWS, p: rows[n], **({d: D} if features else {})}
    y = f.computation("y", domain, a[p] * (n + 1) + (d if features else 0))
    z = f.reduction("z", {m: ROWS}, domain, tm.sum, (y[n, p, d] if features else y[n, p]) * (m + 1))
    f.outputs(z)
    return f, y, z


def on_ranks(ranks: int, features: bool = False, together: bool = False) -> tm.Function:
    """Rows of both dealt out in blocks, so that each rank needs the runs of all others."""
    f, y, z = weighted(features)
    block = -(-ROWS // ranks)
    f.grid(ranks)
    z.distribute_array([m], rank=m // block)
    for computation, row in ((y, n), (z, m)):
        computation.split(row, block, r, o)
        computation.tag_distribute(r)
    f.derive_transfers(collectives=together)
    return f


def wanted(starts: np.ndarray, a: np.ndarray, features: int) -> np.ndarray:
    values = a * (np.repeat(np.arange(ROWS), np.diff(starts)) + 1)
    total = values.sum() if not features else (values[:, None] + np.arange(features)).sum()
    return np.asarray(total * np.arange(1, ROWS + 1))


@pytest.mark.parametrize(("ranks", "features", "together"), [(2, 0, False), (3, 0, True), (3, 2, False), (2, 2, True)])
def test_ranks_send_what_is_in_the_runs(ranks: int, features: int, together: bool) -> None:
    f = on_ranks(ranks, bool(features), together)
    report = f.check()
    assert report.ok, report
    for given in STARTS.values():
        starts = np.array(given, np.int32)
        a = np.arange(1.0, starts[-1] + 1)
        sizes = {"E": len(a), **({"D": features} if features else {})}
        ran = ran_on_ranks(f, rows=starts, a=a, **sizes)
        np.testing.assert_array_equal(ran.outputs[0], wanted(starts, a, features))
        assert ran.traffic.elements == (ranks - 1) * len(a) * max(1, features)


def test_values_in_messages_are_kept_by_position() -> None:
    f = on_ranks(3)
    assert [str(extent) for extent in f.program.buffers["y"].extents] == ["E"]
    assert f.cost("communication", E=120).elements == 2 * 120


def test_both_halves_read_where_runs_begin() -> None:
    program = on_ranks(2).completed
    accesses = MemoryAccesses(program)
    halves = [s for s in program.statements.values() if s.link.message is not None]
    assert [accesses.sources(half) for half in halves if half.receives] == [["rows"], ["rows"]]
    assert all(accesses.read(half, "rows") is not None for half in halves)


def changed(role: Role, conditions: Callable[[tuple[tm.Expr, ...]], tuple[tm.Expr, ...]]) -> str:
    """The report on ranks of which one half of each exchange has other conditions."""
    f = on_ranks(2)
    program = f.completed
    halves = [s for s in program.statements.values() if s.link.message is not None and s.role is role]
    f._program = program.with_statement(*(replace(half, guards=conditions(half.guards)) for half in halves))
    report = f.check()
    assert not report.ok
    return str(report)


@pytest.mark.parametrize("role", [Role.SEND, Role.COPY])
def test_halves_under_different_conditions_are_refused(role: Role) -> None:
    text = changed(role, lambda guards: ())
    assert "y_to_next.send has values of y where" in text
    assert "give both the same values" in text


def test_messages_may_not_leave_out_values() -> None:
    assert "y_to_next.recv runs only where int64(rows[n + 1]) == p + 1, and y has values elsewhere, too" in changed(
        Role.COPY, lambda guards: (*guards, _is_last(guards))
    )


def _is_last(guards: tuple[tm.Expr, ...]) -> tm.Expr:
    """The condition that a position is the last of its run."""
    (below,) = (guard for guard in guards if isinstance(guard, Binary) and guard.op == "<")
    return Binary("==", below.right, below.left + 1, bool_)

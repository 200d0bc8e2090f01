"""Time maps of statements in a group: they leave the loops that the group shares, and may share others afterwards."""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm
from tests.auto.programs import factors

i, k = tm.iters("i k")


def test_a_statement_of_a_group_gets_loops_of_its_own() -> None:
    f = factors()
    s, u = f["s"], f["u"]
    s.update.set_schedule("{ [i, j, k] -> [i, k, j] }")
    u.set_schedule("{ [i, j] -> [i, k = j] }")
    s.init.set_schedule("{ [i, j] -> [i, j] }")
    u.after(s.init, i)
    s.update.after(u, k)
    assert f.check().ok
    a = np.random.default_rng(0).random((13, 13)) + 13 * np.eye(13)
    np.testing.assert_allclose(f.compile()(a), f.evaluate(a=a))


def test_a_statement_that_left_its_loops_too_early_is_refused_by_the_proof() -> None:
    f = factors()
    f["s"].update.set_schedule("{ [i, j, k] -> [i, j, k] }")
    report = f.check()
    assert not report.ok and report.violations[0].kind in ("order", "overwritten", "reduction")

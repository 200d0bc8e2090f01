"""Runs in any order of loops: positions outside of runs, tiles of both, one loop over all; and what is proven of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.domains.references import access
from tiramisu_py.program.statement_runs import run_bounds
from tiramisu_py.proof import check

N, E = tm.params("N E")
n, p, k, d, j, p0, p1, n0, n1 = tm.iters("n p k d j p0 p1 n0 n1")
F = 4
START = np.array([0, 3, 3, 20, 21, 40, 40, 55, 64, 64, 101], np.int32)
OF = np.repeat(np.arange(10), np.diff(START))
NUMBERS = np.random.default_rng(0)
GIVEN = {
    "rows": START,
    "src": NUMBERS.integers(0, 50, 101).astype(np.int32),
    "h": NUMBERS.integers(-9, 9, (50, F)).astype(np.float32),
    "W": NUMBERS.integers(-9, 9, (10, F, F)).astype(np.float32),
}
MESSAGES = np.einsum("ek,ekd->ed", GIVEN["h"][GIVEN["src"]], GIVEN["W"][OF])
Scheduled = Callable[[Any], Any]


def typed_product(covering: bool = True) -> tuple[tm.Function, Any]:
    """One product for each position, by the matrix of its run."""
    f = tm.Function("typed_product", params=[N, E])
    if covering:
        rows = f.segments("rows", N, of=E)
        run = rows[n]
    else:
        rows = f.input("rows", tm.int32, [N + 1], values=(0, E + 1), monotone=True)
        run = (rows[n], rows[n + 1])
    src = f.input("src", tm.int32, [E], values=(0, 50))
    h, W = f.input("h", tm.float32, [50, F]), f.input("W", tm.float32, [N, F, F])
    msg = f.reduction("msg", {n: N, p: run, d: F}, {k: F}, tm.sum, h[src[p], k] * W[n, k, d])
    f.outputs(msg)
    return f, msg


def loops_of(f: tm.Function, steps: list[str]) -> list[str]:
    return [
        line.strip() for line in f.show("pseudocode").splitlines() if any(f"for {step} in" in line for step in steps)
    ]


ORDERS: dict[str, Scheduled] = {
    "one loop": lambda m: m.coalesce(n, p, into=j),
    "one loop of the update": lambda m: m.update.coalesce(n, p, into=j),
    "one loop on threads": lambda m: m.coalesce(n, p, into=j).parallelize(j),
    "one loop, vectors": lambda m: m.update.coalesce(n, p, into=j).reorder(j, n, k, d).vectorize(d, 4).parallelize(j),
    "one loop in tiles": lambda m: m.coalesce(n, p, into=j).split(j, 8, p0, p1).parallelize(p0),
    "interchange": lambda m: m.update.interchange(n, p),
    "reorder": lambda m: m.reorder(p, n, d),
    "tiles": lambda m: m.update.tile(n, p, 4, 8, n0, p0, n1, p1),
    "tiles of positions": lambda m: m.update.split(p, 8, p0, p1).reorder(p0, n, p1).parallelize(p0),
    "tiles of runs": lambda m: m.update.split(n, 4, n0, n1).reorder(n0, p, n1),
    "tiles of runs inside": lambda m: m.update.split(n, 4, n0, n1).reorder(p, n0, n1),
    "back again": lambda m: m.update.interchange(n, p).interchange(p, n),
}


@pytest.mark.parametrize("order", ORDERS)
def test_runs_are_the_same_in_any_order_of_their_loops(order: str) -> None:
    f, msg = typed_product()
    ORDERS[order](msg)
    report = f.check()
    assert report.ok and report.bits == "bits preserved" and not f.show("remarks"), (report, f.show("remarks"))
    assert next(s for s in f.cost(N=7, E=50).statements if s.name == "msg.update").instances == 50 * F * F
    kernel = f.compile(threads=2)
    np.testing.assert_array_equal(kernel(**GIVEN), MESSAGES)
    np.testing.assert_array_equal(f.evaluate(**GIVEN, as_scheduled=True), MESSAGES)
    none = {**GIVEN, "rows": np.zeros(11, np.int32), "src": np.zeros(0, np.int32)}
    assert kernel(**none).shape == (0, F)


def test_the_loop_over_runs_is_one_iteration_and_goes_when_it_is_outside_again() -> None:
    f, msg = typed_product()
    msg.update.coalesce(n, p, into=j)
    assert (
        "n = int64(rows_of[j])" in f.show("pseudocode")
        and "rows[n + 1]) " not in f.show("pseudocode").split("for j in")[1]
    )
    f, msg = typed_product()
    msg.update.interchange(n, p).interchange(p, n)
    assert "rows_of[p]" not in f.show("pseudocode")


def test_tiles_of_positions_go_through_the_runs_that_they_touch() -> None:
    f, msg = typed_product()
    msg.update.split(p, 8, p0, p1).reorder(p0, n, p1)
    assert loops_of(f, ["n"])[-1] == "for n in max(0, n_low) .. min(N, n_high):"
    assert "n_low = int64(rows_of[8 * p0])" in f.show("pseudocode")


def test_runs_that_leave_out_positions_keep_the_bounds_that_rows_outside_give() -> None:
    f, msg = typed_product(covering=False)
    msg.update.split(n, 4, n0, n1).reorder(n0, p, n1)
    assert (
        f.check().ok and "p_low = int64(rows[4 * n0])" in f.show("pseudocode") and "rows_of" not in f.show("pseudocode")
    )
    np.testing.assert_array_equal(f.compile()(**GIVEN), MESSAGES)


@pytest.mark.parametrize("threads", ["positions", "tiles"])
def test_threads_of_a_gpu_find_the_runs_of_their_positions(threads: str) -> None:
    f, msg = typed_product()
    if threads == "positions":
        msg.coalesce(n, p, into=j).split(j, 8, p0, p1).reorder(p0, p1, d).tag_gpu([p0], [p1, d])
    else:
        msg.split(p, 8, p0, p1).reorder(p0, n, p1).tag_gpu([p0], [d])
    f.derive_transfers()
    assert f.check().ok, f.check()
    np.testing.assert_array_equal(f.compile(device="simulator", sanitize=True)(**GIVEN), MESSAGES)


def test_statements_that_share_the_loops_are_all_bounded() -> None:
    f, msg = typed_product()
    out = f.computation("out", {n: N, p: f["rows"][n], d: F}, msg[n, p, d] * 2)
    f.outputs(out, replace=True)
    msg.compute_at(out, p)
    out.coalesce(n, p, into=j)
    assert f.check().ok, f.check()
    np.testing.assert_array_equal(f.compile()(**GIVEN), MESSAGES * 2)


def test_one_loop_of_what_is_no_run_is_refused() -> None:
    f, msg = typed_product()
    plain = f.computation("plain", {n: N, p: E}, f["rows"].start(n) + p)
    f.outputs(plain, msg, replace=True)
    msg.after(plain, p)
    with pytest.raises(
        tm.CommandError, match=r"plain shares the loop n with msg.init, and has no run of p there: give"
    ):
        msg.coalesce(n, p, into=j)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda rows, of: of(p + 1) <= n,
        lambda rows, of: n <= of(tm.max(p - 1, 0)),
        lambda rows, of: of(p) < n,
        lambda rows, of: n == of(E - 1 - p),
        lambda rows, of: rows(n + 1) <= p,
        lambda rows, of: p < rows(n),
        lambda rows, of: of(p) <= n - 1,
        lambda rows, of: p + 1 < rows(n + 1),
    ],
)
def test_conditions_that_do_not_follow_from_a_run_are_refused(wrong: Any) -> None:
    f, msg = typed_product()
    msg.update.interchange(n, p)
    program = f._program
    update = program.statements["msg_update"]

    def element(name: str) -> Callable[[Any], tm.Expr]:
        return lambda index: access(name, tm.int32, 1, index, f.owner)

    guard = typed(wrong(element("rows"), element("rows_of")))
    changed = program.with_statement(replace(update, guards=(*update.guards, guard)))
    messages = [violation.message for violation in check(changed).violations]
    assert any("msg.update runs only where" in each and "msg has values elsewhere" in each for each in messages)


def test_half_of_a_runs_number_leaves_its_own_conditions() -> None:
    f, msg = typed_product()
    msg.update.interchange(n, p)
    update = f._program.statements["msg_update"]
    *own, number = update.guards
    half = typed(access("rows_of", tm.int32, 1, p, f.owner) <= n)
    bounds = run_bounds(f._program, update)

    def kept(*guards: tm.Expr) -> list[str]:
        return [str(guard) for guard in bounds.needed(guards)]

    assert kept(*own, number) == [str(number)] and kept(*own, half) == [*map(str, own), str(half)]


def test_numbers_of_runs_go_with_the_command_that_asked_for_them() -> None:
    f, msg = typed_product()
    msg.update.interchange(n, p)
    assert "rows_of" in f.algorithm.computations
    f.undo()  # undone: nothing computes them
    assert "rows_of" not in f.algorithm.computations and "rows_of" not in f.show("pseudocode")
    out = f.computation("out", {p: E, d: F}, msg[f["rows"].of(p), p, d])
    f.outputs(out, replace=True)
    msg.update.interchange(n, p)
    f.undo()
    assert "rows_of" in f.algorithm.computations and f.check().ok


def test_a_file_keeps_one_loop_over_all_positions(tmp_path: Path) -> None:
    f, msg = typed_product()
    msg.coalesce(n, p, into=j).parallelize(j)
    f.save(tmp_path / "product.json")
    g = tm.load(tmp_path / "product.json")
    assert g.commands == f.commands and g.check().ok
    np.testing.assert_array_equal(g.compile()(**GIVEN), MESSAGES)

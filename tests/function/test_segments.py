"""Segments: runs that have each position once, and the run that a position is in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

N, E, M = tm.params("N E M")
n, p, q, m, p0, p1, n0, n1 = tm.iters("n p q m p0 p1 n0 n1")
START = np.array([0, 2, 2, 5, 8], np.int32)
OF = np.repeat(np.arange(4, dtype=np.int32), np.diff(START))
A = np.arange(8.0) ** 2


def scaled() -> tuple[tm.Function, Any, tm.Computation]:
    """a[p] times the number of its run, plus one."""
    f = tm.Function("scaled", params=[N, E], assume="N >= 1")
    rows = f.segments("rows", N, of=E)
    a = f.input("a", tm.float64, [E])
    return f, rows, f.computation("y", {n: N, p: rows[n]}, a[p] * (n + 1))


def scattered(op: tm.Operator = tm.sum) -> tuple[tm.Function, tm.Computation, tm.Computation]:
    """What runs compute, summed by another index of each position."""
    f = tm.Function("scattered", params=[N, E, M])
    rows = f.segments("rows", N, of=E)
    dst = f.input("dst", tm.int32, [E], values=(0, M))
    a = f.input("a", tm.float64, [E])
    y = f.computation("y", {n: N, p: rows[n]}, a[p] * (n + 1))
    z = f.scatter("z", {m: M}, over={p: E}, at=[dst[p]], op=op, expr=y[rows.of(p), p])
    f.outputs(z)
    return f, y, z


DST = np.array([2, 0, 2, 1, 1, 2, 0, 2], np.int32)
GIVEN = {"rows": START, "dst": DST, "a": A}
SUMS = np.bincount(DST, A * (OF + 1), 4)


def test_values_are_at_their_positions() -> None:
    f, _, y = scaled()
    f.outputs(y)
    assert str(f.cost(N=10, E=60).arrays[-1].elements) == "60"
    np.testing.assert_array_equal(f.compile()(START, A), A * (OF + 1))
    np.testing.assert_array_equal(f.evaluate(START, A), A * (OF + 1))


def test_the_run_of_a_position_is_a_value() -> None:
    f = tm.Function("runs", params=[N, E])
    rows = f.segments("rows", N, of=E)
    w = f.input("w", tm.float64, [N])
    f.outputs(f.computation("z", {p: E}, w[rows.of(p)]))
    w_given = np.arange(4.0) + 0.5
    assert f.check().ok, f.check()
    np.testing.assert_array_equal(f.compile()(START, w_given, E=8), w_given[OF])
    np.testing.assert_array_equal(f.evaluate(START, w_given, E=8), w_given[OF])
    assert f["rows"].of(p).source == "rows_of"  # once


@pytest.mark.parametrize(
    "scheduled",
    [
        lambda y, z: None,
        lambda y, z: y.split(p, 3, p0, p1),
        lambda y, z: y.vectorize(p, 4),
        lambda y, z: y.parallelize(n),
        lambda y, z: y.unroll(p, 2),
        lambda y, z: y.reorder(p, n),
        lambda y, z: y.split(n, 2, n0, n1),
    ],
    ids=["plain", "split", "vectorize", "parallelize", "unroll", "reorder", "split rows"],
)
def test_what_reads_by_position_sees_the_value_of_its_run(scheduled: Any) -> None:
    f, y, z = scattered()
    scheduled(y, z)
    report = f.check()
    assert report.ok and report.bits == "bits preserved", report
    np.testing.assert_allclose(f.compile()(**GIVEN, M=4), SUMS)
    np.testing.assert_allclose(f.evaluate(**GIVEN, M=4), SUMS)
    np.testing.assert_allclose(f.evaluate(**GIVEN, M=4, as_scheduled=True), SUMS)


def test_auto_schedule_and_the_simulator_keep_to_positions() -> None:
    f, _, _ = scattered()
    f.auto_schedule(threads=1)
    assert f.cost(N=4, E=800, M=9).statements[0].instances == 800
    np.testing.assert_allclose(f.compile()(**GIVEN, M=4), SUMS)
    f, y, _ = scattered()
    y.split(n, 2, n0, n1).tag_gpu([n0], [n1])
    f.derive_transfers()
    assert f.check().ok, f.check()
    np.testing.assert_allclose(f.compile(device="simulator")(**GIVEN, M=4), SUMS)


def test_no_positions_and_no_runs() -> None:
    f, _, _ = scattered()
    none = {"dst": DST[:0], "a": A[:0], "M": 4}
    np.testing.assert_array_equal(f.compile()(rows=np.zeros(1, np.int32), **none), np.zeros(4))
    np.testing.assert_array_equal(f.compile()(rows=np.zeros(3, np.int32), **none), np.zeros(4))


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ([1, 2, 2, 5, 8], "rows\\[0\\] = 1, but the first run begins at 0: each position is in one run"),
        ([0, 2, 2, 5, 7], "rows\\[4\\] = 7, but the last run ends at E = 8"),
        ([0, 2, 1, 5, 8], "rows\\[2\\] = 1, which is less than the element before it"),
        ([0, 2, 2, 9, 8], "rows\\[3\\] = 9, but its values are declared"),
    ],
)
def test_what_are_no_runs_of_all_positions_is_refused_at_the_call(start: list[int], words: str) -> None:
    f, _, _ = scattered()
    given = {**GIVEN, "rows": np.array(start, np.int32), "M": 4}
    for call in (f.compile(), f.evaluate):
        with pytest.raises(tm.ArgumentError, match=words):
            call(**given)


def test_the_run_of_another_position_is_refused() -> None:
    f, rows, y = scaled()
    other = f.segments("others", N, of=E)
    for name, read in (("z", y[rows.of(E - 1 - p), p]), ("v", y[other.of(p), p]), ("w", y[0, p])):
        g = f.copy()
        g.outputs(g.computation(name, {p: E}, read))
        (violation, *_) = g.check().violations
        assert violation.kind == "bounds" and f"{name}[0] reads y[0, 0], which exists only where" in violation.message


def test_runs_have_one_number_and_integers_begin_them() -> None:
    f, rows, _ = scaled()
    with pytest.raises(tm.DeclarationError, match=r"rows has runs with one number each, rows\[n\]: two were given"):
        rows[n, p]
    with pytest.raises(tm.DeclarationError, match="the segments more are float32: where they begin is an integer"):
        f.segments("more", N, of=E, dtype=tm.float32)


def test_a_file_keeps_runs(tmp_path: Path) -> None:
    f, y, _ = scattered()
    y.split(p, 3, p0, p1)
    f.save(tmp_path / "scattered.json")
    g = tm.load(tmp_path / "scattered.json")
    assert g.check().ok, g.check()
    np.testing.assert_allclose(g.compile()(**GIVEN, M=4), SUMS)
    with pytest.raises(tm.ArgumentError, match="the first run begins at 0"):
        g.evaluate(**{**GIVEN, "rows": np.maximum(START, 1)}, M=4)

"""Values in runs, ``start[n] <= p < start[n + 1]``: by default an array has an element for each position."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

N, E = tm.params("N E")
n, p, d, q, q0, q1 = tm.iters("n p d q q0 q1")
GIVEN = {"start": np.array([1, 3, 3, 7], np.int32), "a": np.arange(8.0)}


def scaled(monotone: bool = True, shift: int = 0) -> tuple[tm.Function, Any]:
    f = tm.Function("scaled", params=[N, E])
    start = f.input("start", tm.int32, [N + 1 + shift], values=(0, E + 1), monotone=monotone)
    a = f.input("a", tm.float64, [E])
    y = f.computation("y", {n: N, p: (start[n + shift], start[n + 1 + shift])}, a[p] * (n + 1))
    f.outputs(y)
    return f, y


def extents(f: tm.Function, name: str) -> list[str]:
    return [str(extent) for extent in f._program.buffers[name].extents]


@pytest.mark.parametrize("shift", [0, 1])
def test_a_value_is_at_its_position(shift: int) -> None:
    f, _ = scaled(shift=shift)
    assert extents(f, "y") == ["E"]
    start = np.array([0] * shift + [1, 3, 3, 7], np.int32)
    got, wanted = f.compile()(start, GIVEN["a"]), f.evaluate(start, GIVEN["a"])
    np.testing.assert_array_equal(got, [0, 1, 2, 9, 12, 15, 18, 0])  # 0 and 7 are in no row
    np.testing.assert_array_equal(got, wanted)


def test_other_indices_stay() -> None:
    g = tm.Function("wide", params=[N, E])
    start = g.input("start", tm.int32, [N + 1], values=(0, E + 1), monotone=True)
    y = g.computation("y", {d: 3, n: N, p: (start[n], start[n + 1])}, d + 10 * p)
    g.outputs(y)
    assert extents(g, "y") == ["3", "E"]
    got = g.compile()(GIVEN["start"], E=8)
    assert got[2, 6] == 62 and got.shape == (3, 8)


def test_a_position_tells_the_rows_of_rows() -> None:
    f = tm.Function("nested", params=[N, E])
    outer = f.input("outer", tm.int32, [N + 1], values=(0, E + 1), monotone=True)
    inner = f.input("inner", tm.int32, [E + 1], values=(0, E + 1), monotone=True)
    y = f.computation("y", {n: N, p: (outer[n], outer[n + 1]), q: (inner[p], inner[p + 1])}, q + 10 * p + 100 * n)
    f.outputs(y)
    assert extents(f, "y") == ["E"]
    given = {"outer": np.array([0, 2, 3], np.int32), "inner": np.array([0, 1, 1, 3], np.int32)}
    np.testing.assert_array_equal(f.compile()(**given), [0, 121, 122])


def test_rows_that_are_not_declared_monotone_have_all_indices() -> None:
    f, _ = scaled(monotone=False)
    assert extents(f, "y") == ["N", "E"]


def test_values_over_an_input_keep_its_other_elements() -> None:
    f, y = scaled()
    y.store_in(f["a"], [p])
    given = {**GIVEN, "a": GIVEN["a"] + 100}
    wanted = f.evaluate(**given)
    assert wanted[0] == 100 and wanted[7] == 107
    np.testing.assert_array_equal(f.compile()(**{**given, "a": given["a"].copy()}), wanted)


def test_gpus_keep_values_by_position() -> None:
    f, y = scaled()
    y.split(n, 2, q0, q1).tag_gpu([q0], [q1])
    f.derive_transfers()
    assert extents(f, "y") == ["E"]
    assert f.check().ok, f.check()
    kernel = f.compile(device="simulator")
    np.testing.assert_array_equal(kernel(**GIVEN), f.evaluate(**GIVEN))
    mine = kernel(**GIVEN, y=np.full(8, -7.0))
    assert mine[0] == mine[7] == -7  # in no row


def test_runs_that_only_a_gpu_knows_have_all_indices_there() -> None:
    f = tm.Function("there", params=[N, E])
    start = f.input("start", tm.int32, [N + 1], values=(0, E + 1), monotone=True, memory=tm.GPU_MEMORY)
    y = f.computation("y", {n: N, p: (start[n], start[n + 1])}, 1.0 * p)
    f.outputs(y)
    y.split(n, 2, q0, q1).tag_gpu([q0], [q1])
    assert extents(f, "y") == ["N", "E"]  # the host cannot ask where the runs begin
    f.undo(), f.undo()
    assert extents(f, "y") == ["E"]


def test_ranks_keep_by_position_what_no_message_brings() -> None:
    f, y = scaled()
    s = f.reduction("s", {n: N}, {p: (f["start"][n], f["start"][n + 1])}, tm.sum, y[n, p])
    f.outputs(s, replace=True)
    for each in (y, s):
        each.split(n, 2, q0, q1).tag_distribute(q0)
    f.derive_transfers()
    assert extents(f, "y") == ["E"]
    assert f.check().ok, f.check()


def test_messages_carry_the_positions_of_runs() -> None:
    f, y = scaled()
    start = f["start"]
    back = f.computation("back", {n: N, p: (start[n], start[n + 1])}, y[n, p] + 1)
    f.outputs(back, replace=True)
    y.split(n, 2, q0, q1).tag_distribute(q0)
    back.split(n, 3, q0, q1).tag_distribute(q0)
    f.derive_transfers()
    assert extents(f, "y") == ["E"]
    g, z = scaled()
    z.store_in(tm.Buffer("kept", [E], tm.float64), [p])
    z.split(n, 2, q0, q1).tag_distribute(q0)
    assert extents(g, "kept") == ["E"]  # the user's choice stays

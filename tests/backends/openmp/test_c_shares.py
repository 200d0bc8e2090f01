"""Shares of a parallel loop by the number of terms: where the header cuts, and what loops compute with them."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.backends.compiled import STRICT
from tests.programs.sparse import LENGTHS, N, P, by_rows, csr, i, p
from tiramisu_py.backends.c import REQUIRED

RUNTIME = Path(str(tm.__file__)).parent / "backends" / "c"
_SOURCE = """
#include "tm_runtime.h"
static int threads;
#define tm_team() threads
#include "tm_shares.h"
void shares(const int32_t *starts, int64_t extent, int64_t lower, int64_t upper, int team, int64_t *first) {
  threads = team;
  for (int t = 0; t <= team; t++) first[t] = TM_SHARE(starts, extent, lower, upper, t);
}
"""
HUGE = [1, 0, 1000, 2, 0, 0, 3]
EMPTY = [0] * 24


@pytest.fixture(scope="module")
def shares(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The first iterations of all threads, and the end."""
    folder = tmp_path_factory.mktemp("shares")
    (folder / "shares.c").write_text(_SOURCE)
    command = ["gcc", *REQUIRED, *STRICT, "-O1", "-fPIC", "-shared", f"-I{RUNTIME}", "shares.c", "-o", "shares.so"]
    subprocess.run(command, cwd=folder, check=True)
    function = ctypes.CDLL(str(folder / "shares.so")).shares

    def found(starts: list[int], lower: int, upper: int, team: int) -> list[int]:
        array, first = np.array(starts, np.int32), np.empty(team + 1, np.int64)
        sizes = map(ctypes.c_int64, (array.size, lower, upper))
        function(ctypes.c_void_p(array.ctypes.data), *sizes, team, ctypes.c_void_p(first.ctypes.data))
        return first.tolist()

    return found


@pytest.mark.parametrize(
    "lengths", [*LENGTHS, HUGE, EMPTY, [5] * 100, [*range(50)]], ids=lambda lengths: str(len(lengths))
)
@pytest.mark.parametrize("team", [1, 2, 3, 7, 64])
def test_shares_are_cut_where_the_costs_before_reach_their_part(shares: Any, lengths: list[int], team: int) -> None:
    starts = np.cumsum([3, *lengths])
    for lower, upper in ((0, len(lengths)), (min(2, len(lengths)), len(lengths)), (0, max(len(lengths) - 1, 0))):
        cost = starts[lower : upper + 1] + np.arange(lower, upper + 1) - starts[lower] - lower
        wanted = lower + np.searchsorted(cost, [int(cost[-1]) * t // team for t in range(team + 1)])
        assert shares(starts.tolist(), lower, upper, team) == wanted.tolist()


def test_rows_without_terms_are_shared_equally(shares: Any) -> None:
    assert shares([0] * 25, 0, 24, 3) == [0, 8, 16, 24]


def test_no_share_begins_outside_of_the_loop(shares: Any) -> None:
    assert shares([0, 1], 5, 5, 4) == [5] * 5
    assert shares([0, 1], 7, 5, 4) == [7] * 5
    assert shares([4, 5, 9], 0, 8, 3) == [0, 3, 6, 8]  # no starts for these iterations
    assert shares([4, 5, 9], -2, 2, 2) == [-2, 0, 2]


def rows(**facts: Any) -> tuple[tm.Function, Any]:
    f, y = csr()
    y.update.parallelize(i, balance=f["start"])
    return f, y


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_sums_of_rows_are_the_same_for_any_number_of_threads(threads: int) -> None:
    f, _ = rows()
    kernel = f.compile(threads=threads)
    for given in by_rows():
        np.testing.assert_array_equal(kernel(**given), f.evaluate(**given))


@pytest.mark.parametrize("lengths", [HUGE, EMPTY, []], ids=["one huge row", "no terms", "no rows"])
def test_unequal_rows(lengths: list[int]) -> None:
    f, _ = rows()
    start = np.cumsum([0, *lengths]).astype(np.int32)
    given = {
        "start": start, "column": np.zeros(start[-1], np.int32), "value": np.ones(start[-1], np.float32),
        "x": np.ones(1, np.float32),
    }  # fmt: skip
    np.testing.assert_array_equal(f.compile(threads=3)(**given), np.array(lengths, np.float32))


def test_partial_results_of_shares_are_combined() -> None:
    f = tm.Function("total", params=[N, P])
    start = f.input("start", tm.int64, [N + 1], values=(0, P + 1), monotone=True)
    value = f.input("value", tm.int64, [P])
    total = f.reduction("total", {}, over={i: N, p: (start[i], start[i + 1])}, op=tm.sum, expr=value[p])
    f.outputs(total)
    total.update.parallelize(i, combine=tm.PRIVATE, balance=start)
    assert f.check().ok
    kernel = f.compile(threads=3)
    for lengths in (*LENGTHS, HUGE, EMPTY):
        starts = np.cumsum([0, *lengths])
        assert kernel(starts, np.arange(starts[-1])) == sum(range(starts[-1]))


def test_the_command_is_text_saved_and_loaded(tmp_path: Path) -> None:
    f, _ = rows()
    assert str(f.commands[-1]) == "y.update.parallelize(i, balance=start)"
    f.save(tmp_path / "rows.json")
    loaded = tm.load(tmp_path / "rows.json")
    assert loaded.commands == f.commands
    assert loaded.source() == f.source()
    assert "parallel(static, balance start)" in loaded.show("pseudocode")


def test_an_input_that_is_no_start_of_rows_is_refused() -> None:
    f, y = csr()
    for arguments, words in (
        ({"balance": f["column"]}, "not declared to have one dimension and not to decrease"),
        ({"balance": y}, "give an input"),
        ({"balance": "start"}, "give an input of csr"),
        ({"balance": f["start"], "schedule": "dynamic"}, "leave out other loops, schedule= and chunk="),
        ({"balance": f["start"], "chunk": 4}, "leave out other loops, schedule= and chunk="),
    ):
        with pytest.raises(tm.CommandError, match=words):
            y.update.parallelize(i, **arguments)
    with pytest.raises(tm.CommandError, match="leave out other loops"):
        y.update.parallelize(i, p, balance=f["start"])


def refused(f: tm.Function) -> tm.Violation:
    (found,) = f.check().violations
    assert found.kind == "reach"
    assert found.command is not None and "balance=start" in str(found.command)
    return found


def test_an_input_without_an_end_for_each_iteration_is_refused() -> None:
    f, y = csr()
    y.update.shift(i, 1)
    y.update.parallelize(i, balance=f["start"])
    assert "which has N + 1 elements" in str(refused(f))


def test_an_input_that_nothing_reads_is_refused() -> None:
    f = tm.Function("f", params=[N])
    start = f.input("start", tm.int32, [N + 1], monotone=True)
    a = f.input("a", tm.int32, [N])
    b = f.computation("b", {i: N}, 2 * a[i])
    f.outputs(b)
    b.parallelize(i, balance=start)
    assert "which nothing reads" in str(refused(f))


def test_an_input_that_the_function_writes_is_refused() -> None:
    f = tm.Function("f", params=[N])
    start = f.input("start", tm.int32, [N + 1], monotone=True)
    b = f.computation("b", {i: N}, start[i] + 1)
    f.outputs(b)
    b.store_in(start, [i])
    b.parallelize(i, balance=start)
    assert "the function stores to start" in str(refused(f))

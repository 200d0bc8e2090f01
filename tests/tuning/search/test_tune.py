"""Which points are tried, compiled and measured, and what a search returns."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.tuning.search.laboratory import LEGAL, SIZES, SPACE, Laboratory, i, make, product
from tiramisu_py.errors import ToolchainError
from tiramisu_py.function.results import Emission
from tiramisu_py.tuning.search import tuner
from tiramisu_py.tuning.search.proposals import EveryPoint
from tiramisu_py.tuning.search.space import Space

N = tm.params("N")[0]


def sorted_points(points: list[Any]) -> list[Any]:
    return sorted(points, key=lambda point: point["lanes"])


def test_the_best_schedule_is_returned_as_commands(laboratory: Laboratory) -> None:
    result = laboratory.tune()
    assert result.best.parameters == {"lanes": 8, "loop": "i"}
    assert result.best.seconds == 1 / 8
    f, _ = product()
    again = tm.Function.of(f.algorithm, result.best.commands)
    assert again.commands == make(8, "i").commands
    a = np.arange(15, dtype=np.int32).reshape(5, 3)
    assert np.array_equal(again.compile()(a, a.T.copy()), a @ a.T)


def test_every_point_is_tried_and_only_legal_ones_are_compiled(laboratory: Laboratory) -> None:
    result = laboratory.tune()
    assert len(result.points) == result.size == 8
    assert result.complete
    assert sorted_points(laboratory.measured) == LEGAL
    legal = [[str(command) for command in make(**point).commands] for point in LEGAL]
    assert sorted(laboratory.compiled) == sorted(legal)
    assert (result.measured, result.pruned, result.failed) == (3, 5, 0)
    assert result.pruned_share == 5 / 8


def test_a_pruned_point_keeps_the_reason(laboratory: Laboratory) -> None:
    reasons = {(p.parameters["lanes"], p.parameters["loop"]): p.reason for p in laboratory.tune().points}
    assert "the vector width of j is 3" in reasons[3, "i"]
    assert reasons[4, "k"].startswith("race: ")
    assert "c.update.parallelize(k)" in reasons[4, "k"]
    assert reasons[4, "i"] == ""


def test_where_excludes_points_before_they_are_made(laboratory: Laboratory) -> None:
    made = []

    def noting(lanes: int, loop: str) -> tm.Function:
        made.append((lanes, loop))
        return make(lanes, loop)

    result = laboratory.tune(made=noting, where=lambda lanes, loop: loop == "i" and lanes != 3)
    assert result.size == 3
    assert result.pruned == 0
    assert {loop for _, loop in made} == {"i"}
    assert {lanes for lanes, _ in made} == {2, 4, 8}


def test_the_order_is_that_of_the_seed(laboratory: Laboratory) -> None:
    def order(seed: int) -> list[Any]:
        return [point.parameters for point in laboratory.tune(seed=seed).points]

    assert order(1) == order(1)
    assert any(order(1) != order(seed) for seed in range(2, 6))


def test_points_are_compiled_side_by_side_and_measured_alone(
    laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two compilers wait for each other, so that a search that runs one after another never ends."""
    meeting, compiling, overlaps = threading.Barrier(2, timeout=60), [0], []
    emission = tuner.emission

    def slow(f: tm.Function, **options: Any) -> Any:
        build = emission(f, **options)

        def waiting() -> Any:
            compiling[0] += 1
            meeting.wait()
            kernel = build()
            compiling[0] -= 1
            return kernel

        return Emission(build.sources, waiting)

    monkeypatch.setattr(tuner, "emission", slow)
    laboratory.interrupt = lambda number: overlaps.append(compiling[0])
    space = {"lanes": [2, 4, 8, 16], "loop": ["i"]}
    laboratory.cost = lambda point, sample: 1.0 + point["lanes"]  # no two are near: none is compiled again
    assert laboratory.tune(space).measured == 4
    assert set(overlaps) == {0}


def test_two_points_of_one_program_are_measured_once(laboratory: Laboratory) -> None:
    result = laboratory.tune({"lanes": [4], "same": [1, 2, 3]}, lambda lanes, same: make(lanes, "i"))
    assert len(laboratory.measured) == 1
    assert [point.seconds for point in result.points] == [1 / 4] * 3
    assert sorted(point.reused for point in result.points) == [False, True, True]


def test_a_point_that_the_compiler_refuses_fails_and_the_others_go_on(
    laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch
) -> None:
    emission = tuner.emission

    def refusing(f: tm.Function, **options: Any) -> Any:
        if any("4" in str(command) for command in f.commands):

            def build() -> Any:
                raise ToolchainError("the compiler does not like it")

            return Emission({"refused.c": ""}, build)
        return emission(f, **options)

    monkeypatch.setattr(tuner, "emission", refusing)
    result = laboratory.tune()
    assert (result.measured, result.failed) == (2, 1)
    assert "1 failed: the compiler does not like it" in result.table()
    monkeypatch.setattr(tuner, "emission", emission)
    assert laboratory.tune().measured == 3  # a failure is tried again in the next search


def test_an_update_in_place_starts_from_the_same_values_each_time(laboratory: Laboratory) -> None:
    seen = []

    def halved(lanes: int) -> tm.Function:
        f = tm.Function("halved", params=[N])
        a = f.input("a", tm.float32, [N])
        b = f.computation("b", {i: N}, a[i] * 0.5)
        f.outputs(b)
        b.store_in(a, [i])
        b.vectorize(i, lanes)
        return f

    given = np.ones(37, dtype=np.float32)
    laboratory.cost = lambda point, sample: 1.0
    bench_calls = tuner.Bench.calls

    def watched(bench: Any, kernel: Any, what: str) -> Any:
        calls = bench_calls(bench, kernel, what)
        (before,) = calls.before
        before()
        seen.append(before.args[0]["a"].copy())
        return calls

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuner.Bench, "calls", watched)
        laboratory.tune({"lanes": [2, 4]}, halved, sizes=None, arguments={"a": given})
    assert len(seen) >= 2
    assert all(np.array_equal(values, given) for values in seen)
    assert np.array_equal(given, np.ones(37))


def test_several_sizes_count_by_their_geometric_mean(laboratory: Laboratory) -> None:
    turn = itertools.count()
    laboratory.cost = lambda point, sample: (4.0, 9.0)[next(turn) % 2]
    result = laboratory.tune({"lanes": [4], "loop": ["i"]}, sizes=[SIZES, {**SIZES, "N": 8}])
    assert result.best.samples == ((4.0,) * 3, (9.0,) * 3)
    assert result.best.seconds == pytest.approx(6.0)


def test_a_time_limit_ends_the_search_and_the_next_one_goes_on(
    laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(tuner.time, "monotonic", lambda: now[0])

    def spend(number: int) -> None:
        now[0] += 1.0

    laboratory.interrupt = spend
    result = laboratory.tune({"lanes": [2, 4, 8], "loop": ["i"]}, seconds=4.0)
    assert not result.complete
    assert 0 < result.measured < 3
    assert f"{len(result.points)} of 3 points tried" in str(result)
    before = len(laboratory.measured)
    assert laboratory.tune({"lanes": [2, 4, 8], "loop": ["i"]}).complete
    assert len(laboratory.measured) == 3 > before


def test_the_best_points_are_measured_again_when_the_time_is_over(
    laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(tuner.time, "monotonic", lambda: now[0])

    def spend(number: int) -> None:
        now[0] += 1.0 if number < 6 else 0.01

    laboratory.interrupt = spend
    laboratory.cost = lambda point, sample: 1.0
    result = laboratory.tune({"lanes": [2, 4, 8], "loop": ["i"]}, seconds=6.0)
    assert (result.measured, result.complete) == (2, False)
    assert [len(point.samples[0]) for point in result.points] == [6, 6]


def test_a_search_without_a_legal_point_says_why(laboratory: Laboratory) -> None:
    result = laboratory.tune({"lanes": [3], "loop": ["i", "k"]})
    assert not laboratory.compiled
    with pytest.raises(tm.ArgumentError) as raised:
        _ = result.best
    assert "has been measured: 2 pruned by the proof" in str(raised.value)
    assert "the vector width of j is 3" in str(raised.value)
    assert "none measured" in str(result)


def test_the_table_lists_the_fastest_first_and_groups_what_was_pruned(laboratory: Laboratory) -> None:
    lines = laboratory.tune().table().splitlines()
    assert lines[0].split() == ["lanes", "loop", "time", "of", "best", "outcome"]
    assert lines[1].split() == ["8", "i", "125", "ms", "1.00", "measured"]
    assert lines[2].split()[:2] == ["4", "i"]
    assert any(line.startswith("2 pruned: ") and "the vector width of j is 3" in line for line in lines)
    assert any(line.startswith("3 pruned: race") for line in lines)
    short = laboratory.tune().table(1).splitlines()
    assert short[2] == "... and 2 more"


def test_the_best_points_are_measured_again_in_turns(laboratory: Laboratory) -> None:
    """A point that was lucky once loses: the least of six samples decides, not of three."""
    order: list[int] = []

    def cost(point: dict[str, Any], sample: int) -> float:
        order.append(point["lanes"])
        again = order.count(point["lanes"]) > 3
        return {2: 5.0, 4: 0.9 if again else 1.05, 8: 1.0}[point["lanes"]]

    laboratory.cost = cost
    result = laboratory.tune()
    assert result.best.parameters["lanes"] == 4
    assert result.best.seconds == 0.9
    assert len(result.best.samples[0]) == 6
    last = order[-6:]
    assert last[0] != last[1]
    assert last[:2] * 3 == last
    laboratory.forget()
    assert laboratory.tune().best.samples == result.best.samples
    assert laboratory.samples == 0


def test_an_argument_that_does_not_fit_ends_the_search(laboratory: Laboratory) -> None:
    with pytest.raises(tm.ArgumentError, match="a") as raised:
        laboratory.tune(sizes=None, arguments={"a": np.ones((4, 3)), "b": np.ones((3, 5), np.int32)})
    assert any("where tune calls product with lanes=" in note for note in raised.value.__notes__)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"sizes": {"N": 5}}, "give M="),
        ({"arguments": {"q": 3}}, "arguments has 'q'"),
        ({"arguments": 5}, "arguments=5"),
        ({"sizes": []}, "sizes="),
        ({"arguments": lambda N: {}, "sizes": None}, "function of sizes"),
        ({"points": 0}, "points=0"),
        ({"repeats": True}, "repeats=True"),
        ({"seconds": -1}, "seconds=-1"),
        ({"seed": "x"}, "seed='x'"),
        ({"workers": 0}, "workers=0"),
        ({"progress": 1}, "progress=1"),
        ({"search": "best"}, "search='best'"),
        ({"trace": True}, "no option trace="),
        ({"optimise": 3}, "no option optimise="),
        ({"where": 3}, "where=3"),
        ({"where": lambda rows: True}, "where does not take"),
        ({"database": 3}, "database=3"),
    ],
)
def test_wrong_arguments_are_refused(laboratory: Laboratory, wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(tm.ArgumentError) as raised:
        laboratory.tune(**wrong)
    assert says in str(raised.value)
    assert not laboratory.compiled


def test_make_must_return_a_function_that_runs_in_one_process(laboratory: Laboratory) -> None:
    with pytest.raises(tm.ArgumentError, match="returned None"):
        laboratory.tune({"lanes": [2]}, lambda lanes: None)

    def ranked(lanes: int) -> tm.Function:
        f, c = product()
        c.tag_distribute(i)
        return f

    with pytest.raises(tm.ArgumentError, match="runs on ranks"):
        laboratory.tune({"lanes": [2]}, ranked)
    with pytest.raises(tm.ArgumentError, match="make does not take"):
        laboratory.tune({"width": [2]})


def test_a_fault_of_make_itself_is_not_taken_for_an_illegal_point(laboratory: Laboratory) -> None:
    with pytest.raises(ZeroDivisionError):
        laboratory.tune({"lanes": [0]}, lambda lanes: 1 // lanes)


def test_a_search_with_a_real_clock_finds_a_point(tmp_path: Any, capfd: pytest.CaptureFixture[str]) -> None:
    result = tm.tune(make, SPACE, sizes=SIZES, database=tmp_path / "t.sqlite", repeats=2, progress=True)
    assert result.best.seconds is not None
    assert result.best.seconds > 0
    assert result.best.parameters in LEGAL
    said = capfd.readouterr().err.splitlines()
    assert "5 pruned, 0 failed, best" in said[-1]
    assert said[-1].endswith("done")


def test_make_may_change_one_function_again_and_again(laboratory: Laboratory) -> None:
    f, c = product()

    def rescheduled(lanes: int) -> tm.Function:
        while f.commands:
            f.undo()
        c.update.reorder(i, *tm.iters("k j"))
        c.update.vectorize(tm.iters("j")[0], lanes)
        return f

    result = laboratory.tune({"lanes": [2, 4, 8]}, rescheduled)
    assert result.best.parameters == {"lanes": 8}
    for point in result.points:
        assert str(point.commands[-1]) == f"c.update.vectorize(j, {point.parameters['lanes']})"


def test_a_point_of_a_slow_phase_gets_another_chance_in_the_end(
    laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While all but the first point are measured, the machine is three times slower; one of them is the best."""
    monkeypatch.setattr(tuner.Tuner, "_control", laboratory.control)
    usual, phase = {2: 1.0, 4: 0.95, 8: 5.0}, [1.0]
    laboratory.cost = lambda point, sample: usual[point["lanes"]] * phase[0]
    space = {"lanes": [2, 4, 8], "loop": ["i"]}
    laboratory.tune({"lanes": [2], "loop": ["i"]})
    phase[0] = 3.0
    again = tuner.Tuner._again

    def afterwards(search: tuner.Tuner, *given: Any) -> None:
        phase[0] = 1.0
        again(search, *given)

    monkeypatch.setattr(tuner.Tuner, "_again", afterwards)
    seed = next(seed for seed in range(100) if EveryPoint(Space(space), seed).take(1)[0]["lanes"] == 2)
    result = laboratory.tune(space, seed=seed)
    assert {point.parameters["lanes"]: point.outcome for point in result.points} == {
        2: "measured", 4: "measured", 8: "stopped",
    }  # fmt: skip
    assert result.best.parameters["lanes"] == 4
    assert result.best.seconds == 0.95

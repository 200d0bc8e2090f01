"""tm.plan and tm.rok: beside brute force, beside what `f.cost("memory")` says, and disks in years."""

from __future__ import annotations

import itertools
import math
import random
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.tuning.memory.options import options_of, widths_of
from tiramisu_py.tuning.memory.planning import cheapest, in_order, with_options

N, T = tm.params("N T")
i, t = tm.iters("i t")
MACHINE = tm.Machine(core_flops=10e9, cores=1, host_bandwidth=10e9)


def rods(count: int) -> tm.Function:
    """The gradient of several rods, whose levels are read late."""
    f = tm.Function("rods", params=[T, N], assume="T >= 1 and N >= 2")
    c = f.input("c", tm.float64, [N])
    last: list[Any] = []
    for k in range(count):

        def level(u: Any, k: int = k) -> Any:
            return tm.select(t == 0, c[i] + k, u[t - 1, i] * (1 - c[i] * u[t - 1, i]))

        last.append(f.computation(f"u{k}", {t: T + 1, i: N}, level))
    f.outputs(f.computation("last", {i: N}, sum((u[T, i] for u in last[1:]), last[0][T, i])))
    return tm.vjp(f, wrt=["c"]).step


@pytest.mark.parametrize("seed", range(200))
def test_the_choice_is_that_of_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    seconds = [[0.0, *(rng.randrange(6) / 2 for _ in range(rng.randrange(4)))] for _ in range(rng.randrange(1, 5))]
    held = [[[rng.randrange(9) for _ in range(3)] for _ in each] for each in seconds]  # at three moments

    def peak(chosen: tuple[int, ...]) -> int | None:
        if sum(chosen) % 7 == 6:
            return None  # some options do not go together
        return max(sum(held[v][k][moment] for v, k in enumerate(chosen)) for moment in range(3))

    every = list(itertools.product(*(range(len(each)) for each in seconds)))
    assert sorted(in_order(seconds)) == every
    cost = {chosen: sum(seconds[v][k] for v, k in enumerate(chosen)) for chosen in every}
    peaks = {chosen: found for chosen in every if (found := peak(chosen)) is not None}
    budget = rng.randrange(4, 24)
    fitting = [cost[chosen] for chosen, found in peaks.items() if found <= budget]
    if fitting:
        chosen = cheapest(seconds, peak, budget)
        assert peaks[chosen] <= budget and cost[chosen] == min(fitting)
    else:
        with pytest.raises(tm.ArgumentError, match=f"the least that any choice needs are {min(peaks.values())} bytes"):
            cheapest(seconds, peak, budget)


@pytest.mark.slow
def test_a_plan_is_the_fastest_of_all_combinations() -> None:
    f, sizes = rods(2), {"T": 3, "N": 100}
    options = options_of(f, sizes, MACHINE)
    assert [each[0].value for each in options] == ["u0", "u1"] and all(len(each) == 4 for each in options)
    whole = f.cost("memory", **sizes).peak
    budget = whole - 1
    found = tm.plan(f, sizes, budget=budget, machine=MACHINE)
    best = float("inf")
    for first, second in itertools.product(options[0][::2], options[1][::2]):
        changed = with_options(f, [first, second])
        if changed is not None and changed.cost("memory", **sizes).peak <= budget:
            best = min(best, first.seconds + second.seconds)
    assert sum(each.seconds for each in found.choices) <= best
    kept = f.copy().compile()
    for command in found.commands:
        f.apply(command)
    assert f.check().ok and f.cost("memory", **sizes).peak == found.peak <= budget
    c = np.linspace(0, 0.1, 5)
    d_last = np.arange(5.0)
    for one, other in zip(kept(c=c, d_last=d_last, T=3), f.compile()(c=c, d_last=d_last, T=3), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("levels", [2, 7, 40, 64, 1000, 10**6])
def test_segments_in_segments_are_tried_where_they_keep_fewer_levels(levels: int) -> None:
    found = widths_of(levels)

    def held(widths: tuple[int, ...]) -> int:
        kept = [len(range(0, levels, widths[0])), *(a // b for a, b in itertools.pairwise(widths)), widths[-1]]
        return sum(kept) + 2 * (len(widths) - 1)

    least = min(held(widths) for widths in found if len(widths) == 1)
    nested = [widths for widths in found if len(widths) > 1]
    assert all(a % b == 0 and a > b for widths in nested for a, b in itertools.pairwise(widths))
    assert all(held(widths) < least for widths in nested)
    assert bool(nested) == (levels >= 64)
    if nested:
        depth = len(nested[-1]) + 1
        assert held(nested[-1]) <= depth * math.ceil(levels ** (1 / depth)) + 2 * (depth - 2)


@pytest.mark.slow
def test_a_plan_for_little_memory_has_segments_in_segments() -> None:
    f, sizes = rods(1), {"T": 63, "N": 100}
    found = tm.plan(f, sizes, budget=100 * 8 * (14 + 5 + 1), machine=MACHINE)  # u0, d_u0, d_c
    assert [str(each) for each in found.commands] == ["u0.recompute(t, every=(16, 4))", "d_u0.fold(t, 5)"]
    kept = f.copy().compile()
    for command in found.commands:
        f.apply(command)
    assert f.check().ok and f.cost("memory", **sizes).peak == found.peak
    given = {"c": np.linspace(0, 0.1, 5), "d_last": np.arange(5.0), "T": 63}
    for one, other in zip(kept(**given), f.compile()(**given), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_plan_with_room_keeps_everything() -> None:
    f = rods(1)
    found = tm.plan(f, {"T": 9, "N": 10}, budget=10**6, machine=MACHINE)
    assert found.commands == () and found.added == 0 and "keep u0" in str(found)


@pytest.mark.slow
def test_what_no_plan_meets_is_refused_with_the_least_budget() -> None:
    f, sizes = rods(1), {"T": 5, "N": 10}
    with pytest.raises(tm.ArgumentError, match=r"tm.plan\(rods_step\): budget=100: the least .* (\d+) bytes") as raised:
        tm.plan(f, sizes, budget=100, machine=MACHINE)
    least = int(str(raised.value).split()[-2])
    assert tm.plan(f, sizes, budget=least, machine=MACHINE).peak == least
    assert least == 80 * min(math.ceil(6 / k) + k + k + 1 + 1 for k in range(2, 7))  # d_u0 has k + 1, a sum has one
    with pytest.raises(tm.ArgumentError, match=r"budget is True: give a number of bytes"):
        tm.plan(f, sizes, budget=True, machine=MACHINE)
    with pytest.raises(tm.ArgumentError, match=r"rods_step has the parameters T, N: N has no value"):
        tm.plan(f, {"T": 5}, budget=1000, machine=MACHINE)
    with pytest.raises(tm.ArgumentError, match=r"tm.plan takes a function of tiramisu_py, not 3"):
        tm.plan(3, sizes, budget=1, machine=MACHINE)  # type: ignore[arg-type]


@pytest.mark.parametrize(("rate", "kind"), [(1e13, "offload"), pytest.param(1e3, "recompute", marks=pytest.mark.slow)])
def test_a_fast_disk_is_better_than_computing_again_and_a_slow_one_is_not(rate: float, kind: str) -> None:
    f, sizes = rods(1), {"T": 11, "N": 50}
    disk = tm.Storage(write=rate, read=rate, endurance=1e9, price=2)
    machine = tm.Machine(core_flops=1e6, cores=1, host_bandwidth=1e15, storage=disk)
    found = tm.plan(f, sizes, budget=f.cost("memory", **sizes).peak - 1, machine=machine)
    assert [each.kind for each in found.choices] == [kind]
    for command in found.commands:
        f.apply(command)
    assert f.check().ok and f.cost("memory", **sizes).peak == found.peak
    if kind == "offload":
        moved = f.cost("communication", **sizes)
        assert found.written + found.read == moved.bytes > 0
        assert found.years == pytest.approx(1e9 / found.written * found.seconds / (365 * 24 * 3600))
        assert "GB/s written, worn out after" in str(found) and "price 2" in str(found)


@pytest.mark.slow
def test_the_curve_has_a_point_for_each_way() -> None:
    f, sizes = rods(1), {"T": 4, "N": 50}
    curve = tm.rok(f, sizes, machine=MACHINE)
    peaks = [point.peak for point in curve.points]
    assert peaks == sorted(peaks, reverse=True) and "keep" in {point.kind for point in curve.points}
    for point in curve.points[::2]:
        changed = f.copy()
        for command in point.commands:
            changed.apply(command)
        assert changed.cost("memory", **sizes).peak == point.peak
    few = tm.RokCurve(f, sizes, curve.points[::3]).measured(c=np.full(50, 0.1), d_last=np.ones(50), T=4)
    assert all(point.measured > 0 for point in few.points)
    circles = ET.fromstring(few.picture()).iter("{http://www.w3.org/2000/svg}circle")
    assert sum(len(circle) for circle in circles) == 2 * len(few.points)
    plain = tm.Function("plain", params=[N])
    a = plain.input("a", tm.float64, [N])
    plain.outputs(plain.computation("b", {i: N}, a[i] + 1))
    with pytest.raises(tm.ArgumentError, match="no recurrence of plain is read late"):
        tm.rok(plain, {"N": 3}, machine=MACHINE)


# -- disks


def test_a_disk_wears_out() -> None:
    disk = tm.Storage(write=1e9, read=2e9, endurance=365 * 24 * 3600 * 1e6)
    assert disk.years(written=2e6, seconds=1) == 0.5 and disk.years(0, 1) == float("inf")
    with pytest.raises(tm.ArgumentError, match=r"the endurance of the disk is not known: give tm.Storage\(.., endur"):
        tm.Storage(write=1, read=1).years(1, 1)
    with pytest.raises(tm.ArgumentError, match=r"tm.Storage: write is 0: give bytes a second, such as 1e9"):
        tm.Storage(write=0, read=1)
    with pytest.raises(tm.ArgumentError, match=r"tm.Storage: price is 'dear': give a number"):
        tm.Storage(write=1, read=1, price="dear")  # type: ignore[arg-type]


def test_a_machine_has_a_disk(tmp_path: Path) -> None:
    rates = {"core_flops": 1e9, "cores": 1, "host_bandwidth": 1e9}
    machine = tm.Machine.here(storage=tm.Storage(write=1e9, read=2e9), **rates)
    assert machine.storage is not None and machine.storage.read == 2e9
    assert tm.Machine.load(machine.save(tmp_path / "machine.json")) == machine
    with pytest.raises(tm.ArgumentError, match=r"tm.Machine: storage is 3: give tm.Storage\(write=1e9, read=1e9\)"):
        tm.Machine.here(storage=3, **rates)  # type: ignore[arg-type]


def test_a_folder_that_is_no_disk_is_refused(tmp_path: Path) -> None:
    with pytest.raises(tm.ArgumentError, match=f"there is no folder {tmp_path / 'gone'}: create it first"):
        tm.Storage.here(tmp_path / "gone")
    if Path("/dev/shm").is_dir():
        with pytest.raises(tm.ArgumentError, match=r"/dev/shm is in memory \(tmpfs\): choose a folder on a disk"):
            tm.Storage.here("/dev/shm")

"""What balance proposes, by clocks that are known; what it refuses; runs in the simulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs.partitioned import IN_ORDER, MACHINE, C, G, H, R, blur, c, r
from tiramisu_py.tuning.balancing import balanced
from tiramisu_py.tuning.levels import levels
from tiramisu_py.tuning.sample_sizes import LEAST, equal_parts, short_sizes

SIZES = {"R": 8000, "C": 2000}
Times = Callable[[int, int], tuple[float, float]]


def by_clock(f: tm.Function, times: Times, sizes: Mapping[str, int] = SIZES, rows: int = 256) -> tm.Balance:
    """The split of a function in two parts, on a machine where they take what `times` says, measured at a few rows."""

    def clock(params: Mapping[str, int]) -> tuple[float, float]:
        return times(params["G"], params["R"] - params["G"])

    found = levels(f.completed, sizes)
    return balanced(f.completed, found, sizes, {**sizes, "R": rows}, clock, True)


def affine(device: int, cores: int) -> tuple[float, float]:
    return (40e-6 + 1.3e-6 * device if device else 0.0, 5e-6 * cores)


def uneven(device: int, cores: int) -> tuple[float, float]:
    """Costs that are not affine: the cores slow down a little where the rows no longer fit into caches."""
    return (40e-6 + 1.3e-6 * device if device else 0.0, 5e-6 * cores**1.01)


def test_the_split_is_the_best_of_a_sweep() -> None:
    split = by_clock(blur(), affine)
    sweep = {cut: max(affine(cut, 8000 - cut)) for cut in range(8001)}
    assert sweep[split.points["G"]] == min(sweep.values())
    assert split.seconds == pytest.approx(min(sweep.values()))
    assert split.parts[0].fixed == pytest.approx(40e-6)
    assert split.parts[0].rate == pytest.approx(1 / 1.3e-6)


def test_the_split_is_near_the_best_of_a_sweep_where_costs_are_not_affine() -> None:
    split = by_clock(blur(), uneven)
    sweep = {cut: max(uneven(cut, 8000 - cut)) for cut in range(8001)}
    assert sweep[split.points["G"]] <= 1.1 * min(sweep.values())
    assert sweep[split.points["G"]] < 0.5 * min(sweep[0], sweep[4000])


@pytest.mark.parametrize("rows", [33, 256, 5000])
def test_the_small_range_does_not_matter_where_costs_are_affine(rows: int) -> None:
    assert by_clock(blur(), affine, rows=rows).points == by_clock(blur(), affine).points


def test_rows_are_longer_at_full_size_than_in_the_small_run() -> None:
    f = blur()

    def clock(params: Mapping[str, int]) -> tuple[float, float]:
        return (1e-4 + 1e-9 * params["G"] * params["C"], 4e-9 * (params["R"] - params["G"]) * params["C"])

    found = levels(f.completed, SIZES)
    split = balanced(f.completed, found, SIZES, {"R": 128, "C": 100}, clock, True)
    sweep = {cut: max(clock({**SIZES, "G": cut})) for cut in range(8001)}
    assert sweep[split.points["G"]] == pytest.approx(min(sweep.values()), rel=1e-4)


def test_stages_that_are_cut_alike_count_together() -> None:
    split = by_clock(blur(stages=True), affine)
    assert [part.name for part in split.parts] == ["bx_0 + by_0", "bx_1 + by_1"]
    assert sum(part.iterations for part in split.parts) == 8000
    assert split.points == pytest.approx(by_clock(blur(), affine).points, rel=5e-3)  # bx has two rows more


def test_assumptions_bound_the_points() -> None:
    split = by_clock(blur(assume="64 <= G <= R and G % 32 = 0 and C >= 1 and R >= 128"), affine, rows=256)
    assert split.points["G"] % 32 == 0
    assert abs(split.points["G"] - by_clock(blur(), affine).points["G"]) <= 32
    slow = by_clock(blur(assume="64 <= G <= R and C >= 1"), lambda n, m: (1.0 + n, 1e-6 * m))
    assert slow.points == {"G": 64}


def test_a_part_that_does_not_pay_gets_nothing() -> None:
    split = by_clock(blur(), lambda n, m: (1e3 * n, 1e-6 * m))
    assert split.points == {"G": 0}
    assert split.parts[0].seconds == 0


def test_a_point_may_be_a_formula_of_its_parameter() -> None:
    down = by_clock(blur((R - G,)), lambda n, m: affine(m, n))
    assert 8000 - down.points["G"] == by_clock(blur(), affine).points["G"]
    halves = blur((G // 2, G), (tm.gpu(0), tm.gpu(1), tm.cores()))
    split = tm.balance(halves, SIZES, machine=MACHINE)
    assert split.parts[0].iterations == split.points["G"] // 2


def test_one_of_two_points_may_be_known() -> None:
    f = blur((G, H), (tm.gpu(0), tm.gpu(1), tm.cores()), IN_ORDER)
    split = tm.balance(f, {"R": 4000, "C": 1000, "H": 3000}, machine=MACHINE)
    assert list(split.points) == ["G"]
    assert split.points["G"] == 1500
    assert split.parts[2].iterations == 1000


def test_a_reduction_is_balanced_by_its_start_and_its_update() -> None:
    k = tm.iters("k")[0]
    f = tm.Function("product", params=[R, C, G], assume="0 <= G <= R and C >= 1")
    a = f.input("a", tm.float32, [R, C])
    b = f.input("b", tm.float32, [C, C])
    ab = f.reduction("ab", {r: R, c: C}, {k: C}, tm.sum, a[r, k] * b[k, c])
    f.outputs(ab)
    ab.partition(r, [G], [tm.gpu(), tm.cores()])
    f.derive_transfers()
    found = levels(f.completed, SIZES)
    assert [sorted(slot.statements) for slot in found[0].slots] == [
        ["ab_init_0", "ab_update_0"],
        ["ab_init_1", "ab_update_1"],
    ]
    split = balanced(f.completed, found, SIZES, {"R": 64, "C": 32}, lambda of: (of["G"], 3 * (of["R"] - of["G"])), True)
    assert split.points == {"G": 6000}
    assert [part.name for part in split.parts] == ["ab_update_0", "ab_update_1"]


def test_a_split_is_printed_as_a_table() -> None:
    split = by_clock(blur(), affine)
    lines = str(split).splitlines()
    assert lines[0].split() == ["part", "target", "iterations", "share", "seconds", "iterations/s"]
    assert lines[1].split()[:4] == ["by_0", "gpu", "0", str(split.points["G"])]
    assert lines[2].split()[:2] == ["by_1", "cores"]
    assert lines[3].startswith(f"G = {split.points['G']}: ")
    assert "from runs at R = 256, C = 2000, G = 128 and at R = 128" in lines[3]


# -- runs


def test_a_blur_is_measured_in_the_simulator() -> None:
    f = blur(stages=True)
    image = np.random.default_rng(1).random((302, 66), dtype=np.float32)
    given = {"small": {"R": 40}, "inputs": {"image": image}, "pinned": True, "rounds": 1}
    split = tm.balance(f, {"R": 300, "C": 64}, device="simulator", **given)
    assert split.measured
    assert [run["R"] for run in split.runs] == [40, 20]
    assert all(part.rate > 0 for part in split.parts)
    assert 0 <= split.points["G"] <= 300
    assert sum(part.iterations for part in split.parts) == 300
    kernel = f.compile(device="simulator")
    np.testing.assert_allclose(kernel(image, **split.points), f.evaluate(image=image, G=0), rtol=1e-6)


def test_small_sizes_are_chosen_so_that_each_part_has_some_iterations() -> None:
    program = blur().completed
    found = levels(program, SIZES)
    assert short_sizes(program, found, SIZES, 2000 * 500) == {"R": 500, "C": 2000}
    assert short_sizes(program, found, SIZES, 1) == {"R": 2 * LEAST, "C": 2000}
    assert short_sizes(program, found, SIZES, 2000 * 8000) == SIZES
    assert equal_parts(program, found, SIZES) == {"G": 4000}


def test_small_sizes_are_as_assumed() -> None:
    program = blur(assume="0 <= G <= R and C >= 1 and R >= 700 and R % 16 = 0").completed
    assert short_sizes(program, levels(program, SIZES), SIZES, 1) == {"R": 704, "C": 2000}


def test_cores_alone_are_measured_too() -> None:
    f = blur(targets=(tm.cores(), tm.cores()))
    split = tm.balance(f, {"R": 400, "C": 100}, threads=1, rounds=1)
    assert split.measured
    first, second = split.parts
    assert split.seconds == pytest.approx(first.seconds + second.seconds)  # the same threads, one after the other


# -- refused


def refused(match: str, f: Any, sizes: Any = SIZES, **options: Any) -> None:
    with pytest.raises(tm.ArgumentError, match=match):
        tm.balance(f, sizes, **options)


def test_what_cannot_be_balanced_is_refused() -> None:
    f = tm.Function("plain", params=[R])
    a = f.input("a", tm.float32, [R])
    f.outputs(f.computation("b", {r: R}, a[r] * 2))
    refused("plain has no partition", f, {"R": 10})
    refused("needs a function whose computations are partitioned", f.compile(), {"R": 10})
    every = {**SIZES, "G": 5}
    refused("are constants: make them parameters", blur((40,), assume="R > 40 and C >= 1"), every)
    refused("are constants: make them parameters", blur(tm.shares(3, 1)), every)
    refused("depend on G, given in sizes: leave out", blur(), every)
    refused("G cuts bx at r and by at r differently", blur(stages=True, targets=(tm.cores(), tm.gpu()), alike=False))
    refused(r"which depends on G and H", blur((G + H,), assume="G + H <= R and C >= 1"), {"R": 9, "C": 9})


def test_sizes_that_do_not_fit_are_refused() -> None:
    f = blur()
    refused("sizes has no value for C: give the values of all parameters of blur but G", f, {"R": 100})
    refused("sizes has 'Q', which is no parameter of blur: R, C, G", f, {**SIZES, "Q": 1})
    refused("a parameter is an integer of at least 0", f, {**SIZES, "R": -1})
    refused("a parameter is an integer of at least 0", f, {**SIZES, "R": 1.5})
    refused("give the values of parameters by name", f, [8000, 2000])
    refused("not defined for R = 8000, C = 0", f, {**SIZES, "C": 0})
    simulator = {"device": "simulator"}
    refused("small has R = 9000, which is more than its full size, 8000", f, small={"R": 9000}, **simulator)
    refused("small has G, which balance chooses", f, small={"G": 9}, **simulator)
    refused("small has 'Q', which is no parameter", f, small={"Q": 9}, **simulator)
    refused("blur runs on no ranks: leave out comm=", f, comm=object())
    refused("rounds=0", f, rounds=0)
    refused("with machine= nothing is run: leave out device=", f, machine=MACHINE, device="simulator")
    refused("by_1 has no iterations at R = 1, C = 5, G = 1", f, {"R": 1, "C": 5}, **simulator)


@pytest.mark.skipif(tm.gpu_count() > 0, reason="there is a GPU")
def test_without_a_gpu_one_has_to_be_named() -> None:
    refused(r"no GPU here to measure by_0 on.*Machine\.here\(gpu=", blur())


def test_a_program_that_the_proof_refuses_is_not_estimated() -> None:
    f = tm.Function("f", params=[R, C, G], assume="0 <= G <= R and C >= 1")
    a = f.input("a", tm.float32, [R, C])
    b = f.computation("b", {r: R, c: C}, a[r, c] * 2)
    f.outputs(b)
    b.partition(r, [G], [tm.gpu(), tm.cores()])
    with pytest.raises(tm.LegalityError):
        tm.balance(f, {"R": 100, "C": 100}, machine=MACHINE)

"""The dry model against counts by formula."""

from __future__ import annotations

import pytest

import tiramisu_py as tm
from tests.programs.partitioned import IN_ORDER, MACHINE, C, G, H, R, blur, c, r
from tiramisu_py.counting.communication import communication
from tiramisu_py.counting.work import Counter, Work, operations
from tiramisu_py.tuning.balancing import Estimate, on_cores, on_gpu, over_link, over_network
from tiramisu_py.tuning.levels import levels

OPERATIONS = 12  # of the blur in one stage: three times two additions and a division, and these once more


@pytest.mark.parametrize(("rows", "columns", "cut"), [(100, 60, 30), (9, 1, 0), (9, 5, 9)])
def test_operations_and_bytes_of_the_parts_of_a_blur(rows: int, columns: int, cut: int) -> None:
    f = blur()
    sizes = {"R": rows, "C": columns, "G": cut}
    counter = Counter(f.completed)
    for name, n in (("by_0", cut), ("by_1", rows - cut)):
        read = (n + 2) * (columns + 2) * 4 if n else 0
        expected = Work(OPERATIONS * n * columns, read + 4 * n * columns, 1 if name == "by_0" and n else 0)
        assert counter.work([name], sizes) == expected


def test_operations_of_indices_and_conversions_do_not_count_but_those_of_a_reduction_do() -> None:
    f = tm.Function("f", params=[R])
    k = tm.iters("k")[0]
    a = f.input("a", tm.float32, [R + 3])
    b = f.reduction("b", {r: R}, {k: 3}, tm.sum, tm.sqrt(a[r + k]) * 2)
    f.outputs(b)
    work = Counter(f.completed).work(["b_init", "b_update"], {"R": 10})
    assert work.operations == 10 * 3 * 3  # root, product, sum
    assert operations(tm.cast(tm.float64, a[r + 1])) == 0


def test_a_part_of_cores_takes_the_longer_of_arithmetic_and_memory() -> None:
    assert on_cores(Work(80_000_000, 40, 0), MACHINE) == pytest.approx(2e-3)
    assert on_cores(Work(80, 40_000_000, 0), MACHINE) == pytest.approx(1e-3)
    assert on_gpu(Work(10_000_000, 3_000_000, 2), MACHINE) == pytest.approx(10e-6 + 3e-6)
    assert over_link(20_000_000, 3, MACHINE) == pytest.approx(30e-6 + 1e-3)


def test_the_seconds_of_a_blur_are_those_of_the_formula() -> None:
    f = blur()
    sizes = {"R": 1000, "C": 500, "G": 400}
    on_device, cores = Estimate(f.completed, levels(f.completed, ("R", "C")), MACHINE)(sizes)
    up, down, flops = 402 * 502 * 4, 400 * 500 * 4, 400 * 500 * OPERATIONS
    kernel = 5e-6 + max(flops / 10e12, (up + down) / 1e12)
    assert on_device == pytest.approx(kernel + 2 * 10e-6 + (up + down) / 20e9)
    rows = 600
    moved = (rows + 2) * 502 * 4 + rows * 500 * 4
    assert cores == pytest.approx(max(rows * 500 * OPERATIONS / 40e9, moved / 40e9))


def test_of_a_pipeline_the_busiest_sequence_counts() -> None:
    f = tm.Function("f", params=[R, C, G], assume="0 <= G <= R and C >= 1")
    a = f.input("a", tm.float32, [R, C])
    b = f.computation("b", {r: R, c: C}, a[r, c] * 2)
    f.outputs(b)
    b.partition(r, [G], [tm.gpu(tile=(4, 64), chunk=100), tm.cores()])
    one_by_one = f.copy()
    one_by_one.derive_transfers()
    f.derive_transfers(pipeline=tm.iters("r_chunk")[0])
    sizes = {"R": 2000, "C": 5000, "G": 1000}
    moved = 1000 * 5000 * 4
    kernels = 10 * 5e-6 + 2 * moved / 1e12
    pipelined, _ = Estimate(f.completed, levels(f.completed, ("R", "C")), MACHINE)(sizes)
    assert pipelined == pytest.approx(10 * 10e-6 + moved / 20e9)
    in_turn, _ = Estimate(one_by_one.completed, levels(one_by_one.completed, ("R", "C")), MACHINE)(sizes)
    assert in_turn == pytest.approx(2 * 10e-6 + 2 * moved / 20e9 + kernels)


def test_what_a_part_computes_at_its_loops_is_its_own() -> None:
    f = tm.Function("f", params=[R, C, G], assume="0 <= G <= R and C >= 1")
    a = f.input("a", tm.float32, [R + 1, C])
    b = f.computation("b", {r: R + 1, c: C}, a[r, c] * 2)
    d = f.computation("d", {r: R, c: C}, b[r, c] + b[r + 1, c])
    f.outputs(d)
    first, second = d.partition(r, [G], [tm.cores(parallel=False), tm.cores(parallel=False)])
    b.compute_at(second, r)
    (level,) = levels(f.completed, ("R", "C"))
    assert [sorted(slot.statements) for slot in level.slots] == [["d_0"], ["b", "d_1"]]
    assert first is not None


def test_messages_count_for_the_part_on_their_rank() -> None:
    points, targets = (G,), (tm.cores(ranks=0), tm.cores(ranks=1))
    f = tm.Function("f", params=[R, C, G], assume="0 <= G <= R and C >= 1")
    a = f.input("a", tm.float32, [R, C])
    b = f.computation("b", {r: R, c: C}, a[r, c] * 2)
    f.outputs(b)
    b.partition(r, list(points), list(targets))
    for array in (a, b):
        array.distribute_array([r, c], rank=0)
    f.derive_transfers()
    sizes = {"R": 100, "C": 50, "G": 60}
    here, there = Estimate(f.completed, levels(f.completed, ("R", "C")), MACHINE)(sizes)
    moved = communication(f.completed, sizes)
    assert moved.elements == 2 * 40 * 50
    messages = moved.messages * 1e-6 + 2 * 40 * 50 * 4 / 1e9
    assert here == pytest.approx(60 * 50 * 8 / 40e9 + messages)
    assert there == pytest.approx(40 * 50 * 8 / 40e9 + messages)
    assert over_network(moved.transfers[0].shares[0].each, MACHINE) > 0


def test_a_machine_without_a_gpu_cannot_stand_for_one() -> None:
    f = blur()
    with pytest.raises(tm.ArgumentError, match=r'Machine\.here\(gpu="H200"\)'):
        tm.balance(f, {"R": 10, "C": 10}, machine=tm.Machine(1e9, 1, 1e9))


def test_a_faster_gpu_gets_more_rows() -> None:
    f = blur()
    rows = []
    for link in (1e9, 5e9, 20e9, 100e9):
        machine = tm.Machine(10e9, 4, 40e9, 10e12, 1e12, link_bandwidth=link)
        split = tm.balance(f, {"R": 4000, "C": 1000}, machine=machine)
        rows.append(split.points["G"])
        assert not split.measured
        assert "nothing was run" in str(split)
    assert rows == sorted(set(rows))


def test_three_parts_are_estimated_together() -> None:
    targets = (tm.gpu(0), tm.gpu(1), tm.cores(vector=8))
    split = tm.balance(blur((G, H), targets, IN_ORDER), {"R": 4000, "C": 1000}, machine=MACHINE)
    one, two, cores = split.parts
    assert (one.iterations, two.iterations) == (split.points["G"], split.points["H"] - split.points["G"])
    assert abs(one.iterations - two.iterations) <= 1
    assert one.iterations + two.iterations + cores.iterations == 4000
    assert max(part.seconds for part in split.parts) == split.seconds
    assert all(part.seconds == pytest.approx(split.seconds, rel=1e-2) for part in split.parts)

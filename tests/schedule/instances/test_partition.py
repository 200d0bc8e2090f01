"""The command partition: what it does to statements, loops and tags, what it records, and how it is undone."""

from __future__ import annotations

from itertools import pairwise

import islpy as isl
import pytest

import tiramisu_py as tm
from tests.programs.drafts import texts
from tiramisu_py import sets
from tiramisu_py.program.loops import GpuBlock, GpuThread, Launch, Parallel, Rank, Vector
from tiramisu_py.program.ranks.spread import spread

R, C, G, H, K, T = tm.params("R C G H K T")
r, c, k, t = tm.iters("r c k t")
r_chunk, r_block, r_thread = tm.iters("r_chunk r_block r_thread")
SIZES = {"R": 11, "C": 2, "G": 4, "H": 9, "K": 1}


def twice(rows: object = R) -> tm.Function:
    f = tm.Function("twice", params=[R, C, G, H], assume="0 <= G <= H <= R and C >= 1")
    a = f.input("a", tm.float32, [R, C])
    f.outputs(f.computation("by", {r: rows, c: C}, 2 * a[r, c]))
    return f


def product(fused: bool = False) -> tm.Function:
    f = tm.Function("product", params=[R, C, K, G], assume="0 <= G <= R")
    a, b = f.input("a", tm.float32, [R, K]), f.input("b", tm.float32, [K, C])
    p = f.reduction("p", {r: R, c: C}, over={k: K}, op=tm.sum, expr=a[r, k] * b[k, c])
    f.outputs(p)
    if fused:
        p.update.after(p.init, c)
    return f


def tags(f: tm.Function, name: str) -> dict[str, object]:
    """The tags of a statement's loops, by name, outermost first."""
    program = f.program
    return {program.loops[number].name: program.loops[number].tag for number in program.statements[name].loops}


def rows(f: tm.Function, name: str, **sizes: int) -> list[int]:
    """The first index of all values that a statement computes, by isl's enumeration."""
    statement = f.program.statements[name]
    points = statement.instances.apply(sets.graph(statement.point))
    params = {**SIZES, **sizes}
    found = sets.points(sets.fixed(points, {n: params[n] for n in sets.params(points)}))
    return sorted({point[0] for point in found})


def on_ranks(f: tm.Function, name: str, **sizes: int) -> dict[int, list[int]]:
    """For each rank the first indices of what it computes, by isl's enumeration of the spread program."""
    program = spread(f.program)
    statement = program.statements[name]
    pairs = sets.graph(sets.joined(program.rank_of(statement), program.value_of(statement)), statement.instances)
    params = {**SIZES, **sizes}
    image = pairs.range()
    found: dict[int, set[int]] = {}
    for rank, row, *_ in sets.points(sets.fixed(image, {n: params[n] for n in sets.params(image)})):
        found.setdefault(rank, set()).add(row)
    return {rank: sorted(of) for rank, of in found.items()}


# -- which iterations


def test_points_give_each_part_what_lies_between():
    f = twice()
    parts = f["by"].partition(r, [G, H], [tm.gpu(), tm.gpu(1), tm.cores()])
    assert [part.name for part in parts] == ["by_0", "by_1", "by_2"]
    assert [rows(f, part.name) for part in parts] == [[0, 1, 2, 3], [4, 5, 6, 7, 8], [9, 10]]
    assert [rows(f, part.name, G=0, H=11) for part in parts] == [[], list(range(11)), []]


@pytest.mark.parametrize("extent", [0, 1, 2, 3, 7, 10, 16])
def test_shares_cut_at_the_lower_bound_and_the_rounded_share_of_the_extent(extent: int):
    f = twice((3, R))
    parts = f["by"].partition(r, tm.shares(3, 1, 0, 2), [tm.cores()] * 4)
    cuts = [0, extent * 3 // 6, extent * 4 // 6, extent * 4 // 6, extent]
    expected = [list(range(3 + low, 3 + high)) for low, high in pairwise(cuts)]
    assert [rows(f, part.name, R=3 + extent, G=0, H=0) for part in parts] == expected
    sizes = f.program.targets.partitions[-1].sizes({"R": 3 + extent, "C": 1, "G": 0, "H": 0})
    assert sizes == tuple(len(one) for one in expected)


def test_ranges_may_be_in_any_order_and_reach_beyond_the_loop():
    f = twice()
    parts = f["by"].partition(r, [(H, R + 5), (-3, G), (G, H)], [tm.cores(), tm.gpu(), tm.gpu(1)])
    assert [rows(f, part.name) for part in parts] == [[9, 10], [0, 1, 2, 3], [4, 5, 6, 7, 8]]


def test_points_that_cross_at_run_time_make_a_part_empty():
    f = twice()
    parts = f["by"].partition(r, [H, G], [tm.cores(), tm.cores(), tm.gpu()])
    assert [rows(f, part.name, G=4, H=9) for part in parts] == [list(range(9)), [], [9, 10]]


def test_a_part_of_a_part_is_partitioned_again():
    f = twice()
    first, _ = f["by"].partition(r, [G], [tm.cores(parallel=False), tm.gpu()])
    again = first.partition(r, [2], [tm.cores(), tm.gpu(1)])
    assert [part.name for part in again] == ["by_0_0", "by_0_1"]
    assert [rows(f, name) for name in ("by_0_0", "by_0_1", "by_1")] == [[0, 1], [2, 3], list(range(4, 11))]
    assert first.statement_names() == ("by_0_0", "by_0_1")


def test_an_inner_loop_is_partitioned_inside_of_the_outer_ones_that_parts_share():
    f = twice()
    f["by"].partition(c, [1], [tm.cores(parallel=False), tm.cores(parallel=False)])
    first, second = (f.program.statements[name] for name in ("by_0", "by_1"))
    assert first.loops[0] == second.loops[0] and first.loops[1] != second.loops[1]


# -- how they run


def test_cores_deal_the_level_out_and_run_the_innermost_loop_in_lanes():
    f = twice()
    f["by"].partition(r, [G, H], [tm.cores(), tm.cores(8), tm.cores(4, parallel=False)])
    assert tags(f, "by_0") == {"r": Parallel(), "c": None}
    assert tags(f, "by_1") == {"r": Parallel(), "c": Vector(8)}
    assert tags(f, "by_2") == {"r": None, "c": Vector(4)}
    assert {f.program.loops[loop].tagged_by for loop in f.program.statements["by_1"].loops} == {texts(f)[-1]}


def test_a_single_loop_is_cut_into_blocks_for_threads_and_lanes():
    f = tm.Function("line", params=[R, G], assume="0 <= G <= R")
    a = f.input("a", tm.float32, [R])
    by = f.computation("by", {r: R}, a[r] + 1)
    f.outputs(by)
    by.partition(r, [G], [tm.cores(8), tm.gpu()])
    assert tags(f, "by_0") == {"r_block": Parallel(), "r": Vector(8)}
    assert tags(f, "by_1") == {"r_block": GpuBlock(0), "r_thread": GpuThread(0)}


def test_a_gpu_runs_tiles_on_blocks_and_threads():
    f = twice()
    f["by"].partition(r, [G, H], [tm.gpu(), tm.gpu(1, tile=32, stream=2), tm.gpu(tile=(2, 16), chunk=8)])
    y, x = GpuBlock(1), GpuBlock(0)
    tile = {"r_block": y, "c_block": x, "r_thread": GpuThread(1), "c_thread": GpuThread(0)}
    assert tags(f, "by_0") == tile
    assert tags(f, "by_1") == {"r_block": GpuBlock(0, Launch(2, 1)), "r_thread": GpuThread(0), "c": None}
    assert tags(f, "by_2") == {"r_chunk": None, **tile}
    assert next(iter(tags(f, "by_2"))) == "r_chunk"
    assert f.program.targets.partitions[-1].chunks == (None, None, "r_chunk")


def test_the_user_may_map_a_part_to_a_gpu():
    f = twice()
    on_gpu, _ = f["by"].partition(r, [G], [tm.gpu(tile=None, chunk=8), tm.cores(parallel=False)])
    assert tags(f, "by_0") == {"r_chunk": None, "r": None, "c": None}
    assert tags(f, "by_1") == {"r": None, "c": None}
    on_gpu.tag_gpu(blocks=[r], threads=[c])
    on_gpu.get_update(0)
    assert tags(f, "by_0") == {"r_chunk": None, "r": GpuBlock(0), "c": GpuThread(0)}


def test_new_loops_have_names_that_are_free():
    f = twice()
    f["by"].split(c, 8, r_block, c)
    f["by"].partition(r, [G], [tm.gpu(tile=8), tm.cores(parallel=False)])
    assert list(tags(f, "by_0")) == ["r_block2", "r_thread", "r_block", "c"]


# -- reductions


@pytest.mark.parametrize("fused", [False, True], ids=["apart", "fused"])
def test_a_reduction_is_cut_alike_in_its_start_and_its_update(fused: bool):
    f = product(fused)
    on_gpu, on_cores = f["p"].partition(r, [G], [tm.gpu(tile=(2, 8)), tm.cores(4)])
    assert repr(on_gpu) == on_gpu.name == "p_0"
    assert on_gpu.statement_names() == ("p_init_0", "p_update_0")
    assert on_cores.get_update(1).statement_names() == ("p_update_1",)
    assert list(tags(f, "p_update_0")) == ["r_block", "c_block", "r_thread", "c_thread", "k"]
    assert tags(f, "p_update_1") == {"r": Parallel(), "c": Vector(4), "k": None}
    for part in (0, 1):
        assert rows(f, f"p_init_{part}", G=5) == rows(f, f"p_update_{part}", G=5, K=1)
        start, update = (f.program.statements[f"p_{role}_{part}"] for role in ("init", "update"))
        shared = set(start.loops) & set(update.loops)
        assert (len(shared) == len(start.loops)) if fused else not shared
        assert f.program.positions[start.name] < f.program.positions[update.name]
    assert not set(f.program.statements["p_init_0"].loops) & set(f.program.statements["p_init_1"].loops)


def test_a_part_of_a_reduction_is_scheduled_as_one():
    f = product()
    _, on_cores = f["p"].partition(r, [G], [tm.gpu(), tm.cores(parallel=False)])
    on_cores.parallelize(r)
    assert texts(f)[-1] == "p_1.parallelize(r)"
    assert tags(f, "p_init_1")["r"] == tags(f, "p_update_1")["r"] == Parallel()


# -- ranks


def test_each_part_runs_on_its_rank():
    f = twice()
    f["by"].partition(r, [G, H], [tm.gpu(ranks=0), tm.cores(ranks=0), tm.cores(ranks=1)])
    assert tags(f, "by_1") == {"r_rank": Rank(0), "r": Parallel(), "c": None}
    assert [on_ranks(f, f"by_{n}") for n in range(3)] == [{0: [0, 1, 2, 3]}, {0: [4, 5, 6, 7, 8]}, {1: [9, 10]}]


@pytest.mark.parametrize("split", [0, 1, 2, 3, 7, 10, 11])
def test_several_ranks_get_equal_blocks_in_order(split: int):
    f = twice()
    f["by"].partition(r, [G], [tm.gpu(ranks=range(3)), tm.cores(ranks=range(2, 4))])
    for name, low, high, ranks in (("by_0", 0, split, range(3)), ("by_1", split, 11, range(2, 4))):
        cuts = [low + n * (high - low) // len(ranks) for n in range(len(ranks) + 1)]
        blocks = {rank: list(range(cuts[n], cuts[n + 1])) for n, rank in enumerate(ranks)}
        assert on_ranks(f, name, G=split, H=11) == {rank: block for rank, block in blocks.items() if block}
    assert tags(f, "by_1") == {"r_rank": Rank(0), "r": Parallel(), "c": None}
    first = f.program.statements["by_1"]
    assert first.dims == ("r", "c", "r_rank")


@pytest.mark.parametrize("extent", [1, 6, 8, 11, 12])
def test_ranks_get_equal_blocks_of_a_share(extent: int):
    f = twice()
    f["by"].partition(r, tm.shares(1, 2), [tm.cores(ranks=range(2)), tm.cores(ranks=range(1, 4))])
    cuts = [extent * n // 6 for n in (0, 1, 2)], [extent * n // 9 for n in (3, 5, 7, 9)]
    for name, ends, ranks in (("by_0", cuts[0], range(2)), ("by_1", cuts[1], range(1, 4))):
        blocks = {rank: list(range(low, high)) for rank, (low, high) in zip(ranks, pairwise(ends), strict=True)}
        assert on_ranks(f, name, R=extent, G=0, H=0) == {rank: block for rank, block in blocks.items() if block}


def test_blocks_of_a_constant_size_need_no_further_dimension():
    f = twice(12)
    f["by"].partition(r, [3, 7], [tm.cores(ranks=n) for n in (0, range(1, 3), range(3, 6))])
    assert [f.program.statements[f"by_{n}"].dims for n in range(3)] == [("r", "c"), ("r", "c"), ("r", "c", "r_rank")]
    assert on_ranks(f, "by_1") == {1: [3, 4], 2: [5, 6]}
    assert on_ranks(f, "by_2") == {3: [7], 4: [8, 9], 5: [10, 11]}


def test_a_time_loop_stays_outside_of_the_loop_over_ranks():
    f = tm.Function("steps", params=[R, T, G], assume="0 <= G <= R")
    a = f.input("a", tm.float32, [R])
    s = f.computation("s", {t: T, r: R}, lambda s: tm.select(t == 0, a[r], s[t - 1, r] + 1))
    f.outputs(s)
    s.partition(r, [G], [tm.cores(ranks=0), tm.cores(ranks=1)])
    first, second = (f.program.statements[name] for name in ("s_0", "s_1"))
    assert f.program.loop_names(first) == ("t", "r_rank", "r")
    assert first.loops[0] == second.loops[0]


# -- the record, the log, undo and copy


def test_the_command_is_logged_as_it_is_written():
    written = [
        "by.partition(r, [G, H], [tm.gpu(ranks=range(0, 2)), tm.cores(ranks=0), tm.cores(ranks=3, parallel=False)])",
        "by.partition(r, tm.shares(0.75, 1), [tm.gpu(tile=None), tm.cores(vector=8)])",
        "by.partition(r, [(0, G + 1), (G + 1, R)], [tm.gpu(device=1, tile=(4, 32), chunk=64, stream=2), tm.cores()])",
        "by.partition(r, [], [tm.cores()])",
    ]
    for command in written:
        made = twice()
        eval(command, {"tm": tm, "by": made["by"], "r": r, "G": G, "H": H, "R": R, "range": range})
        (text,) = texts(made)
        again = twice()
        eval(text, {"tm": tm, "by": again["by"], "r": r, "G": G, "H": H, "R": R, "range": range})
        assert texts(again) == (text,)
        assert again.program.targets.partitions[0].targets == made.program.targets.partitions[0].targets
        assert text == command


def test_the_record_says_what_was_cut_where_and_stays():
    f = twice()
    on_gpu, _ = f["by"].partition(r, [G], [tm.gpu(tile=None), tm.cores()])
    (record,) = f.program.targets.partitions
    assert (record.source, record.level, record.parts) == ("by", "r", (("by_0",), ("by_1",)))
    assert [str(point) for point in record.points] == ["G"]
    assert record.targets == (tm.gpu(tile=None), tm.cores())
    assert record.sizes(SIZES) == (4, 7)
    on_gpu.tag_gpu(blocks=[r], threads=[c])
    assert f.program.targets.partitions == (record,)
    f.undo()
    f.undo()
    assert f.program.targets.partitions == ()
    assert list(f.program.statements) == ["by"]


def test_a_copy_is_partitioned_apart():
    f = twice()
    g = f.copy()
    g["by"].partition(r, [G], [tm.gpu(), tm.cores()])
    assert (list(f.program.statements), list(g.program.statements)) == (["by"], ["by_0", "by_1"])


def test_every_iteration_is_in_exactly_one_part_by_isl():
    """Whatever the cuts: the parts are disjoint, and together they are the computation."""
    two = [tm.gpu(tile=None), tm.cores()]
    for where in ([G], [7], tm.shares(1, 2), [(0, G), (G, R)], [G + H - 3], [tm.minimum(G, 5)]):
        f = twice()
        whole = f.program.statements["by"].instances.intersect_params(f.program.context.params())
        f["by"].partition(r, where, two)
        parts = [sets.named(f.program.statements[f"by_{n}"].instances, "by") for n in range(2)]
        assert parts[0].intersect(parts[1]).is_empty()
        union: isl.Set = parts[0].union(parts[1])
        assert whole.is_subset(union) and union.intersect_params(f.program.context.params()).is_subset(whole)

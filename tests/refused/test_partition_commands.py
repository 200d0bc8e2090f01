"""Partitions that the command refuses at once, each with what it says; the program stays as it was."""

# ruff: noqa: E501  (a case a line is what makes the table readable)

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

import tiramisu_py as tm

R, C, G, H, K = tm.params("R C G H K")
r, c, k, q, c0, c1, r0, r1 = tm.iters("r c k q c0 c1 r0 r1")
TWO = [tm.gpu(), tm.cores()]


def blur(inline: bool = True, params: tuple[tm.Expr, ...] = (R, C, G, H)) -> tm.Function:
    f = tm.Function("blur", params=params, assume="0 <= G <= H <= R and C >= 1")
    image = f.input("image", tm.float32, [R + 2, C + 2])
    bx = f.computation("bx", {r: R + 2, c: C}, (image[r, c] + image[r, c + 1] + image[r, c + 2]) / 3)
    by = f.computation("by", {r: R, c: C}, (bx[r, c] + bx[r + 1, c] + bx[r + 2, c]) / 3)
    f.outputs(by)
    if inline:
        bx.inline()
    return f


def rows() -> tm.Function:
    f = tm.Function("rows", params=[R, C, G], assume="0 <= G <= R")
    a = f.input("a", tm.float32, [R, C])
    s = f.reduction("s", {r: R}, over={k: C}, op=tm.sum, expr=a[r, k])
    f.outputs(s)
    return f


def apply(
    *arguments: object,
    before: Callable[[tm.Function], object] | None = None,
    of: Callable[[], tm.Function] = blur,
    name: str = "by",
):
    """The command, on a fresh function; what it raises, and that it leaves the program as it was."""
    f = of()
    if before is not None:
        before(f)
    program = f.program
    with pytest.raises(tm.CommandError) as caught:
        f[name].partition(*arguments)
    assert f.program is program
    return str(caught.value)


CASES: list[tuple[tuple[object, ...], str]] = [
    ((r, [], TWO), "no points cut the level r into 1 part, and there are 2 targets: give 1 point"),
    ((r, [G, H], TWO), "2 points cut the level r into 3 parts, and there are 2 targets: give 1 point"),
    ((r, [G], [tm.gpu()]), "1 point cuts the level r into 2 parts, and there is 1 target: give 2 targets"),
    ((r, [G], []), "there is no target"),
    ((r, [G], tm.gpu()), "the list of targets is tm.gpu(): give a list"),
    ((r, [G], [tm.gpu, tm.cores()]), "gpu, without parentheses, is not a target: give tm.cores(...) or tm.gpu(...)"),
    ((r, [G], [tm.gpu(), "cores"]), "'cores' is not a target"),
    ((r, G, TWO), "where to cut is G: give a list, [G]"),
    ((r, [0.5], TWO), "the point 0.5 is neither an integer nor affine in the parameters (R, C, G, H)"),
    ((r, [G * H], TWO), "the point G * H is neither an integer nor affine in the parameters"),
    ((r, [c], TWO), "the point c is neither an integer nor affine in the parameters"),
    ((r, ["G"], TWO), "the point 'G' is neither an integer nor affine in the parameters"),
    ((r, [K], TWO), "the point K is neither an integer nor affine in the parameters (R, C, G, H)"),
    ((r, [40, 20], [*TWO, tm.cores()]), "the point 20 is below 40, the one before it: give the points in order"),
    ((r, [G, (G, R)], TWO), "give points, [G, H], or ranges, [(0, G), (G, R)], not both"),
    ((r, [(0, G)], TWO), "there is 1 range and 2 targets: give one range for each"),
    ((r, [(0, G, R), (G, R)], TWO), "a range is a lower bound and an upper one, (0, G), not (0, G, R)"),
    ((r, [(0, G * H), (G, R)], TWO), "the bound G * H is neither an integer nor affine in the parameters (R, C, G, H)"),
    ((r, tm.shares(1, 2, 3), TWO), "tm.shares(1, 2, 3) has 3 shares, and there are 2 targets: give one share for each"),
    ((q, [G], TWO), "no loop q here: by has the loops r, c"),
    ((2, [G], TWO), "2 cannot name a loop"),
    ((r, [G], [tm.gpu(ranks=0), tm.cores()]), "tm.cores() has no ranks=, but other targets have: give each target ranks=, or none"),
    ((c, [5], [tm.gpu(tile=(8, 8)), tm.cores()]), "tm.gpu(tile=(8, 8)) has threads along two loops, but directly inside c no loop of by_0 runs"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "words"), CASES, ids=[str(n) for n in range(len(CASES))])
def test_a_wrong_call_says_what_is_wrong(arguments: tuple[object, ...], words: str) -> None:
    assert words in apply(*arguments)


TARGETS: list[tuple[Callable[[], object], str]] = [
    (lambda: tm.gpu(-1), "tm.gpu: device is -1: give an integer of at least 0"),
    (lambda: tm.gpu(True), "tm.gpu: device is True"),
    (lambda: tm.gpu(tile=(64, 64)), "a GPU runs at most 1024 threads in a block, not 64 x 64 = 4096"),
    (lambda: tm.gpu(tile=2048), "a GPU runs at most 1024 threads in a block, not 2048"),
    (lambda: tm.gpu(tile=0), "tm.gpu: tile is 0: give an integer of at least 1"),
    (lambda: tm.gpu(tile=(2, 2, 2)), "give the threads along the level, or along it and the next"),
    (lambda: tm.gpu(tile="big"), "tm.gpu: tile is 'big'"),
    (lambda: tm.gpu(chunk=0), "tm.gpu: chunk is 0: give an integer of at least 1"),
    (lambda: tm.gpu(stream=-1), "tm.gpu: stream is -1"),
    (lambda: tm.gpu(ranks=-1), "tm.gpu: ranks is -1: give an integer of at least 0"),
    (lambda: tm.cores(ranks=range(2, 2)), "tm.cores: ranks is range(2, 2): give one rank, or a range of ranks that follow each other"),
    (lambda: tm.cores(ranks=range(0, 4, 2)), "give one rank, or a range of ranks that follow each other"),
    (lambda: tm.cores(ranks=range(-1, 1)), "give one rank, or a range of ranks that follow each other"),
    (lambda: tm.cores(ranks=[0, 1]), "tm.cores: ranks is [0, 1]"),
    (lambda: tm.cores(vector=3), "tm.cores: vector is 3: choose one of (2, 4, 8, 16, 32, 64)"),
    (lambda: tm.cores(parallel=1), "tm.cores: parallel is 1: give True or False"),
    (lambda: tm.shares(), "tm.shares() needs a share for each target"),
    (lambda: tm.shares(0, 0), "tm.shares(0, 0): all shares are 0"),
    (lambda: tm.shares(1, -1), "tm.shares: -1 is less than 0"),
    (lambda: tm.shares(1, float("nan")), "tm.shares: nan is not a share"),
    (lambda: tm.shares(1, "2"), "tm.shares: '2' is not a share"),
    (lambda: tm.shares(1, 0.123456789), "ratios this fine cannot be cut exactly"),
    (lambda: tm.shares(G, R - G), "cut at a point that is a parameter instead, partition(level, [G], targets)"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "words"), TARGETS, ids=[str(n) for n in range(len(TARGETS))])
def test_a_wrong_target_or_share_says_what_is_wrong(make: Callable[[], object], words: str) -> None:
    with pytest.raises(tm.CommandError) as caught:
        make()
    assert words in str(caught.value)


def test_shares_of_other_kinds_of_numbers_are_the_same_shares() -> None:
    same = [
        tm.shares(3, 1),
        tm.shares(0.75, 0.25),
        tm.shares(Fraction(3, 2), Fraction(1, 2)),
        tm.shares(np.int64(6), 2.0),
    ]
    assert {shares.of_whole for shares in same} == {(Fraction(3, 4), Fraction(1, 4))}
    assert tm.shares(0.1, 0.2).of_whole == (Fraction(1, 3), Fraction(2, 3))
    assert [repr(shares) for shares in same[:3]] == [
        "tm.shares(3, 1)",
        "tm.shares(0.75, 0.25)",
        "tm.shares(Fraction(3, 2), Fraction(1, 2))",
    ]


def test_what_runs_somehow_already_is_partitioned_first() -> None:
    words = apply(r, [G], TWO, before=lambda f: f["by"].parallelize(r))
    assert "loop r of by is tagged already, by by.parallelize(r): partition it first" in words
    words = apply(r, [G], TWO, before=lambda f: f["by"].vectorize(c, 8))
    assert "loop c is tagged by by.vectorize(c, 8): split it before tagging it" in words


def test_what_is_partitioned_already_is_said() -> None:
    words = apply(r, [G], TWO, before=lambda f: f["by"].partition(r, [G], TWO))
    assert "by is partitioned already, along r, and by_0 has no loop r any more: partition one of its parts" in words


def test_a_shared_loop_is_partitioned_before_it_is_shared() -> None:
    words = apply(r, [G], TWO, of=lambda: blur(False), before=lambda f: f["by"].after(f["bx"], r))
    assert "loop r of by is shared with bx: partition before fusing them" in words


def test_what_is_kept_for_each_iteration_is_kept_after_the_partition() -> None:
    def kept(f: tm.Function) -> None:
        f["by"].split(r, 8, r0, r1)
        f["bx"].compute_at(f["by"], r0)

    assert "is shared with bx" in apply(r0, [G], TWO, of=lambda: blur(False), before=kept)


def test_the_loop_of_a_reduction_is_partitioned_for_its_update_alone() -> None:
    words = apply(k, [G], TWO, of=rows, name="s")
    assert "loop k is the one over which s adds up its terms, and s.init has no such loop" in words
    assert "partition a loop of both (r), or the terms alone, s.update.partition(k, ...)" in words
    f = rows()
    first, second = f["s"].update.partition(k, [G], [tm.cores(parallel=False), tm.cores(parallel=False)])
    assert (first.statement_names(), second.statement_names()) == (("s_update_0",), ("s_update_1",))
    assert f.check().ok


def test_ranks_are_those_there_are() -> None:
    words = apply(r, [G], [tm.cores(ranks=0), tm.cores(ranks=2)], before=lambda f: f.grid(2))
    assert "tm.cores(ranks=2) names rank 2, but the process grid has ranks 0 to 1" in words

    def dealt(f: tm.Function) -> None:
        f["by"].split(c, 8, c0, c1)
        f["by"].interchange(r, c0)
        f["by"].tag_distribute(c0)

    words = apply(r, [G], [tm.cores(ranks=0), tm.cores(ranks=1)], before=dealt)
    assert "both are along axis 0 of the process grid" in words


def test_blocks_with_bounds_of_their_own_have_no_numbered_ranks() -> None:
    lo, hi = tm.params("lo hi")

    def blocks(f: tm.Function) -> None:
        f.blocks(R, lo, hi)

    words = apply(
        r, [G], [tm.cores(ranks=0), tm.cores(ranks=1)], of=lambda: blur(params=(R, C, G, H, lo, hi)), before=blocks
    )
    assert "ranks= names ranks by their numbers, but blocks have bounds that are known at run time (lo, hi)" in words


def test_a_name_that_a_part_would_have_is_free() -> None:
    f = tm.Function("names", params=[R], assume="R >= 1")
    a = f.input("a", tm.float32, [R])
    by = f.computation("by", {r: R}, a[r])
    f.computation("by_1", {r: R}, by[r])
    f.outputs(f["by_1"])
    with pytest.raises(tm.CommandError, match="part 1 of by cannot be called by_1: a computation has this name"):
        by.partition(r, [8], TWO)


@pytest.mark.parametrize(
    ("targets", "words"),
    [
        ([tm.GpuThreads(device=-1), tm.Cores()], "tm.gpu: device"),
        ([tm.GpuThreads(chunk=0), tm.Cores()], "tm.gpu: chunk"),
        ([tm.GpuThreads(tile=(64, 64)), tm.Cores()], "at most 1024 threads"),
        ([tm.GpuThreads(), tm.Cores(vector=3)], "tm.cores: vector is 3"),
        ([tm.GpuThreads(ranks=-1), tm.Cores(ranks=0)], "tm.gpu: ranks"),
    ],
)
def test_targets_are_checked_however_they_are_made(targets: list[tm.GpuThreads | tm.Cores], words: str) -> None:
    assert words in apply(r, [G], targets)

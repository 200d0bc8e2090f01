"""Ranks that have numbers, and ranks that know their own blocks alone, answer the same questions, by enumeration."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import tiramisu_py as tm
from tiramisu_py import sets
from tiramisu_py.program.ranks.spread import spread
from tiramisu_py.program.ranks.told_ranks import NumberedRanks, RanksWithBlocks, told_ranks

R, lo, hi = tm.params("R lo hi")
r, c, q, r1 = tm.iters("r c q r1")
ROOT = Path(__file__).parents[2] / "tiramisu_py"


def doubled(with_blocks: bool) -> tm.Function:
    """``b[r, c] = 2 a[r, c]``, with rows of both on ranks; two values for each row."""
    f = tm.Function("doubled", params=[R, lo, hi], assume="R >= 1")
    a = f.input("a", tm.float32, [R, 2])
    b = f.computation("b", {r: R, c: 2}, 2 * a[r, c])
    f.outputs(b)
    if with_blocks:
        f.blocks(R, lo, hi)
        a.distribute_array([r, c], rank=r, bounds=(lo, hi))
        b.tag_distribute(r, bounds=(lo, hi))
    else:
        a.distribute_array([r, c], rank=r // 3)
        b.split(r, 3, q, r1)
        b.tag_distribute(q)
    return f


def asked(with_blocks: bool) -> tuple[NumberedRanks, Any, Any]:
    """The ranks of the program, the values of its input, and the elements of the array."""
    program = spread(doubled(with_blocks).program)
    space = sets.sized_frame(program.algorithm.param_space, "a", 2)
    row, column = sets.variables(space)
    box = sets.as_set(row.ge_set(sets.constant(space, 0))).intersect(
        sets.as_set(row.lt_set(sets.parameter(space, "R")))
    )
    box = box.intersect(sets.within(column, 0, 2))
    return told_ranks(program), box, box


def points(found: Any, **params: int) -> set[tuple[int, ...]]:
    return set(map(tuple, sets.points(sets.fixed(found, params))))


ROWS = 7


def test_numbered_ranks_hold_the_rows_of_their_numbers() -> None:
    ranks, values, elements = asked(with_blocks=False)
    assert type(ranks) is NumberedRanks
    assert (ranks.bounds, ranks.unnumbered, ranks.agreed, ranks.varying) == ((), "", "", None)
    assert ranks.around() is ranks.program
    own = {(row // 3, row, column) for row in range(ROWS) for column in range(2)}
    given = {"R": ROWS, "lo": 0, "hi": ROWS}
    assert points(ranks.held("a", values), **given) == own
    assert points(ranks.places("a", elements, "a"), **given) == own
    assert points(ranks.held("b", sets.named(values, "b")), **given) == {
        (rank, row, column) for rank in range(3) for row in range(ROWS) for column in range(2)
    }, "an array that is not dealt out is on every rank"
    assert ranks.places("b", elements, "b") is None
    assert ranks.in_words.startswith("ranks go from 0 to ")


@pytest.mark.parametrize(("low", "high"), [(0, 3), (3, 7), (2, 2)])
def test_a_rank_with_a_block_holds_its_rows_and_all_ranks_together_hold_every_row(low: int, high: int) -> None:
    ranks, values, elements = asked(with_blocks=True)
    assert type(ranks) is RanksWithBlocks
    own = {(row, column) for row in range(low, high) for column in range(2)}
    every = {(row, column) for row in range(ROWS) for column in range(2)}
    given = {"R": ROWS, "lo": low, "hi": high}
    seen = ranks.held("a", values)
    assert points(seen, **given) == own
    assert points(ranks.places("a", elements, "a"), **given) == own
    assert points(ranks.on_some_rank("a", values, seen), **given) == every
    assert points(ranks.held("b", sets.named(values, "b")), **given) == every
    assert (ranks.bounds, ranks.varying, ranks.in_words) == (("lo", "hi"), None, "blocks cover 0 to R - 1")
    assert ranks.unnumbered == "blocks whose bounds are known only at run time"
    assert ranks.agreed.startswith("the blocks lo..hi of ranks 0, 1, ... follow one another from 0 to R")
    assert ranks.around().ranks.everyone is not None


def test_a_value_that_would_depend_on_its_rank_is_found() -> None:
    f = doubled(with_blocks=True)
    other = f.computation("late", {r: (lo, R)}, f["b"][r, 0])
    assert told_ranks(f.program).varying == (other.name, "lo")


#: Whoever makes, or takes apart, blocks whose bounds are known at run time; and what is below the room for ranks, where
#: runs that a rank knows in part alone are kept as they are. All others ask `told_ranks`.
AT_HOME = {
    "program/initial.py",
    "program/statement_runs.py",
    "program/program.py",
    "program/ranks/block_windows.py",
    "program/ranks/run_time_blocks.py",
    "program/ranks/spread.py",
    "program/ranks/told_ranks.py",
    "schedule/ranks/declare_blocks.py",
    "derive/ranks/exchanges_of_blocks.py",
    "lower/ranks/held_parts.py",
    "lower/ranks/one_rank.py",
}


def test_blocks_are_asked_at_one_point() -> None:
    names = re.compile(r"\b(?:program|mine|spread_out|_program)\.ranks\.blocks\b")
    found = {
        path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py") if names.search(path.read_text("utf-8"))
    } - {"program/kernels.py"}
    assert found <= AT_HOME, "ask program.ranks.told_ranks instead"

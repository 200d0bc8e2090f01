"""The order of isl's loops is proven: loops with one mistake are refused, whatever the mistake.

A mistake is one if the loops, run element by element, do something else at some sizes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping

import islpy as isl
import pytest

from tests.lower.loops.loop_mutations import Loops, TooLong, mutations, recorded
from tests.lower.test_lowering_trace import BASES, Scheduler
from tests.programs.gpu.pipelines import CASES
from tests.programs.ranks import pipelines
from tests.selection import first
from tiramisu_py import sets
from tiramisu_py.errors import CompilerDefect, UnsupportedError
from tiramisu_py.lower.loops import executed_order
from tiramisu_py.lower.loops.executed_order import ExecutedOrder
from tiramisu_py.lower.loops.generated_leaves import Asked, GeneratedLeaf
from tiramisu_py.lower.loops.isl_ast import Leaf, generated
from tiramisu_py.lower.lowering import lower

#: Mutations tried of the loops of one program.
TRIED = 20


def sizes_of(loops: Loops) -> Iterator[Mapping[str, int]]:
    """Values of the parameters, those of blocks and threads among them, at which the loops are run."""
    names = sets.params(loops.context)
    for size in (2, 5):
        here = loops.context
        for name in names:
            if not name.startswith(("@", "rank")):
                here = sets.param_between(here, name, size - size % 2, size)
        points = sets.points(sets.params_as_dims(here))
        for point in random.Random(size).sample(points, min(len(points), 3)):
            yield dict(zip(names, point, strict=True))


def is_wrong(loops: Loops, sizes: list[Mapping[str, int]]) -> bool:
    try:
        return not all(loops.is_right_at(params) for params in sizes)
    except (TooLong, KeyError):  # it runs on, or uses the iterator of a loop that is not around
        return True


def agrees(lowering: Callable[[], object], monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    for loops in recorded(monkeypatch, lowering):
        sizes = list(sizes_of(loops))
        assert all(loops.is_right_at(params) for params in sizes)
        listed = list(mutations(loops))
        for what, wrong in random.Random(seed).sample(listed, min(len(listed), TRIED)):
            if is_wrong(wrong, sizes):
                with pytest.raises((CompilerDefect, KeyError)):
                    wrong.proven()
                    pytest.fail(f"{what}: accepted")


@pytest.mark.parametrize(("base", "seed"), first([(base, seed) for seed in range(8) for base in BASES], 6))
def test_a_mistake_in_the_loops_is_refused(base, seed, monkeypatch):
    program = Scheduler(seed, base()).run(2 + seed % 5)
    agrees(lambda: lower(program), monkeypatch, seed)


@pytest.mark.parametrize("case", first(CASES, 5), ids=str)
def test_a_mistake_in_a_kernel_or_in_its_launches_is_refused(case, monkeypatch):
    made = case.make()
    case.schedule(made)
    agrees(lambda: lower(made.f.completed), monkeypatch, 1)


def test_a_mistake_in_the_loops_of_a_rank_or_of_its_messages_is_refused(monkeypatch):
    halo = pipelines.halo().f
    agrees(lambda: lower(halo.completed), monkeypatch, 2)


def loops_by_isl(schedule: str, name: str = "S") -> Callable[[], dict[str, isl.Set]]:
    """The proof of isl's loops for time maps of two dimensions, given in isl's notation."""
    context = isl.Context()
    params = isl.Set.read_from_str(context, "[N] -> { : N >= 0 }")
    times = isl.UnionMap.read_from_str(context, schedule)
    emitted: list[GeneratedLeaf | None] = []

    def at_leaf(leaf: Leaf) -> None:
        emitted.append(GeneratedLeaf(leaf.statement, leaf.coordinates))

    tree = generated(params, times, ["a", "b"], None, at_leaf)
    asked = {}
    for each in sets.maps_of(times):
        instances = each.domain().intersect_params(params)
        time = sets.as_single_function(each)
        assert time is not None
        asked[sets.in_name(each)] = Asked(sets.in_name(each), instances, time)
    return ExecutedOrder(params, asked, emitted, {"a": 0, "b": 1}, tree).executed


@pytest.mark.parametrize(
    "schedule",
    [
        "[N] -> { S[i] -> [i, 0]: 0 <= i < N and i mod 3 = 1 }",  # a step
        "[N] -> { S[i] -> [4i + 1, 0]: 0 <= i < N }",  # a scaled iterator
        "[N] -> { S[i] -> [i, 0]: 0 <= i < N and i mod 2 = 0; T[i] -> [i, 0]: 0 <= i < N and i mod 2 = 1 }",
        "[N] -> { S[i] -> [2i, 0]: 0 <= i < N; T[i] -> [2i + 1, 0]: 0 <= i < N }",
        "[N] -> { S[i] -> [0, i]: 0 <= i < N; T[i] -> [N, -i]: 0 <= i < N }",
        "[N] -> { S[i, j] -> [i + j, j]: 0 <= i, j < N; T[i] -> [i, i]: 0 <= i < 2N }",  # equal times are free
        "[N] -> { S[i] -> [floor(i/4), i]: 0 <= i < N; T[] -> [floor(N/4), N] }",
    ],
)
def test_what_isl_makes_of_time_maps_is_proven(schedule):
    executed = loops_by_isl(schedule)()
    assert not any(part.is_empty() for part in executed.values())


def test_where_isl_gives_up_the_answer_is_unknown_and_says_what_helps(monkeypatch):
    monkeypatch.setattr(executed_order, "OPERATIONS", 50)
    with pytest.raises(UnsupportedError, match=r"for S, T run in the order of the schedule is unknown.*fewer pieces"):
        loops_by_isl("[N] -> { S[i] -> [i, 0]: 0 <= i < N and i mod 2 = 0; T[i] -> [i, 1]: 0 <= i < 2N }")()

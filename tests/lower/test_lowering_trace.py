"""Condition 5: the loops execute the instances that were asked for, in order, whatever the schedule.

No proof is asked here: an order may be wrong for the algorithm, and still has to be the one that was asked for.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest

from tests.lower.loops.test_lowering_loops import blur, product
from tests.lower.statements.test_lowering_pieces import heat, padded, stencil
from tests.oracle.judges.executed_instances import asked_for, executions
from tests.programs.by_hand import Author, iters, part, sets
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import Iter
from tiramisu_py.errors import CommandError, UnsupportedError
from tiramisu_py.lower.loops import nest as nests
from tiramisu_py.lower.lowering import lower
from tiramisu_py.program.loops import Parallel, Vector
from tiramisu_py.program.program import Program
from tiramisu_py.schedule.locality.compute_at import compute_at
from tiramisu_py.schedule.loops import order, tags, unimodular
from tiramisu_py.schedule.loops import transforms as loops


def triangle() -> Program:
    author = Author("triangle", "N M")
    N, _ = author.params()
    i, j = iters("i j")
    x = author.input("x", ty.float32, [N])
    low = author.computation("low", "i j", "0 <= j <= i < N", x[i] * x[j])
    author.computation("odd", "i j", "0 <= i < N and 0 <= j < M and (exists e : i + j = 2 e + 1)", low[i, 0] + 1)
    return author.program("low", "odd")


BASES: list[Callable[[], Program]] = [blur, product, heat, padded, stencil, triangle]


class Scheduler:
    """Random commands; those that are refused change nothing."""

    def __init__(self, seed: int, program: Program) -> None:
        self.choice = random.Random(seed)
        self.program = program
        self.fresh = (f"n{k}" for k in itertools.count())

    def run(self, count: int) -> Program:
        for _ in range(count):
            command = self.choice.choice(
                [self.split, self.split, self.tile, self.interchange, self.skew, self.shift, self.reverse, self.fuse,
                 self.fuse, self.compute_at, self.parallel, self.vector]
            )  # fmt: skip
            names = list(self.program.statements)
            first, second = self.choice.choice(names), self.choice.choice(names)
            try:
                self.program = command(first, second)
            except (CommandError, IndexError):
                continue
        return self.program

    def loop(self, name: str) -> str:
        return self.choice.choice(self.program.loop_names(self.program.statements[name]))

    def split(self, name: str, _: str) -> Program:
        by = self.choice.choice((2, 3, 4))
        return loops.split(self.program, [name], self.loop(name), by, next(self.fresh), next(self.fresh))

    def tile(self, name: str, _: str) -> Program:
        names = self.program.loop_names(self.program.statements[name])
        new = [Iter(next(self.fresh)) for _ in range(4)]
        return loops.Tile(part(name), (*map(Iter, names[:2]), 2, 3, *new)).applied(self.program)

    def interchange(self, name: str, _: str) -> Program:
        return loops.Interchange(part(name), Iter(self.loop(name)), Iter(self.loop(name))).applied(self.program)

    def skew(self, name: str, _: str) -> Program:
        outer, inner, by = Iter(self.loop(name)), Iter(self.loop(name)), self.choice.choice((1, 2, -1))
        return unimodular.Skew(part(name), outer, inner, by).applied(self.program)

    def shift(self, name: str, _: str) -> Program:
        return loops.Shift(part(name), Iter(self.loop(name)), self.choice.choice((-2, 1, 3))).applied(self.program)

    def reverse(self, name: str, _: str) -> Program:
        return loops.Reverse(part(name), Iter(self.loop(name))).applied(self.program)

    def fuse(self, name: str, other: str) -> Program:
        return order.fuse(self.program, [name], [other], self.loop(name), "fuse")

    def compute_at(self, name: str, other: str) -> Program:
        source = self.program.statements[name].source
        producers = [s.name for s in self.program.statements_of(source)]
        return compute_at(self.program, source, producers, [other], self.loop(other), "compute_at")

    def parallel(self, name: str, _: str) -> Program:
        return tags.parallelize(self.program, [name], [self.loop(name)], Parallel(), "")

    def vector(self, name: str, _: str) -> Program:
        return tags.tag_loop(self.program, [name], self.loop(name), Vector(4), "")


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("seed", range(8))
def test_random_schedules_run_as_asked(base, seed):
    program = Scheduler(seed, base()).run(2 + seed % 5)
    for values in [(1, 1, 1), (2, 3, 1), (4, 1, 3), (5, 4, 2)]:
        sizes = dict(zip(program.algorithm.params, values, strict=False))
        assert executions(program, sizes) == asked_for(program, sizes)


def test_a_strided_set_runs_as_asked():
    program = triangle()
    for size in (0, 1, 4, 7):
        assert executions(program, {"N": size, "M": 3}) == asked_for(program, {"N": size, "M": 3})


def test_the_trace_notices_a_wrong_order():
    program, sizes = blur(), {"R": 2, "C": 2}
    backwards = loops.Reverse(part("by"), Iter("r")).applied(program)
    assert sorted(executions(program, sizes)) == sorted(executions(backwards, sizes))
    assert executions(program, sizes) != asked_for(backwards, sizes)


def test_the_instances_are_compared_at_every_lowering(monkeypatch):
    def forgetful(*arguments):
        schedule = arguments[1]
        pieces = [schedule.get_map_list().get_at(k) for k in range(schedule.n_map())]
        half = pieces[0].intersect_domain(sets.empty(pieces[0].get_space().domain()))
        return generated(arguments[0], half.to_union_map(), *arguments[2:])

    generated = nests.generated
    monkeypatch.setattr(nests, "generated", forgetful)
    with pytest.raises(UnsupportedError, match="do not execute its instances"):
        lower(blur())

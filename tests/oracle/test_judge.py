"""The judge of schedules, on programs whose verdict is known without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import islpy as isl
import pytest

from tests.oracle.judge import judge, kinds, sizes
from tests.oracle.plain import function, integer
from tiramisu_py import sets
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.declarations import Algorithm, Computation, Input, Operator, sum_
from tiramisu_py.algorithm.expressions import Access, Expr, Iter, Operand, Param, as_expr, select
from tiramisu_py.program.loops import Combine
from tiramisu_py.program.program import Program
from tiramisu_py.schedule import loops, order, placement, tags
from tiramisu_py.schedule.initial import initial_program

N = Param("N")
i, k = Iter("i"), Iter("k")


def access(source: str, *indices: Operand) -> Expr:
    return Access(source, tuple(as_expr(index) for index in indices), ty.float64)


class Sketch:
    """An algorithm over N >= 0, declared piece by piece."""

    def __init__(self, assume: str = "N >= 0") -> None:
        self.isl = isl.Context()
        context = isl.Set.read_from_str(self.isl, f"[N] -> {{ : N >= 0 and {assume} }}")
        self.algorithm = Algorithm("f", self.isl, ("N",), context)

    def input(self, name: str, *shape: Operand) -> None:
        self.algorithm = self.algorithm.with_input(Input(name, ty.float64, tuple(as_expr(n) for n in shape)))

    def computation(
        self, name: str, dims: str, where: str, expr: Expr, over: Sequence[str] = (), op: Operator | None = None
    ) -> None:
        names = tuple(dims.split(","))
        text = f"[N] -> {{ {name}[{dims}] : {where} }}"
        points = isl.Set.read_from_str(self.isl, text)
        value = tuple(n for n in names if n not in over)
        domain = sets.with_dims(sets.named(sets.project_prefix(points, len(value)), name), value)
        declared = Computation(name, ty.float64, value, domain, points, expr, over=tuple(over), op=op)
        self.algorithm = self.algorithm.with_computation(declared)

    def program(self, *outputs: str) -> Program:
        return initial_program(self.algorithm.with_outputs(outputs))


def pipeline() -> Program:
    """q[i] = p[i] + p[i + 1], p[i] = 2 a[i]."""
    sketch = Sketch()
    sketch.input("a", N + 1)
    sketch.computation("p", "i", "0 <= i <= N", 2 * access("a", i))
    sketch.computation("q", "i", "0 <= i < N", access("p", i) + access("p", i + 1))
    return sketch.program("q")


def total(terms: str = "0 <= i < N and 0 <= k < 3") -> Program:
    """c[i] = sum over k of a[i, k], with at least the value c[i] where a term is."""
    sketch = Sketch()
    sketch.input("a", N, 3)
    sketch.computation("c", "i,k", terms, access("a", i, k), ["k"], sum_)
    return sketch.program("c")


def verdict(program: Program, most: int = 4) -> set[str]:
    return {kind for params in sizes(program, most) for kind in kinds(judge(program, params, tries=2))}


def together(program: Program) -> Program:
    return order.place_after(program, ["p"], ["q"], "i", True, "q.after(p, i)")


def test_a_program_as_declared_is_right() -> None:
    assert verdict(pipeline()) == set()
    assert verdict(total()) == set()


def test_a_fusion_reads_too_early_unless_it_is_shifted() -> None:
    fused = together(pipeline())
    assert verdict(fused) == {"order"}
    assert judge(fused, {"N": 0}) == []
    assert verdict(loops.shift(fused, ["q"], "i", 1)) == set()


def test_a_consumer_before_its_producer_reads_nothing() -> None:
    assert verdict(order.place_after(pipeline(), ["q"], ["p"], order.root, True, "p.after(q)")) == {"order"}


@pytest.mark.parametrize(("places", "expected"), [(1, {"overwritten"}), (2, set())])
def test_folding_needs_a_place_for_each_value_in_flight(places: int, expected: set[str]) -> None:
    shifted = loops.shift(together(pipeline()), ["q"], "i", 1)
    assert verdict(placement.store_in(shifted, "p", None, [i % places])) == expected


def test_a_buffer_that_is_too_small_is_out_of_bounds() -> None:
    program = pipeline()
    small = replace(program.buffers["p"], extents=(as_expr(N),))
    assert verdict(program.with_buffer(small)) == {"bounds"}


def test_iterations_that_meet_race_when_they_are_parallel() -> None:
    assert verdict(tags.parallelize(pipeline(), ["q"], ["i"])) == set()
    folded = placement.store_in(loops.shift(together(pipeline()), ["q"], "i", 1), "p", None, [i % 2])
    assert "race" in verdict(tags.vectorize(folded, ["p"], "i", 4))


def test_a_recurrence_is_not_parallel_and_not_reversed() -> None:
    sketch = Sketch("N >= 1")
    sketch.input("a", N)
    before = select(i == 0, access("a", 0), access("s", i - 1) + access("a", i))
    sketch.computation("s", "i", "0 <= i < N", before)
    program = sketch.program("s")
    assert verdict(program) == set()
    assert verdict(tags.parallelize(program, ["s"], ["i"])) >= {"race"}
    assert verdict(loops.reverse(program, ["s"], "i")) == {"order"}


def test_a_select_without_a_known_condition_reads_both_branches() -> None:
    sketch = Sketch("N >= 1")
    sketch.input("a", N)
    sketch.computation("s", "i", "0 <= i < N", select(access("a", i) > 0, access("a", i), access("a", i - 1)))
    assert verdict(sketch.program("s")) == {"bounds"}


def test_values_that_need_each_other_are_an_error_of_the_algorithm() -> None:
    sketch = Sketch()
    sketch.computation("s", "i", "0 <= i < N", access("s", (i + 1) % 2 + 2 * (i // 2)))
    assert "algorithm" in verdict(sketch.program("s"))


def test_a_caller_array_that_is_no_output_must_stay_as_it_is() -> None:
    program = placement.store_in(pipeline(), "p", "a", None)
    assert verdict(program) == {"overwritten"}


def test_an_output_in_place_of_its_input_is_right_when_nothing_needs_the_input_any_more() -> None:
    sketch = Sketch()
    sketch.input("a", N)
    sketch.computation("q", "i", "0 <= i < N", access("a", i) + 1)
    assert verdict(placement.store_in(sketch.program("q"), "q", "a", None)) == set()
    sketch = Sketch("N >= 2")
    sketch.input("a", N)
    sketch.computation("q", "i", "0 <= i < N", access("a", (i + 1) % 2))
    assert verdict(placement.store_in(sketch.program("q"), "q", "a", None)) == {"overwritten"}


def test_terms_may_come_in_any_order_but_each_once() -> None:
    assert verdict(loops.reverse(total(), ["c_update"], "k")) == set()
    program = total()
    update = program.statements["c_update"]
    first = isl.Set.read_from_str(update.instances.get_ctx(), "[N] -> { c_update[i, k] : k = 0 }")
    late = update.instances.subtract(first)
    assert verdict(program.with_statement(replace(update, instances=late))) == {"reduction"}
    again = replace(update, name="again", instances=sets.named(update.instances, "again"), loops=(7, 8))
    again = replace(
        again,
        point=sets.from_frame(update.point, again.instances.get_space()),
        coords=sets.from_frame(update.coords, again.instances.get_space()),
    )
    twice = program.with_statement(again).with_loop(replace(program.loops[0], id=7), replace(program.loops[0], id=8))
    assert verdict(twice) == {"reduction"}


def test_an_update_before_its_initialisation_is_noticed() -> None:
    assert verdict(order.place_after(total(), ["c_update"], ["c_init"], order.root, True, "")) >= {"reduction"}


def test_parallel_terms_race_unless_they_are_combined() -> None:
    program = loops.interchange(total(), ["c_update"], "i", "k")
    assert verdict(tags.parallelize(program, ["c_update"], ["k"])) == {"race"}
    for combine in Combine:
        assert verdict(tags.parallelize(program, ["c_update"], ["k"], combine=combine)) == set()


def test_a_reader_inside_the_loop_of_the_terms_sees_a_partial_result() -> None:
    sketch = Sketch()
    sketch.input("a", N, 3)
    sketch.computation("c", "i,k", "0 <= i < N and 0 <= k < 3", access("a", i, k), ["k"], sum_)
    sketch.computation("d", "i,j", "0 <= i < N and 0 <= j < 3", access("c", i))
    program = order.place_after(sketch.program("d"), ["c_update"], ["d"], "i", True, "")
    assert verdict(program) == set()
    deeper = order.place_after(program, ["c_update"], ["d"], "k", True, "")
    assert verdict(deeper) == {"reduction"}


def test_floors_are_evaluated_as_python_does() -> None:
    of = isl.MultiAff("[N] -> { S[i, j] -> [floor((i + 3j + N)/8), i mod 8, (i + floor(j/2)) mod 5, -floor(-i/3)] }")
    plain = function(of, {"N": 5})
    for a in range(-9, 9):
        for b in range(-9, 9):
            assert plain((a, b)) == ((a + 3 * b + 5) // 8, a % 8, (a + b // 2) % 5, -(-a // 3))


def test_integer_expressions_are_python_integers() -> None:
    names = {"i": -7, "N": 3}
    assert integer(as_expr(select((i < 0) & ~(N < 0), i // 2, i % 2)), names) == -4

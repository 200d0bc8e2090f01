"""The judge of schedules, on programs whose verdict is known without it."""

from __future__ import annotations

from dataclasses import replace

import islpy as isl
import pytest

import tiramisu_py as tm
from tests.oracle.judges.judge import judge, kinds, sizes
from tests.oracle.judges.plain import function, integer
from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import as_expr
from tiramisu_py.program.loops import Loop

(N,) = tm.params("N")
i, j, k = tm.iters("i j k")


def of_n(assume: str = "N >= 0") -> tm.Function:
    return tm.Function("f", params=[N], assume=assume)


def pipeline() -> tuple[tm.Function, tm.Computation, tm.Computation, tm.Input]:
    """q[i] = p[i] + p[i + 1], p[i] = 2 a[i]."""
    f = of_n()
    a = f.input("a", tm.float64, [N + 1])
    p = f.computation("p", {i: N + 1}, 2 * a[i])
    q = f.computation("q", {i: N}, p[i] + p[i + 1])
    f.outputs(q)
    return f, p, q, a


def total(ordered: bool = False) -> tuple[tm.Function, tm.Reduction]:
    """c[i] = the sum of a[i, 0], a[i, 1], a[i, 2]."""
    f = of_n()
    a = f.input("a", tm.float64, [N, 3])
    c = f.reduction("c", {i: N}, over={k: 3}, op=tm.sum, expr=a[i, k], ordered=ordered)
    f.outputs(c)
    return f, c


def verdict(f: tm.Function, most: int = 4) -> set[str]:
    program = f.program
    return {kind for params in sizes(program, most) for kind in kinds(judge(program, params, tries=2))}


def test_a_program_as_declared_is_right() -> None:
    assert verdict(pipeline()[0]) == set()
    assert verdict(total()[0]) == set()


def test_a_fusion_reads_too_early_unless_it_is_shifted() -> None:
    f, p, q, _ = pipeline()
    q.after(p, i)
    assert verdict(f) == {"order"}
    assert judge(f.program, {"N": 0}) == []
    q.shift(i, 1)
    assert verdict(f) == set()


def test_a_consumer_before_its_producer_reads_nothing() -> None:
    f, p, q, _ = pipeline()
    p.after(q, tm.root)
    assert verdict(f) == {"order"}


@pytest.mark.parametrize(("places", "expected"), [(1, {"overwritten"}), (2, set())])
def test_folding_needs_a_place_for_each_value_in_flight(places: int, expected: set[str]) -> None:
    f, p, q, _ = pipeline()
    q.after(p, i)
    q.shift(i, 1)
    p.store_in([i % places])
    assert verdict(f) == expected


def test_a_buffer_that_is_too_small_is_out_of_bounds() -> None:
    f, p, _, _ = pipeline()
    p.store_in(tm.Buffer("small", (as_expr(N),), tm.float64), [i])
    assert verdict(f) == {"bounds"}


def test_iterations_that_meet_race_when_they_are_parallel() -> None:
    f, p, q, _ = pipeline()
    q.parallelize(i)
    assert verdict(f) == set()
    f, p, q, _ = pipeline()
    q.after(p, i)
    q.shift(i, 1)
    p.store_in([i % 2])
    p.vectorize(i, 4)
    assert "race" in verdict(f)


def test_values_computed_twice_at_once_race_even_though_they_are_the_same() -> None:
    f, p, q, _ = pipeline()
    p.store_in(tm.Buffer("whole", (as_expr(N + 1),), tm.float64), [i])
    p.compute_at(q, i)
    assert verdict(f) == set()
    q.parallelize(i)
    assert verdict(f) == {"race"}


def test_a_recurrence_is_not_parallel_and_not_reversed() -> None:
    f = of_n("N >= 1")
    a = f.input("a", tm.float64, [N])
    s = f.computation("s", {i: N}, lambda s: tm.select(i == 0, a[0], s[i - 1] + a[i]))
    f.outputs(s)
    assert verdict(f) == set()
    s.reverse(i)
    assert verdict(f) == {"order"}
    f.undo()
    s.parallelize(i)
    assert verdict(f) >= {"race"}


def test_a_select_without_a_known_condition_reads_both_branches() -> None:
    f = of_n("N >= 1")
    a = f.input("a", tm.float64, [N])
    f.outputs(f.computation("s", {i: N}, tm.select(a[i] > 0, a[i], a[i - 1])))
    assert verdict(f) == {"bounds"}


def test_an_index_that_is_a_value_may_be_anything_that_is_declared_of_it() -> None:
    f = of_n("N >= 1")
    at = f.input("at", tm.int32, [N], values=(0, N))
    a = f.input("a", tm.float64, [N])
    p = f.computation("p", {i: N}, 2 * a[i])
    q = f.computation("q", {i: N}, p[at[i]])
    f.outputs(q)
    assert verdict(f) == set()
    q.after(p, i)
    assert verdict(f) == {"order"}
    assert judge(f.program, {"N": 1}) == []


def test_values_that_need_each_other_are_an_error_of_the_algorithm() -> None:
    f = of_n()
    f.outputs(f.computation("s", {i: 2 * N}, lambda s: s[(i + 1) % 2 + 2 * (i // 2)], dtype=tm.float64))
    assert verdict(f) == {"algorithm"}


def test_a_caller_array_that_is_no_output_must_stay_as_it_is() -> None:
    f, p, _, a = pipeline()
    p.store_in(a, [i])
    assert verdict(f) == {"overwritten"}


def test_an_output_in_place_of_its_input_is_right_when_nothing_needs_the_input_any_more() -> None:
    for index, expected in ((i, set()), ((i + 1) % 2, {"overwritten"})):
        f = of_n("N >= 2")
        a = f.input("a", tm.float64, [N])
        q = f.computation("q", {i: N}, a[index] + 1)
        f.outputs(q)
        q.store_in(a, [i])
        assert verdict(f) == expected


def test_terms_may_come_in_any_order_but_each_once() -> None:
    f, c = total()
    c.update.reverse(k)
    assert verdict(f) == set()
    program = f.program
    update = program.statements["c_update"]
    first = isl.Set.read_from_str(update.instances.get_ctx(), "[N] -> { c_update[i, k] : k = 0 }")
    without = program.with_statement(replace(update, instances=update.instances.subtract(first)))
    assert kinds(judge(without, {"N": 2})) == {"reduction"}
    instances = sets.named(update.instances, "again")
    point = sets.from_frame(update.point, instances.get_space())
    coords = sets.from_frame(update.coords, instances.get_space())
    again = replace(update, name="again", instances=instances, loops=(7, 8), point=point, coords=coords)
    twice = program.with_statement(again).with_loop(Loop(7, "i"), Loop(8, "k"))
    assert kinds(judge(twice, {"N": 2})) == {"reduction"}


def test_the_order_of_terms_can_be_locked() -> None:
    f, c = total(ordered=True)
    assert verdict(f) == set()
    c.update.reverse(k)
    assert verdict(f) == {"reduction"}


def test_an_update_before_its_initialisation_is_noticed() -> None:
    f, c = total()
    c.init.after(c.update, tm.root)
    assert verdict(f) >= {"reduction"}


def test_parallel_terms_race_unless_they_are_combined() -> None:
    f, c = total()
    c.update.interchange(i, k)
    c.update.parallelize(k)
    assert verdict(f) == {"race"}
    for combine in (tm.PRIVATE, tm.ATOMIC):
        c.update.parallelize(k, combine=combine)
        assert verdict(f) == set()


def test_a_reader_inside_the_loop_of_the_terms_sees_a_partial_result() -> None:
    f = of_n()
    a = f.input("a", tm.float64, [N, 3])
    c = f.reduction("c", {i: N}, over={k: 3}, op=tm.sum, expr=a[i, k])
    d = f.computation("d", {i: N, j: 3}, c[i] + 0 * j)
    f.outputs(d)
    d.after(c.update, i)
    assert verdict(f) == set()
    d.after(c.update, k)
    assert verdict(f) == {"reduction"}


def test_floors_are_evaluated_as_python_does() -> None:
    of = isl.MultiAff("[N] -> { S[i, j] -> [floor((i + 3j + N)/8), i mod 8, (i + floor(j/2)) mod 5, -floor(-i/3)] }")
    plain = function(of, {"N": 5})
    for a in range(-9, 9):
        for b in range(-9, 9):
            assert plain((a, b)) == ((a + 3 * b + 5) // 8, a % 8, (a + b // 2) % 5, -(-a // 3))


def test_integer_expressions_are_python_integers() -> None:
    names = {"i": -7, "N": 3}
    assert integer(as_expr(tm.select((i < 0) & ~(N < 0), i // 2, i % 2)), names) == -4

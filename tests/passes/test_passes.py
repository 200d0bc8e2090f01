"""What each pass makes of loops, by its shape; `tests/backends` compares what they compute."""

from __future__ import annotations

import pytest

from tests.programs.loop_ir.kernels import blur, least, matmul, tiles
from tests.programs.loop_ir.short_names import function, given, load, loop, result, size, store, temporary, updated, var
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.declarations import sum_
from tiramisu_py.algorithm.expressions import Binary, Const
from tiramisu_py.ir import (
    Allocate,
    Assign,
    Declare,
    For,
    If,
    Let,
    LoopFunction,
    Node,
    Private,
    Ramp,
    Store,
)
from tiramisu_py.ir.arithmetic.simplify import simplify
from tiramisu_py.ir.rewriting import Names, all_expressions, walk
from tiramisu_py.passes.loops.full_tiles import full_tiles
from tiramisu_py.passes.loops.unroll import unroll
from tiramisu_py.passes.pipeline import optimise
from tiramisu_py.passes.vectors.vectorize import vectorize
from tiramisu_py.program.loops import Combine, Parallel, Unroll, Vector

N, M, i, j, i0, i1 = size("N"), size("M"), var("i"), var("j"), var("i0"), var("i1")


def loops(node: Node) -> list[For]:
    """All loops."""
    return [inner for inner in walk(node) if isinstance(inner, For)]


def of(node: Node, kind: type) -> list[Node]:
    """All statements of a kind."""
    return [inner for inner in walk(node) if isinstance(inner, kind)]


def unrolled(node: Node) -> Node:
    return unroll(node, Names(()))


def vectorised(node: Node) -> Node:
    return vectorize(node, Names(()))


def indices(node: Node) -> list[str]:
    """The first index of every store."""
    return [str(inner.indices[0]) for inner in walk(node) if isinstance(inner, Store)]


# -- unroll


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_constant_loop_is_unrolled_completely(count: int) -> None:
    found = unrolled(loop("i", N + count, store("y", i, 1.0), lower=N, tag=Unroll()))
    assert not loops(found)
    assert indices(found) == ["N", "N + 1", "N + 2"][:count]


def test_a_loop_whose_extent_is_no_constant_stays_a_plain_loop() -> None:
    found = unrolled(loop("i", N, store("y", i, 1.0), tag=Unroll()))
    assert isinstance(found, For)
    assert found.tag is None


def test_unrolling_by_a_factor_leaves_the_rest_to_a_second_loop() -> None:
    found = unrolled(loop("i", N, store("y", i, 1.0), tag=Unroll(4)))
    assert isinstance(found, Let)
    main, rest = loops(found)
    assert (main.step, rest.step) == (4, 1)
    assert indices(main) == ["i", "i + 1", "i + 2", "i + 3"]
    assert str(found.value) == "N // 4 * 4"


def test_unrolling_by_a_factor_above_the_extent_is_complete() -> None:
    assert not loops(unrolled(loop("i", 3, store("y", i, 1.0), tag=Unroll(8))))
    assert len(loops(unrolled(loop("i", 9, store("y", i, 1.0), tag=Unroll(8))))) == 0  # 8 copies, then one


def test_nested_loops_unroll_inside_out() -> None:
    inner = loop("j", 2, store("y", (i, j), 1.0), tag=Unroll())
    found = unrolled(loop("i", 3, inner, tag=Unroll()))
    assert not loops(found)
    assert len(of(found, Store)) == 6


def test_what_is_too_much_to_unroll_stays_a_loop() -> None:
    found = unrolled(loop("i", 5000, store("y", i, 1.0), tag=Unroll()))
    assert len(loops(found)) == len(of(found, Store)) == 1


# -- full tiles


def test_full_tiles_are_apart_from_partial_ones_where_the_test_is_known() -> None:
    tile = loop("i1", least(8, N - 8 * i0), store("y", 8 * i0 + i1, 1.0), tag=Unroll())
    found = full_tiles(loop("i0", tiles(N, 8), tile, tag=Parallel()))
    (test,) = of(found, If)
    assert isinstance(test, If)
    assert str(test.condition) == "N - 8 * i0 >= 8"
    full, general = loops(test.then)[0], loops(test)[-1]
    assert str(full.upper) == "8"
    assert str(general.upper) == "min(8, N - 8 * i0)"


def test_one_test_serves_all_loops_of_a_nest_and_stands_as_far_out_as_it_can() -> None:
    tests = of(full_tiles(matmul().body), If)
    assert len(tests) == 1
    inner = loop("i1", least(8, N - 8 * i0), store("y", (8 * i0 + i1, j), 1.0), tag=Unroll())
    found = full_tiles(loop("i0", tiles(N, 8), loop("j", M, inner), tag=Parallel()))
    outer = loops(found)[0]
    assert outer.variable == "i0"
    assert isinstance(outer.body, If)


def test_a_sequential_loop_is_cut_where_its_tiles_cease_to_be_full() -> None:
    tile = loop("i1", least(8, N - 8 * i0), store("y", 8 * i0 + i1, 1.0), tag=Unroll())
    found = full_tiles(loop("i0", tiles(N, 8), tile, lower=M))
    assert not of(found, If)
    assert isinstance(found, Let)
    assert (found.variable, str(found.value)) == ("i0_full", "max(N // 8, M)")
    full, inner, rest, general = loops(found)
    assert [str(e) for e in (full.lower, full.upper, rest.lower, rest.upper)] == [
        "M", "i0_full", "i0_full", "(N + 7) // 8"
    ]  # fmt: skip
    assert (str(inner.upper), str(general.upper)) == ("8", "min(8, N - 8 * i0)")


def test_tiles_that_begin_to_be_full_cut_a_loop_in_three() -> None:
    lower, upper = Binary("max", 3 - i0, 0 * i0, ty.int64), least(8, N - i0)
    tile = loop("i1", upper, store("y", 8 * i0 + i1, 1.0), lower=lower, tag=Unroll())
    found = full_tiles(simplify(loop("i0", M, tile)))
    lets = [node for node in of(found, Let) if isinstance(node, Let)]
    assert [(node.variable, str(node.value)) for node in lets] == [
        ("i0_begin", "max(min(M, 3), 0)"), ("i0_full", "max(min(M, N - 7), i0_begin)")
    ]  # fmt: skip
    assert [(str(n.lower), str(n.upper)) for n in loops(found) if n.variable == "i0"] == [
        ("0", "i0_begin"), ("i0_begin", "i0_full"), ("i0_full", "M")
    ]  # fmt: skip


def test_what_does_not_change_with_a_loop_is_asked_outside_of_the_pieces() -> None:
    rows = loop("i1", least(8, N - 8 * i0), store("y", (i1, j), 1.0), tag=Unroll())
    strip = loop("k", least(16, M - 16 * j), rows, tag=Vector(16))
    found = full_tiles(loop("i0", tiles(N, 8), loop("j", tiles(M, 16), strip), tag=Parallel()))
    (test,) = of(found, If)
    assert isinstance(test, If)
    assert str(test.condition) == "N - 8 * i0 >= 8"
    assert isinstance(test.then, Let)
    assert [str(n.upper) for n in loops(test.then) if n.variable == "k"] == ["16", "min(16, M - 16 * j)"]


def test_the_test_stands_inside_loops_that_collapse() -> None:
    found = full_tiles(matmul().body)
    (outer, middle) = loops(found)[:2]
    assert middle is outer.body
    assert isinstance(middle.body, If)


def test_long_vector_loops_and_plain_loops_get_no_version_of_their_own() -> None:
    for tag in (Vector(8), None, Parallel(), Unroll(4)):
        tile = loop("i1", least(256, N - 256 * i0), store("y", 256 * i0 + i1, 1.0), tag=tag)
        assert not of(full_tiles(loop("i0", tiles(N, 256), tile)), If)


# -- vectors


def test_a_vector_loop_is_strips_and_a_remainder_under_the_same_name() -> None:
    found = vectorised(loop("i", N, store("y", i, load("x", i + 1)), tag=Vector(8)))
    main, rest = loops(found)
    assert (main.variable, rest.variable) == ("i", "i")
    assert (main.step, rest.step) == (8, 1)
    ramps = [e for e in all_expressions(main) if isinstance(e, Ramp)]
    assert [(str(e.base), e.lanes) for e in ramps] == [("i + 1", 8), ("i", 8)] or len(ramps) == 2
    assert not [e for e in all_expressions(rest) if isinstance(e, Ramp)]


def test_a_constant_vector_loop_of_few_strips_is_straight_line_code() -> None:
    found = vectorised(loop("i", 16, store("y", i, 1.0), tag=Vector(8)))
    assert not loops(found)
    assert len(of(found, Store)) == 2


def test_a_vector_loop_shorter_than_a_vector_stays_scalar() -> None:
    found = vectorised(loop("i", 7, store("y", i, 1.0), tag=Vector(8)))
    assert isinstance(found, For)
    assert found.tag is None


def test_buffers_inside_a_vector_loop_have_a_vector_for_each_element() -> None:
    body = temporary("t", (N,), loop("j", N, store("t", j, load("x", i))), store("y", i, load("t", N - 1)))
    found = vectorised(loop("i", M, body, tag=Vector(4)))
    inside, outside = of(found, Allocate)
    assert isinstance(inside, Allocate)
    assert isinstance(outside, Allocate)
    assert (inside.lanes, outside.lanes) == (4, 1)


def test_a_reduction_keeps_partial_results_in_a_vector() -> None:
    private = (Private("s", sum_, Combine.PRIVATE),)
    update = updated("s", 0, sum_, load("x", i))
    found = vectorised(loop("i", N, update, tag=Vector(8, Combine.PRIVATE), reductions=private))
    (declared,) = of(found, Declare)
    assert isinstance(declared, Declare)
    assert declared.lanes == 8
    assert isinstance(declared.value, Const)
    assert str(declared.value) == "-0.0"
    assert len(of(found, Assign)) == 1


@pytest.mark.parametrize(("register", "lanes"), [(64, 16), (32, 8), (16, 4), (4, 2)])
def test_vectors_wider_than_a_register_are_in_parts(register: int, lanes: int) -> None:
    private = (Private("s", sum_, Combine.PRIVATE),)
    body = (store("y", i, load("x", i) * 2.0), updated("s", 0, sum_, load("x", i)))
    wide = loop("i", N, *body, tag=Vector(32, Combine.PRIVATE), reductions=private)
    found = vectorize(wide, Names(()), register)
    declared = [node for node in of(found, Declare) if isinstance(node, Declare)]
    assert [node.lanes for node in declared] == [lanes] * (32 // lanes)
    assert {e.lanes for e in all_expressions(found) if isinstance(e, Ramp)} == {lanes}
    assert loops(found)[0].step == 32


def test_the_widest_value_decides_the_parts_and_indices_do_not() -> None:
    doubled = store("y", i, load("x", load("p", i, dtype=ty.int64)) + 1.0, ty.float64)
    found = vectorize(loop("i", N, doubled, tag=Vector(16)), Names(()), 64)
    assert {e.lanes for e in all_expressions(found) if isinstance(e, Ramp)} == {8}
    gathered = store("y", i, load("x", load("p", i, dtype=ty.int64)))
    found = vectorize(loop("i", N, gathered, tag=Vector(16)), Names(()), 64)
    assert {e.lanes for e in all_expressions(found) if isinstance(e, Ramp)} == {16}


# -- registers


def buffers(f: LoopFunction) -> list[Node]:
    return of(optimise(f).body, Allocate)


def test_a_buffer_that_only_constants_index_becomes_variables() -> None:
    body = temporary(
        "t", (4,), *(store("t", k, load("x", i + k)) for k in range(4)), store("y", i, load("t", 0) + load("t", 3))
    )
    found = optimise(function("f", "N", [given("x", N + 4), result("y", N)], loop("i", N, body))).body
    assert not of(found, Allocate)
    names = [d.variable for d in of(found, Declare) if isinstance(d, Declare)]
    assert names == ["t_0", "t_3"]  # what nothing reads is not even computed
    assert all(d.constant for d in of(found, Declare) if isinstance(d, Declare))


def test_a_buffer_with_any_other_index_stays_a_buffer() -> None:
    body = temporary("t", (4,), store("t", 0, 1.0), store("t", i % 4, 2.0), store("y", i, load("t", 0)))
    assert len(buffers(function("f", "N", [result("y", N)], loop("i", N, body)))) == 1


def test_a_buffer_that_threads_share_stays_a_buffer() -> None:
    update = updated("s", 0, sum_, load("x", i))
    private = (Private("s", sum_, Combine.PRIVATE),)
    body = temporary(
        "s",
        (1,),
        store("s", 0, 0.0),
        loop("i", N, update, tag=Parallel(), reductions=private),
        store("y", 0, load("s", 0)),
    )
    assert len(buffers(function("f", "N", [given("x", N), result("y", 1)], body))) == 1


def test_accumulators_are_declared_where_they_start_and_assigned_in_the_loop() -> None:
    body = temporary(
        "s", (1,), store("s", 0, 0.0), loop("j", M, updated("s", 0, sum_, load("x", i, j))), store("y", i, load("s", 0))
    )
    found = optimise(function("f", "N M", [given("x", N, M), result("y", N)], loop("i", N, body))).body
    (declared,) = of(found, Declare)
    assert isinstance(declared, Declare)
    assert (declared.variable, declared.constant) == ("s_0", False)
    assert len(of(found, Assign)) == 1


def test_full_tiles_use_no_array_and_partial_tiles_do() -> None:
    for f in (blur(), matmul()):
        (test,) = of(optimise(f).body, If)
        assert isinstance(test, If)
        assert test.otherwise is not None
        assert not of(test.then, Allocate)
        assert of(test.otherwise, Allocate)


def test_nothing_but_parallel_loops_is_tagged_afterwards() -> None:
    for f in (blur(), matmul()):
        assert all(isinstance(inner.tag, Parallel | None) for inner in loops(optimise(f).body))

"""What unrolling and full tiles make of loops, by its shape; `tests/backends` compares what they compute."""

from __future__ import annotations

import numpy as np
import pytest

from tests.programs.loop_ir.kernels import least, matmul, tiles
from tests.programs.loop_ir.nodes import indices, loops, of
from tests.programs.loop_ir.short_names import loop, size, store, var
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import Binary
from tiramisu_py.interpret import run
from tiramisu_py.ir import ArrayArgument, For, If, Let, LoopFunction, Node, Store
from tiramisu_py.ir.arithmetic.simplify import simplify
from tiramisu_py.ir.rewriting import Names
from tiramisu_py.passes.loops.full_tiles import full_tiles
from tiramisu_py.passes.loops.unroll import unroll
from tiramisu_py.program.loops import Parallel, Tag, Unroll, Vector

N, M, i, j, i0, i1 = size("N"), size("M"), var("i"), var("j"), var("i0"), var("i1")


def unrolled(node: Node) -> Node:
    return unroll(node, Names(()))


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


@pytest.mark.parametrize("part", [2**14, 2**20])
def test_tiles_of_long_parts_cease_to_be_full_at_a_known_one(part: int) -> None:
    left = N - part * i0 - 4 * i1
    tile = loop("i2", least(4, left), store("y", part * i0 + 4 * i1 + var("i2"), 1.0), tag=Unroll())
    found = full_tiles(loop("i0", tiles(N, part), loop("i1", part // 4, tile), tag=Parallel()))
    assert not of(found, If)
    assert [cut.variable for cut in of(found, Let)] == ["i1_full"]


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


def test_a_tile_that_is_full_by_tests_at_two_loops_has_its_full_extent_inside_both() -> None:
    lower = Binary("max", j - 8 * i0 + 1, 0 * j, ty.int64)
    tile = loop("i1", least(8, N - 8 * i0), store("y", 8 * i0 + i1, 1.0), lower=lower, tag=Unroll())
    found = full_tiles(simplify(loop("i0", tiles(N, 8), loop("j", M, tile))))
    bounds = [(str(node.lower), str(node.upper)) for node in loops(found) if node.variable == "i1"]
    assert bounds[0] == ("0", "8")
    assert ("0", "min(8, N - 8 * i0)") in bounds


@pytest.mark.parametrize(("falls", "asked"), [(False, "8 * i0 - 8 * i1 >= 7"), (True, "8 * i1 - 8 * i0 >= 15")])
def test_the_rows_of_a_tile_in_a_triangle_are_asked_for_at_once(falls: bool, asked: str) -> None:
    length = 8 * i1 - i if falls else i - 8 * i1 + 1
    row = loop("j", least(8, length), store("y", (i, j), 1.0), tag=Vector(8))
    rows = loop("i", 8 * i0 + 8, row, lower=8 * i0, tag=Unroll())
    found = full_tiles(loop("i0", N, loop("k", M, rows), tag=Parallel()))
    test = of(found, If)[0]
    assert isinstance(test, If)
    assert str(test.condition) == asked
    assert [str(each.upper) for each in loops(test.then)] == ["M", "8 * i0 + 8", "8"]
    assert not of(test.then, If)
    inside = of(test.otherwise or test, If)[0]
    assert isinstance(inside, If)
    assert str(inside.condition).startswith("i - 8 * i1" if not falls else "8 * i1 - i")


def test_rows_of_a_loop_that_is_long_are_asked_for_one_by_one() -> None:
    row = loop("j", least(8, i - 8 * i1 + 1), store("y", (i, j), 1.0), tag=Vector(8))
    (test,) = of(full_tiles(loop("i0", N, loop("i", M, row, tag=Unroll()), tag=Parallel())), If)
    assert isinstance(test, If)
    assert str(test.condition) == "i - 8 * i1 >= 7"


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


def filled(tag: Tag | None = None) -> tuple[Node, Node]:
    """Tiles of eight lanes, those below N of which are ones, the others zeros: a full tile is of one or the other."""
    ones = loop("i1", least(8, N - 8 * i0), store("y", 8 * i0 + i1, 1.0), tag=Unroll())
    lower = Binary("max", N - 8 * i0, 0 * i0, ty.int64)
    zeros = loop("i1", 8, store("y", 8 * i0 + i1, 0.0), lower=lower, tag=Unroll())
    whole = simplify(loop("i0", 5, ones, zeros, tag=tag))
    return whole, full_tiles(whole)


def test_tiles_that_are_full_in_one_of_two_ways_are_cut_where_the_first_way_ends_and_the_other_begins() -> None:
    _, found = filled()
    lets = [node for node in of(found, Let) if isinstance(node, Let)]
    assert [(node.variable, str(node.value)) for node in lets] == [
        ("i0_full", "max(min(5, N // 8), 0)"), ("i0_begin", "max(min(5, (N + 7) // 8), i0_full)")
    ]  # fmt: skip
    assert [(str(each.lower), str(each.upper)) for each in loops(found)] == [
        ("0", "i0_full"), ("0", "8"),
        ("i0_full", "i0_begin"), ("0", "min(8, N - 8 * i0)"), ("max(N - 8 * i0, 0)", "8"),
        ("i0_begin", "5"), ("0", "8"),
    ]  # fmt: skip
    assert [str(each.value) for each in of(found, Store) if isinstance(each, Store)] == ["1.0", "1.0", "0.0", "0.0"]


def test_tiles_of_threads_that_are_full_in_one_of_two_ways_ask_which() -> None:
    _, found = filled(Parallel())
    first, second = (node for node in of(found, If) if isinstance(node, If))
    assert (str(first.condition), first.otherwise) == ("N - 8 * i0 >= 8", second)
    assert [str(each.value) for each in of(first.then, Store) if isinstance(each, Store)] == ["1.0"]
    assert [str(each.value) for each in of(second.then, Store) if isinstance(each, Store)] == ["0.0"]
    assert second.otherwise is not None
    assert len(loops(second.otherwise)) == 2


@pytest.mark.parametrize("tag", [None, Parallel()], ids=["sequential", "threads"])
@pytest.mark.parametrize("size_", [0, 3, 8, 9, 24, 40])
def test_tiles_in_two_ways_store_what_they_did(size_: int, tag: Tag | None) -> None:
    y = ArrayArgument("y", ty.float64, (5 * (0 * N + 8),), False, True)
    results = []
    for body in filled(tag):
        values = np.full(40, np.nan)
        run(LoopFunction("f", ("N",), (y,), (), body), {"y": values}, {"N": size_})
        results.append(values)
    np.testing.assert_array_equal(results[1], np.arange(40) < size_)
    np.testing.assert_array_equal(results[0], results[1])

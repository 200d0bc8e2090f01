"""Programs that once were accepted although wrong, refused although right, or ended in an error without words."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs import pipelines as pl
from tests.programs.pipelines import c, c0, c1, i, i0, i1, j, k, r, r0, r1, t, x, y
from tiramisu_py.interpret import run
from tiramisu_py.ir import For
from tiramisu_py.ir.rewriting import walk
from tiramisu_py.lower import lower

SIZES = (0, 1, 2, 5, 9, 17)
(N,) = tm.params("N")
(K,) = tm.params("K")


def _right(f: tm.Function, **fixed: int) -> None:
    """The compiled kernel and the interpreted loops, in several orders, agree with `evaluate()`."""
    report = f.check()
    assert report.ok, report
    kernel, loops = f.compile(), lower(f.program)
    for size in SIZES:
        sizes = {name: fixed.get(name, size) for name in f.algorithm.params}
        rng = np.random.default_rng(5)
        arrays = {
            a.name: rng.integers(-9, 10, [eval(str(e), {}, sizes) for e in a.shape]).astype(a.dtype.numpy)
            for a in f.algorithm.inputs.values()
        }
        wanted = f.evaluate(**arrays, **sizes)
        got = kernel(**arrays, **sizes)
        for one, other in zip(_tuple(wanted), _tuple(got), strict=True):
            np.testing.assert_array_equal(other, one, err_msg=str(sizes))
        for seed in range(4 if size < 17 else 0):
            outputs = {name: np.zeros_like(one) for name, one in zip(loops.outputs, _tuple(wanted), strict=True)}
            run(loops, {**arrays, **outputs}, sizes, seed=seed)
            for name, one in zip(loops.outputs, _tuple(wanted), strict=True):
                np.testing.assert_array_equal(outputs[name], one, err_msg=f"{sizes}, seed {seed}")


def _tuple(given):
    return given if isinstance(given, tuple) else (given,)


def _sum_of_two() -> tuple[tm.Function, tm.Reduction]:
    """``C[i] = a[i, 0] + a[i, 1]``, its two terms in two parts, the second one iteration later than the first."""
    f = tm.Function("two_terms", params=[N])
    a = f.input("a", tm.int32, [N, 2])
    C = f.reduction("C", {i: N}, over={k: 2}, op=tm.sum, expr=a[i, k])
    f.outputs(C)
    first, second = C.update.separate_at(k, [1])
    second.after(first, i).shift(i, 1)
    return f, C


@pytest.mark.parametrize("combine", [tm.PRIVATE, tm.ATOMIC])
def test_parts_of_a_reduction_that_meet_only_together_are_combined_in_a_parallel_loop(combine):
    f, C = _sum_of_two()
    C.get_update(1).parallelize(i, combine=combine)
    assert any(isinstance(node, For) and node.reductions for node in walk(lower(f.program).body))
    _right(f)


def test_parts_of_a_reduction_that_meet_only_together_are_combined_in_lanes():
    f, C = _sum_of_two()
    C.get_update(1).vectorize(i, 4, combine=tm.PRIVATE)
    _right(f)


def _running() -> tuple[tm.Function, tm.Reduction]:
    """``q[i, k]`` reads the sum of the row before, in the loop over k that adds up the present row."""
    f = tm.Function("running", params=[N, K])
    a = f.input("a", tm.int32, [N, K])
    C = f.reduction("C", {i: N}, over={k: K}, op=tm.sum, expr=a[i, k])
    q = f.computation("q", {i: N, k: K}, tm.select(i > 0, C[i - 1], 0) * a[i, k])
    f.outputs(C, q)
    q.after(C.update, k)
    return f, C


@pytest.mark.parametrize("command", ["parallelize", "vectorize"])
def test_private_copies_do_not_hide_complete_sums_of_the_same_buffer(command):
    f, C = _running()
    width = (4,) if command == "vectorize" else ()
    getattr(C.update, command)(k, *width, combine=tm.PRIVATE)
    with pytest.raises(tm.LegalityError, match="k"):
        f.compile()


def test_atomic_updates_leave_complete_sums_of_the_same_buffer_in_sight():
    f, C = _running()
    C.update.parallelize(k, combine=tm.ATOMIC)
    _right(f, K=3)


def test_two_operators_in_one_buffer_have_no_common_private_copy():
    f = tm.Function("f", params=[N, K])
    a = f.input("a", tm.int32, [N, K])
    C = f.reduction("C", {i: N}, over={k: K}, op=tm.sum, expr=a[i, k])
    D = f.reduction("D", {i: N}, over={k: K}, op=tm.max, expr=a[i, k])
    f.outputs(f.computation("q", {i: N}, C[i] - D[i]))
    both = tm.Buffer("both", [2, N], tm.int32)
    C.store_in(both, [0, i])
    D.store_in(both, [1, i])
    f.order(C.init, D.init, C.update, at=tm.root)
    D.update.after(C.update, k)
    C.update.parallelize(k, combine=tm.PRIVATE)
    with pytest.raises(tm.LegalityError, match=r"C\.update and D\.update, which combine partial results"):
        f.compile()


def test_a_temporary_stays_out_of_the_elements_of_an_outputs_array_that_have_no_value():
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [N + 1])
    p = f.computation("p", {i: N + 1}, 2 * a[i])
    q = f.computation("q", {i: N}, p[i] + p[i + 1], shape=[N + 1])
    f.outputs(q)
    p.store_in(q, [i])
    violation = f.check().violations[0]
    assert violation.kind == "overwritten" and "store_in" in violation.command
    assert (violation.witness.params, violation.witness.writer) == ({"N": 0}, ("p", (0,)))


def test_a_temporary_stays_out_of_an_input_beside_the_output_that_is_stored_over_it():
    f = tm.Function("f", params=[N], assume="N >= 3")
    a = f.input("a", tm.int32, [N])
    b = f.computation("b", {i: (1, N)}, a[i] + 1)
    first = f.computation("first", {k: 1}, b[1] + k)
    d = f.computation("d", {i: (1, N)}, b[i] + first[0])
    f.outputs(d)
    d.store_in(a, [i])
    first.store_in(a, [k])
    violation = f.check().violations[0]
    assert violation.kind == "overwritten" and violation.witness.element == ("a", (0,))


def test_a_temporary_may_use_the_elements_that_an_output_overwrites_later():
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [N])
    p = f.computation("p", {i: N}, 2 * a[i])
    q = f.computation("q", {i: N}, p[i] + 1)
    f.outputs(q)
    p.store_in(q, [i])
    _right(f)


def test_a_conditional_output_shares_its_array_with_nobody():
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [N])
    p = f.computation("p", {i: N}, a[i] + 5)
    q = f.computation("q", {i: N}, 2 * p[i], where=a[i] > 0)
    f.outputs(q)
    p.store_in(q, [i])
    assert f.check().violations[0].kind == "overwritten"


def test_undo_keeps_what_was_declared_after_the_command():
    s = pl.pair()
    s.q.after(s.p, i)
    z = s.f.computation("z", {i: N}, s.q[i] + 1)
    s.f.outputs(z, s.q, replace=True)
    s.f.undo()
    assert s.f.commands == () and s.f.algorithm.outputs == ("z", "q")
    _right(s.f)


def test_outputs_named_again_with_replace_take_the_place_of_those_before():
    s = pl.pair()
    s.f.outputs(s.p, replace=True)
    assert not s.f.program.buffers["q"].argument
    _right(s.f)
    s.f.outputs(s.q, replace=True)
    s.p.inline()
    _right(s.f)


def test_an_inlined_computation_is_no_output():
    s = pl.pair()
    s.p.inline()
    with pytest.raises(tm.DeclarationError, match="p has been inlined"):
        s.f.outputs(s.p, replace=True)


@pytest.mark.parametrize("name", ["p_0", "two"])
def test_a_declaration_does_not_take_the_name_of_a_part_or_of_a_buffer(name):
    s = pl.pair()
    s.p.store_in(tm.Buffer("two", [N + 1], tm.int32), [i])
    s.p.separate_at(i, [3])
    with pytest.raises(tm.DeclarationError, match=name):
        s.f.computation(name, {i: N}, s.q[i] + 1)


def test_shift_moves_the_computations_own_loop_and_not_its_consumers_of_that_name():
    s = pl.blur()
    s.bx.compute_at(s.by, r).shift(r, 2)
    _right(s.f)


def test_a_copy_can_be_kept_in_registers():
    s = pl.blur()
    s.bx.split(c, 4, c0, c1)
    copy = s.bx.copy(s.image, [y, x], at=c0)
    copy.store_in(tm.REGISTER)
    assert s.f.program.buffers["image_cache"].memory is tm.REGISTER
    assert s.f.program.buffers["image"].memory is tm.HOST
    _right(s.f)


@pytest.mark.parametrize(
    "command",
    [
        lambda s, copy: copy.store_in([x, y]),
        lambda s, copy: copy.inline(),
        lambda s, copy: copy.compute_at(s.by, r),
        lambda s, copy: copy.store_at(s.by, r),
        lambda s, copy: s.by.copy(copy, [y, x], at=c),
    ],
    ids=["store_in", "inline", "compute_at", "store_at", "cache"],
)
def test_what_a_copy_cannot_be_told_is_refused_and_does_not_reach_its_source(command):
    s = pl.blur()
    copy = s.by.copy(s.bx, [y, x])
    before = s.f.program
    with pytest.raises(tm.CommandError, match="copy"):
        command(s, copy)
    assert s.f.program is before


def test_a_producer_is_computed_where_a_copy_reads_it():
    s = pl.blur()
    copy = s.by.copy(s.bx, [y, x], at=r)
    s.bx.compute_at(copy, r)
    _right(s.f)


def test_a_reader_comes_after_the_copies_of_what_is_inlined_into_it():
    s = pl.blur()
    s.bx.copy(s.image, [y, x])
    s.bx.inline()
    _right(s.f)


def test_a_part_cannot_be_inlined_alone():
    s = pl.pair()
    first, _ = s.p.separate_at(i, [3])
    with pytest.raises(tm.CommandError, match="parts"):
        first.inline()


@pytest.mark.parametrize(
    "command",
    [
        lambda s: s.o.shift(i, 2**63),
        lambda s: s.o.skew(i, j, 2**62),
        lambda s: s.o.split(i, 2**40, r0, r1),
        lambda s: s.o.split(i, 4, r0, r1, origin=-(2**40)),
    ],
    ids=["shift", "skew", "split", "origin"],
)
def test_numbers_that_would_leave_64_bits_are_refused(command):
    with pytest.raises(tm.CommandError, match=r"2\*\*31"):
        command(pl.scale())


@pytest.mark.parametrize("dtype", [tm.uint8, tm.uint16, tm.uint64, tm.int8, tm.int64])
def test_the_identity_of_logical_and_has_all_bits_in_every_type(dtype):
    f = tm.Function("f", params=[N])
    a = f.input("a", dtype, [N])
    C = f.reduction("C", {}, over={k: N}, op=tm.logical_and, expr=a[k])
    f.outputs(C)
    given = np.array([7, 6, 14], dtype=dtype.numpy)
    assert f.compile()(given) == 6
    assert f.evaluate(given) == 6


@pytest.mark.parametrize("factor", [2, 3, 4])
def test_strided_time_maps_keep_their_strides_in_lanes_and_copies(factor):
    s = pl.scale()
    s.o.set_schedule(f"{{ [i, j] -> [i, t] : t = {factor} * j + 1 }}").vectorize(t, 4)
    _right(s.f)
    s.f.undo()
    s.o.unroll(t, 4)
    _right(s.f)


def _refused(s, command, words):
    before = s.f.program
    with pytest.raises(tm.CommandError, match=words):
        command(s)
    assert s.f.program is before


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (lambda s: s.p.store_in(tm.Buffer("N", [N + 1], tm.int32), [i]), "a parameter has this name"),
        (lambda s: s.q.copy(s.p, [x], name="q"), "a computation has this name"),
        (lambda s: s.p.reorder(), "reorder needs"),
        (lambda s: s.p.separate_at(i, 4), "give a list"),
        (lambda s: s.p.set_schedule("[Z] -> { [i] -> [Z - i] }"), "Z, which is not a parameter"),
        (lambda s: s.p.set_schedule("{ z[i] -> [i] }"), "is for z, not for p"),
    ],
    ids=["buffer", "copy", "reorder", "separate_at", "parameter", "tuple"],
)
def test_wrong_arguments_are_refused_in_words(command, words):
    _refused(pl.pair(), command, words)


def test_a_time_map_does_not_take_away_the_loop_that_a_buffer_has_a_copy_for():
    s = pl.pair()
    s.q.after(s.p, i)
    s.p.store_at(s.q, i)
    words = "q has the loop i, and p a copy for each iteration of it: give it the time map before store_at"
    _refused(s, lambda s: s.q.set_schedule("{ [i] -> [-i] }"), words)


@pytest.mark.parametrize(
    "command",
    [
        lambda s: s.p.inline(),
        lambda s: s.p.split(i, 4, i0, i1),
        lambda s: s.p.store_in([i]),
        lambda s: s.p.store_at(s.q, i),
        lambda s: s.p.compute_at(s.q, i),
        lambda s: s.q.after(s.p, i),
    ],
    ids=["inline", "split", "store_in", "store_at", "compute_at", "after"],
)
def test_commands_on_what_has_been_inlined_say_so(command):
    s = pl.pair()
    s.p.inline()
    _refused(s, command, "p has been inlined")


def test_a_copy_of_values_with_a_hole_between_them_leaves_the_hole_out():
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [20])
    p = f.computation("p", [{i: 3}, {i: (5, 8)}], 2 * a[i])
    q = f.computation("q", {j: N, i: 3}, p[i] + p[i + 5])
    f.outputs(q)
    q.copy(p, [x], at=j)
    _right(f)


def test_values_under_conditions_are_not_copied_as_a_whole():
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [N])
    p = f.computation("p", {i: N}, 2 * a[i], where=a[i] > 0)
    q = f.computation("q", {i: N}, p[i] + 1, where=a[i] > 0)
    f.outputs(q)
    with pytest.raises(tm.CommandError, match="only under conditions"):
        q.copy(p, [x])


def test_a_wider_type_does_not_lose_what_is_known_of_an_index():
    f = tm.Function("f", params=[N])
    col = f.input("col", tm.uint8, [N])
    a = f.input("a", tm.int32, [256])
    f.outputs(f.computation("q", {i: N}, a[tm.cast(tm.int32, col[i]) // 2]))
    assert f.check().ok
    given = np.arange(200, 230, dtype=np.uint8)
    table = np.arange(256, dtype=np.int32) * 3
    np.testing.assert_array_equal(f.compile()(given, table), table[given // 2])


def test_a_narrower_type_is_known_only_by_its_own_range():
    f = tm.Function("f", params=[N], assume="N >= 1")
    col = f.input("col", tm.int32, [N], values=(0, 256))
    a = f.input("a", tm.int32, [256])
    f.outputs(f.computation("q", {i: N}, a[tm.cast(tm.int8, col[i])]))
    violation = f.check().violations[0]
    assert violation.kind == "bounds" and violation.witness.params == {"N": 1}


def test_a_literal_that_could_overflow_an_index_is_refused_by_name():
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int32, [7])
    with pytest.raises(tm.DeclarationError, match=r"index 0 of a\[.*literal 4611686018427387904.*below 2\*\*31"):
        f.computation("b", {i: N}, a[(i * 2**62) % 7])


def test_the_c_function_accepts_the_sizes_for_which_its_index_arithmetic_is_exact():
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.uint8, [N * 2**22])
    f.outputs(f.computation("b", {i: N}, a[i * 2**22]))
    assert f"if (N > INT64_C({2**62 // 2**22}))" in f.source()["f.c"]
    given = np.arange(3 * 2**22, dtype=np.uint32).astype(np.uint8)
    np.testing.assert_array_equal(f.compile()(given), given[:: 2**22])


def test_a_condition_whose_arithmetic_wraps_around_is_decided_at_run_time():
    f = tm.Function("f", params=[N])
    b = f.computation("b", {i: N}, tm.select((i + 2**62) * 2 > i, 1, 0))
    f.outputs(b)
    np.testing.assert_array_equal(f.compile()(N=3), f.evaluate(N=3))

"""`auto_schedule`: right for each form of program at awkward sizes, and printed, explained, undone and refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.auto import programs
from tests.auto.programs import D, K, M, N, i, j, k
from tests.selection import covering
from tiramisu_py.function.together import Group

SIZES = (0, 1, 2, 7, 13, 67)
CPU = tm.recipes.Cpu(vector_bytes=32, registers=16, first=32 << 10, second=2 << 20, cores=2)
#: Processors with each size of vectors.
CPUS = [replace(CPU, vector_bytes=16), CPU, replace(CPU, vector_bytes=64, registers=32)]


def named(value: Any) -> str:
    """A program or a processor in the name of a test."""
    return f"{value.vector_bytes} bytes" if isinstance(value, tm.recipes.Cpu) else str(value.__name__)


def copied(given: dict[str, Any]) -> dict[str, Any]:
    """Arguments with arrays of their own, for programs that change them."""
    return {name: each.copy() if isinstance(each, np.ndarray) else each for name, each in given.items()}


def arguments(f: tm.Function, size: int) -> dict[str, Any]:
    """Random arguments; the parameters have different values near `size`."""
    draw = np.random.default_rng(size)
    sizes = {name: max(size + step, 0) for step, name in enumerate(f.algorithm.params)}
    if "T" in sizes:
        sizes = {"T": min(size, 5), "N": max(size, 1), "M": max(size + 3, 1)}
    if f.name == "softmax":
        sizes["M"] = max(sizes["M"], 1)
    if f.name == "sparse":
        cuts: Any = np.sort(draw.integers(0, sizes["K"] + 1, sizes["N"] - 1)) if sizes["N"] > 1 else []
        start = np.array([0, *cuts, sizes["K"]] if sizes["N"] else [0], np.int32)
        return {
            "start": start, "column": draw.integers(0, sizes["M"], sizes["K"]).astype(np.int32),
            "value": draw.random(sizes["K"]), "x": draw.random(sizes["M"]),
        }  # fmt: skip
    given: dict[str, Any] = {}
    for name, declared in f.algorithm.inputs.items():
        shape = [int(eval(str(extent), {}, sizes)) for extent in declared.shape]
        values = draw.random(shape) if declared.dtype.is_float else draw.integers(-9, 9, shape)
        given[name] = values.astype(declared.dtype.name)
        if f.name == "factors":
            given[name] += 2 * size * np.eye(size)
    if "T" in sizes:
        given["T"] = sizes["T"]
    return given


@pytest.mark.parametrize(("program", "cpu"), covering(programs.ALL, CPUS), ids=named)
def test_programs_of_each_form_are_right(program: Callable[[], tm.Function], cpu: tm.recipes.Cpu) -> None:
    f = program()
    f.auto_schedule(target=cpu, threads=2)
    assert f.commands
    kernel = f.compile(threads=2)
    for size in SIZES:
        given = arguments(f, size)
        try:
            expected = f.evaluate(**copied(given))
        except tm.ArgumentError:
            assert size == 0
            continue
        found = kernel(**given)
        np.testing.assert_allclose(
            found, expected, rtol=1e-5 if f.name in ("softmax", "blur", "reverse_prefix") else 1e-10, atol=1e-12
        )


@pytest.mark.parametrize("program", programs.ALL, ids=lambda program: program.__name__)
def test_the_text_gives_the_same_commands_to_another_function(program: Callable[[], tm.Function]) -> None:
    f = program()
    schedule = f.auto_schedule(threads=2)
    other = program()
    exec(str(schedule), {"tm": tm, "f": other})
    assert [str(command) for command in other.commands] == [str(command) for command in f.commands]


@pytest.mark.parametrize(
    ("function", "array", "result", "rows", "columns"),
    [
        ("i", "a", "s", "i", "j"),  # a function named like an iterator
        ("s", "a", "s", "i", "j"),  # or like an array
        ("g", "x", "y", "x", "y"),  # arrays named like iterators
        ("g", "a", "f", "f", "tm2"),  # what the text names the function
        ("g", "is", "def", "lambda", "True"),  # keywords of Python
    ],
)
def test_each_name_in_the_text_means_one_thing(function: str, array: str, result: str, rows: str, columns: str) -> None:
    r, c = tm.iters(f"{rows} {columns}")

    def made() -> tm.Function:
        f = tm.Function(function, params=[N, M])
        a = f.input(array, D, [N, M])
        f.outputs(f.reduction(result, {r: N}, {c: M}, tm.sum, a[r, c] * a[r, c]))
        return f

    f, other = made(), made()
    exec(str(f.auto_schedule(threads=2)), {"tm": tm, "f": other})
    assert f.commands
    assert other.commands == f.commands


def test_with_one_thread_no_loop_is_parallel() -> None:
    for program in programs.ALL:
        f = program()
        assert "parallelize" not in str(f.auto_schedule(threads=1)), f.name


def test_all_commands_are_undone_at_once() -> None:
    f = programs.product()
    before = f.program
    schedule = f.auto_schedule()
    assert len(f.commands) == len(schedule.commands) > 5
    schedule.undo()
    assert f.commands == () and f.program.statements == before.statements


def test_commands_that_came_later_are_not_undone() -> None:
    f = programs.line()
    schedule = f.auto_schedule(threads=1)
    f["b"].store_nontemporal()
    with pytest.raises(tm.CommandError, match="undo those that came later"):
        schedule.undo()


def test_what_was_chosen_and_refused_is_explained() -> None:
    f = programs.product()
    words = f.auto_schedule(threads=2).explain()
    assert "out: s is a matrix product in tiles of registers" in words
    assert "because nothing else reads s" in words
    words = programs.both_sides().auto_schedule(threads=2).explain()
    assert "y: s and y of 8 rows of a at a time" in words


@pytest.mark.parametrize(
    "program",
    [
        programs.line, programs.both_sides, programs.rank_two, programs.sparse, programs.transposed, programs.prefix,
        programs.paths, programs.pairs, programs.triangle,
    ],
    ids=named,
)  # fmt: skip
def test_one_thread_shares_nothing_in_words_and_in_commands(program: Callable[[], tm.Function]) -> None:
    f = program()
    words = f.auto_schedule(target=CPU, threads=1).explain()
    assert "threads share" not in words
    assert not any("parallelize" in str(command) for command in f.commands)
    assert f.check().ok


def test_a_refused_candidate_falls_back_to_the_next() -> None:
    f = tm.Function("f", params=[N])
    a = f.input("a", D, [N])
    f.outputs(f.reduction("s", {i: N}, {j: N}, tm.sum, a[i] * a[j], ordered=True))
    schedule = f.auto_schedule(threads=2)
    assert f.check().ok
    given = np.arange(11.0)
    np.testing.assert_array_equal(f.compile()(a=given), given * given.sum())
    assert "not " in schedule.explain()


def test_a_function_that_is_refused_as_given_is_refused() -> None:
    f = tm.Function("f", params=[N])
    a = f.input("a", D, [N])
    f.outputs(f.computation("b", {i: N}, a[i + 1]))
    with pytest.raises(tm.LegalityError):
        f.auto_schedule()
    assert f.commands == ()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target": "sm_90"}, "is a GPU"),
        ({"target": 7}, "give the name of a processor"),
        ({"threads": 0}, "give a positive integer"),
        ({"threads": True}, "give a positive integer"),
        ({"level": "best"}, "choose 'structure', 'sizes', 'measure'"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], said: str) -> None:
    f = programs.line()
    with pytest.raises(tm.ArgumentError, match=said):
        f.auto_schedule(**options)
    assert f.commands == ()


def test_functions_on_gpus_and_ranks_and_without_outputs_are_refused() -> None:
    f = tm.Function("f", params=[N])
    a = f.input("a", D, [N], memory=tm.GPU_MEMORY)
    f.outputs(f.computation("b", {i: N}, a[i]))
    with pytest.raises(tm.ArgumentError, match="in the memory of a GPU"):
        f.auto_schedule()
    g = tm.Function("g", params=[N])
    g.computation("b", {i: N}, g.input("a", D, [N])[i])
    with pytest.raises(tm.DeclarationError, match="no outputs"):
        g.auto_schedule()


def test_functions_with_loops_on_gpus_are_refused() -> None:
    i0, j0, i1, j1 = tm.iters("i0 j0 i1 j1")
    f = tm.Function("f", params=[N])
    a = f.input("a", D, [N, N])
    b = f.computation("b", {i: N, j: N}, 2 * a[i, j])
    f.outputs(b)
    b.gpu_tile(i, j, 4, 16, i0, j0, i1, j1)
    for derived in (False, True):
        if derived:
            f.derive_transfers()
        with pytest.raises(
            tm.ArgumentError, match=r"f runs the loops i0, .* on a GPU: it makes schedules for processors"
        ):
            f.auto_schedule()


@pytest.mark.parametrize("result", [None, "much", float("nan"), 1j])
def test_a_cost_that_is_no_number_is_refused(result: Any) -> None:
    f = programs.product()
    with pytest.raises(tm.ArgumentError, match=r"cost gives .* for ValueWork"):
        f.auto_schedule(cost=lambda work: result)
    assert f.commands == ()


def test_a_schedule_is_undone_once() -> None:
    schedule = programs.line().auto_schedule(threads=1)
    schedule.undo()
    with pytest.raises(tm.CommandError, match="has been undone already"):
        schedule.undo()


def test_computations_with_commands_of_the_user_keep_them() -> None:
    f = programs.both_sides()
    f["y"].update.reorder(i, j)
    schedule = f.auto_schedule(threads=2)
    assert not any(str(command).startswith("y") for command in schedule.commands)
    assert any(str(command).startswith("s.update.vectorize") for command in schedule.commands)
    schedule.undo()
    assert [str(command) for command in f.commands] == ["y.update.reorder(i, j)"]


def test_storage_that_the_user_has_chosen_is_kept() -> None:
    f = programs.heat()
    f["u"].fold(programs.t, 3)
    assert "fold" not in str(f.auto_schedule(threads=2, level="structure"))


def test_a_time_loop_keeps_two_levels() -> None:
    f = programs.heat()
    assert "u.fold(t, 2)" in str(f.auto_schedule(threads=2, level="structure"))


def test_a_nest_stays_as_declared_where_all_else_is_estimated_slower() -> None:
    f = programs.both_sides()
    schedule = f.auto_schedule(threads=1, cost=lambda work: work.lanes - work.accesses)
    assert f.commands == () and "y: as declared" in schedule.explain()


@pytest.mark.parametrize("threads", [1, 2])
def test_steps_follow_one_another_through_the_rows(threads: int) -> None:
    """More steps than in a block, and rows that are no multiple of it: with two threads, tiles of a wavefront."""
    f = programs.waves()
    schedule = str(f.auto_schedule(target=CPU, threads=threads))
    assert "h.shift(i, 1)" in schedule and "e.split(t, 16, t0, t)" in schedule
    assert ("wave" in schedule) == (threads > 1)
    kernel = f.compile(threads=threads)
    for size in (1, 16, 67):
        given = arguments(f, size) | {"T": 35}
        np.testing.assert_allclose(kernel(**given), f.evaluate(**given), rtol=1e-10)


def test_values_that_wait_for_those_before_them_are_stored_and_computed_by_diagonals() -> None:
    f = programs.sweeps()
    schedule = str(f.auto_schedule(target=CPU, threads=1))
    assert "u.store_in([2 * i + j, i])" in schedule and "u.skew(t, wave, 2)" in schedule
    kernel = f.compile(threads=1)
    given = arguments(f, 67) | {"T": 35}
    np.testing.assert_allclose(kernel(**copied(given)), f.evaluate(**copied(given)), rtol=1e-10)


def test_diagonals_are_kept_as_far_as_values_read_back_if_only_the_last_ones_are_results() -> None:
    f = programs.alike()
    assert "most.store_in([(i + j) % 3, i])" in str(f.auto_schedule(target=CPU, threads=1))


def test_arrays_of_diagonals_are_made_only_if_they_are_square() -> None:
    """Of many rows with few columns, an array of all diagonals would have the square of the number of rows."""
    f = tm.Function("thin", params=[N, M], assume="N >= 1 and M >= 1")
    a = f.input("a", D, [N, M])
    edge = (i == 0) | (j == 0)
    u = f.computation("u", {i: N, j: M}, lambda u: tm.select(edge, a[i, j], u[i - 1, j] + u[i, j - 1]))
    f.outputs(f.computation("o", {i: N, j: M}, 2 * u[i, j]))
    assert "i + j" not in str(f.auto_schedule(target=CPU, threads=1))


def test_sums_of_dynamic_programming_stay_in_registers_for_a_strip_of_columns() -> None:
    f = programs.pairs()
    assert "best.store_at(best.update, i_)" in str(f.auto_schedule(target=CPU, threads=1))
    kernel = f.compile(threads=1)
    for size in (1, 31, 33, 67):
        given = arguments(f, size)
        np.testing.assert_array_equal(kernel(**given), f.evaluate(**given))


def test_independent_lines_run_side_by_side() -> None:
    """There and back along rows, then along columns; orders that the user gave within the group are kept."""
    f = programs.two_ways()
    schedule = str(f.auto_schedule(target=CPU, threads=1))
    assert "p.store_at(v, i0)" in schedule and "v.vectorize(i1, 4, remainder='mask')" in schedule
    kernel = f.compile(threads=1)
    for size in (1, 8, 9, 67):
        given = arguments(f, size)
        np.testing.assert_allclose(kernel(**given), f.evaluate(**given), rtol=1e-10)


def test_without_sizes_there_are_no_tiles() -> None:
    f = programs.product()
    text = str(f.auto_schedule(threads=2, level="structure"))
    assert "tile" not in text and "pack" not in text and "vectorize" in text


def test_another_cost_model_gives_another_schedule() -> None:
    usual, other = programs.product(), programs.product()
    usual.auto_schedule(threads=2)
    other.auto_schedule(threads=2, cost=lambda work: -work.bytes)
    assert usual.commands != other.commands
    assert other.check().ok


def test_the_fastest_of_several_schedules_is_kept(tmp_path: Path) -> None:
    f = programs.both_sides()
    given = arguments(f, 13)
    options: dict[str, Any] = {"arguments": given, "database": tmp_path / "times.sqlite", "progress": False}
    schedule = f.auto_schedule(threads=1, level="measure", **options)
    assert "schedule 1, " in schedule.explain() and "the fastest is schedule" in schedule.explain()
    np.testing.assert_allclose(f.compile()(**given), f.evaluate(**given))


def test_a_search_needs_arguments_and_others_take_none() -> None:
    f = programs.line()
    with pytest.raises(tm.ArgumentError, match="give arguments="):
        f.auto_schedule(level="measure")
    with pytest.raises(tm.ArgumentError, match=r"seconds=: level=.sizes. takes target="):
        f.auto_schedule(seconds=3)
    with pytest.raises(tm.ArgumentError, match="give a function of the work"):
        f.auto_schedule(cost=3)


def test_products_whose_terms_are_contiguous_are_tiled_too() -> None:
    f = tm.Function("f", params=[programs.N, programs.M])
    a, b = (f.input(name, D, [programs.N, programs.M]) for name in "ab")
    k = programs.k
    first = f.reduction("first", {i: N, j: i + 1}, {k: programs.M}, tm.sum, a[i, k] * b[j, k])
    second = f.reduction("second", {i: N, j: i + 1}, {k: programs.M}, tm.sum, b[i, k] * a[j, k])
    f.outputs(f.computation("c", {i: N, j: i + 1}, first[i, j] + second[i, j], shape=[N, N]))
    words = f.auto_schedule(threads=2).explain()
    assert "first: tiles of" in words and "second: tiles of" in words
    given = {name: np.random.default_rng(0).random((19, 35)) for name in "ab"}
    expected = given["a"] @ given["b"].T + given["b"] @ given["a"].T
    np.testing.assert_allclose(np.tril(f.compile()(**given)), np.tril(expected))


def _clusters() -> tm.Function:
    f = tm.Function("clusters", params=[N, M, K])
    label, a = f.input("label", tm.int32, [N], values=(0, K)), f.input("a", D, [N, M])
    f.outputs(f.scatter("total", {k: K, j: M}, {i: N}, at=[label[i], j], op=tm.sum, expr=a[i, j]))
    return f


def _inverse() -> tm.Function:
    f = tm.Function("inverse", params=[N])
    order = f.input("order", tm.int32, [N], values=(0, N), permutation=True)
    place = f.computation("place", {i: N, k: N}, tm.cast(tm.int32, i), where=order[i] == k)
    place.store_in(tm.Buffer("places", (N,), tm.int32), [k])
    f.outputs(place)
    return f


@pytest.mark.parametrize("program", [_clusters, _inverse])
def test_places_that_values_choose_are_not_searched(program: Callable[[], tm.Function]) -> None:
    f = program()
    assert f.auto_schedule(threads=2).commands
    assert "k = int64(" in f.show("pseudocode")


def test_scatters_are_right() -> None:
    f, g = _clusters(), _inverse()
    f.auto_schedule(threads=2)
    g.auto_schedule(threads=2)
    sums, places = f.compile(threads=2), g.compile(threads=2)
    for size in (0, 1, 13):
        draw = np.random.default_rng(size)
        given = {"label": draw.integers(0, 5, size).astype(np.int32), "a": draw.random((size, 7)), "K": 5}
        np.testing.assert_allclose(sums(**given), f.evaluate(**given))
        order = draw.permutation(size).astype(np.int32)
        np.testing.assert_array_equal(places(order), np.argsort(order))


@pytest.mark.parametrize("cpu", CPUS, ids=named)
def test_values_of_several_components_run_in_vectors(cpu: tm.recipes.Cpu) -> None:
    f = tm.Function("nearest", params=[N, M], assume="N >= 1")
    a = f.input("a", tm.float32, [N, M])  # with an index, 12 bytes a value
    near = f.reduction("near", {j: M}, {i: N}, tm.argmin, a[i, j])
    f.outputs(f.computation("row", {j: M}, near[j]["index"]))
    commands = str(f.auto_schedule(target=cpu, threads=2))
    assert re.search(r"^near(_partial)?\.vectorize\(", commands, re.MULTILINE), commands
    kernel = f.compile(threads=2)
    for columns in (0, 1, 13, 67):
        given = np.random.default_rng(columns).random((7, columns), np.float32)
        np.testing.assert_array_equal(kernel(given), given.argmin(axis=0))


@pytest.mark.parametrize(
    ("program", "comes_first"),
    [
        (programs.pairs, False),
        (programs.there_and_back, True),
        (programs.there_and_back, False),
        pytest.param(programs.shortest, True, marks=pytest.mark.slow),
    ],
)
def test_a_group_may_have_a_value_without_iterators(
    program: Callable[[], tm.Function], comes_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The value stays where it is, and the others of the group get their commands."""
    wanted = program()
    wanted.auto_schedule(target=CPU, threads=1)
    begin, end = Group.__enter__, Group.__exit__

    def entered(group: Group) -> Group:
        g = begin(group)
        if comes_first:
            g.computation("single", {}, lambda: tm.cast(tm.int32, 1))
        return g

    def left(group: Group, *error: Any) -> None:
        if not comes_first:
            group.computation("single", {}, lambda: tm.cast(tm.int32, 1))
        end(group, *error)

    monkeypatch.setattr(Group, "__enter__", entered)
    monkeypatch.setattr(Group, "__exit__", left)
    f = program()
    assert "single" in f.algorithm.computations
    f.auto_schedule(target=CPU, threads=1)
    assert f.check().ok and len(f.commands) > 0
    assert [*map(str, f.commands)] == [*map(str, wanted.commands)]


def test_values_that_read_one_without_iterators_are_shared_and_vectorised() -> None:
    f = tm.Function("scaled", params=[N])
    x = f.input("x", tm.float64, [N, N])
    with f.together() as g:
        y = g.computation("y", {i: N, j: N}, lambda: x[i, j] * one[()])
        one = g.computation("one", {}, lambda: tm.cast(tm.float64, 3))
    f.outputs(y)
    schedule = str(f.auto_schedule(target=CPU, threads=2))
    assert "y.parallelize(i)" in schedule and "y.vectorize(j" in schedule
    given = np.random.default_rng(0).random((13, 13))
    np.testing.assert_array_equal(f.compile(threads=2)(given), given * 3)


def smoothed(beside: int = 0) -> tm.Function:
    """A recurrence along rows, one back, and what reads that at its own place, or so many columns beside."""
    f = tm.Function("smoothed", params=[N, M], assume="N >= 1 and M >= 1")
    a = f.input("a", tm.float32, [2, N, M])
    right = f.computation(
        "right", {k: 2, i: N, j: M}, lambda right: tm.select(j == 0, a[k, i, j], (right[k, i, j - 1] + a[k, i, j]) / 2)
    )
    left = f.computation(
        "left", {k: 2, i: N, j: M},
        lambda left: tm.select(j == M - 1, right[k, i, j], (left[k, i, j + 1] + right[k, i, j]) / 2),
    )  # fmt: skip
    columns = {k: 2, i: N, j: M} if not beside else {k: 2, i: N, j: (beside, M)}
    last = left[k, i, j - beside if beside else j]
    f.outputs(f.computation("out", columns, last * 2 + right[k, i, j], shape=[2, N, M]))
    return f


@pytest.mark.parametrize("threads", [1, 2])
def test_recurrences_along_lines_are_lanes_with_what_reads_them(threads: int) -> None:
    f = smoothed()
    schedule = f.auto_schedule(target=CPU, threads=threads)
    assert "left: 8 lines of i side by side, of right, left, and out of these lines" in schedule.explain()
    assert "right.store_in([j, i])" in str(schedule) and ("out.parallelize(i0)" in str(schedule)) == (threads > 1)
    kernel = f.compile(threads=threads)
    for rows, columns in ((1, 1), (7, 9), (8, 67), (19, 16)):
        a = np.random.default_rng(rows).random((2, rows, columns), dtype=np.float32)
        np.testing.assert_array_equal(kernel(a), f.evaluate(a))


def test_lines_that_are_read_beside_them_stay_in_memory() -> None:
    f = smoothed(beside=1)
    schedule = str(f.auto_schedule(target=CPU, threads=1))
    assert "store_in" not in schedule and "left.unroll_and_jam(i, 8)" in schedule
    a = np.random.default_rng(0).random((2, 9, 35), dtype=np.float32)
    np.testing.assert_array_equal(f.compile(threads=1)(a), f.evaluate(a))

"""The public objects: what newcomers do wrong first, and what the function keeps."""

from __future__ import annotations

import operator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs import pipelines as pl
from tests.programs.drafts import texts
from tests.programs.pipelines import i, i0, i1, j, k, r, r0, r1


@pytest.mark.parametrize("apply", [operator.add, operator.mul, operator.sub, operator.truediv, operator.lt])
@pytest.mark.parametrize("name", ["a", "p"])
def test_arithmetic_on_an_array_says_that_it_needs_indices(apply, name):
    handle = getattr(pl.pair(), name)
    with pytest.raises(tm.DeclarationError, match=rf"{name} stands for many values.*{name}\[\.\.\.\]"):
        apply(handle, 2)
    with pytest.raises(tm.DeclarationError, match=rf"{name} stands for many values"):
        apply(2, handle)


def test_a_value_without_indices_is_named_by_empty_brackets() -> None:
    n, i = tm.params("N")[0], tm.iters("i")[0]
    f = tm.Function("f", params=[n])
    a = f.input("a", tm.float32, [n])
    top = f.reduction("top", {}, {i: n}, tm.max, a[i])
    for wrong in (lambda: top / 2, lambda: a[i] / top, lambda: tm.maximum(1.0, top), lambda: -top):
        with pytest.raises(tm.DeclarationError, match=r"top has no indices, and is not its value: write top\[\(\)\]"):
            wrong()
    f.outputs(f.computation("scaled", {i: n}, a[i] / top[()]))
    assert f.evaluate(np.array([1, 4, 2], np.float32)).tolist() == [0.25, 1, 0.5]


def test_a_recurrence_names_its_values_by_indices() -> None:
    n, i = tm.params("N")[0], tm.iters("i")[0]
    f = tm.Function("f", params=[n])
    with pytest.raises(tm.DeclarationError, match=r"h stands for many values: name one by its indices, h\[\.\.\.\]"):
        f.computation("h", {i: n}, lambda h: h + 1, dtype=tm.float32)


def test_a_function_without_outputs_says_what_to_call():
    f = tm.Function("f")
    with pytest.raises(tm.DeclarationError, match=r"f\.outputs"):
        f.compile()


def test_undo_takes_back_one_command_and_copies_are_apart():
    s = pl.scale()
    s.o.split(i, 4, i0, i1)
    other = s.f.copy()
    other["o"].parallelize(i0)
    assert texts(s.f) == ("o.split(i, 4, i0, i1)",)
    assert texts(other) == ("o.split(i, 4, i0, i1)", "o.parallelize(i0)")
    other.undo()
    assert other.commands == s.f.commands
    s.f.undo()
    with pytest.raises(tm.CommandError, match="scale has no command to undo"):
        s.f.undo()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (lambda s: s.o.split(k, 4, i0, i1), "no loop k here: o has the loops i, j"),
        (lambda s: s.o.split(i, 0, i0, i1), "the block size of i is 0"),
        (lambda s: s.o.split(i, 4.5, i0, i1), "the block size of i is 4.5"),
        (lambda s: s.o.split(i, 4, j, i1), "o has a loop j already"),
        (lambda s: s.o.split(i, 4, i0, i0), "different names"),
        (lambda s: s.o.tile(i, j, 4), "tile takes loops, as many sizes"),
        (lambda s: s.o.vectorize(j, 5), "the vector width of j is 5"),
        (lambda s: s.o.vectorize(j, 8, remainder="none"), "remainder='none': choose one of scalar, mask, overlap"),
        (lambda s: s.o.vectorize(j, 8, partial="pad"), "partial='pad': choose one of loop, specialize"),
        (lambda s: s.o.vectorize(j, 8, partial="specialize"), "remainder='scalar' runs the rest of a tile"),
        (lambda s: s.o.unroll(j, 2, remainder="mask"), "remainder='mask': choose one of loop, specialize"),
        (lambda s: s.o.unroll(j, 0), "the unrolling factor of j is 0"),
        (lambda s: s.o.parallelize(), "parallelize needs a loop"),
        (lambda s: s.o.parallelize(i, schedule="fair"), "schedule='fair'"),
        (lambda s: s.o.parallelize(j, i), "i is not just inside j"),
        (lambda s: s.o.parallelize(i).parallelize(j), r"parallel loop j \(o\.parallelize\(j\)\) is inside"),
        (lambda s: s.o.vectorize(i, 4).vectorize(j, 4), "vector loop j"),
        (lambda s: s.o.vectorize(j, 4).unroll(j), r"loop j is tagged already, by o\.vectorize\(j, 4\)"),
        (lambda s: s.o.vectorize(j, 4).split(j, 4, i0, i1), "split it before tagging it"),
        (lambda s: s.o.parallelize(i, combine="sum"), r"choose tm\.PRIVATE or tm\.ATOMIC"),
        (lambda s: s.o.skew(j, i, 1), "j must be a loop around i"),
        (lambda s: s.o.skew(i, j, 1.5), "skewing factor"),
        (lambda s: s.o.skew(i, j), "the skewing factor is None"),
        (lambda s: s.o.skew({i: 1}, j, 2), "skew takes two loops and a factor"),
        (lambda s: s.o.skew({i: 1}, {j: 2}), "skew takes two loops and a factor"),
        (lambda s: s.o.skew({}, j), "skew takes two loops and a factor"),
        (lambda s: s.o.skew({j: 1}, i), "j must be a loop around i"),
        (lambda s: s.o.skew({i: 0.5}, j), "the factor of i is 0.5"),
        (lambda s: s.o.skew(i, {j: 1}, new=k), "new= is the name of one loop"),
        (lambda s: s.o.tile({i: 4, j: 4}, i0, i1), "tile takes loops, sizes, outer and inner names"),
        (lambda s: s.o.tile({i: 4, j: 0}), "the block size of j is 0"),
        (lambda s: s.o.tile(), "tile takes loops, as many sizes"),
        (lambda s: s.o.transform([i, j], [[1, 1], [1, -1]]), "its determinant is -2, and has to be 1 or -1; only one"),
        (lambda s: s.o.transform([i, j], [[1, 2], [2, 4]]), "its determinant is 0.*at the same time"),
        (lambda s: s.o.transform([i, j], [[1, 0]]), "rows with 2 numbers: i, j need 2 rows with 2 numbers each"),
        (lambda s: s.o.transform([i, j], [[1, 0], [0.5, 1]]), "a number of the matrix is 0.5"),
        (lambda s: s.o.transform([i, j], 1), "the matrix is 1: give a list"),
        (lambda s: s.o.transform([i, i], [[1, 0], [0, 1]]), "needs different loops"),
        (lambda s: s.o.transform([i, k], [[1, 0], [1, 1]]), "no statement has all the loops i, k: o has"),
        (lambda s: s.o.transform([i], [[-1]], [j]), "o has a loop j already"),
        (lambda s: s.o.transform([i, j], [[1, 0], [1, 1]], [k]), "2 loops become 2, not 1: k"),
        (lambda s: s.o.vectorize(j, 4).transform([i, j], [[0, 1], [1, 0]]), "transform it before tagging it"),
        (lambda s: s.f.schedule(s.a).split(i, 4, i0, i1), "a is not a computation of scale"),
        (lambda s: s.f.schedule(s.o, s.o).split(i, 4, i0, i1), "names o twice"),
        (lambda s: s.f.schedule().split(i, 4, i0, i1), "schedule needs computations"),
        (lambda s: s.o.shift(i, j), "neither an integer nor affine in the parameters"),
        (lambda s: s.o.reorder(i, i), "names a loop twice"),
        (lambda s: s.o.separate_at(i, []), "at least one point"),
        (lambda s: s.o.get_update(3), "3 is not one of 0 to 0"),
        (lambda s: s.o.after(s.o, i), "cannot be ordered after itself"),
        (lambda s: s.o.after(s.a, i), "a is not a computation of scale"),
        (lambda s: s.o.after(pl.scale().o, i), "belongs to another function"),
        (lambda s: s.o.inline(), "o cannot be inlined: it is an output"),
        (lambda s: s.o.store_in(3), "3 is not a buffer"),
        (lambda s: s.o.store_in([i * j]), "not affine"),
        (lambda s: s.o.store_in(tm.Buffer("one", [4], tm.int32)), "has 1 dimensions"),
        (lambda s: s.o.set_schedule("{ [i] -> [i] }"), "takes 1 dimensions"),
        (lambda s: s.o.set_schedule("{ [i, j] -> "), "isl cannot read"),
        (lambda s: s.o.set_schedule("{ [i, j] -> [i] }"), "several instances of o at one time"),
        (lambda s: s.o.copy(s.a, [k], at=i), "a copy of a needs 2 different iterators"),
        (lambda s: s.f.order(s.o, at=tm.root), "needs at least two"),
    ],
)  # fmt: skip
def test_a_wrong_command_names_what_is_wrong_and_changes_nothing(command, words):
    s = pl.scale()
    with pytest.raises(tm.CommandError, match=words):
        command(s)
    assert len(s.f.commands) <= 1
    arrays = {"a": np.arange(12, dtype=np.int32).reshape(3, 4)}
    np.testing.assert_array_equal(s.f.compile()(**arrays), s.f.evaluate(**arrays))


def test_two_functions_are_built_proven_and_compiled_in_two_threads():
    def build(seed: int) -> bool:
        s = pl.blur()
        s.by.split(r, 2 + seed, r0, r1).parallelize(r0)
        s.bx.compute_at(s.by, r0)
        picture = np.random.default_rng(seed).random((9, 12), dtype=np.float32)
        return bool(np.array_equal(s.f.compile()(picture), s.f.evaluate(picture)))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(build, range(12)))


def test_a_copy_of_something_from_elsewhere_is_refused_by_name():
    s, other = pl.matmul(), pl.scale()
    with pytest.raises(tm.CommandError, match="a belongs to the function scale, not to mm"):
        s.C.update.copy(other.a, [j, k], at=i)
    with pytest.raises(tm.CommandError, match="'A' is neither an input nor a computation of mm"):
        s.C.update.copy("A", [j, k], layout=[j, k])


@pytest.mark.parametrize(
    ("option", "given"),
    [("fast", True), ("fast", "contract"), ("fast", 3), ("sanitize", "contract"), ("sanitize", 3)],
)
def test_an_option_that_takes_names_says_so(option, given):
    with pytest.raises(tm.ToolchainError, match=rf"{option}=.*tuple of names"):
        pl.scale().f.compile(**{option: given})


def test_a_layout_in_blocks_has_constant_strides_for_every_size():
    s = pl.matmul()
    s.C.update.copy(s.B, [j, k], layout=[k // 32, j, k % 32], name="panels")
    extents = s.f.program.buffers["panels"].extents
    assert str(extents[-1]) == "32"
    assert s.f.check().ok
    a, b = np.ones((3, 4), np.float32), np.ones((4, 5), np.float32)
    np.testing.assert_array_equal(s.f.compile()(a, b), a @ b)


@pytest.mark.parametrize(
    ("given", "hint"),
    [("vectorise", "(did you mean 'vectorize'?)"), ("Peel", "(did you mean 'peel'?)"), (3, "3: the passes are")],
)
def test_a_pass_that_is_not_there_is_refused_with_the_closest_name(given: str, hint: str):
    f = tm.Function("copied", params=tm.params("N"))
    f.outputs(f.computation("o", {tm.iters("i")[0]: tm.params("N")[0]}, 1))
    with pytest.raises(tm.ArgumentError, match="there is no pass") as refusal:
        f.show("lowered", until=given)
    assert hint in str(refusal.value) and "vectorize" in str(refusal.value)


@pytest.mark.parametrize(
    ("given", "repair"), [("vectorize", "name a pass by until="), (7, "choose 8, 16"), (0, "choose")]
)
def test_vectors_of_another_size_are_refused(given: int, repair: str):
    f = tm.Function("copied", params=tm.params("N"))
    f.outputs(f.computation("o", {tm.iters("i")[0]: tm.params("N")[0]}, 1))
    with pytest.raises(tm.ArgumentError, match=rf"\"lowered\"\): vectors of {given!r} bytes: {repair}"):
        f.show("lowered", given)

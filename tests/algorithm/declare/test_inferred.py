"""Domains that are left open: they are what is read, by the plain enumeration of `tests.oracle.judges.values`."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.backends.compiled import SANITISERS, Compiled
from tests.oracle.judges.plain import points
from tests.oracle.judges.values import Values
from tiramisu_py.lower import lower

R, C = tm.params("R C")
r, c, k = tm.iters("r c k")
GIVEN = np.arange(42, dtype=np.int32).reshape(6, 7)


def function(assume: str = "R >= 1 and C >= 1") -> tuple[tm.Function, tm.Input]:
    f = tm.Function("f", params=[R, C], assume=assume)
    return f, f.input("a", tm.int32, [R, C])


def blurred(**options: Any) -> tm.Function:
    """A sum of 3 x 3 neighbours, edges repeated, with no halo by hand."""
    f, a = function()
    near = f.computation("near", [r, c], a[tm.clip(r, 0, R - 1), tm.clip(c, 0, C - 1)], **options)
    across = f.computation("across", [r, c], near[r, c - 1] + near[r, c] + near[r, c + 1])
    f.outputs(f.computation("down", {r: R, c: C}, across[r - 1, c] + across[r, c] + across[r + 1, c]))
    return f


def neighbours(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    wide = np.pad(a, 1, mode="edge")
    across = wide[:, :-2] + wide[:, 1:-1] + wide[:, 2:]
    return across[:-2] + across[1:-1] + across[2:]


def test_a_pipeline_needs_no_halo_by_hand() -> None:
    f = blurred()
    assert f.domains().splitlines() == [
        "near[r, c]: -1 <= r < R + 1 and -1 <= c < C + 1",
        "across[r, c]: -1 <= r < R + 1 and 0 <= c < C",
        "down[r, c]: 0 <= r < R and 0 <= c < C",
    ]
    assert np.array_equal(f.evaluate(GIVEN), neighbours(GIVEN))
    assert np.array_equal(f.compile()(GIVEN), neighbours(GIVEN))


@pytest.mark.parametrize("columns", [1, 2, 7])
def test_a_row_of_what_begins_below_zero_is_computed_where_it_is_read(columns: int) -> None:
    f, a = function()
    near = f.computation("near", [r, c], 2 * tm.boundary.repeat_edge(a)[r, c])
    f.outputs(f.computation("across", {r: R, c: C}, near[r, c - 1] + near[r, c + 1]))
    near.compute_at(f["across"], r)
    assert f.check().ok
    given = GIVEN[:, :columns].copy()
    wide = np.pad(2 * given, [(0, 0), (1, 1)], mode="edge")
    assert np.array_equal(f.compile()(given), wide[:, :-2] + wide[:, 2:])


def test_a_clipped_value_bounds_what_is_read_at_it() -> None:
    f, a = function()
    table = f.computation("table", [k], k * k)
    place = tm.clip(a[r, c] - 5, -2, 5)
    f.outputs(f.computation("found", {r: R, c: C}, table[3 * place - 1]))
    assert "table[k]: -7 <= k < 15" in f.domains()
    expected = (3 * np.clip(GIVEN - 5, -2, 5) - 1) ** 2
    assert np.array_equal(f.evaluate(GIVEN), expected) and np.array_equal(f.compile()(GIVEN), expected)


def test_such_a_program_is_scheduled_saved_and_copied_like_others(tmp_path: Any) -> None:
    f = blurred()
    f["across"].compute_at(f["down"], r)
    f["down"].parallelize(r)
    f["near"].vectorize(c, 4)
    f.save(tmp_path / "f.json")
    for each in (f, tm.load(tmp_path / "f.json"), tm.Function.of(f.algorithm, f.commands), f.copy()):
        assert each.domains() == f.domains() and each.commands == f.commands
        assert np.array_equal(each.compile()(GIVEN), neighbours(GIVEN))
    f.undo()
    assert f.check().ok and f.domains() == blurred().domains()


def test_sanitizers_find_nothing_in_arrays_that_begin_below_zero() -> None:
    f = blurred()
    f["across"].compute_at(f["down"], r)
    code = Compiled(lower(f.program), "-O0", *SANITISERS)
    for shape in ((1, 1), (1, 7), (5, 1), (6, 7)):
        given = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
        found = code.sanitised({"R": shape[0], "C": shape[1]}, a=given, down=np.zeros(shape, np.int32))
        assert np.array_equal(found["down"], neighbours(given))


def test_an_array_may_begin_at_an_index_that_depends_on_a_size() -> None:
    f, a = function()
    below = f.computation("below", [r, c], a[r + R, c])
    f.outputs(f.computation("b", {r: R, c: C}, below[r - R, c]))
    assert f.domains().splitlines()[0] == "below[r, c]: -R <= r < 0 and 0 <= c < C"
    assert np.array_equal(f.compile()(GIVEN), GIVEN)


def test_the_values_of_a_reduction_may_be_open_and_its_terms_depend_on_them() -> None:
    f, a = function("R >= 1 and C >= R")
    sums = f.reduction("sums", [r], {k: (0, r + 1)}, tm.sum, a[0, k])
    f.outputs(f.computation("b", {r: R}, sums[R - 1 - r]))
    assert f.domains().splitlines()[0] == "sums[r]: 0 <= r < R"
    assert np.array_equal(f.compile()(GIVEN), np.cumsum(GIVEN[0])[:6][::-1])


def test_exact_domains_have_what_is_read_and_nothing_more() -> None:
    for exact, expected in ((True, [0, 2, 4]), (False, [0, 1, 2, 3, 4])):
        f, a = function("R >= 1 and C >= 2 * R")
        even = f.computation("even", [c], a[0, c], exact=exact)
        f.outputs(f.computation("b", {r: R}, even[2 * r]))
        domain = f.algorithm.computations["even"].domain
        assert [point[0] for point in points(domain, {"R": 3, "C": 6})] == expected
        wide = np.arange(12, dtype=np.int32).reshape(2, 6)
        assert np.array_equal(f.compile()(wide), wide[0, ::2][:2])


def test_a_condition_restricts_what_is_read() -> None:
    f, a = function()
    some = f.computation("some", [r, c], a[r, c], where=r >= 1)
    f.outputs(f.computation("b", {r: (1, R), c: C}, some[r, c] + some[1, c]))
    assert f.domains().splitlines()[0] == "some[r, c]: 1 <= r < R and 0 <= c < C"


OFFSETS = ("{0}", "{0} + 1", "{0} - 1", "{0} + 2", "2 * {0}", "2 * {0} + 1", "N - 1 - {0}", "{0} // 2", "3", "{1}")


@pytest.mark.parametrize("seed", range(40))
def test_inferred_domains_are_what_an_enumeration_finds(seed: int) -> None:
    choice = random.Random(seed)
    (N,) = tm.params("N")
    f = tm.Function("f", params=[N], assume="N >= 1")
    names, exact = [f"p{n}" for n in range(choice.randint(2, 4))], choice.random() < 0.5
    made: list[Any] = []
    for name in names:
        reads = list(made[-1:]) + [source for source in made[:-1] if choice.random() < 0.5]
        texts = [choice.choice(OFFSETS).format(*pair) for _ in reads for pair in (("r", "c"), ("c", "r"))]
        forms = [eval(text, {"r": r, "c": c, "N": N}) for text in texts]
        terms = [source[forms[2 * n], forms[2 * n + 1]] for n, source in enumerate(reads)]
        body = sum(terms, start=r + 2 * c)
        if choice.random() < 0.3 and reads:
            body = tm.select(r > c, body, 0)
        last = name == names[-1]
        made.append(f.computation(name, {r: N, c: N} if last else [r, c], body, **({} if last else {"exact": exact})))
    f.outputs(made[-1])
    for size in (1, 2, 5):
        params = {"N": size}
        values = Values(f.algorithm, params)
        assert values.faults() == set()
        read = {value for each in values.terms for value in values.needed(each)}
        for name in names[:-1]:
            needed = {index for source, index in read if source == name}
            found = set(points(f.algorithm.computations[name].domain, params))
            assert found == (needed if exact else box(needed)), (name, f.domains())


def box(of: set[tuple[int, ...]]) -> set[tuple[int, ...]]:
    if not of:
        return set()
    (first, last), (low, high) = ((min(axis), max(axis)) for axis in zip(*of, strict=True))
    return {(i, j) for i in range(first, last + 1) for j in range(low, high + 1)}


REFUSED: list[tuple[Callable[[tm.Function, tm.Input], Any], str]] = [
    (
        lambda f, a: f.outputs(f.computation("z", [r], a[r, 0])),
        r'z\[r\] is an output, and its domain says what the caller gets: give its domain, f\.computation\("z", {r',
    ),
    (
        lambda f, a: (f.computation("z", [r], a[r, 0]), f.outputs(f.computation("y", {r: R}, a[r, 0]))),
        r"nothing reads z\[r\], so that its domain cannot be inferred",
    ),
    (
        lambda f, a: f.computation("z", [r], lambda z: tm.select(r == 0, a[0, 0], z[r - 1])),
        "z reads itself, so that its domain does not follow from what others read",
    ),
    (
        lambda f, a: f.outputs(f.computation("z", [r], a[r, 0])[3]),
        r"the output z\[3\] is a slice of z, whose domain is to be inferred",
    ),
    (lambda f, a: f.computation("z", [r, 2], a[0, 0]), r"the domain of z is \[r, 2\]; write a dict"),
    (lambda f, a: f.computation("z", [r, r], a[0, 0]), "the domain of z has the iterator r twice"),
    (lambda f, a: f.computation("z", {r: R}, a[r, 0], exact=True), "exact=True of z is for a domain that is inferred"),
    (lambda f, a: f.computation("z", [r], a[r, 0], shape=[R]), "shape= of z is for a domain that is given"),
    (lambda f, a: f.reduction("z", {r: R}, [k], tm.sum, a[r, 0]), r"the domain of z is \[k\]; write a dict"),
    (
        lambda f, a: f.outputs(f.computation("y", {r: R}, f.computation("z", [c], a[0, c])[a[r, 0]])),
        r"y reads z\[a\[r, 0\]\], and nothing is known of a\[r, 0\]",
    ),
]


@pytest.mark.parametrize(("declare", "message"), REFUSED, ids=[message[:30] for _, message in REFUSED])
def test_what_nothing_decides_is_refused(declare: Callable[[tm.Function, tm.Input], Any], message: str) -> None:
    f, a = function()
    with pytest.raises(tm.DeclarationError, match=message):
        declare(f, a)


def test_outputs_come_before_commands_and_checks() -> None:
    f, a = function()
    z = f.computation("z", [r], a[r, 0])
    with pytest.raises(tm.CommandError, match=r"the domain of z follows from what is read of it .* before commands"):
        z.parallelize(r)
    with pytest.raises(tm.DeclarationError, match="f cannot be checked: the domain of z follows"):
        f.check()
    assert f.domains() == "z[r]: to be inferred"
    f.outputs(f.computation("y", {r: R}, z[r]))
    z.parallelize(r)
    with pytest.raises(tm.DeclarationError, match="x is to be inferred, and f has commands already"):
        f.computation("x", [r], z[r])
    assert f.check().ok


def test_a_domain_that_is_too_small_says_what_is_read() -> None:
    f, a = function()
    z = f.computation("z", {r: R, c: C}, a[r, c])
    f.computation("x", {r: R, c: C}, z[r, c - 2])
    f.outputs(f.computation("y", {r: R, c: C}, z[r, c + 1]))
    wanted = "or declare z for 0 <= r < R and -2 <= c < C + 1, or leave its domain open: [r, c]"
    assert any(wanted in violation.repair for violation in f.check().violations)


def test_a_clipped_index_reads_what_lies_between_its_ends() -> None:
    f = tm.Function("f", params=[R, C], assume="C >= 1")
    a = f.input("a", tm.int32, [R])
    squares = f.computation("squares", [c], tm.cast(tm.int32, c) * tm.cast(tm.int32, c))
    f.outputs(f.computation("y", {r: R}, squares[tm.clip(a[r], 0, C - 1) + 1]))
    assert f.domains().splitlines()[0] == "squares[c]: 1 <= c < C + 1"
    given = np.array([-5, 0, 3, 99], dtype=np.int32)
    assert np.array_equal(f.compile()(given, C=5), (np.clip(given, 0, 4) + 1) ** 2)


def test_values_before_index_0_are_computed_where_they_are_read() -> None:
    f, a = function()
    near = f.computation("near", [r, c], a[tm.clip(r, 0, R - 1), tm.clip(c, 0, C - 1)])
    y = f.computation("y", {r: R, c: C}, near[r, c - 2] + near[r, c + 2])
    f.outputs(y)
    near.compute_at(y, r)
    assert f.check().ok
    wide = np.pad(GIVEN, ((0, 0), (2, 2)), mode="edge")
    assert np.array_equal(f.compile()(GIVEN), wide[:, :-4] + wide[:, 4:])

"""The proof finds terms that are lost or count twice, whatever command dealt them out; so it needs no trust in one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import tiramisu_py as tm
from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Computation, DealtTerms
from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Iter
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.program.program import Program
from tiramisu_py.proof.theorem import check

N, M, K = tm.params("N M K")
h, x, y, j, jb, jt, jr, jg = tm.iters("h x y j jb jt jr jg")
#: A reduction after the command, and how its terms are dealt out.
Definition = tuple[Computation, DealtTerms]


def dealt(ranges: bool = False, commutative: bool = True) -> tm.Function:
    """The sum of an array, in 12 parts by the remainder, or in ranges."""
    f = tm.Function("dealt", params=[N, M, K])
    a = f.input("a", tm.int32, [N, M, K])
    first = tm.operator("first", lambda p, q: tm.select(p != 0, p, q), identity=0, commutative=commutative)
    s = f.reduction("s", {}, {h: N, x: M, y: K}, tm.sum if commutative else first, a[h, x, y])
    f.outputs(s)
    s.update.coalesce(h, x, y, into=j)
    if ranges:
        s.update.parallelize(j, combine=tm.TREE)
    else:
        s.update.split(j, 4, jb, jt).split(jb, 3, jr, jg)
    return f


def redefined(f: tm.Function, change: Callable[[Computation, DealtTerms], Definition]) -> Program:
    """The program with another definition of its reduction."""
    program, algorithm = f.program, f.program.algorithm
    (name,) = algorithm.dealt
    factored = next((partial for partial, whole in algorithm.wholes.items() if whole.name == name), None)
    changed, how = change(algorithm.computations[name] if factored is None else algorithm.wholes[factored],
                          algorithm.dealt[name])  # fmt: skip
    own = replace(changed, guards=(*changed.guards[:-1], how.guard))
    if factored is None:
        algorithm = replace(algorithm, computations={**algorithm.computations, name: own}, dealt={name: how})
    else:
        algorithm = replace(algorithm, wholes={**algorithm.wholes, factored: own}, dealt={name: how})
    return program.with_(algorithm=algorithm)


def found(f: tm.Function, change: Callable[[Computation, DealtTerms], Definition]) -> list[str]:
    """The messages of a proof in which the reduction's definition has been changed."""
    report = check(redefined(f, change))
    return [each.message for each in report.violations if "dealt out by their numbers" in each.message]


def test_what_the_commands_make_is_right() -> None:
    for f in (dealt(), dealt(ranges=True), dealt(ranges=True, commutative=False)):
        assert found(f, lambda s, how: (s, how)) == []
        assert f.check().ok and "every term of s is in one part" in str(f.check())


def number(value: int) -> Const:
    return Const(value, int64)


def of(op: str, left: Expr, right: Expr) -> Binary:
    return Binary(op, left, right, int64)


def selector(how: DealtTerms) -> Binary:
    assert isinstance(how.selector, Binary)
    return how.selector


def with_length(how: DealtTerms, change: Callable[[Binary], Expr]) -> DealtTerms:
    """Ranges of another length, which is a maximum of a quotient and 1."""
    length = selector(how).right
    assert isinstance(length, Binary) and isinstance(length.left, Binary)
    return replace(how, selector=of("//", selector(how).left, of("max", change(length.left), number(1))))


def in_parts(how: DealtTerms, parts: int) -> DealtTerms:
    return replace(how, parts=parts, selector=of("%", selector(how).left, number(parts)))


def fewer_terms(s: Computation, how: DealtTerms) -> Definition:
    kept = s.points.subtract(s.points.lexmin())
    return replace(s, points=kept), how


def without_an_iteration(s: Computation, how: DealtTerms) -> Definition:
    space = s.points.get_space()
    last = sets.variables(space)[s.point_iterators.index("jt")]
    return replace(s, points=s.points.intersect(sets.within(last, 0, 3))), how


CONDITION = Binary("<", Iter("h", int64), number(3), bool_)
MISTAKES: dict[str, tuple[bool, Callable[[Any, Any], Definition], str]] = {
    "more parts than iterations": (
        False, lambda s, how: (s, in_parts(how, 13)), "part once"),
    "fewer parts than iterations": (
        False, lambda s, how: (s, in_parts(how, 11)), "part once"),
    "another divisor than the parts": (
        False, lambda s, how: (s, replace(how, selector=of("%", selector(how).left, number(13)))), "none of the parts"),
    "iterations that have the same part": (
        False, lambda s, how: (s, replace(how, part=Iter("jt", int64))), "part once"),
    "parts with a gap": (
        False, lambda s, how: (s, replace(how, part=of("*", how.part, number(2)))), "part once"),
    "a selector that knows the iteration": (
        False, lambda s, how: (s, replace(how, selector=of("%", Iter("jt", int64), number(12)))), "numbers alone"),
    "a part that knows the term": (
        False, lambda s, how: (s, replace(how, part=of("+", how.part, Iter("h", int64)))), "numbers alone"),
    "a number itself": (
        False, lambda s, how: (s, replace(how, selector=of("+", selector(how).left, number(0)))), "none of the parts"),
    "a term that is gone": (False, fewer_terms, "part once"),
    "an iteration that is gone": (False, without_an_iteration, "part once"),
    "another expression": (
        False, lambda s, how: (replace(s, expr=Const(1, tm.int32)), how), "no longer those that were declared"),
    "another condition": (
        False, lambda s, how: (replace(s, guards=(CONDITION, s.guards[-1])), how),
        "under other conditions"),
    "ranges that are too short": (
        True, lambda s, how: (s, with_length(how, lambda length: of("//", length.left.left, length.right))),
        "none of the parts"),
    "ranges of another number of parts": (
        True, lambda s, how: (s, with_length(how, lambda length: of("//", length.left, number(65)))),
        "none of the parts"),
    "ranges of other numbers": (
        True, lambda s, how: (s, replace(how, selector=of("//", of("+", selector(how).left, Iter("h", int64)),
                                                          selector(how).right))), "none of the parts"),
    "ranges by the remainder, in order": (
        True, lambda s, how: (s, replace(how, selector=of("%", selector(how).left, number(64)))), ""),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_parts_of_terms_is_refused(mistake: str) -> None:
    ranges, change, why = MISTAKES[mistake]
    messages = found(dealt(ranges), change)
    if not why:
        assert messages == []  # right for a sum, and wrong for what is not commutative
        (message,) = found(dealt(ranges, commutative=False), change)
        assert "combined in another order" in message
    else:
        (message,) = messages
        assert why in message


def test_an_update_without_its_condition_adds_terms_that_are_in_no_such_part() -> None:
    f = dealt()
    program = f.program
    update = program.statements["s_update"]
    report = check(program.with_statement(replace(update, guards=update.guards[:-1])))
    assert not report.ok and {each.kind for each in report.violations} == {"reduction"}

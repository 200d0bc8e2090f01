"""Terms dealt out by their numbers: each counts in exactly one iteration of the loops over the parts.

The terms of the reduction are those of its declaration, in every iteration of additional iterators, and each has the
condition ``selector == part``. The selector depends on the term alone, and is at least 0 and less than the number of
parts; the part depends on the added iterators alone, and is each of these numbers once. So exactly one iteration of the
added ones has the part of a term, whatever the numbers of terms are. That is shown from the definitions alone, and not
from the command that made them. A remainder is in its range; a quotient is, of a number within a box by a length that
leaves no more parts than there are.

Where an operator is not commutative, ranges come in the order of the terms.
"""

from __future__ import annotations

from collections.abc import Iterator

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Computation, DealtTerms
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.domains.from_isl import of_params
from tiramisu_py.algorithm.expressions import Binary, Expr, Iter, constant
from tiramisu_py.algorithm.traversal import iterators
from tiramisu_py.algorithm.types import int64
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.ir.arithmetic.build import number as literal
from tiramisu_py.ir.arithmetic.polynomials import same
from tiramisu_py.program.bundles import sides_of
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role
from tiramisu_py.proof.violations.condition import Sentence, Topic
from tiramisu_py.proof.violations.findings import Finding, Key, wanted


def _dealt_out(program: Program) -> str:
    names = ", ".join(program.algorithm.dealt)
    return f"every term of {names} is in one part, whatever its number is" if names else ""


SENTENCES = (Sentence(Topic.REDUCTIONS, _dealt_out),)


def findings(flow: Flow, sought: Key | None = None) -> Iterator[Finding]:
    """The reductions whose terms are dealt out so that one could be lost, or count twice."""
    algorithm = flow.accesses.program.algorithm
    for name, dealt in algorithm.dealt.items():
        key = Key("dealt", (name,))
        if not wanted(key, sought):
            continue
        why = _wrong(algorithm, _changed(algorithm, name), dealt) or _unconditional(flow.accesses.program, name)
        if why:
            message = f"the terms of {name} are dealt out by their numbers, and {why}"
            repair = "give split and parallelize the bundle as coalesce has made it"
            yield Finding.of(key, Violation("reduction", message, Witness({}, reader=(name, ())), repair=repair))


def _changed(algorithm: Algorithm, name: str) -> Computation:
    """The reduction whose terms are dealt out, before `rfactor` took it apart."""
    return next((whole for whole in algorithm.wholes.values() if whole.name == name), algorithm.computations[name])


def _wrong(algorithm: Algorithm, changed: Computation, dealt: DealtTerms) -> str:
    """Why a term may be lost or count twice; empty where each counts once."""
    whole = dealt.whole
    others = tuple(name for name in changed.over if name not in dealt.added)
    if others != whole.over or changed.iterators != whole.iterators or changed.expr is not whole.expr:
        return "they are no longer those that were declared"
    if changed.op is not whole.op or not _same_guards(changed, dealt):
        return "they count under other conditions"
    if not set(iterators(dealt.selector)) <= set(whole.over) or not set(iterators(dealt.part)) <= set(dealt.added):
        return "their parts do not depend on their numbers alone"
    if not _in_every_part(algorithm, changed, dealt):
        return "not every term meets each part once"
    if not _selects_a_part(algorithm, dealt):
        return "a number may be in none of the parts"
    if (whole.in_order or whole.op is None) and not _in_order(changed, dealt):
        return "they are combined in another order"
    return ""


def _unconditional(program: Program, name: str) -> str:
    """Why an update adds terms in iterations that do not have their part; empty if each tests that."""
    algorithm, own = program.algorithm, name
    while (partial := _partial_of(algorithm, own)) is not None:
        own = partial
    guard = algorithm.computations[own].guards[-1].key()
    for statement in program.statements_of(own):
        if statement.role is Role.UPDATE and guard not in [each.key() for each in statement.guards]:
            return f"{statement.handle} adds them in every part"
    return ""


def _partial_of(algorithm: Algorithm, name: str) -> str | None:
    return next((partial for partial, whole in algorithm.wholes.items() if whole.name == name), None)


def _same_guards(changed: Computation, dealt: DealtTerms) -> bool:
    """Whether the conditions of a term are those of its declaration, and the one of its part."""
    *declared, own = changed.guards
    before = [guard.key() for guard in dealt.whole.guards]
    return [guard.key() for guard in declared] == before and own.key() == dealt.guard.key()


def _in_every_part(algorithm: Algorithm, changed: Computation, dealt: DealtTerms) -> bool:
    """Whether the points are the declared ones, with added iterators that number each of the parts once."""
    frame = changed.points.get_space()
    variables = dict(zip(changed.point_iterators, sets.variables(frame), strict=True))
    declared = sets.function(frame, dealt.whole.name, [variables[name] for name in dealt.whole.point_iterators])
    added = sets.function(frame, None, [variables[name] for name in dealt.added])
    parts = changed.points.apply(sets.graph(added))
    try:
        part = Affine(frame, variables).single(dealt.part)
    except NotAffine:
        return False
    if not parts.get_space().params().is_equal(frame.params()) or sets.involved_params(_at_some_point(parts)):
        return False
    product = dealt.whole.points.preimage_multi_aff(declared).intersect(_at_some_point(parts).preimage_multi_aff(added))
    numbers = sets.graph(added, product).reverse().apply_range(sets.graph(sets.function(frame, None, [part])))
    wanted_numbers = sets.within(sets.variables(numbers.range().get_space())[0], 0, dealt.parts)
    some = algorithm.context.intersect(changed.points.params())
    complete = numbers.range().intersect_params(some).is_equal(wanted_numbers.intersect_params(some))
    return bool(changed.points.is_equal(product) and numbers.is_injective() and complete)


def _at_some_point(parts: isl.Set) -> isl.Set:
    """A set for all parameters for which it has an element, as one for any parameters."""
    return parts.gist_params(parts.params())


def _selects_a_part(algorithm: Algorithm, dealt: DealtTerms) -> bool:
    """Whether the selector is always at least 0 and less than the number of parts."""
    selector = dealt.selector
    if not isinstance(selector, Binary):
        return False
    if selector.op == "%":
        return constant(selector.right) == dealt.parts
    numbers = _numbers(algorithm, dealt)
    return selector.op == "//" and numbers is not None and _is_range(selector, *numbers, dealt.parts)


def _is_range(selector: Binary, number: Expr, total: Expr, parts: int) -> bool:
    """Whether a quotient is of a number below a total, by at least a share of it: ``max((total + p - 1)//p, 1)``."""
    length = selector.right
    if not isinstance(length, Binary) or length.op != "max" or constant(length.right) != 1:
        return False
    rounded = length.left
    if not isinstance(rounded, Binary) or rounded.op != "//" or constant(rounded.right) != parts:
        return False
    up = Binary("+", total, Binary("-", literal(parts), literal(1), int64), int64)
    return same(selector.left, number) and same(rounded.left, up)


def _numbers(algorithm: Algorithm, dealt: DealtTerms) -> tuple[Expr, Expr] | None:
    """The number of a term in the box around all terms, and the number of these; None if there is no such box."""
    whole = dealt.whole
    frame = whole.points.get_space()
    variables = dict(zip(whole.point_iterators, sets.variables(frame), strict=True))
    onto = sets.function(frame, None, [variables[name] for name in dealt.numbered])
    terms = whole.points.intersect_params(algorithm.context).apply(sets.graph(onto))
    sides = None if terms.is_empty() else sides_of(terms, len(dealt.numbered))
    if sides is None:
        return None
    number: Expr = literal(0)
    total: Expr = literal(1)
    for name, low, extent in zip(dealt.numbered, sides.lows, sides.extents, strict=True):
        first, count = (
            of_params(form.to_pw_aff().project_domain_on_params(), algorithm.context) for form in (low, extent)
        )
        own = Binary("-", Iter(name, int64), first, int64)
        number = Binary("+", Binary("*", number, count, int64), own, int64)
        total = Binary("*", total, count, int64)
    return number, total


def _in_order(changed: Computation, dealt: DealtTerms) -> bool:
    """Whether ranges of terms, and the terms in them, come in the order of the terms."""
    if not isinstance(dealt.selector, Binary) or dealt.selector.op != "//" or len(dealt.added) != 1:
        return False
    at = changed.over.index(dealt.added[0])
    return changed.over[at + 1 : at + 1 + len(dealt.numbered)] == dealt.numbered

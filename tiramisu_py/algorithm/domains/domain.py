"""Domains: the user's dict or text becomes an isl set and a list of non-affine guards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.declarations import Algorithm, Computation
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.domains.isl_text import domain_text
from tiramisu_py.algorithm.domains.references import check_references
from tiramisu_py.algorithm.expressions import Access, Binary, Cast, Const, Expr, Iter, as_expr, binary
from tiramisu_py.algorithm.misuse import check_unpacked, taken_out
from tiramisu_py.algorithm.names import check_name
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.traversal import accesses, rewrite, walk
from tiramisu_py.errors import DeclarationError, DTypeError
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class Domain:
    """A set of points ``name[iterators]``, over all parameters and inside the function's context.

    `guards` are the conditions that are not affine; `points` is then an over-approximation.
    """

    iterators: tuple[str, ...]
    points: isl.Set
    guards: tuple[Expr, ...] = ()


def parse_domain(algorithm: Algorithm, name: str, given: Any, where: Any = None, owner: object = None) -> Domain:
    """The domain of the computation `name`.

    `given` is a dict of iterator to extent or ``(low, high)``, isl text, or a list of dicts (their union); bounds
    may use parameters, outer iterators and values of inputs. A `Domain` is taken as it is. `where` is a further
    condition. Raises `DeclarationError`.
    """
    return _parsed(algorithm, name, given, where, Domain((), sets.universe(algorithm.frame(name, ()))), owner)


def open_domain(algorithm: Algorithm, name: str, iterators: Sequence[Iter]) -> Domain:
    """The domain of the computation `name` that is still to be inferred: without points."""
    names = _iterators(algorithm, name, iterators, ())
    return Domain(names, sets.empty(algorithm.frame(name, names)))


def parse_over(
    algorithm: Algorithm, name: str, outer: Domain, over: Any, where: Any = None, owner: object = None
) -> Domain:
    """The points of the reduction `name`: the product of `outer` and `over`, whose bounds may depend on the former.

    `over` has the forms of `parse_domain`; isl text is over the iterators of `outer` and the reduction's own, or over
    the latter alone.
    """
    found = _parsed(algorithm, name, over, where, outer, owner)
    if len(found.iterators) == len(outer.iterators):
        raise DeclarationError(f"the reduction {name} has no iterator to reduce over: over={over!r}")
    return found


def _parsed(algorithm: Algorithm, name: str, given: Any, where: Any, outer: Domain, owner: object) -> Domain:
    if isinstance(given, str):
        found = _from_text(algorithm, name, given, outer)
    elif isinstance(given, Mapping):
        found = _from_dict(algorithm, name, given, outer, owner)
    elif isinstance(given, list | tuple) and given and all(isinstance(piece, Mapping) for piece in given):
        found = _union(name, [_from_dict(algorithm, name, piece, outer, owner) for piece in given])
    elif isinstance(given, Domain):
        found = replace(given, guards=(*outer.guards, *given.guards))
    else:
        check_unpacked(given, *(given if isinstance(given, list) else ()))
        raise DeclarationError(
            f"the domain of {name} is {given!r}; write a dict such as {{i: N}} or {{i: (low, high)}}, "
            'or isl text such as "[N] -> { [i] : 0 <= i < N }"'
        )
    if where is not None:
        found = _restricted(algorithm, name, found, _conditions(name, where), owner)
    points = found.points.intersect_params(algorithm.context).coalesce()
    _check_bounded(algorithm, name, found, points)
    return Domain(found.iterators, sets.with_dims(sets.named(points, name), found.iterators), found.guards)


# -- dicts


def _from_dict(algorithm: Algorithm, name: str, given: Mapping[Any, Any], outer: Domain, owner: object) -> Domain:
    names = _iterators(algorithm, name, given, outer.iterators)
    space = algorithm.frame(name, names)
    points = sets.extended(outer.points, space)
    found = Domain(names, points, outer.guards)
    for position, extent in enumerate(given.values(), start=len(outer.iterators)):
        conditions = _bounds(name, names, position, extent)
        found = _restricted(algorithm, name, found, conditions, owner)
    return found


def _iterators(algorithm: Algorithm, name: str, keys: Iterable[Any], outer: Sequence[str]) -> tuple[str, ...]:
    found = list(outer)
    for key in keys:
        check_unpacked(key)
        if isinstance(key, Access):
            raise DeclarationError(
                f"{key} in the domain of {name} is a value: write an iterator v in its place, and the value as the "
                f"place of a scatter, f.scatter({name!r}, {{v: ..}}, .., at=[{key}], ..), or as a "
                f"condition, where={key} == v"
            )
        if not isinstance(key, Iter):
            raise DeclarationError(f"{key!r} in the domain of {name} is not an iterator; make one with tm.iters")
        check_iterator(algorithm, name, key.name)
        if key.name in found:
            raise DeclarationError(f"the domain of {name} has the iterator {key.name} twice")
        found.append(key.name)
    return tuple(found)


def check_iterator(algorithm: Algorithm, name: str, iterator: str) -> None:
    """Raise `DeclarationError` if the name of an iterator of the computation `name` cannot be used."""
    check_name(iterator, f"an iterator of {name}")
    if iterator in algorithm.params:
        raise DeclarationError(f"the domain of {name} has the iterator {iterator}, and a parameter has this name")


def _bounds(name: str, names: Sequence[str], position: int, extent: Any) -> list[Expr]:
    """The conditions ``low <= iterator`` and ``iterator < high``."""
    if isinstance(extent, range | slice):
        low, high = extent.start or 0, extent.stop
        raise DeclarationError(
            f"{names[position]} in the domain of {name} has {extent!r}: write {names[position]}: ({low}, {high}); "
            "iterators count by 1"
        )
    check_unpacked(extent)
    if isinstance(extent, tuple | list):
        if len(extent) != 2:
            raise DeclarationError(
                f"{names[position]} in the domain of {name} has {len(extent)} bounds; give an extent or (low, high)"
            )
        low, high = extent
    else:
        low, high = 0, extent
    iterator = Iter(names[position])
    lower, upper = (_bound(name, names, position, bound) for bound in (low, high))
    if not isinstance(extent, tuple | list) and isinstance(upper, Const) and upper.value < 0:
        raise DeclarationError(
            f"{names[position]} in the domain of {name} has the extent {upper}; extents are at least 0"
        )
    return [binary("<=", lower, iterator), binary("<", iterator, upper)]


def _bound(name: str, names: Sequence[str], position: int, given: Any) -> Expr:
    where = f"the bound {given} of {names[position]} in the domain of {name}"
    try:
        bound = as_expr(given)
    except (DeclarationError, DTypeError) as error:
        raise DeclarationError(f"{where} cannot be used: {error}") from None
    if not bound.dtype.is_integer:
        raise DeclarationError(f"{where} is {bound.dtype}; bounds are integers")
    inner = [name for name in names[position:] if name in _iterators_in(bound)]
    if inner:
        raise DeclarationError(f"{where} uses {inner[0]}, which is not an outer iterator; declare {inner[0]} before it")
    return rewrite(bound, _widened)


def _iterators_in(e: Expr) -> set[str]:
    return {node.name for node in walk(e) if isinstance(node, Iter)}


def _widened(e: Expr) -> Expr | None:
    """A bound with its values converted to int64, so that no bound wraps."""
    return Cast(e, ty.int64) if isinstance(e, Access) and e.dtype != ty.int64 else None


# -- conditions


def _conditions(name: str, where: Any) -> list[Expr]:
    try:
        condition = as_expr(where)
    except (DeclarationError, DTypeError) as error:
        raise DeclarationError(f"where= of {name} cannot be used: {error}") from None
    if not condition.dtype.is_bool:
        raise DeclarationError(f"where= of {name} is {condition.dtype}, not a condition: {condition}")
    return conjuncts(condition)


@deep
def conjuncts(condition: Expr) -> list[Expr]:
    """The operands of a conjunction."""
    if isinstance(condition, Binary) and condition.op == "&":
        return conjuncts(condition.left) + conjuncts(condition.right)
    return [condition]


def _restricted(algorithm: Algorithm, name: str, domain: Domain, conditions: Sequence[Expr], owner: object) -> Domain:
    """The part of a domain where conditions hold: affine ones cut its points, the others become guards."""
    points, guards = domain.points, list(domain.guards)
    affine = Affine(points.get_space(), dict(zip(domain.iterators, sets.variables(points.get_space()), strict=True)))
    for condition in conditions:
        check_references(algorithm, f"the domain of {name}", condition, domain.iterators, owner)
        try:
            points = points.intersect(affine.condition(condition))
        except NotAffine:
            guards.append(condition)
            points = points.intersect(approximation(algorithm, points.get_space(), domain.iterators, condition))
    return Domain(domain.iterators, points, tuple(guards))


def _range_of(algorithm: Algorithm, source: str) -> str:
    """How to give a range to the values of an input, or to a number."""
    declared = algorithm.inputs.get(source)
    if declared is not None and declared.scalar:
        return f"make it a parameter: {taken_out([source], 'params')}"
    return "give values=(low, high) to its input"


def _check_bounded(algorithm: Algorithm, name: str, domain: Domain, points: isl.Set) -> None:
    if points.is_bounded():
        return
    axis = next(axis for axis in range(sets.size(points)) if not sets.is_bounded_at(points, axis))
    iterator = domain.iterators[axis]
    why = f"the domain of {name} has no {_missing_bounds(points, axis)} for {iterator}"
    sources = [s for guard in domain.guards for s in undeclared_values(algorithm, guard)]
    if sources:
        why += f", because {sources[0]} is not declared to lie in a range; {_range_of(algorithm, sources[0])}"
    unclear = [str(guard) for guard in domain.guards if not accesses(guard) and iterator in _iterators_in(guard)]
    if unclear and not sources:
        why += f", because {unclear[0]} is not affine"
    raise DeclarationError(why)


def _missing_bounds(points: isl.Set, axis: int) -> str:
    shadow = sets.component_of(points, axis)
    return "upper bound" if sets.has_lower_bound(shadow) else "lower bound"


# -- text and unions


def _from_text(algorithm: Algorithm, name: str, text: str, outer: Domain) -> Domain:
    points = domain_text(algorithm, name, text)
    own = _named_dims(algorithm, name, text, points)
    space = algorithm.frame(name, own)
    points = sets.with_dims(sets.named(points, name), own)
    if own[: len(outer.iterators)] == outer.iterators:
        return Domain(own, points.intersect(sets.extended(outer.points, space)), outer.guards)
    clash = [iterator for iterator in own if iterator in outer.iterators]
    if clash:
        raise DeclarationError(
            f"the domain {text!r} of {name} has the iterators {', '.join(own)}: "
            f"give {', '.join(outer.iterators)} first, or only those that are reduced over"
        )
    names = (*outer.iterators, *own)
    product = sets.flat_product(outer.points, points, name)
    return Domain(names, sets.with_dims(product, names), outer.guards)


def _named_dims(algorithm: Algorithm, name: str, text: str, points: isl.Set) -> tuple[str, ...]:
    found: list[str] = []
    for axis, dim in enumerate(sets.dim_names(points)):
        if dim is None:
            raise DeclarationError(
                f"dimension {axis} of the domain {text!r} of {name} has no name of its own; "
                "each dimension is an iterator, and conditions come after the colon"
            )
        check_iterator(algorithm, name, dim)
        found.append(dim)
    return tuple(found)


def _union(name: str, pieces: Sequence[Domain]) -> Domain:
    first = pieces[0]
    for piece in pieces:
        if piece.iterators != first.iterators:
            raise DeclarationError(
                f"the pieces of the domain of {name} have different iterators: {', '.join(first.iterators)} "
                f"and {', '.join(piece.iterators)}"
            )
        if piece.guards != first.guards:
            raise DeclarationError(f"the domain of {name} has several pieces: their bounds must be affine")
    return Domain(first.iterators, sets.union_of(piece.points for piece in pieces), first.guards)


# -- the context


def parse_context(context: isl.Context, params: Sequence[str], assume: Any = None) -> isl.Set:
    """The parameter values for which a function is defined: each at least 0, restricted by `assume`.

    `assume` is isl text such as ``"R >= 1 and C >= 1"``, or an affine condition. Raises `DeclarationError`.
    """
    _check_params(params)
    space = sets.frame(context, params, None, ())
    found = sets.universe(space).params()
    for name in params:
        found = found.intersect(sets.at_least_zero(space, name))
    if assume is not None:
        found = found.intersect(_assumed(context, params, space, assume))
    if found.is_empty():
        raise DeclarationError(f"no parameter values satisfy the assumption {str(assume)!r}")
    return found


def with_size(algorithm: Algorithm, name: str) -> Algorithm:
    """The algorithm with an additional parameter, which nothing uses yet; raises `DeclarationError`."""
    params = (*algorithm.params, name)
    context = parse_context(algorithm.isl_context, params, algorithm.assume)
    computations = {each.name: _with_param(each, name, context) for each in algorithm.computations.values()}
    return replace(algorithm, params=params, context=context, computations=computations)


def _with_param(declared: Computation, name: str, context: isl.Set) -> Computation:
    stage, stored = declared.stage, declared.stored
    if stage is not None:
        ranges = {i: sets.with_more_params(each, [name]) for i, each in stage.ranges.items()}
        parts = tuple(replace(each, points=sets.with_more_params(each.points, [name])) for each in stage.parts)
        stage = replace(stage, ranges=ranges, parts=parts)
    if stored is not None:
        sites = (replace(each, elements=sets.with_more_params(each.elements, [name])) for each in stored.sites)
        loads = (replace(each, elements=sets.with_more_params(each.elements, [name])) for each in stored.loads)
        stored = replace(stored, sites=tuple(sites), loads=tuple(loads))
    domain, points = (
        sets.with_more_params(each, [name]).intersect_params(context) for each in (declared.domain, declared.points)
    )
    return replace(declared, domain=domain, points=points, stage=stage, stored=stored)


def _check_params(params: Sequence[str]) -> None:
    for position, name in enumerate(params):
        check_name(name, "a parameter")
        if name in params[:position]:
            raise DeclarationError(f"there are two parameters called {name}")


def _assumed(context: isl.Context, params: Sequence[str], space: isl.Space, assume: Any) -> isl.Set:
    if isinstance(assume, str):
        try:
            return sets.read_condition(context, params, assume)
        except sets.IslTextError as error:
            raise DeclarationError(
                f"the assumption {assume!r} is not a condition that isl reads, over the parameters "
                f"{', '.join(params) or '(none)'}: {error}"
            ) from None
    condition = as_expr(assume)
    if not condition.dtype.is_bool:
        raise DeclarationError(f"the assumption {condition} is {condition.dtype}, not a condition")
    try:
        return Affine(space, {}).condition(condition).params()
    except NotAffine as error:
        raise DeclarationError(f"the assumption {condition} is not affine in the parameters: {error.part}") from None


# -- conditions on values, over-approximated from the declared facts about the values


def approximation(algorithm: Algorithm, space: isl.Space, iterators: Sequence[str], condition: Expr) -> isl.Set:
    """The points of a frame at which a condition can hold, for some contents of the arrays that it reads.

    { [i, p] : exists v : lo <= v < hi and p < v }  for the condition  p < start[i]  and  lo <= start[...] < hi.
    A condition that is not affine in its values either excludes no point.
    """
    values: dict[tuple[object, ...], tuple[str, Access]] = {}
    opened = rewrite(condition, lambda e: _opened(e, values))
    extra = [name for name, _ in values.values()]
    wide = algorithm.frame(None, (*iterators, *extra))
    affine = Affine(wide)
    try:
        found = affine.condition(opened)
    except NotAffine:
        return sets.universe(space)
    for name, access in values.values():
        for fact in _facts(algorithm, name, access):
            found = found.intersect(affine.condition(fact))
    narrow = sets.named(sets.project_prefix(found, len(iterators)), sets.tuple_name(space))
    return sets.with_dims(narrow, iterators)


def _opened(e: Expr, values: dict[tuple[object, ...], tuple[str, Access]]) -> Expr | None:
    if not isinstance(e, Access):
        return None
    name, _ = values.setdefault(e.key(), (f"value {len(values)}", e))
    return Iter(name)


def _facts(algorithm: Algorithm, name: str, access: Access) -> list[Expr]:
    source = algorithm.inputs.get(access.source) or algorithm.computations.get(access.source)
    if source is None or source.values is None:
        return []
    low, high = source.values
    return [binary("<=", low, Iter(name)), binary("<", Iter(name), high)]


def undeclared_values(algorithm: Algorithm, condition: Expr) -> list[str]:
    """The sources of a condition's values that have no declared range."""
    values: dict[tuple[object, ...], tuple[str, Access]] = {}
    rewrite(condition, lambda e: _opened(e, values))
    return [access.source for name, access in values.values() if not _facts(algorithm, name, access)]

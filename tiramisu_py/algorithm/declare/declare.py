"""Declarations: the user's arguments become inputs, computations and reductions, checked against the algorithm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any

import islpy as isl

from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.declarations import Algorithm, Computation, Input, Location, Written
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.domains.domain import Domain, conjuncts, open_domain, parse_domain, parse_over
from tiramisu_py.algorithm.domains.linearised import factors_of, product_of
from tiramisu_py.algorithm.domains.references import SelfReference, check_references
from tiramisu_py.algorithm.domains.scatters import placement
from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Iter, as_expr, as_typed, tuple_value
from tiramisu_py.algorithm.misuse import is_given_later
from tiramisu_py.algorithm.names import check_name
from tiramisu_py.algorithm.operators import Determinism, Operator, argmax, argmin
from tiramisu_py.algorithm.traversal import accesses, walk
from tiramisu_py.algorithm.types import DType, TupleType, weak_int
from tiramisu_py.algorithm.words.scattering import ScatteredTerm
from tiramisu_py.errors import DeclarationError, DTypeError

#: The most values that a recurrence may unpack before their types are known.
MOST_UNPACKED = 8
#: How often the type of a recurrence is inferred again before it must be given.
_ROUNDS = 3
#: Our operators, by the names that these have elsewhere.
_OPERATORS = {
    "sum": "tm.sum", "add": "tm.sum", "cumsum": "tm.sum", "+": "tm.sum", "prod": "tm.product", "mul": "tm.product",
    "multiply": "tm.product", "cumprod": "tm.product", "*": "tm.product", "min": "tm.min", "minimum": "tm.min",
    "max": "tm.max", "maximum": "tm.max", "any": "tm.logical_or, of conditions", "all": "tm.logical_and, of conditions",
    "argmin": "tm.argmin", "argmax": "tm.argmax",
}  # fmt: skip


def declare_input(
    algorithm: Algorithm,
    name: str,
    dtype: Any,
    shape: Any,
    *,
    values: Any = None,
    monotone: bool = False,
    permutation: bool = False,
    distinct: bool = False,
    covers: Any = None,
    scalar: bool = False,
    strides: Any = None,
    owner: object = None,
    location: Location | None = None,
) -> Input:
    """An array that the caller passes; facts as in `Input`.

    Extents are affine in the parameters, or products of such extents. `strides` are affine.
    """
    if scalar:
        return declare_scalar(algorithm, name, dtype, values=values, owner=owner, location=location)
    check_free(algorithm, name, "an input")
    found = as_dtype_of(name, dtype)
    extents, passed = dimensions(algorithm, name, shape, owner) if strides is None else (None, None)
    if extents is None:
        extents = _shape(algorithm, name, shape, owner)
    elif monotone or permutation or distinct:
        raise DeclarationError(
            f"{name} has the shape [{', '.join(map(str, shape))}], and is read as rows: monotone=, permutation= and "
            "distinct= are for shapes without products; make the number of its elements a parameter"
        )
    bounds = None if values is None else _values(algorithm, name, values, owner)
    if (monotone or permutation or distinct or bounds) and not found.is_integer:
        raise DeclarationError(f"{name} is {found}: values=, monotone=, permutation= and distinct= are for integers")
    if (monotone or permutation or distinct) and not extents:
        raise DeclarationError(f"{name} has no dimensions, so it is neither monotone nor a permutation, nor distinct")
    apart = None if strides is None else _strides(algorithm, name, strides, extents, owner)
    return Input(
        name, found, extents, values=bounds, monotone=monotone, permutation=permutation, injective=distinct,
        location=location, strides=apart, passed=passed, covers=covers,
    )  # fmt: skip


def declare_scalar(
    algorithm: Algorithm,
    name: str,
    dtype: Any,
    *,
    values: Any = None,
    owner: object = None,
    location: Location | None = None,
) -> Input:
    """A scalar that the caller passes."""
    check_free(algorithm, name, "a scalar")
    found = as_dtype_of(name, dtype)
    bounds = None if values is None else _values(algorithm, name, values, owner)
    if bounds and not found.is_integer:
        raise DeclarationError(f"{name} is {found}: values= is for integers")
    return Input(name, found, (), scalar=True, values=bounds, location=location)


def declare_computation(
    algorithm: Algorithm,
    name: str,
    domain: Any,
    expr: Any,
    *,
    where: Any = None,
    exact: bool = False,
    dtype: Any = None,
    shape: Any = None,
    values: Any = None,
    beside: Mapping[str, int] | None = None,
    owner: object = None,
    location: Location | None = None,
) -> Computation:
    """The values ``name[domain]``, each given by `expr`; a callable is a recurrence, called with its own values.
    `beside` has the ranks of computations that are declared together with it.

    Raises `DeclarationError` and `DTypeError`, naming the computation.
    """
    check_free(algorithm, name, "a computation")
    written = Written(domain, where=where, exact=exact)
    given = open_domain(algorithm, name, domain) if written.is_inferred else domain
    found = parse_domain(algorithm, name, given, where, owner)
    extents = computed_shape(algorithm, name, shape, len(found.iterators), owner)
    asked = None if dtype is None else as_dtype_of(name, dtype)
    body = _body(name, expr, len(found.iterators), asked, owner)
    check_references(algorithm, name, body, found.iterators, owner, {name: len(found.iterators), **(beside or {})})
    _check_types(name, body)
    check_components(algorithm, name, body.dtype)
    _check_inferred(name, written, body, shape)
    return Computation(
        name, body.dtype, found.iterators, found.points, found.points, body, found.guards,
        shape=extents, location=location, written=written, is_open=written.is_inferred,
        values=_claimed(algorithm, name, values, body.dtype, owner),
    )  # fmt: skip


def declare_reduction(
    algorithm: Algorithm,
    name: str,
    domain: Any,
    over: Any,
    op: Any,
    expr: Any,
    *,
    where: Any = None,
    exact: bool = False,
    ordered: bool = False,
    determinism: str | None = None,
    dtype: Any = None,
    shape: Any = None,
    values: Any = None,
    beside: Mapping[str, int] | None = None,
    owner: object = None,
    location: Location | None = None,
) -> Computation:
    """The values ``name[domain]``, each the reduction with `op` of the terms `expr` over the elements of `over`.

    Conditions of `where` over the iterators of `domain` alone restrict the values; the others restrict the terms. The
    place of a `scatter` is such a condition. `determinism` is the name of a grade.
    """
    check_free(algorithm, name, "a reduction")
    for taken in (f"{name}_init", f"{name}_update"):
        check_free(algorithm, taken, f"a statement of the reduction {name}")
    if not isinstance(op, Operator):
        raise no_operator(name, op)
    if isinstance(expr, ScatteredTerm):
        condition = placement(name, domain, expr.at)
        expr, where = expr.term, condition if where is None else condition & where
    written = Written(domain, over, where, exact=exact)
    given = open_domain(algorithm, name, domain) if written.is_inferred else domain
    outer, points = _reduction_domains(algorithm, name, given, over, where, owner)
    extents = computed_shape(algorithm, name, shape, len(outer.iterators), owner)
    asked = None if dtype is None else as_dtype_of(name, dtype)
    given_term = _with_names(name, op, expr, points.iterators[len(outer.iterators) :])
    term = _body(name, given_term, len(outer.iterators), asked, owner, lambda found: result_type(op, found))
    check_references(algorithm, name, term, points.iterators, owner, {name: len(outer.iterators), **(beside or {})})
    _check_types(name, term)
    _check_operator(name, op, term.dtype)
    check_components(algorithm, name, term.dtype)
    _check_inferred(name, written, term, shape)
    return Computation(
        name, term.dtype, outer.iterators, outer.points, points.points, term, points.guards,
        over=points.iterators[len(outer.iterators):], op=op, ordered=ordered, shape=extents, location=location,
        written=written, is_open=written.is_inferred, values=_claimed(algorithm, name, values, term.dtype, owner),
        determinism=_as_determinism(name, determinism),
    )  # fmt: skip


def _as_determinism(name: str, given: str | None) -> Determinism | None:
    """The grade that the user asks for by its name; raises `DeclarationError`."""
    if given is None:
        return None
    names = {str(grade): grade for grade in sorted(Determinism, reverse=True)}
    known = {**names, "gpu_to_gpu": Determinism.EVERYWHERE}
    if not isinstance(given, str) or given not in known:
        raise DeclarationError(f"determinism={given!r} of {name}: give {', '.join(map(repr, names))}")
    return known[given]


def with_values(algorithm: Algorithm, declared: Computation, values: isl.Set) -> Computation:
    """A computation whose domain was left open, with these values, or those of them that its condition leaves."""
    assert declared.written is not None
    written, name, given = declared.written, declared.name, Domain(declared.iterators, values)
    if declared.is_reduction:
        outer, found = _reduction_domains(algorithm, name, given, written.over, written.where, algorithm.owner)
    else:
        outer = found = parse_domain(algorithm, name, given, written.where, algorithm.owner)
    return replace(declared, domain=outer.points, points=found.points, guards=found.guards, is_open=False)


def _check_inferred(name: str, written: Written, body: Expr, shape: Any) -> None:
    """Refuse what cannot be together with a domain that is inferred, and `exact` without one."""
    if not written.is_inferred:
        if written.exact:
            raise DeclarationError(f"exact=True of {name} is for a domain that is inferred, such as [i, j]")
        return
    if shape is not None:
        raise DeclarationError(f"shape= of {name} is for a domain that is given: what is read decides the array too")
    if any(access.source == name for access in accesses(body)):
        raise DeclarationError(
            f"{name} reads itself, so that its domain does not follow from what others read: give it as a dict, such "
            "as {i: N}"
        )


# -- names and types


def check_free(algorithm: Algorithm, name: Any, what: str) -> None:
    """Raise `DeclarationError` unless `name` is an identifier that is not in use in the algorithm."""
    check_name(name, what)
    for kind, taken in (("an input", algorithm.inputs), ("a computation", algorithm.computations)):
        if name in taken:
            raise DeclarationError(f"{name!r} cannot be the name of {what}: {kind} of {algorithm.name} has it")
    if name in algorithm.params:
        raise DeclarationError(f"{name!r} cannot be the name of {what}: a parameter of {algorithm.name} has it")
    for computed in algorithm.computations.values():
        if name in ty.array_names(computed.name, computed.dtype):
            raise DeclarationError(f"{name!r} cannot be the name of {what}: an array of {computed.name} has it")
    for reduction in (c.name for c in algorithm.computations.values() if c.is_reduction):
        if name in (f"{reduction}_init", f"{reduction}_update"):
            raise DeclarationError(
                f"{name!r} cannot be the name of {what}: a statement of the reduction {reduction} has it"
            )


def as_dtype_of(name: str, given: Any) -> DType:
    """The scalar type that the user gave for `name`; raises `DTypeError`."""
    try:
        found = ty.as_dtype(given)
    except DTypeError as error:
        raise DTypeError(f"{name}: {error}") from None
    if found.weak:
        raise DTypeError(f"{name}: {found} is the type of literals, not of values")
    return found


# -- expressions


def _body(
    name: str,
    expr: Any,
    rank: int,
    asked: DType | None,
    owner: object,
    result: Callable[[DType], DType] = lambda found: found,
) -> Expr:
    """The expression of a computation, in the type asked for or in its own."""
    if not is_given_later(expr):
        body = _expression(name, expr)
        return _converted(name, body, asked or result(ty.strong(body.dtype)))
    _check_recurrence(name, expr)
    if asked is not None:
        return _converted(name, _expression(name, expr(SelfReference(name, asked, rank, owner))), asked)
    return _recurrence(name, expr, rank, owner, result)


def _check_recurrence(name: str, expr: Callable[..., Any]) -> None:
    """Refuse a function that does not take one argument."""
    try:
        signature(expr).bind(None)
    except ValueError:  # a function written in C, without a signature
        return
    except TypeError as error:
        raise DeclarationError(
            f"the function that gives {name} is called with the computation itself, lambda {name}: ...; {error}"
        ) from None


def _recurrence(
    name: str, expr: Callable[..., Any], rank: int, owner: object, result: Callable[[DType], DType]
) -> Expr:
    dtype: DType = ty.unknown
    for _ in range(_ROUNDS + 1):
        try:
            given = expr(SelfReference(name, dtype, rank, owner))
        except (DTypeError, DeclarationError, TypeError, ValueError):
            several = _unpacked(name, expr, rank, owner) if dtype is ty.unknown else None
            if several is None:
                raise
            dtype, given = several
        body = _expression(name, given)
        found = result(ty.strong(body.dtype))
        if found is ty.unknown or (found == dtype and ty.unknown in ty.component_types(found)):
            break
        if found == dtype:
            return _converted(name, body, dtype)
        dtype = found
    if isinstance(dtype, TupleType):
        number = ty.component_types(dtype).index(ty.unknown) if ty.unknown in ty.component_types(dtype) else 0
        raise DTypeError(
            f"the type of component {number} of the recurrence {name} does not follow from its expression; cast it in "
            "the tuple, tm.cast(tm.float64, ..)"
        )
    raise DTypeError(f"the type of the recurrence {name} does not follow from its expression; give dtype=")


def _unpacked(name: str, expr: Callable[..., Any], rank: int, owner: object) -> tuple[DType, Any] | None:
    """The type, of unknown components, of a recurrence that unpacks as many values as it gives, and what it gives then:
    of ``x, y = z[t - 1]``, before the type of z is known. None of others.
    """
    for count in range(2, MOST_UNPACKED + 1):
        dtype = ty.tuple_type(tuple((str(k), ty.unknown) for k in range(count)))
        try:
            given = expr(SelfReference(name, dtype, rank, owner))
        except (DTypeError, DeclarationError, TypeError, ValueError):
            continue
        if isinstance(given, tuple) and len(given) == count:
            return dtype, given
    return None


def _expression(name: str, given: Any) -> Expr:
    try:
        found = tuple_value(given) if isinstance(given, tuple) else as_expr(given)
    except (DeclarationError, DTypeError) as error:
        raise DeclarationError(f"the expression of {name} cannot be used: {error}") from None
    return found


def _converted(name: str, body: Expr, dtype: DType) -> Expr:
    try:
        return as_typed(body, dtype)
    except DTypeError as error:
        raise DTypeError(f"{name}: {error}") from None


def _check_types(name: str, body: Expr) -> None:
    try:
        typed(body)
    except DTypeError as error:
        raise DTypeError(f"{name}: {error}") from None


# -- reductions


def _reduction_domains(
    algorithm: Algorithm, name: str, domain: Any, over: Any, where: Any, owner: object
) -> tuple[Domain, Domain]:
    outer = parse_domain(algorithm, name, domain, None, owner)
    conditions = [] if where is None else conjuncts(_expression(name, where))
    values = [c for c in conditions if not _iterators(c) - set(outer.iterators)]
    terms = [c for c in conditions if _iterators(c) - set(outer.iterators)]
    outer = parse_domain(algorithm, name, domain, _conjunction(values), owner)
    return outer, parse_over(algorithm, name, outer, over, _conjunction(terms), owner)


def _iterators(condition: Expr) -> set[str]:
    return {node.name for node in walk(condition) if isinstance(node, Iter)}


def _conjunction(conditions: Sequence[Expr]) -> Expr | None:
    if not conditions:
        return None
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = whole & condition
    return whole


def _with_names(name: str, op: Operator, expr: Any, over: tuple[str, ...]) -> Any:
    """The term of an operator with named components; of `argmin` and `argmax`, the index may be left out."""
    if not op.names or (isinstance(expr, Expr) and isinstance(expr.dtype, TupleType)):
        return expr
    if not isinstance(expr, tuple) and any(op is each for each in (argmin, argmax)):
        if len(over) != 1:
            raise DeclarationError(f"{op} of {name} runs over {', '.join(over)}: give (value, index) as its expression")
        expr = (expr, Iter(over[0]))
    if not isinstance(expr, tuple):
        raise DeclarationError(f"{op} of {name} combines several values: give ({', '.join(op.names)})")
    try:
        return tuple_value(expr, op.names)
    except (DeclarationError, DTypeError) as error:
        raise DeclarationError(f"the expression of {name} cannot be used: {error}") from None


def check_components(algorithm: Algorithm, name: str, dtype: DType) -> None:
    """Refuse names that the arrays of several values need."""
    for array in ty.array_names(name, dtype) if isinstance(dtype, TupleType) else ():
        check_free(algorithm, array, f"an array of {name}")


def no_operator(name: str, given: Any) -> DeclarationError:
    """Advice on an `op` of a computation that is no operator, by the name that it has elsewhere."""
    known = given if isinstance(given, str) else getattr(given, "__name__", getattr(given, "name", ""))
    shown = f"the function {known}" if hasattr(given, "__name__") else repr(given)
    if known in _OPERATORS:
        return DeclarationError(f"op= of {name} is {shown}; use {_OPERATORS[known]}")
    if is_given_later(given) and hasattr(given, "__name__"):
        own = "lambda a, b: ..." if known == "<lambda>" else known
        shown = shown.replace("the function <lambda>", "a lambda")
        return DeclarationError(f'op= of {name} is {shown}; use tm.operator("...", {own}, identity)')
    words = f"op= of {name} is {shown}; use tm.sum, tm.max, ..., or tm.operator(...)"
    if known and not isinstance(given, str):
        words += ", and declare the steps before or after it as computations of their own"
    return DeclarationError(words)


def combined_term(name: str, op: Any, expr: Any, over: str, dtype: Any) -> Expr:
    """The term that an operator combines along one iterator, in the type asked for or in that of a reduction.

    Raises `DeclarationError` and `DTypeError`, naming the computation.
    """
    if not isinstance(op, Operator):
        raise no_operator(name, op)
    found = _expression(name, _with_names(name, op, expr, (over,)))
    asked = None if dtype is None else as_dtype_of(name, dtype)
    term = _converted(name, found, asked or result_type(op, ty.strong(found.dtype)))
    _check_operator(name, op, term.dtype)
    return term


def result_type(op: Operator | None, term: DType) -> DType:
    """The type in which terms are combined by default: a sum of booleans counts them in int64, as in NumPy."""
    return ty.int64 if op is not None and term.is_bool and op.own_name in ("sum", "product") else term


def _check_operator(name: str, op: Operator, dtype: DType) -> None:
    accumulator, term = Iter("accumulator", dtype), Iter("term", dtype)
    try:
        op.identity(dtype)
        combined = typed(op.combine(accumulator, term), dtype)
    except DTypeError as error:
        raise DTypeError(f"{op} cannot combine the {dtype} terms of {name}: {error}") from None
    foreign = [node for node in walk(combined) if not node.children() and _is_foreign(node)]
    if foreign:
        raise DeclarationError(f"{op}, which reduces {name}, uses {foreign[0]}; it may use its two operands only")


def _is_foreign(node: Expr) -> bool:
    return type(node).__name__ in ("Access", "Param") or (
        isinstance(node, Iter) and node.name not in ("accumulator", "term")
    )


# -- shapes and ranges


def computed_shape(algorithm: Algorithm, name: str, shape: Any, rank: int, owner: object) -> tuple[Expr, ...] | None:
    """The array that holds the values of a computation by default, if the user gave its shape."""
    if shape is None:
        return None
    extents = _shape(algorithm, name, shape, owner)
    if len(extents) != rank:
        raise DeclarationError(f"shape= of {name} has {len(extents)} extents, but {name} has {rank} iterators")
    return extents


def _shape(algorithm: Algorithm, name: str, shape: Any, owner: object) -> tuple[Expr, ...]:
    given = _listed(name, shape)
    return tuple(_extent(algorithm, f"extent {k} of {name}", extent, owner) for k, extent in enumerate(given))


def dimensions(
    algorithm: Algorithm, name: str, shape: Any, owner: object
) -> tuple[tuple[Expr, ...], tuple[Expr, ...]] | tuple[None, None]:
    """The dimensions of an array of which some extents are products of sizes, and the extents that the caller passes,
    in which no factor is below 0; None where all extents are affine.
    """
    given = [factors_of(extent) if isinstance(extent, Expr) else (extent,) for extent in _listed(name, shape)]
    if all(len(factors) == 1 for factors in given):
        return None, None
    sizes = [[_extent(algorithm, f"extent {k} of {name}", e, owner) for e in each] for k, each in enumerate(given)]
    passed = (each if len(each) == 1 else [_at_least_zero(algorithm, e) for e in each] for each in sizes)
    return tuple(e for each in sizes for e in each), tuple(product_of(each) for each in passed)


def _at_least_zero(algorithm: Algorithm, extent: Expr) -> Expr:
    """An extent as the size of the array that a caller passes: 0 where it is negative."""
    below = Affine(algorithm.frame(None, ()), {}).value(extent).neg().pos_set()
    is_size = below.params().intersect(algorithm.context.params()).is_empty()
    return extent if is_size else Binary("max", extent, Const(0, weak_int), extent.dtype)


def _listed(name: str, shape: Any) -> Sequence[Any]:
    if not isinstance(shape, list | tuple):
        raise DeclarationError(f"the shape of {name} is {shape!r}; write a list of extents, such as [N, M + 2]")
    return shape


def _strides(
    algorithm: Algorithm, name: str, strides: Any, extents: tuple[Expr, ...], owner: object
) -> tuple[Expr, ...]:
    if not isinstance(strides, list | tuple) or len(strides) != len(extents):
        raise DeclarationError(
            f"strides= of {name} is {strides!r}; write the distance of neighbours in each of its {len(extents)} "
            "dimensions, in elements, such as [S, 1]"
        )
    return tuple(_of_params(algorithm, f"stride {k} of {name}", given, owner) for k, given in enumerate(strides))


def _extent(algorithm: Algorithm, subject: str, given: Any, owner: object) -> Expr:
    extent = _of_params(algorithm, subject, given, owner)
    if isinstance(extent, Const) and extent.value < 0:
        raise DeclarationError(f"{subject} is {extent}; extents are at least 0")
    return extent


def _values(algorithm: Algorithm, name: str, values: Any, owner: object) -> tuple[Expr, Expr]:
    if not isinstance(values, list | tuple) or len(values) != 2:
        raise DeclarationError(f"values= of {name} is {values!r}; write (low, high), with high excluded")
    low, high = (_of_params(algorithm, f"values= of {name}", given, owner) for given in values)
    if isinstance(low, Const) and isinstance(high, Const) and high.value <= low.value:
        raise DeclarationError(f"values= of {name} is ({low}, {high}), an empty range; high is excluded")
    return low, high


def _claimed(algorithm: Algorithm, name: str, values: Any, dtype: DType, owner: object) -> tuple[Expr, Expr] | None:
    """The range that is declared for the values of a computation."""
    if values is not None and not dtype.is_integer:
        raise DeclarationError(f"{name} is {dtype}: values= is for integers")
    return None if values is None else _values(algorithm, name, values, owner)


def _of_params(algorithm: Algorithm, subject: str, given: Any, owner: object) -> Expr:
    """An integer expression that is affine in the parameters."""
    try:
        extent = as_expr(given)
    except (DeclarationError, DTypeError) as error:
        raise DeclarationError(f"{subject} cannot be used: {error}") from None
    if not extent.dtype.is_integer:
        raise DeclarationError(f"{subject} is {extent} ({extent.dtype}), not an integer")
    check_references(algorithm, subject, extent, (), owner)
    try:
        Affine(algorithm.frame(None, ()), {}).value(extent)
    except NotAffine as error:
        advice = _as_dimensions(subject, error.part)
        raise DeclarationError(
            f"{subject} is {extent}, which is not affine in the parameters: {error.part}{advice}"
        ) from None
    return extent


def _as_dimensions(subject: str, part: Expr) -> str:
    """The advice to give an array of ``N * M`` elements two dimensions; "" for anything else."""
    if not subject.startswith("extent") or not isinstance(part, Binary) or part.op != "*":
        return ""
    return (
        f"; give the array the dimensions [{part.left}, {part.right}], and read [i, j] in place of "
        f"[i * {part.right} + j]: the elements lie in memory as before"
    )

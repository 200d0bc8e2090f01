"""Computations that are declared together, so that each may read the others: mutual recurrences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any

from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.declarations import Algorithm, Computation, Written
from tiramisu_py.algorithm.declare.declare import (
    as_dtype_of,
    check_free,
    declare_computation,
    declare_reduction,
    result_type,
)
from tiramisu_py.algorithm.domains.domain import parse_domain
from tiramisu_py.algorithm.domains.references import SelfReference
from tiramisu_py.algorithm.expressions import Expr, as_expr
from tiramisu_py.algorithm.misuse import is_given_later
from tiramisu_py.algorithm.operators import Operator
from tiramisu_py.algorithm.traversal import accesses
from tiramisu_py.algorithm.types import DType
from tiramisu_py.errors import DeclarationError, DTypeError
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class Draft:
    """A computation of a group before all of the group are known.

    `expr` is an expression, or a function that makes it: of no argument, or of the computation itself. `dtype` is the
    type that the user asks for, or None; `over` and `op` are those of a reduction; `options` are the other arguments.
    """

    name: str
    rank: int
    domain: Any
    expr: Any
    dtype: DType | None
    over: Any
    op: Operator | None
    options: Mapping[str, Any]

    @property
    def first_type(self) -> DType:
        """The type as far as it is known when the group begins."""
        if self.dtype is not None or is_given_later(self.expr):
            return self.dtype or ty.unknown
        return ty.strong(self.result(as_expr(self.expr).dtype))

    def result(self, found: DType) -> DType:
        """The type of the values, from that of the expression."""
        return result_type(self.op, found)

    def body(self, dtype: DType, owner: object) -> Expr:
        """The expression, while the values of this computation have a type."""
        if not is_given_later(self.expr):
            return as_expr(self.expr)
        taken = ", ".join(signature(self.expr).parameters)
        try:
            return as_expr(self.expr(SelfReference(self.name, dtype, self.rank, owner)) if taken else self.expr())
        except (DeclarationError, DTypeError) as error:
            itself = f" ({taken} is {self.name} itself; iterators are no arguments: write lambda: ...)" if taken else ""
            raise type(error)(f"the expression of {self.name} cannot be used: {error}{itself}") from None

    def declared(self, algorithm: Algorithm, body: Expr, beside: Mapping[str, int], dtype: DType) -> Computation:
        """The computation, once its expression is known."""
        if self.op is None:
            return declare_computation(
                algorithm, self.name, self.domain, body, dtype=dtype, beside=beside, **self.options
            )
        return declare_reduction(
            algorithm, self.name, self.domain, self.over, self.op, body, dtype=dtype, beside=beside, **self.options
        )


def draft(
    algorithm: Algorithm,
    others: Mapping[str, Draft],
    name: str,
    domain: Any,
    expr: Any,
    *,
    over: Any = None,
    op: Any = None,
    dtype: Any = None,
    options: Mapping[str, Any],
) -> Draft:
    """A computation, or with `op` a reduction, of a group that has `others` already; raises `DeclarationError`."""
    check_free(algorithm, name, "a computation of a group")
    if (op is not None and op.names) or isinstance(expr, tuple):
        raise DeclarationError(
            f"{name} has several values, and computations of a group have one each: declare it before or after the "
            "group, or give the group a reduction for each value"
        )
    if name in others:
        raise DeclarationError(f"{name!r} cannot be the name of two computations of a group")
    if Written(domain).is_inferred:
        listed = ", ".join(map(str, domain))
        raise DeclarationError(
            f"{name} is in a group, whose computations read each other, so that its domain does not follow from what "
            f"others read: give it as a dict, such as {{{domain[0]}: N}}, not [{listed}]"
        )
    if is_given_later(expr) and len(signature(expr).parameters) > 1:
        taken = ", ".join(signature(expr).parameters)
        raise DeclarationError(f"the expression of {name} is a function of {taken}: give one of nothing, lambda: ...")
    where = options["where"]
    for each in accesses(where) if isinstance(where, Expr) else []:
        if each.source in {*others, name}:
            raise DeclarationError(
                f"where= of {name} reads {each} of its own group: put the choice into its expression, with tm.select"
            )
    asked = None if dtype is None else as_dtype_of(name, dtype)
    rank = len(parse_domain(algorithm, name, domain, None, options["owner"]).iterators)
    return Draft(name, rank, domain, expr, asked, over, op, options)


def declare_group(
    algorithm: Algorithm, drafts: Sequence[Draft], told: Callable[[Mapping[str, DType]], None], owner: object
) -> list[Computation]:
    """The computations of a group. `told` gets the types that are known so far, before expressions are made.

    Types follow from the expressions, made again until no type changes. Raises `DeclarationError` and `DTypeError`.
    """
    types = _types(drafts, told, owner)
    ranks = {each.name: each.rank for each in drafts}
    found = list[Computation]()
    for each in drafts:
        declared = each.declared(algorithm, each.body(types[each.name], owner), ranks, types[each.name])
        found.append(replace(declared, group=drafts[0].name))
    return found


def _types(drafts: Sequence[Draft], told: Callable[[Mapping[str, DType]], None], owner: object) -> dict[str, DType]:
    """The type of each computation; a literal decides only where nothing else does."""
    types = {each.name: each.first_type for each in drafts}
    for _ in range(3 * len(drafts) + 3):
        told(types)
        found = {each.name: each.dtype or each.result(each.body(types[each.name], owner).dtype) for each in drafts}
        if found == types:
            if ty.unknown in types.values() or not any(dtype.weak for dtype in types.values()):
                break
            found = {name: ty.strong(dtype) for name, dtype in types.items()}
        types = found
    open_types = [name for name, dtype in types.items() if dtype.weak]
    if open_types or found != types:
        named = ", ".join(open_types or types)
        raise DTypeError(f"the types of {named} do not follow from their expressions: give dtype= of one of them")
    return types

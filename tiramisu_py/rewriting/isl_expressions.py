"""From isl to expressions of the iterators of a frame: forms as indices, sets as conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.from_isl import from_ast
from tiramisu_py.algorithm.expressions import Const, Expr, Iter, Param, binary, unary
from tiramisu_py.algorithm.types import bool_, weak_int


def index_of(form: isl.Aff, dims: Sequence[str]) -> Expr:
    """A quasi-affine form on a frame with these dimensions, as an index: ``i - 1``, ``j // 2``.

    The form is an integer wherever it is used.
    """
    taken = sets.terms(form)
    leaves: list[tuple[int, Expr]] = [(c, Iter(name)) for c, name in zip(taken.dims, dims, strict=True) if c]
    leaves += [(c, Param(name)) for c, name in taken.params]
    leaves += [(c, index_of(inner, dims)) for c, inner in taken.divs]
    whole = _sum_of(sorted(leaves, key=lambda each: each[0] < 0), taken.constant)
    return whole if taken.denominator == 1 else binary("//", whole, taken.denominator)


def _sum_of(leaves: Sequence[tuple[int, Expr]], constant: int) -> Expr:
    found: Expr | None = None
    for c, leaf in leaves:
        scaled = leaf if abs(c) == 1 else binary("*", abs(c), leaf)
        if found is None:
            found = scaled if c > 0 else unary("-", scaled)
        else:
            found = binary("+" if c > 0 else "-", found, scaled)
    if found is None:
        return Const(constant, weak_int)
    return found if constant == 0 else binary("+" if constant > 0 else "-", found, abs(constant))


def indices_of(forms: Sequence[isl.Aff], dims: Sequence[str]) -> list[Expr]:
    """Several forms, each as an index."""
    return [index_of(form, dims) for form in forms]


def condition_of(of: isl.Set, given: isl.Set, dims: Sequence[str]) -> Expr | None:
    """A condition that holds, at the points of `given`, for those of a set; None if it holds for all of them."""
    names: Mapping[str, Expr] = {
        **{name: Param(name) for name in sets.params(given)},
        **{name: Iter(name) for name in dims},
    }
    wanted, known = (sets.dims_as_params(sets.named(each, None), dims) for each in (of, given))
    if known.is_subset(wanted):
        return None
    if known.is_disjoint(wanted):
        return Const(False, bool_)
    build = isl.AstBuild.from_context(known)
    return from_ast(build.expr_from_set(wanted.coalesce().gist(known)), names)

"""From isl back to expressions: affine forms as integer expressions of parameters and iterators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Param, Select, Unary
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.types import bool_, int64

_OP: Any = isl.ast_expr_op_type
_KIND: Any = isl.ast_expr_type

_BINARY = {
    _OP.add: "+", _OP.sub: "-", _OP.mul: "*", _OP.fdiv_q: "//", _OP.pdiv_q: "//", _OP.pdiv_r: "%", _OP.zdiv_r: "%",
    _OP.div: "//",
}  # fmt: skip
_COMPARE = {_OP.eq: "==", _OP.le: "<=", _OP.lt: "<", _OP.ge: ">=", _OP.gt: ">"}
_LOGIC = {_OP.and_: "&", _OP.and_then: "&", _OP.or_: "|", _OP.or_else: "|"}


@deep
def from_ast(e: isl.AstExpr, names: Mapping[str, Expr]) -> Expr:
    """An isl AST expression as a typed expression (int64, or bool for conditions); `names` gives identifiers."""
    kind = e.get_type()
    if kind == _KIND.int:
        return Const(sets.number(e.get_val()), int64)
    if kind == _KIND.id:
        return names[e.get_id().get_name()]
    operands = [from_ast(e.get_op_arg(i), names) for i in range(e.get_op_n_arg())]
    return _operation(e.get_op_type(), operands)


def _operation(op: Any, operands: list[Expr]) -> Expr:
    if op in _BINARY:
        return Binary(_BINARY[op], operands[0], operands[1], int64)
    if op in _COMPARE:
        return Binary(_COMPARE[op], operands[0], operands[1], bool_)
    if op in _LOGIC:
        return Binary(_LOGIC[op], operands[0], operands[1], bool_)
    if op == _OP.minus:
        return Unary("-", operands[0], int64)
    if op in (_OP.min, _OP.max):
        return _folded("min" if op == _OP.min else "max", operands)
    if op in (_OP.cond, _OP.select):
        return Select(operands[0], operands[1], operands[2], operands[1].dtype)
    raise ValueError(f"isl built an operation that this version does not know: {op}")


def _folded(op: str, operands: list[Expr]) -> Expr:
    result = operands[0]
    for operand in operands[1:]:
        result = Binary(op, result, operand, int64)
    return result


def condition_of_params(where: isl.Set, context: isl.Set) -> Expr:
    """A set of parameter values as a condition that is right in `context`."""
    build = isl.AstBuild.from_context(context)
    return from_ast(build.expr_from_set(where), {name: Param(name, int64) for name in sets.params(context)})


def of_params(form: isl.PwAff, context: isl.Set, params: Mapping[str, Expr] | None = None) -> Expr:
    """A piecewise affine form of the parameters alone, as an expression that is valid in `context`."""
    build = isl.AstBuild.from_context(context)
    names: dict[str, Expr] = {name: Param(name, int64) for name in sets.params(context)}
    return from_ast(of_form(build, form), dict(names, **(params or {})))


def of_form(build: isl.AstBuild, form: isl.PwAff) -> isl.AstExpr:
    """A piecewise affine form as an AST expression of a build: a minimum or a maximum of its pieces if it is one."""
    options = build.get_ctx()
    options.set_ast_build_detect_min_max(1)
    try:
        return build.expr_from_pw_aff(form.coalesce())
    finally:
        options.set_ast_build_detect_min_max(0)

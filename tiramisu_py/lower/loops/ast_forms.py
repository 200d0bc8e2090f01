"""isl's expressions read again as sets and forms: what the emitted loops compute, not what isl was asked for.

Quotients round down, as in `algorithm.domains.from_isl`, which makes the emitted expressions of the same operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.errors import CompilerDefect

_OP: Any = isl.ast_expr_op_type
_KIND: Any = isl.ast_expr_type

#: A form on the iterators: affine, or affine in pieces.
Form = isl.Aff | isl.PwAff

_QUOTIENTS = (_OP.fdiv_q, _OP.pdiv_q, _OP.div)
_RESTS = (_OP.pdiv_r, _OP.zdiv_r)
_COMPARE: dict[Any, Callable[[Any, Any], isl.Set]] = {
    _OP.eq: lambda a, b: a.eq_set(b), _OP.le: lambda a, b: a.le_set(b), _OP.lt: lambda a, b: a.lt_set(b),
    _OP.ge: lambda a, b: a.ge_set(b), _OP.gt: lambda a, b: a.gt_set(b),
}  # fmt: skip


class AstForms:
    """Expressions over the iterators of a frame, whose dimensions are `names`, and its parameters."""

    def __init__(self, frame: isl.Space, names: Mapping[str, int]) -> None:
        dims = sets.variables(frame)
        self.frame = frame
        self.names = {name: dims[at] for name, at in names.items()}
        self.names |= {name: sets.parameter(frame, name) for name in sets.params(frame)}

    @deep
    def form(self, e: isl.AstExpr) -> Form:
        """The value of an expression."""
        kind = e.get_type()
        if kind == _KIND.int:
            return sets.constant(self.frame, sets.number(e.get_val()))
        if kind == _KIND.id:
            return self.names[e.get_id().get_name()]
        op, operands = e.get_op_type(), _operands(e)
        if op in (_OP.cond, _OP.select):
            where, yes, no = self.condition(operands[0]), self.form(operands[1]), self.form(operands[2])
            return _piecewise(yes).intersect_domain(where).union_add(_piecewise(no).subtract_domain(where))
        return _calculated(op, [self.form(each) for each in operands])

    @deep
    def condition(self, e: isl.AstExpr) -> isl.Set:
        """The iterations in which a condition holds."""
        if e.get_type() == _KIND.int:
            everywhere = sets.universe(self.frame)
            return everywhere if sets.number(e.get_val()) else sets.empty(self.frame)
        op, operands = e.get_op_type(), _operands(e)
        if op in (_OP.and_, _OP.and_then):
            return self.condition(operands[0]).intersect(self.condition(operands[1]))
        if op in (_OP.or_, _OP.or_else):
            return self.condition(operands[0]).union(self.condition(operands[1]))
        if op not in _COMPARE:
            raise CompilerDefect(f"isl's AST has a condition of an unknown form: {e.to_C_str()}")
        left, right = alike(self.form(operands[0]), self.form(operands[1]))
        return _COMPARE[op](left, right)

    def iterations(self, iterator: str, first: isl.AstExpr, last: isl.AstExpr, step: int) -> isl.Set:
        """The values of an iterator from `first` by `step`, as long as the condition `last` holds."""
        here = self.names[iterator]
        found = sets.universe(self.frame)
        bounds = [self.form(e) for e in _parts(first, _OP.max)]
        for bound in bounds:
            found = found.intersect(_where(_OP.ge, here, bound))
        op, (left, right) = last.get_op_type(), _operands(last)
        if op not in (_OP.le, _OP.lt) or left.get_type() != _KIND.id or left.get_id().get_name() != iterator:
            raise CompilerDefect(f"isl's AST has a loop condition of an unknown form: {last.to_C_str()}")
        for e in _parts(right, _OP.min):
            found = found.intersect(_where(op, here, self.form(e)))
        if step == 1:
            return found
        begin = bounds[0] if len(bounds) == 1 else self.form(first)
        distance, by = alike(here, begin)
        moved = distance.sub(by)
        whole = sets.scaled(sets.floor_div(moved, step), step)
        return found.intersect(_COMPARE[_OP.eq](moved, whole))


def alike(left: Form, right: Form) -> tuple[Any, Any]:
    """Two forms of one class."""
    if type(left) is type(right):
        return left, right
    return _piecewise(left), _piecewise(right)


def _where(op: Any, left: Form, right: Form) -> isl.Set:
    return _COMPARE[op](*alike(left, right))


def _piecewise(form: Form) -> isl.PwAff:
    return form.to_pw_aff() if isinstance(form, isl.Aff) else form


def _operands(e: isl.AstExpr) -> list[isl.AstExpr]:
    return [e.get_op_arg(i) for i in range(e.get_op_n_arg())]


def _parts(e: isl.AstExpr, op: Any) -> list[isl.AstExpr]:
    """The operands of a minimum or maximum, of an expression that may be one."""
    if e.get_type() == _KIND.op and e.get_op_type() == op:
        return [part for operand in _operands(e) for part in _parts(operand, op)]
    return [e]


def _calculated(op: Any, forms: list[Form]) -> Form:
    """The result of an operation on forms."""
    if op == _OP.minus:
        return forms[0].neg()
    result: Form = forms[0]
    for each in forms[1:]:
        result = _of_two(op, *alike(result, each))
    return result


def _of_two(op: Any, left: Any, right: Any) -> Any:
    if op == _OP.add:
        return left.add(right)
    if op == _OP.sub:
        return left.sub(right)
    if op == _OP.mul:
        return left.mul(right)
    if op in _QUOTIENTS:
        return left.div(right).floor()
    if op in _RESTS:
        return left.sub(left.div(right).floor().mul(right))
    if op in (_OP.min, _OP.max):
        ahead, behind = _piecewise(left), _piecewise(right)
        return ahead.min(behind) if op == _OP.min else ahead.max(behind)
    raise CompilerDefect(f"isl built an operation that this version does not know: {op}")

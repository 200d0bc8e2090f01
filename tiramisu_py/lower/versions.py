"""Versions of a function in which some parameters and scalars are constant, and conditions on them hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from tiramisu_py import sets
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.domains.specializations import Specialization
from tiramisu_py.algorithm.evaluate import numeric
from tiramisu_py.algorithm.expressions import COMPARISONS, Access, Binary, Const, Expr, Param, Select
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.algorithm.types import bool_, int64
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import ArrayArgument, For, LoopFunction, Node, Scalar, Version
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.ir.arithmetic.simplify import simplified, simplify
from tiramisu_py.ir.rewriting import rewrite_expressions, with_children
from tiramisu_py.program.program import Program

#: Comparisons that do not hold where another one does.
_OPPOSITES = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
#: Operators as parts of a name.
_WORDS = {"==": " eq ", "!=": " ne ", "<=": " le ", ">=": " ge ", "<": " lt ", ">": " gt ", "%": " mod ", "//": " div "}


def with_versions(program: Program, function: LoopFunction, lowered: Callable[[Program], LoopFunction]) -> LoopFunction:
    """The function with a version for each specialization of the program; those with most constants come first."""
    if not program.calls.specialized:
        return function
    if function.grid is not None or function.gpus.kernels or function.gpus.devices:
        raise CompilerDefect(
            f"{function.name} uses {'ranks' if function.grid is not None else 'GPUs'}: specialize is for functions "
            "that run on the host alone"
        )
    versions = list[Version]()
    for special in sorted(program.calls.specialized, key=len, reverse=True):
        taken = [each.function.name for each in versions]
        versions.append(_version(program, special, lowered, taken))
    return replace(function, companions=replace(function.companions, versions=tuple(versions)))


def _version(
    program: Program, special: Specialization, lowered: Callable[[Program], LoopFunction], taken: Sequence[str]
) -> Version:
    context = special.context(program.algorithm, program.context)
    function = lowered(program.with_(calls=replace(program.calls, narrowed=context, specialized=())))
    conditions = tuple(_lowered(program, condition) for condition in special.conditions)
    known = {name: value for condition in conditions for name, value in _known(condition)}
    body = _in_steps(function.body, sets.steps_of_params(context))
    named = replace(function, name=_name(function.name, special, taken), body=body)
    return Version(special.sizes, _with_constants(named, dict(special.sizes), known), conditions)


def _in_steps(body: Node, steps: Mapping[str, tuple[int, int]]) -> Node:
    """The loops with bounds that say which parameters are multiples: ``N`` is ``N//16*16`` where ``N % 16 == 0``."""

    def bound(e: Expr) -> Expr | None:
        if not isinstance(e, Param) or e.name not in steps:
            return None
        step, rest = (arithmetic.number(value) for value in steps[e.name])
        whole = Binary("*", Binary("//", e, step, int64), step, int64)
        return simplified(Binary("+", whole, rest, int64))

    def stepped(node: Node) -> Node:
        if isinstance(node, For):
            lower, upper = (simplified(rewrite(e, bound)) for e in (node.lower, node.upper))
            node = replace(node, lower=lower, upper=upper)
        return with_children(node, stepped)

    return stepped(body) if steps else body


def _name(function: str, special: Specialization, taken: Sequence[str]) -> str:
    """A name for a version, from what it is for: ``blur_R16``, ``blur_N_mod_16_eq_0``."""
    parts = [f"{name}{value}" for name, value in special.sizes]
    for condition in special.conditions:
        said = str(condition)
        for operator, word in _WORDS.items():
            said = said.replace(operator, word)
        parts.append(said)
    name = "_".join([function, *(re.sub(r"\W+", "_", part).strip("_") for part in parts)])
    return name if name not in taken else f"{name}_{len(taken)}"


def _lowered(program: Program, condition: Expr) -> Expr:
    """A condition on parameters and scalars as the loops have it."""

    def scalar(e: Expr) -> Expr | None:
        return Scalar(e.source, e.dtype) if isinstance(e, Access) else None

    return simplified(rewrite(typed(condition, bool_), scalar))


def _known(condition: Expr) -> Iterator[tuple[object, bool]]:
    """The truth of conditions, by their keys, where one holds: its own, and of its operands and their opposites."""
    yield condition.key(), True
    if isinstance(condition, Binary) and condition.op == "&":
        yield from _known(condition.left)
        yield from _known(condition.right)
    elif isinstance(condition, Binary) and condition.op in _OPPOSITES:
        yield replace(condition, op=_OPPOSITES[condition.op]).key(), False


def _with_constants(
    function: LoopFunction, values: Mapping[str, bool | int | float], known: Mapping[object, bool]
) -> LoopFunction:
    def literal(e: Expr) -> Expr | None:
        if e.dtype.is_bool and known and e.key() in known:
            return Const(known[e.key()], bool_)
        return Const(values[e.name], e.dtype) if isinstance(e, Param | Scalar) and e.name in values else None

    def constant(sizes: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(simplified(rewrite(e, literal)) for e in sizes)

    arguments = tuple(
        replace(a, extents=constant(a.extents), strides=None if a.strides is None else constant(a.strides))
        if isinstance(a, ArrayArgument)
        else a
        for a in function.arguments
    )
    preconditions = tuple((rewrite(condition, literal), words) for condition, words in function.preconditions)
    body = rewrite_expressions(rewrite_expressions(function.body, literal), _decided)
    return replace(function, arguments=arguments, preconditions=preconditions, body=simplify(body))


def _decided(e: Expr) -> Expr | None:
    """A comparison of literals as a truth value, and the branch that a literal chooses."""
    if isinstance(e, Select):
        test = rewrite(e.condition, _decided)
        return rewrite(e.yes if test.value else e.no, _decided) if isinstance(test, Const) else None
    if isinstance(e, Binary) and e.op in COMPARISONS and isinstance(e.left, Const) and isinstance(e.right, Const):
        left, right = (numeric.literal(side.value, side.dtype) for side in (e.left, e.right))
        return Const(bool(numeric.binary(e.op, left, right, bool_)), bool_)
    return None

"""Values that depend on the inputs that are asked for, and which of these reach an output."""

from __future__ import annotations

from collections.abc import Iterable

from tiramisu_py.algorithm.declarations import Algorithm, Computation
from tiramisu_py.algorithm.expressions import Access, Expr
from tiramisu_py.algorithm.operators import argmax, argmin
from tiramisu_py.algorithm.types import TupleType, array_names, component_types
from tiramisu_py.algorithm.words.stages import StageCall
from tiramisu_py.errors import DeclarationError
from tiramisu_py.rewriting.partial_derivatives import dependences
from tiramisu_py.rewriting.read_adjoints import Source, depends

#: The operators of reductions whose derivative is known.
DIFFERENTIABLE = ("sum", "product", "min", "max", "argmin", "argmax")


def components(c: Computation) -> list[Source]:
    """The arrays of floating-point values of a computation."""
    types = component_types(c.dtype)
    return [
        (c.name, part if isinstance(c.dtype, TupleType) else None)
        for part, dtype in enumerate(types)
        if dtype.is_float and not (c.op in (argmin, argmax) and part > 0)
    ]


def array_of(algorithm: Algorithm, source: Source) -> str:
    """The name of the array of a source."""
    name, part = source
    return name if part is None else array_names(name, algorithm.computations[name].dtype)[part]


def active_sources(algorithm: Algorithm, wrt: Iterable[str]) -> set[Source]:
    """The floating-point values that depend on these inputs, and these themselves."""
    found: set[Source] = {(name, None) for name in wrt}
    grown = True
    while grown:
        grown = False
        for c in algorithm.computations.values():
            new = [each for each in components(c) if each not in found]
            live = depends(c.expr, found.__contains__) if new else {}
            for source in new:
                if live.get((id(c.expr), source[1]), False):
                    found.add(source)
                    grown = True
    return found


def flows(algorithm: Algorithm, active: set[Source]) -> dict[Source, set[Source]]:
    """For each active value, the active values that it reads and depends on."""
    found: dict[Source, set[Source]] = {(name, None): set() for name in algorithm.inputs if (name, None) in active}
    for c in algorithm.computations.values():
        live = depends(c.expr, active.__contains__) if any(each in active for each in components(c)) else {}
        for source in components(c):
            if source in active:
                found[source] = _read_by(c.expr, source[1], live)
    return found


def _read_by(expression: Expr, part: int | None, live: dict[tuple[int, int | None], bool]) -> set[Source]:
    found: set[Source] = set()
    seen: set[tuple[int, int | None]] = set()
    waiting = [(expression, part)]
    while waiting:
        node, own = waiting.pop()
        if (id(node), own) in seen or not live.get((id(node), own), False):
            continue
        seen.add((id(node), own))
        if isinstance(node, Access):
            found.add((node.source, own))
        else:
            waiting += [(each.operand, each.part) for each in dependences(node, own)]
    return found


def needed_sources(flow: dict[Source, set[Source]], results: Iterable[Source]) -> list[Source]:
    """The active values on which one of the results depends, and these themselves, in the order of declaration."""
    found = {each for each in results if each in flow}
    waiting = list(found)
    while waiting:
        new = flow.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return [each for each in flow if each in found]


def check_operators(algorithm: Algorithm, needed: Iterable[Source], *, forwards: bool = False) -> None:
    """Refuse reductions by operators of the user's, and calls over whole arrays, that have no derivative, by name."""
    for name, _ in needed:
        c = algorithm.computations.get(name)
        if c is None:
            continue
        if c.stage is not None:
            _check_stage(c, forwards)
        if c.op is None or c.op.own_name in DIFFERENTIABLE:
            continue
        if c.op.derivative is None or isinstance(c.dtype, TupleType):
            how = "write it with tm.sum, tm.product, tm.max or tm.min"
            if not isinstance(c.dtype, TupleType):
                how += f", or give tm.operator({c.op.name!r}, ..., derivative=lambda result, term: ...)"
            raise DeclarationError(
                f"{name} is a reduction by {c.op}, whose derivative is not known: {how}, or leave out of wrt= what it "
                "depends on"
            )


def _check_stage(c: Computation, forwards: bool) -> None:
    assert isinstance(c.expr, StageCall)
    what = f"{c.name} is computed by {c.expr}, a C function over whole arrays whose derivative"
    if forwards:
        raise DeclarationError(
            f"{what} is known backwards alone, if it has adjoint=: use tm.vjp, leave out of wrt= what it depends on, "
            "or write it as computations"
        )
    if c.expr.stage.adjoint is None:
        raise DeclarationError(
            f"{what} is not known: give tm.extern_stage({c.expr.function!r}, ..., adjoint=lambda ...), leave out of "
            "wrt= what it depends on, or write it as computations"
        )

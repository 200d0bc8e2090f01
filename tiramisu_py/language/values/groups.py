"""The order of declarations: each value after those that it reads, and those that read each other together."""

from __future__ import annotations

from collections.abc import Sequence

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.traversal import accesses
from tiramisu_py.function.arrays import ProgramValue


def in_order(values: Sequence[ProgramValue]) -> list[list[ProgramValue]]:
    """The strongly connected components of reads, producers first (Tarjan), in the order of the source otherwise."""
    known = {each.name: each for each in values}
    reads = {each.name: _reads(each, known) for each in values}
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[ProgramValue]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for each in reads[name]:
            if each not in index:
                visit(each)
                low[name] = min(low[name], low[each])
            elif each in stack:
                low[name] = min(low[name], index[each])
        if low[name] == index[name]:
            at = stack.index(name)
            members = set(stack[at:])
            del stack[at:]
            found.append([each for each in values if each.name in members])

    for each in values:
        if each.name not in index:
            visit(each.name)
    return found


def _reads(value: ProgramValue, known: dict[str, ProgramValue]) -> list[str]:
    return [name for name in sources_of(value) if name in known]


def sources_of(value: ProgramValue) -> list[str]:
    """The names of what a value reads, also in its bounds and its condition."""
    whole = [value.expr, *(e for e in (value.where,) if e is not None)]
    for bound in [*value.domain.values(), *value.over.values()]:
        ends = bound if isinstance(bound, tuple) else (bound,)
        whole += [each for each in ends if isinstance(each, Expr)]
    return list(dict.fromkeys(a.source for e in whole for a in accesses(e)))

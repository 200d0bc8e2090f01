"""Loads of programs without products: what they load is read where it is, and early for the next program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tiramisu_py.algorithm.expressions import BITWISE, COMPARISONS, Access, Binary, Const, Expr, Iter, Param, Select
from tiramisu_py.algorithm.traversal import accesses, walk
from tiramisu_py.function.arrays import ProgramValue
from tiramisu_py.language.launched import KernelRun
from tiramisu_py.language.schedules.placement import PlacedValues, axes_of, statement
from tiramisu_py.language.schedules.product_tiles import terms_of, tried
from tiramisu_py.language.values.groups import sources_of
from tiramisu_py.schedule.command_fields import OnStatements

#: The operators of masks at whose borders loops are cut, so that no element is asked.
_OF_BORDERS = {"+", "-", "*", BITWISE[0], *COMPARISONS}


def read_in_place(run: KernelRun) -> KernelRun:
    """Inline the loads whose elements lie one after another for all that read them; the run of the other values.

    A block that is loaded is a panel for a product, which goes through it many times: loads of runs with products stay.
    For rows a copy is one more pass, in which nothing is computed while the memory is waited for. What has commands of
    the user keeps its block.
    """
    present = [value for value in run.values if run.function.program.statements_of(value.name)]
    chosen = {each.computation for each in run.function.commands if isinstance(each, OnStatements)}
    kept = list(present)
    for value in present if _without_products(run) else ():
        readers = [each for each in present if value.name in sources_of(each)]
        along = bool(readers) and all(_reads_along(run, reader, value) for reader in readers)
        if along and value.name not in chosen and _is_load(run, value) and tried(run, run.function[value.name].inline):
            kept.remove(value)
    return replace(run, values=tuple(kept))


def load_early(run: KernelRun, whole: PlacedValues) -> None:
    """Prefetch what the next program reads, where a program reads it more than once: in the last loop that does.

    What a program computes then goes on while the elements of the next one are on their way.
    """
    inputs, last = run.function.program.algorithm.inputs, dict[str, list[ProgramValue]]()
    for value in whole.values if whole.programs and _without_products(run) else ():
        for name in _read_by(run, value):
            if name in inputs:
                last.setdefault(name, []).append(value)
    for name, values in last.items():
        if len(values) > 1:
            _prefetch(run, values[-1], name, whole.programs[-1])


def _prefetch(run: KernelRun, value: ProgramValue, name: str, program: Iter) -> None:
    """Prefetch what a value of the next program reads of an array, if its place is known by then."""
    tried(run, lambda: statement(run, value).prefetch(run.function[name], program, 1))


def _read_by(run: KernelRun, value: ProgramValue) -> list[str]:
    """The names of what a value reads now that loads are inlined."""
    reading = run.function.program.statements[statement(run, value).statement_names()[-1]]
    parts = (reading.body, *reading.guards)
    return list(dict.fromkeys(access.source for part in parts for access in accesses(part)))


def _without_products(run: KernelRun) -> bool:
    """Whether no block with rows and columns is a sum of terms of its own."""
    blocks = [value for value in run.values if value.name not in run.stored and len(axes_of(run, value)) >= 2]
    return not any(terms_of(run, value) for value in blocks)


def _is_load(run: KernelRun, value: ProgramValue) -> bool:
    """Whether a value is an array's element, or another one beyond a mask of sizes, along its last axis in memory."""
    axes, expr = axes_of(run, value), value.expr
    if value.over or not axes or value.name in run.stored or value.name in sources_of(value):
        return False
    access = expr.yes if isinstance(expr, Select) else expr
    if not isinstance(access, Access) or len(accesses(expr)) != 1 or not access.indices:
        return False
    if isinstance(expr, Select) and not all(map(_has_borders, walk(expr.condition))):
        return False
    *others, last = access.indices
    along = any(isinstance(each, Iter) and each.name == axes[-1].name for each in walk(last))
    return along and not any(isinstance(p, Iter) and p.name == axes[-1].name for each in others for p in walk(each))


def _has_borders(part: Expr) -> bool:
    """Whether a part of a mask is of iterators and sizes alone, by operators at whose borders loops are cut."""
    if isinstance(part, Binary):
        return part.op in _OF_BORDERS
    return isinstance(part, Iter | Param | Const)


def _reads_along(run: KernelRun, reader: ProgramValue, value: ProgramValue) -> bool:
    """Whether a value reads another one along its own last axis, or along one of its terms."""
    ways = {each.name for each in (*list(reader.domain)[-1:], *terms_of(run, reader))}
    parts: Sequence[Expr] = (reader.expr, *(each for each in (reader.where,) if each is not None))
    reads = [each for part in parts for each in accesses(part) if each.source == value.name]
    last = [each.indices[-1] if each.indices else None for each in reads]
    return bool(reads) and all(isinstance(each, Iter) and each.name in ways for each in last)

"""The boxes of elements that a transfer copies at a time."""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.domains.runs import Run
from tiramisu_py.algorithm.expressions import Access
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.lower.operations.transfer_spans import RunSpan, runs_of, spans_of
from tiramisu_py.lower.statements.index_set_splitting import point_forms
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.program.storage import Storage
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class TransferBox:
    """For iterations of the loops outside: the first index in the source, the extents, and the first in the target."""

    outside: isl.Set
    first: list[isl.PwAff]
    extents: list[isl.PwAff]
    into: list[isl.PwAff]
    #: Of values in runs, what says which of the elements are copied.
    spans: list[RunSpan]


def boxes_of(program: Program, statement: Statement) -> tuple[int, list[TransferBox]]:
    """The number of loops that the host runs for a transfer, and the boxes that it copies in each of their iterations.

    These are the loops outside of the bulk, and the fewest inner ones that leave boxes to copy.
    """
    instances = statement.instances.intersect_params(program.context).coalesce()
    if instances.is_empty():
        return program.host_depth(statement), []
    within = runs_of(program, statement)
    for depth in range(program.host_depth(statement), len(statement.loops) + 1):
        whole = _box(program, statement, instances, depth, within)
        if whole is not None:
            return depth, [whole]
        parts = [_box(program, statement, part, depth, within) for part in sets.basic_sets(instances)]
        found = [part for part in parts if part is not None]
        if len(found) == len(parts):
            return depth, found
    raise CompilerDefect(
        f"transfer {statement.name} copies between places of different shape: give {statement.source} one layout "
        "on both devices"
    )


def storages_of(program: Program, statement: Statement) -> tuple[Storage, Storage]:
    """The storages of the values before and after the transfer."""
    return program.storage_for(statement, statement.source), program.storages[statement.memory.target]


def _box(
    program: Program, statement: Statement, instances: isl.Set, depth: int, within: list[Run]
) -> TransferBox | None:
    source, target = storages_of(program, statement)
    at_source = _elements(program, statement, source, _read(program, statement))
    at_target = _elements(program, statement, target, sets.outputs(program.value_of(statement)))
    rank = len(at_source)
    if rank != len(at_target):
        return None
    outside = sets.graph(statement.prefix(depth), instances)
    moved = [b.sub(a) for a, b in zip(at_source, at_target, strict=True)]

    def images(forms: Sequence[isl.Aff]) -> isl.Map:
        values = sets.graph(sets.function(statement.frame, None, list(forms)))
        return outside.reverse().apply_range(values).coalesce()

    relation = images([*at_source, *moved])
    elements, distance = sets.out_parts(relation, 0, rank), sets.out_parts(relation, rank, rank)
    lows, highs = sets.component_bounds(elements)
    domain = elements.domain()
    if not distance.is_single_valued():
        return None
    if not sets.box(lows, highs, domain.get_space()).intersect_domain(domain).is_subset(elements):
        return None
    spans = spans_of(within, at_source, images)
    if spans is None:
        return None
    apart, _ = sets.component_bounds(distance)
    into = [low.add(by) for low, by in zip(lows, apart, strict=True)]
    extents = [sets.extent_between(low, high) for low, high in zip(lows, highs, strict=True)]
    first, extents, into = ([form.gist(domain) for form in forms] for forms in (lows, extents, into))
    return TransferBox(domain, first, extents, into, spans)


def _read(program: Program, statement: Statement) -> list[isl.Aff]:
    """The indices of the value that a transfer copies."""
    body = statement.body
    reader = Affine(statement.frame, point_forms(program, statement))
    try:
        assert isinstance(body, Access)
        return [reader.single(index) for index in body.indices]
    except NotAffine as failure:
        raise CompilerDefect(f"transfer {statement.name} copies {body}, whose index is not affine") from failure


def _elements(program: Program, statement: Statement, storage: Storage, value: list[isl.Aff]) -> list[isl.Aff]:
    frame = statement.prefix(len(program.frame(storage)))
    operands = sets.function(statement.frame, None, [*sets.outputs(frame), *value])
    return sets.outputs(sets.compose(operands, storage.index))

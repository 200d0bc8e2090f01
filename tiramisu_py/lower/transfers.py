"""Transfers as copies of boxes: the loops from the first bulk one on are one copy, of as many elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Access, Expr
from tiramisu_py.errors import UnsupportedError
from tiramisu_py.lower.arrays import array_name
from tiramisu_py.lower.ir import Copy
from tiramisu_py.lower.operations import Operation, Template
from tiramisu_py.lower.pieces import Piece, point_forms
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.program.storage import Storage


@dataclass(frozen=True, eq=False)
class Box:
    """For iterations of the loops outside: the least index of the source, the extents, and target less source."""

    outside: isl.Set
    first: list[isl.PwAff]
    extents: list[isl.PwAff]
    into: list[isl.PwAff]


def copies(program: Program, statement: Statement, operation: Statement) -> list[Operation]:
    """A transfer as copies; `operation` is the statement that stands for it among those of the host."""
    assert statement.transfer is not None
    boxes = _boxes(program, statement)
    found = []
    for number, box in enumerate(boxes):
        name = operation.name if len(boxes) == 1 else f"{operation.name}#{number}"
        piece = Piece(name, operation, sets.named(box.outside, name), statement.body)
        found.append(_copy(program, statement, piece, box))
    return found


def _copy(program: Program, statement: Statement, piece: Piece, box: Box) -> Operation:
    transfer = statement.transfer
    assert transfer is not None
    here = sets.identity(piece.frame)
    source, target = _storages(program, statement)
    source_buffer, target_buffer = program.buffers[source.buffer], program.buffers[target.buffer]
    template = Template()

    def places(forms: list[isl.PwAff]) -> tuple[Expr, ...]:
        return template.places([sets.pulled(form, here) for form in forms])

    copy = Copy(
        target=array_name(target_buffer, transfer.target),
        target_device=transfer.target,
        into=places(box.into),
        source=array_name(source_buffer, transfer.source),
        source_device=transfer.source,
        first=places(box.first),
        extents=places(box.extents),
        dtype=target_buffer.dtype,
        device=transfer.device,
        stream=transfer.stream,
        asynchronous=transfer.asynchronous,
        statement=statement.name,
    )
    return Operation(piece, tuple(template.forms), copy, frozenset({copy.source, copy.target}))


def _storages(program: Program, statement: Statement) -> tuple[Storage, Storage]:
    return program.storage_for(statement, statement.source), program.storages[statement.target]


def _boxes(program: Program, statement: Statement) -> list[Box]:
    """The boxes that a transfer copies; raises `UnsupportedError` where what it copies at a time is none."""
    instances = statement.instances.intersect_params(program.context).coalesce()
    if instances.is_empty():
        return []
    whole = _box(program, statement, instances)
    if whole is not None:
        return [whole]
    parts = [_box(program, statement, part) for part in sets.basic_sets(instances)]
    if any(part is None for part in parts):
        outer = ", ".join(program.loop_names(statement)[: program.host_depth(statement)]) or "all loops"
        raise UnsupportedError(
            f"transfer {statement.name} is one operation for each iteration of ({outer}), and the elements that it copies "
            "then are no box: collapse fewer loops, or copy a box that contains them"
        )
    return [cast(Box, part) for part in parts]


def _box(program: Program, statement: Statement, instances: isl.Set) -> Box | None:
    source, target = _storages(program, statement)
    at_source = _elements(program, statement, source, _read(program, statement))
    at_target = _elements(program, statement, target, sets.outputs(program.value_of(statement)))
    rank = len(at_source)
    if rank != len(at_target):
        return None
    outside = sets.graph(statement.prefix(program.host_depth(statement)), instances)
    moved = [b.sub(a) for a, b in zip(at_source, at_target, strict=True)]
    both = sets.function(statement.frame, None, [*at_source, *moved])
    relation = outside.reverse().apply_range(sets.graph(both)).coalesce()
    elements, distance = sets.out_parts(relation, 0, rank), sets.out_parts(relation, rank, rank)
    lows, highs = sets.component_bounds(elements)
    domain = elements.domain()
    if not distance.is_single_valued():
        return None
    if not sets.box(lows, highs, domain.get_space()).intersect_domain(domain).is_subset(elements):
        return None
    apart, _ = sets.component_bounds(distance)
    into = [low.add(by) for low, by in zip(lows, apart, strict=True)]
    extents = [sets.extent_between(low, high) for low, high in zip(lows, highs, strict=True)]
    listed = [[form.gist(domain) for form in forms] for forms in (lows, extents, into)]
    return Box(domain, *listed)


def _read(program: Program, statement: Statement) -> list[isl.Aff]:
    """The indices of the value that a transfer copies."""
    body = statement.body
    reader = Affine(statement.frame, point_forms(program, statement))
    try:
        assert isinstance(body, Access)
        return [reader.single(index) for index in body.indices]
    except NotAffine as failure:
        raise UnsupportedError(f"transfer {statement.name} copies {body}, whose index is not affine") from failure


def _elements(program: Program, statement: Statement, storage: Storage, value: list[isl.Aff]) -> list[isl.Aff]:
    frame = statement.prefix(len(program.frame(storage)))
    operands = sets.function(statement.frame, None, [*sets.outputs(frame), *value])
    return sets.outputs(sets.compose(operands, storage.index))

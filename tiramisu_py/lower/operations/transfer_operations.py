"""Transfers as copies of boxes: the loops from the first bulk loop on become one copy of all their elements."""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.ir import Copy
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.ir.rewriting import loads_in
from tiramisu_py.lower.operations.transfer_boxes import TransferBox, boxes_of, storages_of
from tiramisu_py.lower.operations.transfer_spans import narrowed
from tiramisu_py.lower.statements.index_set_splitting import DomainPiece
from tiramisu_py.lower.statements.instances import array_name
from tiramisu_py.lower.statements.operation import LoweredOperation, Template
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement


def copies(program: Program, statement: Statement, operation: Statement) -> list[LoweredOperation]:
    """A transfer as copies; `operation` is the statement that represents it in the host's part."""
    assert statement.link.transfer is not None
    _, boxes = boxes_of(program, statement)
    found = []
    for number, box in enumerate(boxes):
        name = operation.name if len(boxes) == 1 else f"{operation.name}#{number}"
        piece = DomainPiece(name, operation, sets.named(box.outside, name), statement.body)
        found.append(_copy(program, statement, piece, box))
    return found


def _copy(program: Program, statement: Statement, piece: DomainPiece, box: TransferBox) -> LoweredOperation:
    transfer = statement.link.transfer
    assert transfer is not None
    here = sets.identity(piece.frame)
    source, target = storages_of(program, statement)
    source_buffer, target_buffer = program.buffers[source.buffer], program.buffers[target.buffer]
    template = Template()

    def places(forms: Sequence[isl.PwAff]) -> tuple[Expr, ...]:
        return template.places([sets.pulled(form, here) for form in forms])

    into, first, extents = places(box.into), places(box.first), places(box.extents)
    for axis, (begin, count) in narrowed(program, box.spans, places).items():
        moved = arithmetic.subtracted(into[axis], first[axis])
        into = (*into[:axis], arithmetic.added(begin, moved), *into[axis + 1 :])
        first = (*first[:axis], begin, *first[axis + 1 :])
        extents = (*extents[:axis], count, *extents[axis + 1 :])
    copy = Copy(
        target=array_name(target_buffer, transfer.target),
        target_device=transfer.target,
        into=into,
        source=array_name(source_buffer, transfer.source),
        source_device=transfer.source,
        first=first,
        extents=extents,
        dtype=target_buffer.dtype,
        device=transfer.device,
        stream=transfer.stream,
        asynchronous=transfer.asynchronous,
        statement=statement.name,
    )
    used = {load.buffer for extent in extents for load in loads_in(extent)}
    return LoweredOperation(piece, tuple(template.forms), copy, frozenset({copy.source, copy.target, *used}))

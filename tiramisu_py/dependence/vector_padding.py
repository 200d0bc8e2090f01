"""Padded vector loops, whose trip count is rounded up to whole vectors: the iterations past the end, and their storage.

Before: ``for c in 0 .. C vector(16): t[c] = ..``, t of C elements. After: ``for c in 0 .. (C + 15) // 16 * 16``, t of
that many elements. An instance past the end is not one of the algorithm's: nothing reads the element that it stores.
"""

from __future__ import annotations

from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declare.soundness import box
from tiramisu_py.algorithm.domains.affine import NotAffine
from tiramisu_py.algorithm.expressions import Const, Expr
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.program.loops import Loop, Vector
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement
from tiramisu_py.program.storage import Buffer
from tiramisu_py.records import dataclass

#: The key under which a statement keeps its whole vectors, which its proof and its lowering ask for again.
_KEPT = "_whole_vectors"


@dataclass(frozen=True, eq=False)
class _Kept:
    """The whole vectors of a statement (None if they are no instances), for a width and a context."""

    width: int
    context: isl.Set
    whole: Statement | None
    past: Statement | None


def padded_loop(program: Program, statement: Statement) -> Loop | None:
    """The padded vector loop of a statement; None without one, in a kernel, or if the loop combines partial results."""
    if program.kernel_of(statement) is not None:
        return None
    loops = (program.loops[number] for number in statement.loops)
    return next((loop for loop in loops if _is_padded(loop)), None)


def _is_padded(loop: Loop) -> bool:
    return isinstance(loop.tag, Vector) and loop.tag.remainder == "pad" and loop.tag.combine is None


def in_whole_vectors(program: Program, statement: Statement) -> Statement | None:
    """A statement with its innermost loop extended to whole vectors, if that is a padded loop.

    None if iterations past the end cannot be instances, since the loops do not determine the instance.
    """
    found = _kept(program, statement)
    return None if found is None else found.whole


def past_the_end(program: Program, statement: Statement) -> Statement | None:
    """The statement with only the iterations past the end as instances; None as in `in_whole_vectors`."""
    found = _kept(program, statement)
    return None if found is None else found.past


def _kept(program: Program, statement: Statement) -> _Kept | None:
    """The whole vectors of a statement, found once: it never changes. None without a padded innermost loop."""
    loop = padded_loop(program, statement)
    if loop is None or loop.id != statement.loops[-1] or not isinstance(loop.tag, Vector):
        return None
    width, context = loop.tag.width, program.context
    kept = statement.__dict__.get(_KEPT)
    if isinstance(kept, _Kept) and kept.width == width and kept.context is context:
        return kept
    instances = _whole_instances(statement, width, context)
    if instances is None:
        kept = _Kept(width, context, None, None)
    else:
        past = replace(statement, instances=instances.subtract(statement.instances).coalesce())
        kept = _Kept(width, context, replace(statement, instances=instances), past)
    statement.__dict__[_KEPT] = kept
    return kept


def _whole_instances(statement: Statement, width: int, context: isl.Set) -> isl.Set | None:
    """The instances of whole vectors; None if the loops do not determine the instance."""
    anywhere = sets.graph(statement.coords)
    if not anywhere.is_injective():  # an index of the instance may follow from others, as that of a partial result does
        anywhere = sets.graph(statement.coords, sets.as_set(statement.instances.affine_hull()))
    possible = statement.instances.intersect_params(context.params())
    run = possible.apply(statement.coords_map)
    whole = sets.in_whole_blocks(run, width)
    if not anywhere.is_injective() or not whole.is_subset(anywhere.range()):
        return None
    found = whole.apply(anywhere.reverse()).coalesce()
    return found if possible.is_subset(found) else found.union(statement.instances).coalesce()


def with_whole_vectors(program: Program) -> Program:
    """The program with the iterations past the end as instances: the form that is emitted after the proof."""
    found = (in_whole_vectors(program, statement) for statement in program.storing)
    return program.with_statement(*(statement for statement in found if statement is not None))


def loaded_past_the_end(program: Program) -> frozenset[str]:
    """The buffers from which iterations past the end may load."""
    padded = [statement for statement in program.storing if padded_loop(program, statement) is not None]
    if not padded:
        return frozenset()
    accesses = MemoryAccesses(program)
    loaded = ((statement, source) for statement in padded for source in accesses.sources(statement))
    return frozenset(program.storage_for(statement, source).buffer for statement, source in loaded)


# -- room


def with_room(program: Program) -> Program:
    """The program with its own buffers enlarged for the stores and loads of iterations past the end.

    The last extent that is not 1 is rounded up to a multiple of the vector width, and extended by another vector if
    that is not enough. If neither is, the buffer is left unchanged (the proof reports it).
    """
    if not any(map(_is_padded, program.loops.values())):
        return program
    for statement in program.storing:
        past = past_the_end(program, statement)
        loop = padded_loop(program, statement)
        if past is None or loop is None or not isinstance(loop.tag, Vector):
            continue
        accesses = MemoryAccesses(program)
        for access in (accesses.write(past), *(accesses.read(past, source) for source in accesses.sources(past))):
            if access is not None:
                elements = access.domain.apply(sets.graph(access.element))
                buffer = program.buffers[access.buffer.name]
                program = program.with_buffer(_with_room(program, buffer, elements, loop.tag.width))
    return program


def _with_room(program: Program, buffer: Buffer, elements: isl.Set, width: int) -> Buffer:
    if buffer.argument or not buffer.extents:
        return buffer
    axis = _last_of_several(buffer.extents)
    last = buffer.extents[axis]
    for extent in (last, _rounded(last, width), _rounded(last, width) + width):
        grown = replace(buffer, extents=(*buffer.extents[:axis], extent, *buffer.extents[axis + 1 :]), passed=None)
        if _holds(program, grown, elements):
            return grown
    return buffer


def _last_of_several(extents: tuple[Expr, ...]) -> int:
    """The last dimension that has several elements, along which vectors lie; the last one if none has."""
    found = [axis for axis, extent in enumerate(extents) if not (isinstance(extent, Const) and extent.value == 1)]
    return found[-1] if found else len(extents) - 1


def _rounded(extent: Expr, width: int) -> Expr:
    if isinstance(extent, Const):
        return replace(extent, value=-(-int(extent.value) // width) * width)
    return (extent + (width - 1)) // width * width


def _holds(program: Program, buffer: Buffer, elements: isl.Set) -> bool:
    space = sets.sized_frame(program.algorithm.param_space, buffer.name, len(buffer.extents))
    try:
        return bool(elements.is_subset(box(space, buffer.extents)))
    except NotAffine:
        return False

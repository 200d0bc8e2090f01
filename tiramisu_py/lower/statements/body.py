"""The code of one instance: a comment with the algorithm's line, and the store of its value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.declarations import Computation
from tiramisu_py.algorithm.expression_text import text_of
from tiramisu_py.algorithm.expressions import Call, Expr, ExternFunction, as_typed
from tiramisu_py.algorithm.operators import Operator
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.dependence.cases import chooses
from tiramisu_py.dependence.spare_updates import may_run_anywhere
from tiramisu_py.dependence.strided_lanes import StridedLanes, carries, contiguous_loop, strided_lanes
from tiramisu_py.ir import Block, Comment, Deferred, If, Load, Node, Store
from tiramisu_py.ir.arithmetic import build as arithmetic
from tiramisu_py.lower.statements.index_set_splitting import DomainPiece, iterator_names, pieces_of, point_forms
from tiramisu_py.lower.statements.prefetch import Lookahead
from tiramisu_py.lower.statements.store_places import Places
from tiramisu_py.lower.statements.templates import Forms, filled
from tiramisu_py.lower.statements.turned_rows import TurnedRow, turned_row
from tiramisu_py.lower.statements.wide_indices import with_wide_indices
from tiramisu_py.passes.vectors.remarks import COPIED, STRIDED
from tiramisu_py.program.loops import LoopId, Vector
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement
from tiramisu_py.program.statement_runs import run_bounds
from tiramisu_py.records import dataclass

#: Comments longer than this are cut.
COMMENT_WIDTH = 100


@dataclass(frozen=True, eq=False)
class Body:
    """The code of every instance of a piece, as templates over `forms` (a function of the instances).

    An update that may run `anywhere` does no harm where its guards do not hold. With `turned` it is that of another
    value of the row. A `remark` says what is slow or long in it.
    """

    piece: DomainPiece
    forms: isl.MultiAff
    comment: str
    guards: tuple[Expr, ...]
    buffer: str
    indices: tuple[Expr, ...]
    value: Expr
    update: Operator | None
    atomic: bool = False
    deferred: int = 0
    nontemporal: bool = False
    ahead: tuple[Lookahead, ...] = ()
    anywhere: bool = False
    remark: str = ""
    turned: TurnedRow | None = None

    def as_in_kernel(self, atomic: bool, deferred: int) -> Body:
        """The body in a kernel, where an update may have to be atomic, and a copy may be deferred."""
        return replace(self, atomic=atomic, deferred=deferred, nontemporal=False, ahead=(), anywhere=False)

    def at(self, values: Sequence[Expr]) -> Node:
        """The code for these values of the forms."""
        return self._at(values) if self.turned is None else self.turned.around(values, self._at)

    def _at(self, values: Sequence[Expr]) -> Node:
        indices = tuple(filled(index, values) for index in self.indices)
        value = filled(self.value, values)
        name = self.piece.statement.name
        store = Store(self.buffer, indices, value, name, self.update, self.atomic, self.nontemporal)
        early = [node for each in self.ahead for node in each.nodes((value, *indices))]
        remarks = (Comment(self.remark),) if self.remark else ()
        stored = Deferred(store, self.deferred) if self.deferred else store
        lines = Block((Comment(self.comment), *remarks, *early, stored))
        guard = arithmetic.conjunction(filled(guard, values) for guard in self.guards)
        return lines if guard is None else If(guard, lines, anywhere=self.anywhere)

    @property
    def buffers(self) -> frozenset[str]:
        """The buffers that it loads and stores."""
        row = () if self.turned is None else (self.turned.row,)
        nodes = [node for root in (self.value, *self.indices, *self.guards, *row) for node in walk(root)]
        return frozenset({self.buffer} | {node.buffer for node in nodes if isinstance(node, Load)})

    @property
    def externs(self) -> list[ExternFunction]:
        """The functions of the user that it calls."""
        nodes = (node for root in (self.value, *self.indices, *self.guards) for node in walk(root))
        return [node.extern for node in nodes if isinstance(node, Call) and node.extern is not None]


def bodies_of(program: Program, statement: Statement) -> list[Body]:
    """The code of the pieces of a statement outside of kernels."""
    remark = strided_remark(program, statement)
    return [body_of(program, piece, remark or copies_remark(program, piece)) for piece in pieces_of(program, statement)]


def body_of(program: Program, piece: DomainPiece, remark: str = "") -> Body:
    """The code of a piece, as one template for all its leaves in the generated code."""
    statement = piece.statement
    forms = Forms(statement.frame)
    places = Places(program, statement, forms, point_forms(program, statement))
    buffer, indices = places.target()
    dtype = program.buffers[program.storages[statement.memory.target].buffer].dtype
    value, update = _value(program, piece, places, Load(buffer, indices, dtype))
    needed = run_bounds(program, statement).needed(statement.guards) if statement.guards else ()
    guards = tuple(places.template(typed(with_wide_indices(guard))) for guard in needed)
    # the branch of a select is a part of the algorithm's line; an index that is wrapped or clipped is written as there
    written = piece.body if chooses(statement.body) else statement.body
    comment = algorithm_line(program, statement, written)
    turned = turned_row(program, statement, forms, places)
    whole = sets.from_frame(forms.function(), piece.frame)
    nontemporal = statement.memory.nontemporal is not None and update is None
    anywhere = may_run_anywhere(program, statement)
    return Body(
        piece, whole, comment, guards, buffer, indices, value, update, nontemporal=nontemporal, anywhere=anywhere,
        remark=remark, turned=turned,
    )  # fmt: skip


def _value(program: Program, piece: DomainPiece, places: Places, stored: Load) -> tuple[Expr, Operator | None]:
    source = program.algorithm.source(piece.statement.source)
    term = places.template(typed(with_wide_indices(piece.body), source.dtype))
    if piece.statement.role is not Role.UPDATE:
        return as_typed(term, stored.dtype), None
    operator = _operator(source)
    return typed(operator(stored, term), stored.dtype), operator


def _operator(source: object) -> Operator:
    return cast(Operator, cast(Computation, source).op)


# -- comments

_ASSIGNMENTS = {"sum": "+=", "product": "*="}


def algorithm_line(program: Program, statement: Statement, body: Expr) -> str:
    """A statement as one line in the notation of the algorithm: ``C[i, j] += A[i, k] * B[k, j]``."""
    source = program.algorithm.source(statement.source)
    rank = len(source.iterators) if isinstance(source, Computation) else len(source.shape)
    indices = ", ".join(iterator_names(program, statement)[:rank])
    name = statement.source if statement.role is not Role.COPY else statement.memory.target
    place = f"{name}[{indices}]" if indices else name
    return _cut(_assignment(statement, source, place, body))


def _assignment(statement: Statement, source: object, place: str, value: Expr) -> str:
    body = text_of(value, COMMENT_WIDTH)  # a longer line is cut
    if statement.role is not Role.UPDATE:
        return f"{place} = {body}"
    operator = _operator(source)
    if operator.name in _ASSIGNMENTS:
        return f"{place} {_ASSIGNMENTS[operator.name]} {body}"
    return f"{place} = {operator.name}({place}, {body})"


def _cut(line: str) -> str:
    return line if len(line) <= COMMENT_WIDTH else f"{line[: COMMENT_WIDTH - 4]} ..."


# -- remarks on a statement, with the commands that help, if any are known


#: Copies of a body that are said.
FEWEST_COPIES = 4


def strided_remark(program: Program, statement: Statement) -> str:
    """``strided along i: a, b; b.interchange(j, i) and b.vectorize(j, 8) instead of ...``; "" for whole vectors.

    Commands are named if no two iterations of the other loop need an order, so that it may be the innermost one.
    """
    lanes = strided_lanes(program, statement)
    if lanes is None:
        return ""
    said = f"{STRIDED} {program.loops[lanes.loop].name}: {', '.join(lanes.arrays)}"
    if program.meets_ranks:
        return said
    usable = [each for each in statement.loops if program.loops[each].tag is None]
    loop = contiguous_loop(program, lanes, usable)
    if loop is None or carries(program, loop):
        return said
    return f"{said}; {_commands(program, lanes, loop)}"


def copies_remark(program: Program, piece: DomainPiece) -> str:
    """``copied 6 times around the point where (i == N // 2) & (j == 0); u.vectorize(j, 8) keeps one``; "" for one."""
    statement = piece.statement
    if (
        piece.around is None
        or piece.copies < FEWEST_COPIES
        or not statement.loops
        or program.kernel_of(statement) is not None
    ):
        return ""
    said = f"{COPIED} {piece.copies} times around the point where {text_of(piece.around)}"
    last = statement.loops[-1]
    if program.loops[last].tag is not None or program.meets_ranks or carries(program, last):
        return said
    return f"{said}; {statement.handle}.vectorize({program.loops[last].name}, 8) keeps one"


def _commands(program: Program, lanes: StridedLanes, loop: LoopId) -> str:
    statement, tag = lanes.statement, program.loops[lanes.loop].tag
    assert isinstance(tag, Vector)
    handle, names = statement.handle, program.loop_names(statement)
    before, after = statement.depth(loop), statement.depth(lanes.loop)
    moved = [*names[before + 1 : after + 1], names[before]]
    order = f"{handle}.{'interchange' if len(moved) == 2 else 'reorder'}({', '.join(moved)}) and "
    rest = "" if tag.remainder == "scalar" else f', remainder="{tag.remainder}"'
    new = f"{handle}.vectorize({names[before]}, {tag.width}{rest})"
    old = f"{handle}.vectorize({names[after]}, {tag.width}, ..)"
    return f"{order if before < after else ''}{new} instead of {old} make whole vectors"

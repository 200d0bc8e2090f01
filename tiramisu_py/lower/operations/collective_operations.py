"""Collective calls: the elements that each rank sends to, and receives from, each other rank in a call.

The two halves of a collective exchange are one operation of the host, in the loops that they share; every rank
executes it, even a rank that sends and receives nothing. If one rank sends the same elements, in the same order, to all
others, it is a broadcast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import Collective as Call
from tiramisu_py.ir import Node, Side
from tiramisu_py.lower.loops.boxes_of_points import Boxes, PointBoxes
from tiramisu_py.lower.operations.host_part import pieces_of_operation
from tiramisu_py.lower.operations.message_operations import Messages, Poster, strides_of
from tiramisu_py.lower.operations.message_runs import LongSide
from tiramisu_py.lower.statements.index_set_splitting import DomainPiece
from tiramisu_py.lower.statements.instances import array_name
from tiramisu_py.lower.statements.operation import LoweredOperation, Template
from tiramisu_py.program.loops import Rank
from tiramisu_py.program.ranks.collective_exchanges import Collective, collectives
from tiramisu_py.program.statement import Role, Statement


class Calls:
    """The collective calls of a program."""

    def __init__(self, messages: Messages) -> None:
        self.messages = messages
        self.found = {one.send.name: one for one in collectives(messages.program) if one.is_whole}

    def of(self, issued: Statement) -> list[LoweredOperation]:
        """The code of the statement that represents a collective exchange."""
        one = self.found[issued.name]
        return [self._operation(one, piece) for piece in pieces_of_operation(issued)]

    def _operation(self, one: Collective, piece: DomainPiece) -> LoweredOperation:
        template = Template()
        root = _Root(self.messages, one)
        halves = [root.first_peer(one.send) if root.is_one else one.send, one.receive]
        parts = [_Part(self.messages, half, one.depth, piece.frame, template) for half in halves]
        buffers = [self.messages.program.buffers[part.storage.buffer] for part in parts]
        source, target = (array_name(buffer, None) for buffer in buffers)
        if buffers[0].dtype != buffers[1].dtype:
            raise CompilerDefect(f"{one.name} sends elements of {buffers[0].dtype} and receives {buffers[1].dtype}")
        sends, receives = (part.elements(piece.instances) for part in parts)
        number = parts[0].rank_at(root.from_frame(piece.frame)) if root.is_one else None
        node = Call(source, target, buffers[0].dtype, sends, receives, number, one.name)
        used = (parts[0].within.arrays, parts[1].within.arrays)
        return LoweredOperation(piece, tuple(template.forms), node, frozenset({source, target}).union(*used))


class _Part(Poster):
    """One half of a call: elements to, or from, every other rank."""

    def __init__(
        self, messages: Messages, statement: Statement, depth: int, frame: isl.Space, template: Template
    ) -> None:
        super().__init__(messages, statement, depth, frame)
        self.template = template

    def elements(self, instances: isl.Set) -> Node:
        """Code that enumerates the elements as boxes, each with the rank at the other end."""
        statement, loops = self.statement, self.program.loops
        forms = sets.outputs(statement.coords)
        inner = [d for d in range(self.depth, len(forms)) if not loops[statement.loops[d]].is_rank]
        kept = sets.graph(
            sets.function(statement.frame, None, [*forms[: self.depth], *(forms[d] for d in inner)]), self.instances
        )
        bulk = sets.graph(sets.function(statement.frame, None, [forms[d] for d in inner]), self.instances)
        points = self.outside.reverse().apply_range(bulk)
        points = sets.domain_named(points, sets.tuple_name(self.frame)).intersect_domain(instances).coalesce()
        found, within = (
            sets.joined(sets.renamed(self._element(), None), sets.renamed(self.message.peer, None)),
            self.within,
        )
        runs_from, found = len(sets.outputs(found)), within.beside(found)
        of_kept = kept.reverse().apply_range(sets.graph(found, self.instances)).coalesce()
        single = sets.as_single_function(of_kept)
        steps = [None] * len(inner) if single is None else strides_of(single, self.depth)
        count = sets.out_size(self._element())
        names = [self.messages.variables[statement.loops[d]] for d in inner]

        def fits(depth: int, boxes: Boxes) -> bool:
            left = [step for step in steps[depth:] if step is not None and not any(step[count:runs_from])]
            return len(left) == len(inner) - depth and within.fit([left[side][runs_from:] for side in boxes.long])

        def of_box(depth: int, boxes: Boxes) -> list[isl.PwAff]:
            return [*self._first(1 + depth, boxes, of_kept), *boxes.extents]

        def code(depth: int, boxes: Boxes, values: Sequence[Expr]) -> Node:
            ends = len(values) - len(boxes.extents)
            sides = [(values[ends + side], steps[depth + side]) for side in boxes.long]
            long = [LongSide(Side(extent, s[:count]), s[runs_from:]) for extent, s in sides if s is not None]
            return within.part(values[:count], long, values[runs_from:ends], self.number(values[count:runs_from]))

        code_of = PointBoxes(points, self.template, self.program.context, names, fits, of_box, code, is_guarded=True)
        return code_of.enumerated()


class _Root:
    """The root of a call: the only rank that sends, if it sends the same elements to all others."""

    def __init__(self, messages: Messages, one: Collective) -> None:
        self.messages = messages
        self.program = messages.program
        self.one = one
        self.senders = self._ranks(one.send)
        self.is_one = self._is_one()

    @property
    def _names(self) -> Sequence[str]:
        return self.messages.ranked.coordinates

    def _ranks(self, half: Statement) -> isl.Map | None:
        """``call -> coordinates of the ranks`` that execute this half in it; None if an axis has no loop."""
        by_axis = {}
        for depth, number in enumerate(half.loops):
            tag = self.program.loops[number].tag
            if isinstance(tag, Rank):
                by_axis[tag.axis] = sets.outputs(half.coords)[depth]
        if len(by_axis) != len(self._names):
            return None
        executed = self._executed(half)
        rank = sets.graph(sets.function(half.frame, None, [by_axis[axis] for axis in sorted(by_axis)]), executed)
        found = sets.graph(self.one.call_of(half), executed).reverse().apply_range(rank)
        return sets.without_params(found, self._names).coalesce()

    def _executed(self, half: Statement) -> isl.Set:
        return half.instances.intersect_params(self.program.context.params())

    def _is_one(self) -> bool:
        receivers = self._ranks(self.one.receive)
        if self.senders is None or receivers is None or not self.senders.is_single_valued():
            return False
        if not receivers.is_disjoint(self.senders) or not self._are_all(self.senders.union(receivers)):
            return False
        return self._sends_one_thing()

    def _are_all(self, found: isl.Map) -> bool:
        """Whether each call has all ranks of the grid."""
        known = self.program.context.params()
        space = found.get_space().range()
        ranks = sets.universe(space).align_params(known.get_space())
        for form, name in zip(sets.variables(ranks.get_space()), self._names, strict=True):
            ranks = sets.where_equal(ranks, form, name)
        ranks = sets.without_params(ranks.intersect_params(known), self._names)
        return bool(isl.Map.from_domain_and_range(found.domain(), ranks).is_subset(found))

    def _sends_one_thing(self) -> bool:
        """Whether the elements sent, and their order, are the same for each peer."""
        send = self.one.send
        assert send.link.message is not None
        steps = strides_of(send.link.message.peer, 0) if sets.is_identity(send.coords) else [None]
        if None in steps or send.role is not Role.SEND:
            return False
        inner = range(self.one.depth, len(send.loops))
        forms = sets.outputs(send.coords)
        free = [d for d in inner if not self.program.loops[send.loops[d]].is_rank]
        chooses = [d for d in free if any(steps[d] or ())]
        element = sets.outputs(Poster(self.messages, send, self.one.depth, send.frame)._element())
        if any(sets.stride(form, d) != 0 for form in element for d in chooses):
            return False
        frame, executed = send.frame, self._executed(send)
        call = sets.graph(send.prefix(self.one.depth), executed)
        peer = sets.graph(sets.function(frame, None, sets.outputs(send.link.message.peer)), executed)
        chosen = sets.graph(sets.function(frame, None, [forms[d] for d in chooses]), executed)
        rest = sets.graph(sets.function(frame, None, [forms[d] for d in free if d not in chooses]), executed)
        of_peer = call.flat_range_product(peer).reverse().apply_range(chosen)
        each = call.reverse().apply_range(chosen).flat_range_product(call.reverse().apply_range(rest))
        both = call.reverse().apply_range(chosen.flat_range_product(rest))
        return bool(of_peer.is_single_valued() and each.is_subset(both))

    def first_peer(self, send: Statement) -> Statement:
        """The sends to the first of the peers."""
        assert send.link.message is not None
        executed = self._executed(send)
        call = sets.graph(send.prefix(self.one.depth), executed)
        peer = sets.graph(sets.renamed(send.link.message.peer, None), executed)
        first = call.reverse().apply_range(peer).lexmin()
        kept = call.flat_range_product(peer).intersect_range(sets.named(sets.flat_pairs(first, "first"), None))
        return replace(send, instances=sets.named(kept.domain(), send.name).coalesce())

    def from_frame(self, frame: isl.Space) -> isl.Map:
        """``iteration of the loops around -> coordinates of the root``."""
        assert self.senders is not None
        loops = self.one.send.loops[: self.one.depth]
        forms = sets.variables(frame)
        kept = [form for form, loop in zip(forms, loops, strict=True) if not self.program.loops[loop].is_rank]
        return sets.graph(sets.function(frame, None, kept)).apply_range(self.senders).coalesce()
